//! The entries that an archive may have, and where they are restored. Only this module parses their names.

use crate::common::failed;
use crate::exit::CommandFailure;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use tar::{Archive, Entry, EntryType};

/// The places on this machine.
#[derive(Debug)]
pub(crate) struct Roots {
    pub(crate) config: PathBuf,
    pub(crate) config_name: OsString,
    pub(crate) functions: Vec<PathBuf>,
    pub(crate) state: PathBuf,
}

/// A part of a backup.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BackupPart {
    /// `fnd.toml`.
    Config,
    /// The key of encrypted secrets, beside it.
    Key,
    /// A directory beside it.
    Beside(&'static str),
    Functions(usize),
    /// The database of the history.
    Ledger,
    /// The database of the values that functions share.
    State,
    /// The files that functions keep.
    Home,
    /// The table of functions' users.
    Uids,
}

/// Directories beside the configuration that a backup may have.
const BESIDE: [&str; 4] = ["conf.d", "runtimes", "secrets", "bindings"];

impl Roots {
    /// Returns the place of a part.
    pub(crate) fn of(&self, part: &BackupPart) -> PathBuf {
        match part {
            BackupPart::Config => self.config.join(&self.config_name),
            BackupPart::Key => self.config.join("age.key"),
            BackupPart::Beside(name) => self.config.join(name),
            // `check` refuses a number beyond the last.
            BackupPart::Functions(number) => self.functions.get(*number).cloned().unwrap_or_default(),
            BackupPart::Ledger => self.state.join("state/ledger.db"),
            BackupPart::State => self.state.join("state/state.db"),
            BackupPart::Home => self.state.join("home"),
            BackupPart::Uids => self.state.join("spawner/uids"),
        }
    }
}

/// An entry: its part, and the names below that; no names for the part itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EntryPlace {
    pub(crate) part: BackupPart,
    pub(crate) below: Vec<OsString>,
}

/// Parses the name of an entry; nothing where a backup has no such entry.
pub(crate) fn place(path: &Path) -> Option<EntryPlace> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            // Such a path could lead out of its part.
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => return None,
        }
    }
    let text = |at: usize| names.get(at).and_then(|name: &OsString| name.to_str());
    let (part, used) = match (text(0)?, text(1)) {
        ("config", Some("fnd.toml")) => (BackupPart::Config, 2),
        ("config", Some("age.key")) => (BackupPart::Key, 2),
        ("config", Some(name)) => (BackupPart::Beside(BESIDE.into_iter().find(|known| *known == name)?), 2),
        ("functions", Some(number)) => (BackupPart::Functions(number.parse().ok()?), 2),
        ("state", Some("ledger.db")) => (BackupPart::Ledger, 2),
        ("state", Some("state.db")) => (BackupPart::State, 2),
        ("home", _) => (BackupPart::Home, 1),
        ("uids", None) => (BackupPart::Uids, 1),
        _ => return None,
    };
    let below = names.split_off(used);
    let is_file = matches!(
        part,
        BackupPart::Config | BackupPart::Key | BackupPart::Ledger | BackupPart::State | BackupPart::Uids
    );
    (!is_file || below.is_empty()).then_some(EntryPlace { part, below })
}

/// Returns whether an entry may be of this kind in its place.
fn fits(place: &EntryPlace, kind: EntryType) -> bool {
    match place.part {
        BackupPart::Config | BackupPart::Key | BackupPart::Ledger | BackupPart::State | BackupPart::Uids => {
            kind.is_file()
        }
        // `restore` opens the directory of a part by its path, so a link must not stand there.
        BackupPart::Beside(_) | BackupPart::Functions(_) | BackupPart::Home if place.below.is_empty() => kind.is_dir(),
        BackupPart::Beside(_) | BackupPart::Functions(_) | BackupPart::Home => {
            kind.is_file() || kind.is_dir() || kind.is_symlink()
        }
    }
}

/// Reads and checks all headers of an archive. Returns its parts.
pub(crate) fn check(file: &File, roots: &Roots) -> Result<Vec<BackupPart>, CommandFailure> {
    let mut parts = Vec::new();
    each(file, |_, place| {
        if let BackupPart::Functions(number) = place.part
            && number >= roots.functions.len()
        {
            let message = format!(
                "the backup has at least {} functions directories, but the command line names {}",
                number + 1,
                roots.functions.len()
            );
            return Err(CommandFailure::usage(message).help("name a directory for each with --functions, in order"));
        }
        if !parts.contains(&place.part) {
            parts.push(place.part);
        }
        Ok(())
    })?;
    // Every backup has the history, so an archive without it is something else.
    if parts.contains(&BackupPart::Ledger) {
        return Ok(parts);
    }
    Err(no_backup("`state/ledger.db` is missing"))
}

/// Visits the entries of an archive from its beginning; each is one that a backup may have.
pub(crate) fn each(
    mut file: &File,
    mut visit: impl FnMut(&mut Entry<'_, &File>, EntryPlace) -> Result<(), CommandFailure>,
) -> Result<(), CommandFailure> {
    let unreadable = |error: std::io::Error| no_backup(&format!("it cannot be read as a tar archive: {error}"));
    file.seek(SeekFrom::Start(0)).map_err(|error| {
        failed("read", Path::new("the archive"), &error).help("the archive must be a file, not a pipe")
    })?;
    let mut archive = Archive::new(file);
    // With seeks the check of the headers does not read the content of large files.
    for entry in archive.entries_with_seek().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        let path = entry.path().map_err(unreadable)?.into_owned();
        let kind = entry.header().entry_type();
        match place(&path).filter(|place| fits(place, kind)) {
            Some(place) => visit(&mut entry, place)?,
            None => {
                // The archive is not trusted: the name may be of any length.
                let name: String = path.display().to_string().chars().take(200).collect();
                return Err(no_backup(&format!(
                    "it has the entry `{}` ({kind:?}), which no backup has",
                    crate::output::escape(&name, false)
                )));
            }
        }
    }
    Ok(())
}

fn no_backup(why: &str) -> CommandFailure {
    CommandFailure::usage(format!("this is not a backup of fnd: {why}"))
        .help("nothing was written; `fndctl backup FILE` makes a backup")
}

#[cfg(test)]
mod tests {
    use crate::common::backup_entries::*;

    #[test]
    fn only_entries_of_a_backup_have_a_place() {
        for (name, part, below) in [
            ("config/fnd.toml", BackupPart::Config, 0),
            ("config/age.key", BackupPart::Key, 0),
            ("config/conf.d", BackupPart::Beside("conf.d"), 0),
            ("config/secrets/token", BackupPart::Beside("secrets"), 1),
            ("functions/0/ops/a.sh", BackupPart::Functions(0), 2),
            ("state/ledger.db", BackupPart::Ledger, 0),
            ("state/state.db", BackupPart::State, 0),
            ("home", BackupPart::Home, 0),
            ("home/hello/data", BackupPart::Home, 2),
            ("uids", BackupPart::Uids, 0),
        ] {
            let place = place(Path::new(name)).unwrap();
            assert_eq!((place.part, place.below.len()), (part, below), "{name}");
        }
        for name in [
            "",
            "/etc/passwd",
            "../x",
            "home/../../etc/passwd",
            "functions/0/../../x",
            "config/passwd",
            "config",
            "state",
            "state/ledger.db/x",
            "state/lock",
            // A restored history belongs to another node.
            "state/nats-instance",
            "uids/x",
            "functions/x/a",
            "functions",
            "versions/f",
        ] {
            assert_eq!(place(Path::new(name)), None, "{name}");
        }
    }
}
