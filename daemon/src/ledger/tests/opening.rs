//! A ledger is opened: of a newer schema, damaged, held by another fnd; and copies of it.

use super::*;

#[test]
fn a_newer_schema_is_refused_untouched() {
    let state = directory();
    Ledger::open(state.path()).stop();
    let file = state.path().join(FILE);
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute("UPDATE meta SET value = '99'", []).unwrap();
    drop(db);
    let before = std::fs::read(&file).unwrap();
    let error = open(site(state.path()), Retention::default(), &[], |_| {})
        .err()
        .unwrap();
    assert!(
        matches!(&error, OpenError::Newer { found, .. } if found == "99"),
        "{error}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn a_damaged_database_is_refused_untouched_and_never_read_as_empty() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for second in 1..200 {
        let accepted = Accepted {
            durable: false,
            ..accepted(second, "hello")
        };
        ledger.submit(LedgerCommand::Store(Box::new(accepted)));
    }
    ledger.stop();
    drop(std::fs::remove_file(state.path().join("ledger.db-wal")));
    let file = state.path().join(FILE);
    let whole = std::fs::read(&file).unwrap();
    for damage in [
        &|bytes: &mut Vec<u8>| bytes[0] = b'X',
        &|bytes: &mut Vec<u8>| bytes[4096..6000].fill(0x5a),
        &|bytes: &mut Vec<u8>| bytes.truncate(5000),
    ] as [&dyn Fn(&mut Vec<u8>); 3]
    {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        std::fs::write(&file, &bytes).unwrap();
        let error = open(site(state.path()), Retention::default(), &[], |_| {})
            .err()
            .unwrap();
        assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("fndctl verify --repair"), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
}

#[test]
fn a_state_directory_is_held_by_one() {
    let state = directory();
    let held = lock_state(state.path()).unwrap();
    match lock_state(state.path()) {
        // It is the directory that `--state` names.
        Err(LockError::Held(named)) => assert_eq!(Some(named.as_path()), state.path().parent()),
        other => panic!("{other:?}"),
    }
    drop(held);
    drop(lock_state(state.path()).unwrap());
    assert!(matches!(
        lock_state(&state.path().join("absent")),
        Err(LockError::Io { .. })
    ));
}

#[test]
fn the_ledger_reports_which_held_attempts_have_ended_and_when_ends_are_on_disk() {
    let state = directory();
    let (sender, acknowledged) = channel();
    let opened = open(site(state.path()), forever(), &[], move |event| {
        drop(sender.send(event));
    })
    .unwrap();
    let [running, over, never] = [1, 2, 3].map(|second| Accepted {
        durable: false,
        ..accepted(second, "f")
    });
    for accepted in [&running, &over] {
        opened
            .writer
            .submit(LedgerCommand::Store(Box::new(accepted.clone())))
            .unwrap();
    }
    let (attempt, record) = ended(&over, Reason::Ok, None);
    // An attempt of a script: the worker of a call goes on, and fnd does not wait to forget it.
    let attempt = AttemptRecord { cold: None, ..attempt };
    let worker = attempt.worker.expect("it was started");
    opened
        .writer
        .submit(LedgerCommand::Record(Box::new(attempt), Box::new(record)))
        .unwrap();
    match acknowledged.recv_timeout(LIMIT).unwrap() {
        Acknowledged::Recorded(workers) => assert_eq!(workers, [worker]),
        other => panic!("{other:?}"),
    }
    // Its second attempt has begun, and the end of the first is not stored.
    opened.writer.begins(Begun {
        invocation: running.id,
        attempt: Attempt(2),
        function: running.function.clone(),
        trigger: running.trigger.as_str().into(),
        started_ms: 0,
    });
    opened.writer.stop();
    let held_attempts = [(running.id, 1), (over.id, 1), (never.id, 1)];
    let opened = open(site(state.path()), forever(), &held_attempts, |_| {}).unwrap();
    assert_eq!(opened.restored.ended, [(over.id, 1)].into());
    assert_eq!(opened.restored.unfinished[0].record.attempts, 2);
    opened.writer.stop();
}

#[test]
fn a_copy_has_everything_and_no_name() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    over(&ledger, 1, "f", Reason::Ok);
    let mut copy = crate::ledger::copy(state.path()).unwrap();
    let other = directory();
    let mut to = std::fs::File::create(other.path().join(FILE)).unwrap();
    std::io::copy(&mut copy, &mut to).unwrap();
    let names: Vec<_> = std::fs::read_dir(state.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| name == "in-flight" || name.to_str().unwrap().starts_with("ledger.db")),
        "{names:?}"
    );
    let restored = Ledger::open(other.path());
    assert!(restored.get(id(1)).is_some());
}

#[test]
fn a_copy_that_a_kill_left_behind_is_removed() {
    let state = directory();
    Ledger::open(state.path()).stop();
    for name in ["backup-17.db", "backup-17.db-journal"] {
        std::fs::write(state.path().join(name), "half a copy").unwrap();
    }
    Ledger::open(state.path()).stop();
    let left = std::fs::read_dir(state.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter()
            .all(|name| !name.to_string_lossy().starts_with("backup"))
    );
}
