//! Installs a function: reads its files once, has the judge check them, and copies the bytes that were read.
//!
//! The bytes that are hashed, judged and installed are the same: small sources are held in memory, larger ones are
//! copied to a staging directory and read from there. A helper copies a file above 1 MiB, and stores a staged function.

use crate::clock::now;
use crate::credentials::Gathered;
use crate::facts::Facts;
use crate::foreign;
use crate::grants::{self, Stamps};
use crate::places::{self, Places};
use crate::policy::{Interpreter, problem};
use crate::source::{DEPTH_MAX, Kind, Opened, PATH_MAX, SHALLOWER, Sources};
use crate::trees;
use crate::unpacker::{ArchivedFile, Contents, Unpacker};
use fnd_wire::archive::{BYTES_MAX, ENTRIES_MAX as FILES_MAX, Format};
use fnd_wire::form::{Bytes, Wire};
use fnd_wire::frame::{Install, Origin, Problem, STORED, StoredFile};
use fnd_wire::ids::{FunctionName, Version};
use fnd_wire::naming;
use fnd_wire::plan::{
    Build, CODE_MAX, COMPLETE, Form, JudgeFunction, JudgeRequest, JudgedFile, Plan, TREE_SIZE, is_builder,
};
use fnd_wire::sandbox::Sandbox;
use rustix::fs::{Dir, FileType};
use rustix::process::getpid;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of one function that are held in memory; the rest is staged.
const HELD_MAX: u64 = 1 << 20;
/// Bytes of code that the judge gets, all files together.
const SHOWN_MAX: usize = 8 << 20;
/// Limits for one turn of the loop: files, bytes, and time.
pub const TURN: (usize, u64, Duration) = (64, 8 << 20, Duration::from_millis(5));
/// Largest entry from which byte-order mark and carriage returns are removed: a larger one has data after its text.
const TEXT_MAX: u64 = 1 << 20;
/// Help for a source that is too large.
const ELSEWHERE: &str = "keep data elsewhere, for example in $STATE_DIRECTORY";
/// Help for a stored version that can't be used.
const ANOTHER: &str = "choose another release, or write the file again";
/// Largest manifest in bytes.
const MANIFEST_MAX: u64 = 1 << 20;

/// The content of the file `plan` of an installed version: at last, whether it gets secrets or service bindings.
pub type Planned = (Plan, (Sandbox, bool));

/// Work for a helper, and the descriptor that the helper has to keep for it.
pub type Work = (RawFd, Box<dyn FnOnce() -> i32>);

/// A file that was read.
struct Code {
    relative: String,
    /// The path for people.
    shown: String,
    mode: u32,
    trusted: bool,
    digest: [u8; 32],
    length: u64,
    content: Content,
}

enum Content {
    Held(Vec<u8>),
    /// The file in the staging directory, which is later renamed to its place.
    Staged(PathBuf),
}

impl Content {
    /// Returns the first bytes, at most `max`.
    fn front(&self, max: usize) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Held(bytes) => Ok(bytes.get(..max).unwrap_or(bytes).into()),
            Self::Staged(path) => {
                let mut bytes = Vec::new();
                File::open(path)?.take(max as u64).read_to_end(&mut bytes)?;
                Ok(bytes.into())
            }
        }
    }
}

/// The progress of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Some files are still to be read.
    More,
    /// A large file has to be [copied](Snapshot::copier) first, or an archive [unpacked](Snapshot::unpacker).
    Copy,
    /// Everything was read.
    Read,
}

/// Why the files of a function are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To install it.
    Install,
    /// The same, and code of a source is fetched again.
    Fetch,
    /// To have its code checked.
    Check,
    /// To install it with dependencies that are built anew.
    Rebuild,
    /// To hand the files of a stored version to fnd.
    Files,
}

/// A function's files, partly or completely read.
pub struct Snapshot {
    /// The request's number.
    pub request: u32,
    /// The request's body.
    pub install: Install,
    /// Whether root owns code and manifest (or the spawner's user, if the spawner is not root).
    pub trusted: bool,
    /// Owner of the code file or directory.
    pub owner: u32,
    /// Path of the source, for people.
    pub shown: String,
    /// The state of manifest and code file when they were read.
    pub stamps: Stamps,
    /// Why the files are read.
    pub purpose: Purpose,
    /// How its dependencies are built or its code is fetched, until that tree is found.
    pub build: Option<Build>,
    /// The secrets that the build gets.
    pub given: Option<Gathered>,
    /// Why these cannot be read. It matters only if the build has to run.
    pub unread: Vec<Problem>,
    /// The tree of its dependencies.
    pub tree: Option<Version>,
    /// The tree that its code was fetched to.
    pub source: Option<Version>,
    /// The format of the archive that its source is, until it is unpacked.
    fetched: Option<Format>,
    /// The stored version that is read: its directory in place of the functions directories, and its origin.
    stored: Option<(Sources, Origin)>,
    manifest: Option<JudgedFile>,
    /// The large file to be copied, or the archive to be unpacked.
    large: Option<(String, Opened)>,
    files: Vec<Code>,
    pending: VecDeque<(String, Kind)>,
    bytes: u64,
    staging: PathBuf,
    /// Whether the staging directory may exist: a name that was never used is slow to look up.
    is_begun: Cell<bool>,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // It may have been renamed to its place, or moved to a helper.
        let _ = self.is_staged() && fs::remove_dir_all(&self.staging).is_ok();
    }
}

impl Snapshot {
    /// Returns a snapshot of nothing, which reads no file.
    fn empty(request: u32, install: Install, staging: PathBuf) -> Self {
        Self {
            request,
            install,
            trusted: true,
            owner: 0,
            shown: String::new(),
            stamps: Stamps::new(),
            purpose: Purpose::Install,
            build: None,
            given: None,
            unread: Vec::new(),
            tree: None,
            source: None,
            fetched: None,
            stored: None,
            manifest: None,
            large: None,
            files: Vec::new(),
            pending: VecDeque::new(),
            bytes: 0,
            staging,
            is_begun: Cell::new(false),
        }
    }

    /// Begins to read the files that a request names; `staging` is this snapshot's own directory.
    ///
    /// # Errors
    /// The mistake in the request or in the manifest.
    pub fn new(request: u32, install: &Install, sources: &Sources, staging: PathBuf) -> Result<Self, Problem> {
        let stored = (install.directory == STORED).then(|| stored(install, sources, &staging)).transpose()?;
        let mut stamps = Stamps::new();
        let manifest = match &stored {
            Some((_, origin)) => origin.manifest.clone(),
            None => manifest(install, sources, &mut stamps)?,
        };
        let stored_source = stored.as_ref().and_then(|(sources, _)| trees::linked(sources.dirs.first()?, "source"));
        let origin = stored.as_ref().map(|(_, origin)| origin);
        // A version of a build is lent to the other functions that build.
        let function = install.function.clone();
        let install = Install { function, ..origin.map_or(install, |origin| &origin.install).clone() };
        let is_tree = install.directory_form || install.is_one_of_many() && stored.is_some();
        let kind = if is_tree { Kind::Directory } else { Kind::File };
        let mut snapshot = Self::empty(request, install, staging);
        snapshot.trusted = manifest.as_ref().is_none_or(|manifest| manifest.trusted);
        if let Some(origin) = origin {
            (snapshot.trusted, snapshot.owner, snapshot.shown) = (origin.trusted, origin.owner, origin.shown.clone());
        }
        snapshot.pending = VecDeque::from([(String::new(), kind)]);
        (snapshot.stamps, snapshot.manifest) = (stamps, manifest);
        (snapshot.source, snapshot.stored) = (stored_source, stored);
        Ok(snapshot)
    }

    /// Returns a snapshot of the version that builds this function's dependencies: of files that the build reads, and of
    /// one that the judge made.
    ///
    /// # Errors
    /// If a file can't be read.
    pub fn of_build(
        &self,
        function: FunctionName,
        inputs: &[String],
        (name, made): (String, Bytes),
        staging: PathBuf,
    ) -> io::Result<Self> {
        let code = |relative: &String, bytes: Vec<u8>| Code {
            relative: relative.clone(),
            shown: format!("{}/{relative}", self.shown),
            mode: 0o644,
            trusted: self.trusted,
            digest: Sha256::digest(&bytes).into(),
            length: bytes.len() as u64,
            content: Content::Held(bytes),
        };
        let mut files = vec![code(&name, made.0)];
        for file in self.files.iter().filter(|file| inputs.contains(&file.relative) && file.relative != name) {
            files.push(code(&file.relative, file.content.front(usize::MAX)?.into_owned()));
        }
        files.sort_by(|a, b| a.relative.cmp(&b.relative));
        let (directory, source) = (self.install.directory, function.as_str().to_owned());
        let install = Install { directory, function, source, sidecar: None, directory_form: true };
        let mut snapshot = Self::empty(self.request, install, staging);
        (snapshot.trusted, snapshot.owner, snapshot.shown) = (self.trusted, self.owner, self.shown.clone());
        snapshot.files = files;
        Ok(snapshot)
    }

    /// Returns whether a stored version is read, not the function's files.
    pub fn is_stored_version(&self) -> bool {
        self.stored.is_some()
    }

    /// Returns the tree of the stored version that is read.
    pub fn stored_tree(&self) -> Option<Version> {
        trees::linked(self.stored.as_ref()?.0.dirs.first()?, "deps")
    }

    /// Returns the stored version that is read, and its plan.
    ///
    /// # Errors
    /// Why they can't be read.
    pub fn stored_plan(&self) -> Result<(Version, Planned), Vec<Problem>> {
        let dir = self.stored.as_ref().and_then(|(sources, _)| sources.dirs.first());
        let version = dir.and_then(|dir| Version::parse(dir.file_name()?.to_str()?));
        let plan = dir.and_then(|dir| Planned::from_wire(&fs::read(dir.join("plan")).ok()?).ok());
        version.zip(plan).ok_or_else(|| vec![problem(&self.shown, "its plan can't be read", "build it again")])
    }

    /// Opens a file or directory of the function. A stored file belongs to root, but it is trusted only if its source
    /// was.
    fn open(&self, sources: &Sources, relative: &str, kind: Kind) -> Result<Opened, Problem> {
        let source = &self.install.source;
        let join = |above: &str| if relative.is_empty() { above.to_owned() } else { format!("{above}/{relative}") };
        let Some((stored, origin)) = &self.stored else {
            return sources.open(self.install.directory, &join(source), kind);
        };
        let file = source.rsplit('/').next().filter(|_| kind == Kind::File && relative.is_empty());
        let mut opened = stored.open(0, &file.map_or_else(|| join("code"), |file| format!("code/{file}")), kind)?;
        opened.trusted &= origin.trusted;
        opened.shown = join(&origin.shown);
        Ok(opened)
    }

    /// Reads as many files as fit in one turn of the loop, which has these limits; at least one.
    ///
    /// # Errors
    /// Why a file can't be read, or what is wrong with it.
    pub fn read(&mut self, sources: &Sources, turn: (usize, u64, Duration)) -> Result<Progress, Problem> {
        let (start, until) = (self.bytes, now() + turn.2);
        for _ in 0..turn.0 {
            let Some((relative, kind)) = self.pending.pop_front() else { break };
            let opened = self.open(sources, &relative, kind)?;
            self.trusted &= opened.trusted;
            if relative.is_empty() && self.stored.is_none() {
                (self.owner, self.shown) = (opened.meta.uid(), opened.shown.clone());
            }
            match kind {
                Kind::Directory => self.list(&relative, &opened)?,
                Kind::File if relative.is_empty() => {
                    let name = self.install.file_name().to_owned();
                    if self.stored.is_none() {
                        self.stamps.push((PathBuf::from(&opened.shown), grants::stamp(&opened.meta)));
                    }
                    match self.packed() {
                        Some(Format::Foreign) => {
                            self.large = Some((name, foreign::set(&self.install, sources, opened)?));
                        }
                        Some(_) => self.large = Some((name, opened)),
                        None => self.read_file(name, opened)?,
                    }
                }
                Kind::File => self.read_file(relative, opened)?,
            }
            if self.large.is_some() {
                return Ok(Progress::Copy);
            }
            if self.bytes - start >= turn.1 || now() >= until {
                break;
            }
        }
        if !self.pending.is_empty() {
            return Ok(Progress::More);
        }
        self.files.sort_by(|a, b| a.relative.cmp(&b.relative));
        if let Some((_, origin)) = &self.stored {
            if self.hash(|file| file.digest) != origin.stored {
                return Err(problem(&self.shown, "the copy of this release is damaged", ANOTHER));
            }
            self.read_manifest()?;
        }
        Ok(Progress::Read)
    }

    /// Returns the function that copies the large file in a helper, and the descriptor that the helper has to keep for
    /// it.
    ///
    /// # Errors
    /// If a descriptor can't be duplicated.
    pub fn copier(&self) -> io::Result<Work> {
        let (relative, opened) = self.large.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
        let (file, path, report) = (opened.file.try_clone()?, self.staged(relative), self.report());
        let kept = file.as_raw_fd();
        Ok((kept, Box::new(move || write_report(&report, stage(&file, &path)))))
    }

    /// Returns the function that unpacks the archive in a helper, and the descriptor that the helper has to keep for it;
    /// none if the code is no archive.
    ///
    /// # Errors
    /// As [`copier`](Self::copier).
    pub fn unpacker(&self, program: &Path, root: bool) -> io::Result<Option<Work>> {
        let Some((format, (_, opened))) = self.packed().zip(self.large.as_ref()) else { return Ok(None) };
        let code = self.begun().join("code");
        let unpacker =
            Unpacker { program: program.to_owned(), root, spawner: getpid(), format, code, held_max: HELD_MAX };
        let (archive, report) = (opened.file.try_clone()?, self.report());
        Ok(Some((archive.as_raw_fd(), Box::new(move || write_report(&report, unpacker.unpack(&archive))))))
    }

    /// Returns the format of the function's archive; none if its code is something else.
    fn format(&self) -> Option<Format> {
        let source = &self.install.source;
        let foreign = naming::is_foreign(source).then_some(Format::Foreign);
        foreign.or_else(|| Format::of(source)).filter(|_| !self.install.directory_form)
    }

    /// Returns the format of an archive that is to be unpacked. A stored version is unpacked, and so is one whose code is
    /// fetched.
    fn packed(&self) -> Option<Format> {
        self.fetched.or_else(|| self.format().filter(|_| self.stored.is_none() && self.source.is_none()))
    }

    /// Goes on with code that was fetched to a tree: one file, to be [copied](Self::copier) or [unpacked](Self::unpacker).
    ///
    /// # Errors
    /// If it can't be opened, or if there is none.
    pub fn add_source(&mut self, tree: Version, places: &Places) -> Result<(), Problem> {
        let dir = trees::place(places, &tree);
        let failed = |why: String| problem(&self.shown, format!("failed to open its code: {why}"), "fetch it again");
        let names = fs::read_dir(&dir).map_err(|error| failed(error.to_string()))?;
        let names = names.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let name = fetched_file(names).ok_or_else(|| failed("there is none".to_owned()))?;
        let opened = File::open(dir.join(&name)).and_then(|file| Ok((file.metadata()?, file)));
        let (meta, file) = opened.map_err(|error| failed(error.to_string()))?;
        let shown = self.shown.clone(); // nobody knows the tree's path
        (self.source, self.fetched) = (Some(tree), Format::of(&name));
        self.large = Some((name, Opened { file, meta, shown, trusted: self.trusted }));
        Ok(())
    }

    /// Takes the result of the helper that unpacked the archive.
    fn unpacked(&mut self, opened: &Opened) -> Result<(), Problem> {
        let failed = |why: &str| problem(&opened.shown, format!("failed to unpack it: {why}"), "copy it again");
        let Contents { files, refused } = read_report(&self.report()).map_err(|why| failed(&why))?;
        opened.unchanged(opened.meta.len())?;
        if let Some((message, help)) = refused.map(|refusal| refusal.words()) {
            return Err(problem(&opened.shown, message, help));
        }
        let is_new = |file: &ArchivedFile| self.source.is_none() || file.relative != "function.toml";
        for file in files.into_iter().filter(is_new) {
            let staged = || Content::Staged(self.staged(&file.relative));
            let content = file.held.map_or_else(staged, |held| Content::Held(held.0));
            let (shown, trusted) = (format!("{}/{}", opened.shown, file.relative), opened.trusted);
            let (relative, mode, digest, length) = (file.relative, file.mode, file.digest, file.length);
            self.files.push(Code { relative, shown, mode, trusted, digest, length, content });
        }
        self.read_manifest()
    }

    /// Takes the manifest from the files that were read, if it is one of them.
    fn read_manifest(&mut self) -> Result<(), Problem> {
        let inside = self.files.iter().find(|file| file.relative == "function.toml");
        if let Some(file) = inside.filter(|_| self.manifest.is_none()) {
            if file.length > MANIFEST_MAX {
                return Err(problem(&file.shown, "it is larger than 1 MiB", "shorten it"));
            }
            let bytes = file.content.front(usize::MAX);
            let bytes =
                bytes.map_err(|error| problem(&file.shown, format!("failed to read it: {error}"), "try again"))?;
            let (path, mode, trusted) = (file.shown.clone(), file.mode, file.trusted);
            self.manifest = Some(JudgedFile { path, bytes: Bytes(bytes.into_owned()), mode, trusted });
        }
        Ok(())
    }

    /// Takes the result of the helper that copied the large file or unpacked the archive.
    ///
    /// # Errors
    /// Why the file was not copied, or the archive not unpacked.
    pub fn copied(&mut self) -> Result<(), Problem> {
        let Some((relative, opened)) = self.large.take() else { return Ok(()) };
        if self.packed().is_some() {
            self.unpacked(&opened)?;
            self.fetched = None;
            return Ok(());
        }
        let copied = read_report::<(u64, [u8; 32])>(&self.report());
        let (length, digest) = copied.map_err(|why| uncopied(&opened, &why))?;
        opened.unchanged(length)?;
        let content = Content::Staged(self.staged(&relative));
        self.add(relative, opened, digest, content);
        Ok(())
    }

    /// Returns whether part of the function is in the staging directory; storing and removing it may then take long.
    pub fn is_staged(&self) -> bool {
        self.is_begun.get() && self.staging.exists()
    }

    /// Returns the function that removes the staging directory.
    pub fn remover(&mut self) -> Box<dyn FnOnce() -> i32> {
        let staging = std::mem::take(&mut self.staging);
        Box::new(move || i32::from(fs::remove_dir_all(staging).is_err()))
    }

    /// Returns the staging directory; it may exist from now on.
    fn begun(&self) -> &Path {
        self.is_begun.set(true);
        &self.staging
    }

    fn staged(&self, relative: &str) -> PathBuf {
        self.begun().join("code").join(relative)
    }

    /// Returns the path where a helper writes the result of its work; beside the staging directory.
    pub fn report(&self) -> PathBuf {
        self.staging.with_extension("report")
    }

    fn list(&mut self, relative: &str, opened: &Opened) -> Result<(), Problem> {
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
                return Err(problem(
                    &self.shown,
                    format!("it has more than {DEPTH_MAX} levels of directories"),
                    SHALLOWER,
                ));
            }
            if self.install.source.len() + 1 + below.len() > PATH_MAX {
                return Err(problem(&self.shown, "a path in it is longer than 1,024 bytes", SHALLOWER));
            }
            let kind = if entry.file_type() == FileType::Directory { Kind::Directory } else { Kind::File };
            self.pending.push_back((below, kind));
            if self.pending.len() + self.files.len() > FILES_MAX {
                return Err(problem(&self.shown, format!("it has more than {FILES_MAX} files"), ELSEWHERE));
            }
        }
        Ok(())
    }

    fn read_file(&mut self, relative: String, mut opened: Opened) -> Result<(), Problem> {
        let length = opened.meta.len();
        self.bytes += length;
        if self.bytes > BYTES_MAX {
            return Err(problem(&self.shown, "it is larger than 512 MiB", ELSEWHERE));
        }
        let (content, digest) = if self.bytes <= HELD_MAX {
            let bytes = opened.read(HELD_MAX)?;
            let digest = Sha256::digest(&bytes).into();
            (Content::Held(bytes), digest)
        } else if length > HELD_MAX {
            self.large = Some((relative, opened));
            return Ok(());
        } else {
            let path = self.staged(&relative);
            let (copied, digest) = stage(&opened.file, &path).map_err(|error| uncopied(&opened, &error.to_string()))?;
            opened.unchanged(copied)?;
            (Content::Staged(path), digest)
        };
        self.add(relative, opened, digest, content);
        Ok(())
    }

    fn add(&mut self, relative: String, opened: Opened, digest: [u8; 32], content: Content) {
        let Opened { meta, shown, trusted, .. } = opened;
        let (mode, length) = (meta.mode() & 0o7777, meta.len());
        self.files.push(Code { relative, shown, mode, trusted, digest, length, content });
    }

    /// Returns the request to the judge: every file by name, with its first bytes as far as there is room.
    pub fn question(&self) -> JudgeRequest {
        let form = match self.format() {
            _ if self.source.is_some() => Form::Source,
            Some(Format::Foreign) => Form::Foreign(self.shown.clone()),
            Some(_) => Form::Archive(self.shown.clone()),
            None if self.install.is_directory() => Form::Directory,
            None => Form::File,
        };
        let mut room = SHOWN_MAX;
        let judged = |file: &Code| {
            let length = usize::try_from(file.length).unwrap_or(usize::MAX).min(CODE_MAX);
            // A file that can't be read back is sent without content; storing it fails later with the reason.
            let front = if length <= room { file.content.front(CODE_MAX).unwrap_or_default() } else { Cow::default() };
            room -= front.len().min(room);
            let path = if form.is_tree() { &file.relative } else { &file.shown }.clone();
            JudgedFile { path, bytes: Bytes(front.into_owned()), mode: file.mode, trusted: file.trusted }
        };
        let function = JudgeFunction {
            name: self.install.function.clone(),
            files: self.files.iter().map(judged).collect(),
            manifest: self.manifest.clone(),
            form: form.clone(),
        };
        match self.purpose {
            Purpose::Check => JudgeRequest::Check(function),
            _ => JudgeRequest::Function(function),
        }
    }

    /// Returns whether the function has a file of this name, relative to the code directory.
    pub fn holds(&self, relative: &str) -> bool {
        self.files.iter().any(|file| file.relative == relative)
    }

    /// Returns the files of a stored version for fnd, with their first bytes as far as there is room.
    pub fn stored_files(&self) -> Vec<StoredFile> {
        let mut room = SHOWN_MAX;
        let stored = |file: &Code| {
            let front = file.content.front(CODE_MAX).ok().filter(|front| front.len() <= room).unwrap_or_default();
            room -= front.len();
            let (path, executable, front) = (file.relative.clone(), file.mode & 0o111 != 0, Bytes(front.into_owned()));
            StoredFile { path, executable, length: file.length, digest: file.digest, front }
        };
        let mut files: Vec<_> = self.files.iter().map(stored).collect();
        files.extend(self.beside().map(|JudgedFile { path, bytes, .. }| {
            let (length, digest) = (bytes.0.len() as u64, Sha256::digest(&bytes.0).into());
            StoredFile { path: path.clone(), executable: false, length, digest, front: bytes.clone() }
        }));
        files
    }

    /// Returns the manifest, unless it is one of the files.
    fn beside(&self) -> Option<&JudgedFile> {
        self.manifest.as_ref().filter(|_| !self.holds("function.toml"))
    }

    /// Returns the hash of code and own manifest; `digest` gives that of a file.
    fn hash(&self, digest: impl Fn(&Code) -> [u8; 32]) -> Version {
        let mut all = Sha256::new();
        for file in &self.files {
            add(&mut all, file.relative.as_bytes());
            add(&mut all, &[u8::from(file.mode & 0o111 != 0)]);
            add(&mut all, &digest(file));
        }
        if let Some(manifest) = self.beside() {
            add(&mut all, b"manifest");
            add(&mut all, &manifest.bytes.0);
        }
        Version(all.finalize().into())
    }

    /// Returns the version's hash, which includes the interpreter and digests of what it gets, and the key for "runs once
    /// per content": the hash of code and own manifest only. A stored version has the key of its source, since its text
    /// may have lost carriage returns.
    pub fn versions(&self, runtime: &str, interpreter: &Interpreter, gets: [Option<Version>; 2]) -> (Version, Version) {
        let load_key =
            self.stored.as_ref().map_or_else(|| self.hash(|file| file.digest), |(_, origin)| origin.load_key);
        let mut digest = Sha256::new();
        add(&mut digest, &load_key.0);
        add(&mut digest, runtime.as_bytes());
        add(&mut digest, interpreter.real.as_bytes());
        interpreter.seal.iter().for_each(|part| add(&mut digest, &part.to_le_bytes()));
        gets.iter().flatten().for_each(|part| add(&mut digest, &part.0));
        (Version(digest.finalize().into()), load_key)
    }

    /// Returns what is kept beside the version, so that it can be installed again.
    fn origin(&self, plan: &Plan) -> Origin {
        if let Some((_, origin)) = &self.stored {
            return origin.clone();
        }
        let stored = |file: &Code| match file.content.front(usize::MAX) {
            Ok(bytes) if self.is_unix(file, plan) => Sha256::digest(unix_text(&bytes)).into(),
            _ => file.digest,
        };
        Origin {
            install: self.install.clone(),
            trusted: self.trusted,
            owner: self.owner,
            shown: self.shown.clone(),
            load_key: self.hash(|file| file.digest),
            stored: self.hash(stored),
            manifest: self.beside().cloned(),
        }
    }

    /// Returns whether the installed file is Unix text made of the source's. A stored file is already.
    fn is_unix(&self, file: &Code, plan: &Plan) -> bool {
        self.stored.is_none() && plan.unix_text && file.relative == plan.entry && file.length <= TEXT_MAX
    }

    fn installed<'a>(&self, file: &Code, plan: &Plan, bytes: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        if self.is_unix(file, plan) { unix_text(&bytes).into() } else { bytes }
    }

    /// Copies code and plan to their place, owned by root and readable by `group`. Returns whether anything was
    /// written.
    ///
    /// # Errors
    /// If writing fails.
    pub fn store(&self, planned: &Planned, version: &Version, places: &Places, group: Option<u32>) -> io::Result<bool> {
        let plan = &planned.0;
        let dirs = places.of(&plan.function.file_form());
        let target = dirs.version(version);
        let beside = [("plan", planned.to_wire()), ("origin", self.origin(plan).to_wire())];
        if !self.is_stored(&target, plan, group) {
            places::make(&dirs.versions, 0o711)
                .or_else(|_| places.restore().and_then(|()| places::make(&dirs.versions, 0o711)))?;
            let _ = fs::remove_dir_all(&target); // incomplete after a crash, or absent
            let code = self.begun().join("code");
            fs::create_dir_all(&code)?;
            for file in &self.files {
                let path = code.join(&file.relative);
                let mode = if file.mode & 0o111 == 0 { 0o640 } else { 0o750 };
                if let Some(parent) = path.parent().filter(|parent| *parent != code) {
                    fs::create_dir_all(parent)?;
                }
                match &file.content {
                    Content::Staged(path) if !self.is_unix(file, plan) => {
                        fs::set_permissions(path, Permissions::from_mode(mode))?;
                    }
                    content => write(&path, &self.installed(file, plan, content.front(usize::MAX)?), mode)?,
                }
            }
            if let Some(tree) = &self.tree {
                let link = |to: &Path, name| std::os::unix::fs::symlink(to, self.staging.join(name));
                link(&Path::new("../../../deps").join(tree.hex()), "deps")?;
                if trees::place(places, tree).join("node_modules").exists() {
                    link(Path::new("deps/node_modules"), "node_modules")?; // Node searches above the code
                }
            }
            if let Some(tree) = &self.source {
                // So that the tree stays.
                std::os::unix::fs::symlink(Path::new("../../../deps").join(tree.hex()), self.staging.join("source"))?;
            }
            for (name, bytes) in &beside {
                write(&self.staging.join(name), bytes, 0o640)?;
            }
            give(&self.staging, true, group)?;
            fs::rename(&self.staging, &target)?;
            return Ok(true);
        }
        let mut written = false;
        for (name, bytes) in beside {
            if !holds(&target.join(name), &bytes) {
                let fresh = target.join(format!(".{name}"));
                write(&fresh, &bytes, 0o640)?;
                give(&fresh, false, group)?;
                fs::rename(fresh, target.join(name))?;
                written = true;
            }
        }
        Ok(written)
    }

    /// Returns whether the version is installed already and complete. Copies are not synced one by one, so a copy may
    /// be incomplete after a power cut; held files are compared byte by byte, staged ones by their length.
    fn is_stored(&self, target: &Path, plan: &Plan, group: Option<u32>) -> bool {
        let found = fs::metadata(target.join("plan"));
        // The group differs if the uid table lost its last lines in the same power cut.
        found.is_ok_and(|meta| group.is_none_or(|group| meta.gid() == group))
            && self.files.iter().all(|file| {
                let path = target.join("code").join(&file.relative);
                match &file.content {
                    Content::Held(held) => holds(&path, &self.installed(file, plan, held.into())),
                    Content::Staged(_) => {
                        fs::metadata(path).is_ok_and(|meta| self.is_unix(file, plan) || meta.len() == file.length)
                    }
                }
            })
    }
}

/// Returns whether a file has these bytes and no more. One call reads it.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len() + 1];
    File::open(path).and_then(|mut file| file.read(&mut found)).is_ok_and(|length| found[..length] == *bytes)
}

/// Returns the file that was fetched, of the names in its tree in any order: the others are fnd's own.
fn fetched_file(mut names: impl Iterator<Item = String>) -> Option<String> {
    names.find(|name| ![COMPLETE, TREE_SIZE].contains(&name.as_str()))
}

/// Returns the directory and the origin of the stored version that a request names.
fn stored(install: &Install, sources: &Sources, staging: &Path) -> Result<(Sources, Origin), Problem> {
    let bad = |why: String| problem(&install.source, format!("the stored release can't be used: {why}"), ANOTHER);
    let version = Version::parse(&install.source).ok_or_else(|| bad("it has no such name".to_owned()))?;
    let versions = staging.parent().unwrap_or(staging);
    let builder = Some(trees::builder()).filter(|_| is_builder(install.function.as_str()));
    let holder = builder.as_ref().unwrap_or(&install.function);
    let dir = versions.join(holder.file_form()).join(version.hex());
    let origin = fs::read(dir.join("origin")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => bad("it was deleted, or an earlier fnd stored it".to_owned()),
        _ => bad(error.to_string()),
    })?;
    let origin = Origin::from_wire(&origin).map_err(|error| bad(error.to_string()))?;
    let (uploads, myself) = (sources.uploads.clone(), sources.myself.clone());
    Ok((Sources { dirs: vec![dir], uploads, myself, facts: Facts::default() }, origin))
}

/// Reads the manifest of the function that a request names, unless it is in an archive.
fn manifest(install: &Install, sources: &Sources, stamps: &mut Stamps) -> Result<Option<JudgedFile>, Problem> {
    let own = install.directory_form.then(|| format!("{}/function.toml", install.source));
    let Some(path) = sources.claim(install)?.or(own) else { return Ok(None) };
    let opened = sources.open(install.directory, &path, Kind::File)?;
    stamps.push((PathBuf::from(&opened.shown), grants::stamp(&opened.meta)));
    opened.judged(MANIFEST_MAX).map(Some)
}

/// Hashes a part with its length, so that no two lists of parts give the same input.
fn add(digest: &mut Sha256, bytes: &[u8]) {
    digest.update((bytes.len() as u64).to_le_bytes());
    digest.update(bytes);
}

fn uncopied(opened: &Opened, why: &str) -> Problem {
    problem(&opened.shown, format!("failed to copy it: {why}"), "check the file and the free space on the disk")
}

/// Writes the result of a helper's work; returns the helper's exit code.
pub fn write_report<T: Wire>(report: &Path, result: io::Result<T>) -> i32 {
    let result = result.map_err(|error| error.to_string());
    let outcome = (result.as_ref().ok().map(Wire::to_wire).map(Bytes), result.err().unwrap_or_default());
    i32::from(write(report, &outcome.to_wire(), 0o600).is_err())
}

/// Returns the result of a helper's work.
///
/// # Errors
/// Why the work failed, for people.
pub fn read_report<T: Wire>(report: &Path) -> Result<T, String> {
    let bytes = fs::read(report).map_err(|_| "the helper ended before it finished".to_owned())?;
    let _ = fs::remove_file(report);
    let outcome = <(Option<Bytes>, String)>::from_wire(&bytes).map_err(|error| error.to_string())?;
    let value = outcome.0.ok_or(outcome.1)?;
    T::from_wire(&value.0).map_err(|error| error.to_string())
}

/// Copies a file; returns length and digest of the copy.
fn stage(from: &File, to: &Path) -> io::Result<(u64, [u8; 32])> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    let mut copy = OpenOptions::new().read(true).write(true).create_new(true).open(to)?;
    let length = io::copy(&mut from.take(BYTES_MAX), &mut copy)?;
    copy.rewind()?;
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 256 * 1024]);
    loop {
        let read = copy.read(&mut buffer)?;
        if read == 0 {
            return Ok((length, digest.finalize().into()));
        }
        digest.update(buffer.get(..read).unwrap_or_default());
    }
}

/// Gives a tree that root owns to a group; directories get mode 0750.
fn give(path: &Path, is_directory: bool, group: Option<u32>) -> io::Result<()> {
    if is_directory {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            give(&entry.path(), entry.file_type()?.is_dir(), group)?;
        }
        fs::set_permissions(path, Permissions::from_mode(0o750))?;
    }
    if group.is_some() { std::os::unix::fs::lchown(path, Some(0), group) } else { Ok(()) }
}

/// Writes a file; a new one gets this mode, of which the spawner's umask, 022, takes nothing away.
///
/// # Errors
/// If writing fails.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?.write_all(bytes)
}

/// Returns the text without byte-order mark and without carriage returns before line feeds.
fn unix_text(bytes: &[u8]) -> Vec<u8> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let stays = |(index, byte): &(usize, &u8)| **byte != b'\r' || bytes.get(index + 1) != Some(&b'\n');
    bytes.iter().enumerate().filter(stays).map(|(_, byte)| *byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Myself;
    use fnd_wire::ids::FunctionName;

    #[test]
    fn unix_text_has_no_mark_and_no_carriage_return_at_line_ends() {
        assert_eq!(unix_text(b"\xef\xbb\xbf#!/bin/bash\r\necho a\rb\r\n\r"), b"#!/bin/bash\necho a\rb\n\r");
    }

    #[test]
    fn a_file_holds_bytes_only_if_nothing_is_missing_and_nothing_more_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan");
        assert!(!holds(&path, b""));
        for (content, same) in [("abc", true), ("ab", false), ("abcd", false), ("abd", false), ("", false)] {
            fs::write(&path, content).unwrap();
            assert_eq!(holds(&path, b"abc"), same, "{content:?}");
        }
        assert!(holds(&path, b""));
    }

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
        let sources = Sources { dirs, uploads: PathBuf::new(), myself: Myself::current(), facts: Facts::default() };
        let mut snapshot = Snapshot::new(1, &install, &sources, dir.path().join("staging")).ok().unwrap();
        let mut count = 1;
        while snapshot.read(&sources, turn).ok().unwrap() == Progress::More {
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

    /// A directory has any order; on some file systems fnd's own files are never first.
    #[test]
    fn fetched_code_is_the_file_that_is_not_fnds_own() {
        for order in [[TREE_SIZE, COMPLETE, "f.py"], [COMPLETE, "f.py", TREE_SIZE], ["f.py", TREE_SIZE, COMPLETE]] {
            assert_eq!(fetched_file(order.into_iter().map(str::to_owned)).as_deref(), Some("f.py"));
        }
        assert_eq!(fetched_file([TREE_SIZE, COMPLETE].into_iter().map(str::to_owned)), None);
    }
}
