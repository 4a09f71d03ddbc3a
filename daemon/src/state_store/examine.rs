//! Checks a database of the state for `fndctl verify`, `backup --verify` and `restore`, and copies it for `backup`.

use super::store::{asides, check_pages, check_version, totals};
use crate::database;
use fnd_core::examined::{Examined, LedgerFinding, Severity};
use fnd_core::state::Totals;
use fnd_wire::units::counted;
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// The word of the findings.
const CHECK: &str = "state";

/// Checks the database of a state directory, and looks for damaged ones beside it.
pub(crate) fn site(directory: &Path, examined: &mut Examined) {
    examined.findings.push(judge(&directory.join(super::FILE)).0);
    for aside in asides(directory) {
        let what = format!(
            "`{}` is a damaged state that was set aside; an empty one took its place",
            aside.display()
        );
        let fix = format!("keep it elsewhere if it is needed, then: rm {}*", aside.display());
        examined.findings.push(finding(Severity::Warning, what, Some(fix)));
    }
}

/// Checks a database file, such as one extracted from a backup. Its rows are its keys.
pub(crate) fn file(path: &Path, examined: &mut Examined) {
    let (finding, totals) = judge(path);
    examined.findings.push(finding);
    examined.rows = totals.map(|totals| totals.keys);
}

fn finding(level: Severity, what: String, fix: Option<String>) -> LedgerFinding {
    LedgerFinding {
        level,
        check: CHECK.to_owned(),
        what,
        fix,
    }
}

fn judge(path: &Path) -> (LedgerFinding, Option<Totals>) {
    let shown = path.display();
    if !path.exists() {
        let what = format!("there is no `{shown}`: nothing has been written to the state yet");
        return (finding(Severity::Ok, what, None), Some(Totals::default()));
    }
    let read = open(path).and_then(|db| {
        check_version(&db)?;
        check_pages(&db)?;
        // Created by an fnd that died before its first transaction.
        if !db.table_exists(None, "entry")? {
            return Ok(Totals::default());
        }
        totals(&db)
    });
    match read {
        Ok(totals) => {
            let keys = counted(totals.keys, "key", "keys");
            let what = format!("`{shown}` is whole: {keys}, {} bytes", totals.bytes);
            (finding(Severity::Ok, what, None), Some(totals))
        }
        Err(error) if database::is_damage(&error) => {
            let what = format!("`{shown}` is damaged: {error}");
            let fix = "restore a backup; at its next start fnd sets it aside and begins with an empty one".to_owned();
            (finding(Severity::Error, what, Some(fix)), None)
        }
        Err(error) => (
            finding(Severity::Error, format!("`{shown}` cannot be read: {error}"), None),
            None,
        ),
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(Duration::from_secs(2))?;
    Ok(db)
}

/// Copies the database of a state directory in its present state, while fnd may write to it. The copy has no name.
///
/// # Errors
/// Why it cannot be copied, for people.
pub(crate) fn copy(directory: &Path) -> Result<File, String> {
    let path = directory.join(super::FILE);
    let failed = |error: &dyn std::error::Error| format!("`{}`: {}", path.display(), crate::chain(error));
    let db = open(&path).map_err(|error| failed(&error))?;
    let copied = database::copy(&db, &crate::ledger::copy_path(directory), |_| Ok(()));
    copied.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}
