//! A small world around the supervisor: a spawner that answers at any time, a ledger that answers late, and checks of
//! all invariants.

mod judge;

use super::bench::{EPOCH_MS, MIB, exit, id, name, rules, secs, text};
use crate::manifest::Listen;
use crate::outcome::{Class, Reason, Trigger};
use crate::record::{Accepted, InvocationRecord};
use crate::supervisor::{
    Action, Adopted, AdoptedMember, Answered, Event, Exited, FunctionKind, Http, Installed, NodeBudget, Now, Overlap,
    Poll, Pool, QueueRules, ReplyTo, Restored, Rules, Service, SpawnOrder, Submit, Supervisor,
};
use fnd_wire::frame::{ExitStatus, TermCause};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

pub(super) const FUNCTIONS: u8 = 4;
/// The most retries any of [`variant`]'s rules allows.
const RETRIES: u32 = 2;
const BUDGET: NodeBudget = NodeBudget {
    memory: 100 * MIB,
    cpu_milli: Some(1500),
    workers: 5,
};

/// Everything that can happen to a supervisor. Numbers choose among the present items, modulo their count.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Submit {
        function: u8,
        wait: bool,
        timeout: bool,
        later: bool,
        expires: bool,
        keyed: bool,
    },
    Store {
        which: u8,
        fine: bool,
    },
    /// All claims that are being stored succeed, or all fail.
    Claim {
        fine: bool,
    },
    Spawn {
        which: u8,
        fine: bool,
    },
    /// The node could not start a worker.
    NoRoom {
        which: u8,
    },
    /// The spawner answers (`false`), or does not (`true`).
    Silence(bool),
    Exit {
        which: u8,
        code: u8,
        oom: bool,
        result: bool,
    },
    ExitAgain {
        worker: u8,
    },
    /// A handler's code was loaded, or could not be.
    Ready {
        which: u8,
        fine: bool,
    },
    /// A call is answered.
    Answer {
        which: u8,
        reason: Reason,
    },
    /// A worker closes the connection, sends an invalid message, or answers a call that it does not have.
    Break {
        which: u8,
        how: u8,
    },
    Cancel {
        which: u8,
    },
    Enable {
        function: u8,
        enabled: bool,
    },
    Install {
        function: u8,
        variant: u8,
    },
    Refuse {
        function: u8,
    },
    Remove {
        function: u8,
    },
    Wait {
        ms: u16,
    },
    WaitForDeadline,
    LoseSpawner,
    /// fnd goes down, by a crash or a hand-over; its workers survive or not.
    Restart {
        in_order: bool,
        workers_survive: bool,
        /// Number of workers that end while no fnd is running.
        exits: u8,
    },
    Budget {
        small: bool,
    },
}

/// Returns rules that differ as much as possible.
pub(super) fn variant(n: u8) -> Rules {
    let mut rules = rules();
    rules.memory = u64::from(10 + 15 * (n % 4)) * MIB;
    rules.cpu_milli = [None, Some(300), Some(700), Some(1500)][usize::from(n % 4)];
    rules.max_running = 1 + u32::from(n % 3);
    rules.timeout = (!n.is_multiple_of(5)).then(|| Duration::from_millis(u64::from(n) * 700));
    rules.grace = secs(u64::from(n % 3));
    rules.deadline = (n % 4 == 1).then(|| secs(20));
    rules.retry.retries = u32::from(n % 3).min(RETRIES);
    rules.retry.backoff.jitter = crate::backoff::Jitter::Equal;
    if n.is_multiple_of(2) {
        rules.retry.on.push(Class::Interrupted);
    }
    rules.poll = (n % 3 == 1).then_some(Poll {
        repeat: secs(2),
        until: secs(9),
    });
    rules.queue = QueueRules {
        max: u32::from(n % 4),
        overlap: [
            Overlap::Queue,
            Overlap::Skip,
            Overlap::Replace,
            Overlap::Reject,
            Overlap::Queue,
        ][usize::from(n % 5)],
        rate: (n % 7 == 3).then_some((3, secs(5))),
    };
    rules.run_on_load = n % 3 == 2;
    rules.enabled = n % 11 != 10;
    let pool = Pool {
        min: u32::from(n % 5 == 3),
        most: rules.max_running + u32::from(n % 8 == 5),
        concurrency: 1 + u32::from(n % 3),
        idle: (n % 7 != 1).then(|| secs(4)),
        max_invocations: u32::from(n % 4) * 2,
        // Fresh workers with a maximum age and without an idle limit would be replaced for ever.
        max_age: (n % 5 == 4 && n % 8 != 5).then(|| secs(12)),
        spare: (n % 8 == 5).then_some(1),
        load_max: secs(3),
        alone: n % 6 == 1 && rules.max_running == 1,
    };
    let http = Http {
        listen: Listen::Free,
        ready: None,
    };
    rules.kind = match n {
        _ if n % 4 == 1 => FunctionKind::Http(pool, http),
        _ if n % 2 == 1 => FunctionKind::Handler(pool),
        _ if n % 10 == 4 => FunctionKind::Service(Service {
            replicas: rules.max_running,
            ready: (n % 20 == 4).then(|| "/".to_owned()),
            start_timeout: secs(2),
        }),
        _ => FunctionKind::Script,
    };
    if rules.kind.is_service() {
        (rules.timeout, rules.deadline) = (None, None);
    }
    rules.run_on_load &= rules.kind == FunctionKind::Script;
    rules
}

/// A worker as the spawner sees it.
struct Process {
    order: SpawnOrder,
    /// The adoption record at the spawner, and the worker's start.
    record: String,
    since: Duration,
    memory: u64,
    cpu_milli: u32,
    grace: Duration,
    started: bool,
    term: Option<Duration>,
    killed: bool,
    /// For a handler: most calls at once; absent before it is ready.
    ready: Option<usize>,
    calls: BTreeMap<u64, InvocationId>,
    served: u32,
    stopped: bool,
    /// Whether it broke the protocol, so that it may be killed at once.
    broken: bool,
}

impl Process {
    fn is_pooled(&self) -> bool {
        self.order.attempt.is_none()
    }

    /// Says whether it will end by itself.
    fn is_to_end(&self) -> bool {
        !self.is_pooled() || self.stopped || self.term.is_some() || self.killed || self.broken
    }
}

/// An invocation as the ledger sees it.
struct Entry {
    accepted: Accepted,
    stored: bool,
    record: Option<InvocationRecord>,
    /// Number of attempts whose end is recorded.
    ended: u32,
    /// The claim that is being stored, and the attempt whose claim is stored.
    claim: Option<InvocationRecord>,
    claimed: Option<u32>,
    /// The newest attempt that a function has seen.
    begun: u32,
}

pub(super) struct World {
    s: Supervisor,
    now: Now,
    ids: u128,
    replies: u64,
    calls: u64,
    budget: NodeBudget,
    /// Versions and rules of the installed functions.
    installed: BTreeMap<FunctionName, (Version, Rules)>,
    refused: BTreeSet<FunctionName>,
    disabled: BTreeSet<FunctionName>,
    loaded: BTreeSet<(FunctionName, Version)>,
    ledger: BTreeMap<InvocationId, Entry>,
    to_store: Vec<InvocationId>,
    to_claim: Vec<InvocationId>,
    processes: BTreeMap<WorkerId, Process>,
    /// Services for which a run was requested.
    requested: Vec<FunctionName>,
    /// Answers that callers still wait for.
    owed: BTreeSet<ReplyTo>,
    spawner: bool,
    /// Whether the spawner does not answer.
    silent: bool,
    next_worker: u64,
    draining: bool,
    stopping: bool,
    drained: bool,
    /// All actions of the supervisor as text, to compare two runs.
    pub(super) log: String,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let now = Now {
            mono: secs(1),
            unix_ms: EPOCH_MS + 1000,
        };
        let mut world = Self {
            s: Supervisor::new(seed, BUDGET, WorkerId(1)),
            now,
            ids: 0,
            replies: 0,
            calls: 0,
            budget: BUDGET,
            installed: BTreeMap::new(),
            refused: BTreeSet::new(),
            disabled: BTreeSet::new(),
            loaded: BTreeSet::new(),
            ledger: BTreeMap::new(),
            to_store: Vec::new(),
            to_claim: Vec::new(),
            processes: BTreeMap::new(),
            requested: Vec::new(),
            owed: BTreeSet::new(),
            spawner: true,
            silent: false,
            next_worker: 1,
            draining: false,
            stopping: false,
            drained: false,
            log: String::new(),
        };
        for n in 0..FUNCTIONS {
            world.install(n, n);
        }
        world
    }

    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Submit { .. } => self.submit(step),
            Step::Store { which, fine } => {
                if let Some(at) = choose(which, self.to_store.len()) {
                    let id = self.to_store.remove(at);
                    self.stored(id, fine);
                }
            }
            Step::Claim { fine } => self.answer_claims(fine),
            Step::Spawn { which, fine } => self.answer_spawn(which, fine),
            Step::NoRoom { which } => self.no_room(which),
            Step::Silence(silent) => {
                self.silent = silent;
                self.handle(Event::SpawnerAnswers(!silent));
            }
            Step::Exit {
                which,
                code,
                oom,
                result,
            } => self.exit(which, code, (oom, result)),
            Step::ExitAgain { worker } => {
                let worker = WorkerId(u64::from(worker) % self.next_worker.max(1));
                if !self.processes.contains_key(&worker) {
                    self.handle(Event::Exited(Box::new(exit(worker.0, ExitStatus::Code(0)))));
                    self.handle(Event::Spawned(worker));
                }
            }
            Step::Ready { which, fine } => self.ready(which, fine),
            Step::Answer { which, reason } => self.answer(which, reason),
            Step::Break { which, how } => {
                let workers = self.some_processes(|process| process.is_pooled() && process.started);
                let Some(at) = choose(which, workers.len()) else { return };
                let worker = workers[at];
                self.processes.get_mut(&worker).unwrap().broken = true;
                self.handle(match how % 3 {
                    0 => Event::Closed(worker),
                    1 => Event::Broken {
                        worker,
                        message: "nonsense".to_owned(),
                    },
                    // A call number above all others, including those of workers that were handed over.
                    _ => answered(worker, u64::MAX, Reason::Ok),
                });
            }
            Step::Cancel { which } => {
                let id = id(u128::from(which) % (self.ids + 1));
                let reply = self.reply();
                self.handle(Event::Cancel { id, reply });
            }
            Step::Enable { function, enabled } => {
                let (function, reply) = (nth(function), self.reply());
                self.handle(Event::SetEnabled {
                    function,
                    enabled,
                    reply,
                });
            }
            Step::Install { function, variant } => self.install(function, variant),
            Step::Refuse { function } => {
                let function = nth(function);
                if !self.installed.contains_key(&function) {
                    self.refused.insert(function.clone());
                }
                let error = "bad".to_owned();
                self.handle(Event::Refused { function, error });
            }
            Step::Remove { function } => {
                self.installed.remove(&nth(function));
                self.refused.remove(&nth(function));
                self.handle(Event::Removed(nth(function)));
            }
            Step::Wait { ms } => self.pass(Duration::from_millis(ms.into())),
            Step::WaitForDeadline => {
                if let Some(at) = self.s.next_deadline() {
                    self.pass(at - self.now.mono);
                }
            }
            Step::LoseSpawner => {
                self.spawner = false;
                self.processes.clear();
                self.handle(Event::SpawnerLost);
                // fnd ends when the spawner is lost.
                self.restart(false, false, 0);
            }
            Step::Restart {
                in_order,
                workers_survive,
                exits,
            } => self.restart(in_order, workers_survive, exits),
            Step::Budget { small } => {
                self.budget.memory = if small { 60 * MIB } else { BUDGET.memory };
                self.s.set_budget(self.budget);
                self.handle(Event::Tick);
            }
        }
    }

    fn submit(&mut self, step: &Step) {
        let Step::Submit {
            function,
            wait,
            timeout,
            later,
            expires,
            keyed,
        } = *step
        else {
            unreachable!("the caller matched it");
        };
        let (id, reply) = (self.id(), self.reply());
        let ahead = |ms, wanted: bool| wanted.then(|| self.now.unix_ms + ms);
        let submit = Submit {
            reply: Some(reply),
            wait,
            timeout: timeout.then(|| secs(1)),
            not_before_ms: ahead(1500, later),
            expires_ms: ahead(2500, expires),
            priority: if later { 1 } else { 0 },
            idempotency_key: keyed.then(|| "key".into()),
            ..submit_of(nth(function), id)
        };
        self.handle(Event::Submit(Box::new(submit)));
    }

    fn install(&mut self, function: u8, n: u8) {
        let function = nth(function);
        let version = Version([n; 32]);
        self.refused.remove(&function);
        self.installed.insert(function.clone(), (version, variant(n)));
        let load_id = self.id();
        self.handle(Event::Installed(Box::new(Installed {
            function,
            id: FunctionId(n.into()),
            version,
            load_key: version,
            load_id,
            rules: variant(n),
        })));
    }

    fn stored(&mut self, id: InvocationId, fine: bool) {
        if fine {
            let entry = self.ledger.get_mut(&id).unwrap();
            entry.stored = true;
            if let Some(content) = entry.accepted.load_key {
                let new = self.loaded.insert((entry.accepted.function.clone(), content));
                assert!(new, "a content ran twice by itself");
            }
            self.handle(Event::Stored(id));
        } else {
            self.ledger.remove(&id);
            self.handle(Event::StoreFailed(id));
        }
    }

    fn answer_claims(&mut self, fine: bool) {
        let ids = std::mem::take(&mut self.to_claim);
        for id in &ids {
            self.ledger.get_mut(id).unwrap().claim_over(fine);
        }
        if !ids.is_empty() {
            self.handle(if fine {
                Event::Claimed(ids)
            } else {
                Event::ClaimFailed(ids)
            });
        }
    }

    fn answer_spawn(&mut self, which: u8, fine: bool) {
        let starting: Vec<WorkerId> = self.some_processes(|process| !process.started);
        let Some(at) = choose(which, starting.len()) else {
            return;
        };
        let worker = starting[at];
        if fine {
            self.processes.get_mut(&worker).unwrap().started = true;
            self.handle(Event::Spawned(worker));
        } else {
            self.processes.remove(&worker);
            let message = "no".to_owned();
            self.handle(Event::SpawnFailed { worker, message });
        }
    }

    fn no_room(&mut self, which: u8) {
        let starting = self.some_processes(|process| !process.started);
        let Some(at) = choose(which, starting.len()) else {
            return;
        };
        let worker = starting[at];
        self.processes.remove(&worker);
        let message = "no room".to_owned();
        self.handle(Event::NodeCannotStart { worker, message });
        assert!(self.s.cannot_start().is_some());
    }

    fn exit(&mut self, which: u8, code: u8, (oom, result): (bool, bool)) {
        // A healthy worker of a handler rarely ends by itself.
        let ends = |process: &Process| process.started && (process.is_to_end() || which % 16 == 15);
        let running: Vec<WorkerId> = self.some_processes(ends);
        let Some(at) = choose(which, running.len()) else { return };
        let worker = running[at];
        self.processes.remove(&worker);
        let status = match code {
            9 => ExitStatus::Signal(9),
            code => ExitStatus::Code(code),
        };
        self.handle(Event::Exited(Box::new(Exited {
            oom_kills: oom.into(),
            result: result.then(|| text("result")),
            ..exit(worker.0, status)
        })));
    }

    fn ready(&mut self, which: u8, fine: bool) {
        let loading = self.some_processes(|process| {
            process.is_pooled() && process.started && process.ready.is_none() && !process.broken
        });
        let Some(at) = choose(which, loading.len()) else { return };
        let worker = loading[at];
        let process = self.processes.get_mut(&worker).unwrap();
        if fine {
            let concurrency = 1 + u32::from(which % 3);
            let most = process.order.rules.kind.pool().unwrap().concurrency;
            process.ready = Some(concurrency.min(most).try_into().unwrap());
            self.handle(Event::WorkerReady { worker, concurrency });
        } else {
            process.broken = true;
            let message = "no such module".to_owned();
            self.handle(Event::LoadFailed { worker, message });
        }
    }

    fn answer(&mut self, which: u8, reason: Reason) {
        let calls = self
            .processes
            .iter()
            .flat_map(|(worker, process)| process.calls.keys().map(|call| (*worker, *call)));
        let calls: Vec<_> = calls.collect();
        let Some(at) = choose(which, calls.len()) else { return };
        let (worker, call) = calls[at];
        self.processes.get_mut(&worker).unwrap().calls.remove(&call);
        self.handle(answered(worker, call, reason));
    }

    fn some_processes(&self, which: impl Fn(&Process) -> bool) -> Vec<WorkerId> {
        let chosen = self.processes.iter().filter(|(_, process)| which(process));
        chosen.map(|(worker, _)| *worker).collect()
    }

    /// fnd goes down, by a crash or a hand-over, and comes back; its callers' connections are gone.
    fn restart(&mut self, in_order: bool, workers_survive: bool, exits: u8) {
        if self.draining {
            return;
        }
        if in_order {
            self.handle(Event::HandOver);
            while !self.to_store.is_empty() {
                self.step(&Step::Store { which: 0, fine: true });
            }
            // These claims come too late: nothing begins any more.
            self.step(&Step::Claim { fine: exits > 0 });
            if !self.drained {
                // The time for requests whose connections end with fnd is over.
                self.handle(Event::HandOver);
            }
            assert!(std::mem::take(&mut self.drained), "the hand-over does not end");
            assert!(self.owed.is_empty(), "nobody answered {:?}", self.owed);
        }
        if !workers_survive {
            self.processes.clear();
        }
        self.calls = 0;
        let members = if in_order { self.handed_over() } else { Vec::new() };
        // The state of the other connections is unknown, so those workers are killed.
        self.processes
            .retain(|id, process| !process.is_pooled() || members.iter().any(|member| member.worker == *id));
        self.owed.clear();
        for id in std::mem::take(&mut self.to_store) {
            self.ledger.remove(&id);
        }
        for id in std::mem::take(&mut self.to_claim) {
            // The claim may be on disk although fnd has not heard of it.
            self.ledger.get_mut(&id).unwrap().claim_over(exits > 0);
        }
        if workers_survive {
            // The table of begun attempts survived, so claimed invocations that have not begun wait again. A power cut
            // would destroy it.
            self.ledger.values_mut().for_each(Entry::unclaim);
        }
        let unfinished = self.ledger.values().filter_map(Entry::unfinished).collect();
        self.s = Supervisor::new(2, self.budget, WorkerId(self.next_worker));
        self.spawner = true;
        self.silent = false;
        let scripts = self.processes.iter_mut().filter(|(_, process)| !process.is_pooled());
        let adopted = scripts.map(|(worker, process)| {
            // The spawner lists its workers only when no start is under way.
            process.started = true;
            process.killed = false;
            Adopted {
                worker: *worker,
                record: serde_json::from_str(&process.record).unwrap(),
                age: self.now.mono - process.since,
                ended: false,
                termed: process.term.map(|at| (self.now.mono - at, TermCause::Asked)),
            }
        });
        let adopted: Vec<Adopted> = adopted.collect();
        let calls = members.iter().flat_map(|member| &member.record.calls);
        let recorded = calls.map(|call| (call.run.invocation, call.run.attempt));
        let recorded = recorded.chain(
            adopted
                .iter()
                .map(|adopted| (adopted.record.run.invocation, adopted.record.run.attempt)),
        );
        let ended = recorded.filter(|(id, attempt)| self.ledger.get(id).is_some_and(|entry| entry.has_end(*attempt)));
        let ended = ended.collect();
        self.handle(Event::Restored(Restored {
            unfinished,
            adopted,
            members,
            ended,
            loaded: self.loaded.iter().cloned().collect(),
            disabled: self.disabled.iter().cloned().collect(),
            ..Restored::default()
        }));
        for n in 0..exits {
            self.exit(n, n, (false, false));
        }
        for (function, (version, rules)) in self.installed.clone() {
            let load_id = self.id();
            self.handle(Event::Installed(Box::new(Installed {
                function,
                id: FunctionId(1),
                version,
                load_key: version,
                load_id,
                rules,
            })));
        }
        for function in self.refused.clone() {
            let error = "bad".to_owned();
            self.handle(Event::Refused { function, error });
        }
        self.handle(Event::Scanned { whole: true });
    }

    /// Returns the adoption records of the handlers' workers.
    fn handed_over(&self) -> Vec<AdoptedMember> {
        let started = self
            .processes
            .iter()
            .filter(|(_, process)| process.is_pooled() && process.started && !process.broken);
        let member = |(worker, process): (&WorkerId, &Process)| {
            let record = serde_json::to_string(&self.s.member_record(*worker)?).unwrap();
            Some(AdoptedMember {
                worker: *worker,
                record: serde_json::from_str(&record).unwrap(),
                age: self.now.mono - process.since,
                ended: false,
            })
        };
        started.filter_map(member).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now.mono += time;
        self.now.unix_ms = EPOCH_MS + u64::try_from(self.now.mono.as_millis()).unwrap();
        self.handle(Event::Tick);
    }

    fn id(&mut self) -> InvocationId {
        self.ids += 1;
        id(self.ids)
    }

    fn reply(&mut self) -> ReplyTo {
        self.replies += 1;
        self.owed.insert(ReplyTo(self.replies));
        ReplyTo(self.replies)
    }

    fn handle(&mut self, event: Event) {
        let mut out = Vec::new();
        self.s.handle(self.now, event, &mut out);
        assert!(
            self.s.next_deadline().is_none_or(|at| at > self.now.mono),
            "a deadline in the past"
        );
        for action in out {
            // Rules are long and always the same, so they are not logged.
            match &action {
                Action::Spawn(order) => {
                    writeln!(self.log, "{:?} {} {:?}", self.now.mono, order.worker, order.attempt).unwrap();
                }
                Action::Call(order) => {
                    writeln!(self.log, "{:?} {} {:?}", self.now.mono, order.worker, order.attempt).unwrap();
                }
                action => writeln!(self.log, "{:?} {action:?}", self.now.mono).unwrap(),
            }
            self.perform(action);
        }
        assert_eq!(self.s.workers(), self.processes.len());
        self.judge_due();
        for function in std::mem::take(&mut self.requested) {
            let id = self.id();
            self.handle(Event::Submit(Box::new(Submit {
                trigger: Trigger::Load,
                reply: None,
                wait: false,
                ..submit_of(function, id)
            })));
        }
    }
}

fn submit_of(function: FunctionName, id: InvocationId) -> Submit {
    Submit {
        wait: true,
        ..Submit::new(id, function, Trigger::Manual)
    }
}

fn answered(worker: WorkerId, call: u64, reason: Reason) -> Event {
    Event::Answered(Box::new(Answered {
        worker,
        call,
        reason,
        message: "said so".to_owned(),
        result: Some(text("answer")),
    }))
}

fn nth(function: u8) -> FunctionName {
    name(&format!("f{}", function % FUNCTIONS))
}

fn choose(which: u8, of: usize) -> Option<usize> {
    usize::from(which).checked_rem(of)
}
