//! Every file that fnd writes, and what is to be expected while that fails.

/// What becomes of new asynchronous work while the fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Async {
    /// Refused with 503: fnd cannot promise to keep it.
    Refused,
    /// Accepted: what fails is not what keeps it.
    Accepted,
}

/// A file, or files with like names.
#[derive(Debug)]
pub(super) struct Row {
    /// Path below the private root; `*` stands for any part of a name.
    pub(super) path: &'static str,
    /// Calls by which it is written, with the errors that are tried; none where there is nothing in it to be written.
    pub(super) faults: &'static [(&'static str, &'static str)],
    pub(super) asynchronous: Async,
    /// What fnd says, in its log or its status.
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
        // Written when the log of changes has grown; they stay in that.
        path: "state/state/ledger.db",
        faults: &[("pwrite64", "ENOSPC"), ("pwrite64", "EIO"), ("fsync,fdatasync", "EIO")],
        asynchronous: Async::Accepted,
        says: "",
    },
    // An index in shared memory, made anew at each start; and the journal of making the database.
    row("state/state/ledger.db-shm"),
    row("state/state/ledger.db-journal"),
    Row {
        path: "run/ledger/in-flight",
        faults: &[("pwrite64", "ENOSPC"), ("pwrite64", "EIO")],
        asynchronous: Async::Accepted,
        says: "failed to write `in-flight`",
    },
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
    // Tried by tests of their own: they are written when somebody asks, or now and then.
    row("state/state/backup-*.db"),
    row("state/state/backup-*.db-journal"),
    row("metrics/.fnd-*.tmp"),
    // Written when a functions directory gets its first function, or is another one; tried by tests of the catalog.
    row("state/state/.directories"),
    // Nothing is written to it: it is locked.
    row("state/state/lock"),
    // Nothing is written to it: the event of making it counts. Without it no question waits; tested in catalog/marks.rs.
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

/// Says whether a path is one of a row's.
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
