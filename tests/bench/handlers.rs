//! Handlers: warm ones, and those with a process for each invocation; beside the bare interpreter, the shim without fnd, and
//! others that serve the same.

use crate::cpu::Cpu;
use crate::http::{Caller, Server};
use crate::language::Language;
use crate::load::{self, Load, in_turns, in_turns_after, paced, timed};
use crate::peers::{Found, Peer};
use crate::raw::Worker;
use crate::table::{Table, Times};
use fnd_tests::programs::program;
use fnd_tests::{Fnd, Setup};
use std::process::{Command, Stdio};

/// How much more often a warm call is measured than the start of a process: it is a hundred times shorter.
pub(crate) const WARM: usize = 10;

/// Calls of each caller that do not count before warm calls are measured, of fnd and of its peers alike: V8 compiles the code of
/// a call again and again in its first hundreds.
pub(crate) const FIRST: usize = 500;

/// Every function of every language: what its name ends with, its manifest, and whether it imports much.
const FUNCTIONS: [(&str, &[&str], bool); 3] = [
    ("warm", &[], false),
    ("fresh", &["[pool]", "isolation = \"invocation\"", "spare = 2"], false),
    ("heavy", &["[pool]", "isolation = \"invocation\"", "spare = 2"], true),
];

/// Returns a set-up with the functions of some languages.
pub(crate) fn setup(languages: &[Language]) -> Setup {
    let mut setup = crate::as_shipped();
    for language in languages {
        for (name, manifest, imports) in FUNCTIONS {
            let file = format!("{}-{name}.{}", language.id, language.suffix);
            setup = setup.file(&file, &language.function(manifest, imports));
        }
    }
    setup
}

/// The daemon, the number of rounds and the table of a measurement.
pub(crate) struct Bench<'a> {
    pub(crate) fnd: &'a Fnd,
    /// The same with a spin; nothing where there is one CPU.
    pub(crate) with_spin: Option<&'a Fnd>,
    pub(crate) rounds: usize,
    pub(crate) table: &'a mut Table,
}

impl Bench<'_> {
    /// Measures a language's handlers, and its `peers`.
    pub(crate) fn measure(&mut self, language: &Language, peers: &[Found]) {
        for (name, ..) in FUNCTIONS {
            let function = format!("{}-{name}", language.id);
            self.fnd.wait_ready(&function);
            if let Some(fnd) = self.with_spin {
                fnd.wait_ready(&function);
            }
        }
        self.warm(language, peers);
        self.spin(language);
        self.fresh(language);
    }

    /// Measures one caller, and two, with and without a spin.
    fn spin(&mut self, language: &Language) {
        let (id, rounds) = (language.id, self.rounds * WARM);
        let function = format!("{id}-warm");
        let Some(with_spin) = self.with_spin else { return };
        let (mut plain, mut spin) = (self.caller(&function), caller(with_spin, &function));
        let times = in_turns_after(
            FIRST,
            rounds,
            &mut [Box::new(|| plain.call()), Box::new(|| spin.call())],
        );
        let [without, with] = <[_; 2]>::try_from(times).expect("each action has its times");
        self.table
            .times(&format!("fnd: {id} handler, warm, spin = \"50us\""), &with, &without);
        for (callers, fnd, what) in [
            (1, self.fnd, "no spin"),
            (1, with_spin, "spin"),
            (2, self.fnd, "no spin"),
            (2, with_spin, "spin"),
        ] {
            let before = Cpu::of(fnd);
            let load = load::run_at(
                (callers, FIRST),
                rounds * callers,
                || caller(fnd, &function),
                Caller::call,
            );
            let used = Cpu::of(fnd).since(&before).each(load.calls);
            let rate = load.rates.median();
            let what = format!("fnd: {id} handler, warm, {callers} at once, {what}");
            self.table.value(&what, format!("{rate:.0}/s, {used}"));
        }
    }

    fn caller(&self, function: &str) -> Caller {
        caller(self.fnd, function)
    }

    fn warm(&mut self, language: &Language, peers: &[Found]) {
        let (id, rounds) = (language.id, self.rounds * WARM);
        let function = format!("{id}-warm");
        let shim = language.shim();
        let (mut worker, mut caller) = (Worker::start(&shim), self.caller(&function));
        let mut others: Vec<Caller> = peers.iter().flatten().map(Peer::caller).collect();
        let mut actions: Vec<Box<dyn FnMut() + '_>> = vec![Box::new(|| worker.call()), Box::new(|| caller.call())];
        for other in &mut others {
            actions.push(Box::new(|| other.call()));
        }
        let mut times = in_turns_after(FIRST, rounds, &mut actions).into_iter();
        drop(actions);
        let [raw, ours] = std::array::from_fn(|_| times.next().unwrap_or_default());
        let theirs: Vec<Times> = times.collect();
        let raw_load = load::run_after(FIRST, rounds, || Worker::start(&shim), Worker::call);
        let before = Cpu::of(self.fnd);
        let our_load = load::run_after(FIRST, rounds, || self.caller(&function), Caller::call);
        let used = Cpu::of(self.fnd).since(&before).each(our_load.calls);
        let table = &mut *self.table;
        table.times(&format!("{id}: shim over a socketpair"), &raw, &raw);
        table.times(&format!("fnd: {id} handler, warm"), &ours, &raw);
        table.load(&format!("{id}: 8 shims over socketpairs"), &raw_load, &raw_load);
        table.load(&format!("fnd: {id} handler, warm, 8 at once"), &our_load, &raw_load);
        table.value(&format!("fnd: {id} handler, warm, 8 at once: CPU a call"), used);
        rows_of_peers(peers, (&theirs, FIRST, rounds), (&raw, &raw_load), table);
    }

    fn fresh(&mut self, language: &Language) {
        let (id, rounds) = (language.id, self.rounds);
        let mut bare = language.bare();
        let mut start = || run(&mut bare);
        start(); // until it is in the page cache
        let floor = Times::new((0..rounds / 3).map(|_| timed(&mut start)).collect());
        self.table.times(&format!("{id}: bare process"), &floor, &floor);
        let mut medians = Vec::new();
        for (name, what) in [("fresh", "10/s"), ("heavy", "10/s, large imports")] {
            let mut caller = self.caller(&format!("{id}-{name}"));
            caller.call();
            let times = paced(rounds / 3, || caller.call());
            self.table
                .times(&format!("fnd: {id}, fresh each, {what}"), &times, &floor);
            medians.push(times.median().as_secs_f64() * 1000.0);
        }
        if let [fresh, heavy] = medians[..] {
            let more = format!("{:+.2} ms", heavy - fresh);
            self.table
                .value(&format!("fnd: {id}, what large imports add at p50"), more);
        }
        let function = format!("{id}-fresh");
        let mut caller = self.caller(&function);
        let one = Times::new((0..rounds).map(|_| timed(|| caller.call())).collect());
        let floor_load = load::run(rounds / 3, || language.bare(), run);
        let eight = load::run(rounds, || self.caller(&function), Caller::call);
        self.table
            .times(&format!("fnd: {id}, fresh each, closed loop"), &one, &floor);
        self.table
            .load(&format!("{id}: bare process, 8 at once"), &floor_load, &floor_load);
        self.table
            .load(&format!("fnd: {id}, fresh each, 8 at once"), &eight, &floor_load);
    }

    /// Measures `fndctl invoke` of a warm function beside a start of `fndctl` that asks nobody.
    pub(crate) fn fndctl(&mut self, function: &str) {
        let fndctl = |arguments: &[&str]| {
            let mut command = Command::new(program("fndctl"));
            command.args(arguments).env("FND_SOCKET", self.fnd.socket());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command
        };
        let (mut nothing, mut invoke) = (fndctl(&["--version"]), fndctl(&["invoke", function]));
        let mut actions: [Box<dyn FnMut()>; 2] = [Box::new(|| run(&mut nothing)), Box::new(|| run(&mut invoke))];
        let mut times = in_turns(self.rounds, &mut actions).into_iter();
        let [floor, ours] = std::array::from_fn(|_| times.next().unwrap_or_default());
        self.table.times("fndctl --version", &floor, &floor);
        self.table.times(&format!("fndctl invoke {function}"), &ours, &floor);
    }
}

fn caller(fnd: &Fnd, function: &str) -> Caller {
    Caller::open(&Server::Unix(fnd.socket()), &format!("/v1/functions/{function}/invoke"))
}

/// Adds the rows of peers whose calls one after the other were measured, and why others were not.
pub(crate) fn rows_of_peers(
    peers: &[Found],
    (times, first, rounds): (&[Times], usize, usize),
    floor: (&Times, &Load),
    table: &mut Table,
) {
    for (peer, times) in peers.iter().flatten().zip(times) {
        let eight = load::run_after(first, rounds, || peer.caller(), Caller::call);
        table.times(peer.name, times, floor.0);
        table.load(&format!("{}, 8 at once", peer.name), &eight, floor.1);
    }
    for why in peers.iter().filter_map(|peer| peer.as_ref().err()) {
        table.value("not measured", why.clone());
    }
}

fn run(command: &mut Command) {
    let status = command.status().expect("the program starts");
    assert!(status.success(), "{command:?}: {status}");
}
