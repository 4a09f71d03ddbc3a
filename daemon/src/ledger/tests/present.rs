//! The database's files are deleted, replaced or truncated while it is open.

use super::*;

/// The first round of forgetting, for example, may write at the same time.
#[test]
fn a_database_that_is_cut_during_a_write_is_found_before_the_next_one() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    ledger.store(accepted(1, "hello")).unwrap();
    let file = state.path().join(FILE);
    std::fs::File::options()
        .write(true)
        .open(file)
        .unwrap()
        .set_len(0)
        .unwrap();
    let present = crate::database::PresentFiles::of(&state.path().join(FILE)).unwrap();
    present.written();
    assert!(
        present
            .wrong_or_short()
            .is_some_and(|wrong| wrong.contains("truncated"))
    );
}

#[test]
fn a_ledger_that_is_not_at_its_name_any_more_takes_no_durable_work_and_says_why() {
    for (n, what) in [
        "was deleted",
        "was moved away",
        "was replaced",
        "was truncated",
        "ledger.db-wal` was deleted",
        "truncated",
    ]
    .into_iter()
    .enumerate()
    {
        let state = directory();
        let ledger = Ledger::open(state.path());
        ledger.store(accepted(1, "hello")).unwrap();
        // All of it is in the file, as it is at some time on a busy node.
        let db = rusqlite::Connection::open(state.path().join(FILE)).unwrap();
        db.query_row("PRAGMA wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
        assert_eq!(ledger.opened.writer.health(), WriterHealth::default());
        let file = state.path().join(FILE);
        let log = state.path().join("ledger.db-wal");
        let kept = state.path().join("kept");
        let cut = |path: &Path| {
            std::fs::File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(0)
                .unwrap();
        };
        match n {
            0 => std::fs::remove_file(&file).unwrap(),
            1 => std::fs::rename(&file, &kept).unwrap(),
            2 => {
                std::fs::copy(&file, &kept).unwrap();
                std::fs::rename(&kept, &file).unwrap();
            }
            3 => cut(&file),
            4 => std::fs::remove_file(&log).unwrap(),
            _ => cut(&log),
        }
        // `health` reports the change although nothing was written since. The length is compared only before a write.
        let says = |ledger: &Ledger| ledger.opened.writer.health().failing.unwrap_or_default();
        if !what.contains("truncated") {
            assert!(says(&ledger).contains(what), "{what}: {}", says(&ledger));
        }
        // A log that is cut while something is written to it is as long as before; the next cut is seen.
        let cut_again = |second| {
            cut(&log);
            ledger.store(accepted(second, "hello")).err()
        };
        let refused = match ledger.store(accepted(2, "hello")) {
            Err(refused) => refused,
            Ok(()) if n == 5 => (10..60).find_map(cut_again).expect(what),
            Ok(()) => panic!("{what}: it is accepted"),
        };
        assert!(
            refused.contains(what) && refused.contains("ledger.db"),
            "{what}: {refused}"
        );
        assert!(ledger.claim(record(&accepted(1, "hello"), RunState::Running)).is_err());
        assert!(says(&ledger).contains(what), "{what}: {}", says(&ledger));
        if n == 1 {
            // Put back it is the same as before.
            std::fs::rename(&kept, &file).unwrap();
            let until = crate::clock::monotonic() + LIMIT;
            while ledger.store(accepted(3, "hello")).is_err() {
                assert!(crate::clock::monotonic() < until, "it stays refused");
                std::thread::yield_now();
            }
            assert_eq!(ledger.opened.writer.health().failing, None);
        }
        drop(db);
        ledger.stop();
    }
}

/// Changes that fnd itself makes to the files are no reason for an alarm.
#[test]
fn a_ledger_that_shrinks_is_not_truncated() {
    let state = directory();
    let kept = Retention {
        others: KeepOf {
            keep: 1,
            ..forever().others
        },
        ..forever()
    };
    let ledger = Ledger::open_with(state.path(), forever());
    for second in 1..40 {
        let accepted = accepted(second, "hello");
        ledger.store(accepted.clone()).unwrap();
        end(&ledger, &accepted, Reason::Ok, Some(&vec![1; 1 << 20]));
    }
    let size = || std::fs::metadata(state.path().join(FILE)).unwrap().len();
    let before = size();
    ledger.opened.writer.retain(kept);
    let until = crate::clock::monotonic() + LIMIT;
    let mut second = 100;
    while size() >= before {
        assert!(crate::clock::monotonic() < until, "it does not shrink: {}", size());
        ledger.store(accepted(second, "hello")).unwrap();
        second += 1;
    }
    ledger.store(accepted(second, "hello")).unwrap();
    assert_eq!(ledger.opened.writer.health(), WriterHealth::default());
    ledger.stop();
}

/// On a full disk a checkpoint has written the header and not the pages behind it: they are in the log, and go on counting.
#[test]
fn a_header_that_is_ahead_of_the_file_is_not_a_truncated_ledger() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    ledger.store(accepted(1, "hello")).unwrap();
    let file = state.path().join(FILE);
    let present = crate::database::PresentFiles::of(&file).unwrap();
    let mut head = std::fs::read(&file).unwrap();
    head.resize(4096, 0);
    head[28..32].copy_from_slice(&1_000_000_u32.to_be_bytes());
    head.copy_within(24..28, 92);
    let copy = state.path().join("ahead");
    std::fs::create_dir(&copy).unwrap();
    std::fs::write(copy.join(FILE), &head).unwrap();
    let ahead = crate::database::PresentFiles::of(&copy.join(FILE)).unwrap();
    assert_eq!((present.wrong_or_short(), ahead.wrong_or_short()), (None, None));
    std::fs::File::options()
        .write(true)
        .open(copy.join(FILE))
        .unwrap()
        .set_len(100)
        .unwrap();
    assert!(ahead.wrong_or_short().is_some_and(|wrong| wrong.contains("truncated")));
    ledger.stop();
}
