//! The files with a function's secrets and service bindings, and how they are written.

use crate::process::identity::Identity;
use fnd_wire::form::Bytes;
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, mkdirat, openat};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The files that a launcher puts in their places.
pub struct SecretFiles {
    /// `CREDENTIALS_DIRECTORY`, then `SERVICE_BINDING_ROOT`: each with names and values of its files.
    pub places: [(PathBuf, Vec<(String, Bytes)>); 2],
    /// The function's user; absent: the spawner's.
    pub owner: Option<Identity>,
}

impl SecretFiles {
    /// Replaces the content of their directories, where a launcher can't have a file system of its own.
    ///
    /// # Errors
    /// If writing fails.
    pub fn refill(&self) -> io::Result<()> {
        self.places.iter().try_for_each(|(dir, files)| {
            empty(dir)?;
            fill(File::open(dir)?, files, self.owner.as_ref())
        })
    }
}

/// Writes files that the owner can read below an empty directory. The directories stay this user's; the owner's group can
/// list them.
///
/// # Errors
/// If writing fails.
pub fn fill(dir: impl AsFd, files: &[(String, Bytes)], owner: Option<&Identity>) -> io::Result<()> {
    let give = |file: &OwnedFd, mode: u32, with_user: bool| {
        fchmod(file, Mode::from_raw_mode(mode))?;
        let Some(owner) = owner else { return Ok(()) };
        fchown(file, with_user.then(|| Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))
    };
    let mut dirs = vec![Path::new(".")];
    for (name, value) in files {
        if let Some(parent) = Path::new(name).parent().filter(|parent| !parent.as_os_str().is_empty()) {
            match mkdirat(&dir, parent, Mode::from_raw_mode(0o700)) {
                // An earlier name has the same directory.
                Err(rustix::io::Errno::EXIST) => {}
                made => dirs.push(made.map(|()| parent)?),
            }
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file = File::from(openat(&dir, name.as_str(), flags, Mode::from_raw_mode(0o600))?);
        file.write_all(&value.0)?;
        give(&file.into(), 0o400, true)?;
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |path: &Path| openat(&dir, path, flags, Mode::empty());
    // Directories come last: in one of mode 0550 only root can still make files, and this process may not be root.
    dirs.into_iter().try_for_each(|path| Ok(give(&open(path)?, 0o550, false)?))
}

/// Removes everything in a directory that this user owns.
///
/// # Errors
/// If removing fails.
pub fn empty(dir: &Path) -> io::Result<()> {
    // `fill` has left the directories without the right to write, which removing files from them needs.
    let open = |dir: &Path| fs::set_permissions(dir, fs::Permissions::from_mode(0o711));
    open(dir)?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { open(&path).and_then(|()| fs::remove_dir_all(path)) } else { fs::remove_file(path) }?;
    }
    Ok(())
}
