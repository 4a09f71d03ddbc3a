//! Logs that SQLite itself wrote, whole and with each of their bytes changed.

use super::*;
use rusqlite::Connection;
use std::path::Path;

/// Makes a database with a log of some commits. Returns both files and the end of the log.
fn written(directory: &Path) -> (Vec<u8>, Vec<u8>, LogEnd) {
    let path = directory.join("x.db");
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    db.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT); PRAGMA wal_checkpoint(truncate)")
        .unwrap();
    for n in 0..5 {
        db.execute("INSERT INTO t VALUES (?1, ?2)", (n, "x".repeat(3000)))
            .unwrap();
    }
    let log = std::fs::read(directory.join("x.db-wal")).unwrap();
    let file = std::fs::read(&path).unwrap();
    let frames = u32::try_from((log.len() - HEADER) / (FRAME + PAGE)).unwrap();
    let salts = salts(log.first_chunk().unwrap());
    (file, log, LogEnd { salts, frames })
}

/// Returns how many rows SQLite finds with a log.
fn rows(file: &[u8], log: &[u8]) -> Option<u32> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("x.db"), file).unwrap();
    std::fs::write(directory.path().join("x.db-wal"), log).unwrap();
    let db = Connection::open(directory.path().join("x.db")).unwrap();
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).ok()
}

#[test]
fn each_bit_of_a_log_that_sqlite_would_ignore_in_silence_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let (file, log, end) = written(directory.path());
    assert_eq!(
        (rows(&file, &log), end.missing_in(&scan(&*log).unwrap())),
        (Some(5), None)
    );
    let places = (0..HEADER + FRAME).chain((0..log.len()).step_by(509));
    let (mut silent, mut anew) = (0, 0);
    for (n, at) in places.enumerate() {
        let mut damaged = log.clone();
        damaged[at] ^= 1 << (n % 8);
        let found = scan(&*damaged).unwrap();
        let missing = end.missing_in(&found);
        // The word for the number of checkpoints is the only one that SQLite does not use; its checksum is.
        assert!(missing.is_some(), "byte {at}: {found:?}");
        silent += u32::from(rows(&file, &damaged) != Some(5));
        let mut new = Vec::new();
        write_anew(&*damaged, &end, 2, &mut new).unwrap();
        // A page whose number is wrong is left out.
        let found = scan(&*new).unwrap();
        assert!(found.committed + 1 >= end.frames, "byte {at}: {found:?}");
        // A page number that is wrong costs a page; all else is there.
        anew += u32::from(rows(&file, &new) == Some(5));
    }
    assert!(silent > 80 && anew > silent - 10, "{silent} {anew}");
}

#[test]
fn a_log_that_is_gone_or_shorter_or_of_another_time_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let (_, log, end) = written(directory.path());
    let of = |log: &[u8]| end.missing_in(&scan(log).unwrap());
    let ends_with = |log: &[u8], words: &str| {
        let missing = of(log).unwrap_or_default();
        assert!(missing.contains(words), "{missing}");
    };
    ends_with(&[], "gone");
    ends_with(&log[..20], "gone");
    ends_with(&log[..HEADER], "after 0 of");
    ends_with(&log[..log.len() - 1], "is damaged after");
    let other = tempfile::tempdir().unwrap();
    ends_with(&written(other.path()).1, "another one");
    // A commit that is not recorded yet.
    let before = LogEnd {
        frames: end.frames - 1,
        ..end
    };
    assert_eq!(before.missing_in(&scan(&*log).unwrap()), None);
    assert_eq!(LogEnd::default().missing_in(&scan(&*log).unwrap()), None);
}

/// All of a log was copied into the database, and a commit begins it anew: SQLite raises the first salt by one.
#[test]
fn a_log_that_has_begun_anew_misses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    db.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
    let header = std::fs::read(directory.path().join("x.db-wal")).unwrap();
    let end = LogEnd {
        salts: salts(header.first_chunk().unwrap()),
        frames: 2,
    };
    for _ in 0..3 {
        db.query_row("PRAGMA wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
        db.execute("INSERT INTO t VALUES (1)", []).unwrap();
        let log = std::fs::read(directory.path().join("x.db-wal")).unwrap();
        let found = scan(&*log).unwrap();
        assert_ne!(found.header, LogHeader::Whole(end.salts));
        assert_eq!(end.missing_in(&found), None, "{found:?}");
    }
}
