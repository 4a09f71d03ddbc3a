//! Warm calls with caller, fnd and worker on one CPU. The time that a halted CPU needs to wake is no part of these rows, so
//! they repeat within some percent also where the others differ by a third.

use crate::handlers::{self, FIRST, WARM};
use crate::http::{Caller, Server};
use crate::language::Language;
use crate::load::in_turns_after;
use crate::raw::Worker;
use crate::relay::Relay;
use crate::table::Table;
use fnd_tests::Fnd;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Measures the handlers of all languages.
pub(crate) fn measure(rounds: usize, table: &mut Table) {
    on_one_cpu(|language, actions| {
        let times = in_turns_after(FIRST, rounds * WARM, actions);
        let [shim, relay, ours] = <[_; 3]>::try_from(times).expect("each action has its times");
        table.times(&format!("{}: shim over a socketpair", language.id), &shim, &shim);
        table.times("three plain programs, the middle one relays", &relay, &shim);
        table.times(&format!("fnd: {} handler, warm", language.id), &ours, &shim);
        table.times(
            &format!("fnd: {} handler, beside the relay", language.id),
            &ours,
            &relay,
        );
    });
}

/// Gives `measure` each language with three actions on one CPU: a call of the shim, of three plain programs, of fnd.
pub(crate) fn on_one_cpu(mut measure: impl FnMut(&Language, &mut [Box<dyn FnMut() + '_>])) {
    let languages: Vec<Language> = [Some(Language::python()), Language::deno()]
        .into_iter()
        .flatten()
        .collect();
    let mut fnd = Fnd::prepare(&handlers::setup(&languages));
    let _run = crate::run_directory_in_memory(&fnd);
    let _pinned = Pinned::new(); // before the start: its processes inherit the CPU
    fnd.launch();
    for language in &languages {
        let function = format!("{}-warm", language.id);
        fnd.wait_ready(&function);
        let path = format!("/v1/functions/{function}/invoke");
        let (mut relay, mut worker) = (Relay::start(), Worker::start(&language.shim()));
        let mut caller = Caller::open(&Server::Unix(fnd.socket()), &path);
        let mut actions: [Box<dyn FnMut() + '_>; 3] = [
            Box::new(|| worker.call()),
            Box::new(|| relay.call()),
            Box::new(|| caller.call()),
        ];
        measure(language, actions.as_mut_slice());
    }
    fnd.stop();
}

/// This thread on one CPU, until it is dropped.
struct Pinned(CpuSet);

impl Pinned {
    fn new() -> Self {
        let me = Pid::from_raw(0);
        let before = sched_getaffinity(me).expect("the CPUs of this thread are known");
        let first = (0..CpuSet::count()).find(|cpu| before.is_set(*cpu).unwrap_or(false));
        let mut one = CpuSet::new();
        one.set(first.unwrap_or(0)).expect("the set has this CPU");
        sched_setaffinity(me, &one).expect("a thread may give up CPUs");
        Self(before)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = sched_setaffinity(Pid::from_raw(0), &self.0); // the next rows are pinned too, and say so by their spread
    }
}
