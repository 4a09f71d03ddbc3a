//! Checks a whole ledger for `fndctl verify` and `fndctl backup --verify`; for `--repair` it also confirms notices and
//! sets a damaged ledger aside.
//!
//! It runs as a program of its own (`fnd --examine`), which `fndctl` starts as the owner of the state, because root
//! should read no database that another user can write. It prints one JSON object with all findings. Its exit code does
//! not depend on them.

use super::in_flight::{self, InFlightFigures};
use super::{FILE, LockError, OpenError, Site, damage, lock_state, notices, restore, rows, schema};
use crate::database::{keep_log_on_close, lost_commits_beside_fnd};
use fnd_core::verify_report::{Examined, FindingLevel, LedgerFinding};
use fnd_manifest::settings::OnDamage;
use rusqlite::Connection;
use std::path::Path;

fn finding(level: FindingLevel, check: &str, what: impl Into<String>) -> LedgerFinding {
    LedgerFinding {
        level,
        check: check.to_owned(),
        what: what.into(),
        fix: None,
    }
}

const REPAIR: &str = "fndctl verify --repair";

/// Checks the ledger of a site, and repairs it if requested.
#[must_use]
pub fn site(site: Site<'_>, repair: bool) -> Examined {
    // Held until the end, so that no fnd starts in the meantime.
    let lock = lock_state(site.state);
    let mut examined = Examined {
        running: matches!(lock, Err(LockError::Held(_))),
        ..Examined::default()
    };
    if let Err(error @ LockError::Io { .. }) = &lock {
        let what = format!("{error}: {}", crate::chain(error));
        examined.findings.push(finding(FindingLevel::Error, "ledger", what));
        return examined;
    }
    if repair {
        mend(site, &mut examined);
    }
    let path = site.state.join(FILE);
    report(&path, with_its_log(site, &path), &mut examined);
    for aside in damage::asides(site.state) {
        let what = format!("`{}` is a damaged ledger that was set aside", aside.display());
        let mut found = finding(FindingLevel::Ok, "ledger", what);
        found.fix = Some(format!(
            "keep it elsewhere if it is needed, then: rm {}",
            aside.display()
        ));
        examined.findings.push(found);
    }
    slots(site, &mut examined);
    examined
}

fn mend(site: Site<'_>, examined: &mut Examined) {
    let path = site.state.join(FILE);
    // Only with the lock may the file be replaced. Confirming is one statement, and works beside a running fnd.
    if !examined.running {
        let set_aside = damage::finish(site.state).and_then(|()| match with_its_log(site, &path) {
            Err(OpenError::Corrupt { detail, .. }) => damage::set_aside(site, &detail).map(|()| Some(detail)),
            Ok(_) | Err(_) => Ok(None),
        });
        match set_aside {
            Ok(None) => {}
            Ok(Some(detail)) => examined.repaired.push(format!(
                "set the damaged ledger aside ({detail}); all that can be read is in a new one"
            )),
            Err(error) => {
                examined
                    .findings
                    .push(finding(FindingLevel::Error, "ledger", crate::chain(&error)));
                return;
            }
        }
    }
    if !path.exists() {
        return;
    }
    let cleared = Connection::open(&path).and_then(|db| {
        // The record of the end of the log says that the log is there.
        keep_log_on_close(&db, true)?;
        db.busy_timeout(std::time::Duration::from_secs(5))?;
        notices::clear(&db)
    });
    match cleared {
        Ok(cleared) => examined.repaired.extend(
            [
                ("confirmed", cleared.note),
                ("durable work is accepted again; given up", cleared.hold),
            ]
            .into_iter()
            .filter_map(|(what, text)| Some(format!("{what}: {}", text?))),
        ),
        // The examination itself reports which damage it is.
        Err(error) => {
            let what = format!("failed to confirm what was set aside: {error}");
            examined.findings.push(finding(FindingLevel::Error, "ledger", what));
        }
    }
}

/// Checks a database file of a state directory, or one extracted from a backup.
pub fn file(path: &Path, examined: &mut Examined) {
    report(path, whole(path), examined);
}

/// Checks the ledger of a site, and whether it has all that was recorded of its log.
fn with_its_log(site: Site<'_>, path: &Path) -> Result<Option<WholeLedger>, OpenError> {
    match lost_commits_beside_fnd(site.run, path) {
        Err(source) => Err(OpenError::Log {
            path: path.into(),
            source,
        }),
        Ok(Some(lost)) => Err(OpenError::corrupt(path, lost.what)),
        Ok(None) => whole(path),
    }
}

fn report(path: &Path, found: Result<Option<WholeLedger>, OpenError>, examined: &mut Examined) {
    match found {
        Ok(None) => {
            let what = format!("there is no `{}`: nothing has run yet", path.display());
            examined.findings.push(finding(FindingLevel::Ok, "ledger", what));
        }
        Ok(Some(counts)) => {
            let what = format!(
                "`{}` is whole: {} invocations, {} of them without an end",
                path.display(),
                counts.invocations,
                counts.unfinished.len()
            );
            examined.findings.push(finding(FindingLevel::Ok, "ledger", what));
            examined.rows = Some(counts.invocations + counts.loaded);
            examined.unfinished = counts.unfinished;
            if let Some(note) = counts.notices.note {
                let mut found = finding(FindingLevel::Warning, "ledger", note.to_string());
                found.fix = Some(REPAIR.to_owned());
                examined.findings.push(found);
            }
            if let Some(hold) = counts.notices.hold {
                let mut found = finding(
                    FindingLevel::Error,
                    "ledger",
                    format!("durable work is refused: {hold}"),
                );
                found.fix = Some(REPAIR.to_owned());
                examined.findings.push(found);
            }
        }
        Err(error) => {
            let what = match &error {
                OpenError::Corrupt { path, detail } => format!("`{}` is damaged: {detail}", path.display()),
                other => crate::chain(other),
            };
            let mut found = finding(FindingLevel::Error, "ledger", what);
            if matches!(error, OpenError::Corrupt { .. }) {
                found.fix = Some(format!("stop fnd, then: {REPAIR} (or restore a backup)"));
            }
            examined.findings.push(found);
        }
    }
}

/// Contents of an undamaged database.
struct WholeLedger {
    invocations: u64,
    loaded: u64,
    /// Ids of invocations that have not ended.
    unfinished: Vec<String>,
    notices: notices::Notices,
}

/// Checks everything: trees, indexes against tables, and each row that a start reads. Returns nothing if there is no ledger.
fn whole(path: &Path) -> Result<Option<WholeLedger>, OpenError> {
    if !path.exists() {
        return Ok(None);
    }
    let failed = |source| OpenError::of(path, source);
    let db = schema::open_read_only(path)?;
    // All of one moment: fnd may write meanwhile, and counts of two moments differ.
    let db = db.unchecked_transaction().map_err(failed)?;
    schema::check_existing(path, &db)?;
    let verdict: String = db
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(failed)?;
    if verdict != "ok" {
        return Err(OpenError::corrupt(path, verdict));
    }
    if !db.table_exists(None, "meta").map_err(failed)? {
        // Created by an fnd that died before its first transaction.
        return Ok(Some(WholeLedger {
            invocations: 0,
            loaded: 0,
            unfinished: Vec::new(),
            notices: notices::Notices::default(),
        }));
    }
    // The next start migrates a ledger of 0.1.0, and reads its rows then.
    let is_current = schema::is_current(&db).map_err(failed)?;
    let unfinished = if is_current {
        let restored = restore::restored(&db).map_err(failed)?;
        let mut bodies = db.prepare("SELECT data, checksum FROM body").map_err(failed)?;
        let mut found = bodies.query([]).map_err(failed)?;
        while let Some(row) = found.next().map_err(failed)? {
            rows::check_sum(row, 0, 1).map_err(failed)?;
        }
        restore::last_runs(&db).map_err(failed)?;
        restored
            .unfinished
            .iter()
            .map(|found| found.record.id.to_string())
            .collect()
    } else {
        Vec::new()
    };
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        db.query_row(&sql, [], |row| row.get(0)).map_err(failed)
    };
    Ok(Some(WholeLedger {
        invocations: count("invocation")?,
        loaded: count("load")?,
        unfinished,
        notices: notices::read(&db).map_err(failed)?,
    }))
}

/// Checks the table of attempts that have begun.
fn slots(Site { run, .. }: Site<'_>, examined: &mut Examined) {
    let path = run.join(in_flight::FILE);
    let shown = path.display();
    let check = "in-flight";
    if examined.running {
        let what = format!("fnd is running and writes to `{shown}`: it is looked at when fnd has stopped");
        examined.findings.push(finding(FindingLevel::Unknown, check, what));
        return;
    }
    let found = match in_flight::inspect(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => finding(
            FindingLevel::Ok,
            check,
            format!("there is no `{shown}`: nothing has begun since the machine did"),
        ),
        Err(error) => finding(
            FindingLevel::Unknown,
            check,
            format!("`{shown}` cannot be read: {error}"),
        ),
        Ok(InFlightFigures { filled, unreadable: 0 }) => finding(
            FindingLevel::Ok,
            check,
            format!("`{shown}` names {filled} attempts whose end the ledger may not have; the next start reads them"),
        ),
        Ok(InFlightFigures { filled, unreadable }) => finding(
            FindingLevel::Error,
            check,
            format!(
                "{unreadable} slots of `{shown}` cannot be read, {filled} can: what has begun and is in none of these shows as \
                 `interrupted` after the next start"
            ),
        ),
    };
    examined.findings.push(found);
}

/// Returns the site of an examination: a damaged ledger is replaced only on request.
#[must_use]
pub fn site_of<'a>(state: &'a Path, run: &'a Path) -> Site<'a> {
    Site {
        state,
        run,
        on_damage: OnDamage::Refuse,
    }
}
