//! The problems of a watcher in a directory, and the words for them.

use super::disk::{open_below, split};
use fnd_core::triggers::file::machine::POLL_INTERVAL;
use fnd_core::triggers::file::message::PATH_MAX;
use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Most bytes of a path that is too long, in a message.
const SHOWN: usize = 80;

/// The findings of the scans of a directory.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ScanFindings {
    /// Why the kernel does not report all changes.
    pub(super) blind: Option<Errno>,
    /// A directory whose files cannot be seen, and why. No event says that they can be seen again.
    pub(super) unreadable: Option<(Vec<u8>, Errno)>,
    /// A path that is longer than fnd takes.
    pub(super) long: Option<Vec<u8>>,
    /// The path of the watched directory leads elsewhere, or nowhere.
    pub(super) is_lost: bool,
}

impl ScanFindings {
    /// Adds what was found later. The first of its kind is the one that is told.
    pub(super) fn add(&mut self, later: Self) {
        self.blind = self.blind.or(later.blind);
        self.unreadable = self.unreadable.take().or(later.unreadable);
        self.long = self.long.take().or(later.long);
        self.is_lost |= later.is_lost;
    }

    /// Returns whether only repeated scans show all changes.
    pub(super) fn is_polled(&self) -> bool {
        self.blind.is_some() || self.unreadable.is_some()
    }

    /// Returns the problem of what repeated scans make up for.
    pub(super) fn problem(&self, directory: &Path) -> Option<String> {
        let interval = POLL_INTERVAL.as_secs();
        let path = directory.display();
        // This is no full disk: the user has as many watches as are allowed (inotify_add_watch(2)).
        if self.blind == Some(Errno::NOSPC) {
            return Some(format!(
                "`{path}` has more directories than can be watched, so all files are looked at every {interval} s: \
                 raise `fs.inotify.max_user_watches` with sysctl"
            ));
        }
        if let Some(error) = self.blind {
            let cause = std::io::Error::from(error);
            return Some(format!(
                "`{path}` cannot be watched ({cause}), so all files are looked at every {interval} s"
            ));
        }
        self.unreadable.as_ref().map(|(below, error)| {
            let whole = directory.join(OsStr::from_bytes(below));
            let cause = std::io::Error::from(*error);
            format!(
                "`{}` cannot be read ({cause}), so all files are looked at every {interval} s until it can: let the user \
                 of the function read and pass it",
                whole.components().as_path().display()
            )
        })
    }

    /// Returns the problem of a path that is too long.
    pub(super) fn too_long(&self, directory: &Path) -> Option<String> {
        self.long.as_ref().map(|long| {
            let shown = long.get(..SHOWN).unwrap_or(long);
            format!(
                "`{}/{}...` is left out, because its path below the directory has more than {PATH_MAX} bytes: shorten it",
                directory.display(),
                String::from_utf8_lossy(shown)
            )
        })
    }
}

/// Returns whether a directory is the one that each ext file system has, which only root reads.
pub(super) fn is_lost_and_found(root: BorrowedFd<'_>, path: &[u8]) -> bool {
    let (above, name) = split(path);
    let stat =
        open_below(root, above).and_then(|above| statat(above, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW));
    name == b"lost+found" && stat.is_ok_and(|stat| stat.st_uid == 0 && stat.st_mode & 0o7777 == 0o700)
}
