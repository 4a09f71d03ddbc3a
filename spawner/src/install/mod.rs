//! Installs a function: reads its files once, has the judge check them, and copies the bytes that were read.
//!
//! The bytes that are hashed, judged and installed are the same: small sources are held in memory, larger ones are
//! copied to a staging directory and read from there. A helper copies a file above 1 MiB, and stores a staged function.
//!
//! Files:
//! - `build_homes`: the files in the homes of builds
//! - `claim`: which function a file belongs to
//! - `foreign`: files of other systems, for the child that makes functions of them
//! - `judge`: talks to `fnd-helper --judge`
//! - `large`: helpers copy large files and unpack archives
//! - `reading`: the files, in turns
//! - `settings`: configuration for the judge
//! - `source`: reads files that people wrote, without trust
//! - `stored`: versions that are stored already
//! - `storing`: the hash of a version, and its copy
//! - `trees`: dependencies that functions share

pub mod build_homes;
pub mod claim;
pub mod foreign;
pub mod judge;
mod large;
mod reading;
pub mod settings;
pub mod source;
mod stored;
mod storing;
pub mod trees;

pub use large::{read_report, write_report};

use self::source::{OpenedSource, SourceKind, Sources};
use crate::grants::{self, Stamps};
use crate::places::{self, Places};
use crate::policy::{Interpreter, problem};
use crate::secrets::credentials::Gathered;
use crate::stat_cache::StatCache;
use crate::uids::UidOwner;
use fnd_wire::archive::{BYTES_MAX, Format};
use fnd_wire::form::{Bytes, Wire, wire_structs};
use fnd_wire::frame::{Install, Origin, Problem, STORED, StoredFile};
use fnd_wire::ids::{FunctionName, Version};
use fnd_wire::naming;
use fnd_wire::plan::{
    CHECK, CODE_MAX, COMPLETE, CodeLayout, JudgeFunction, JudgeRequest, JudgedFile, Plan, PlannedBuild, TREE_SIZE,
    is_own, trust_of_builder,
};
use fnd_wire::sandbox::Sandbox;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::RawFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
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
pub type InstallWork = (RawFd, Box<dyn FnOnce() -> i32>);

wire_structs! {
    /// A file that was read.
    pub struct InstalledCode {
        /// Its path in the function.
        pub relative: String,
        pub mode: u32,
        pub trusted: bool,
        pub length: u64,
        pub digest: [u8; 32],
        /// Its content; absent: the file is in the staging directory, which is later renamed to its place.
        pub held: Option<Bytes>,
    }
}

/// The progress of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallProgress {
    /// Some files are still to be read.
    More,
    /// A large file has to be copied first, or an archive [unpacked](Snapshot::copier).
    Copy,
    Read,
}

/// Why the files of a function are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
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
    /// The request's number, with that of its connection.
    pub request: u64,
    /// The request's body.
    pub install: Install,
    /// Whether root owns code and manifest (or the spawner's user, if the spawner is not root).
    pub trusted: bool,
    /// Owner of the code file or directory.
    pub owner: u32,
    /// The users other than root who own some of the files.
    authors: BTreeSet<u32>,
    /// Its user, if the home of that user has the uid in its name; known when it is installed.
    pub apart: Cell<Option<u32>>,
    /// Path of the source, for people.
    pub shown: String,
    /// The state of manifest and code file when they were read.
    pub stamps: Stamps,
    /// Why the files are read.
    pub purpose: Purpose,
    /// How its dependencies are built or its code is fetched, until that tree is found.
    pub build: Option<PlannedBuild>,
    /// The secrets that the build gets, or why these cannot be read. That matters only if the build has to run.
    pub given: Result<Option<Gathered>, Vec<Problem>>,
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
    large: Option<(String, OpenedSource)>,
    files: Vec<InstalledCode>,
    pending: VecDeque<(String, SourceKind)>,
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
    fn empty(request: u64, install: Install, staging: PathBuf) -> Self {
        Self {
            request,
            install,
            trusted: true,
            owner: 0,
            authors: BTreeSet::new(),
            apart: Cell::new(None),
            shown: String::new(),
            stamps: Stamps::new(),
            purpose: Purpose::Install,
            build: None,
            given: Ok(None),
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
    pub fn new(request: u64, install: &Install, sources: &Sources, staging: PathBuf) -> Result<Self, Problem> {
        let stored = (install.directory == STORED).then(|| stored::version(install, sources, &staging)).transpose()?;
        let origin = stored.as_ref().map(|(_, origin)| origin);
        // A version of a build is lent to the other functions that build.
        let function = install.function.clone();
        let install = Install { function, ..origin.map_or(install, |origin| &origin.install).clone() };
        let is_tree = install.directory_form || install.is_one_of_many() && stored.is_some();
        let kind = if is_tree { SourceKind::Directory } else { SourceKind::File };
        let mut snapshot = Self::empty(request, install, staging);
        if let Some(origin) = origin {
            (snapshot.trusted, snapshot.owner, snapshot.shown) = (origin.trusted, origin.owner, origin.shown.clone());
            snapshot.manifest.clone_from(&origin.manifest);
        } else {
            snapshot.open_manifest(sources)?;
        }
        snapshot.pending = VecDeque::from([(String::new(), kind)]);
        let dir = stored.as_ref().and_then(|(sources, _)| sources.dirs.first());
        let unread = |error: io::Error| source::unreadable(&snapshot.shown, &error);
        snapshot.apart.set(dir.map_or(Ok(None), |dir| places::user_of(dir)).map_err(unread)?);
        snapshot.source = dir.map_or(Ok(None), |dir| trees::linked(dir, "source")).map_err(unread)?;
        snapshot.stored = stored;
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
        let code = |relative: &String, bytes: Vec<u8>| {
            let (digest, length) = (Sha256::digest(&bytes).into(), bytes.len() as u64);
            let (relative, held) = (relative.clone(), Some(Bytes(bytes)));
            InstalledCode { relative, mode: 0o644, trusted: self.trusted, length, digest, held }
        };
        let mut files = vec![code(&name, made.0)];
        for file in self.files.iter().filter(|file| inputs.contains(&file.relative) && file.relative != name) {
            files.push(code(&file.relative, self.front(file, usize::MAX)?.into_owned()));
        }
        files.sort_by(|a, b| a.relative.cmp(&b.relative));
        let (directory, source) = (self.install.directory, function.as_str().to_owned());
        let install = Install { directory, function, source, sidecar: None, directory_form: true };
        let mut snapshot = Self::empty(self.request, install, staging);
        (snapshot.trusted, snapshot.owner, snapshot.shown) = (self.trusted, self.owner, self.shown.clone());
        // Nothing is left to read: these are the bytes that the judge has seen.
        snapshot.files = files;
        Ok(snapshot)
    }

    /// Returns who owns the files: what their code leaves in a home is for code of the same owner only. None: the function
    /// is one of fnd's own.
    pub fn owner(&self, sources: &Sources) -> Option<UidOwner> {
        if is_own(self.install.function.as_str()) {
            return None;
        }
        let is_upload = sources.dirs.get(usize::from(self.install.directory)) == Some(&sources.uploads);
        Some(match &self.stored {
            // All uploads belong to fnd's user, whoever has sent them, so the place decides and not the owner of the
            // files.
            _ if is_upload => UidOwner::uploads(),
            Some((_, origin)) if !origin.trusted => UidOwner::of(&BTreeSet::from([origin.owner])),
            Some(_) => UidOwner::of(&BTreeSet::new()),
            None => UidOwner::of(&self.authors),
        })
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

    /// Returns the first bytes of a file, at most `max`.
    fn front<'a>(&self, file: &'a InstalledCode, max: usize) -> io::Result<Cow<'a, [u8]>> {
        if let Some(Bytes(held)) = &file.held {
            return Ok(held.get(..max).unwrap_or(held).into());
        }
        let mut bytes = Vec::new();
        File::open(self.staged(&file.relative))?.take(max as u64).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    /// Returns the path where a helper writes the result of its work; beside the staging directory.
    pub fn report(&self) -> PathBuf {
        self.staging.with_extension("report")
    }

    /// Returns the request to the judge: every file by name, with its first bytes as far as there is room.
    pub fn question(&self) -> JudgeRequest {
        let form = match self.format() {
            _ if self.source.is_some() => CodeLayout::Source,
            Some(Format::Foreign) => CodeLayout::Foreign(self.shown.clone()),
            Some(_) => CodeLayout::Archive(self.shown.clone()),
            None if self.install.is_directory() => CodeLayout::Directory,
            None => CodeLayout::File,
        };
        let mut room = SHOWN_MAX;
        let judged = |file: &InstalledCode| {
            let length = usize::try_from(file.length).unwrap_or(usize::MAX).min(CODE_MAX);
            // A file that can't be read back is sent without content; storing it fails later with the reason.
            let front = if length <= room { self.front(file, CODE_MAX).unwrap_or_default() } else { Cow::default() };
            room -= front.len().min(room);
            let path = if form.is_tree() { &file.relative } else { &self.shown }.clone();
            JudgedFile { path, bytes: Bytes(front.into_owned()), mode: file.mode, trusted: file.trusted }
        };
        let (name, files) = (self.install.function.clone(), self.files.iter().map(judged).collect());
        let function = JudgeFunction { name, files, manifest: self.manifest.clone(), form };
        let asked = if self.stored.is_some() { JudgeRequest::Stored } else { JudgeRequest::Function };
        if self.purpose == Purpose::Check { JudgeRequest::Check(function) } else { asked(function) }
    }

    /// Returns whose word its files are, for the function that builds for it: empty for root, else as
    /// [`builder_name`](fnd_wire::plan::builder_name) says. Uploads all belong to fnd, so each of their functions is a trust of its own; so is one of root's files and
    /// others' together.
    pub fn trust(&self, sources: &Sources) -> String {
        sources.trust(self.trusted, self.owner, &self.shown, &self.install.function)
    }

    /// Checks that the function may ask for what only files of root may: `asks` says that it does.
    ///
    /// # Errors
    /// That it may not, and what to do: `or` is another way out.
    pub fn may_ask(&self, asks: Option<impl std::fmt::Display>, or: &str) -> Result<(), Problem> {
        let Some(asks) = asks.filter(|_| !self.trusted) else { return Ok(()) };
        let message = format!("{asks}, but root does not own all of its files");
        Err(problem(&self.shown, message, format!("run `chown root` for code and manifest{or}")))
    }

    /// Returns whether the function has a file of this name, relative to the code directory.
    pub fn holds(&self, relative: &str) -> bool {
        self.files.iter().any(|file| file.relative == relative)
    }

    /// Returns the manifest, unless it is one of the files.
    fn beside(&self) -> Option<&JudgedFile> {
        self.manifest.as_ref().filter(|_| !self.holds("function.toml"))
    }
}

/// Writes a file; a new one gets this mode, of which the spawner's umask, 022, takes nothing away.
///
/// # Errors
/// If writing fails.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?.write_all(bytes)
}
