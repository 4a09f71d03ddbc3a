//! Functions whose home or cache is over its quota: what has begun goes on, and nothing new begins.

use super::bench::*;
use crate::records::outcome::{Reason, Skip, Trigger};
use crate::run::{Action, Event, FunctionKind, Notice, Rules, Service, Submit};

impl Bench {
    fn full(&mut self, why: Option<&str>) -> String {
        let function = name("f");
        let why = why.map(Into::into);
        self.event(Event::Full { function, why })
    }

    fn submit_by(&mut self, trigger: Trigger, n: u128) -> String {
        let submit = Submit {
            trigger,
            reply: None,
            wait: false,
            ..submit("f", n)
        };
        self.request(submit)
    }
}

#[test]
fn new_invocations_are_refused_until_there_is_room() {
    let mut b = Bench::with(rules());
    assert_eq!(b.full(Some("2 MiB of 1 MiB")), "");
    assert!(b.last.iter().any(|action| matches!(action, Action::Status(_))));
    assert_eq!(b.submit(1), "reply 1: full: 2 MiB of 1 MiB");
    let is_told = |action: &Action| matches!(action, Action::Notice(Notice::Rejected { skip: Skip::Quota, .. }));
    assert!(b.last.iter().any(is_told));
    b.full(Some("2 MiB of 1 MiB"));
    assert!(b.last.is_empty(), "nothing is new");
    assert_eq!(b.s.full(&name("f")), Some("2 MiB of 1 MiB"));
    b.full(None);
    assert_eq!(b.s.full(&name("f")), None);
    assert_eq!(b.submit(2), "note 2; spawn w1 a1 2");
}

#[test]
fn what_was_accepted_goes_on_with_its_retries() {
    let mut rules = rules();
    rules.max_running = 1;
    rules.retry.retries = 1;
    let mut b = Bench::with(rules);
    b.submit(1);
    b.submit(2);
    b.full(Some("full"));
    assert!(b.code(1, 1).contains("spawn w2 a1 2"));
    assert!(b.code(2, 0).contains("reply 2: succeeded ok"));
    assert!(b.wait(secs(10)).contains("spawn w3 a2 1"));
}

#[test]
fn a_refused_run_without_a_caller_is_recorded() {
    let mut b = Bench::with(rules());
    b.full(Some("too much"));
    b.submit_by(Trigger::Schedule, 1);
    assert_eq!(b.event(Event::Stored(id(1))), "update 1 skipped skipped-quota");
    let update = b.last.iter().find_map(|action| match action {
        Action::Update(record) if record.state.is_final() => Some(record),
        _ => None,
    });
    let record = update.unwrap();
    assert_eq!(record.reason, Some(Reason::Skipped(Skip::Quota)));
    assert_eq!(record.message, "`f` is over its quota: too much");
    assert_eq!(b.submit_by(Trigger::File, 2), "", "files wait in their directory");
}

#[test]
fn a_content_runs_by_itself_once_there_is_room() {
    let loading = || Rules {
        run_on_load: true,
        ..rules()
    };
    let mut b = Bench::new();
    b.event(installed("f", 1, loading()));
    b.full(Some("full"));
    assert_eq!(b.event(quiet()), "");
    assert_eq!(b.full(None), "store 1001");
    b.full(Some("full"));
    assert_eq!(b.full(None), "", "it has run");
}

#[test]
fn a_service_is_not_started_again_until_there_is_room() {
    let mut b = Bench::with(Rules {
        max_running: 1,
        timeout: None,
        kind: FunctionKind::Service(Service {
            replicas: 1,
            ready: None,
            start_timeout: secs(10),
        }),
        ..rules()
    });
    assert_eq!(b.event(Event::Scanned { whole: true }), "run f");
    b.submit_by(Trigger::Load, 1);
    b.event(Event::Stored(id(1)));
    b.spawned(1);
    assert_eq!(b.full(Some("full")), "", "it goes on");
    b.code(1, 1);
    assert_eq!(b.wait(secs(1000)), "");
    assert_eq!(b.full(None), "run f");
    // Its quota was exceeded just then: the run is requested again later.
    b.full(Some("full"));
    assert_eq!(b.submit_by(Trigger::Load, 2), "");
    assert_eq!(b.full(None), "run f");
}

#[test]
fn a_deleted_function_begins_with_room() {
    let mut b = Bench::with(rules());
    b.full(Some("full"));
    b.event(Event::Removed(name("f")));
    b.event(installed("f", 1, rules()));
    assert_eq!(b.submit(1), "note 1; spawn w1 a1 1");
}
