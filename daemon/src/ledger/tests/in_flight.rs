//! What has begun and was not stored when fnd was killed.

use super::*;

/// Opens a second ledger on what a killed fnd would leave now: the first goes on, so its last words must not count.
fn killed(state: &Path) -> (tempfile::TempDir, Ledger) {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(state).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let ledger = Ledger::open(copy.path());
    (copy, ledger)
}

fn begun(second: u64) -> Begun {
    Begun {
        invocation: id(second),
        attempt: Attempt(1),
        function: name("hello"),
        trigger: "manual".to_owned(),
        started_ms: 7,
    }
}

fn running(ledger: &Ledger) -> Vec<(InvocationId, State, u32, Option<u64>)> {
    let unfinished = ledger.opened.restored.unfinished.iter();
    unfinished
        .map(|found| {
            let record = &found.record;
            (record.id, record.state, record.attempts, record.started_ms)
        })
        .collect()
}

#[test]
fn what_has_begun_is_running_for_the_next_one_and_only_once() {
    let state = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(state.path());
    for n in [5, 6] {
        ledger.opened.writer.begins(&begun(n));
    }
    let (copy, next) = killed(state.path());
    assert_eq!(
        running(&next),
        [(id(5), State::Running, 1, Some(7)), (id(6), State::Running, 1, Some(7))]
    );
    assert_eq!(next.opened.restored.unfinished[0].accepted.accepted_ms, 5000);
    assert_eq!(next.opened.last_id, Some(id(6)));
    assert_eq!(std::fs::metadata(copy.path().join("in-flight")).unwrap().len(), 0);
    next.stop();
    let again = Ledger::open(copy.path());
    assert_eq!(running(&again).len(), 2, "the ledger has them now");
    again.stop();
    ledger.stop();
}

#[test]
fn a_stored_end_empties_the_slot() {
    let state = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(state.path());
    for n in [5, 6] {
        ledger.opened.writer.begins(&begun(n));
    }
    end(&ledger, &accepted(5, "hello"), Reason::Ok, None);
    let until = crate::clock::monotonic() + LIMIT;
    while std::fs::read(state.path().join("in-flight")).unwrap()[..2] != [0, 0] {
        assert!(crate::clock::monotonic() < until, "the slot stays filled");
        std::thread::yield_now();
    }
    // It is used again.
    ledger.opened.writer.begins(&begun(7));
    assert_eq!(
        std::fs::metadata(state.path().join("in-flight")).unwrap().len() / 256,
        1
    );
    let (_copy, next) = killed(state.path());
    assert_eq!(
        running(&next).iter().map(|found| found.0).collect::<Vec<_>>(),
        [id(6), id(7)]
    );
    next.stop();
    ledger.stop();
}

#[test]
fn one_known_as_queued_has_begun_and_one_that_ended_is_left_alone() {
    let state = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(state.path());
    for (second, durable) in [(4, true), (5, false)] {
        let queued = Accepted {
            durable,
            ..accepted(second, "hello")
        };
        ledger.submit(Command::Store(Box::new(queued)));
    }
    end(&ledger, &accepted(6, "hello"), Reason::Ok, None);
    ledger.opened.writer.flush(LIMIT);
    for n in [4, 5, 6] {
        ledger.opened.writer.begins(&begun(n));
    }
    let (_copy, next) = killed(state.path());
    assert_eq!(
        running(&next),
        [(id(4), State::Running, 1, Some(7)), (id(5), State::Running, 1, Some(7))]
    );
    next.stop();
    ledger.stop();
}

#[test]
fn a_damaged_table_is_read_as_far_as_it_can_be() {
    let state = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(state.path());
    ledger.opened.writer.begins(&begun(5));
    ledger.opened.writer.begins(&begun(6));
    ledger.stop();
    let path = state.path().join("in-flight");
    let whole = std::fs::read(&path).unwrap();
    for at in 0..256 {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        std::fs::write(&path, &damaged).unwrap();
        let next = Ledger::open(state.path());
        assert!(running(&next).iter().any(|found| found.0 == id(6)), "byte {at}");
        next.stop();
    }
}
