//! SIGTERM, SIGKILL, and the killing that cgroup v1 leaves to us.

use super::*;

impl Workers {
    /// Sends SIGTERM or SIGKILL to every process of a worker; one that is gone needs none.
    pub fn signal(&mut self, id: WorkerId, signal: Signal) {
        let containment = self.host.containment;
        let Some(worker) = self.workers.get_mut(&id.0) else {
            return;
        };
        if let Stage::Running { child, .. } = &worker.stage {
            worker.signal(child, signal, containment);
        } else if worker.is_starting() {
            // What is between clone and program has nothing to tidy up; it may be stopped, so that only killing ends it.
            let _ = worker.leaf.as_ref().map(Leaf::kill);
            worker.early.push(signal); // it may not be born yet
        }
    }

    /// Memory of a v1 group ran out.
    pub fn oom(&mut self, function: u64) {
        let Ok(function) = u32::try_from(function) else { return };
        if let Some(active) = self.active.get_mut(&FunctionId(function)) {
            let _ = active.oom.as_ref().map(|oom| rustix::io::read(oom, &mut [0; 8])); // only to make it unreadable
            active.oom_until = Some(now() + OOM_AGAIN.1);
        }
    }

    /// There is no `oom.group` in v1, so what the kernel left of the only worker is killed here. With more than one it can't
    /// be told whose process it chose.
    pub(super) fn check_oom(&mut self, now: Duration) {
        for (function, active) in &mut self.active {
            let (Some(until), Some(group)) = (active.oom_until, &active.group) else { continue };
            let running =
                |worker: &&Worker| worker.function == *function && matches!(worker.stage, Stage::Running { .. });
            let mut running = self.workers.values().filter(running);
            let (only, another) = (running.next(), running.next());
            let killed = only.is_some_and(|only| group.counters().oom_kills > only.before.oom_kills);
            if killed && another.is_none() {
                let _ = only.and_then(|only| only.leaf.as_ref()).map(Leaf::kill); // one that is gone already needs none
            }
            if killed || only.is_none() || another.is_some() || now >= until {
                active.oom_until = None;
            }
        }
    }
}

impl Worker {
    /// SIGKILL or SIGTERM for the whole tree. A process that is gone is no error.
    pub(super) fn signal(&self, child: &Child, signal: Signal, containment: Containment) {
        match (&self.leaf, signal == Signal::KILL) {
            (Some(leaf), true) => drop(leaf.kill()),
            (Some(leaf), false) => {
                for pid in leaf.processes() {
                    let open = |pid| pidfd_open(pid, PidfdFlags::empty()).ok();
                    let pidfd = Pid::from_raw(pid).and_then(open);
                    // The number may have passed to another process between reading and opening; in the leaf it is ours.
                    if let Some(pidfd) = pidfd.filter(|_| leaf.processes().contains(&pid)) {
                        let _ = pidfd_send_signal(&pidfd, signal);
                    }
                }
            }
            (None, kill) => {
                // The init passes SIGTERM on; without a namespace it also has to do the killing itself.
                let told = match (kill, containment) {
                    (true, Containment::Subreaper) => Signal::USR1,
                    (true, Containment::Cgroup | Containment::PidNamespace) => Signal::KILL,
                    (false, _) => Signal::TERM,
                };
                child.signal(told);
            }
        }
    }
}
