//! `fndctl import systemd`: a function for each service, with the schedule of its timer.
//!
//! Files:
//! - `calendar`: times and durations
//! - `environment`: variables
//! - `exec`: command lines
//! - `fuzzing`: what the fuzzer and tests may call
//! - `keys`: the settings that systemd knows
//! - `limits`: settings that are limits
//! - `make`: the function of a service and its timer
//! - `parse`: the lines of units
//! - `service`: the settings of `[Service]`
//! - `timer`: the settings of `[Timer]`
//! - `unit`: a unit, and the function that is made of it
//! - `values`: sizes, shares, numbers

mod calendar;
mod environment;
mod exec;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod keys;
mod limits;
mod make;
mod parse;
mod service;
mod timer;
mod unit;
mod values;

use super::Imported;
use super::names::ImportedNames;
use super::script;
use super::text::ImportText;
use super::users::ImportedUsers;
use crate::failure::{FailureKind, ImportFailure};
use nix::unistd::{Uid, User};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use unit::{SystemdMachine, Unit};

/// Reads a duration such as `1m30s`; other programs write it in the same way.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    calendar::duration(text).ok().flatten()
}

/// Directories of units; the first one that has a unit counts (systemd.unit(5)).
const SYSTEM: &str = "\
    /etc/systemd/system /run/systemd/system /usr/local/lib/systemd/system /usr/lib/systemd/system /lib/systemd/system";

/// # Errors
/// One of them cannot be read.
pub fn import(units: &[String], link: bool, users: ImportedUsers) -> Result<Imported, ImportFailure> {
    let own = users.is_caller();
    // A manager of the system starts units that name no user as root, that of a user as this user (systemd.exec(5)).
    let caller = if own {
        let known = User::from_uid(Uid::current()).ok().flatten().map(|user| user.name);
        known.or_else(|| std::env::var("USER").ok()).unwrap_or_default()
    } else {
        "root".to_owned()
    };
    let machine = SystemdMachine {
        script: script::reader(link),
        users,
        user: &caller,
        read: &variables,
        home: &|user| {
            let known = User::from_name(user)
                .ok()
                .flatten()
                .map(|user| user.dir.display().to_string());
            // An account of a directory service may be unknown to this program; `$HOME` is only that of the caller.
            let is_caller = own && user == caller;
            known.or_else(|| if is_caller { std::env::var("HOME").ok() } else { None })
        },
    };
    let directories = directories(own);
    let mut imported = Imported::new(format!("Made of {} by `fndctl import systemd`.", units.join(", ")));
    let mut names = ImportedNames::default();
    for given in units {
        let unit = unit(given, &directories)?;
        let (service, timer) = match unit.name.strip_suffix(".timer") {
            Some(stem) => (started(&unit, stem, given, &directories)?, Some(unit)),
            None => (unit, None),
        };
        let stem = service
            .name
            .rsplit_once('.')
            .map_or(service.name.as_str(), |(stem, _)| stem);
        let (made, report) = make::make(&names.unique(stem), &service, timer.as_ref(), machine);
        imported.functions.extend(made);
        imported.report.rows.extend(report.rows);
    }
    Ok(imported)
}

fn directories(own: bool) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = SYSTEM.split(' ').map(PathBuf::from).collect();
    if own {
        let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")));
        directories = config.map(|config| config.join("systemd/user")).into_iter().collect();
        directories.extend(["/etc/systemd/user", "/usr/lib/systemd/user"].map(PathBuf::from));
    }
    directories
}

/// Reads a unit by its path or its name, and its drop-ins.
fn unit(given: &str, directories: &[PathBuf]) -> Result<Unit, ImportFailure> {
    let name = given.rsplit('/').next().unwrap_or(given);
    if !name.ends_with(".service") && !name.ends_with(".timer") {
        let message = format!("`{given}` is neither a service nor a timer");
        return Err(ImportFailure::usage(message).help("name a file or a unit that ends with `.service` or `.timer`"));
    }
    if name.contains("@.") {
        let message = format!("`{given}` is a template, of which systemd starts only instances");
        let instance = given.replacen("@.", "@NAME.", 1);
        return Err(ImportFailure::usage(message).help(format!("name an instance, such as `{instance}`")));
    }
    // `backup@db.service` is an instance of `backup@.service`.
    let template = name
        .split_once('@')
        .and_then(|(prefix, rest)| Some(format!("{prefix}@.{}", rest.rsplit_once('.')?.1)));
    let path = Path::new(given);
    let beside = path.parent().filter(|_| given.contains('/'));
    let places: Vec<&Path> = match beside {
        Some(directory) => vec![directory],
        None => std::iter::once(Path::new("."))
            .chain(directories.iter().map(PathBuf::as_path))
            .collect(),
    };
    // A file for the instance itself wins over the template (systemd.unit(5)).
    let candidates = std::iter::once(name).chain(template.as_deref());
    let found = candidates
        .flat_map(|name| places.iter().map(move |place| place.join(name)))
        .find(|path| path.is_file());
    let Some(found) = found else {
        let message = format!("there is no unit `{given}`");
        return Err(ImportFailure::new(FailureKind::NoSuchThing, message).help("name the path of its file"));
    };
    let text = ImportText::read(found.strip_prefix(".").unwrap_or(&found))?;
    let drop_ins = drop_ins(name, template.as_deref(), &found, directories);
    let drop_ins: Result<Vec<ImportText>, ImportFailure> = drop_ins.iter().map(|path| ImportText::read(path)).collect();
    Ok(Unit {
        name: name.to_owned(),
        text,
        drop_ins: drop_ins?,
    })
}

/// Returns the drop-ins of a unit, in the order of their names; of two with one name, the first counts.
fn drop_ins(name: &str, template: Option<&str>, found: &Path, directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut files: std::collections::BTreeMap<std::ffi::OsString, PathBuf> = std::collections::BTreeMap::new();
    let beside = found.parent().map(Path::to_owned);
    for directory in beside.iter().chain(directories) {
        for unit in std::iter::once(name).chain(template) {
            let entries = directory.join(format!("{unit}.d")).read_dir().into_iter().flatten();
            for entry in entries.flatten() {
                if entry.path().extension().is_some_and(|end| end == "conf") {
                    files.entry(entry.file_name()).or_insert_with(|| entry.path());
                }
            }
        }
    }
    files.into_values().collect()
}

/// Returns the service that a timer starts: the one that it names, or the one with its name.
fn started(timer: &Unit, stem: &str, given: &str, directories: &[PathBuf]) -> Result<Unit, ImportFailure> {
    let items = timer.texts().flat_map(|text| parse::items(text).0);
    let named = items
        .filter(|item| item.section == "Timer" && item.key == "Unit")
        .last();
    let service = named.map_or_else(|| format!("{stem}.service"), |item| item.value);
    match given.rsplit_once('/') {
        Some((directory, _)) => {
            // The service beside the timer is meant first, but it may be an installed one.
            unit(&format!("{directory}/{service}"), directories).or_else(|_| unit(&service, directories))
        }
        None => unit(&service, directories),
    }
}

/// Reads a file of variables, and says whether everybody may read it.
fn variables(path: &str) -> Option<(String, bool)> {
    let path = Path::new(path);
    let mode = path
        .metadata()
        .ok()
        .filter(std::fs::Metadata::is_file)?
        .permissions()
        .mode();
    let text = String::from_utf8(super::text::read(path).ok()?).ok()?;
    Some((text, mode & 0o004 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_systemd_would_not_start_say_what_to_name() {
        for (given, help) in [
            ("/srv/backup@.timer", "`/srv/backup@NAME.timer`"),
            ("backup", "`.service` or `.timer`"),
        ] {
            let failure = unit(given, &[]).err().unwrap();
            assert!(failure.help.unwrap().contains(help), "{given}");
        }
    }
}
