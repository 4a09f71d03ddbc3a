//! Finds and removes directories that are not needed any more: those of ended invocations and of deleted functions.

use crate::health::finding::Finding;
use crate::health::uids::UidTable;
use fnd_core::verify_report::Examined;
use fnd_wire::units::counted;
use std::path::{Path, PathBuf};

const CHECK: &str = "leftovers";
/// The empty directory that the next invocation of a function will use.
const SPARE: &str = "spare";

#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// `tmp/FUNCTION/INVOCATION` of invocations that have an end.
    temporary: Vec<PathBuf>,
    /// `versions/FUNCTION` of functions without a user: every function that was ever installed has one.
    versions: Vec<PathBuf>,
    /// Directories that could not be read.
    unread: Vec<String>,
}

/// Collects the leftovers. While functions may run (`busy`), only fnd knows which directories are in use.
pub(super) fn scan(state: &Path, table: &UidTable, examined: &Examined, busy: bool) -> Leftovers {
    let mut leftovers = Leftovers::default();
    let mut list = |directory: &Path| match std::fs::read_dir(directory) {
        Ok(entries) => {
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            paths
        }
        // A state in which nothing has run yet has none of these directories.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            leftovers.unread.push(format!("{}: {error}", directory.display()));
            Vec::new()
        }
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut temporary = Vec::new();
    if !busy {
        for function in list(&state.join("tmp")) {
            let over = |path: &PathBuf| name(path) != SPARE && !examined.unfinished.contains(&name(path));
            temporary.extend(list(&function).into_iter().filter(over));
        }
    }
    // If the table of users cannot be read, no version counts as a leftover.
    let mut versions = list(&state.join("versions"));
    let numbers = table.numbers.as_ref();
    versions.retain(|path| numbers.is_ok_and(|numbers| !numbers.contains_key(&name(path))));
    Leftovers {
        temporary,
        versions,
        ..leftovers
    }
}

pub(super) fn judge(leftovers: &Leftovers, busy: bool) -> Vec<Finding> {
    let unread = leftovers.unread.iter();
    let mut findings: Vec<_> = unread.map(|what| Finding::unknown(CHECK, what.as_str())).collect();
    let repair = "stop fnd and fnd-spawner, then: fndctl verify --repair";
    for (paths, what) in [
        (&leftovers.temporary, "TMPDIRs of ended runs"),
        (
            &leftovers.versions,
            "directories with installed versions of deleted functions",
        ),
    ] {
        if let Some(first) = paths.first() {
            let found = Finding::warning(CHECK, format!("{} {what}", paths.len()));
            findings.push(found.at(first.display().to_string()).fix(repair));
        }
    }
    if busy {
        let what = "functions may be running, and only fnd knows which TMPDIRs they use";
        findings.push(Finding::unknown(CHECK, what));
    } else if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "there are no leftovers"));
    }
    findings
}

/// Removes the leftovers. If a directory below one of them is replaced by a link meanwhile, the link is not followed.
pub(super) fn remove(leftovers: Leftovers) -> Vec<Finding> {
    let unread = leftovers.unread.into_iter();
    let mut findings: Vec<_> = unread.map(|what| Finding::unknown(CHECK, what)).collect();
    let mut removed = 0;
    for path in leftovers.temporary.into_iter().chain(leftovers.versions) {
        match std::fs::remove_dir_all(&path) {
            Ok(()) => removed += 1,
            Err(error) => {
                let what = format!("failed to remove it: {error}");
                findings.push(Finding::error(CHECK, what).at(path.display().to_string()));
            }
        }
    }
    let what = match removed {
        0 => "there are no leftovers".to_owned(),
        count => format!("removed {}", counted(count, "directory", "directories")),
    };
    findings.push(Finding::ok(CHECK, what));
    findings
}
