//! Checks a whole ledger for `fndctl verify` and `fndctl backup --verify`; for `--repair` it also confirms notices and
//! sets a damaged ledger aside.
//!
//! It runs as a program of its own (`fnd --examine`), which `fndctl` starts as the owner of the state, because root
//! should read no database that another user can write. It prints one JSON object with all findings. Its exit code does
//! not depend on them.

use super::damage;
use crate::database::{self, REPAIR, Replacement, damage_finding, finding, lost_commits_beside_fnd};
use crate::ledger::{FILE, LockError, OpenError, Site, in_flight, lock_state, notices, restore, rows, schema};
use fnd_core::verify_report::{Examined, FindingLevel};
use fnd_manifest::settings::OnDamage;
use std::path::Path;

/// The word of the findings about the database.
const CHECK: &str = "ledger";

fn add(examined: &mut Examined, level: FindingLevel, what: String, fix: Option<String>) {
    examined.findings.push(finding(level, CHECK, what, fix));
}

/// Checks the ledger of a site, and repairs it if requested.
pub fn site(site: Site<'_>, repair: bool) -> Examined {
    // Held until the end, so that no fnd starts in the meantime.
    let lock = lock_state(site.state);
    let mut examined = Examined {
        running: matches!(lock, Err(LockError::Held(_))),
        ..Examined::default()
    };
    if let Err(error @ LockError::Io { .. }) = &lock {
        let what = format!("{error}: {}", crate::chain(error));
        add(&mut examined, FindingLevel::Error, what, None);
        return examined;
    }
    if repair {
        mend(site, &mut examined);
    }
    let path = site.state.join(FILE);
    report(&path, with_its_log(site, &path), &mut examined);
    for aside in Replacement::of(site.state, FILE).asides() {
        let aside = aside.display();
        let what = format!("`{aside}` is a damaged ledger that was set aside");
        let fix = format!("keep it elsewhere if it is needed, then: rm {aside}");
        add(&mut examined, FindingLevel::Ok, what, Some(fix));
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
            Err(error) => return add(examined, FindingLevel::Error, crate::chain(&error), None),
        }
    }
    if !path.exists() {
        return;
    }
    match database::open_to_confirm(&path).and_then(|db| notices::clear(&db)) {
        Ok(cleared) => {
            let confirmed = cleared.note.map(|note| format!("confirmed: {note}"));
            let given_up = cleared.hold;
            let given_up = given_up.map(|hold| format!("durable work is accepted again; given up: {hold}"));
            examined.repaired.extend(confirmed.into_iter().chain(given_up));
        }
        // The examination itself reports which damage it is.
        Err(error) => {
            let what = format!("failed to confirm what was set aside: {error}");
            add(examined, FindingLevel::Error, what, None);
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
        Err(source) => Err(OpenError::log(path, source)),
        Ok(Some(lost)) => Err(OpenError::corrupt(path, lost.what)),
        Ok(None) => whole(path),
    }
}

fn report(path: &Path, found: Result<Option<WholeLedger>, OpenError>, examined: &mut Examined) {
    match found {
        Ok(None) => {
            let what = format!("there is no `{}`: nothing has run yet", path.display());
            add(examined, FindingLevel::Ok, what, None);
        }
        Ok(Some(counts)) => {
            let what = format!(
                "`{}` is whole: {} invocations, {} of them without an end",
                path.display(),
                counts.invocations,
                counts.unfinished.len()
            );
            add(examined, FindingLevel::Ok, what, None);
            examined.rows = Some(counts.invocations + counts.loaded);
            examined.unfinished = counts.unfinished;
            let fix = || Some(REPAIR.to_owned());
            if let Some(note) = counts.notices.note {
                add(examined, FindingLevel::Warning, note.to_string(), fix());
            }
            if let Some(hold) = counts.notices.hold {
                let what = format!("durable work is refused: {hold}");
                add(examined, FindingLevel::Error, what, fix());
            }
        }
        Err(OpenError::Corrupt { path, detail }) => {
            examined.findings.push(damage_finding(&path, CHECK, &detail));
        }
        Err(error) => add(examined, FindingLevel::Error, crate::chain(&error), None),
    }
}

/// Contents of an undamaged database.
#[derive(Default)]
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
    database::check_pages(&db, "integrity_check").map_err(failed)?;
    if !db.table_exists(None, "meta").map_err(failed)? {
        // Created by an fnd that died before its first transaction.
        return Ok(Some(WholeLedger::default()));
    }
    // The next start migrates a ledger of 0.1.0, and reads its rows then.
    let is_current = schema::is_current(&db).map_err(failed)?;
    let unfinished = if is_current {
        let restored = restore::restored(&db).map_err(failed)?;
        let sql = "SELECT data, checksum FROM body";
        let _: Vec<()> = database::all(&db, sql, [], |row| rows::check_sum(row, 0, 1)).map_err(failed)?;
        restore::last_runs(&db).map_err(failed)?;
        let unfinished = restored.unfinished.iter();
        unfinished.map(|found| found.record.id.to_string()).collect()
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
    let (level, what) = if examined.running {
        let what = "it is looked at when fnd has stopped";
        let what = format!("fnd is running and writes to `{}`: {what}", path.display());
        (FindingLevel::Unknown, what)
    } else {
        slots_of(&path)
    };
    examined.findings.push(finding(level, "in-flight", what, None));
}

fn slots_of(path: &Path) -> (FindingLevel, String) {
    let shown = path.display();
    match in_flight::inspect(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = format!("there is no `{shown}`: nothing has begun since the machine did");
            (FindingLevel::Ok, what)
        }
        Err(error) => (FindingLevel::Unknown, format!("`{shown}` cannot be read: {error}")),
        Ok((filled, 0)) => (
            FindingLevel::Ok,
            format!("`{shown}` names {filled} attempts whose end the ledger may not have; the next start reads them"),
        ),
        Ok((filled, unreadable)) => (
            FindingLevel::Error,
            format!(
                "{unreadable} slots of `{shown}` cannot be read, {filled} can: what has begun and is in none of these shows as \
                 `interrupted` after the next start"
            ),
        ),
    }
}

/// Returns the site of an examination: a damaged ledger is replaced only on request.
pub fn site_of<'a>(state: &'a Path, run: &'a Path) -> Site<'a> {
    Site {
        state,
        run,
        on_damage: OnDamage::Refuse,
    }
}
