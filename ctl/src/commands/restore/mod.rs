//! `fndctl restore FILE`: restores an archive of `fndctl backup`. fnd must not run. Existing files are not overwritten.
//!
//! An archive is not trusted: it decides what is restored, but not where. It is read twice. If it contains anything
//! that a backup does not have, nothing is written.
//!
//! Files:
//! - `fuzzing`: what the fuzzer may call
//! - `write`: writes the files, and follows no link

#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod write;

use crate::common::backup_entries as entries;
use crate::common::backup_entries::{BackupPart, Roots};
use crate::common::examine::{ExaminedSubject, examine};
use crate::common::failed;
use crate::common::state_directory::lock;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::local::LocalPlaces;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Stop fnd first (`systemctl stop fnd.socket fnd fnd-spawner`), and run restore as root (with --user as yourself). It overwrites nothing, \
    except what a fresh installation has: empty databases, and the configuration, which is kept as `fnd.toml.before-restore`. \
    To check an archive first, use `fndctl backup --verify FILE`. fnd installs the functions when it starts. Runs that were in progress \
    at the time of the backup show as `interrupted`.\n\nExamples:\n  \
    fndctl restore /var/backups/fnd.tar\n  \
    fndctl restore --force /var/backups/fnd.tar     overwrite existing files"
)]
pub(crate) struct Args {
    /// The archive, a file that `fndctl backup` wrote.
    file: PathBuf,

    /// Overwrite existing files; files that are not in the archive stay.
    #[arg(long)]
    force: bool,

    /// Restore the configuration to this file [default: /etc/fnd/fnd.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Restore the functions directories here, in their order [default: /etc/fnd/functions]; uploads always go into the
    /// state directory.
    #[arg(long, value_name = "DIR")]
    functions: Vec<PathBuf>,

    /// Restore the state to this directory [default: /var/lib/fnd].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// # Errors
/// fnd runs, something is there, the archive is no backup, or a file cannot be written.
pub(crate) fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let mut places = LocalPlaces::of(context.user)?;
    places.config = args.config.unwrap_or(places.config);
    places.state = args.state.unwrap_or(places.state);
    if !args.functions.is_empty() {
        places.functions = args.functions;
    }
    // The uploads come after the options, since their directory lies in the state directory.
    places.add_uploads();
    let file = File::open(&args.file).map_err(|error| failed("read", &args.file, &error))?;
    let roots = Roots {
        config: places.config.parent().unwrap_or(Path::new("/")).to_owned(),
        config_name: places.config.file_name().unwrap_or_default().to_owned(),
        functions: places.functions,
        state: places.state,
    };
    let parts = entries::check(&file, &roots)?;
    // The lock creates directories. So the archive is checked before: if a wrong file is named, nothing changes.
    let _lock = lock(&roots.state)?;
    if !args.force {
        // The second check reads the archive once more, so the quick one comes first.
        refuse_what_is_there(&roots, &parts)?;
        refuse_what_is_beside(&file, &roots)?;
    }
    let size = file.metadata().map_or(0, |about| about.len());
    let mut progress = context.out.bytes("restored", size);
    let count = write::write(&file, &roots, |bytes| progress.add(bytes))?;
    // The bar vanishes before the result is printed.
    drop(progress);
    context.changed(format!("restored {count} files and directories"))
}

/// Returns whether a database is empty. A fresh installation has such databases, since fnd creates them at its first start.
fn is_empty_database(ledger: &Path) -> bool {
    let owner = ledger.parent().unwrap_or(ledger);
    let examined = examine(&ExaminedSubject {
        path: ledger,
        owner,
        run: owner,
        repair: false,
    });
    // A database that cannot be examined is not overwritten.
    examined.is_ok_and(|examined| examined.rows == Some(0))
}

fn refuse_what_is_there(roots: &Roots, parts: &[BackupPart]) -> Result<(), CommandFailure> {
    for part in parts {
        let path = roots.of(part);
        let there = match part {
            // The package brings a configuration; it is kept beside the restored one. For the rest see below.
            BackupPart::Config | BackupPart::Beside(_) => false,
            // An installation brings empty directories.
            BackupPart::Functions(_) | BackupPart::Home => {
                std::fs::read_dir(&path).is_ok_and(|mut names| names.next().is_some())
            }
            BackupPart::Ledger | BackupPart::State => path.exists() && !is_empty_database(&path),
            // Secrets that the key on this machine decrypts would be lost without it, so it is never replaced.
            BackupPart::Key => path.exists(),
            // An empty table names no user, so nothing is lost.
            BackupPart::Uids => std::fs::symlink_metadata(&path).is_ok_and(|about| !about.is_file() || about.len() > 0),
        };
        if there {
            return Err(is_there(&path));
        }
    }
    Ok(())
}

/// Directories beside the configuration may have files, but none that the archive would replace by another content: a secret
/// that somebody has set on this machine would be lost.
fn refuse_what_is_beside(file: &File, roots: &Roots) -> Result<(), CommandFailure> {
    entries::each(file, |entry, place| {
        let path = write::target(roots, &place);
        let is_beside = matches!(place.part, BackupPart::Beside(_)) && !entry.header().entry_type().is_dir();
        match std::fs::symlink_metadata(&path) {
            // A machine that was set up again by the same means has the same files. Nothing is lost then.
            Ok(about) if is_beside && !is_same(entry, &path, &about) => Err(is_there(&path)),
            _ => Ok(()),
        }
    })
}

fn is_same(entry: &mut tar::Entry<'_, &File>, path: &Path, about: &std::fs::Metadata) -> bool {
    let is_file = about.is_file() && entry.header().entry_type().is_file();
    // The size first: an archive is not trusted, and its file may be of any size.
    let mut archived = Vec::new();
    is_file
        && about.len() == entry.size()
        && entry.read_to_end(&mut archived).is_ok()
        && std::fs::read(path).is_ok_and(|there| there == archived)
}

fn is_there(path: &Path) -> CommandFailure {
    let message = format!("`{}` exists already, and restore does not overwrite it", path.display());
    CommandFailure::usage(message).help("move it away, or use --force")
}
