//! The tasks that talk with a watcher: one writes what fnd remembers, then messages; one reads; one logs what the watcher
//! writes to its standard error.

use super::{WatcherEffect, Watchers, directories};
use crate::input::{Inbox, Input, TaskOwner};
use crate::ledger::{LedgerReader, QueryError};
use fnd_core::triggers::file::message::{FILES_MAX, FileRunEnded, FromWatcher, Messages, ToWatcher, put};
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::sync::mpsc::{Receiver, channel};

/// How long to wait when the history is busy with other queries.
const BUSY: Duration = Duration::from_millis(100);
/// Bytes read from a watcher until the ledger has to have stored all of it: a watcher must not be faster than the disk.
const AHEAD: usize = 1 << 20;
/// Most bytes of a watcher's standard error that are logged.
const LOGGED_MAX: usize = 16 * 1024;

/// Most messages that wait for a watcher. There are more only if it does not read them.
const MESSAGES_MAX: usize = 4096;

impl Watchers {
    /// Talks to the process of a watcher that the spawner has started, if it is still wanted. The pipes are those of its
    /// standard input, output and error.
    pub(crate) fn talk(
        &mut self,
        function: &FunctionName,
        [stdin, stdout, stderr]: [OwnedFd; 3],
        inbox: &Inbox,
    ) -> Vec<WatcherEffect> {
        let (to, messages) = channel(MESSAGES_MAX);
        let effects = self.runs(function, to);
        if let Some(process) = self.running(function) {
            let feed = Feed {
                function: function.clone(),
                directories: directories(&process.needed.entries),
                ledger: self.ledger.clone(),
                stdin,
            };
            inbox.spawn(TaskOwner::Caller, feed.run(messages));
            let listen = listen(process.worker, stdout, self.ledger.clone(), inbox.clone());
            inbox.spawn(TaskOwner::Caller, listen);
            inbox.spawn(TaskOwner::Caller, log(function.clone(), stderr));
        }
        effects
    }

    /// Has the driver check each function whose files are remembered: the files of one that is gone are forgotten.
    pub(crate) fn list_functions(&self, inbox: &Inbox) {
        let (reader, to) = (self.ledger.clone(), inbox.clone());
        inbox.spawn(TaskOwner::Caller, async move {
            for function in reader.functions_with_files().await.unwrap_or_default() {
                to.input(Input::FilesOf(function));
            }
        });
    }
}

/// The pipe into a watcher, and the facts that it gets first.
struct Feed {
    function: FunctionName,
    /// The directories of all entries.
    directories: Vec<Arc<str>>,
    ledger: LedgerReader,
    stdin: OwnedFd,
}

impl Feed {
    /// Writes what fnd remembers, then messages as they come. Ends with the watcher, or when the sender is dropped.
    async fn run(self, mut messages: Receiver<ToWatcher>) {
        let written = async {
            let mut stdin = pipe::Sender::from_owned_fd(self.stdin.try_clone()?)?;
            self.remembered(&mut stdin).await?;
            while let Some(message) = messages.recv().await {
                let mut bytes = Vec::new();
                put(&message, &mut bytes);
                stdin.write_all(&bytes).await?;
            }
            io::Result::Ok(())
        };
        match written.await {
            // The watcher has ended, and its exit says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => tracing::error!("failed to talk with the watcher of `{}`: {error}", self.function),
            Ok(()) => {}
        }
    }

    async fn remembered(&self, stdin: &mut pipe::Sender) -> io::Result<()> {
        let mut ends: BTreeMap<InvocationId, bool> = BTreeMap::new();
        let mut since = Vec::new();
        for (number, directory) in self.directories.iter().enumerate() {
            let asked = || self.ledger.watched_since(self.function.clone(), Arc::clone(directory));
            since.push(patiently(asked).await?.unwrap_or_default());
            // Two entries may watch one directory. The known files of a directory are sent once.
            if self.directories.iter().take(number).any(|earlier| earlier == directory) {
                continue;
            }
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let mut from = Some(None);
            while let Some(first) = from {
                let asked = || {
                    self.ledger
                        .known_files(self.function.clone(), Arc::clone(directory), first)
                };
                let mut page = patiently(asked).await?;
                from = page.next.map(Some);
                let ended = page.ends.into_iter().filter_map(|(id, end)| Some((id, end?)));
                ends.extend(ended);
                for known in &mut page.files {
                    known.file.directory = number;
                }
                // Paths of 4 KiB make a page too long for one message.
                for known in page.files.chunks(FILES_MAX / 8) {
                    let mut bytes = Vec::new();
                    put(&ToWatcher::Known(known.to_vec()), &mut bytes);
                    stdin.write_all(&bytes).await?;
                }
            }
        }
        let mut bytes = Vec::new();
        put(&ToWatcher::Begin(since), &mut bytes);
        for (id, success) in ends {
            let contents = Vec::new(); // the known files say what waits for it
            put(&ToWatcher::Ended(FileRunEnded { id, success, contents }), &mut bytes);
        }
        stdin.write_all(&bytes).await
    }
}

/// Asks the ledger until it has time.
async fn patiently<T, F: Future<Output = Result<T, QueryError>>>(ask: impl Fn() -> F) -> io::Result<T> {
    loop {
        match ask().await {
            Err(QueryError::Busy) => tokio::time::sleep(BUSY).await,
            result => return result.map_err(io::Error::other),
        }
    }
}

/// Reads what a watcher says, until it ends or says something that cannot be read.
async fn listen(worker: WorkerId, stdout: OwnedFd, ledger: LedgerReader, inbox: Inbox) {
    let mut messages = Messages::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut ahead = 0;
    let read = async {
        let mut stdout = pipe::Receiver::from_owned_fd(stdout)?;
        loop {
            let count = stdout.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            messages.add(buffer.get(..count).unwrap_or_default());
            while let Some(message) = messages.take::<FromWatcher>().map_err(io::Error::other)? {
                if !inbox.input(Input::Watcher(worker, Ok(message))) {
                    return Ok(());
                }
            }
            ahead += count;
            if ahead >= AHEAD {
                ahead = 0;
                // The answer does not matter: it comes when everything before is stored.
                patiently(|| ledger.functions_with_files()).await?;
            }
        }
    };
    let ended: io::Result<()> = read.await;
    if let Err(error) = ended {
        inbox.input(Input::Watcher(worker, Err(error.to_string())));
    }
}

/// Logs what a watcher writes to its standard error.
async fn log(function: FunctionName, stderr: OwnedFd) {
    let Ok(mut stderr) = pipe::Receiver::from_owned_fd(stderr) else {
        return;
    };
    let mut buffer = vec![0; 4096];
    let mut logged = 0;
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        // The rest is read all the same: a watcher whose pipe is full would stop.
        logged += count;
        if logged <= LOGGED_MAX {
            let text = String::from_utf8_lossy(buffer.get(..count).unwrap_or_default());
            tracing::warn!(FND_FUNCTION = %function, "watcher of `{function}`: {}", text.trim_end().escape_debug());
        }
    }
}
