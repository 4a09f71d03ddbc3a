//! The audit on a temporary directory, with its thread.

use super::*;
use crate::database::Replacement;
use fnd_core::api::AuditList;
use fnd_core::audit::{AuditCursor, LOST, merged};
use fnd_wire::ids::FunctionName;
use std::sync::atomic::{AtomicU64, Ordering};

const DAY_MS: u64 = 86_400_000;
const KEEP: Duration = Duration::from_secs(90 * 86_400);

fn entry(verb: &'static str, function: &str, at_ms: u64) -> AuditedCalls {
    AuditedCalls {
        at_ms,
        uid: 0,
        pid: Some(7),
        exe: Some("/usr/bin/fndctl".into()),
        verb,
        function: FunctionName::new(function).ok(),
        invocation: None,
        status: Some(200),
        code: None,
        refused: false,
        duration_us: 1500,
        count: 1,
        is_in_record: false,
    }
}

fn refusal(uid: u32, function: &str, at_ms: u64) -> AuditedCalls {
    AuditedCalls {
        uid,
        status: Some(403),
        code: Some("not-allowed".to_owned()),
        refused: true,
        ..entry("invoke", function, at_ms)
    }
}

fn kept_for(keep_for: Duration) -> AuditSettings {
    AuditSettings {
        keep_for,
        ..AuditSettings::default()
    }
}

struct Running {
    audit: Audit,
    now_ms: Arc<AtomicU64>,
    changes: Arc<AtomicU64>,
    directory: tempfile::TempDir,
}

impl Running {
    fn start(bytes_max: u64) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), bytes_max)
    }

    fn start_in(directory: tempfile::TempDir, bytes_max: u64) -> Self {
        let (now_ms, changes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (time, counted) = (Arc::clone(&now_ms), Arc::clone(&changes));
        let audit = Audit::start(
            StorePlaces {
                state: directory.path().to_owned(),
                run: directory.path().to_owned(),
            },
            (kept_for(KEEP), bytes_max),
            move || time.load(Ordering::Relaxed),
            move || {
                counted.fetch_add(1, Ordering::Relaxed);
            },
        );
        Self {
            audit: audit.unwrap(),
            now_ms,
            changes,
            directory,
        }
    }

    fn record(&self, entry: AuditedCalls) {
        drop(self.audit.record(entry));
    }

    fn list(&self, filter: AuditFilter) -> AuditList {
        let limit = if filter.limit == 0 { 1000 } else { filter.limit };
        let cursor = filter.after.unwrap_or_default();
        let entries = block_on(self.audit.list(AuditFilter { limit, ..filter })).unwrap();
        merged([entries, AuditPart::default()], cursor, usize::try_from(limit).unwrap())
    }

    fn verbs(&self, filter: AuditFilter) -> Vec<String> {
        let entries = self.list(filter).entries.into_iter();
        entries
            .map(|entry| format!("{} {}", entry.verb, entry.function.unwrap()))
            .collect()
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

#[test]
fn entries_are_found_by_what_they_have() {
    let running = Running::start(BYTES_MAX);
    running.record(entry("invoke", "a", 1000));
    running.record(entry("disable", "a", 2000));
    running.record(AuditedCalls {
        uid: 54_321,
        ..entry("invoke", "b", 3000)
    });
    running.record(refusal(54_321, "b", 4000));
    let all = AuditFilter::default;
    assert_eq!(running.verbs(all()), ["invoke b", "invoke b", "disable a", "invoke a"]);
    let function = FunctionName::new("a").ok();
    assert_eq!(
        running.verbs(AuditFilter { function, ..all() }),
        ["disable a", "invoke a"]
    );
    for (user, expected) in [("root", 2), ("0", 2), ("54321", 2), ("nobody", 0)] {
        let user = Some(user.to_owned());
        assert_eq!(running.list(AuditFilter { user, ..all() }).entries.len(), expected);
    }
    let verb = Some("disable".to_owned());
    assert_eq!(running.verbs(AuditFilter { verb, ..all() }), ["disable a"]);
    assert_eq!(running.verbs(AuditFilter { refused: true, ..all() }), ["invoke b"]);
    let (since_ms, until_ms) = (Some(2000), Some(3000));
    assert_eq!(
        running.verbs(AuditFilter {
            since_ms,
            until_ms,
            ..all()
        }),
        ["disable a"]
    );
    // Pages.
    let first = running.list(AuditFilter { limit: 3, ..all() });
    assert_eq!(first.entries.len(), 3);
    let after = first.next.as_deref().and_then(AuditCursor::parse);
    let rest = running.list(AuditFilter {
        after,
        limit: 3,
        ..all()
    });
    assert_eq!((rest.entries.len(), rest.next), (1, None));
    assert_eq!(rest.entries[0].user.as_deref(), Some("root"));
    assert_eq!(rest.entries[0].time, "1970-01-01T00:00:01.000Z");
}

/// Calls of an earlier fnd, and those without a record, stay entries.
#[test]
fn a_call_that_is_in_a_record_makes_no_entry() {
    let running = Running::start(BYTES_MAX);
    running.record(entry("invoke", "a", 1000));
    running.record(AuditedCalls {
        is_in_record: true,
        ..entry("invoke", "b", 2000)
    });
    running.record(entry("disable", "c", 3000));
    assert_eq!(running.verbs(AuditFilter::default()), ["disable c", "invoke a"]);
    assert!(!running.audit.tells_runs());
    running.audit.set(&AuditSettings {
        runs: AuditedRuns::Journal,
        ..AuditSettings::default()
    });
    assert!(running.audit.tells_runs() && !running.audit.keeps_runs());
    running.audit.set(&AuditSettings {
        runs: AuditedRuns::Entry,
        ..AuditSettings::default()
    });
    assert!(running.audit.keeps_runs() && !running.audit.tells_runs());
}

/// Refusals that the thread writes at different times are one row as well.
#[test]
fn a_flood_of_refusals_is_one_row_a_minute() {
    let running = Running::start(BYTES_MAX);
    for round in 0..5 {
        for _ in 0..1000 {
            running.record(refusal(1000, "a", round));
        }
        let list = running.list(AuditFilter::default());
        assert_eq!(list.entries.len(), 1);
        assert_eq!(list.entries[0].count, (round + 1) * 1000);
    }
    running.record(refusal(1000, "b", 5));
    running.record(refusal(1001, "b", 5));
    running.record(refusal(1000, "b", 60_000));
    let list = running.list(AuditFilter::default());
    let counts: Vec<u64> = list.entries.iter().map(|entry| entry.count).collect();
    assert_eq!(counts, [1, 1, 5001]);
    assert_eq!(list.entries[2].function, None, "they differ in it");
}

/// An answered entry survives a kill of fnd: another handle on the same directory finds it.
#[test]
fn a_change_is_written_before_its_answer() {
    let running = Running::start(BYTES_MAX);
    let written = running.audit.record(entry("disable", "a", 1000));
    block_on(written.unwrap());
    let path = running.directory.path().join(FILE);
    let filter = AuditFilter {
        limit: 10,
        ..AuditFilter::default()
    };
    assert_eq!(store::list(&path, &filter).unwrap().found.len(), 1);
    assert!(
        running.audit.record(entry("invoke", "a", 1000)).is_none(),
        "a run does not wait"
    );
    assert!(
        running.audit.record(refusal(1, "a", 1000)).is_none(),
        "a refusal does not wait"
    );
    running.audit.stop();
    assert_eq!(
        store::list(&path, &filter).unwrap().found.len(),
        3,
        "a stop writes the rest"
    );
}

#[test]
fn old_entries_are_forgotten() {
    let running = Running::start(BYTES_MAX);
    for day in 0..100 {
        running.record(entry("disable", "a", day * DAY_MS));
        running.record(entry("invoke", "a", day * DAY_MS));
    }
    running.now_ms.store(99 * DAY_MS, Ordering::Relaxed);
    let _ = running.list(AuditFilter::default());
    let _ = running.list(AuditFilter::default());
    assert_eq!(running.list(AuditFilter::default()).entries.len(), 2 * 91);
    // A shorter time counts at once.
    running.audit.set(&kept_for(Duration::from_secs(86_400)));
    let _ = running.list(AuditFilter::default());
    assert_eq!(running.list(AuditFilter::default()).entries.len(), 2 * 2);
}

/// A flood of one kind forgets entries of its kind, and the file stays within its bound.
#[test]
fn the_file_is_bounded_and_a_flood_forgets_only_its_own_kind() {
    const ROOM: u64 = 512 << 10;
    let running = Running::start(ROOM);
    for number in 0..20 {
        running.record(entry("disable", "important", number));
    }
    for round in 0..20 {
        for _ in 0..2000 {
            running.record(entry("invoke", "flood", round));
        }
        let _ = running.list(AuditFilter::default());
    }
    let verb = Some("disable".to_owned());
    let filter = AuditFilter {
        verb,
        ..AuditFilter::default()
    };
    assert_eq!(running.list(filter).entries.len(), 20);
    running.audit.stop();
    let size = std::fs::metadata(running.directory.path().join(FILE)).unwrap().len();
    assert!(size <= ROOM + ROOM / 4, "{size}");
}

#[test]
fn calls_wait_while_it_cannot_be_written_and_a_gap_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    // A directory in its place: it cannot be opened.
    std::fs::create_dir(&path).unwrap();
    let running = Running::start_in(directory, BYTES_MAX);
    let written = running.audit.record(entry("disable", "a", 1000));
    block_on(written.unwrap());
    let problem = running.audit.problem().unwrap();
    assert!(problem.contains("the audit cannot be written"), "{problem}");
    assert!(running.changes.load(Ordering::Relaxed) > 0);
    for _ in 0..2 * WAITING_MAX {
        running.record(entry("invoke", "a", 2000));
    }
    let written = running.audit.record(entry("disable", "b", 3000));
    block_on(written.unwrap());
    assert!(running.audit.problem().unwrap().contains("calls are lost"));
    std::fs::remove_dir(&path).unwrap();
    let list = running.list(AuditFilter {
        verb: Some(LOST.to_owned()),
        ..AuditFilter::default()
    });
    assert!(!list.entries.is_empty() && list.entries.iter().all(|entry| entry.count > 0));
    let function = FunctionName::new("a").ok();
    let verb = Some("disable".to_owned());
    assert_eq!(
        running.verbs(AuditFilter {
            function,
            verb,
            ..AuditFilter::default()
        }),
        ["disable a"]
    );
    assert!(running.audit.problem().unwrap().contains("has a gap"));
}

#[test]
fn a_damaged_file_is_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    let damaged = "this is no database, and long enough to be read as one".repeat(100);
    std::fs::write(&path, &damaged).unwrap();
    // Earlier damaged ones stay, but not more of them than three.
    let earlier = |number: u32| path.with_extension(format!("db.damaged-1900{number}"));
    for number in 0..3 {
        std::fs::write(earlier(number), "").unwrap();
    }
    let running = Running::start_in(directory, BYTES_MAX);
    running.record(entry("disable", "a", 1000));
    assert_eq!(running.verbs(AuditFilter::default()), ["disable a"]);
    let asides = Replacement::of(running.directory.path(), FILE).asides();
    assert_eq!(asides[..2], [earlier(1), earlier(2)]);
    assert_eq!(
        (asides.len(), std::fs::read_to_string(&asides[2]).unwrap()),
        (3, damaged)
    );
    let problem = running.audit.problem().unwrap();
    assert!(
        problem.contains("was damaged") && problem.contains("audit.db.damaged-"),
        "{problem}"
    );
}

/// The audit says which of its files is missing, and goes on.
#[test]
fn entries_that_are_missing_are_said_and_new_ones_are_kept() {
    let says = |running: &Running, words: &str| {
        let until = crate::clock::monotonic() + Duration::from_secs(30);
        while !running.audit.problem().is_some_and(|problem| problem.contains(words)) {
            assert!(
                crate::clock::monotonic() < until,
                "{words}: {:?}",
                running.audit.problem()
            );
            std::thread::yield_now();
        }
        assert!(
            running.verbs(AuditFilter::default()).contains(&"enable b".to_owned()),
            "{words}"
        );
    };
    let path = |running: &Running, name: &str| running.directory.path().join(name);
    // While it runs.
    for cut in [false, true] {
        let running = Running::start(BYTES_MAX);
        running.record(entry("disable", "a", 1000));
        assert_eq!(running.verbs(AuditFilter::default()), ["disable a"]);
        match cut {
            true => std::fs::write(path(&running, FILE), "").unwrap(),
            false => std::fs::remove_file(path(&running, FILE)).unwrap(),
        }
        running.record(entry("enable", "b", 2000));
        says(&running, if cut { "was truncated" } else { "was deleted" });
    }
    // After a kill.
    for damage in ["flipped", "deleted", "truncated", "none"] {
        let running = Running::start(BYTES_MAX);
        running.record(entry("disable", "a", 1000));
        assert_eq!(running.verbs(AuditFilter::default()), ["disable a"]);
        let names = [FILE, "audit.db-wal", "audit.db-end"];
        let files = names.map(|name| std::fs::read(path(&running, name)).unwrap());
        running.audit.stop();
        for (name, bytes) in names.iter().zip(&files) {
            std::fs::write(path(&running, name), bytes).unwrap();
        }
        let log = path(&running, names[1]);
        let mut bytes = files[1].clone();
        let half = bytes.len() / 2;
        match damage {
            "flipped" => bytes[half] ^= 1,
            "truncated" => bytes.truncate(half),
            _ => {}
        }
        std::fs::write(&log, bytes).unwrap();
        if damage == "deleted" {
            std::fs::remove_file(&log).unwrap();
        }
        let running = Running::start_in(running.directory, BYTES_MAX);
        running.record(entry("enable", "b", 2000));
        if damage == "none" {
            assert_eq!(running.verbs(AuditFilter::default()), ["enable b", "disable a"]);
            assert_eq!(running.audit.problem(), None);
        } else {
            says(&running, "are missing");
        }
    }
}
