//! Reads files that people wrote (functions and settings) without trusting them: every file is opened without following
//! a link, checked on the descriptor that is read, and refused if somebody else could have written it.

use super::*;
use crate::policy::Myself;
use crate::process::identity;
use crate::stat_cache::{only_of, open_real};
pub use fnd_wire::archive::{DEPTH_MAX, PATH_MAX};
use fnd_wire::plan::TRUST_DIGITS;
use fnd_wire::trust::refusal;
use rustix::fs::{OFlags, readlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Component;

/// Largest number of symbolic links on the way to a file.
const LINKS_MAX: usize = 16;
/// Help for a path that is too deep or too long.
pub const SHALLOWER: &str = "move it to a higher directory, or shorten the names of its directories";

/// An open file that passed the checks and may be read.
pub struct OpenedSource {
    /// The descriptor, non-blocking.
    pub file: File,
    /// The result of `fstat` when the file was opened.
    pub meta: Metadata,
    /// The file's path, for people.
    pub shown: String,
    /// Whether root owns it (or the spawner's user, if the spawner is not root): only then may it ask for more rights.
    pub trusted: bool,
}

/// The kind of file that a path is expected to name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    File,
    Directory,
}

/// The functions directories, and the user that reads them.
pub struct Sources {
    /// The directories, absolute, in the order of their index.
    pub dirs: Vec<PathBuf>,
    /// The one of them that has the uploads: whoever may upload a function must not grant it more.
    pub uploads: PathBuf,
    /// The user that the spawner runs as.
    pub myself: Myself,
    /// The facts about directories at this moment.
    pub facts: StatCache,
}

/// The file that a path leads to after following links: its path, without links; its state, if it was looked at last; and user
/// and group of each link on the way.
type ResolvedFile = (PathBuf, Option<Metadata>, Vec<(u32, u32)>);

impl Sources {
    /// Returns the [trust](crate::install::Snapshot::trust) of a function with such files.
    pub fn trust(&self, trusted: bool, owner: u32, shown: &str, function: &FunctionName) -> String {
        if trusted {
            return String::new();
        }
        if !Path::new(shown).starts_with(&self.uploads) && ![0, self.myself.uid].contains(&owner) {
            return format!("u{owner}");
        }
        // All uploads have the same owner, so the owner does not say who wrote them, and each function is a trust of
        // its own.
        let hex: String = Sha256::digest(function.as_str()).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("f{}", hex.get(..TRUST_DIGITS).unwrap_or_default())
    }

    /// Opens a file or directory beneath a functions directory. A symbolic link must stay in these directories, and the
    /// link's owner must be allowed to read the file.
    ///
    /// # Errors
    /// The problem with the file and what to do; also if `index` names no functions directory.
    pub fn open(&self, index: u16, relative: &str, wanted: SourceKind) -> Result<OpenedSource, Problem> {
        let dir = self.dirs.get(usize::from(index));
        let dir = dir.ok_or_else(|| problem(relative, "there is no such functions directory", "reload fnd"))?;
        let shown = dir.join(relative).display().to_string();
        let (real, meta, mut links) = self.follow(dir, relative, &shown)?;
        links.retain(|_| self.myself.root());
        let mut opened = open((&real, meta), shown, (wanted, &links), (&self.myself, &self.facts))?;
        opened.trusted &= *dir != self.uploads;
        Ok(opened)
    }

    /// Follows a path one name at a time. Nothing outside the functions directories is opened.
    fn follow(&self, dir: &Path, relative: &str, shown: &str) -> Result<ResolvedFile, Problem> {
        let failed = |error: &io::Error| unreadable(shown, error);
        let real_of = |dir: &PathBuf| Some((dir.clone(), self.facts.real(dir).ok()?));
        let bases: Vec<(PathBuf, PathBuf)> = self.dirs.iter().filter_map(real_of).collect();
        let within = |path: &Path| bases.iter().find(|(_, base)| path.starts_with(base) && path != base);
        let mut real = self.facts.real(dir).map_err(|error| failed(&error))?;
        let (mut links, mut last) = (Vec::new(), None);
        let mut rest: Vec<OsString> = names(Path::new(relative)).collect();
        while let Some(name) = rest.pop() {
            last = None;
            if name == ".." {
                real.pop();
                continue;
            }
            real.push(name);
            if let Some((_, base)) = bases.iter().find(|(given, _)| real == *given) {
                real.clone_from(base);
                continue;
            }
            let Some((_, base)) = within(&real) else {
                if bases.iter().any(|(given, base)| given.starts_with(&real) || base.starts_with(&real)) {
                    continue; // a directory above one of them
                }
                real.extend(rest.iter().rev());
                return Err(leads_out(shown, &real));
            };
            if real.components().count() > base.components().count() + DEPTH_MAX + 2 {
                return Err(problem(shown, format!("it is more than {DEPTH_MAX} directory levels deep"), SHALLOWER));
            }
            let component = self.facts.open(&real, OFlags::PATH | OFlags::NOFOLLOW);
            let (component, _) = component.map_err(|error| failed(&error))?;
            let meta = component.metadata().map_err(|error| failed(&error))?;
            if meta.is_symlink() {
                links.push((meta.uid(), meta.gid()));
                if links.len() > LINKS_MAX {
                    let message = format!("it leads through more than {LINKS_MAX} symbolic links");
                    return Err(problem(shown, message, "copy the file here instead of linking it"));
                }
                let target = readlinkat(&component, "", Vec::new()).map_err(|errno| failed(&errno.into()))?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                real.pop();
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                rest.extend(names(target));
            } else {
                last = Some(meta);
            }
        }
        within(&real).ok_or_else(|| leads_out(shown, &real))?;
        Ok((real, last, links))
    }
}

/// Returns the names of a path, the last one first.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    let named = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(named).map(|part| part.as_os_str().to_owned()).rev().collect::<Vec<_>>().into_iter()
}

fn leads_out(shown: &str, real: &Path) -> Problem {
    let (message, help) = refusal::leads_out(&real.display().to_string());
    problem(shown, message, help)
}

/// Opens the file that a real path (without links) names, beneath the descriptor of its directory; `known` is its state, if
/// it was looked at already. Every user and group in `links` must be able to read it, too: they own the links that led to it.
///
/// # Errors
/// The problem with the file and what to do.
pub fn open(
    (real, known): (&Path, Option<Metadata>),
    shown: String,
    (wanted, links): (SourceKind, &[(u32, u32)]),
    (myself, facts): (&Myself, &StatCache),
) -> Result<OpenedSource, Problem> {
    let inspect = |flags| {
        let opened = facts.open(real, flags).and_then(|(file, above)| Ok((file.metadata()?, file, above)));
        opened.map_err(|error| unreadable(&shown, &error))
    };
    // The file is checked through O_PATH first, since opening a device or FIFO can have effects. If the file was
    // exchanged since, the check after the second opening fails.
    let meta = known.map_or_else(|| inspect(OFlags::PATH).map(|(meta, ..)| meta), Ok)?;
    if wanted == SourceKind::File && !meta.is_file() {
        let help = "only regular files and directories are read; remove it or move it elsewhere";
        return Err(problem(&shown, "it is not a regular file", help));
    }
    if wanted == SourceKind::Directory && !meta.is_dir() {
        return Err(problem(&shown, "it is not a directory", "reload fnd"));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(insecure(real));
    }
    let owners = [0, myself.uid, meta.uid()];
    if let Some(above) = real.parent().and_then(|parent| facts.insecure_above(parent, &owners)) {
        return Err(insecure(&above));
    }
    // If a FIFO or a terminal was put in place of the file, opening it neither waits nor gives this process a terminal.
    let read = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    // Otherwise a person could link to a file that only root may read, and have it published as code.
    for (uid, gid) in links.iter().filter(|(uid, _)| *uid != 0) {
        // If the kernel does not give the owner's rights, the owner counts as one who may not read the file.
        if identity::with_files_of((*uid, *gid), || open_real(real, read).is_err()).unwrap_or(true) {
            let message = format!("the owner of the symbolic link, uid {uid}, may not read `{}`", real.display());
            return Err(problem(&shown, message, "copy the file here, or make it readable for everybody"));
        }
    }
    let (again, file, above) = inspect(read)?;
    if !only_of(&above, &owners) {
        return Err(insecure(real.parent().unwrap_or(real)));
    }
    if (again.dev(), again.ino(), again.mode(), again.uid()) != (meta.dev(), meta.ino(), meta.mode(), meta.uid()) {
        return Err(changed(&shown));
    }
    // Before Linux 6.13 a file is stamped with the time of the last tick (at most 10 ms ago), so a second change within
    // the same tick would not be seen. Therefore the file is read in a later tick.
    while wanted == SourceKind::File && crate::clock::is_tick(again.ctime(), again.ctime_nsec()) {
        std::thread::yield_now();
    }
    Ok(OpenedSource { file, meta: again, shown, trusted: [0, myself.uid].contains(&meta.uid()) })
}

impl OpenedSource {
    /// Reads at most `max` bytes and checks that the file did not change meanwhile.
    ///
    /// # Errors
    /// The problem: the file is larger than `max`, changed, or can't be read.
    pub fn read(&mut self, max: u64) -> Result<Vec<u8>, Problem> {
        if self.meta.len() > max {
            return Err(problem(&self.shown, format!("it is larger than {} MiB", max >> 20), "shorten it"));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(self.meta.len()).unwrap_or(0) + 1);
        // One byte more than allowed, so that a file that grows while it is read is noticed.
        (&self.file).take(max + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&self.shown, &error))?;
        self.unchanged(bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Reads the file for the judge, at most `max` bytes.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn judged(mut self, max: u64) -> Result<JudgedFile, Problem> {
        let bytes = fnd_wire::form::Bytes(self.read(max)?);
        Ok(JudgedFile { path: self.shown, bytes, mode: self.meta.mode() & 0o7777, trusted: self.trusted })
    }

    /// Checks that the file has not changed since it was opened, and that `length`, the number of bytes read, is its
    /// size.
    ///
    /// # Errors
    /// The problem that the file changed.
    pub fn unchanged(&self, length: u64) -> Result<(), Problem> {
        let stamp = |meta: &Metadata| (meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
        let same = |now: Metadata| stamp(&now) == stamp(&self.meta) && now.len() == length;
        if self.file.metadata().is_ok_and(same) { Ok(()) } else { Err(changed(&self.shown)) }
    }
}

/// Returns the problem that a file can't be opened or read.
pub fn unreadable(shown: &str, error: &io::Error) -> Problem {
    let help = match error.kind() {
        io::ErrorKind::NotFound => {
            "it was removed, or is a symbolic link without a target; if intended, do nothing".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!("run `chmod a+r {shown}`"),
        _ => "check the file".to_owned(),
    };
    problem(shown, format!("failed to open it: {error}"), help)
}

fn insecure(path: &Path) -> Problem {
    let shown = path.display().to_string();
    let (message, help) = refusal::insecure(&shown);
    problem(&shown, message, help)
}

fn changed(shown: &str) -> Problem {
    problem(shown, "changed while being read", "fnd reads it again when it has stopped changing")
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
            let around = (&Myself::current(), &StatCache::default());
            let opened = open((&path, None), "a.sh".to_owned(), (SourceKind::File, &[]), around).ok().unwrap();
            fs::write(&path, "b").unwrap();
            assert!(opened.unchanged(1).is_err());
        }
    }
}
