//! Makes and removes the directories for the sockets of programs that serve HTTP, and of workers that connect to fnd: a
//! directory `RUN/http/N` for the worker N, made before the worker starts and removed with it.
//!
//! The directory belongs to the function's user and to the group of the connected fnd; members of that group may enter
//! it but not list it. Files made in it get that group (setgid), so that fnd, and no other user, may connect to the
//! socket. The directory's name is in a directory that root owns, so a function can replace the content but never the
//! directory itself. Files that the worker leaves beside its socket are charged to the function's memory limit (`/run`
//! is a tmpfs) and are removed with the worker.

use super::*;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, lchown};
use std::os::unix::net::UnixListener;

/// The variable with the path of a program's socket.
pub const VARIABLE: &str = "FND_SOCKET_PATH";
/// The placeholder for the socket's path. A worker whose command line has it connects there, and gets no descriptor 3.
pub const PLACEHOLDER: &str = "{socket}";
/// The socket's file name.
const NAME: &str = "http.sock";
/// Prefix of the names of directories that an earlier spawner left. No worker has such a name.
const EARLIER: &str = "earlier-";

/// Returns the path of the socket in this directory.
pub fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// Returns whether the worker of a plan connects to fnd.
pub fn connects(plan: &Plan) -> bool {
    plan.mode.handler().is_some() && plan.argv.iter().any(|text| text.template && text.text.contains(PLACEHOLDER))
}

/// Makes the directory for a worker of `owner` and an fnd of this group. The name must be unused. Returns the socket at
/// which a worker that `connects` finds fnd.
///
/// # Errors
/// If making it fails.
pub fn make(dir: &Path, owner: Option<&Identity>, group: u32, connects: bool) -> io::Result<Option<OwnedFd>> {
    DirBuilder::new().mode(0o700).create(dir)?;
    // Before the directory is the function's, which could put another file there. The directory says who may connect.
    let listener = connects.then(|| UnixListener::bind(path(dir))).transpose()?.map(OwnedFd::from);
    if connects {
        fs::set_permissions(path(dir), Permissions::from_mode(0o666))?;
    }
    let Some(owner) = owner else { return Ok(listener) }; // fnd, the function and the spawner are one user
    // The mode is set while the directory still has the spawner's own group: if the process is not in a directory's
    // group and has no CAP_FSETID, as in the spawner's unit, the kernel drops the setgid bit (chmod(2)). Changing the
    // owner of a directory keeps the bit (chown(2)).
    fs::set_permissions(dir, Permissions::from_mode(0o2710))?;
    lchown(dir, Some(owner.uid), Some(group))?;
    Ok(listener)
}

/// Removes a directory that holds nothing but a socket; returns whether it is gone.
#[must_use]
pub fn remove(dir: &Path) -> bool {
    let _ = fs::remove_file(path(dir)); // if other files remain, the next line fails
    places::if_there(fs::remove_dir(dir)).is_ok()
}

/// Renames the directories that an earlier spawner left, since workers are numbered from 1 again; returns their paths.
///
/// # Errors
/// If they can't be listed: no worker with the number of one of them could start.
pub fn rename_earlier(http: &Path) -> io::Result<Vec<PathBuf>> {
    let aside = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let aside = http.join(format!("{EARLIER}{}-{name}", crate::clock::unix_ms()));
        let renamed = !name.starts_with(EARLIER) && fs::rename(entry.path(), &aside).is_ok();
        if renamed { aside } else { entry.path() }
    };
    Ok(places::entries(http)?.into_iter().map(aside).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use std::os::unix::fs::MetadataExt as _;

    /// The spawner's unit gives it no CAP_FSETID: then the kernel drops a mode's setgid bit for a group that the
    /// process is not in (chmod(2)).
    #[test]
    fn a_directory_gives_its_group_also_without_the_capability_for_that() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::FSETID);
        set_capabilities(None, sets).unwrap(); // of this thread
        let dir = tempfile::tempdir().unwrap().path().with_extension("socket");
        let owner = Identity { uid: 12_346, gid: 12_346, ..Identity::default() };
        assert!(make(&dir, Some(&owner), 12_345, false).unwrap().is_none());
        let meta = fs::metadata(&dir).unwrap();
        fs::write(dir.join(NAME), "").unwrap();
        let inner = fs::metadata(dir.join(NAME)).unwrap().gid();
        assert!(remove(&dir) && !dir.exists());
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777, inner), (12_346, 12_345, 0o2710, 12_345));
    }
}
