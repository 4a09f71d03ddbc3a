//! An end and the invocations that follow it are stored together, or not at all.

use super::*;
use fnd_core::records::cause::HookCause;
use fnd_core::records::outcome::Skip;

/// An end of the first function, and a call of the second one.
fn end_and_call(second: u64) -> (Accepted, Accepted, LedgerCommand) {
    let first = accepted(second, "job");
    // SQLite has no greater number than `i64::MAX`.
    let call = Accepted {
        expires_ms: None,
        ..accepted(second + 1, "told")
    };
    let (attempt, record) = ended(&first, Reason::Ok, None);
    let parts = vec![
        LedgerCommand::Record(Box::new(attempt), Box::new(record)),
        LedgerCommand::Store(Box::new(call.clone())),
    ];
    (first, call, LedgerCommand::Together(parts))
}

fn acknowledged(ledger: &Ledger) -> (InvocationId, bool) {
    match ledger.acknowledged.recv_timeout(LIMIT).unwrap() {
        Acknowledged::Stored { id, result } => (id, result.is_ok()),
        other => panic!("{other:?}"),
    }
}

fn state_of(ledger: &Ledger, id: InvocationId) -> Option<RunState> {
    ledger.get(id).map(|(record, _)| record.state)
}

#[test]
fn an_end_and_what_follows_it_are_there_together() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let (first, call, together) = end_and_call(1);
    ledger.submit(together);
    assert_eq!(acknowledged(&ledger), (call.id, true));
    let (copy, next) = killed(state.path());
    assert_eq!(state_of(&next, first.id), Some(RunState::Succeeded));
    let unfinished: Vec<_> = next
        .opened
        .restored
        .unfinished
        .iter()
        .map(|found| found.accepted.clone())
        .collect();
    assert_eq!(unfinished, [call]);
    next.stop();
    drop(copy);
    ledger.stop();
}

/// Another program holds the database: durable work is refused meanwhile, but nobody could repeat what follows an end.
#[test]
fn they_are_kept_together_until_they_can_be_written() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let other = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (first, call, together) = end_and_call(1);
    ledger.submit(together);
    let refused = accepted(9, "job");
    ledger.submit(LedgerCommand::Store(Box::new(refused.clone())));
    assert_eq!(acknowledged(&ledger), (refused.id, false));
    drop(other);
    assert_eq!(acknowledged(&ledger), (call.id, true));
    assert_eq!(state_of(&ledger, first.id), Some(RunState::Succeeded));
    assert_eq!(state_of(&ledger, call.id), Some(RunState::Queued));
    assert_eq!(ledger.opened.writer.health().lost, 0);
    ledger.stop();
}

#[test]
fn a_call_that_is_skipped_and_a_hook_that_failed_are_in_the_history() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let (first, call) = (accepted(1, "job"), accepted(2, "nobody"));
    let (attempt, end) = ended(&first, Reason::Ok, None);
    let skipped = InvocationRecord {
        reason: Some(Reason::Skipped(Skip::Unknown)),
        ended_ms: Some(2000),
        ..record(&call, RunState::Skipped)
    };
    ledger.submit(LedgerCommand::Together(vec![
        LedgerCommand::Record(Box::new(attempt), Box::new(end)),
        LedgerCommand::Update(Box::new(skipped)),
        LedgerCommand::HookFailed(first.id),
    ]));
    let page = ledger.list(unfiltered());
    let states: Vec<_> = page.records.iter().map(|record| (record.id, record.state)).collect();
    assert_eq!(states, [(call.id, RunState::Skipped), (first.id, RunState::Succeeded)]);
    assert_eq!(page.hook_failed, [first.id].into());
    let whole = wait(ledger.opened.reader.get(first.id)).unwrap().unwrap();
    assert!(whole.hook_failed);
    assert_eq!(dead(&ledger), [0; 0]);
    ledger.stop();
}

/// fnd was killed after an answer, before the record was stored: what follows is decided by the next one, once.
#[test]
fn an_end_that_only_the_table_knows_is_followed_later() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let first = accepted(5, "hello");
    ledger.store(first.clone()).unwrap();
    let (attempt, end) = ended(&first, Reason::Ok, None);
    ledger.begins(&end);
    ledger.opened.writer.ends(&attempt, &end, false);
    let (copy, next) = killed(state.path());
    let [late] = &next.opened.unfollowed[..] else {
        panic!("{:?}", next.opened.unfollowed);
    };
    assert_eq!((late.record.id, late.record.state), (first.id, RunState::Succeeded));
    assert_eq!(late.payload, first.payload);
    next.stop();
    let next = Ledger::open(copy.path());
    assert_eq!(
        next.opened.unfollowed.len(),
        1,
        "it is decided in one transaction with what follows"
    );
    next.submit(LedgerCommand::Together(vec![LedgerCommand::Followed(first.id)]));
    next.opened.writer.flush(LIMIT);
    next.stop();
    let (_copy, next) = killed(copy.path());
    assert_eq!(next.opened.unfollowed, []);
    next.stop();
    ledger.stop();
}

#[test]
fn what_was_told_is_there_after_a_restart() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let tell = |about: &str, health: Option<&str>| {
        ledger.submit(LedgerCommand::StoreAlert {
            about: about.to_owned(),
            health: health.map(str::to_owned),
        });
    };
    tell("job", Some("{}"));
    tell("job", Some("{\"failures\":1}"));
    tell("gone", Some("{}"));
    tell("", Some("{}"));
    tell("gone", None);
    ledger.opened.writer.flush(LIMIT);
    let (_copy, next) = killed(state.path());
    let expected = [("", "{}"), ("job", "{\"failures\":1}")];
    assert_eq!(
        next.opened.alerts,
        expected.map(|(about, health)| (about.to_owned(), health.to_owned()))
    );
    next.stop();
    ledger.stop();
}

/// If fnd is killed after the acceptance, the next one has nothing to run, and the hook that was not called is marked.
#[test]
fn what_never_begins_is_stored_with_its_end() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let first = over(&ledger, 1, "job", Reason::Ok);
    let cause = Cause::Hook(HookCause {
        invocation: first.id,
        function: name("job"),
        depth: 1,
        marks: true,
    });
    let refused = |second, trigger, skip| Accepted {
        trigger,
        dead_letter: false,
        skipped: Some((Reason::Skipped(skip), "not now".into())),
        ..accepted(second, "told")
    };
    let missed = refused(2, Trigger::Schedule, Skip::Missed);
    let mut called = refused(3, Trigger::Hook, Skip::QueueFull);
    called.payload.cause = Some(Arc::new(cause));
    // The second time is a retry.
    for accepted in [&missed, &called, &missed, &called] {
        ledger.store(accepted.clone()).unwrap();
    }
    let (_copy, killed) = killed(state.path());
    assert!(killed.opened.restored.unfinished.is_empty());
    let (record, _) = killed.get(missed.id).unwrap();
    let reason = Some(Reason::Skipped(Skip::Missed));
    assert_eq!(
        (record.state, record.reason, record.message.as_str()),
        (RunState::Skipped, reason, "not now")
    );
    assert_eq!(killed.list(unfiltered()).hook_failed, [first.id].into());
    // The acceptance says that it never is a dead letter.
    assert_eq!(dead(&killed), [0; 0]);
    killed.stop();
    ledger.stop();
}
