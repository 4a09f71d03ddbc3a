//! Reads the files of a function, in turns: lists directories, holds or stages files.

use super::foreign;
use super::large::{stage, uncopied};
use super::source::{DEPTH_MAX, PATH_MAX, SHALLOWER};
use super::*;
use crate::clock::now;
use fnd_wire::archive::ENTRIES_MAX as FILES_MAX;
use rustix::fs::{Dir, FileType};

impl Snapshot {
    /// Opens a file or directory of the function. A stored file belongs to root, but it is trusted only if its source
    /// was.
    fn open(&self, sources: &Sources, relative: &str, kind: SourceKind) -> Result<OpenedSource, Problem> {
        let source = &self.install.source;
        let join = |above: &str| if relative.is_empty() { above.to_owned() } else { format!("{above}/{relative}") };
        let Some((stored, origin)) = &self.stored else {
            return sources.open(self.install.directory, &join(source), kind);
        };
        let file = source.rsplit('/').next().filter(|_| kind == SourceKind::File && relative.is_empty());
        let mut opened = stored.open(0, &file.map_or_else(|| join("code"), |file| format!("code/{file}")), kind)?;
        opened.trusted &= origin.trusted;
        opened.shown = join(&origin.shown);
        Ok(opened)
    }

    /// Reads as many files as fit in one turn of the loop, which has these limits; at least one.
    ///
    /// # Errors
    /// Why a file can't be read, or what is wrong with it.
    pub fn read(&mut self, sources: &Sources, turn: (usize, u64, Duration)) -> Result<InstallProgress, Problem> {
        let (start, until) = (self.bytes, now() + turn.2);
        for _ in 0..turn.0 {
            let Some((relative, kind)) = self.pending.pop_front() else { break };
            let opened = self.open(sources, &relative, kind)?;
            // One file of somebody else is enough: its code would run with the rights that only root's files may ask
            // for.
            self.trusted &= opened.trusted;
            // Files of a stored version are root's copies, so their owners do not say who wrote them.
            self.authors.extend((!opened.trusted && self.stored.is_none()).then(|| opened.meta.uid()));
            if relative.is_empty() && self.stored.is_none() {
                (self.owner, self.shown) = (opened.meta.uid(), opened.shown.clone());
            }
            // A directory without a manifest may have it in this file.
            if self.stored.is_none() && kind == SourceKind::File && ["", naming::BOOTSTRAP].contains(&&*relative) {
                self.stamps.push((PathBuf::from(&opened.shown), grants::stamp(&opened.meta)));
            }
            match kind {
                SourceKind::Directory => self.list(&relative, &opened)?,
                SourceKind::File if relative.is_empty() => {
                    let name = self.install.file_name().to_owned();
                    match self.packed() {
                        Some(Format::Foreign) => {
                            self.large = Some((name, foreign::set(&self.install, sources, opened)?));
                        }
                        Some(_) => self.large = Some((name, opened)),
                        None => self.read_file(name, opened)?,
                    }
                }
                SourceKind::File => self.read_file(relative, opened)?,
            }
            if self.large.is_some() {
                return Ok(InstallProgress::Copy);
            }
            if self.bytes - start >= turn.1 || now() >= until {
                break;
            }
        }
        if !self.pending.is_empty() {
            return Ok(InstallProgress::More);
        }
        // A directory lists its files in any order, and the same files must have the same hash.
        self.files.sort_by(|a, b| a.relative.cmp(&b.relative));
        if let Some((_, origin)) = &self.stored {
            // Copies are not synced one by one, so a power cut may have damaged this one.
            if self.hash(|file| file.digest) != origin.stored {
                return Err(problem(&self.shown, "the copy of this release is damaged", ANOTHER));
            }
            self.read_manifest()?;
        }
        Ok(InstallProgress::Read)
    }

    /// Reads the manifest of the function that the request names, unless it is in an archive.
    pub(super) fn open_manifest(&mut self, sources: &Sources) -> Result<(), Problem> {
        let install = &self.install;
        let Some(path) = sources.claim(install)? else { return Ok(()) };
        let opened = sources.open(install.directory, &path, SourceKind::File)?;
        self.stamps.push((PathBuf::from(&opened.shown), grants::stamp(&opened.meta)));
        self.trusted = opened.trusted;
        self.authors.extend((!opened.trusted).then(|| opened.meta.uid()));
        self.manifest = Some(opened.judged(MANIFEST_MAX)?);
        Ok(())
    }

    /// Takes the manifest from the files that were read, if it is one of them.
    pub(super) fn read_manifest(&mut self) -> Result<(), Problem> {
        let inside = self.files.iter().find(|file| file.relative == "function.toml");
        if let Some(file) = inside.filter(|_| self.manifest.is_none()) {
            let path = format!("{}/{}", self.shown, file.relative);
            if file.length > MANIFEST_MAX {
                return Err(problem(&path, "it is larger than 1 MiB", "shorten it"));
            }
            let failed = |error| problem(&path, format!("failed to read it: {error}"), "try again");
            let bytes = Bytes(self.front(file, usize::MAX).map_err(failed)?.into_owned());
            self.manifest = Some(JudgedFile { path, bytes, mode: file.mode, trusted: file.trusted });
        }
        Ok(())
    }

    fn list(&mut self, relative: &str, opened: &OpenedSource) -> Result<(), Problem> {
        let failed = |error| problem(&opened.shown, format!("failed to list it: {error}"), "check the directory");
        for entry in Dir::read_from(&opened.file).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_str();
            let name = name.map_err(|_| problem(&opened.shown, "a name in it is not UTF-8", "rename it"))?;
            if matches!(name, "." | ".." | ".git" | "__pycache__") {
                continue;
            }
            let below = if relative.is_empty() { name.to_owned() } else { format!("{relative}/{name}") };
            if below.split('/').count() > DEPTH_MAX {
                let message = format!("it has more than {DEPTH_MAX} levels of directories");
                return Err(problem(&self.shown, message, SHALLOWER));
            }
            if self.install.source.len() + 1 + below.len() > PATH_MAX {
                return Err(problem(&self.shown, "a path in it is longer than 1,024 bytes", SHALLOWER));
            }
            // A FIFO, a socket or a device is refused when it is opened.
            let kind = if entry.file_type() == FileType::Directory { SourceKind::Directory } else { SourceKind::File };
            self.pending.push_back((below, kind));
            if self.pending.len() + self.files.len() > FILES_MAX {
                return Err(problem(&self.shown, format!("it has more than {FILES_MAX} files"), ELSEWHERE));
            }
        }
        Ok(())
    }

    fn read_file(&mut self, relative: String, mut opened: OpenedSource) -> Result<(), Problem> {
        let length = opened.meta.len();
        self.bytes += length;
        if self.bytes > BYTES_MAX {
            return Err(problem(&self.shown, "it is larger than 512 MiB", ELSEWHERE));
        }
        let (held, digest) = if self.bytes <= HELD_MAX {
            let bytes = opened.read(HELD_MAX)?;
            let digest = Sha256::digest(&bytes).into();
            (Some(Bytes(bytes)), digest)
        } else if length > HELD_MAX {
            self.large = Some((relative, opened));
            return Ok(());
        } else {
            let staged = stage(&opened.file, &self.staged(&relative));
            let (copied, digest) = staged.map_err(|error| uncopied(&opened, &error.to_string()))?;
            opened.unchanged(copied)?;
            (None, digest)
        };
        self.add(relative, &opened, digest, held);
        Ok(())
    }

    pub(super) fn add(&mut self, relative: String, opened: &OpenedSource, digest: [u8; 32], held: Option<Bytes>) {
        let (mode, length) = (opened.meta.mode() & 0o7777, opened.meta.len());
        self.files.push(InstalledCode { relative, mode, trusted: opened.trusted, length, digest, held });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Myself;

    /// Counts the turns in which a directory with a manifest, 99 files of 100 bytes and a directory is read.
    fn turns(turn: (usize, u64, Duration)) -> usize {
        let dir = tempfile::tempdir().unwrap();
        let code = dir.path().join("f");
        fs::create_dir_all(code.join("sub")).unwrap();
        fs::write(code.join("function.toml"), "x".repeat(100)).unwrap();
        for number in 0..99 {
            fs::write(code.join(format!("{number}")), "x".repeat(100)).unwrap();
        }
        let function = FunctionName::new("f").unwrap();
        let install = Install { directory: 0, function, source: "f".to_owned(), sidecar: None, directory_form: true };
        let dirs = vec![dir.path().to_owned()];
        let sources = Sources { dirs, uploads: PathBuf::new(), myself: Myself::current(), facts: StatCache::default() };
        let mut snapshot = Snapshot::new(1, &install, &sources, dir.path().join("staging")).ok().unwrap();
        let mut count = 1;
        while snapshot.read(&sources, turn).ok().unwrap() == InstallProgress::More {
            count += 1;
        }
        assert_eq!(snapshot.files.len(), 100);
        count
    }

    #[test]
    fn a_turn_of_reading_ends_at_each_of_its_limits() {
        let long = Duration::from_secs(3600);
        // The function's directory, the one in it, and 100 files.
        assert_eq!(turns((usize::MAX, u64::MAX, long)), 1);
        assert_eq!(turns((10, u64::MAX, long)), 11);
        // Ten files; the bytes that directories use are not counted.
        assert!([10, 11].contains(&turns((usize::MAX, 1000, long))));
        // As if everything took too long: one entry a turn.
        assert_eq!(turns((usize::MAX, u64::MAX, Duration::ZERO)), 102);
    }
}
