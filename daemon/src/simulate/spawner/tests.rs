//! The model against the real connection of fnd.

use super::contents::SourceContent;
use super::*;
use crate::workers::link::{Incoming, SpawnerConnection};
use fnd_wire::frame::{Hello, Lease, PROTOCOL_MIN, Spawn};
use std::path::Path;
use tokio::runtime::Runtime;

/// A spawner, and everything that a step needs.
struct Bench {
    spawner: SpawnerModel,
    files: Files,
    facts: FactLog,
    random: Rng,
    now: Now,
    /// The connection registers its socket here; no test waits for the socket.
    runtime: Runtime,
    connection: Option<SpawnerConnection>,
}

fn function() -> FunctionName {
    FunctionName::new("f").unwrap()
}

impl Bench {
    fn new(content: SourceContent) -> Self {
        let mut files = Files::default();
        files.save(function(), content);
        let now = Now {
            mono: Duration::from_secs(100),
            unix_ms: 1_000_000,
        };
        Self {
            spawner: SpawnerModel::new(),
            files,
            facts: FactLog::default(),
            random: Rng::with_seed(1),
            now,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            connection: None,
        }
    }

    fn act<T>(&mut self, act: impl FnOnce(&mut SpawnerModel, &mut SpawnerTurn<'_>) -> T) -> T {
        let mut turn = SpawnerTurn {
            now: self.now,
            files: &self.files,
            facts: &mut self.facts,
            temper: Temper::default(),
            random: &mut self.random,
        };
        act(&mut self.spawner, &mut turn)
    }

    /// Connects an fnd, and returns the frames that it gets before the configuration.
    fn connect(&mut self) -> Vec<Reply> {
        self.connection = None;
        let socket = self.act(|spawner, turn| spawner.connect(Path::new("/run/http"), turn));
        let inside = self.runtime.enter();
        self.connection = Some(SpawnerConnection::new(socket).unwrap());
        drop(inside);
        self.ask(&Request::Hello(Hello {
            min: PROTOCOL_MIN,
            max: PROTOCOL_MAX,
        }));
        let mut told = self.heard();
        assert!(
            matches!(told.pop(), Some(Reply::Settings(_))),
            "the configuration comes last"
        );
        told.drain(..2);
        told
    }

    fn ask(&mut self, request: &Request) {
        self.connection.as_mut().unwrap().send(request, Vec::new()).unwrap();
    }

    /// Returns the answers that fnd has.
    fn heard(&mut self) -> Vec<Reply> {
        let connection = self.connection.as_mut().unwrap();
        std::iter::from_fn(|| connection.receive().unwrap())
            .map(|Incoming { reply, .. }| reply)
            .collect()
    }

    /// Does everything that can be done without the help of time, except that processes go on.
    fn serve(&mut self) -> Vec<Reply> {
        loop {
            self.act(SpawnerModel::hear);
            let mut steps = Vec::new();
            self.spawner.steps(self.now, &mut steps);
            let Some(step) = steps.into_iter().find(|step| !matches!(step, SpawnerStep::Work(_))) else {
                return self.heard();
            };
            self.act(|spawner, turn| spawner.step(step, turn));
        }
    }

    fn install(&mut self) -> Reply {
        self.ask(&Request::Install(Install {
            directory: 0,
            function: function(),
            source: "f.py".to_owned(),
            sidecar: None,
            directory_form: false,
        }));
        self.serve().pop().unwrap()
    }

    fn order(&mut self, worker: u64, content: SourceContent) {
        self.ask(&Request::Spawn(Spawn {
            worker: WorkerId(worker),
            function: FunctionId(0),
            version: content.version(0),
            invocation: InvocationId(7),
            environment: Vec::new(),
            input: false,
            previous: false,
            lasts_ms: 0,
            record: Bytes(b"record".to_vec()),
        }));
    }

    fn defects(&mut self) -> Vec<Fact> {
        let mut facts = self.facts.take();
        facts.retain(|fact| matches!(fact, Fact::Violation(_)));
        facts
    }
}

#[test]
fn a_process_that_a_killed_fnd_has_asked_for_is_told_to_the_next_one_until_its_end_is_acknowledged() {
    let content = SourceContent(1);
    let mut bench = Bench::new(content);
    assert!(bench.connect().is_empty());
    assert!(matches!(bench.install(), Reply::Installed(installed) if installed.version == content.version(0)));
    bench.order(1, content);
    // The spawner reads the order only when the next fnd comes.
    let told = bench.connect();
    let [Reply::HeldWithChannel(held)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((held.spawned.worker, &held.record.0[..]), (WorkerId(1), &b"record"[..]));
    bench.ask(&Request::Kill(WorkerId(1)));
    let told = bench.serve();
    assert!(matches!(&told[..], [Reply::Done, Reply::Exited(_)]), "{told:?}");
    bench.now.unix_ms += 5;
    let told = bench.connect();
    let [Reply::HeldWithChannel(held), Reply::Exited(exited)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((held.spawned.pid, exited.late.map(|(ago, _)| ago)), (0, Some(5000)));
    bench.ask(&Request::Acknowledge(WorkerId(1)));
    assert!(bench.serve().is_empty() && bench.connect().is_empty());
    assert!(bench.defects().is_empty());
}

/// As the real one does (`spawner/src/workers/retained.rs`).
#[test]
fn a_sigterm_that_comes_after_the_end_is_told_to_the_next_fnd() {
    let content = SourceContent(0);
    let mut bench = Bench::new(content);
    bench.connect();
    bench.install();
    bench.order(1, content);
    bench.serve();
    bench.ask(&Request::Kill(WorkerId(1)));
    bench.serve();
    bench.ask(&Request::Term(WorkerId(1)));
    bench.serve();
    let told = bench.connect();
    let [Reply::Held(held), Reply::Exited(_)] = &told[..] else {
        panic!("{told:?}");
    };
    assert!(matches!(held.termed, Some((_, TermCause::Asked))), "{held:?}");
    assert!(bench.defects().is_empty());
}

/// As the real one does (`spawner/tests/leases.rs`).
#[test]
fn a_process_whose_lease_is_not_renewed_is_ended() {
    let content = SourceContent(0);
    let mut bench = Bench::new(content);
    bench.connect();
    bench.install();
    bench.order(1, content);
    bench.serve();
    let at = |bench: &mut Bench, seconds| {
        bench.now.mono = Duration::from_secs(seconds);
        bench.serve()
    };
    let lease = |bench: &mut Bench, until_ms| {
        let worker = WorkerId(1);
        bench.ask(&Request::Lease(Lease { worker, until_ms }));
        bench.serve()
    };
    assert_eq!(lease(&mut bench, Some(104_000)), [Reply::Done]);
    assert_eq!(at(&mut bench, 103), []);
    lease(&mut bench, Some(109_000));
    assert_eq!(at(&mut bench, 107), [], "it was renewed");
    lease(&mut bench, None);
    assert_eq!(at(&mut bench, 200), [], "it has ended, and the process goes on");
    lease(&mut bench, Some(201_000));
    let mut told = at(&mut bench, 202);
    told.extend(lease(&mut bench, Some(900_000)));
    told.extend(at(&mut bench, 208));
    let is_end = |reply: &Reply| matches!(reply, Reply::Exited(exited) if exited.late.is_some());
    assert!(told.iter().any(is_end), "it was renewed too late: {told:?}");
    let told = bench.connect();
    let [Reply::Held(held), Reply::Exited(_)] = &told[..] else {
        panic!("{told:?}");
    };
    assert!(matches!(held.termed, Some((_, TermCause::TimeUp))), "{held:?}");
    assert!(bench.defects().is_empty());
}

#[test]
fn a_dependency_is_built_before_a_function_is_installed_and_the_spawner_of_0_1_refuses_it() {
    let mut bench = Bench::new(SourceContent(5));
    bench.connect();
    assert!(matches!(bench.install(), Reply::NeedsBuild(_)));
    bench.spawner.replace(true);
    bench.act(|spawner, turn| spawner.killed(turn));
    bench.connect();
    assert!(matches!(bench.install(), Reply::Refused(_)));
    assert!(bench.defects().is_empty());
    bench.ask(&Request::Retire(FunctionId(0)));
    bench.act(SpawnerModel::hear);
    bench.act(|spawner, turn| spawner.step(SpawnerStep::Request, turn));
    assert_eq!(bench.defects().len(), 1, "that spawner does not know the request");
}

#[test]
fn the_ends_that_a_stopped_spawner_has_kept_are_told_by_the_next_one() {
    let content = SourceContent(0);
    let mut bench = Bench::new(content);
    bench.connect();
    bench.install();
    bench.order(1, content);
    bench.serve();
    bench.act(|spawner, turn| spawner.stopped(turn));
    let told = bench.connect();
    assert!(matches!(&told[..], [Reply::Held(_), Reply::Exited(_)]), "{told:?}");
    bench.order(2, content);
    assert!(matches!(&bench.serve()[..], [Reply::Spawned(_)]), "the numbers go on");
    bench.act(|spawner, turn| spawner.killed(turn));
    assert!(bench.connect().is_empty(), "a killed spawner has kept nothing");
    assert!(bench.defects().is_empty());
}
