//! Where programs that serve HTTP make their sockets: a directory `RUN/http/N` for the worker N, made before it starts and removed
//! with it.
//!
//! It is the function's user's, and the group's of the connected fnd, who may pass it but not list it. What is made in it gets
//! that group (setgid), so that fnd may connect; nobody else may. Its name is in a directory of root's, so a function can
//! replace what is in it and never the directory itself. What it leaves beside its socket is charged to its memory limit
//! (`/run` is a tmpfs) and goes with the worker.

use crate::sandbox::identity::Identity;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

/// The variable that tells a program where.
pub const VARIABLE: &str = "FND_SOCKET_PATH";
/// The socket's name.
const NAME: &str = "http.sock";
/// What comes before the names of directories of an earlier spawner. No worker has such a name.
const EARLIER: &str = "earlier-";

/// Says whether a path is that of the socket in this directory.
pub fn is_in(dir: &Path, path: &[u8]) -> bool {
    dir.join(NAME).as_os_str().as_encoded_bytes() == path
}

/// Makes the directory for a worker of `owner` and an fnd of this group. Nothing may have its name.
///
/// # Errors
/// From making it.
pub fn make(dir: &Path, owner: Option<&Identity>, group: u32) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)?;
    let Some(owner) = owner else { return Ok(()) }; // fnd, the function and the spawner are one user
    // The mode while the directory is the spawner's own group's: for a group it is not in, the kernel drops the setgid bit where
    // CAP_FSETID is missing, as in its unit (chmod(2)). A new owner leaves the bit of a directory as it is (chown(2)).
    fs::set_permissions(dir, Permissions::from_mode(0o2710))?;
    lchown(dir, Some(owner.uid), Some(group))
}

/// Removes a directory with nothing but a socket in it; says whether it is gone.
#[must_use]
pub fn remove(dir: &Path) -> bool {
    let _ = fs::remove_file(dir.join(NAME)); // removing the directory says whether that was all
    fs::remove_dir(dir).err().is_none_or(|error| error.kind() == ErrorKind::NotFound)
}

/// Gives what an earlier spawner left other names, since workers are numbered from 1 again; returns them.
pub fn set_aside(http: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for entry in fs::read_dir(http).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let aside = http.join(format!("{EARLIER}{}-{name}", crate::clock::unix_ms()));
        let renamed = !name.starts_with(EARLIER) && fs::rename(entry.path(), &aside).is_ok();
        left.push(if renamed { aside } else { entry.path() });
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use std::os::unix::fs::MetadataExt as _;

    /// What its unit leaves the spawner: without that one a mode's setgid bit is dropped for a group it is not in (chmod(2)).
    #[test]
    fn a_directory_gives_its_group_also_without_the_capability_for_that() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::FSETID);
        set_capabilities(None, sets).unwrap(); // of this thread
        let dir = tempfile::tempdir().unwrap().path().with_extension("socket");
        let owner = Identity { uid: 12_346, gid: 12_346, groups: Vec::new() };
        make(&dir, Some(&owner), 12_345).unwrap();
        let meta = fs::metadata(&dir).unwrap();
        fs::write(dir.join(NAME), "").unwrap();
        let inner = fs::metadata(dir.join(NAME)).unwrap().gid();
        assert!(remove(&dir) && !dir.exists());
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777, inner), (12_346, 12_345, 0o2710, 12_345));
    }
}
