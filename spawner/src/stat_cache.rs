//! Facts about directories, interpreters and paths that are the same for many functions.
//!
//! They are kept for 10 ms, and only as long as functions are read or judged: a change counts as one that came a moment
//! later, and no descriptor keeps a file system mounted. A file is opened beneath the descriptor of the directory that was
//! checked, so a directory that somebody exchanges in between is not the one that is read.

use crate::clock::now;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Most facts of a kind that are kept: descriptors are scarce.
const KEPT_MAX: usize = 64;

/// How long facts are kept.
const KEPT_FOR: Duration = Duration::from_millis(10);

/// No link is followed, and no path of `/proc`.
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// The facts of a moment.
#[derive(Default)]
pub struct StatCache {
    real: CachedFacts<Result<PathBuf, i32>>,
    metadata: CachedFacts<Option<Metadata>>,
    directories: CachedFacts<Rc<(File, Metadata)>>,
}

/// The facts about paths, and when the first of them was found.
type CachedFacts<T> = std::cell::RefCell<(Duration, std::collections::HashMap<OsString, T>)>;

fn kept<T: Clone, E>(kept: &CachedFacts<T>, path: &Path, find: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let (since, known) = &mut *kept.borrow_mut();
    if now() >= *since + KEPT_FOR || known.len() >= KEPT_MAX {
        // All facts go together, so that none is older than the first one may be.
        known.clear();
        *since = now();
    }
    if let Some(known) = known.get(path.as_os_str()) {
        return Ok(known.clone());
    }
    let found = find()?;
    known.insert(path.into(), found.clone());
    Ok(found)
}

/// Opens what lies at a path without links.
///
/// # Errors
/// If it can't be opened; `ELOOP` if there is a link on the path.
pub fn open_real(path: &Path, flags: OFlags) -> io::Result<std::os::fd::OwnedFd> {
    Ok(openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), NO_LINKS)?)
}

/// Returns none if a path could not be used. A lack of descriptors or memory stays an error: it leaves open whether the
/// path is there, and then the path could stay unhidden.
///
/// # Errors
/// If the machine has run out of something.
pub fn unless_short<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if fnd_wire::frame::is_shortage(&error) => Err(error),
        found => Ok(found.ok()),
    }
}

/// Returns the paths without links, of those that are there.
///
/// # Errors
/// As [`unless_short`].
pub fn real<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> io::Result<Vec<PathBuf>> {
    paths.into_iter().filter_map(|path| unless_short(fs::canonicalize(path)).transpose()).collect()
}

impl StatCache {
    /// Returns a path without links.
    ///
    /// # Errors
    /// As [`fs::canonicalize`].
    pub fn real(&self, path: &Path) -> io::Result<PathBuf> {
        // An `io::Error` can't be cloned, so the number of the error is kept.
        let number = |error: io::Error| error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
        let found = kept(&self.real, path, || Ok::<_, io::Error>(fs::canonicalize(path).map_err(number)));
        found?.map_err(io::Error::from_raw_os_error)
    }

    /// Returns the metadata of what a path leads to; none if it can't be read.
    pub fn metadata(&self, path: &Path) -> Option<Metadata> {
        kept(&self.metadata, path, || Ok::<_, ()>(fs::metadata(path).ok())).ok().flatten()
    }

    /// Opens what a real path names, beneath the descriptor of its directory. Returns also the directory's metadata, which
    /// was read from this descriptor.
    ///
    /// # Errors
    /// As [`open_real`].
    pub fn open(&self, real: &Path, flags: OFlags) -> io::Result<(File, Metadata)> {
        let (dir, name) = real.parent().zip(real.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
        let directory = kept(&self.directories, dir, || {
            let directory = File::from(open_real(dir, OFlags::PATH | OFlags::DIRECTORY)?);
            let metadata = directory.metadata()?;
            Ok::<_, io::Error>(Rc::new((directory, metadata)))
        })?;
        let flags = flags | OFlags::CLOEXEC;
        let file = openat2(&directory.0, name, flags, Mode::empty(), ResolveFlags::BENEATH | NO_LINKS)?;
        Ok((file.into(), directory.1.clone()))
    }

    /// Returns the first path, of a file or directory (a real path) and those above, that anybody besides these owners can
    /// change; none if only they can.
    pub fn insecure_above(&self, dir: &Path, owners: &[u32]) -> Option<PathBuf> {
        let fine = |above: &Path| self.metadata(above).is_some_and(|meta| only_of(&meta, owners));
        dir.ancestors().find(|above| !fine(above)).map(Path::to_owned)
    }
}

/// Returns whether only these owners can change what has this metadata.
pub fn only_of(meta: &Metadata, owners: &[u32]) -> bool {
    fnd_wire::trust::secure(meta.mode(), meta.is_dir(), meta.uid()) && owners.contains(&meta.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_opened_beneath_the_directory_that_was_checked_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(real.join("a")).unwrap();
        fs::write(real.join("a/f"), "").unwrap();
        std::os::unix::fs::symlink("a", real.join("b")).unwrap();
        std::os::unix::fs::symlink("f", real.join("a/g")).unwrap();
        let facts = StatCache::default();
        let (file, above) = facts.open(&real.join("a/f"), OFlags::RDONLY).unwrap();
        assert_eq!(file.metadata().unwrap().ino(), fs::metadata(real.join("a/f")).unwrap().ino());
        assert_eq!(above.ino(), fs::metadata(real.join("a")).unwrap().ino());
        for path in ["b/f", "a/g"] {
            let refused = facts.open(&real.join(path), OFlags::RDONLY).map(drop).unwrap_err();
            assert_eq!(Errno::from_io_error(&refused), Some(Errno::LOOP), "{path}");
        }
        assert!(facts.open(Path::new("/"), OFlags::PATH).is_err());
    }

    #[test]
    fn only_its_owners_may_change_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let me = rustix::process::geteuid().as_raw();
        let of = |mode: u32, owners: &[u32]| {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            only_of(&fs::metadata(dir.path()).unwrap(), owners)
        };
        assert!(of(0o755, &[me]) && !of(0o755, &[me + 1]) && !of(0o775, &[me]) && !of(0o757, &[me]));
    }
}
