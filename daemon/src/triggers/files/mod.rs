//! Watchers of files: the machine's side. A watcher is a process of the function's user (`fnd-helper --watch`) that decides which
//! files are ready; this room talks to it, and keeps what fnd has to know of it.
//!
//! ```text
//! Idle ──start──▶ Starting ──▶ Running ──killed──▶ Ending ──exit──▶ Idle
//!   ▲                └──failed───┴──ended by itself──▶ Paused ──┐
//!   └───────────────────────────────────────────────────────────┘
//! ```
//!
//! Files:
//! - `messages`: what a watcher may say
//! - `talk`: the tasks that write to a watcher and read from it

mod messages;
pub(crate) mod talk;
#[cfg(test)]
mod tests;

pub(crate) use messages::{forgotten, numbered, offered, seen};

use crate::ledger::LedgerReader;
use fnd_core::triggers::file::message::ToWatcher;
use fnd_manifest::function::FileTrigger;
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

/// Pauses after a watcher that ended by itself: this long at first, doubled each time, and never longer than the second.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The watchers of all functions.
pub(crate) struct Watchers {
    /// Has what is remembered of the files.
    pub(crate) ledger: LedgerReader,
    all: BTreeMap<FunctionName, FileWatcher>,
    /// Submissions that the ledger has not stored yet: the function, the worker and the number of the message.
    storing: HashMap<InvocationId, (FunctionName, WorkerId, u64)>,
}

/// The watcher that a function needs.
#[derive(Debug, Clone)]
pub(crate) struct NeededWatcher {
    pub(crate) id: FunctionId,
    pub(crate) version: Version,
    pub(crate) entries: Rc<[FileTrigger]>,
}

/// The watcher of a function.
#[derive(Debug, Default)]
pub(crate) struct FileWatcher {
    /// Absent if the function needs none any more.
    wanted: Option<NeededWatcher>,
    stage: WatcherStage,
    /// Why the watcher does not run; absent while it does.
    failure: Option<String>,
    /// Number of times in a row that it ended by itself.
    failures: u32,
    /// Its problems, by the position of the entry.
    troubles: BTreeMap<u16, String>,
    /// Number of files that wait.
    waiting: u64,
    /// The places that the processes of the function see.
    shown: Option<u64>,
}

/// A watcher's process.
#[derive(Debug, Default)]
pub(crate) enum WatcherStage {
    /// There is none.
    #[default]
    Idle,
    /// The spawner was asked for it.
    Starting(Process),
    /// It runs and takes messages.
    Running(Process, Sender<ToWatcher>),
    /// It was killed, and its exit has not come yet.
    Ending(Process),
    /// It is started again at this time of the monotonic clock.
    Paused(Duration),
}

/// The process of a watcher.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) worker: WorkerId,
    /// Its temporary files.
    pub(crate) tmp: (FunctionId, InvocationId),
    pub(crate) version: Version,
    pub(crate) entries: Rc<[FileTrigger]>,
}

/// The next step with a watcher.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WatcherStep {
    Nothing,
    Start,
    Kill(WorkerId),
}

impl Watchers {
    /// Returns the part without a watcher.
    pub(crate) fn new(ledger: LedgerReader) -> Self {
        Self {
            ledger,
            all: BTreeMap::new(),
            storing: HashMap::new(),
        }
    }

    /// Returns whether a function has a watcher, or had one that has not ended.
    pub(crate) fn has(&self, function: &FunctionName) -> bool {
        self.all.contains_key(function)
    }

    /// Says which watcher a function needs from now on. Returns what is to be done.
    pub(crate) fn needs(&mut self, function: &FunctionName, wanted: Option<NeededWatcher>) -> WatcherStep {
        let watcher = self.all.entry(function.clone()).or_default();
        let version = |wanted: &Option<NeededWatcher>| wanted.as_ref().map(|wanted| wanted.version);
        if version(&watcher.wanted) != version(&wanted) {
            (watcher.failure, watcher.failures) = (None, 0);
            if matches!(watcher.stage, WatcherStage::Paused(_)) {
                watcher.stage = WatcherStage::Idle;
            }
        }
        watcher.wanted = wanted;
        self.next(function)
    }

    /// Returns what is to be done about a watcher.
    pub(crate) fn next(&mut self, function: &FunctionName) -> WatcherStep {
        let Some(watcher) = self.all.get_mut(function) else {
            return WatcherStep::Nothing;
        };
        match (&watcher.stage, &watcher.wanted) {
            (WatcherStage::Idle | WatcherStage::Paused(_), None) => {
                self.all.remove(function);
                WatcherStep::Nothing
            }
            (WatcherStage::Idle, Some(_)) => WatcherStep::Start,
            (WatcherStage::Running(process, _), wanted) => {
                if wanted.as_ref().is_some_and(|wanted| wanted.version == process.version) {
                    return WatcherStep::Nothing;
                }
                let process = process.clone();
                let worker = process.worker;
                watcher.stage = WatcherStage::Ending(process);
                WatcherStep::Kill(worker)
            }
            (WatcherStage::Starting(_) | WatcherStage::Ending(_) | WatcherStage::Paused(_), _) => WatcherStep::Nothing,
        }
    }

    /// Returns the watcher that a function needs and that does not run.
    pub(crate) fn to_start(&self, function: &FunctionName) -> Option<NeededWatcher> {
        let watcher = self.all.get(function)?;
        let is_idle = matches!(watcher.stage, WatcherStage::Idle);
        watcher.wanted.clone().filter(|_| is_idle)
    }

    /// Records that the spawner was asked for the process of a watcher.
    pub(crate) fn starting(&mut self, function: &FunctionName, process: Process) {
        if let Some(watcher) = self.all.get_mut(function) {
            watcher.stage = WatcherStage::Starting(process);
        }
    }

    /// Returns the function whose watcher this worker is.
    pub(crate) fn function_of(&self, worker: WorkerId) -> Option<&FunctionName> {
        let is_it = |watcher: &FileWatcher| watcher.process().is_some_and(|process| process.worker == worker);
        self.all
            .iter()
            .find(|(_, watcher)| is_it(watcher))
            .map(|(name, _)| name)
    }

    /// Records that the process runs; `to` takes the messages for it. Returns what is to be done: it may not be wanted any
    /// more.
    pub(crate) fn runs(&mut self, function: &FunctionName, to: Sender<ToWatcher>) -> WatcherStep {
        if let Some(watcher) = self.all.get_mut(function)
            && let WatcherStage::Starting(process) = &watcher.stage
        {
            watcher.stage = WatcherStage::Running(process.clone(), to);
        }
        self.next(function)
    }

    /// Records that a watcher has no process (any more); `why` if it should have one. Returns the process, and what is to
    /// be done.
    pub(crate) fn ended(
        &mut self,
        function: &FunctionName,
        why: impl FnOnce() -> String,
        now: Duration,
    ) -> (Option<Process>, WatcherStep) {
        let Some(watcher) = self.all.get_mut(function) else {
            return (None, WatcherStep::Nothing);
        };
        let stage = std::mem::take(&mut watcher.stage);
        // The next process says what hinders it.
        watcher.troubles.clear();
        watcher.waiting = 0;
        let (process, by_itself) = match stage {
            WatcherStage::Starting(process) | WatcherStage::Running(process, _) => (Some(process), true),
            WatcherStage::Ending(process) => (Some(process), false),
            WatcherStage::Idle | WatcherStage::Paused(_) => (None, false),
        };
        if by_itself {
            // Six doublings lead to the longest pause. The bound only keeps the shift valid.
            let pause = PAUSE.0.saturating_mul(1 << watcher.failures.min(10)).min(PAUSE.1);
            watcher.failures = watcher.failures.saturating_add(1);
            watcher.failure.get_or_insert_with(why);
            watcher.stage = WatcherStage::Paused(now.saturating_add(pause));
        }
        (process, self.next(function))
    }

    /// Records why a watcher cannot go on, before its process is killed.
    pub(crate) fn fails(&mut self, function: &FunctionName, why: String) {
        if let Some(watcher) = self.all.get_mut(function) {
            watcher.failure = Some(why);
        }
    }

    /// Returns the functions whose watchers are to be started again now.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<FunctionName> {
        let is_due = |watcher: &FileWatcher| matches!(watcher.stage, WatcherStage::Paused(at) if at <= now);
        let mut due = Vec::new();
        for (name, watcher) in self.all.iter_mut().filter(|(_, watcher)| is_due(watcher)) {
            watcher.stage = WatcherStage::Idle;
            due.push(name.clone());
        }
        due
    }

    /// Returns when a watcher is to be started again.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let at = |watcher: &FileWatcher| match watcher.stage {
            WatcherStage::Paused(at) => Some(at),
            _ => None,
        };
        self.all.values().filter_map(at).min()
    }

    /// Returns the process of a function's watcher, while it runs.
    pub(crate) fn running(&self, function: &FunctionName) -> Option<&Process> {
        match &self.all.get(function)?.stage {
            WatcherStage::Running(process, _) => Some(process),
            _ => None,
        }
    }

    /// Sends a message to a function's watcher, if it runs. Returns the watcher if it has too many messages already.
    pub(crate) fn tell(&self, function: &FunctionName, message: ToWatcher) -> Option<WorkerId> {
        match &self.all.get(function)?.stage {
            WatcherStage::Running(process, to) => match to.try_send(message) {
                // Closed: its process has ended, and the next one reads the ledger.
                Ok(()) | Err(TrySendError::Closed(_)) => None,
                Err(TrySendError::Full(_)) => Some(process.worker),
            },
            _ => None,
        }
    }

    /// Records that a watcher works: it has said its first word.
    pub(crate) fn works(&mut self, function: &FunctionName) -> bool {
        let watcher = self.all.get_mut(function);
        watcher.is_some_and(|watcher| watcher.failure.take().is_some())
    }

    /// Records what hinders a watcher. Returns whether that is new.
    pub(crate) fn hindered(&mut self, function: &FunctionName, entry: u16, problem: Option<String>) -> bool {
        let Some(watcher) = self.all.get_mut(function) else {
            return false;
        };
        match problem {
            Some(problem) => watcher.troubles.insert(entry, problem.clone()) != Some(problem),
            None => watcher.troubles.remove(&entry).is_some(),
        }
    }

    /// Records where the directories lead. Returns whether the processes of the function may see other places.
    pub(crate) fn leads_elsewhere(&mut self, function: &FunctionName, places: u64) -> bool {
        let watcher = self.all.get_mut(function);
        watcher.is_some_and(|watcher| watcher.shown.replace(places) != Some(places))
    }

    /// Records how many files wait.
    pub(crate) fn waits(&mut self, function: &FunctionName, count: u64) {
        if let Some(watcher) = self.all.get_mut(function) {
            // A watcher that waits has worked for a while.
            (watcher.waiting, watcher.failures) = (count, 0);
        }
    }

    /// Returns the number of files that wait, of each function with a watcher.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&FunctionName, u64)> {
        self.all.iter().map(|(name, watcher)| (name, watcher.waiting))
    }

    /// Returns the functions whose watchers are hindered, each with the problem.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (&FunctionName, &str)> {
        self.all.iter().flat_map(|(name, watcher)| {
            let each = watcher.failure.iter().chain(watcher.troubles.values());
            each.map(move |problem| (name, problem.as_str()))
        })
    }

    /// Returns what hinders the watcher of a function.
    pub(crate) fn problem_of(&self, function: &FunctionName) -> Option<&str> {
        let watcher = self.all.get(function)?;
        let problem = watcher.failure.as_ref().or_else(|| watcher.troubles.values().next());
        problem.map(String::as_str)
    }

    /// Keeps the number of a message until the ledger has stored its invocation.
    pub(crate) fn storing(&mut self, id: InvocationId, function: &FunctionName, (worker, number): (WorkerId, u64)) {
        self.storing.insert(id, (function.clone(), worker, number));
    }

    /// Returns the message whose invocation the ledger has stored, or could not store: the function and the number. Absent
    /// if it is not of the watcher that runs now.
    pub(crate) fn stored(&mut self, id: InvocationId) -> Option<(FunctionName, u64)> {
        let (function, worker, number) = self.storing.remove(&id)?;
        let is_its = self.running(&function).is_some_and(|process| process.worker == worker);
        is_its.then_some((function, number))
    }
}

impl FileWatcher {
    fn process(&self) -> Option<&Process> {
        match &self.stage {
            WatcherStage::Starting(process) | WatcherStage::Running(process, _) | WatcherStage::Ending(process) => {
                Some(process)
            }
            WatcherStage::Idle | WatcherStage::Paused(_) => None,
        }
    }
}

/// Returns the directories of entries, by position, each in one form.
pub(crate) fn directories(entries: &[FileTrigger]) -> Vec<Arc<str>> {
    let path = |entry: &FileTrigger| match entry.path.trim_end_matches('/') {
        "" => "/".into(),
        path => path.into(),
    };
    entries.iter().map(path).collect()
}
