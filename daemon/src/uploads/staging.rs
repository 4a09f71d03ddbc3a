//! Writes the files of an upload beside their place, exchanges them as a whole, and takes them back if they are refused.
//!
//! An upload of `ops/backup` lives in `.staging/ops.backup`, which the catalog ignores:
//!
//! ```text
//! new/          the new files, and who sent them           ─┐ swap: the files in place go to old.part, which is renamed
//! old.part/     files before them, not all of them yet      │ to old, and then the new ones go into their place
//! old/          all files before them                      ─┘
//! ```
//!
//! Until [`Staged::commit`] renames the directory, the files before are whole in it. So [`recover`] always knows what to
//! do after a kill: with `old`, the files in place are new ones; with `old.part`, they are those before.

use fnd_manifest::check::is_function;
use fnd_wire::ids::FunctionName;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The directory of uploads that are under way; its name begins with a dot, so it is no group.
const STAGING: &str = ".staging";
/// The end of the name of an upload that is over; no name of a function has it.
const DONE: &str = "~";

/// The files of an upload that is under way.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    root: PathBuf,
    function: FunctionName,
    /// Its directory below [`STAGING`].
    place: PathBuf,
}

impl Staged {
    /// Makes the directory for an upload of a function; `root` is the directory of uploads, `uploader` the user who sends it;
    /// absent: the function is removed.
    ///
    /// # Errors
    /// A directory or file cannot be made.
    pub(crate) fn begin(root: &Path, function: &FunctionName, uploader: Option<u32>) -> io::Result<Self> {
        let staged = Self {
            root: root.to_owned(),
            function: function.clone(),
            place: root.join(STAGING).join(function.file_form()),
        };
        make(&root.join(STAGING), 0o700)?;
        // An upload that could not be ended: it may have the files before it.
        staged.take_back()?;
        let prepared = staged.prepare(uploader);
        if prepared.is_err() {
            let _ = staged.take_back(); // it is tried again when the next upload begins
        }
        prepared.map(|()| staged)
    }

    fn prepare(&self, uploader: Option<u32>) -> io::Result<()> {
        make(&self.place, 0o700)?;
        make(&self.new_root(), 0o700)?;
        make(&self.files(), 0o700)?;
        if let Some(uid) = uploader {
            let path = self.files().join(uploader_file(&self.function));
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(path)?;
            file.write_all(format!("{uid}\n").as_bytes())?;
            file.sync_all()?;
        }
        Ok(())
    }

    /// Returns the directory of the new files in the form of a functions directory.
    pub(crate) fn new_root(&self) -> PathBuf {
        self.place.join("new")
    }

    /// Returns the directory into which the new files are written: the group of the function, if it has one.
    pub(crate) fn files(&self) -> PathBuf {
        in_group(&self.new_root(), &self.function)
    }

    /// Returns the directory in which the files of the function have their place.
    fn target(&self) -> PathBuf {
        in_group(&self.root, &self.function)
    }

    /// Exchanges the files in place for the new ones, of which there may be none. Returns the new ones.
    ///
    /// # Errors
    /// A file cannot be moved; then [`Self::take_back`] has to follow.
    pub(crate) fn swap(&self) -> io::Result<Vec<PathBuf>> {
        let (target, part) = (self.target(), self.place.join("old.part"));
        // This comes before the first rename: an error must leave everything as it is.
        let new = names(&self.files())?;
        make(&part, 0o700)?;
        for name in own(&target, &self.function)? {
            fs::rename(target.join(&name), part.join(&name))?;
        }
        // Synced before the rename: after a power cut, no `old` may be there without its files.
        sync(&part)?;
        // The name `old` says that all files before are here. Only then may `take_back` delete those in place.
        fs::rename(&part, self.place.join("old"))?;
        sync(&self.place)?;
        if !new.is_empty() {
            make(&target, 0o750)?;
        }
        let mut placed = Vec::new();
        for name in new {
            fs::rename(self.files().join(&name), target.join(&name))?;
            placed.push(target.join(&name));
        }
        self.tidy()?;
        Ok(placed)
    }

    /// Puts the files before back into their place, whatever was done of [`Self::swap`], and ends the upload. Returns
    /// the files that are in place then. Repeated after an interruption, it goes on where it was.
    ///
    /// # Errors
    /// A file cannot be moved.
    pub(crate) fn take_back(&self) -> io::Result<Vec<PathBuf>> {
        let (target, part, old) = (self.target(), self.place.join("old.part"), self.place.join("old"));
        if old.exists() {
            for name in own(&target, &self.function)? {
                remove(&target.join(name))?;
            }
            // From here on the files in place may be those before, so a repetition must not delete them.
            fs::rename(&old, &part)?;
        }
        if part.exists() {
            for name in names(&part)? {
                make(&target, 0o750)?;
                fs::rename(part.join(&name), target.join(&name))?;
            }
            self.tidy()?;
        }
        remove(&self.place)?;
        let placed = own(&target, &self.function)?;
        Ok(placed.into_iter().map(|name| target.join(name)).collect())
    }

    /// Ends the upload: the new files stay, and those before are deleted.
    ///
    /// # Errors
    /// The directory cannot be renamed durably; then [`Self::take_back`] has to follow.
    pub(crate) fn commit(&self) -> io::Result<()> {
        let done = self
            .place
            .with_file_name(format!("{}{DONE}", self.function.file_form()));
        // Files of an upload before this one may be left here, because they could not be removed then.
        remove(&done)?;
        fs::rename(&self.place, &done)?;
        if let Err(error) = sync(&self.root.join(STAGING)) {
            let _ = fs::rename(&done, &self.place); // if it stays, the next start removes it
            return Err(error);
        }
        // The upload is over. The next upload or the next start removes files that cannot be removed now.
        let _ = remove(&done);
        Ok(())
    }

    /// Removes an empty group, and makes what was moved durable.
    fn tidy(&self) -> io::Result<()> {
        let target = self.target();
        if target != self.root {
            if names(&target)?.is_empty() {
                remove(&target)?;
            } else {
                sync(&target)?;
            }
        }
        // The group itself may be new, or gone.
        sync(&self.root)
    }
}

/// Returns the name of the file that has the uid of a function's uploader. It begins with a dot, so it is no function, and
/// is exchanged together with the files.
fn uploader_file(function: &FunctionName) -> String {
    let part = function.as_str().rsplit('/').next().unwrap_or_default();
    format!(".{part}.uploader")
}

/// Returns the user who has uploaded the files of a function; absent: it was another fnd that did not remember it.
pub(crate) fn uploader(root: &Path, function: &FunctionName) -> Option<u32> {
    let path = in_group(root, function).join(uploader_file(function));
    match fs::read_to_string(&path) {
        Ok(text) => text.trim_end().parse().ok(),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => {
            tracing::error!(
                "failed to read who has uploaded `{function}`, in `{}`: {error}",
                path.display()
            );
            None
        }
    }
}

/// Returns the files of a function that are in place in the directory of uploads.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn in_place(root: &Path, function: &FunctionName) -> io::Result<Vec<PathBuf>> {
    let target = in_group(root, function);
    let mut names = own(&target, function)?;
    // The file with the uploader belongs to fnd and not to the function.
    names.retain(|name| !name.starts_with('.'));
    Ok(names.into_iter().map(|name| target.join(name)).collect())
}

/// Ends the uploads that a kill of fnd has interrupted: nobody got an answer, so the files before are put back.
pub(crate) fn recover(root: &Path) {
    let staging = root.join(STAGING);
    for name in names(&staging).unwrap_or_default() {
        let ended = match name.strip_suffix(DONE) {
            // This upload was committed: only the files before it are left to delete.
            Some(_) => remove(&staging.join(&name)),
            None => match FunctionName::of_file_form(&name) {
                Ok(function) => {
                    tracing::warn!("the upload of `{function}` was interrupted: the files before it are put back");
                    let (root, place) = (root.to_owned(), staging.join(&name));
                    Staged { root, function, place }.take_back().map(drop)
                }
                Err(_) => remove(&staging.join(&name)),
            },
        };
        if let Err(error) = ended {
            tracing::error!(
                "failed to end the upload in `{}`: {error}",
                staging.join(&name).display()
            );
        }
    }
}

fn in_group(root: &Path, function: &FunctionName) -> PathBuf {
    function
        .group()
        .map_or_else(|| root.to_owned(), |group| root.join(group))
}

/// Returns the names of the files of a function in a directory: those with its name before the first dot, and the one with its
/// uploader.
fn own(target: &Path, function: &FunctionName) -> io::Result<Vec<String>> {
    let part = function.as_str().rsplit('/').next().unwrap_or_default();
    let mut found = names(target)?;
    let uploader = uploader_file(function);
    found.retain(|name| {
        let path = target.join(name);
        if *name == uploader {
            return true;
        }
        if name == part {
            // A directory that is no function is a group.
            return !path.is_dir() || is_function(&path);
        }
        let rest = name.strip_prefix(part).filter(|rest| rest.starts_with('.'));
        // An encrypted secret may have the name of the function. It is no file of an upload.
        rest.is_some_and(|rest| rest != ".age")
    });
    Ok(found)
}

/// Returns the names in a directory; none if it is not there.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string()); // no file of a function has another name
    }
    names.sort();
    Ok(names)
}

fn make(directory: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests;
