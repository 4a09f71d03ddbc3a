//! Stored records, results, lists and requests can be read back.

use super::*;
use fnd_core::audit::{AuditCursor, AuditFilter};
use fnd_core::records::Caller;

#[test]
fn what_is_stored_is_there_after_a_restart() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    assert!(ledger.opened.restored.unfinished.is_empty() && ledger.opened.last_id.is_none());
    let load = Accepted {
        load_key: Some(Version([1; 32])),
        trigger: Trigger::Load,
        ..accepted(1, "hello")
    };
    ledger.store(load.clone()).unwrap();
    let waiting = accepted(2, "ops/backup");
    ledger.store(waiting.clone()).unwrap();
    end(&ledger, &load, Reason::Exit(3), Some(b"\xffresult"));
    ledger.submit(LedgerCommand::StoreEnabled {
        function: name("other"),
        disabled: Some(DisabledBy { uid: 7, since_ms: 8 }),
    });
    assert_eq!(
        ledger.ids(unfiltered()),
        [2000, 1000],
        "what was submitted before the question is in the answer"
    );
    ledger.stop();

    let ledger = Ledger::open(state.path());
    let restored = &ledger.opened.restored;
    assert_eq!(restored.loaded, [(name("hello"), Version([1; 32]))]);
    assert_eq!(restored.disabled, [name("other")]);
    let by = DisabledBy { uid: 7, since_ms: 8 };
    assert_eq!(ledger.opened.disabled, [(name("other"), by)].into());
    assert_eq!(restored.counts, [(name("hello"), 1, 1), (name("other"), 0, 0)]);
    assert_eq!(restored.unfinished.len(), 1);
    // Beyond what SQLite can hold means never, as before.
    let expected = Accepted {
        expires_ms: Some(i64::MAX as u64),
        ..waiting.clone()
    };
    assert_eq!(restored.unfinished[0].accepted, expected);
    assert_eq!(restored.unfinished[0].record, record(&waiting, RunState::Queued));
    assert_eq!(ledger.opened.last_id, Some(id(2)));
    let (attempt, record) = ended(&load, Reason::Exit(3), Some(b"\xffresult"));
    assert_eq!(
        ledger.opened.last_runs,
        [LastRun {
            attempt: attempt.clone(),
            record: record.clone(),
            success_ms: None,
            failing_since_ms: None,
        }]
    );
    assert_eq!(ledger.get(load.id), Some((record, vec![attempt])));
    assert_eq!(ledger.get(id(9)), None);
}

#[test]
fn a_function_fails_since_the_first_failure_after_the_end_of_its_last_success() {
    let state = directory();
    let after_a_restart = |runs: &dyn Fn(&Ledger)| {
        let ledger = Ledger::open(state.path());
        runs(&ledger);
        ledger.stop();
        let ledger = Ledger::open(state.path());
        let last = ledger.opened.last_runs.first().unwrap();
        let known = (last.success_ms, last.failing_since_ms);
        ledger.stop();
        known
    };
    let fail = |ledger: &Ledger, second| drop(over(ledger, second, "hello", Reason::Timeout));
    let never_well = after_a_restart(&|ledger| [1, 2].into_iter().for_each(|second| fail(ledger, second)));
    assert_eq!(never_well, (None, Some(1002)));
    let well_in_between = after_a_restart(&|ledger| {
        over(ledger, 3, "hello", Reason::Ok);
        [4, 5].into_iter().for_each(|second| fail(ledger, second));
    });
    assert_eq!(well_in_between, (Some(3002), Some(4002)));
    // A run that was accepted after the success has failed before the success ended.
    let beside_a_success = after_a_restart(&|ledger| {
        let long = accepted(6, "hello");
        ledger.store(long.clone()).unwrap();
        fail(ledger, 7);
        let (attempt, record) = ended(&long, Reason::Ok, None);
        let late = InvocationRecord {
            ended_ms: Some(9000),
            ..record
        };
        ledger.submit(LedgerCommand::Record(Box::new(attempt), Box::new(late)));
        fail(ledger, 10);
    });
    assert_eq!(beside_a_success, (Some(9000), Some(10_002)));
}

#[test]
fn results_of_any_size_come_back() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let result = |id| wait(ledger.opened.reader.result(id)).unwrap();
    for (second, size) in [(1, 0), (2, 64 << 10), (3, (64 << 10) + 1), (4, 6 << 20)] {
        let accepted = accepted(second, "hello");
        ledger.store(accepted.clone()).unwrap();
        assert_eq!(result(accepted.id), ResultOf::Unfinished(RunState::Queued));
        let data = vec![b'x'; size];
        end(&ledger, &accepted, Reason::Ok, Some(&data));
        assert_eq!(
            result(accepted.id),
            ResultOf::Ended(Some(RunResult {
                json: false,
                data: data.into(),
                response: Some(Arc::new(chosen())),
                kept: None,
            }))
        );
    }
    let none = accepted(5, "hello");
    ledger.store(none.clone()).unwrap();
    end(&ledger, &none, Reason::Ok, None);
    assert_eq!(
        (result(none.id), result(id(9))),
        (ResultOf::Ended(None), ResultOf::Unknown)
    );
}

#[test]
fn lists_are_filtered_and_paged() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for second in 1..=9_u64 {
        let accepted = Accepted {
            durable: false,
            ..accepted(second * 1000, if second % 2 == 0 { "even" } else { "odd" })
        };
        ledger.submit(LedgerCommand::Store(Box::new(accepted.clone())));
        if second > 2 {
            end(
                &ledger,
                &accepted,
                if second == 5 { Reason::Timeout } else { Reason::Ok },
                None,
            );
        }
    }
    let check = |change: &dyn Fn(&mut InvocationFilter), expected: &[u128]| {
        let found: Vec<u128> = ledger.ids(filtered(change)).iter().map(|ms| ms / 1_000_000).collect();
        assert_eq!(found, expected);
    };
    check(&|filter| filter.function = Some(name("even")), &[8, 6, 4, 2]);
    check(&|filter| filter.state = Some(RunState::Queued), &[2, 1]);
    check(&|filter| filter.reason = Some(Reason::Timeout), &[5]);
    check(&|filter| filter.trigger = Some(Trigger::Load), &[]);
    let between =
        |filter: &mut InvocationFilter| (filter.since_ms, filter.until_ms) = (Some(3_000_000), Some(5_000_000));
    check(&between, &[4, 3]);
    let page = ledger.list(filtered(|filter| filter.limit = Some(4)));
    assert_eq!(page.next, Some(id(6000)));
    // New ones do not shift the pages.
    ledger.store(accepted(20_000, "odd")).unwrap();
    check(
        &|filter| (filter.limit, filter.after) = (Some(4), page.next),
        &[5, 4, 3, 2],
    );
    let last = ledger.list(filtered(|filter| {
        (filter.limit, filter.after) = (Some(4), Some(id(2000)));
    }));
    assert_eq!((last.records.len(), last.next), (1, None));
}

#[test]
fn calls_that_are_over_within_a_batch_leave_their_ends_and_counts() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let large = vec![b'x'; rows::INLINE_MAX + 1];
    let call = |second| Accepted {
        durable: false,
        ..accepted(second, "hello")
    };
    let begin = |call: &Accepted| ledger.submit(LedgerCommand::Store(Box::new(call.clone())));
    for (second, reason, result) in [
        (1, Reason::Ok, None),
        (2, Reason::Failed, Some(&b"why"[..])),
        (3, Reason::Ok, Some(&large[..])),
    ] {
        begin(&call(second));
        end(&ledger, &call(second), reason, result);
    }
    // The result of the first attempt is gone after the second attempt, which had none.
    let again = call(4);
    begin(&again);
    let (first, mut unended) = ended(&again, Reason::ExecuteAgain, Some(&large));
    unended.state = RunState::Polling;
    ledger.submit(LedgerCommand::Record(Box::new(first), Box::new(unended)));
    let (_, mut last) = ended(&again, Reason::Ok, None);
    last.attempts = 2;
    ledger.submit(LedgerCommand::Record(
        Box::new(attempt(&again, 2, Reason::Ok)),
        Box::new(last),
    ));
    assert_eq!(ledger.ids(unfiltered()), [4000, 3000, 2000, 1000]);
    assert_eq!(ledger.get(again.id).unwrap().1.len(), 2);
    let result = wait(ledger.opened.reader.result(call(3).id)).unwrap();
    assert!(matches!(result, ResultOf::Ended(Some(result)) if *result.data == *large));
    ledger.stop();
    let db = rusqlite::Connection::open(state.path().join(FILE)).unwrap();
    let counts = db.query_row("SELECT runs, failures, last_attempt FROM function", [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    });
    // The two attempts of the fourth call are one run.
    assert_eq!(counts.unwrap(), (4, 1, 2));
    let bodies = db.query_row("SELECT count(*), max(kind) FROM body", [], |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    // The other is the payload of the one that failed, to run it again.
    assert_eq!(bodies.unwrap(), (2, "result".to_owned()));
}

#[test]
fn the_request_is_kept_where_the_payload_is() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let queued = accepted(1, "hello");
    ledger.store(queued.clone()).unwrap();
    end(&ledger, &queued, Reason::Ok, None);
    let called = Accepted {
        durable: false,
        ..accepted(2, "hello")
    };
    ledger.submit(LedgerCommand::Store(Box::new(called.clone())));
    ledger.opened.writer.flush(LIMIT);
    end(&ledger, &called, Reason::Ok, None);
    ledger.stop();
    let db = rusqlite::Connection::open(state.path().join(FILE)).unwrap();
    let kept = db.query_row("SELECT group_concat(request IS NOT NULL) FROM invocation", [], |row| {
        row.get::<_, String>(0)
    });
    assert_eq!(kept.unwrap(), "1,0");
}

/// A killed fnd may have stored an end that its slot, or the spawner, reports to the next one.
#[test]
fn an_invocation_that_is_stored_twice_counts_once() {
    for (reason, durable) in [(Reason::Ok, false), (Reason::Exit(3), false), (Reason::Exit(3), true)] {
        let state = directory();
        let ledger = Ledger::open(state.path());
        let mut accepted = Accepted {
            durable,
            ..accepted(1, "hello")
        };
        // Without a cause, the acceptance of a call that succeeds is left out: its end is the first row of it.
        accepted.payload.cause = None;
        let store = || {
            ledger.submit(LedgerCommand::Store(Box::new(accepted.clone())));
            end(&ledger, &accepted, reason, Some(b"done"));
            // Each time in a transaction of its own.
            ledger.opened.writer.flush(LIMIT);
        };
        store();
        let once = ledger.get(accepted.id);
        let (attempt, record) = ended(&accepted, reason, Some(b"done"));
        assert_eq!(once, Some((record, vec![attempt])));
        store();
        assert_eq!(ledger.get(accepted.id), once);
        let letters: &[u128] = if durable { &[1000] } else { &[] };
        assert_eq!(dead(&ledger), letters);
        ledger.submit(LedgerCommand::DiscardDeadLetter(accepted.id));
        store();
        assert_eq!(dead(&ledger), [], "a dropped dead letter does not come back");
        ledger.stop();
        let ledger = Ledger::open(state.path());
        let failures = u64::from(reason != Reason::Ok);
        assert_eq!(ledger.opened.restored.counts, [(name("hello"), 1, failures)]);
        ledger.stop();
    }
}

/// Has a change stored; returns what became of it.
fn change(ledger: &Ledger, parts: Vec<LedgerCommand>) -> Result<(), Arc<str>> {
    ledger.submit(LedgerCommand::Change { number: 7, parts });
    match ledger.acknowledged.recv_timeout(LIMIT).unwrap() {
        Acknowledged::Changed { number: 7, result } => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cancellation_is_stored_until_its_invocation_has_ended() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let all = [1, 2].map(|second| accepted(second, "hello"));
    for one in &all {
        ledger.store(one.clone()).unwrap();
        change(&ledger, vec![LedgerCommand::Cancel(one.id)]).unwrap();
    }
    ledger.stop();
    let ledger = Ledger::open(state.path());
    assert_eq!(ledger.opened.restored.cancelled, all.each_ref().map(|one| one.id));
    // The second one ended by itself just before; the next cancellation forgets it.
    end(&ledger, &all[0], Reason::Cancelled, None);
    end(&ledger, &all[1], Reason::Ok, None);
    let third = accepted(3, "hello");
    ledger.store(third.clone()).unwrap();
    change(&ledger, vec![LedgerCommand::Cancel(third.id)]).unwrap();
    ledger.stop();
    assert_eq!(Ledger::open(state.path()).opened.restored.cancelled, [third.id]);
}

#[test]
fn long_runs_do_not_keep_cancellations_from_being_forgotten() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let cancel = |second| {
        let one = accepted(second, "hello");
        ledger.store(one.clone()).unwrap();
        change(&ledger, vec![LedgerCommand::Cancel(one.id)]).unwrap();
        one
    };
    // Six go on; each of the others ends by itself.
    let running: Vec<_> = (1..=6).map(cancel).collect();
    for second in 7..40 {
        end(&ledger, &cancel(second), Reason::Ok, None);
    }
    ledger.stop();
    let found = Ledger::open(state.path()).opened.restored.cancelled;
    assert_eq!(found[..6], running.iter().map(|one| one.id).collect::<Vec<_>>());
    assert!(found.len() < 12, "{} cancellations are stored", found.len());
}

#[test]
fn a_change_that_cannot_be_stored_is_refused_and_not_kept() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    ledger.store(accepted(1, "hello")).unwrap();
    let away = state.path().join("away");
    std::fs::rename(state.path().join(FILE), &away).unwrap();
    let disable = || LedgerCommand::StoreEnabled {
        function: name("hello"),
        disabled: Some(DisabledBy { uid: 7, since_ms: 8 }),
    };
    assert!(change(&ledger, vec![disable()]).is_err());
    assert!(
        change(&ledger, Vec::new()).is_err(),
        "earlier commands may not be stored"
    );
    std::fs::rename(&away, state.path().join(FILE)).unwrap();
    let begun = crate::clock::monotonic();
    while change(&ledger, Vec::new()).is_err() {
        assert!(begun.elapsed() < LIMIT);
    }
    ledger.stop();
    assert_eq!(Ledger::open(state.path()).opened.restored.disabled, []);
}

/// Calls with and without their callers: two end within a batch, one has its acceptance on disk before its end, one goes on.
#[test]
fn the_audit_finds_runs_by_their_callers() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let call = |second, function, caller: Option<(u32, &'static str)>| Accepted {
        durable: false,
        caller: caller.map(|(uid, verb)| {
            let (pid, exe) = (Some(7), Some("/usr/bin/fndctl".into()));
            Arc::new(Caller { uid, pid, exe, verb })
        }),
        ..accepted(second, function)
    };
    let calls = [
        call(1, "hello", Some((1000, "invoke"))),
        call(2, "hello", Some((1001, "request"))),
        call(3, "hello", None),
        call(4, "other", Some((1000, "invoke"))),
        call(5, "other", Some((1000, "invoke"))),
    ];
    let begin = |call: &Accepted| ledger.submit(LedgerCommand::Store(Box::new(call.clone())));
    calls[..3].iter().for_each(begin);
    end(&ledger, &calls[0], Reason::Ok, Some(b"1"));
    end(&ledger, &calls[1], Reason::Ok, None);
    end(&ledger, &calls[2], Reason::Ok, None);
    calls[3..].iter().for_each(begin);
    assert_eq!(ledger.ids(unfiltered()), [5000, 4000, 3000, 2000, 1000]);
    end(&ledger, &calls[3], Reason::Exit(3), None);
    let found = |filter: AuditFilter, uid| {
        let filter = AuditFilter { limit: 2, ..filter };
        let part = wait(ledger.opened.reader.audited(filter, uid)).unwrap();
        let seconds = part.found.iter().map(|(place, _)| *place >> 80).collect::<Vec<_>>();
        (seconds, part.rest.map(|rest| rest >> 80))
    };
    let all = AuditFilter::default;
    let function = Some(name("hello"));
    let verb = Some("request".to_owned());
    let (since_ms, until_ms) = (Some(2000), Some(4000));
    let after = Some(AuditCursor {
        run: id(4).0,
        ..AuditCursor::default()
    });
    for (filter, uid, expected, rest) in [
        (all(), None, vec![4000, 2000], Some(2000)),
        (AuditFilter { after, ..all() }, None, vec![2000, 1000], None),
        (all(), Some(1001), vec![2000], None),
        (AuditFilter { function, ..all() }, None, vec![2000, 1000], None),
        (AuditFilter { verb, ..all() }, None, vec![2000], None),
        (
            AuditFilter {
                since_ms,
                until_ms,
                ..all()
            },
            None,
            vec![2000],
            None,
        ),
    ] {
        assert_eq!(found(filter.clone(), uid), (expected, rest), "{filter:?} {uid:?}");
    }
    let failed = wait(ledger.opened.reader.audited(AuditFilter { limit: 1, ..all() }, None)).unwrap();
    let (_, failed) = &failed.found[0];
    assert_eq!(
        (failed.uid, failed.pid, failed.exe.as_deref()),
        (1000, Some(7), Some("/usr/bin/fndctl"))
    );
    assert_eq!(
        (failed.status, failed.code.as_deref()),
        (Some(500), Some("function-failed"))
    );
    assert_eq!((failed.verb.as_str(), failed.duration_us), ("invoke", 2000));
    let first = wait(ledger.opened.reader.audited(AuditFilter { limit: 3, ..all() }, None)).unwrap();
    let statuses: Vec<_> = first.found.iter().map(|(_, entry)| entry.status).collect();
    // The result of the last one has a status.
    assert_eq!(statuses, [Some(500), Some(200), Some(201)]);
    ledger.stop();
}
