//! The messages that a watcher sends, their effects, and the messages that fnd sends to it. fnd checks each message of
//! a watcher, because the watcher has the rights of the function.

use super::{FileWatcher, Process, WatcherEffect, WatcherStage, Watchers, directories};
use fnd_core::records::{FileMark, Payload, SeenFile};
use fnd_core::run::{Overlap, Submit};
use fnd_core::triggers::file::memory::FileMemory;
use fnd_core::triggers::file::message::{
    AcceptedFile, FileRunEnded, FromWatcher, PROTOCOL, RunContent, SeenChange, ToWatcher, Trouble, WatcherReady,
};
use fnd_core::triggers::file::payload;
use fnd_manifest::function::FileTrigger;
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use std::sync::Arc;
use tokio::sync::mpsc::error::TrySendError;

/// Longest text of a problem that a watcher has, in bytes.
const PROBLEM_MAX: usize = 1024;

/// Files that a watcher offers for one invocation.
#[derive(Debug, PartialEq)]
pub(crate) struct FileOffer {
    pub(crate) function: FunctionName,
    /// The watcher, and the number of its message.
    message: (WorkerId, u64),
    payload: Payload,
    marks: Vec<FileMark>,
}

impl FileWatcher {
    /// Handles what the running process of a watcher says.
    ///
    /// # Errors
    /// The rule that the message breaks.
    fn said(
        &mut self,
        function: &FunctionName,
        process: &Process,
        said: Result<FromWatcher, String>,
        shown: impl FnOnce(&str) -> String,
    ) -> Result<Vec<WatcherEffect>, &'static str> {
        let entries = &process.needed.entries;
        let remember = |marks| WatcherEffect::Store(FileMemory::Marks(function.clone(), marks));
        let changed = || WatcherEffect::StatusChanged(function.clone());
        let effect = match said.map_err(|_| "something that cannot be read")? {
            FromWatcher::Hello(PROTOCOL) => self.failure.take().map(|_| changed()),
            FromWatcher::Hello(_) => return Err("another version of fnd than this one"),
            FromWatcher::Ready(ready) => {
                let (entry, marks) = offered(&ready, entries)?;
                let payload = Payload {
                    data: Some(payload::payload(entry, &ready.changes).into()),
                    content_type: Some("application/json".into()),
                    cause: payload::cause(entry, &ready.changes).map(Into::into),
                    ..Payload::default()
                };
                Some(WatcherEffect::Submit(Box::new(FileOffer {
                    function: function.clone(),
                    message: (process.worker, ready.number),
                    payload,
                    marks,
                })))
            }
            FromWatcher::Seen(files) => Some(remember(seen(&files, entries)?)),
            FromWatcher::Gone(files) => Some(remember(forgotten(&files, entries)?)),
            FromWatcher::Settled(id) => Some(WatcherEffect::Store(FileMemory::Settled(function.clone(), id))),
            FromWatcher::Trouble(Trouble { entry, .. }) if usize::from(entry) >= entries.len() => {
                return Err("a problem of an entry that is not there");
            }
            FromWatcher::Trouble(Trouble { entry, problem }) => {
                let is_new = match problem {
                    Some(mut problem) => {
                        problem.truncate(problem.floor_char_boundary(PROBLEM_MAX));
                        let problem = shown(&problem);
                        self.troubles.insert(entry, problem.clone()) != Some(problem)
                    }
                    None => self.troubles.remove(&entry).is_some(),
                };
                is_new.then(changed)
            }
            FromWatcher::Waiting(count) => {
                // A watcher that waits has worked for a while.
                (self.waiting, self.failures) = (count, 0);
                None
            }
            FromWatcher::Places(places) => {
                let leads_elsewhere = self.shown.replace(places) != Some(places);
                let retire = leads_elsewhere.then(|| WatcherEffect::Retire(function.clone(), process.tmp.0));
                // The spawner reads the request before the starts of later offers.
                let tell = WatcherEffect::Tell(function.clone(), ToWatcher::Shown(places));
                return Ok(retire.into_iter().chain([tell]).collect());
            }
        };
        Ok(effect.into_iter().collect())
    }
}

impl Watchers {
    /// Handles what a watcher says. `shown` makes the text of a problem fit for people.
    pub(crate) fn said(
        &mut self,
        worker: WorkerId,
        said: Result<FromWatcher, String>,
        shown: impl FnOnce(&str) -> String,
    ) -> Vec<WatcherEffect> {
        let Some((function, watcher)) = self.of_worker(worker) else {
            return Vec::new();
        };
        let WatcherStage::Running(process, _) = &watcher.stage else {
            return Vec::new(); // it is being killed: what it says now is said again by the next one
        };
        let process = process.clone();
        let handled = watcher.said(function, &process, said, shown);
        handled.unwrap_or_else(|what| {
            let why = format!("its watcher of files said {what}, and was ended");
            watcher.fails((function, worker), why)
        })
    }

    /// Says something to a watcher, if it runs. One that does not listen is killed.
    pub(crate) fn tell(&mut self, function: &FunctionName, message: ToWatcher) -> Vec<WatcherEffect> {
        if let Some(watcher) = self.all.get_mut(function)
            && let WatcherStage::Running(process, to) = &watcher.stage
            // Closed: its process has ended, and the next one reads the ledger.
            && let Err(TrySendError::Full(_)) = to.try_send(message)
        {
            let worker = process.worker;
            let why = "its watcher of files does not read what fnd says, and was ended";
            return watcher.fails((function, worker), why.to_owned());
        }
        Vec::new()
    }

    /// Makes the request of an offer, and keeps the number of its message until the ledger has stored the invocation.
    pub(crate) fn submission(&mut self, offer: FileOffer, request: Submit) -> Submit {
        self.storing.insert(request.id, (offer.function, offer.message));
        Submit {
            payload: offer.payload,
            overlap: Some(Overlap::Queue),
            files: offer.marks,
            ..request
        }
    }

    /// Tells a watcher whether the invocation for its files is stored.
    pub(crate) fn stored(&mut self, id: InvocationId, is_stored: bool) -> Vec<WatcherEffect> {
        let Some((function, (worker, number))) = self.storing.remove(&id) else {
            return Vec::new();
        };
        // Another watcher offers the files again.
        if self.running(&function).is_none_or(|process| process.worker != worker) {
            return Vec::new();
        }
        let message = match is_stored {
            true => ToWatcher::Accepted(AcceptedFile { number, id }),
            false => ToWatcher::Refused(number),
        };
        self.tell(&function, message)
    }

    /// Tells a watcher of the end of an invocation that its files started. The ledger has it: the watcher acts on the files
    /// next, and cannot take that back.
    pub(crate) fn run_ended(
        &mut self,
        function: &FunctionName,
        (id, success): (InvocationId, bool),
        contents: Vec<(Arc<str>, RunContent)>,
    ) -> Vec<WatcherEffect> {
        let Some(process) = self.running(function) else {
            return Vec::new(); // the next watcher gets the end from the ledger
        };
        let contents = numbered(contents, &process.needed.entries);
        self.tell(function, ToWatcher::Ended(FileRunEnded { id, success, contents }))
    }
}

/// Returns the entry of a watcher's offer and the marks of its files.
///
/// # Errors
/// The rule that the offer breaks.
pub(super) fn offered<'a>(
    ready: &WatcherReady,
    entries: &'a [FileTrigger],
) -> Result<(&'a FileTrigger, Vec<FileMark>), &'static str> {
    let entry = entries
        .get(usize::from(ready.entry))
        .ok_or("an offer for an entry that is not there")?;
    let most = usize::try_from(entry.batch).unwrap_or(usize::MAX);
    if ready.changes.is_empty() || ready.changes.len() > most {
        return Err("an offer without files or with more than a batch");
    }
    let directories = directories(entries);
    let mark = |change: &SeenChange| match change.kind {
        0 | 1 => known(&directories, &change.file, entry.acts()),
        2 => gone(&directories, change.file.directory, change.file.inode),
        _ => Err("a change of no kind"),
    };
    let marks = ready.changes.iter().map(mark).collect::<Result<_, _>>()?;
    Ok((entry, marks))
}

/// Returns contents with the numbers of their directories, without those of directories that no entry names any more.
fn numbered(contents: Vec<(Arc<str>, RunContent)>, entries: &[FileTrigger]) -> Vec<RunContent> {
    let directories = directories(entries);
    let number = |(directory, content): (Arc<str>, RunContent)| {
        let position = directories.iter().position(|other| *other == directory)?;
        let directory = u16::try_from(position).ok()?;
        Some(RunContent { directory, ..content })
    };
    contents.into_iter().filter_map(number).collect()
}

/// Returns the marks of files that a watcher has seen.
///
/// # Errors
/// As [`offered`].
pub(super) fn seen(files: &[SeenFile], entries: &[FileTrigger]) -> Result<Vec<FileMark>, &'static str> {
    let directories = directories(entries);
    files.iter().map(|file| known(&directories, file, false)).collect()
}

/// Returns the marks of files that are gone.
///
/// # Errors
/// As [`offered`].
pub(super) fn forgotten(files: &[(u16, u64)], entries: &[FileTrigger]) -> Result<Vec<FileMark>, &'static str> {
    let directories = directories(entries);
    files
        .iter()
        .map(|(directory, inode)| gone(&directories, *directory, *inode))
        .collect()
}

fn known(directories: &[Arc<str>], file: &SeenFile, acts: bool) -> Result<FileMark, &'static str> {
    let directory = directory(directories, file.directory)?;
    let path = &file.path.0;
    let is_sound = !path.is_empty() && path.len() <= fnd_core::triggers::file::message::PATH_MAX && !path.contains(&0);
    if !is_sound || path.starts_with(b"/") {
        return Err("a path that no file has");
    }
    Ok(FileMark::Known {
        directory,
        file: file.clone(),
        acts,
    })
}

fn gone(directories: &[Arc<str>], number: u16, inode: u64) -> Result<FileMark, &'static str> {
    Ok(FileMark::Gone {
        directory: directory(directories, number)?,
        inode,
    })
}

fn directory(directories: &[Arc<str>], number: u16) -> Result<Arc<str>, &'static str> {
    directories
        .get(usize::from(number))
        .cloned()
        .ok_or("a directory that is not watched")
}
