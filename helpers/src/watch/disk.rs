//! Looks at files and directories. Paths are bytes, and lead through no link below the watched directory.
//!
//! A watched directory is opened for each round of looks and closed afterwards: an open descriptor would keep its file
//! system from being unmounted.

use fnd_core::triggers::file::content::{FileStat, Hash};
use fnd_core::triggers::file::machine::Look;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Of larger files only the beginning and the end are hashed, each of half of this size.
const HASHED_WHOLE: u64 = 4 << 20;

/// Device and inode of a directory.
pub(super) type InodeIdentity = (u64, u64);

/// Opens a directory by a path that may lead through links.
pub(super) fn open_directory(path: &Path) -> Result<(OwnedFd, InodeIdentity), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, path, flags, Mode::empty())?;
    let stat = fstat(&directory)?;
    Ok((directory, (stat.st_dev, stat.st_ino)))
}

/// Opens a directory below another; an empty path is that one itself.
pub(super) fn open_below(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let first = parts.next().unwrap_or(b".");
    let mut at = openat(root, OsStr::from_bytes(first), flags, Mode::empty())?;
    // Part by part, since `NOFOLLOW` holds for the last part of a path only (open(2)).
    for part in parts {
        at = openat(&at, OsStr::from_bytes(part), flags, Mode::empty())?;
    }
    Ok(at)
}

/// Why a directory was not made.
pub(super) enum Unmade {
    Error(Errno),
    /// A part of its path is a link; the number of parts after it.
    Link {
        after: usize,
    },
}

impl From<Errno> for Unmade {
    fn from(error: Errno) -> Self {
        Self::Error(error)
    }
}

/// Opens a directory below another, and makes the parts of its path that are missing. No part may be a link.
pub(super) fn make_below(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Unmade> {
    let mut at = open_below(root, b"")?;
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let count = parts.clone().count();
    for (number, part) in parts.enumerate() {
        let opened = open_below(at.as_fd(), part).or_else(|error| {
            if error != Errno::NOENT {
                return Err(error);
            }
            match mkdirat(&at, OsStr::from_bytes(part), Mode::from_raw_mode(0o777)) {
                // Another program may have made the directory in the meantime.
                Ok(()) | Err(Errno::EXIST) => open_below(at.as_fd(), part),
                Err(error) => Err(error),
            }
        });
        at = opened.map_err(|error| {
            let stat = statat(&at, OsStr::from_bytes(part), AtFlags::SYMLINK_NOFOLLOW);
            match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Ok(FileType::Symlink) => Unmade::Link {
                    after: count - number - 1,
                },
                _ => Unmade::Error(error),
            }
        })?;
    }
    Ok(at)
}

/// Splits a path into the directory and the name.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (
            path.get(..at).unwrap_or_default(),
            path.get(at + 1..).unwrap_or_default(),
        ),
        None => (b"", path),
    }
}

/// Returns the facts of a regular file.
pub(super) fn facts(stat: &Stat) -> Option<FileStat> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let nanos = |seconds: i64, nanos: u64| {
        let nanos = i64::try_from(nanos).unwrap_or_default();
        seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
    };
    Some(FileStat {
        inode: stat.st_ino,
        device: stat.st_dev,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        modified_ns: nanos(stat.st_mtime, stat.st_mtime_nsec),
        changed_ns: nanos(stat.st_ctime, stat.st_ctime_nsec),
        is_linked: stat.st_nlink > 1,
    })
}

/// Looks at a file below a directory; with `hash` also at its content.
pub(super) fn look(root: BorrowedFd<'_>, path: &[u8], hash: bool) -> Look {
    let (above, name) = split(path);
    let name = OsStr::from_bytes(name);
    let parent = match open_below(root, above) {
        Ok(parent) => parent,
        Err(error) => return missing(root, error),
    };
    let stat = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(error) => return missing(parent.as_fd(), error),
    };
    let Some(before) = facts(&stat) else {
        return missing(parent.as_fd(), Errno::NOENT);
    };
    if !hash {
        return Look::File(before, Hash::NotAsked);
    }
    // The name may have become a fifo, whose opening must not block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(&parent, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return missing(parent.as_fd(), Errno::NOENT),
        // Not readable: its facts have to do.
        Err(_) => return Look::File(before, Hash::Unreadable),
    };
    let opened = |file: &OwnedFd| fstat(file).ok().as_ref().and_then(facts);
    let Some(opened_as) = opened(&file) else {
        return missing(parent.as_fd(), Errno::NOENT);
    };
    let Ok(hash) = digest(&file, opened_as.size) else {
        return Look::File(opened_as, Hash::Unreadable);
    };
    // The hash says nothing if the file changed meanwhile, or was replaced before it was opened.
    match opened(&file) {
        Some(after) if after != opened_as => Look::Changing(after),
        _ if opened_as != before => Look::Changing(opened_as),
        _ => Look::File(opened_as, Hash::Is(hash)),
    }
}

/// Returns the directory that hides a file, and why.
pub(super) fn unreachable(root: BorrowedFd<'_>, path: &[u8]) -> (Vec<u8>, Errno) {
    let (above, name) = split(path);
    let stat =
        open_below(root, above).and_then(|parent| statat(parent, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW));
    // It may be over already.
    (above.to_vec(), stat.err().unwrap_or(Errno::AGAIN))
}

/// Says what it means that a file was not found in a directory.
fn missing(directory: BorrowedFd<'_>, error: Errno) -> Look {
    match (error, fstat(directory)) {
        (Errno::NOENT | Errno::NOTDIR | Errno::LOOP, Ok(stat)) => Look::Absent(stat.st_dev),
        _ => Look::Unreachable,
    }
}

/// Returns the hash of a content, as the messages have it.
fn digest(file: &OwnedFd, size: u64) -> Result<u64, Errno> {
    let half = HASHED_WHOLE / 2;
    let parts = if size > HASHED_WHOLE {
        [(0, half), (size - half, half)]
    } else {
        [(0, HASHED_WHOLE), (0, 0)]
    };
    let mut hash = Sha256::new();
    let mut buffer = [0; 32 << 10];
    for (mut at, length) in parts {
        let end = at + length;
        while at < end {
            let room = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let count = rustix::io::pread(file, buffer.get_mut(..room).unwrap_or_default(), at)?;
            if count == 0 {
                break;
            }
            hash.update(buffer.get(..count).unwrap_or_default());
            at += u64::try_from(count).unwrap_or_default();
        }
    }
    let digest = hash.finalize();
    let first = digest.first_chunk::<8>().copied().unwrap_or_default();
    Ok(u64::from_be_bytes(first))
}
