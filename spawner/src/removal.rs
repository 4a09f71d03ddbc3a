//! Empties a directory that a function owned, with that function's file rights, so that a link made there can't mislead
//! root.
//!
//! Directories are moved up before they are emptied: however deep a function nests them, only two are open at a time
//! and no path grows. A function may have changed the modes of its directories, so they are changed back on the way.

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, openat, renameat_with, unlinkat};
use std::ffi::{CStr, CString};
use std::fs::{self, DirEntry, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Largest number of names that are listed at once: a function may make millions.
const NAMES: usize = 10_000;

/// Returns the paths in a directory of root whose names fit.
///
/// # Errors
/// If it can't be read.
pub fn entries(dir: &Path, fits: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let found = crate::places::entries(dir)?;
    Ok(found.iter().filter(|entry| entry.file_name().to_str().is_some_and(&fits)).map(DirEntry::path).collect())
}

/// Removes files and trees of root; returns the exit code of a helper.
pub fn remove(paths: &[PathBuf]) -> i32 {
    let remove = |path: &PathBuf| fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
    paths.iter().map(|path| i32::from(remove(path).is_err())).sum()
}

/// Empties a directory; as root with the file rights of the directory's owner. Call it in a copy of the spawner only:
/// the process never gets root's rights back. Returns the copy's exit code.
pub fn empty(dir: &Path, root: bool) -> i32 {
    let Ok(meta) = fs::symlink_metadata(dir) else { return 1 };
    if root && crate::process::identity::take_files_of((meta.uid(), meta.gid())).is_err() {
        return 1;
    }
    let Ok(top) = enter(CWD, dir) else { return 1 };
    let mut moved = 0;
    // Each pass removes the entries of the directory, and moves up the entries of its subdirectories.
    while pass(&top, &mut moved) {}
    0
}

/// Runs one pass; returns whether it removed or moved anything, so that another pass may do more.
fn pass(top: &OwnedFd, moved: &mut u64) -> bool {
    let mut progress = false;
    for name in names(top) {
        if removed(top, &name) {
            progress = true;
            continue;
        }
        let Ok(sub) = enter(top, &name) else { continue };
        for inner in names(&sub) {
            if removed(&sub, &inner) {
                progress = true;
                continue;
            }
            drop(enter(&sub, &inner)); // moving a directory needs write access to it
            *moved += 1;
            progress |= renameat_with(&sub, &inner, top, format!(".fnd-{moved}"), RenameFlags::NOREPLACE).is_ok();
        }
        progress |= removed(top, &name);
    }
    progress
}

/// Removes a file or an empty directory; returns whether it did.
fn removed(dir: &OwnedFd, name: &CStr) -> bool {
    let remove = |flags| unlinkat(dir, name, flags).is_ok();
    // Both ways are tried in place of a look at the kind: that costs no call more, and nothing can change in between.
    remove(AtFlags::empty()) || remove(AtFlags::REMOVEDIR)
}

/// Opens a directory after giving its owner all rights to it.
fn enter(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = openat(&at, name, flags | OFlags::PATH, Mode::empty())?;
    let known = format!("/proc/self/fd/{}", path.as_raw_fd());
    // If this fails and was needed, opening fails below.
    let _ = fs::set_permissions(known, Permissions::from_mode(0o700));
    // Through the first descriptor, so that it is the directory whose mode was changed, whatever has its name now.
    openat(path, c".", flags, Mode::empty())
}

fn names(dir: &OwnedFd) -> Vec<CString> {
    let Ok(entries) = Dir::read_from(dir) else { return Vec::new() };
    let own = |name: &CStr| matches!(name.to_bytes(), b"." | b"..");
    entries.flatten().map(|entry| entry.file_name().to_owned()).filter(|name| !own(name)).take(NAMES).collect()
}
