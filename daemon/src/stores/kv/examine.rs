//! Checks a database of the state for `fndctl verify`, `backup --verify` and `restore`, and copies it for `backup`.

use super::salvage;
use super::store::KvStore;
use super::tables::{OpenError, asides, check_values, check_version, lost_commits, totals};
use crate::database::{self, REPAIR, damage_finding};
use crate::stores::database::StorePlaces;
use fnd_core::kv::Totals;
use fnd_core::verify_report::{Examined, FindingLevel, LedgerFinding};
use fnd_wire::units::counted;
use std::fs::File;
use std::path::Path;

/// The word of the findings.
const CHECK: &str = "state";

/// Checks the database, and looks for damaged ones beside it. Repairs it if that is requested.
pub(crate) fn site(places: &StorePlaces, repair: bool, examined: &mut Examined) {
    let path = places.state.join(super::FILE);
    if repair && let Err(error) = mend(places, &path, examined) {
        let what = format!("failed to repair `{}`: {}", path.display(), crate::chain(&error));
        examined.findings.push(finding(FindingLevel::Error, what, None));
    }
    let found = match database::lost_commits_beside_fnd(&places.run, &path) {
        Ok(None) => judge(&path).0,
        Ok(Some(lost)) => damage_finding(&path, CHECK, &lost.what),
        Err(error) => {
            let damage = format!("failed to read the log of `{}`: {error}", path.display());
            damage_finding(&path, CHECK, &damage)
        }
    };
    examined.findings.push(found);
    for aside in asides(&places.state) {
        let what = format!(
            "`{}` is a damaged state that was set aside; what could be read of it took its place",
            aside.display()
        );
        let fix = format!("keep it elsewhere if it is needed, then: rm {}*", aside.display());
        examined.findings.push(finding(FindingLevel::Warning, what, Some(fix)));
    }
}

/// Sets a damaged database aside if fnd does not run, and confirms what was read of one.
fn mend(places: &StorePlaces, path: &Path, examined: &mut Examined) -> Result<(), OpenError> {
    // A check must not make a database where no value was ever written.
    let is_new = !path.exists() && lost_commits(places)?.is_none();
    if !examined.running && !is_new {
        // This does what a start does.
        let before = asides(&places.state).len();
        KvStore::open(places, crate::clock::unix_ms())?.base.close();
        if asides(&places.state).len() > before {
            let what = "set the damaged state of functions aside; all that can be read is in a new one";
            examined.repaired.push(what.to_owned());
        }
    }
    if !path.exists() {
        return Ok(());
    }
    if let Some(why) = salvage::confirm(&database::open_to_confirm(path)?)? {
        examined
            .repaired
            .push(format!("confirmed; the state of functions is used again: {why}"));
    }
    Ok(())
}

/// Checks a database file, such as one extracted from a backup. Its rows are its keys.
pub(crate) fn file(path: &Path, examined: &mut Examined) {
    let (finding, totals) = judge(path);
    examined.findings.push(finding);
    examined.rows = totals.map(|totals| totals.keys);
}

fn finding(level: FindingLevel, what: String, fix: Option<String>) -> LedgerFinding {
    database::finding(level, CHECK, what, fix)
}

fn judge(path: &Path) -> (LedgerFinding, Option<Totals>) {
    let shown = path.display();
    if !path.exists() {
        let what = format!("there is no `{shown}`: nothing has been written to the state yet");
        return (finding(FindingLevel::Ok, what, None), Some(Totals::default()));
    }
    let read = database::open_read_only(path).and_then(|db| {
        check_version(&db)?;
        database::check_pages(&db, "quick_check")?;
        if let Some(why) = salvage::hold(&db)? {
            return Ok((Totals::default(), Some(why)));
        }
        // Created by an fnd that died before its first transaction.
        if !db.table_exists(None, "entry")? {
            return Ok((Totals::default(), None));
        }
        check_values(&db)?;
        Ok((totals(&db)?, None))
    });
    match read {
        Ok((_, Some(why))) => {
            let what = format!("`{}` is not used: {why}", path.display());
            (finding(FindingLevel::Error, what, Some(REPAIR.to_owned())), None)
        }
        Ok((totals, None)) => {
            let keys = counted(totals.keys, "key", "keys");
            let what = format!("`{shown}` is whole: {keys}, {} bytes", totals.bytes);
            (finding(FindingLevel::Ok, what, None), Some(totals))
        }
        Err(error) if database::is_damage(&error) => (damage_finding(path, CHECK, &error.to_string()), None),
        Err(error) => {
            let what = format!("`{shown}` cannot be read: {error}");
            (finding(FindingLevel::Error, what, None), None)
        }
    }
}

/// Copies the database of a state directory in its present state, while fnd may write to it. The copy has no name.
///
/// # Errors
/// Why it cannot be copied, for people.
pub(crate) fn copy(directory: &Path) -> Result<File, String> {
    let path = directory.join(super::FILE);
    let failed = |error: &dyn std::error::Error| format!("`{}`: {}", path.display(), crate::chain(error));
    let db = database::open_read_only(&path).map_err(|error| failed(&error))?;
    let copied = database::copy(&db, &database::copy_path(directory), |_| Ok(()));
    copied.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}
