//! The model of a watcher of files (`fnd-helper --watch`). It speaks the real messages over real pipes, and decides little: it
//! offers each content that fnd neither remembers nor was offered, and forgets files that are gone. The files outlive it.
//!
//! Not simulated: what is done to files after their run, events of the kernel, batches.

use super::WorkerEnds;
use fnd_core::records::SeenFile;
use fnd_core::triggers::file::message::{FromWatcher, Messages, PROTOCOL, SeenChange, ToWatcher, WatcherReady, put};
use fnd_wire::form::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long a watcher waits until it offers files again that fnd had no room for.
const AGAIN: Duration = Duration::from_secs(1);

/// The files of a watched directory, by inode.
#[derive(Debug, Default)]
pub(crate) struct WatchedFiles {
    files: BTreeMap<u64, SeenFile>,
    /// The number of the last change. It is the time of that change, too, so all contents differ.
    last: u64,
}

impl WatchedFiles {
    /// A new file appears.
    pub(crate) fn appear(&mut self) {
        self.last += 1;
        let (inode, modified_ns) = (self.last, self.last.cast_signed());
        let file = SeenFile {
            directory: 0,
            path: Bytes(format!("file{inode}").into_bytes()),
            inode,
            device: 1,
            size: 1,
            modified_ns,
            changed_ns: modified_ns,
            hash: Some(inode),
        };
        self.files.insert(inode, file);
    }

    /// One of the files gets other content.
    pub(crate) fn change(&mut self, which: u8) {
        self.last += 1;
        let (number, count) = (self.last, self.files.len().max(1));
        if let Some(file) = self.files.values_mut().nth(usize::from(which) % count) {
            (file.modified_ns, file.changed_ns) = (number.cast_signed(), number.cast_signed());
            file.hash = Some(number);
        }
    }

    /// One of the files is deleted.
    pub(crate) fn vanish(&mut self, which: u8) {
        let count = self.files.len().max(1);
        if let Some(inode) = self.files.keys().nth(usize::from(which) % count).copied() {
            self.files.remove(&inode);
        }
    }
}

/// How far a watcher has come.
#[derive(Debug, PartialEq, Eq)]
enum WatcherStage {
    /// It reads what fnd remembers.
    Remembering,
    /// It has said where the directory leads, and waits until the processes of the function see that.
    Placing,
    Watching,
}

/// A watcher that runs.
#[derive(Debug)]
pub(crate) struct WatcherModel {
    ends: WorkerEnds,
    received: Messages,
    unsent: Vec<u8>,
    stage: WatcherStage,
    /// The contents that fnd remembers, by inode.
    known: BTreeMap<u64, SeenFile>,
    /// Offers without an answer, by their number.
    offered: BTreeMap<u64, SeenFile>,
    last_offer: u64,
    /// When it offers files again that fnd had no room for.
    again_at: Option<Duration>,
}

impl WatcherModel {
    pub(crate) fn new(ends: WorkerEnds) -> Self {
        let mut watcher = Self {
            ends,
            received: Messages::default(),
            unsent: Vec::new(),
            stage: WatcherStage::Remembering,
            known: BTreeMap::new(),
            offered: BTreeMap::new(),
            last_offer: 0,
            again_at: None,
        };
        watcher.say(&FromWatcher::Hello(PROTOCOL));
        watcher
    }

    /// Returns when it has something to do by itself.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        self.again_at
    }

    /// Reads what fnd has said, says one thing about the files, and writes what the pipe takes. Returns whether there was
    /// something to do; an error says that fnd has closed its pipe, so the watcher ends.
    pub(crate) fn step(&mut self, files: &WatchedFiles, now: Duration) -> Result<bool, Errno> {
        let has_heard = self.read(now)?;
        self.again_at.take_if(|at| *at <= now);
        let news = self.news(files).inspect(|news| self.say(news)).is_some();
        let has_said = self.write()?;
        Ok(has_heard || news || has_said)
    }

    fn say(&mut self, message: &FromWatcher) {
        put(message, &mut self.unsent);
    }

    fn read(&mut self, now: Duration) -> Result<bool, Errno> {
        let input = self.ends.input.as_ref().expect("a watcher has an input");
        let mut buffer = [0; 16 << 10];
        let mut has_heard = false;
        while is_ready(input) {
            match rustix::io::read(input, &mut buffer)? {
                0 => return Err(Errno::PIPE),
                count => self.received.add(&buffer[..count]),
            }
            has_heard = true;
        }
        while let Some(message) = self.received.take().expect("fnd says what can be read") {
            self.hear(message, now);
        }
        Ok(has_heard)
    }

    fn hear(&mut self, message: ToWatcher, now: Duration) {
        match message {
            ToWatcher::Known(files) => {
                let files = files.into_iter().map(|known| (known.file.inode, known.file));
                self.known.extend(files);
            }
            ToWatcher::Begin(_) => {
                self.stage = WatcherStage::Placing;
                self.say(&FromWatcher::Places(1));
            }
            ToWatcher::Shown(_) => self.stage = WatcherStage::Watching,
            ToWatcher::Accepted(accepted) => {
                let file = self
                    .offered
                    .remove(&accepted.number)
                    .expect("an offer is answered once");
                self.known.insert(file.inode, file);
            }
            ToWatcher::Refused(number) => {
                self.offered.remove(&number).expect("an offer is answered once");
                self.again_at = Some(now + AGAIN);
            }
            ToWatcher::Ended(_) => self.again_at = None,
        }
    }

    /// Returns what is to be said of the files.
    fn news(&mut self, files: &WatchedFiles) -> Option<FromWatcher> {
        if self.stage != WatcherStage::Watching || self.again_at.is_some() {
            return None;
        }
        let is_gone = |inode: &&u64| !files.files.contains_key(*inode);
        if let Some(inode) = self.known.keys().find(is_gone).copied() {
            self.known.remove(&inode);
            return Some(FromWatcher::Gone(vec![(0, inode)]));
        }
        let is_new = |file: &&SeenFile| {
            let is_offered = self.offered.values().any(|offered| offered.inode == file.inode);
            !is_offered && self.known.get(&file.inode) != Some(*file)
        };
        let file = files.files.values().find(is_new)?.clone();
        self.last_offer += 1;
        let change = SeenChange {
            kind: u8::from(self.known.contains_key(&file.inode)),
            file: file.clone(),
        };
        self.offered.insert(self.last_offer, file);
        Some(FromWatcher::Ready(WatcherReady {
            number: self.last_offer,
            entry: 0,
            changes: vec![change],
        }))
    }

    fn write(&mut self) -> Result<bool, Errno> {
        if self.unsent.is_empty() {
            return Ok(false);
        }
        // A pipe takes far more than all that waits here.
        let count = rustix::io::write(&self.ends.stdout, &self.unsent)?;
        self.unsent.drain(..count);
        Ok(true)
    }
}

/// Returns whether a pipe has bytes, or has ended.
fn is_ready(end: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(end, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
