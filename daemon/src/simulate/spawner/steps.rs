//! The steps of the spawner and of its processes. The seed chooses among those that are possible now.

use super::*;
use std::fmt;

/// A step that is possible now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnerStep {
    /// It carries out the oldest request that has come.
    Request,
    /// It answers one of the installations that wait, or a reload.
    Install(usize),
    /// A helper that removes or copies files ends.
    Helper(usize),
    /// A process begins, and the start is answered.
    Start(WorkerId),
    /// A process does one thing.
    Work(WorkerId),
    /// The end of a process is reported.
    Report(WorkerId),
    /// It ends the processes whose time is up.
    Enforce,
    /// It sends packets that fnd's socket did not take before.
    Flush,
}

impl fmt::Display for SpawnerStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("the spawner carries out a request"),
            Self::Install(index) => write!(f, "the spawner answers request {index} to the judge"),
            Self::Helper(index) => write!(f, "helper {index} of the spawner ends"),
            Self::Start(worker) => write!(f, "the spawner starts {worker}"),
            Self::Work(worker) => write!(f, "{worker} goes on"),
            Self::Report(worker) => write!(f, "the spawner reports the end of {worker}"),
            Self::Enforce => f.write_str("the spawner ends processes whose time is up"),
            Self::Flush => f.write_str("the spawner sends what waits"),
        }
    }
}

impl SpawnerModel {
    /// Reads everything that fnd has sent to the spawner and to workers. Later steps carry the requests out.
    pub(crate) fn hear(&mut self, turn: &mut SpawnerTurn<'_>) {
        // Frames stay in the socket of a silent spawner, so that the socket may become full.
        if !self.is_silent(turn.now) {
            self.silent_until = None;
            self.link.read();
        }
        for process in self.processes.values_mut() {
            if let ProcessStage::Running(model) = &mut process.stage {
                model.read(&mut turn.of_worker());
            }
        }
    }

    /// Adds the steps that are possible now.
    pub(crate) fn steps(&self, now: Now, out: &mut Vec<SpawnerStep>) {
        let is_silent = self.is_silent(now);
        let mut launchers = BTreeSet::new();
        for (worker, process) in &self.processes {
            match &process.stage {
                // Each launcher starts its processes in order.
                ProcessStage::Starting(_) if !is_silent && launchers.insert((process.id, process.version)) => {
                    out.push(SpawnerStep::Start(*worker));
                }
                ProcessStage::Running(model) if model.wakes_at().is_some_and(|at| at <= now.mono) => {
                    out.push(SpawnerStep::Work(*worker));
                }
                ProcessStage::Over(_) if !is_silent => out.push(SpawnerStep::Report(*worker)),
                // Nothing is due for this process now, or the spawner is silent.
                ProcessStage::Starting(_)
                | ProcessStage::Running(_)
                | ProcessStage::Over(_)
                | ProcessStage::Ended { .. } => {}
            }
        }
        if is_silent {
            return;
        }
        out.extend((!self.link.requests.is_empty()).then_some(SpawnerStep::Request));
        out.extend(self.link.is_full().then_some(SpawnerStep::Flush));
        out.extend(self.judge_work_in_any_order().map(SpawnerStep::Install));
        out.extend((0..self.helpers.len()).map(SpawnerStep::Helper));
        let is_due = self.enforces_at().is_some_and(|at| at <= now.mono);
        out.extend(is_due.then_some(SpawnerStep::Enforce));
    }

    /// Does one of the steps that [`SpawnerModel::steps`] has named.
    pub(crate) fn step(&mut self, step: SpawnerStep, turn: &mut SpawnerTurn<'_>) {
        match step {
            SpawnerStep::Request => self.carry_out(turn),
            SpawnerStep::Install(index) => {
                if let Some(work) = self.judge_queue.remove(index) {
                    self.finish_judge_work(work, turn.files);
                }
            }
            SpawnerStep::Helper(index) => {
                let (request, work) = self.helpers.remove(index);
                self.finish_helper(request, work);
            }
            SpawnerStep::Start(worker) => self.start(worker, turn),
            SpawnerStep::Work(worker) => self.work(worker, turn),
            SpawnerStep::Report(worker) => self.report(worker, turn.now),
            SpawnerStep::Enforce => self.enforce(turn),
            SpawnerStep::Flush => self.link.flush(),
        }
    }

    /// Returns when there is a step again that only waits for its time.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        let of_worker = |process: &ProcessRecord| match &process.stage {
            ProcessStage::Running(model) => model.wakes_at(),
            ProcessStage::Starting(_) | ProcessStage::Over(_) | ProcessStage::Ended { .. } => None,
        };
        let workers = self.processes.values().filter_map(of_worker);
        // A silent spawner ends no process.
        let own = [self.silent_until.or_else(|| self.enforces_at())];
        workers.chain(own.into_iter().flatten()).min()
    }
}
