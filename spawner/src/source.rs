//! Reading what people wrote, functions and settings, without trusting any of it: everything is opened without following a
//! link, checked on the descriptor that is read, and refused where somebody else could have written it.

use crate::policy::{Myself, insecure_above, problem};
use fnd_core::frame::Problem;
use fnd_core::plan::JudgedFile;
use fnd_core::wire::Bytes;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A file opened and found fit to be read.
pub struct Opened {
    /// The descriptor, non-blocking.
    pub file: File,
    /// What `fstat` said when it was opened.
    pub meta: Metadata,
    /// Its path, for people.
    pub shown: String,
    /// Whether it is root's (or the spawner's own user's): only then may it grant itself more.
    pub trusted: bool,
}

/// Kind of what a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
}

/// The functions directories and who looks at them.
pub struct Sources {
    /// The directories, absolute, in the order of their index.
    pub dirs: Vec<PathBuf>,
    /// Who looks.
    pub myself: Myself,
}

impl Sources {
    /// Opens a file or directory beneath a functions directory. A symbolic link must lead into one of them.
    ///
    /// # Errors
    /// What is wrong with it and what to do; `index` out of range counts as not there.
    pub fn open(&self, index: u16, relative: &str, wanted: Kind) -> Result<Opened, Problem> {
        let dir = self.dirs.get(usize::from(index));
        let dir = dir.ok_or_else(|| problem(relative, "there is no such functions directory", "reload fnd"))?;
        let path = dir.join(relative);
        let shown = path.display().to_string();
        let real = fs::canonicalize(&path).map_err(|error| unreadable(&shown, &error))?;
        let mut dirs = self.dirs.iter().filter_map(|dir| fs::canonicalize(dir).ok());
        let Some(dir) = dirs.find(|dir| real != *dir && real.starts_with(dir)) else {
            let message = format!("the symbolic link leads out of the functions directories, to `{}`", real.display());
            return Err(problem(&shown, message, "copy the file here instead of linking it"));
        };
        open(&dir, &real, shown, wanted, &self.myself)
    }
}

/// Opens what a real path (without links) names, beneath a directory.
///
/// # Errors
/// What is wrong with it and what to do.
pub fn open(dir: &Path, real: &Path, shown: String, wanted: Kind, myself: &Myself) -> Result<Opened, Problem> {
    let look = |flags| {
        let file = File::from(beneath(dir, real, flags).map_err(|errno| unreadable(&shown, &errno.into()))?);
        let meta = file.metadata().map_err(|error| unreadable(&shown, &error))?;
        Ok((file, meta))
    };
    // Looked at by O_PATH first, since opening a device or FIFO can have effects. If it was exchanged since, the check below
    // sees it.
    let (_, meta) = look(OFlags::PATH)?;
    if wanted == Kind::File && !meta.is_file() {
        let help = "only regular files and directories are read; remove it or move it elsewhere";
        return Err(problem(&shown, "it is not a regular file", help));
    }
    if wanted == Kind::Directory && !meta.is_dir() {
        return Err(problem(&shown, "it is not a directory", "reload fnd"));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(insecure(real));
    }
    let owners = [0, myself.uid, meta.uid()];
    if let Some(above) = real.parent().and_then(|parent| insecure_above(parent, &owners)) {
        return Err(insecure(&above));
    }
    let (file, again) = look(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    if (again.dev(), again.ino(), again.mode(), again.uid()) != (meta.dev(), meta.ino(), meta.mode(), meta.uid()) {
        return Err(changed(&shown));
    }
    // Before Linux 6.13 a file is stamped with the time of the last tick (at most 10 ms ago): a change within the same one
    // would not be seen, so it is read in a later one.
    while wanted == Kind::File && crate::clock::is_tick(again.ctime(), again.ctime_nsec()) {
        std::thread::yield_now();
    }
    Ok(Opened { file, meta: again, shown, trusted: [0, myself.uid].contains(&meta.uid()) })
}

impl Opened {
    /// Reads at most `max` bytes and checks that the file stayed the same meanwhile.
    ///
    /// # Errors
    /// What is wrong: it is larger than `max`, changed, or can't be read.
    pub fn read(&mut self, max: u64) -> Result<Vec<u8>, Problem> {
        if self.meta.len() > max {
            return Err(problem(&self.shown, format!("it is larger than {} MiB", max >> 20), "shorten it"));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(self.meta.len()).unwrap_or(0) + 1);
        let read = (&self.file).take(max + 1).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(&self.shown, &error))?;
        self.unchanged(bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Reads it for the judge, at most `max` bytes.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn judged(mut self, max: u64) -> Result<JudgedFile, Problem> {
        let bytes = Bytes(self.read(max)?);
        Ok(JudgedFile { path: self.shown, bytes, mode: self.meta.mode() & 0o7777, trusted: self.trusted })
    }

    /// Checks that the file is as it was when it was opened, `length` bytes having been read.
    ///
    /// # Errors
    /// The problem that it changed.
    pub fn unchanged(&self, length: u64) -> Result<(), Problem> {
        let stamp = |meta: &Metadata| (meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
        let same = |now: Metadata| stamp(&now) == stamp(&self.meta) && now.len() == length;
        if self.file.metadata().is_ok_and(same) { Ok(()) } else { Err(changed(&self.shown)) }
    }
}

fn beneath(dir: &Path, real: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let below = real.strip_prefix(dir).map_err(|_| Errno::XDEV)?;
    let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let dir = openat2(CWD, dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), no_links)?;
    openat2(dir, below, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH | no_links)
}

/// The problem that a file can't be opened or read.
pub fn unreadable(shown: &str, error: &io::Error) -> Problem {
    let help = match error.kind() {
        io::ErrorKind::NotFound => {
            "it went away, or is a symbolic link that leads nowhere; nothing to do if that was meant".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!("run `chmod a+r {shown}`"),
        _ => "check the file".to_owned(),
    };
    problem(shown, format!("failed to open it: {error}"), help)
}

fn insecure(path: &Path) -> Problem {
    let shown = path.display().to_string();
    let help = format!("run `chmod go-w {shown}`, and check its owner");
    problem(&shown, "INSECURE MODE: others than root and the owner can write it", help)
}

fn changed(shown: &str) -> Problem {
    problem(shown, "changed while being read", "it is read again when it is quiet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_right_behind_another_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sh");
        for _ in 0..20 {
            fs::write(&path, "a").unwrap();
            let opened = open(dir.path(), &path, "a.sh".to_owned(), Kind::File, &Myself::look()).ok().unwrap();
            fs::write(&path, "b").unwrap();
            assert!(opened.unchanged(1).is_err());
        }
    }
}
