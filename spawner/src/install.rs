//! Installing a function: read its files once, have them judged, copy what was read.
//!
//! ```text
//! Install ─▶ reading (a few files a turn, so that the loop never waits) ─▶ judging ─▶ copied below versions/F/HASH ─▶ reply
//! ```
//! What is hashed, judged and installed are the same bytes: small sources are held in memory, larger ones are written to a
//! staging directory while they are read.

use crate::log::Failed as _;
use crate::places::{self, Places};
use crate::policy::problem;
use crate::source::{Kind, Opened, Sources};
use fnd_core::frame::{Install, Problem};
use fnd_core::ids::Version;
use fnd_core::plan::{CODE_MAX, JudgeFunction, JudgedFile, Plan};
use fnd_core::wire::{Bytes, Wire as _};
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Files of a directory form.
const FILES_MAX: usize = 10_000;
/// Bytes of them.
const BYTES_MAX: u64 = 512 << 20;
/// Bytes of one function held in memory; the rest is staged.
const HELD_MAX: u64 = 1 << 20;
/// Bytes of code shown to the judge, all files together.
const SHOWN_MAX: usize = 8 << 20;
/// Files read in one turn of the loop, and bytes.
const TURN: (usize, u64) = (64, 8 << 20);
/// What to do about a source that is too large.
const ELSEWHERE: &str = "keep data elsewhere, for example in $STATE_DIRECTORY";
/// Largest manifest.
const MANIFEST_MAX: u64 = 1 << 20;

/// A file that was read.
#[derive(Debug)]
struct Read {
    relative: String,
    /// The path people know it by.
    shown: String,
    mode: u32,
    trusted: bool,
    digest: [u8; 32],
    length: u64,
    /// Absent where it is staged.
    held: Option<Vec<u8>>,
}

/// A function's files, read.
#[derive(Debug)]
pub struct Snapshot {
    /// The request's number and body.
    pub request: (u32, Install),
    files: Vec<Read>,
    manifest: Option<JudgedFile>,
    staging: Option<PathBuf>,
    /// Whether everything is root's.
    pub trusted: bool,
    /// Owner of the code file or directory.
    pub owner: u32,
    /// Path of the source, for people.
    pub shown: String,
}

struct Reading {
    snapshot: Snapshot,
    pending: VecDeque<(String, Kind)>,
    bytes: u64,
}

/// Installs under way.
#[derive(Default)]
pub struct Installer {
    /// Requests, with their numbers.
    pub queue: VecDeque<(u32, Install)>,
    reading: Option<Reading>,
    /// What the judge was asked about, by the number of [`Turn::Judge`].
    pub judging: HashMap<u64, Snapshot>,
    count: u64,
}

/// What a turn brought.
pub enum Turn {
    /// Nothing to do.
    Idle,
    /// There is more.
    Busy,
    /// Files were read: the judge's turn. The number finds the snapshot in [`Installer::judging`] when it has spoken.
    Judge(u64, JudgeFunction),
    /// They can't be read.
    Refused((u32, Install), Problem),
}

impl Installer {
    /// Says whether a turn would do something.
    pub fn has_work(&self) -> bool {
        self.reading.is_some() || !self.queue.is_empty()
    }

    /// Reads a little.
    pub fn turn(&mut self, sources: &Sources, places: &Places) -> Turn {
        if self.reading.is_none()
            && let Some(request) = self.queue.pop_front()
        {
            match begin(request.clone(), sources) {
                Ok(reading) => self.reading = Some(reading),
                Err(problem) => return Turn::Refused(request, problem),
            }
        }
        let Some(mut reading) = self.reading.take() else { return Turn::Idle };
        let (mut files, start) = (0, reading.bytes);
        while let Some((relative, kind)) = reading.pending.pop_front() {
            let result = match kind {
                Kind::Directory => reading.list(&relative, sources),
                Kind::File => reading.read(&relative, sources, places, self.count),
            };
            if let Err(problem) = result {
                reading.snapshot.discard();
                return Turn::Refused(reading.snapshot.request, problem);
            }
            files += 1;
            if files >= TURN.0 || reading.bytes - start >= TURN.1 {
                self.reading = Some(reading);
                return Turn::Busy;
            }
        }
        let mut snapshot = reading.snapshot;
        snapshot.files.sort_by(|a, b| a.relative.cmp(&b.relative));
        self.count += 1;
        let function = snapshot.function();
        self.judging.insert(self.count, snapshot);
        Turn::Judge(self.count, function)
    }
}

fn begin(request: (u32, Install), sources: &Sources) -> Result<Reading, Problem> {
    let install = &request.1;
    let kind = if install.directory_form { Kind::Directory } else { Kind::File };
    let opened = sources.open(install.directory, &install.source, kind)?;
    let own = install.directory_form.then(|| format!("{}/function.toml", install.source));
    let manifest = match install.sidecar.clone().or(own) {
        None => None,
        Some(path) => Some(manifest(sources.open(install.directory, &path, Kind::File)?)?),
    };
    let trusted = opened.trusted && manifest.as_ref().is_none_or(|manifest| manifest.trusted);
    let (owner, shown) = (opened.meta.uid(), opened.shown);
    let snapshot = Snapshot { files: Vec::new(), manifest, staging: None, trusted, owner, shown, request };
    Ok(Reading { snapshot, pending: VecDeque::from([(String::new(), kind)]), bytes: 0 })
}

fn manifest(mut opened: Opened) -> Result<JudgedFile, Problem> {
    let bytes = Bytes(opened.read(MANIFEST_MAX)?);
    Ok(JudgedFile { path: opened.shown, bytes, mode: opened.meta.mode() & 0o7777, trusted: opened.trusted })
}

impl Reading {
    fn path(&self, relative: &str) -> String {
        let source = &self.snapshot.request.1.source;
        if relative.is_empty() { source.clone() } else { format!("{source}/{relative}") }
    }

    fn list(&mut self, relative: &str, sources: &Sources) -> Result<(), Problem> {
        let opened = sources.open(self.snapshot.request.1.directory, &self.path(relative), Kind::Directory)?;
        let failed = |errno: rustix::io::Errno| {
            let error = io::Error::from(errno);
            problem(&opened.shown, format!("failed to list it: {error}"), "check the directory")
        };
        for entry in rustix::fs::Dir::read_from(&opened.file).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_str();
            let name = name.map_err(|_| problem(&opened.shown, "a name in it is not UTF-8", "rename it"))?;
            if matches!(name, "." | ".." | ".git" | "__pycache__") {
                continue;
            }
            let below = if relative.is_empty() { name.to_owned() } else { format!("{relative}/{name}") };
            let kind = if entry.file_type() == rustix::fs::FileType::Directory { Kind::Directory } else { Kind::File };
            self.pending.push_back((below, kind));
            if self.pending.len() + self.snapshot.files.len() > FILES_MAX {
                return Err(problem(&self.snapshot.shown, format!("it holds more than {FILES_MAX} files"), ELSEWHERE));
            }
        }
        Ok(())
    }

    fn read(&mut self, relative: &str, sources: &Sources, places: &Places, count: u64) -> Result<(), Problem> {
        let install = &self.snapshot.request.1;
        let mut opened = sources.open(install.directory, &self.path(relative), Kind::File)?;
        let directory = install.directory_form;
        let relative = if directory { relative.to_owned() } else { base(&install.source).to_owned() };
        self.snapshot.trusted &= opened.trusted;
        self.bytes += opened.meta.len();
        if self.bytes > BYTES_MAX {
            return Err(problem(&self.snapshot.shown, "it is larger than 512 MiB", ELSEWHERE));
        }
        let (held, digest): (_, [u8; 32]);
        if self.bytes <= HELD_MAX {
            let bytes = opened.read(HELD_MAX)?;
            digest = Sha256::digest(&bytes).into();
            held = Some(bytes);
        } else {
            let root = places.state.join(format!("versions/.new-{count}"));
            if self.snapshot.staging.is_none() {
                let _ = fs::remove_dir_all(&root); // left by a crash
            }
            let staging = self.snapshot.staging.get_or_insert(root);
            digest = stage(&mut opened, &staging.join("code").join(&relative))?;
            held = None;
        }
        let Opened { meta, shown, trusted, .. } = opened;
        let (mode, length) = (meta.mode() & 0o7777, meta.len());
        self.snapshot.files.push(Read { relative, shown, mode, trusted, digest, length, held });
        Ok(())
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Copies a file while it is hashed; returns its digest.
fn stage(opened: &mut Opened, to: &Path) -> Result<[u8; 32], Problem> {
    let mut digest = Sha256::new();
    let mut length = 0u64;
    let result: io::Result<()> = (|| {
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        let mut copy = File::create(to)?;
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let read = opened.file.read(&mut buffer)?;
            let bytes = buffer.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(());
            }
            length += bytes.len() as u64;
            if length > BYTES_MAX {
                return Err(io::Error::other("it grows while it is read"));
            }
            digest.update(bytes);
            copy.write_all(bytes)?;
        }
    })();
    let help = "check the file and the room on the disk";
    result.failed("copy it").map_err(|why: String| problem(&opened.shown, why, help))?;
    opened.unchanged(length)?;
    Ok(digest.finalize().into())
}

impl Snapshot {
    /// Returns the names of the files, relative to the code directory.
    pub fn names(&self) -> Vec<String> {
        self.files.iter().map(|file| file.relative.clone()).collect()
    }

    /// Returns what the judge is shown: every file by name, with its front as far as there is room.
    fn function(&self) -> JudgeFunction {
        let Install { function, directory_form: directory, .. } = self.request.1.clone();
        let mut room = SHOWN_MAX;
        let mut files = Vec::new();
        for file in &self.files {
            let length = usize::try_from(file.length).unwrap_or(usize::MAX).min(CODE_MAX);
            let front = if length <= room { self.front(file) } else { Vec::new() };
            room -= front.len().min(room);
            let path = if directory { &file.relative } else { &file.shown }.clone();
            files.push(JudgedFile { path, bytes: Bytes(front), mode: file.mode, trusted: file.trusted });
        }
        JudgeFunction { name: function, files, manifest: self.manifest.clone(), directory }
    }

    /// Returns the front of a file.
    fn front(&self, file: &Read) -> Vec<u8> {
        let mut front = Vec::new();
        if let Some(held) = &file.held {
            front.extend(held.iter().take(CODE_MAX));
        } else if let Some(staging) = &self.staging {
            let path = staging.join("code").join(&file.relative);
            // What can't be read back is not shown; storing it fails with the reason.
            let _ = File::open(path).and_then(|file| file.take(CODE_MAX as u64).read_to_end(&mut front));
        }
        front
    }

    /// Returns what the version goes by, and what "runs once per content" goes by: code and own manifest only.
    pub fn versions(&self, runtime: &str, interpreter: &str) -> (Version, Version) {
        // Each with its length, so that no two lists of parts read the same.
        let add = |digest: &mut Sha256, bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        let mut digest = Sha256::new();
        for file in &self.files {
            add(&mut digest, file.relative.as_bytes());
            add(&mut digest, &[u8::from(file.mode & 0o111 != 0)]);
            add(&mut digest, &file.digest);
        }
        if let Some(manifest) = self.manifest.as_ref().filter(|_| !self.request.1.directory_form) {
            add(&mut digest, b"manifest");
            add(&mut digest, &manifest.bytes.0);
        }
        let load_key = Version(digest.clone().finalize().into());
        add(&mut digest, runtime.as_bytes());
        add(&mut digest, interpreter.as_bytes());
        (Version(digest.finalize().into()), load_key)
    }

    /// Removes what was staged.
    pub fn discard(&self) {
        if let Some(staging) = &self.staging {
            let _ = fs::remove_dir_all(staging); // root's own; left behind, it is only in the way of space
        }
    }

    /// Copies code and plan to their place, owned by root and readable by `group`. Says whether anything was written.
    ///
    /// # Errors
    /// From writing.
    pub fn store(&self, plan: &Plan, version: &Version, places: &Places, group: Option<u32>) -> io::Result<bool> {
        let dirs = places.of(&plan.function.file_form());
        places::make(&dirs.versions, 0o711)?;
        let target = dirs.version(version);
        let bytes = plan.to_wire();
        let unix = |file: &Read| plan.unix_text && file.relative == plan.entry;
        if self.is_stored(&target, unix, group) {
            self.discard();
            if fs::read(target.join("plan")).is_ok_and(|found| found == bytes) {
                return Ok(false);
            }
            write(&target.join(".plan"), &bytes, 0o640)?;
            give(&target.join(".plan"), group)?;
            fs::rename(target.join(".plan"), target.join("plan"))?;
            return Ok(true);
        }
        let _ = fs::remove_dir_all(&target); // torn by a crash, or not there
        let staging = self.staging.clone().unwrap_or_else(|| dirs.versions.join(".new"));
        if self.staging.is_none() {
            let _ = fs::remove_dir_all(&staging); // of a crash
        }
        let code = staging.join("code");
        fs::create_dir_all(&code)?;
        for file in &self.files {
            let path = code.join(&file.relative);
            let mode = if file.mode & 0o111 == 0 { 0o640 } else { 0o750 };
            fs::create_dir_all(path.parent().unwrap_or(&code))?;
            match &file.held {
                Some(held) if unix(file) => write(&path, &unix_text(held), mode)?,
                Some(held) => write(&path, held, mode)?,
                None if unix(file) => write(&path, &unix_text(&fs::read(&path)?), mode)?,
                None => fs::set_permissions(&path, Permissions::from_mode(mode))?,
            }
        }
        write(&staging.join("plan"), &bytes, 0o640)?;
        give(&staging, group)?;
        fs::rename(&staging, &target)?;
        Ok(true)
    }

    /// Says whether the version is there already and whole. Copies are not synced one by one, so after a power cut one may be
    /// torn; held files are compared whole, staged ones by their length.
    fn is_stored(&self, target: &Path, unix: impl Fn(&Read) -> bool, group: Option<u32>) -> bool {
        let found = fs::metadata(target.join("plan")).ok();
        // The group is another one if the uid table lost its end in the same power cut.
        found.is_some_and(|meta| group.is_none_or(|group| meta.gid() == group))
            && self.files.iter().all(|file| {
                let path = target.join("code").join(&file.relative);
                match &file.held {
                    Some(held) if unix(file) => fs::read(path).is_ok_and(|found| found == unix_text(held)),
                    Some(held) => fs::read(path).is_ok_and(|found| found == *held),
                    None if unix(file) => path.exists(),
                    None => fs::metadata(path).is_ok_and(|meta| meta.len() == file.length),
                }
            })
    }
}

/// Gives a tree of root's to a group: directories 0750.
fn give(path: &Path, group: Option<u32>) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), group)?;
        }
        fs::set_permissions(path, Permissions::from_mode(0o750))?;
    }
    if group.is_some() { std::os::unix::fs::lchown(path, Some(0), group) } else { Ok(()) }
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?; // whatever the umask
    file.write_all(bytes)
}

/// Returns text without byte-order mark and without carriage returns before line feeds.
fn unix_text(bytes: &[u8]) -> Vec<u8> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let stays = |(index, byte): &(usize, &u8)| **byte != b'\r' || bytes.get(index + 1) != Some(&b'\n');
    bytes.iter().enumerate().filter(stays).map(|(_, byte)| *byte).collect()
}

#[cfg(test)]
mod tests {
    use super::unix_text;

    #[test]
    fn unix_text_has_no_mark_and_no_carriage_return_at_line_ends() {
        assert_eq!(unix_text(b"\xef\xbb\xbf#!/bin/bash\r\necho a\rb\r\n\r"), b"#!/bin/bash\necho a\rb\n\r");
    }
}
