//! The installed versions: `ID/VERSION/bin/ID` below one directory, and the link `ID/current` to one of them.

use super::{KnownInterpreter, failed, rank, version};
use crate::exit::{CommandFailure, Exit};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

const CURRENT: &str = "current";

/// The versions of one interpreter.
#[derive(Debug)]
pub(crate) struct InstalledFiles {
    id: &'static str,
    directory: PathBuf,
}

impl InstalledFiles {
    /// Returns the versions of an interpreter below a directory.
    pub(crate) fn new(top: &Path, known: &KnownInterpreter) -> Self {
        Self {
            id: known.id,
            directory: top.join(known.id),
        }
    }

    /// Returns the path of the current version's program; it stays the same when another version becomes current.
    pub(crate) fn program(&self) -> PathBuf {
        self.directory.join(CURRENT).join("bin").join(self.id)
    }

    /// Returns the installed versions, the newest first.
    pub(crate) fn versions(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        // An unfinished directory begins with a dot, so it is no version.
        let program = |name: &String| self.directory.join(name).join("bin").join(self.id).is_file();
        let mut versions: Vec<String> = names.filter(|name| version(name).is_ok() && program(name)).collect();
        versions.sort_by_key(|version| std::cmp::Reverse(rank(version)));
        versions
    }

    /// Returns the version that functions use.
    pub(crate) fn current(&self) -> Option<String> {
        let target = fs::read_link(self.directory.join(CURRENT)).ok()?;
        target.into_os_string().into_string().ok()
    }

    /// Makes an empty directory for a version that is being installed; it is not seen as a version.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn prepare(&self) -> Result<PathBuf, CommandFailure> {
        let fresh = self.directory.join(format!(".new-{}", std::process::id()));
        let made = (|| {
            DirBuilder::new().recursive(true).mode(0o755).create(&self.directory)?;
            // Functions have users of their own, so everybody may enter, whatever the umask is.
            for directory in self.directory.ancestors().take(2) {
                fs::set_permissions(directory, Permissions::from_mode(0o755))?;
            }
            let _ = fs::remove_dir_all(&fresh); // left by a process with this id
            for directory in [fresh.clone(), fresh.join("bin")] {
                fs::create_dir(&directory)?;
                fs::set_permissions(directory, Permissions::from_mode(0o755))?;
            }
            Ok(())
        })();
        made.map_err(|error| self.refused("make a directory in", &error))?;
        Ok(fresh)
    }

    /// Puts a prepared directory in its place and makes it the current version.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub(crate) fn finish(&self, fresh: &Path, version: &str) -> Result<(), CommandFailure> {
        let program = fresh.join("bin").join(self.id);
        // rename(2) does not replace a directory with files, so an installed version is moved away first.
        let target = self.directory.join(version);
        let placed = fs::set_permissions(&program, Permissions::from_mode(0o755))
            .and_then(|()| {
                if target.exists() {
                    self.set_aside(&target)
                } else {
                    Ok(())
                }
            })
            .and_then(|()| fs::rename(fresh, &target));
        placed.map_err(|error| self.refused("put the new version into", &error))?;
        self.link(version)
    }

    /// Removes a version that is installed again. Programs that run keep their file.
    fn set_aside(&self, target: &Path) -> io::Result<()> {
        let old = self.directory.join(format!(".old-{}", std::process::id()));
        fs::rename(target, &old)?;
        fs::remove_dir_all(old)
    }

    fn link(&self, version: &str) -> Result<(), CommandFailure> {
        let fresh = self.directory.join(format!(".link-{}", std::process::id()));
        // The rename replaces the link in one step, so `current` names a version at any time.
        let linked = symlink(version, &fresh).and_then(|()| fs::rename(fresh, self.directory.join(CURRENT)));
        linked.map_err(|error| self.refused("link the current version in", &error))
    }

    /// Removes a version, or all of them; returns those that were removed. If the current one is among them, the newest of
    /// the others becomes current.
    ///
    /// # Errors
    /// There is no such version, or it cannot be removed.
    pub(crate) fn remove(&self, wanted: Option<&str>) -> Result<Vec<String>, CommandFailure> {
        let mut removed = self.versions();
        removed.retain(|found| wanted.is_none_or(|wanted| wanted == found));
        if removed.is_empty() {
            let what = wanted.map_or_else(|| self.id.to_owned(), |wanted| format!("{} {wanted}", self.id));
            let message = format!("{what} is not installed in `{}`", self.directory.display());
            return Err(
                CommandFailure::new(Exit::NoSuchThing, message).help("fndctl runtimes list shows what is installed")
            );
        }
        let others = self.versions().into_iter().find(|found| !removed.contains(found));
        // The link changes before the files go: `current` must not name a version that is gone.
        if self.current().is_none_or(|current| removed.contains(&current)) {
            match others {
                Some(other) => self.link(&other)?,
                None => drop(fs::remove_file(self.directory.join(CURRENT))), // the next line says why, if it fails
            }
        }
        for version in &removed {
            let gone = fs::remove_dir_all(self.directory.join(version));
            gone.map_err(|error| self.refused("remove a version from", &error))?;
        }
        let _ = fs::remove_dir(&self.directory); // it has other files, or versions
        Ok(removed)
    }

    fn refused(&self, what: &str, error: &io::Error) -> CommandFailure {
        let failure = failed(format!("failed to {what} `{}`: {error}", self.directory.display()));
        if error.kind() == io::ErrorKind::PermissionDenied {
            return failure.help("use sudo, or `fndctl --user runtimes ...` for your own fnd");
        }
        failure
    }
}
