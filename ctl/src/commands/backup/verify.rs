//! `fndctl backup --verify FILE`: reads an archive to its end, as `restore` would, and examines the databases in it.

use crate::common::backup_entries as entries;
use crate::common::backup_entries::{BackupPart, Roots};
use crate::common::examine::{ExaminedSubject, examine};
use crate::common::failed;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::health::finding::{Finding, report};
use crate::health::ledger::of_ledger;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// An archive ends with two blocks of zeros (tar(5)).
const END: usize = 1024;

/// # Errors
/// The archive cannot be opened, or standard output cannot be written.
pub(super) fn verify(context: &Context, path: &Path) -> Result<Exit, CommandFailure> {
    let file = File::open(path).map_err(|error| failed("read", path, &error))?;
    let place = path.display().to_string();
    let inspected = inspect(path, &file);
    let findings = inspected.unwrap_or_else(|failure| vec![Finding::error("archive", failure.message)]);
    let findings = findings.into_iter().map(|finding| finding.at_if_none(&place)).collect();
    report(&context.out, findings)
}

fn inspect(path: &Path, file: &File) -> Result<Vec<Finding>, CommandFailure> {
    // Nothing is restored: any number of functions directories is accepted.
    let roots = Roots {
        config: PathBuf::new(),
        config_name: "fnd.toml".into(),
        functions: vec![PathBuf::new(); 1024],
        state: PathBuf::new(),
    };
    // All headers are checked before the first byte is copied: an archive with a foreign entry costs no room on the
    // disk.
    let parts = entries::check(file, &roots)?;
    let copy = DatabaseCopy::beside(path)?;
    let (mut count, mut bytes) = (0_u64, 0_u64);
    let mut uids: Vec<u8> = Vec::new();
    entries::each(file, |entry, place| {
        count += 1;
        let expected = entry.header().size().map_err(|error| broken(&error))?;
        let uid = entry.header().uid().unwrap_or(0);
        let read = match place.part {
            BackupPart::Ledger => copy.take(&copy.database(), entry, uid)?,
            BackupPart::State => copy.take(&copy.state(), entry, uid)?,
            BackupPart::Uids => {
                // The table goes to memory, and the archive is not trusted: so its size has a limit.
                io::copy(&mut entry.take(64 << 20), &mut uids).map_err(|error| broken(&error))?
            }
            BackupPart::Config
            | BackupPart::Key
            | BackupPart::Beside(_)
            | BackupPart::Functions(_)
            | BackupPart::Home => io::copy(entry, &mut io::sink()).map_err(|error| broken(&error))?,
        };
        bytes += read;
        // If the file ends inside an entry, reading the entry ends early without an error.
        if read < expected {
            let what = format!("it ends inside an entry: {read} of {expected} bytes are there");
            return Err(CommandFailure::failed(what));
        }
        Ok(())
    })?;
    let mut findings = vec![Finding::ok(
        "archive",
        format!("{count} files and directories ({bytes} bytes) can be read, and every header has the right checksum"),
    )];
    // The reader takes the end of the file for that of the archive: a cut between two entries shows only here.
    if !has_end(file)? {
        let what = "it has no end mark: what followed is missing";
        findings.push(Finding::error("archive", what));
    }
    // A backup that was made before the first run is complete, so this is no error.
    for (part, what) in [(BackupPart::Uids, "uids"), (BackupPart::Home, "home")] {
        if !parts.contains(&part) {
            let what = format!("it has no `{what}`: no function had run when it was made");
            findings.push(Finding::warning("archive", what));
        }
    }
    findings.extend(crate::health::uids::judge_text(&String::from_utf8_lossy(&uids)));
    let mut databases = vec![copy.database()];
    // An archive of an fnd without a state has none.
    databases.extend(parts.contains(&BackupPart::State).then(|| copy.state()));
    for database in databases {
        let examined = examine(&ExaminedSubject {
            path: &database,
            owner: &copy.directory,
            run: &copy.directory,
            repair: false,
        })?;
        findings.extend(of_ledger(&examined));
    }
    Ok(findings)
}

fn broken(error: &io::Error) -> CommandFailure {
    CommandFailure::failed(format!("failed to read to its end: {error}"))
}

fn has_end(mut file: &File) -> Result<bool, CommandFailure> {
    let mut end = [1; END];
    let back = i64::try_from(END).unwrap_or(0);
    let read = file.seek(SeekFrom::End(-back)).and_then(|_| file.read_exact(&mut end));
    read.map_err(|error| broken(&error))?;
    Ok(end == [0; END])
}

/// The databases, copied from the archive into a directory of its own; both are removed at the end.
struct DatabaseCopy {
    directory: PathBuf,
}

impl DatabaseCopy {
    /// Makes the directory beside the archive, or in the directory of temporary files if that fails.
    fn beside(archive: &Path) -> Result<Self, CommandFailure> {
        // Two checks of one archive at the same time have different directories.
        let name = format!(".fnd-verify-{}", std::process::id());
        let parent = archive.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        // `fnd --examine` runs in the directory `/`, so the path must be absolute.
        let parent = std::path::absolute(parent).unwrap_or_else(|_| parent.to_owned());
        let make = |directory: PathBuf| {
            let made = std::fs::DirBuilder::new().mode(0o700).create(&directory);
            let made = made.map_err(|error| failed("create", &directory, &error));
            made.map(|()| Self { directory })
        };
        // The archive may lie where the caller cannot write, for example on a mount that is read-only.
        make(parent.join(&name)).or_else(|_| make(std::env::temp_dir().join(&name)))
    }

    fn database(&self) -> PathBuf {
        self.directory.join("ledger.db")
    }

    fn state(&self) -> PathBuf {
        self.directory.join("state.db")
    }

    /// Copies a database out of the archive, with its owner there: `fnd` examines it as that user.
    fn take(&self, path: &Path, mut from: impl io::Read, uid: u64) -> Result<u64, CommandFailure> {
        let mut options = File::options();
        // After the first database, the directory belongs to a user that the archive names: a name in it may be a link.
        options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW);
        let to = options.open(path);
        let mut to = to.map_err(|error| failed("create", path, &error))?;
        let bytes = io::copy(&mut from, &mut to).map_err(|error| failed("copy the database to", path, &error))?;
        // Only root can give a file to another user. Other callers examine it with their own rights.
        if rustix::process::geteuid().is_root()
            && let Ok(uid) = u32::try_from(uid)
        {
            for path in [path, &self.directory] {
                let given = std::os::unix::fs::lchown(path, Some(uid), None);
                given.map_err(|error| failed("change the owner of", path, &error))?;
            }
        }
        Ok(bytes)
    }
}

impl Drop for DatabaseCopy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory); // after an error the directory stays; its name says its purpose
    }
}
