//! The work and the ends of processes: single deeds, signals, time limits, and the reports to fnd.

use super::contents::{Manner, SourceContent};
use super::*;
use fnd_wire::frame::{ExitStatus, Lease};

/// Extra time after a worker's deadline in which a connected fnd may end the worker itself.
const FND_SLACK: Duration = Duration::from_secs(1);

impl SpawnerModel {
    /// Lets a process do one thing.
    pub(super) fn work(&mut self, worker: WorkerId, turn: &mut SpawnerTurn<'_>) {
        let Some(process) = self.processes.get_mut(&worker) else {
            return;
        };
        let ProcessStage::Running(model) = &mut process.stage else {
            return;
        };
        if let Some((status, is_oom)) = model.step(&mut turn.of_worker()) {
            self.end(worker, (status, is_oom), turn);
        }
    }

    /// Ends a process. Its own descriptors are closed with it.
    fn end(&mut self, worker: WorkerId, (status, is_oom): (ExitStatus, bool), turn: &mut SpawnerTurn<'_>) {
        let Some(process) = self.processes.get_mut(&worker) else {
            return;
        };
        let over = ProcessStage::Over(Exited {
            oom_kills: u64::from(is_oom),
            ..exited(worker, status)
        });
        if let ProcessStage::Running(model) = std::mem::replace(&mut process.stage, over) {
            model.end(turn.facts);
        }
        self.homes.ended(worker, status == ExitStatus::Code(0));
    }

    /// Tells fnd that a process has ended. If no fnd is connected, the next fnd is told by the handshake.
    pub(super) fn report(&mut self, worker: WorkerId, now: Now) {
        let Some(process) = self.processes.get_mut(&worker) else {
            return;
        };
        let ProcessStage::Over(exited) = &mut process.stage else {
            return;
        };
        let lasted = now.mono.saturating_sub(process.began);
        if matches!(process.termed, Some((_, TermCause::TimeUp))) {
            exited.late = Some((0, u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX)));
        }
        let exited = exited.clone();
        self.link.send(0, &Reply::Exited(exited.clone()), Vec::new());
        process.stage = ProcessStage::Ended {
            exited,
            lasted,
            at_ms: now.unix_ms,
        };
    }

    /// Forgets a process whose end fnd knows.
    pub(super) fn acknowledge(&mut self, worker: WorkerId, turn: &mut SpawnerTurn<'_>) {
        match self.processes.get(&worker).map(|process| &process.stage) {
            Some(ProcessStage::Ended { .. }) => drop(self.processes.remove(&worker)),
            Some(ProcessStage::Starting(_) | ProcessStage::Running(_) | ProcessStage::Over(_)) => {
                turn.defect(format!("the end of {worker} is acknowledged before it was reported"));
            }
            None => turn.defect(format!(
                "the end of {worker} is acknowledged, which the spawner does not know"
            )),
        }
    }

    /// Ends a process by SIGTERM, and notes the cause.
    pub(super) fn terminate(&mut self, worker: WorkerId, cause: TermCause, turn: &mut SpawnerTurn<'_>) {
        if worker >= self.next_worker {
            turn.defect(format!("SIGTERM is for {worker}, which was never started"));
        }
        let process = self.processes.get_mut(&worker);
        if let Some(process) = process.filter(|process| process.termed.is_none()) {
            // The first cause stays: it is the reason for which the worker ends. The real spawner notes the cause also of
            // one that has ended, until fnd acknowledges the end.
            process.termed = Some((turn.now.mono, cause));
            self.signal(worker, turn);
        }
    }

    /// Sends SIGTERM to a process. One that does not exist yet gets it when it begins.
    pub(super) fn signal(&mut self, worker: WorkerId, turn: &mut SpawnerTurn<'_>) {
        let Some(process) = self.processes.get_mut(&worker) else {
            return;
        };
        if let ProcessStage::Running(model) = &mut process.stage {
            model.term(&mut turn.of_worker());
        }
    }

    /// Sends SIGKILL to a process. One that does not exist yet gets it when it begins.
    pub(super) fn kill(&mut self, worker: WorkerId, turn: &mut SpawnerTurn<'_>) {
        if worker >= self.next_worker {
            turn.defect(format!("SIGKILL is for {worker}, which was never started"));
        }
        let Some(process) = self.processes.get_mut(&worker) else {
            return;
        };
        process.killed = true;
        if matches!(process.stage, ProcessStage::Running(_)) {
            self.end(worker, (ExitStatus::Signal(9), false), turn);
        }
    }

    /// Sets when the time of a process is up. One whose time was up already ends all the same.
    pub(super) fn lease(&mut self, Lease { worker, until_ms }: Lease, turn: &mut SpawnerTurn<'_>) {
        if worker >= self.next_worker {
            turn.defect(format!("a lease is for {worker}, which was never started"));
        }
        if let Some(process) = self.processes.get_mut(&worker) {
            process.until = until_ms.map(Duration::from_millis);
        }
    }

    /// Ends the processes whose time is up.
    pub(super) fn enforce(&mut self, turn: &mut SpawnerTurn<'_>) {
        let slack = self.slack();
        let due = |(worker, process): (&WorkerId, &ProcessRecord)| {
            let is_due = process.ends_at(slack).is_some_and(|at| at <= turn.now.mono);
            is_due.then_some((*worker, process.termed.is_some()))
        };
        let due: Vec<_> = self.processes.iter().filter_map(due).collect();
        for (worker, is_termed) in due {
            if is_termed {
                self.kill(worker, turn);
            } else {
                self.terminate(worker, TermCause::TimeUp, turn);
            }
        }
    }

    /// Returns when the spawner has to end a process next.
    pub(super) fn enforces_at(&self) -> Option<Duration> {
        let slack = self.slack();
        self.processes
            .values()
            .filter_map(|process| process.ends_at(slack))
            .min()
    }

    fn slack(&self) -> Duration {
        if self.link.is_open() { FND_SLACK } else { Duration::ZERO }
    }
}

/// Returns the report of the end of a process that has used nothing.
pub(crate) fn exited(worker: WorkerId, status: ExitStatus) -> Exited {
    Exited {
        worker,
        late: None,
        status,
        cpu_us: 0,
        memory_peak: None,
        peak_of_largest: false,
        oom_kills: 0,
        oom_shared: false,
        pids_refused: 0,
        throttled_us: 0,
        stragglers: false,
    }
}

impl ProcessRecord {
    /// Returns when the process is ended next: by SIGTERM, or by SIGKILL if it got that already.
    fn ends_at(&self, slack: Duration) -> Option<Duration> {
        let grace = match SourceContent::of(self.version).manner() {
            Manner::Hasty => Duration::from_secs(2),
            _ => Duration::from_secs(5),
        };
        match self.termed {
            _ if self.is_over() || self.killed => None,
            None => self.until.map(|until| until + slack),
            Some((at, TermCause::Asked)) => Some(at + grace + slack),
            Some((at, TermCause::TimeUp | TermCause::Stopped)) => Some(at + grace),
        }
    }
}
