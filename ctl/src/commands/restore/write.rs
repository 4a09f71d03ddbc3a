//! Writes the files of an archive. Below the directory of a part, every step is relative to a descriptor and follows no
//! link, since a function may own the directories. Links are made last, so that nothing is written through a link of
//! the archive.

use crate::common::backup_entries::{BackupPart, EntryPlace, Roots, each};
use crate::common::failed;
use crate::exit::CommandFailure;
use fnd_wire::naming::UPLOADS;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Uid, fchmod, fchown, mkdirat, openat, openat2, symlinkat, unlinkat,
};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tar::Header;

/// Owner and mode of an entry.
#[derive(Debug, Clone, Copy)]
struct RestoreSummary {
    uid: u32,
    gid: u32,
    mode: Mode,
}

/// Writes everything, and reports the size of each file that it wrote. Returns the number of entries.
pub(super) fn write(file: &File, roots: &Roots, mut wrote: impl FnMut(usize)) -> Result<u64, CommandFailure> {
    let mut count = 0;
    let mut links = Vec::new();
    let mut directories = Vec::new();
    each(file, |entry, place| {
        count += 1;
        let path = target(roots, &place);
        let fail = |error: io::Error| failed("write", &path, &error);
        let about = about(entry.header()).map_err(fail)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            directory(roots, &place.part, &place.below).map_err(fail)?;
            let about = of_uploads(roots, &place.part, about);
            directories.push((place, about));
        } else if kind.is_symlink() {
            let to = entry.link_name().map_err(fail)?.unwrap_or_default().into_owned();
            links.push((place, to));
        } else {
            let (directory, name, about) = place_of_file(roots, &place, about).map_err(fail)?;
            let mut to = create(&directory, &name, about).map_err(fail)?;
            let bytes = io::copy(entry, &mut to).map_err(fail)?;
            wrote(usize::try_from(bytes).unwrap_or(usize::MAX));
            // restore reports success only for files that a power cut leaves whole.
            to.sync_all().map_err(fail)?;
        }
        Ok(())
    })?;
    for (place, to) in links {
        let path = target(roots, &place);
        link(roots, &place, &to).map_err(|error| failed("write", &path, &error))?;
    }
    // Deepest first, and after all files: a directory may have a mode in which no file can be created.
    for (place, about) in directories.into_iter().rev() {
        let set = directory(roots, &place.part, &place.below).and_then(|directory| give(&directory, about));
        set.map_err(|error| failed("write", &target(roots, &place), &error))?;
    }
    Ok(count)
}

/// Returns the path of an entry on this machine.
pub(super) fn target(roots: &Roots, place: &EntryPlace) -> PathBuf {
    let mut path = roots.of(&place.part);
    path.extend(&place.below);
    path
}

fn about(header: &Header) -> io::Result<RestoreSummary> {
    let number = |number: u64| u32::try_from(number).map_err(|_| io::Error::other("its owner is not a valid uid"));
    Ok(RestoreSummary {
        uid: number(header.uid()?)?,
        gid: number(header.gid()?)?,
        // Set-user-ID bits are removed: no file of fnd has them.
        mode: Mode::from_raw_mode(header.mode()? & 0o777),
    })
}

/// Opens a directory, and creates it if it does not exist. The directory of the part is opened by its path, everything
/// below it without following links.
fn directory(roots: &Roots, part: &BackupPart, below: &[OsString]) -> io::Result<OwnedFd> {
    let mut open = root(&roots.of(part))?;
    for name in below {
        // Nobody else may enter until the directory gets its owner and its mode, at the end.
        match mkdirat(&open, name.as_os_str(), Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        open = openat2(&open, name.as_os_str(), flags, Mode::empty(), how)?;
    }
    Ok(open)
}

fn root(path: &Path) -> io::Result<OwnedFd> {
    std::fs::create_dir_all(path)?;
    Ok(openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the owner of what a part has: uploads get the user that runs fnd on this machine, which alone writes there.
fn of_uploads(roots: &Roots, part: &BackupPart, mut about: RestoreSummary) -> RestoreSummary {
    if matches!(part, BackupPart::Functions(_))
        && roots.of(part) == roots.state.join(UPLOADS)
        && let Ok(owner) = std::fs::metadata(roots.state.join("state"))
    {
        (about.uid, about.gid) = (owner.uid(), owner.gid());
    }
    about
}

/// Returns the directory, the name and the owner of a file. A database gets the user that runs fnd on this machine.
fn place_of_file(
    roots: &Roots,
    place: &EntryPlace,
    about: RestoreSummary,
) -> io::Result<(OwnedFd, OsString, RestoreSummary)> {
    let mut about = of_uploads(roots, &place.part, about);
    if let Some((name, parents)) = place.below.split_last() {
        return Ok((directory(roots, &place.part, parents)?, name.clone(), about));
    }
    let path = roots.of(&place.part);
    let parent = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_owned();
    let directory = root(parent)?;
    match place.part {
        BackupPart::Ledger | BackupPart::State => {
            let owner = std::fs::metadata(parent)?;
            (about.uid, about.gid) = (owner.uid(), owner.gid());
            for suffix in ["-wal", "-shm"] {
                // These files belong to the database that is replaced; SQLite would apply them to the new one.
                let mut beside = name.clone();
                beside.push(suffix);
                remove(&directory, &beside)?;
            }
        }
        BackupPart::Config => {
            let mut kept = name.clone();
            kept.push(".before-restore");
            if path.exists() {
                std::fs::rename(&path, parent.join(kept))?;
            }
        }
        BackupPart::Key | BackupPart::Beside(_) | BackupPart::Functions(_) | BackupPart::Home | BackupPart::Uids => {}
    }
    Ok((directory, name, about))
}

fn create(directory: &OwnedFd, name: &OsStr, about: RestoreSummary) -> io::Result<File> {
    // An existing file is not written to: a function may have given a file outside of its home a name there (a hard
    // link).
    remove(directory, name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Nobody else may read the file until `give` has set its owner.
    let file = openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    give(&file, about)?;
    Ok(file.into())
}

fn link(roots: &Roots, place: &EntryPlace, to: &Path) -> io::Result<()> {
    let Some((name, parents)) = place.below.split_last() else {
        return Ok(());
    };
    let directory = directory(roots, &place.part, parents)?;
    remove(&directory, name)?;
    Ok(symlinkat(to, &directory, name.as_os_str())?)
}

fn remove(directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sets the owner of a file or directory, if root runs this, and its mode.
fn give(file: &OwnedFd, about: RestoreSummary) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        fchown(file, Some(Uid::from_raw(about.uid)), Some(Gid::from_raw(about.gid)))?;
    }
    Ok(fchmod(file, about.mode)?)
}
