//! The functions that wait for their dependencies, and the ends of the builds that they wait for. It starts nothing.

use crate::functions::install::read_document;
use crate::views::trees::tree_bytes;
use fnd_core::instant;
use fnd_core::lifecycle::SourceFiles;
use fnd_core::lifecycle::builds::{Builds, Waiter};
use fnd_core::records::InvocationRecord;
use fnd_core::records::outcome::RunState as InvocationState;
use fnd_manifest::judge::Verdict;
use fnd_wire::form::Bytes;
use fnd_wire::frame::Installed;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan::is_builder;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use tokio::sync::oneshot;

/// How many of the last lines of a failed installation are shown with the function.
const LINES: usize = 5;

/// The functions that wait for their dependencies.
#[derive(Debug, Default)]
pub(crate) struct WaitingBuilds {
    pub(super) books: Builds,
    pub(super) waiting: HashMap<Waiter, WaitingBuild>,
    /// The last tree of a function's file that could not be built, and why.
    pub(in crate::driver) failed: HashMap<FunctionName, (Version, String)>,
    /// The newest build of each function.
    pub(super) last: HashMap<FunctionName, InvocationId>,
    /// The builds that made trees, since fnd started.
    pub(super) made: HashMap<Version, InvocationId>,
    /// The versions of `fnd-build` that build the wanted trees.
    pub(super) versions: HashMap<Version, Installed>,
    /// Whether what builds of an earlier fnd have left is removed.
    pub(super) is_swept: bool,
    /// Bytes of all trees; absent: to be counted.
    pub(super) bytes: Cell<Option<u64>>,
    /// Callers that wait until a function is installed, or cannot be.
    pub(super) callers: Vec<(FunctionName, oneshot::Sender<Result<(), String>>)>,
}

/// A function that waits.
#[derive(Debug)]
pub(super) struct WaitingBuild {
    pub(super) candidate: SourceFiles,
    pub(super) document: Bytes,
    pub(super) since_ms: u64,
    pub(super) task: BuildTask,
    pub(super) tree: Version,
}

/// The work of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BuildTask {
    /// It fetches the code.
    Fetch,
    /// It installs the dependencies.
    Install,
    /// It compiles the code.
    Compile,
}

impl BuildTask {
    pub(super) fn of(document: &Bytes) -> Self {
        match read_document::<Verdict>(document) {
            Ok(verdict) if verdict.to_fetch().is_some() => Self::Fetch,
            Ok(verdict) if verdict.compiled => Self::Compile,
            _ => Self::Install,
        }
    }
}

/// The end of an invocation of `fnd-build`.
#[derive(Debug)]
pub(crate) struct BuildEnd {
    pub(super) id: InvocationId,
    pub(super) outcome: Result<(), String>,
    /// Its last line of output.
    pub(super) last: String,
}

impl BuildEnd {
    /// Returns the end of an invocation, if it is one of `fnd-build`; `output` is the last lines that it printed.
    pub(in crate::driver) fn of(record: &InvocationRecord, output: &str) -> Option<Self> {
        if !is_builder(record.function.as_str()) || !record.state.is_final() {
            return None;
        }
        let lines: Vec<_> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
        let reason = record.reason.map(|reason| reason.to_string()).unwrap_or_default();
        // The first line of this text is the reason (`build_failed`), so the message must not have more lines than one.
        let why = format!("({reason}): {}\n{}", record.message.replace('\n', " "), last.join("\n"));
        Some(Self {
            id: record.id,
            outcome: (record.state == InvocationState::Succeeded).then_some(()).ok_or(why),
            last: last.last().copied().unwrap_or_default().to_owned(),
        })
    }
}

impl WaitingBuilds {
    /// Returns whether the code of a function is being fetched for its file.
    pub(in crate::driver) fn is_fetching(&self, function: &FunctionName) -> bool {
        let function = function.clone();
        let waiting = self.waiting.get(&Waiter { function, copy: false });
        waiting.is_some_and(|waiting| waiting.task == BuildTask::Fetch)
    }

    /// Returns whether the file of a function waits for a build.
    pub(crate) fn is_waiting(&self, function: &FunctionName) -> bool {
        let function = function.clone();
        self.waiting.contains_key(&Waiter { function, copy: false })
    }

    /// Says that the file of a function waits for its dependencies, if it does.
    pub(in crate::driver) fn words(&self, function: &FunctionName) -> Option<String> {
        let file = Waiter {
            function: function.clone(),
            copy: false,
        };
        let waiting = self.waiting.get(&file)?;
        let since = instant::text(waiting.since_ms);
        let has_begun = self.books.invocation_for(&file).is_some();
        let step = match (waiting.task, has_begun) {
            (BuildTask::Install, true) => "dependencies are being installed",
            (BuildTask::Install, false) => "dependencies wait for another installation",
            (BuildTask::Fetch, true) => "code is being fetched",
            (BuildTask::Compile, true) => "code is being compiled",
            (BuildTask::Fetch | BuildTask::Compile, false) => "code waits for an installation",
        };
        Some(format!("its {step} since {since}: `fndctl logs {function} --build -f`"))
    }

    /// Returns the newest build of a function, since fnd started.
    pub(in crate::driver) fn last(&self, function: &FunctionName) -> Option<InvocationId> {
        self.last.get(function).copied()
    }

    /// Returns the bytes of all trees in a directory.
    pub(in crate::driver) fn bytes(&self, trees: &Path) -> u64 {
        if self.bytes.get().is_none() {
            let all = std::fs::read_dir(trees).into_iter().flatten().flatten();
            self.bytes
                .set(Some(all.filter_map(|tree| tree_bytes(&tree.path())).sum()));
        }
        self.bytes.get().unwrap_or_default()
    }

    /// Notes which functions the current build is for.
    pub(super) fn note(&mut self) {
        for waiter in self.waiting.keys() {
            if let Some(id) = self.books.invocation_for(waiter) {
                self.last.insert(waiter.function.clone(), id);
            }
        }
    }

    /// Forgets what is gone, or was judged anew.
    pub(in crate::driver) fn forget(&mut self, waiter: &Waiter) {
        if self.waiting.remove(waiter).is_some() {
            self.books.forget(waiter);
        }
    }
}
