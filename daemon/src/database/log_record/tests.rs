//! Compares a record with a log that is whole, short, gone, or of another database.

use super::*;

fn content() -> LogRecordContent {
    LogRecordContent {
        closes: false,
        directory: FileIdentity([1, 2, 3]),
        database: FileIdentity([4, 5, u64::MAX]),
        end: LogEnd {
            salts: [7, u32::MAX],
            frames: 9,
        },
        boot: "3f1c2b6e-0000-4000-8000-123456789abc".to_owned(),
    }
}

#[test]
fn a_record_is_read_as_it_was_written_and_not_at_all_with_a_wrong_bit() {
    let bytes = content().bytes();
    assert_eq!(
        (bytes.len(), LogRecordContent::parse(&bytes)),
        (LENGTH, Some(content()))
    );
    for bit in 0..bytes.len() * 8 {
        let mut wrong = bytes.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(LogRecordContent::parse(&wrong), None, "bit {bit}");
    }
    assert_eq!(LogRecordContent::parse(&bytes[..LENGTH - 1]), None);
}

/// Makes a database, as an fnd that is killed leaves it.
fn killed(directory: &Path) -> PathBuf {
    let path = directory.join("x.db");
    let db = Connection::open(&path).unwrap();
    super::super::keep_log_on_close(&db, true).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS t (n INTEGER)").unwrap();
    let mut recorder = LogRecorder::begin(directory, &path, &db).unwrap();
    for _ in 0..3 {
        db.execute("INSERT INTO t VALUES (1)", []).unwrap();
        recorder.record(LogPages::of(&db).unwrap());
    }
    assert_eq!(recorder.content.end.frames, 5);
    path
}

fn lost(path: &Path) -> Option<LostCommits> {
    lost_commits(path.parent().unwrap(), path).unwrap()
}

#[test]
fn a_start_after_a_kill_knows_whether_the_log_has_all_that_was_committed() {
    let directory = tempfile::tempdir().unwrap();
    let path = killed(directory.path());
    assert_eq!(lost(&path), None);
    let log = beside(&path, "-wal");
    let whole = std::fs::read(&log).unwrap();
    let says = |words: &str, is_read: bool| {
        let lost = lost(&path).unwrap_or_else(|| panic!("{words}"));
        assert!(lost.what.contains(words), "{lost:?}");
        assert_eq!(lost.log.is_some(), is_read, "{lost:?}");
    };
    let mut damaged = whole.clone();
    damaged[9000] ^= 1;
    std::fs::write(&log, damaged).unwrap();
    says("is damaged after 2 of 5 pages", true);
    std::fs::remove_file(&log).unwrap();
    says("is gone", false);
    std::fs::write(&log, &whole).unwrap();
    assert_eq!(lost(&path), None);
    // The record of another boot, of another directory, or none.
    let record = place(directory.path(), &path);
    let bytes = std::fs::read(&record).unwrap();
    std::fs::remove_file(&log).unwrap();
    for other in [
        LogRecordContent {
            boot: "x".to_owned(),
            ..LogRecordContent::parse(&bytes).unwrap()
        },
        LogRecordContent {
            directory: FileIdentity::default(),
            ..LogRecordContent::parse(&bytes).unwrap()
        },
    ] {
        std::fs::write(&record, other.bytes()).unwrap();
        assert_eq!(lost(&path), None);
    }
    std::fs::write(&record, &bytes[1..]).unwrap();
    assert_eq!(lost(&path), None);
    std::fs::remove_file(&record).unwrap();
    assert_eq!(lost(&path), None);
    std::fs::write(&record, &bytes).unwrap();
    std::fs::write(&path, "").unwrap();
    says("it is empty", false);
    std::fs::remove_file(&path).unwrap();
    says("it is gone", false);
}

#[test]
fn a_restored_database_is_another_one_unless_the_old_log_lies_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = killed(directory.path());
    let backup = directory.path().join("backup");
    std::fs::copy(&path, &backup).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&backup, &path).unwrap();
    assert!(lost(&path).unwrap().what.contains("was replaced"));
    std::fs::remove_file(beside(&path, "-wal")).unwrap();
    assert_eq!(lost(&path), None);
}

#[test]
fn a_planned_stop_leaves_nothing_to_compare_and_no_damaged_page_in_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = killed(directory.path());
    let log = beside(&path, "-wal");
    let db = Connection::open(&path).unwrap();
    super::super::keep_log_on_close(&db, true).unwrap();
    db.execute("INSERT INTO t VALUES (1)", []).unwrap();
    let mut recorder = LogRecorder::begin(directory.path(), &path, &db).unwrap();
    let whole = std::fs::read(&log).unwrap();
    let mut damaged = whole.clone();
    damaged[9000] ^= 1;
    std::fs::write(&log, damaged).unwrap();
    recorder.close(&db);
    assert!(lost(&path).unwrap().log.is_some(), "the log stays");
    std::fs::write(&log, whole).unwrap();
    recorder.close(&db);
    drop(db);
    assert!(!log.exists());
    assert_eq!(lost(&path), None);
    let rows: u32 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 4);
}
