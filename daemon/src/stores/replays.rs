//! Remembers admitted signed requests over a restart, a crash and a reboot: each is appended to a file before its
//! submission, by a thread of its own, so that a slow disk holds up no one else.
//!
//! The file is not synced for each request: after a power cut the last ones may be missing. It is rewritten at the start,
//! when most of its records have ended, and after a failed write. While it cannot be written, the memory of this process
//! still refuses repeated requests, and a problem says what follows.

use super::thread::{RETRY, StoreNotice, StoreThread, StoreWorker};
use crate::clock::{monotonic, unix_ms};
use crate::lock::lock;
use fnd_core::triggers::credentials::ReplayKey;
use fnd_core::triggers::replay_file::{self, MAX_BYTES, Newer, RECORD, ReplayFileContent, ReplayRecord};
use fnd_core::triggers::replays::{self, Replayed};
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Names in the state directory: the file, and the next one until it is whole.
const FILE: &str = "replays";
const NEXT: &str = ".replays";
/// Most records that wait for the disk. If there were more, requests are refused with [`Replayed::Full`].
const WAITING_MAX: usize = 1024;
/// The file is rewritten when it has more than two records for each remembered request, and this many on top.
const SPARE_RECORDS: usize = 4096;

/// The requests that were admitted.
#[derive(Clone)]
pub(crate) struct Replays {
    memory: Arc<Mutex<replays::Replays>>,
    problem: Arc<StoreNotice>,
    thread: Arc<StoreThread<ReplayCommand>>,
}

/// A record to append.
struct ReplayCommand {
    record: ReplayRecord,
    /// Gets a message when the record is in the file, or cannot be written.
    written: Option<oneshot::Sender<()>>,
}

impl Replays {
    /// Reads the file in the state directory and starts the thread, which ends when the last clone is dropped. A file
    /// that cannot be read is a problem, not an error.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        // Nothing is to be called when the text changes: it is read when problems are shown.
        let problem = Arc::new(StoreNotice::new(&(Arc::new(|| ()) as _)));
        let mut file = ReplaysFile {
            directory: state.to_owned(),
            append: None,
            records: 0,
            memory: Arc::default(),
            problem: Arc::clone(&problem),
            failed: None,
            is_kept: false,
        };
        file.read();
        Ok(Self {
            memory: Arc::clone(&file.memory),
            problem,
            thread: Arc::new(StoreThread::start("replays", WAITING_MAX, || file)?),
        })
    }

    /// Returns what has no thread and no file: it refuses all requests.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn detached() -> Self {
        Self {
            memory: Arc::default(),
            problem: Arc::new(StoreNotice::new(&(Arc::new(|| ()) as _))),
            thread: Arc::new(StoreThread::detached()),
        }
    }

    /// Remembers a request before its submission, unless it was admitted before. If the caller goes away meanwhile, the
    /// request counts as admitted.
    ///
    /// # Errors
    /// [`Replayed`].
    pub(crate) async fn admit(&self, key: ReplayKey, now_s: u64) -> Result<(), Replayed> {
        // In memory first: of two equal requests at a time, one is refused while the disk is awaited for the other.
        lock(&self.memory).admit(key, now_s)?;
        let (written, answer) = oneshot::channel();
        let command = ReplayCommand {
            record: ReplayRecord::Admitted(key),
            written: Some(written),
        };
        // Never waits for room, because this runs on the main thread.
        if !self.thread.send(command) {
            lock(&self.memory).forget(&key.digest);
            return Err(Replayed::Full);
        }
        // A failed write is a problem of the node, not of the caller.
        let _written = answer.await;
        Ok(())
    }

    /// Forgets a request whose submission was refused, so that its sender may repeat it.
    pub(crate) fn forget(&self, key: ReplayKey) {
        lock(&self.memory).forget(&key.digest);
        let record = ReplayRecord::Forgotten(key);
        // Without the record the request stays refused after a restart, until its signature ends.
        self.thread.send(ReplayCommand { record, written: None });
    }

    /// Returns why admitted requests are not stored, and what follows.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.get()
    }
}

/// The file, as its thread has it.
struct ReplaysFile {
    directory: PathBuf,
    /// Open for appending if the file has everything that is remembered.
    append: Option<fs::File>,
    records: usize,
    memory: Arc<Mutex<replays::Replays>>,
    problem: Arc<StoreNotice>,
    /// When a write or the read failed last; absent after a success.
    failed: Option<Instant>,
    /// The file belongs to a later fnd or cannot be read. It is not written, because its content would be lost.
    is_kept: bool,
}

impl StoreWorker for ReplaysFile {
    type Command = ReplayCommand;

    fn pause(&self) -> Duration {
        match self.failed {
            // After a failure everything is written again, also if no request comes.
            Some(_) if !self.is_kept => RETRY,
            _ => Duration::MAX,
        }
    }

    /// Records that already wait share one write.
    fn perform(&mut self, commands: Vec<ReplayCommand>) {
        let records: Vec<ReplayRecord> = commands.iter().map(|command| command.record).collect();
        self.store(&records);
        for command in commands {
            let _gone = command.written.map(|written| written.send(()));
        }
    }

    fn close(self) {}
}

impl ReplaysFile {
    fn read(&mut self) {
        let path = self.directory.join(FILE);
        let mut bytes = Vec::new();
        let read = fs::File::open(&path).and_then(|file| file.take(MAX_BYTES as u64).read_to_end(&mut bytes));
        let newer = |Newer| io::Error::other("it was written by a later version of fnd, and is kept as it is");
        match read.and_then(|_| replay_file::read(&bytes).map_err(newer)) {
            // There is no file before the first signed request.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                self.is_kept = true;
                self.fails("read", &error);
            }
            Ok(ReplayFileContent { mut replays, skipped }) => {
                if skipped > 0 {
                    let path = path.display();
                    tracing::warn!(
                        "`{path}` has {skipped} damaged records: a signed request of the last minutes may be repeated"
                    );
                }
                replays.drop_ended(unix_ms() / 1000);
                *lock(&self.memory) = replays;
                // No file is open for appending yet, so this writes a new one, without the records that have ended.
                self.store(&[]);
            }
        }
    }

    fn store(&mut self, records: &[ReplayRecord]) {
        let pauses = self.failed.is_some_and(|at| monotonic() < at + RETRY);
        if self.is_kept || pauses {
            return;
        }
        let is_short = self.records + records.len() <= 2 * lock(&self.memory).len() + SPARE_RECORDS;
        let stored = match &mut self.append {
            Some(file) if is_short => {
                let bytes: Vec<u8> = records.iter().flat_map(ReplayRecord::bytes).collect();
                self.records += records.len();
                file.write_all(&bytes)
            }
            // `memory` contains these records already, so writing the whole file anew stores them, too.
            _ => self.rewrite(),
        };
        match stored {
            Ok(()) => {
                self.failed = None;
                self.problem.set(None);
            }
            Err(error) => {
                // A part of a record may be in the file: only a whole new one helps.
                self.append = None;
                self.fails("write", &error);
            }
        }
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let (path, next) = (self.directory.join(FILE), self.directory.join(NEXT));
        let bytes = replay_file::write(&lock(&self.memory));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&next)?;
        file.write_all(&bytes)?;
        // Synced, unlike an append: after a power cut the new name could lead to an empty file, and every key would be
        // forgotten.
        file.sync_all()?;
        fs::rename(&next, &path)?;
        fs::File::open(&self.directory)?.sync_all()?;
        self.records = bytes.len() / RECORD;
        self.append = Some(file);
        Ok(())
    }

    fn fails(&mut self, verb: &str, error: &io::Error) {
        let path = self.directory.join(FILE);
        let text = format!(
            "failed to {verb} `{}`: {error}; admitted signed requests are remembered in memory only, so each could be repeated once after a restart within 5 minutes",
            path.display()
        );
        if self.failed.replace(monotonic()).is_none() {
            tracing::warn!("{text}");
        }
        self.problem.set(Some(&text));
    }
}

#[cfg(test)]
mod tests;
