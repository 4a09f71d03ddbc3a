//! Deletes and moves files after their invocation. Nothing is ever overwritten, and a file that changed stays.

use super::disk::{Unmade, facts, make_below, open_below, open_directory, split};
use fnd_core::triggers::file::content::FileStat;
use fnd_core::triggers::file::machine::{Act, Acted};
use fnd_manifest::function::file::FileAction;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, fstat, linkat, openat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Longest name in a directory, in bytes.
const NAME_MAX: usize = 255;
/// Attempts to find a free name while other programs make names too.
const ATTEMPTS: usize = 100;

/// Carries out an act in a watched directory, whose path is `watched`.
pub(super) fn act(root: BorrowedFd<'_>, watched: &str, act: &Act) -> Acted {
    let (above, name) = split(&act.path);
    let parent = match open_below(root, above) {
        Ok(parent) => parent,
        // Below a link, or a file in place of a directory, there is no file of the watched directory.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Acted::Changed,
        Err(error) => return failed(watched, act, "find", error),
    };
    let is_same = |facts: FileStat| (facts.inode, facts.size, facts.modified_ns) == act.content;
    // An open descriptor keeps the inode, so its number cannot become that of another file meanwhile.
    let file = openat(
        &parent,
        OsStr::from_bytes(name),
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let file = match file.and_then(|file| Ok((facts(&fstat(&file)?), file))) {
        Ok((Some(facts), file)) if is_same(facts) => file,
        Ok(_) | Err(Errno::NOENT) => return Acted::Changed,
        Err(error) => return failed(watched, act, "find", error),
    };
    let Some(to) = act.action.destination(watched) else {
        return match unlinkat(&parent, OsStr::from_bytes(name), AtFlags::empty()) {
            // With another name left, the content is still there under it.
            Ok(()) => Acted::Deleted(fstat(&file).is_ok_and(|stat| stat.st_nlink > 0)),
            Err(Errno::NOENT) => Acted::Changed,
            Err(error) => failed(watched, act, "delete", error),
        };
    };
    let moved = destination(root, watched, &to, above).and_then(|there| {
        let new = move_to(&parent, name, &there)?;
        Ok((there, new))
    });
    match moved {
        Ok((there, new)) => {
            let path = to.join(OsStr::from_bytes(above)).join(OsStr::from_bytes(&new));
            let facts = stat(&there, &new).ok().flatten();
            Acted::Moved(path.into_os_string().into_encoded_bytes(), facts)
        }
        Err(Unmade::Error(Errno::NOENT)) if stat(&parent, name) == Err(Errno::NOENT) => Acted::Changed,
        Err(Unmade::Error(error)) => failed(watched, act, "move", error),
        Err(Unmade::Link { after }) => Acted::Failed(is_link(watched, act, &to, above, after)),
    }
}

/// Opens the directory to which a file is moved, and makes it if it is missing.
///
/// The owner of the watched directory is not always the user of the function. What is below it is reached through no link:
/// a link would take files to wherever the function may write.
fn destination(root: BorrowedFd<'_>, watched: &str, to: &Path, above: &[u8]) -> Result<OwnedFd, Unmade> {
    let watched = FileAction::Move(".".to_owned()).destination(watched); // in the same form as `to`
    if let Some(below) = watched.and_then(|watched| to.strip_prefix(watched).ok()) {
        return make_below(root, below.join(OsStr::from_bytes(above)).as_os_str().as_bytes());
    }
    std::fs::create_dir_all(to).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let (to, _) = open_directory(to)?;
    make_below(to.as_fd(), above)
}

fn stat(directory: &OwnedFd, name: &[u8]) -> Result<Option<FileStat>, Errno> {
    let stat = statat(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(facts(&stat))
}

/// Moves a file to a directory. Returns the new name.
fn move_to(from: &OwnedFd, name: &[u8], to: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut new = name.to_vec();
    for _ in 0..ATTEMPTS {
        match rename(from.as_fd(), name, to.as_fd(), &new) {
            Err(Errno::EXIST) => new = free_name(to, name),
            other => return other.map(|()| new),
        }
    }
    Err(Errno::EXIST)
}

/// Moves a file without overwriting another.
fn rename(from: BorrowedFd<'_>, name: &[u8], to: BorrowedFd<'_>, new: &[u8]) -> Result<(), Errno> {
    let (name, new) = (OsStr::from_bytes(name), OsStr::from_bytes(new));
    match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        // Network file systems do not know the flag. A link does not overwrite either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(from, name, to, new, AtFlags::empty())?;
            unlinkat(from, name, AtFlags::empty())
        }
        other => other,
    }
}

/// Returns a name with a number that is not in the directory: the first one, where the numbers have no gaps. With
/// thousands of numbers only a few names are tried.
fn free_name(directory: &OwnedFd, name: &[u8]) -> Vec<u8> {
    let numbered = |number: u64| {
        let suffix = format!(".{number}");
        let kept = name.len().min(NAME_MAX - suffix.len());
        let mut new = name.get(..kept).unwrap_or_default().to_vec();
        new.extend_from_slice(suffix.as_bytes());
        new
    };
    let is_used = |number| stat(directory, &numbered(number)) != Err(Errno::NOENT);
    let (mut used, mut free) = (0, 1);
    while is_used(free) && free < u64::from(u32::MAX) {
        (used, free) = (free, free * 2);
    }
    while free - used > 1 {
        let middle = used + (free - used) / 2;
        if is_used(middle) {
            used = middle;
        } else {
            free = middle;
        }
    }
    numbered(free)
}

/// Returns the problem of a link on the way to the directory to which a file is moved, with the number of parts after it.
fn is_link(watched: &str, act: &Act, to: &Path, above: &[u8], after: usize) -> String {
    let path = Path::new(watched).join(OsStr::from_bytes(&act.path));
    let whole = to.join(OsStr::from_bytes(above));
    let whole = whole.components().as_path(); // without a slash at its end
    let link = whole.ancestors().nth(after).unwrap_or(to).display();
    format!(
        "failed to move `{}` to `{}`: `{link}` is a link, which is not followed there; the file stays where it is, and \
         fnd does not try again: make `{link}` a directory, or name the directory to which it leads",
        path.display(),
        whole.display()
    )
}

fn failed(watched: &str, act: &Act, verb: &str, error: Errno) -> Acted {
    let path = Path::new(watched).join(OsStr::from_bytes(&act.path));
    let to = match &act.action {
        FileAction::Move(directory) => format!(" to `{directory}`"),
        FileAction::Keep | FileAction::Delete => String::new(),
    };
    let help = match error {
        Errno::XDEV => "it is on another file system: name a directory on the same one",
        Errno::ACCESS | Errno::PERM => "let the user of the function write to the directories",
        Errno::ROFS => "the file system is mounted for reading only: mount it for writing",
        Errno::NOSPC | Errno::DQUOT => "make room on the file system",
        _ => "look at the directories",
    };
    let cause = std::io::Error::from(error);
    Acted::Failed(format!(
        "failed to {verb} `{}`{to}: {cause}; the file stays where it is, and fnd does not try again: {help}",
        path.display()
    ))
}
