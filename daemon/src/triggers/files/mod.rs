//! Watchers of files: the machine's side. A watcher is a process of the function's user (`fnd-helper --watch`) that decides which
//! files are ready. The code here talks to the watcher, and keeps what fnd has to know of it. The methods of
//! [`Watchers`] return effects, which the driver carries out in their order.
//!
//! ```text
//! Idle ──start──▶ Starting ──▶ Running ──killed──▶ Ending ──exit──▶ Idle
//!   ▲                └──failed───┴──ended by itself──▶ Paused ──┐
//!   └───────────────────────────────────────────────────────────┘
//! ```
//!
//! Files:
//! - `messages`: what a watcher may say, what follows, and what fnd says
//! - `talk`: the tasks that write to a watcher and read from it

mod messages;
mod talk;
#[cfg(test)]
mod tests;

use crate::ledger::LedgerReader;
use fnd_core::lifecycle::installed_version::ServingVersion;
use fnd_core::triggers::file::memory::FileMemory;
use fnd_core::triggers::file::message::ToWatcher;
use fnd_manifest::function::FileTrigger;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{ExitStatus, Exited, Request, Spawn};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use messages::FileOffer;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// Pauses after a watcher that ended by itself: this long at first, doubled each time, and never longer than the second.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Why a watcher cannot be started by a spawner of 0.1.
pub(crate) const OLD_SPAWNER: &str = "the running fnd-spawner is older than watchers of files: start it again (`systemctl stop fnd && \
     systemctl start fnd`, which ends running functions)";

/// The watchers of all functions.
pub(crate) struct Watchers {
    /// Has what is remembered of the files.
    ledger: LedgerReader,
    all: BTreeMap<FunctionName, FileWatcher>,
    /// Submissions that the ledger has not stored yet: the function, the worker and the number of the message.
    storing: HashMap<InvocationId, (FunctionName, (WorkerId, u64))>,
}

/// The watcher that a function needs.
#[derive(Debug, Clone)]
pub(crate) struct NeededWatcher {
    id: FunctionId,
    version: Version,
    entries: Rc<[FileTrigger]>,
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
    /// No process is there or was asked for.
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
    pub(crate) tmp: (FunctionId, InvocationId),
    /// The version and the entries for which it was started.
    needed: NeededWatcher,
}

/// A step of the driver for a watcher.
#[derive(Debug, PartialEq)]
pub(crate) enum WatcherEffect {
    /// Start the watcher of the function, once every present action is carried out.
    Start(FunctionName),
    Kill(WorkerId),
    /// Remove the temporary files of a process that has ended.
    ReleaseTmp((FunctionId, InvocationId)),
    /// Tell the spawner that the end of this process is known.
    Acknowledge(WorkerId),
    Store(FileMemory),
    Submit(Box<FileOffer>),
    /// Retire the processes of the function. They may not see a file system that was mounted at the places of its files
    /// meanwhile, or they may keep one that was unmounted.
    Retire(FunctionName, FunctionId),
    /// Say this to the watcher, after everything before it.
    Tell(FunctionName, ToWatcher),
    /// The status of the function has changed, and its problems may have.
    StatusChanged(FunctionName),
}

impl NeededWatcher {
    /// Returns the watcher that a version needs; nothing if it watches no files.
    pub(crate) fn of(serving: &ServingVersion) -> Option<Self> {
        let entries = &serving.manifest.file;
        (!entries.is_empty()).then(|| Self {
            id: serving.id,
            version: serving.version,
            entries: entries.clone().into(),
        })
    }
}

impl Process {
    /// Returns since when the directories of its entries are watched. A directory that is known keeps its time. So a restart
    /// of the watcher does not make waiting files old ones.
    pub(crate) fn since(&self, function: &FunctionName, now_ms: u64) -> FileMemory {
        FileMemory::Since(function.clone(), directories(&self.needed.entries), now_ms)
    }

    /// Returns the request to start it. `record` is its adoption record.
    pub(crate) fn request(&self, record: Vec<u8>) -> Request {
        Request::Watch(Spawn {
            worker: self.worker,
            function: self.tmp.0,
            version: self.needed.version,
            invocation: self.tmp.1,
            environment: Vec::new(),
            input: true,
            previous: false,
            // A watcher runs until fnd kills it.
            lasts_ms: 0,
            record: Bytes(record),
        })
    }
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

    /// Says which watcher a function needs from now on.
    pub(crate) fn needs(&mut self, function: &FunctionName, wanted: Option<NeededWatcher>) -> Vec<WatcherEffect> {
        // Most functions watch nothing.
        if wanted.is_none() && !self.all.contains_key(function) {
            return Vec::new();
        }
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
    fn next(&mut self, function: &FunctionName) -> Vec<WatcherEffect> {
        let changed = WatcherEffect::StatusChanged(function.clone());
        self.step(function).into_iter().chain([changed]).collect()
    }

    fn step(&mut self, function: &FunctionName) -> Option<WatcherEffect> {
        let watcher = self.all.get_mut(function)?;
        match (&watcher.stage, &watcher.wanted) {
            (WatcherStage::Idle | WatcherStage::Paused(_), None) => {
                self.all.remove(function);
                None
            }
            (WatcherStage::Idle, Some(_)) => Some(WatcherEffect::Start(function.clone())),
            (WatcherStage::Running(process, _), Some(wanted)) if wanted.version == process.needed.version => None,
            (WatcherStage::Running(process, _), _) => {
                let process = process.clone();
                let worker = process.worker;
                watcher.stage = WatcherStage::Ending(process);
                Some(WatcherEffect::Kill(worker))
            }
            (WatcherStage::Starting(_) | WatcherStage::Ending(_) | WatcherStage::Paused(_), _) => None,
        }
    }

    /// Returns the process to start for a function that still needs a watcher and has none. `ids` numbers the worker and
    /// names its temporary files. From now on a failure counts as one of this process.
    pub(crate) fn start(
        &mut self,
        function: &FunctionName,
        ids: impl FnOnce() -> (WorkerId, InvocationId),
    ) -> Option<Process> {
        let watcher = self.all.get_mut(function)?;
        if !matches!(watcher.stage, WatcherStage::Idle) {
            return None;
        }
        let needed = watcher.wanted.clone()?;
        let (worker, invocation) = ids();
        let tmp = (needed.id, invocation);
        let process = Process { worker, tmp, needed };
        watcher.stage = WatcherStage::Starting(process.clone());
        Some(process)
    }

    /// Returns the watcher whose process is this worker, after the function of the watcher.
    fn of_worker(&mut self, worker: WorkerId) -> Option<(&FunctionName, &mut FileWatcher)> {
        let is_it = |watcher: &FileWatcher| watcher.process().is_some_and(|process| process.worker == worker);
        self.all.iter_mut().find(|(_, watcher)| is_it(watcher))
    }

    /// Records that the process of a watcher runs, even if it is not wanted any more. `to` takes the messages for it.
    fn runs(&mut self, function: &FunctionName, to: Sender<ToWatcher>) -> Vec<WatcherEffect> {
        if let Some(watcher) = self.all.get_mut(function)
            && let WatcherStage::Starting(process) = &watcher.stage
        {
            watcher.stage = WatcherStage::Running(process.clone(), to);
        }
        self.next(function)
    }

    pub(crate) fn not_started(&mut self, function: &FunctionName, why: &str, now: Duration) -> Vec<WatcherEffect> {
        let why = || format!("its watcher of files cannot be started: {why}");
        self.ended(function, why, (now, None))
    }

    /// Handles the end of a process. Without an effect the worker was no watcher.
    pub(crate) fn exited(&mut self, exited: &Exited, now: Duration) -> Vec<WatcherEffect> {
        let Some((function, _)) = self.of_worker(exited.worker) else {
            return Vec::new();
        };
        let function = function.clone();
        let why = || match exited.status {
            _ if exited.oom_kills > 0 => {
                "its watcher of files needed more memory than `limits.memory` leaves: give the function more".to_owned()
            }
            ExitStatus::Code(code) => format!("its watcher of files ended with code {code}"),
            ExitStatus::Signal(signal) => format!("its watcher of files was ended by signal {signal}"),
        };
        self.ended(&function, why, (now, Some(WatcherEffect::Acknowledge(exited.worker))))
    }

    /// Records that a watcher has no process (any more); `why` if it should have one.
    fn ended(
        &mut self,
        function: &FunctionName,
        why: impl FnOnce() -> String,
        (now, acknowledge): (Duration, Option<WatcherEffect>),
    ) -> Vec<WatcherEffect> {
        let Some(watcher) = self.all.get_mut(function) else {
            return self.next(function);
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
        let release = process.map(|process| WatcherEffect::ReleaseTmp(process.tmp));
        let before = release.into_iter().chain(acknowledge);
        before.chain(self.next(function)).collect()
    }

    /// Records that fnd had no room for the pipes of a watcher, whose process has to be killed.
    pub(crate) fn has_no_pipes(&mut self, function: &FunctionName) {
        if let Some(watcher) = self.all.get_mut(function) {
            watcher.failure = Some("too many files are open in fnd".to_owned());
        }
    }

    /// Lets the watchers start again whose pause is over.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<WatcherEffect> {
        let is_due = |watcher: &FileWatcher| matches!(watcher.stage, WatcherStage::Paused(at) if at <= now);
        let mut due = Vec::new();
        for (name, watcher) in self.all.iter_mut().filter(|(_, watcher)| is_due(watcher)) {
            watcher.stage = WatcherStage::Idle;
            due.push(name.clone());
        }
        due.iter().flat_map(|name| self.next(name)).collect()
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
    fn running(&self, function: &FunctionName) -> Option<&Process> {
        match &self.all.get(function)?.stage {
            WatcherStage::Running(process, _) => Some(process),
            _ => None,
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
}

impl FileWatcher {
    /// Records why a watcher cannot go on, before its process is killed.
    fn fails(&mut self, (function, worker): (&FunctionName, WorkerId), why: String) -> Vec<WatcherEffect> {
        self.failure = Some(why);
        let changed = WatcherEffect::StatusChanged(function.clone());
        vec![WatcherEffect::Kill(worker), changed]
    }

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
fn directories(entries: &[FileTrigger]) -> Vec<Arc<str>> {
    let path = |entry: &FileTrigger| match entry.path.trim_end_matches('/') {
        "" => "/".into(),
        path => path.into(),
    };
    entries.iter().map(path).collect()
}
