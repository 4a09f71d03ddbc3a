//! Every file that fnd writes, and the expected behaviour while its writes fail.

/// How new asynchronous work is answered while the fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Async {
    /// Refused with 503: fnd cannot store it.
    Refused,
    /// Accepted: another file stores it.
    Accepted,
}

/// A file, or files with similar names.
#[derive(Debug)]
pub(super) struct Row {
    /// Path below the private root; `*` stands for any part of a name.
    pub(super) path: &'static str,
    /// Calls that write it, with the errors to try; empty if the file has no content.
    pub(super) faults: &'static [(&'static str, &'static str)],
    pub(super) asynchronous: Async,
    /// The message of fnd, in its log or its status.
    pub(super) says: &'static str,
}

const NONE: &[(&str, &str)] = &[];
const LEDGER: &str = "failed to write the ledger";

pub(super) const ROWS: &[Row] = &[
    Row {
        path: "state/state/ledger.db-wal",
        faults: &[("pwrite64", "ENOSPC"), ("pwrite64", "EIO"), ("fsync,fdatasync", "EIO")],
        asynchronous: Async::Refused,
        says: LEDGER,
    },
    Row {
        // Written when the WAL has grown; until then the records stay in the WAL.
        path: "state/state/ledger.db",
        faults: &[("pwrite64", "ENOSPC"), ("pwrite64", "EIO"), ("fsync,fdatasync", "EIO")],
        asynchronous: Async::Accepted,
        says: "",
    },
    // The WAL's index in shared memory, created anew at each start; and the journal of the creation of the database.
    row("state/state/ledger.db-shm"),
    row("state/state/ledger.db-journal"),
    // The audit: nothing waits for it but answers to changes, for a second at most. Tests of `daemon/src/stores/audit` make it
    // fail.
    row("state/state/audit.db"),
    row("state/state/audit.db-wal"),
    row("state/state/audit.db-shm"),
    row("state/state/audit.db-journal"),
    // The state of functions: only its own callers wait for it.
    row("state/state/state.db"),
    row("state/state/state.db-wal"),
    row("state/state/state.db-shm"),
    row("state/state/state.db-journal"),
    Row {
        path: "run/ledger/in-flight",
        faults: &[("pwrite64", "ENOSPC"), ("pwrite64", "EIO")],
        asynchronous: Async::Accepted,
        says: "failed to write `in-flight`",
    },
    // Where the logs of the databases end, to compare at the next start. Without room in the run directory nothing is compared:
    // tests of `daemon/src/database`.
    row("run/ledger/*.db-end"),
    Row {
        path: "state/state/spool/*",
        faults: &[("splice", "ENOSPC"), ("splice", "EIO")],
        asynchronous: Async::Accepted,
        says: "failed to spool output",
    },
    Row {
        path: "state/logs/*/*.log",
        faults: &[("write", "ENOSPC"), ("write", "EIO")],
        asynchronous: Async::Accepted,
        says: "output",
    },
    Row {
        path: "run/status/.new.json",
        faults: &[("write", "ENOSPC"), ("write", "EIO"), ("renameat", "EIO")],
        asynchronous: Async::Accepted,
        says: "failed to write status file",
    },
    // Other tests try these files, which are written on request or from time to time.
    row("state/state/backup-*.db"),
    row("state/state/backup-*.db-journal"),
    row("metrics/.fnd-*.tmp"),
    // Admitted signed requests: the next file, which becomes `replays` and is then appended to. Tests of
    // `stores/replays.rs` try both.
    row("state/state/.replays"),
    // Written when a functions directory gets its first function, or is replaced; tests of the catalog try it.
    row("state/state/.directories"),
    // It has no content: it is only locked.
    row("state/state/lock"),
    // It has no content: only the event of its creation counts. Without the mark fnd does not wait; tested in
    // catalog/marks.rs.
    row("run/marks/*"),
];

const fn row(path: &'static str) -> Row {
    Row {
        path,
        faults: NONE,
        asynchronous: Async::Accepted,
        says: "",
    }
}

/// Returns whether a path belongs to a row.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((before, after)) => path.strip_prefix(before).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.take_while(|at| !rest[..*at].contains('/'))
                .any(|at| matches(after, &rest[at..]))
        }),
    }
}
