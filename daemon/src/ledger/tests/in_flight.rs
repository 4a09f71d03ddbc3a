//! Attempts that had begun and were not stored when fnd was killed.

use super::*;

fn begun(second: u64) -> Begun {
    Begun {
        invocation: id(second),
        attempt: Attempt(1),
        function: name("hello"),
        trigger: "manual".into(),
        started_ms: 7,
    }
}

fn running(ledger: &Ledger) -> Vec<(InvocationId, RunState, u32, Option<u64>)> {
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
    let state = directory();
    let ledger = Ledger::open(state.path());
    for n in [5, 6] {
        ledger.opened.writer.begins(begun(n));
    }
    let (copy, next) = killed(state.path());
    assert_eq!(
        running(&next),
        [
            (id(5), RunState::Running, 1, Some(7)),
            (id(6), RunState::Running, 1, Some(7))
        ]
    );
    assert_eq!(next.opened.restored.unfinished[0].accepted.accepted_ms, 5000);
    assert_eq!(next.opened.last_id, Some(id(6)));
    next.stop();
    let again = Ledger::open(copy.path());
    assert_eq!(running(&again).len(), 2, "the ledger has them now");
    again.stop();
    ledger.stop();
}

/// Bytes of a slot of the table; the first is the table's own.
fn slot(state: &Path, n: usize) -> Vec<u8> {
    let bytes = std::fs::read(state.join("in-flight")).unwrap();
    bytes.chunks(512).nth(n).unwrap().to_vec()
}

fn wait_emptied(state: &Path, n: usize) {
    let until = crate::clock::monotonic() + LIMIT;
    while slot(state, n)[..6] != [0; 6] {
        assert!(crate::clock::monotonic() < until, "the slot stays filled");
        std::thread::yield_now();
    }
}

#[test]
fn a_stored_end_empties_the_slot() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for n in [5, 6] {
        ledger.opened.writer.begins(begun(n));
    }
    end(&ledger, &accepted(5, "hello"), Reason::Ok, None);
    wait_emptied(state.path(), 1);
    // It is used again.
    ledger.opened.writer.begins(begun(7));
    assert_ne!(slot(state.path(), 1)[..6], [0; 6]);
    let (_copy, next) = killed(state.path());
    assert_eq!(
        running(&next).iter().map(|found| found.0).collect::<Vec<_>>(),
        [id(6), id(7)]
    );
    next.stop();
    ledger.stop();
}

/// A claim of the next attempt of what was accepted.
fn claim(accepted: &Accepted) -> InvocationRecord {
    InvocationRecord {
        attempts: 1,
        started_ms: Some(9),
        ..record(accepted, RunState::Running)
    }
}

#[test]
fn what_was_claimed_and_has_not_begun_waits_again() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for n in [4, 5, 6] {
        ledger.store(accepted(n, "hello")).unwrap();
    }
    for n in [4, 5] {
        ledger.claim(claim(&accepted(n, "hello"))).unwrap();
    }
    ledger.opened.writer.begins(begun(5));
    let waiting = (id(4), RunState::Queued, 0, None);
    let found = |ledger: &Ledger| running(ledger);
    let (copy, next) = killed(state.path());
    let expected = [
        waiting,
        (id(5), RunState::Running, 1, Some(9)),
        (id(6), RunState::Queued, 0, None),
    ];
    assert_eq!(found(&next), expected);
    next.stop();
    // The table goes on with what runs: another fnd later nothing else is said of it.
    let again = Ledger::open(copy.path());
    assert_eq!(found(&again), expected);
    again.stop();
    ledger.stop();
}

#[test]
fn a_retry_that_was_claimed_and_has_not_begun_waits_again() {
    for (reason, state, polls) in [
        (Reason::Exit(3), RunState::Waiting, 0),
        (Reason::ExecuteAgain, RunState::Polling, 1),
    ] {
        let directory = directory();
        let ledger = Ledger::open(directory.path());
        let accepted = accepted(4, "hello");
        ledger.store(accepted.clone()).unwrap();
        let unended = InvocationRecord {
            attempts: 1,
            started_ms: Some(9),
            reason: Some(reason),
            ..record(&accepted, state)
        };
        let first = attempt(&accepted, 1, reason);
        ledger.submit(LedgerCommand::Record(Box::new(first), Box::new(unended.clone())));
        let claimed = InvocationRecord {
            attempts: 2,
            polls,
            state: RunState::Running,
            ..unended
        };
        ledger.claim(claimed).unwrap();
        let (_copy, next) = killed(directory.path());
        assert_eq!(running(&next), [(id(4), state, 1, Some(9))]);
        assert_eq!(next.opened.restored.unfinished[0].record.polls, 0);
        next.stop();
        ledger.stop();
    }
}

/// If anything shows that the table may be incomplete, fnd cannot know whether claimed work has begun.
#[test]
fn without_a_table_that_is_whole_and_of_this_boot_what_was_claimed_counts_as_begun() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    ledger.store(accepted(4, "hello")).unwrap();
    ledger.claim(claim(&accepted(4, "hello"))).unwrap();
    ledger.opened.writer.begins(begun(5));
    let running_after = |damage: &dyn Fn(&mut Vec<u8>)| {
        let copy = directory();
        for entry in std::fs::read_dir(state.path()).unwrap().map(Result::unwrap) {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        let path = copy.path().join("in-flight");
        let mut bytes = std::fs::read(&path).unwrap();
        damage(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        let next = Ledger::open(copy.path());
        let found = running(&next)[0];
        next.stop();
        found.1 == RunState::Running
    };
    assert!(!running_after(&|_| {}));
    assert!(running_after(&Vec::clear), "a power cut took it");
    assert!(running_after(&|bytes| bytes[540] ^= 1), "a slot is damaged");
    let whose = slot(state.path(), 0);
    let used = 6 + usize::from(whose[4]);
    assert!(used > 50, "{used}");
    for at in 0..used {
        assert!(running_after(&|bytes| bytes[at] ^= 0x10), "byte {at} of whose it is");
    }
    // Restored from a copy, the database is of another moment than the table.
    let mut copied = crate::ledger::copy(state.path()).unwrap();
    let other = directory();
    std::io::copy(
        &mut copied,
        &mut std::fs::File::create(other.path().join(FILE)).unwrap(),
    )
    .unwrap();
    std::fs::copy(state.path().join("in-flight"), other.path().join("in-flight")).unwrap();
    let next = Ledger::open(other.path());
    assert_eq!(running(&next)[0].1, RunState::Running);
    next.stop();
    ledger.stop();
}

/// Returns the records of a call that has ended and is not stored yet.
fn call(second: u64, reason: Reason) -> (AttemptRecord, InvocationRecord) {
    let accepted = Accepted {
        durable: false,
        ..accepted(second, "hello")
    };
    let (mut attempt, mut record) = ended(&accepted, reason, None);
    attempt.message = if reason == Reason::Ok { "" } else { "it broke" }.to_owned();
    record.message = attempt.message.clone();
    record.started_ms = Some(7);
    (attempt, record)
}

#[test]
fn an_end_that_was_reported_and_not_stored_is_the_end() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    // The last one has ended before its function saw it.
    let calls = [(5, Reason::Ok), (6, Reason::Error), (7, Reason::Load)];
    for (n, reason) in calls {
        let (attempt, record) = call(n, reason);
        if reason != Reason::Load {
            writer.begins(begun(n));
        }
        writer.ends(
            &AttemptRecord {
                started_ms: 7,
                ..attempt
            },
            &record,
            false,
        );
    }
    let (copy, next) = killed(state.path());
    assert_eq!(running(&next), []);
    for (n, reason) in calls {
        let (attempt, record) = call(n, reason);
        let expected = AttemptRecord {
            started_ms: 7,
            ..attempt
        };
        let expected_record = InvocationRecord {
            ended_ms: Some(expected.ended_ms),
            accepted_ms: n * 1000,
            ..record
        };
        assert_eq!(next.get(id(n)), Some((expected_record, vec![expected])));
    }
    assert_eq!(next.opened.restored.counts, [(name("hello"), 3, 2)]);
    next.stop();
    let again = Ledger::open(copy.path());
    assert_eq!(again.opened.restored.counts, [(name("hello"), 3, 2)], "counted once");
    again.stop();
    ledger.stop();
}

/// A kill can leave two slots of an attempt: the slot of its end is filled before that of its start is emptied.
#[test]
fn an_attempt_with_two_slots_has_ended() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    let (attempt, record) = call(5, Reason::Error);
    writer.begins(begun(5));
    let start = slot(state.path(), 1);
    writer.ends(&attempt, &record, false);
    let header = slot(state.path(), 0);
    let table = std::fs::read(state.path().join("in-flight")).unwrap();
    let end = table
        .chunks(512)
        .skip(1)
        .find(|slot| slot[..6] != [0; 6])
        .unwrap()
        .to_vec();
    assert_ne!(start, end);
    for slots in [[&header, &start, &end], [&header, &end, &start]] {
        let copy = copy_of(state.path());
        std::fs::write(copy.path().join("in-flight"), slots.map(Vec::as_slice).concat()).unwrap();
        let next = Ledger::open(copy.path());
        let (found, attempts) = next.get(id(5)).unwrap();
        assert_eq!((found.state, found.attempts, attempts.len()), (RunState::Failed, 1, 1));
        assert_eq!(next.opened.restored.counts, [(name("hello"), 1, 1)]);
        next.stop();
    }
    ledger.stop();
}

/// A slot does not say whether the invocation is durable; the row of the invocation does.
#[test]
fn an_end_in_a_slot_makes_a_dead_letter_of_durable_work_only() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for (n, durable) in [(5, true), (6, false)] {
        let accepted = Accepted {
            durable,
            ..accepted(n, "hello")
        };
        ledger.submit(LedgerCommand::Store(Box::new(accepted)));
    }
    ledger.opened.writer.flush(LIMIT);
    for n in [5, 6, 7] {
        ledger.opened.writer.begins(begun(n));
        let (attempt, record) = call(n, Reason::Error);
        ledger.opened.writer.ends(&attempt, &record, false);
    }
    let (_copy, next) = killed(state.path());
    let letters = wait(next.opened.reader.dead_letters(unfiltered())).unwrap().letters;
    let letters: Vec<_> = letters.iter().map(|letter| letter.invocation.id).collect();
    assert_eq!(letters, [id(5)]);
    assert_eq!(next.opened.writer.dead_letters_of(&name("hello")), 1);
    assert!(next.get(id(5)).unwrap().0.durable && !next.get(id(7)).unwrap().0.durable);
    next.stop();
    ledger.stop();
}

/// The spawner tells it again and has its result, unless it died as well.
#[test]
fn the_end_of_a_script_is_taken_from_its_slot_only_where_the_spawner_does_not_know_it() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    for (n, cold) in [(5, None), (6, None), (7, Some(false))] {
        writer.begins(begun(n));
        let (attempt, record) = call(n, Reason::Ok);
        writer.ends(&AttemptRecord { cold, ..attempt }, &record, false);
    }
    let copy = copy_of(state.path());
    let held_attempts = [(id(5), 1), (id(7), 1)];
    let opened = open(site(copy.path()), forever(), &held_attempts, |_| {}).unwrap();
    let unfinished: Vec<_> = opened.restored.unfinished.iter().map(|found| found.record.id).collect();
    assert_eq!(unfinished, [id(5)]);
    assert_eq!(
        opened.restored.ended,
        [(id(7), 1)].into(),
        "the worker of a call knows no end"
    );
    opened.writer.stop();
    ledger.stop();
}

/// The spawner outlives one fnd, and the next one is killed before it has stored what the spawner reports. Then the
/// spawner dies, too.
#[test]
fn an_end_that_is_left_to_the_spawner_outlives_the_spawner() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    writer.begins(begun(5));
    let (attempt, record) = call(5, Reason::Error);
    let script = AttemptRecord { cold: None, ..attempt };
    writer.ends(&script, &record, false);
    let copy = copy_of(state.path());
    for _ in 0..2 {
        let opened = open(site(copy.path()), forever(), &[(id(5), 1)], |_| {}).unwrap();
        let unfinished: Vec<_> = opened.restored.unfinished.iter().map(|found| found.record.id).collect();
        assert_eq!(unfinished, [id(5)]);
        // A caller may have been told the reason.
        assert_eq!(opened.restored.ended_by_themselves, [(id(5), 1)].into());
        opened.writer.stop();
    }
    let last = Ledger::open(copy.path());
    assert_eq!(running(&last), []);
    let (found, attempts) = last.get(id(5)).unwrap();
    assert_eq!(
        (found.state, found.reason, attempts.len()),
        (RunState::Failed, Some(Reason::Error), 1)
    );
    last.stop();
    ledger.stop();
}

/// The slot of the attempt that follows may stand before that of the one before it.
#[test]
fn an_end_is_known_also_where_the_next_attempt_has_begun() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    writer.begins(begun(5));
    writer.begins(begun(6));
    let (attempt, record) = call(6, Reason::Error);
    let waiting = InvocationRecord {
        state: RunState::Waiting,
        ended_ms: None,
        ..record
    };
    writer.ends(&attempt, &waiting, false);
    let (other, ended) = call(5, Reason::Ok);
    ledger.submit(LedgerCommand::Record(Box::new(other), Box::new(ended)));
    wait_emptied(state.path(), 1);
    writer.begins(Begun {
        attempt: Attempt(2),
        ..begun(6)
    });
    assert_ne!(slot(state.path(), 1)[..6], [0; 6], "it is used again");
    let (_copy, next) = killed(state.path());
    let (found, attempts) = next.get(id(6)).unwrap();
    assert_eq!((found.state, found.attempts), (RunState::Running, 2));
    assert_eq!(
        attempts.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>(),
        [Attempt(1)]
    );
    next.stop();
    ledger.stop();
}

#[test]
fn an_end_says_what_is_lost_with_it() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    let (attempt, mut record) = call(5, Reason::Ok);
    record.result = Some(RunResult {
        json: true,
        data: b"{}"[..].into(),
        response: None,
        kept: None,
    });
    writer.begins(begun(5));
    writer.ends(&attempt, &record, true);
    let (_copy, next) = killed(state.path());
    let (found, _) = next.get(id(5)).unwrap();
    assert_eq!((found.state, found.result), (RunState::Succeeded, None));
    assert_eq!(
        found.message,
        "its result is lost, and its output may be lost: fnd was killed before that was on disk"
    );
    next.stop();
    ledger.stop();
}

#[test]
fn a_failure_that_is_tried_again_waits_and_a_poll_is_not_known_to_have_ended() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    for (n, reason, expected) in [
        (5, Reason::Error, RunState::Waiting),
        (6, Reason::ExecuteAgain, RunState::Polling),
    ] {
        let accepted = accepted(n, "hello");
        ledger.store(accepted.clone()).unwrap();
        ledger.claim(claim(&accepted)).unwrap();
        writer.begins(begun(n));
        let (mut attempt, record) = call(n, reason);
        attempt.next_attempt_ms = Some(77);
        let record = InvocationRecord {
            state: expected,
            ended_ms: None,
            next_attempt_ms: Some(77),
            ..record
        };
        writer.ends(&attempt, &record, false);
    }
    let (_copy, next) = killed(state.path());
    assert_eq!(
        running(&next),
        [
            (id(5), RunState::Waiting, 1, Some(9)),
            (id(6), RunState::Running, 1, Some(9))
        ]
    );
    assert_eq!(next.opened.restored.unfinished[0].record.next_attempt_ms, Some(77));
    next.stop();
    ledger.stop();
}

/// Returns the record of a call that somebody has cancelled after so many attempts, while none ran.
fn cancelled(second: u64, attempts: u32) -> InvocationRecord {
    InvocationRecord {
        state: RunState::Cancelled,
        started_ms: (attempts > 0).then_some(7),
        ended_ms: Some(80),
        attempts,
        reason: Some(Reason::Cancelled),
        message: "cancelled on request".to_owned(),
        exhausted: None,
        ..call(second, Reason::Error).1
    }
}

/// The first one has not begun, and nothing of it is stored. The second one waits for its retry, and that is stored, or
/// only in the table, or its attempt asks for another one, which the table does not have.
#[test]
fn a_call_that_ended_without_an_attempt_has_this_end() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    for (n, reason, expected) in [
        (6, Reason::Error, RunState::Waiting),
        (7, Reason::Error, RunState::Waiting),
        (8, Reason::ExecuteAgain, RunState::Polling),
    ] {
        writer.begins(begun(n));
        let (attempt, record) = call(n, reason);
        let waiting = InvocationRecord {
            state: expected,
            ended_ms: None,
            next_attempt_ms: Some(77),
            ..record
        };
        writer.ends(&attempt, &waiting, false);
        writer.ends_waiting(&cancelled(n, 1));
        if n == 6 {
            ledger.submit(LedgerCommand::Record(Box::new(attempt), Box::new(waiting)));
        }
    }
    writer.ends_waiting(&cancelled(5, 0));
    writer.flush(LIMIT);
    let copy = copy_of(state.path());
    let next = Ledger::open(copy.path());
    assert_eq!(running(&next), []);
    for (n, attempts, stored) in [(5, 0, 0), (6, 1, 1), (7, 1, 1), (8, 1, 0)] {
        let (found, known) = next.get(id(n)).unwrap();
        assert_eq!((found, known.len()), (cancelled(n, attempts), stored));
    }
    assert_eq!(next.opened.restored.counts, [(name("hello"), 3, 0)]);
    next.stop();
    let again = Ledger::open(copy.path());
    assert_eq!(again.opened.restored.counts, [(name("hello"), 3, 0)], "counted once");
    again.stop();
    ledger.submit(LedgerCommand::Update(Box::new(cancelled(7, 1))));
    ledger.stop();
    let bytes = std::fs::read(state.path().join("in-flight")).unwrap();
    let filled = bytes.chunks(512).skip(1).filter(|slot| slot[..6] != [0; 6]);
    assert_eq!(filled.count(), 4, "the ends of 5, 6 and 8, and the start of 8");
}

/// A caller waits for the end of durable work. The first one is queued, the second one is claimed and has not begun, and
/// the third one is claimed for its second attempt, after a poll with a result.
#[test]
fn durable_work_that_ended_without_an_attempt_has_this_end() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    for n in [5, 6, 7] {
        ledger.store(accepted(n, "hello")).unwrap();
    }
    for n in [6, 7] {
        ledger.claim(claim(&accepted(n, "hello"))).unwrap();
    }
    writer.begins(begun(7));
    let (attempt, record) = ended(&accepted(7, "hello"), Reason::ExecuteAgain, Some(b"1"));
    let polling = InvocationRecord {
        state: RunState::Polling,
        ended_ms: None,
        ..record
    };
    ledger.submit(LedgerCommand::Record(Box::new(attempt), Box::new(polling.clone())));
    let second = InvocationRecord {
        state: RunState::Running,
        attempts: 2,
        polls: 1,
        ..polling.clone()
    };
    ledger.claim(second).unwrap();
    let not_begun = |n| super::record(&accepted(n, "hello"), RunState::Queued);
    let ends = [not_begun(5), not_begun(6), polling].map(|record| InvocationRecord {
        state: RunState::Cancelled,
        ended_ms: Some(80),
        reason: Some(Reason::Cancelled),
        message: "cancelled on request".to_owned(),
        ..record
    });
    for end in &ends {
        writer.ends_waiting(end);
    }
    let (_copy, next) = killed(state.path());
    assert_eq!(running(&next), []);
    for end in ends {
        assert_eq!(next.get(end.id).unwrap().0, end);
    }
    next.stop();
    ledger.stop();
}

/// The spawner would report the end of its attempt again, but nobody waits for this report.
#[test]
fn a_script_that_ended_before_its_retry_has_this_end_and_its_attempt() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    writer.begins(begun(5));
    let (mut attempt, record) = call(5, Reason::Error);
    attempt.cold = None;
    let waiting = InvocationRecord {
        state: RunState::Waiting,
        ended_ms: None,
        ..record
    };
    writer.ends(&attempt, &waiting, false);
    writer.ends_waiting(&cancelled(5, 1));
    let copy = copy_of(state.path());
    let opened = open(site(copy.path()), forever(), &[(id(5), 1)], |_| {}).unwrap();
    assert_eq!(opened.restored.unfinished.len(), 0);
    assert_eq!(opened.restored.ended, [(id(5), 1)].into());
    let found = wait(opened.reader.get(id(5))).unwrap().unwrap();
    assert_eq!((found.record, found.attempts.len()), (cancelled(5, 1), 1));
    opened.writer.stop();
    ledger.stop();
}

#[test]
fn words_that_do_not_fit_are_cut_and_say_so() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    let long = format!("{}/{}", "g".repeat(63), "f".repeat(63));
    let begun = Begun {
        function: name(&long),
        ..begun(5)
    };
    let (mut attempt, record) = call(5, Reason::Signal(34));
    attempt.message = "ä".repeat(2000);
    writer.begins(begun);
    writer.ends(&attempt, &record, false);
    let (_copy, next) = killed(state.path());
    let (found, attempts) = next.get(id(5)).unwrap();
    assert_eq!((found.function, attempts[0].reason), (name(&long), Reason::Signal(34)));
    let (words, cut) = found.message.split_once(' ').unwrap();
    assert!(
        words.len() >= 80 && words.chars().all(|c| c == 'ä'),
        "{}",
        found.message
    );
    assert_eq!(cut, "... (cut)");
    next.stop();
    ledger.stop();
}

#[test]
fn one_known_as_queued_has_begun_and_one_that_ended_is_left_alone() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for (second, durable) in [(4, true), (5, false)] {
        let queued = Accepted {
            durable,
            ..accepted(second, "hello")
        };
        ledger.submit(LedgerCommand::Store(Box::new(queued)));
    }
    end(&ledger, &accepted(6, "hello"), Reason::Ok, None);
    ledger.opened.writer.flush(LIMIT);
    for n in [4, 5, 6] {
        ledger.opened.writer.begins(begun(n));
    }
    let (_copy, next) = killed(state.path());
    assert_eq!(
        running(&next),
        [
            (id(4), RunState::Running, 1, Some(7)),
            (id(5), RunState::Running, 1, Some(7))
        ]
    );
    next.stop();
    ledger.stop();
}

#[test]
fn every_flipped_byte_is_found_and_makes_no_end() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let writer = &ledger.opened.writer;
    let (attempt, record) = call(5, Reason::Ok);
    for n in [5, 6] {
        writer.begins(begun(n));
    }
    writer.ends(&attempt, &record, false);
    ledger.stop();
    let path = state.path().join("in-flight");
    let whole = std::fs::read(&path).unwrap();
    let database = std::fs::read(state.path().join(FILE)).unwrap();
    // The end has a slot of its own, where the table is mapped.
    let length = |at: usize| usize::from(whole[at + 4]) + 256 * usize::from(whole[at + 5]);
    let slot = (512..whole.len()).step_by(512).max_by_key(|at| length(*at)).unwrap();
    let used = 6 + length(slot);
    assert!(used > 100, "{used}");
    for (at, flip) in (0..used).flat_map(|at| [(at, 1), (at, 0x80)]) {
        let mut damaged = whole.clone();
        damaged[slot + at] ^= flip;
        let copy = directory();
        std::fs::write(copy.path().join("in-flight"), &damaged).unwrap();
        std::fs::write(copy.path().join(FILE), &database).unwrap();
        let next = Ledger::open(copy.path());
        assert_eq!(running(&next), [(id(6), RunState::Running, 1, Some(7))], "byte {at}");
        assert!(next.get(id(5)).is_none(), "byte {at}");
        next.stop();
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_the_table_holds_the_ledger_opens(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..2000)) {
        let state = directory();
        std::fs::write(state.path().join("in-flight"), bytes).unwrap();
        let ledger = Ledger::open(state.path());
        assert_eq!(running(&ledger), []);
        ledger.stop();
    }
}

fn apart<'a>(state: &'a Path, run: &'a Path) -> Site<'a> {
    Site { run, ..site(state) }
}

/// The state's disk is not waited for when a call begins: the table is in the run directory.
#[test]
fn the_table_is_in_the_run_directory() {
    let (state, run) = (directory(), directory());
    let opened = open(apart(state.path(), run.path()), forever(), &[], |_| {}).unwrap();
    opened.writer.begins(begun(5));
    opened.writer.stop();
    assert!(run.path().join("in-flight").exists() && !state.path().join("in-flight").exists());
    let opened = open(apart(state.path(), run.path()), forever(), &[], |_| {}).unwrap();
    let found = &opened.restored.unfinished[0].record;
    assert_eq!((found.id, found.state), (id(5), RunState::Running));
    opened.writer.stop();
}

/// Two states may use one run directory, one after the other.
#[test]
fn a_table_of_another_database_says_nothing() {
    let (one, other, run) = (directory(), directory(), directory());
    for state in [&one, &other] {
        // Both know a table.
        let opened = open(apart(state.path(), run.path()), forever(), &[], |_| {}).unwrap();
        opened.writer.stop();
    }
    let opened = open(apart(one.path(), run.path()), forever(), &[], |_| {}).unwrap();
    opened.writer.begins(begun(5));
    opened.writer.stop();
    let opened = open(apart(other.path(), run.path()), forever(), &[], |_| {}).unwrap();
    assert_eq!(opened.restored.unfinished.len(), 0);
    opened.writer.stop();
}
