//! Sends stop signals and SIGKILL, and does the killing that cgroup v1 leaves to the spawner.

use super::*;

impl WorkerTable {
    /// Sends a stop signal or SIGKILL to every process of a worker; does nothing if the worker has ended.
    pub fn signal(&mut self, id: WorkerId, signal: Signal) {
        let containment = self.host.containment;
        let Some(worker) = self.workers.get_mut(&id.0) else { return };
        if let Stage::Running(child, _) = &worker.stage {
            worker.signal(child, signal, containment);
        } else if worker.is_starting() {
            // A process between clone and exec has nothing to clean up. The process may be stopped, so only SIGKILL
            // ends it.
            let _ = worker.leaf.as_ref().map(Leaf::kill);
            worker.early.push(signal); // the process may not exist yet
        }
    }

    /// Handles the event that the memory of a v1 group ran out.
    pub fn oom(&mut self, function: u64) {
        let Ok(function) = u32::try_from(function) else { return };
        if let Some(active) = self.active.get_mut(&FunctionId(function)) {
            // Reading resets the event, so that it is not readable any more.
            let _ = active.oom.as_ref().map(|oom| rustix::io::read(oom, &mut [0; 8]));
            active.oom_until = Some(now() + OOM_AGAIN.1);
        }
    }

    /// Finishes an OOM kill in v1, which has no `oom.group`: if the function has only one worker, its remaining
    /// processes are killed here. With more workers it is unknown whose process the kernel chose.
    pub(super) fn check_oom(&mut self, now: Duration) {
        for (function, active) in &mut self.active {
            let (Some(until), Some(group)) = (active.oom_until, &active.group) else { continue };
            let running =
                |worker: &&WorkerProcess| worker.function == *function && matches!(worker.stage, Stage::Running(..));
            let mut running = self.workers.values().filter(running);
            let (only, another) = (running.next(), running.next());
            let killed = only.is_some_and(|only| group.counters().oom_kills > only.before.oom_kills);
            if killed && another.is_none() {
                let _ = only.and_then(|only| only.leaf.as_ref()).map(Leaf::kill); // an error means that it has ended
            }
            if killed || only.is_none() || another.is_some() || now >= until {
                active.oom_until = None;
            }
        }
    }
}

impl WorkerProcess {
    /// Sends SIGKILL or a stop signal to the whole process tree. A process that has ended is no error.
    pub(super) fn signal(&self, child: &Child, signal: Signal, containment: Containment) {
        match (&self.leaf, signal == Signal::KILL) {
            (Some(leaf), true) => drop(leaf.kill()),
            (Some(leaf), false) => {
                for pid in leaf.processes() {
                    let pidfd = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
                    // The number may have passed to another process between reading and opening. If it is still in the
                    // leaf, the process is the worker's.
                    if let Some(pidfd) = pidfd.filter(|_| leaf.processes().contains(&pid)) {
                        let _ = pidfd_send_signal(&pidfd, signal);
                    }
                }
            }
            // The init passes a stop signal on. Without a namespace it also does the killing.
            (None, true) if containment == Containment::Subreaper => child.signal(Signal::ALARM),
            (None, _) => child.signal(signal),
        }
    }
}
