//! Reading what people put into a functions directory, without trusting any of it: everything is opened beneath that
//! directory, checked on the descriptor that is read, and refused where somebody else could have written it.

use crate::policy::{Myself, insecure_above, problem};
use fnd_core::frame::Problem;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A file opened and found fit to be read.
#[derive(Debug)]
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

/// Kind of what a path in a functions directory names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
}

/// The functions directories and who looks at them.
#[derive(Debug)]
pub struct Sources {
    dirs: Vec<PathBuf>,
    myself: Myself,
}

impl Sources {
    /// Takes the functions directories, absolute.
    pub fn new(dirs: Vec<PathBuf>, myself: Myself) -> Self {
        Self { dirs, myself }
    }

    /// Returns the directories, in the order of their index.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Opens a file or directory beneath a functions directory. A symbolic link must lead into one of them.
    ///
    /// # Errors
    /// What is wrong with it and what to do; `index` out of range counts as not there.
    pub fn open(&self, index: u16, relative: &str, wanted: Kind) -> Result<Opened, Problem> {
        let dir = self
            .dirs
            .get(usize::from(index))
            .ok_or_else(|| problem(relative, "there is no such functions directory", "reload fnd"))?;
        let shown = dir.join(relative).display().to_string();
        let found = match beneath(dir, relative, OFlags::PATH) {
            Err(Errno::LOOP) => self.through_link(dir, relative, &shown)?,
            other => (dir.clone(), relative.to_owned(), other.map_err(|errno| unreadable(&shown, errno))?),
        };
        self.open_found(found, shown, wanted)
    }

    fn through_link(&self, dir: &Path, relative: &str, shown: &str) -> Result<(PathBuf, String, OwnedFd), Problem> {
        let target = fs::canonicalize(dir.join(relative)).map_err(|error| {
            problem(shown, format!("the symbolic link leads nowhere: {error}"), "correct or remove the link")
        })?;
        for dir in &self.dirs {
            let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
            let inside = target.strip_prefix(&real).ok().and_then(Path::to_str);
            if let Some(inside) = inside.filter(|inside| !inside.is_empty()) {
                let fd = beneath(&real, inside, OFlags::PATH).map_err(|errno| unreadable(shown, errno))?;
                return Ok((real, inside.to_owned(), fd));
            }
        }
        Err(problem(
            shown,
            format!("the symbolic link leads out of the functions directories, to `{}`", target.display()),
            "copy the file here instead of linking it",
        ))
    }

    fn open_found(
        &self,
        (dir, relative, fd): (PathBuf, String, OwnedFd),
        shown: String,
        wanted: Kind,
    ) -> Result<Opened, Problem> {
        let look = |file: &File| {
            let failed = |error| problem(&shown, format!("failed to look at it: {error}"), "check the file");
            file.metadata().map_err(failed)
        };
        let meta = look(&File::from(fd))?;
        if wanted == Kind::File && !meta.is_file() {
            let help = "functions are regular files or directories; remove it or move it elsewhere";
            return Err(problem(&shown, "it is not a regular file", help));
        }
        if wanted == Kind::Directory && !meta.is_dir() {
            return Err(problem(&shown, "it is not a directory", "reload fnd"));
        }
        if meta.mode() & 0o022 != 0 {
            return Err(insecure(&shown));
        }
        let owners = [0, self.myself.uid, meta.uid()];
        let path = fs::canonicalize(&dir).unwrap_or(dir.clone()).join(&relative);
        if let Some(above) = path.parent().and_then(|parent| insecure_above(parent, &owners)) {
            return Err(insecure(&above.display().to_string()));
        }
        // The file was looked at by O_PATH first, since opening a device or FIFO can have effects. If it was exchanged since,
        // the check below sees it.
        let kind = if wanted == Kind::Directory { OFlags::DIRECTORY } else { OFlags::empty() };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | kind;
        let file = File::from(beneath(&dir, &relative, flags).map_err(|errno| unreadable(&shown, errno))?);
        let again = look(&file)?;
        if (again.dev(), again.ino(), again.mode(), again.uid()) != (meta.dev(), meta.ino(), meta.mode(), meta.uid()) {
            return Err(changed(&shown));
        }
        let trusted = meta.uid() == self.myself.uid || meta.uid() == 0;
        Ok(Opened { file, meta: again, shown, trusted })
    }
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
        read.map_err(|error| problem(&self.shown, format!("failed to read it: {error}"), "check the file"))?;
        self.unchanged(bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Checks that the file is as it was when it was opened, `length` bytes having been read.
    ///
    /// # Errors
    /// The problem that it changed.
    pub fn unchanged(&self, length: u64) -> Result<(), Problem> {
        let same = |now: &Metadata| {
            let stamp =
                |meta: &Metadata| (meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
            stamp(now) == stamp(&self.meta) && now.len() == length
        };
        if self.file.metadata().is_ok_and(|now| same(&now)) { Ok(()) } else { Err(changed(&self.shown)) }
    }
}

fn beneath(dir: &Path, relative: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let dir = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(dir, relative, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn unreadable(shown: &str, errno: Errno) -> Problem {
    let help = match errno {
        Errno::NOENT => "it went away; nothing to do if that was meant".to_owned(),
        Errno::ACCESS | Errno::PERM => format!("run `chmod a+r {shown}`"),
        _ => "check the file".to_owned(),
    };
    problem(shown, format!("failed to open it: {}", std::io::Error::from(errno)), help)
}

fn insecure(shown: &str) -> Problem {
    let help = format!("run `chmod go-w {shown}`, and check its owner");
    problem(shown, "INSECURE MODE: others than root and the owner can write it", help)
}

/// The problem that a file changed under the reader.
pub fn changed(shown: &str) -> Problem {
    problem(shown, "changed while being read", "it is read again when it is quiet")
}
