//! SIGTERM, SIGKILL, and the killing that cgroup v1 leaves to us.

use super::*;

impl Workers {
    /// Sends SIGTERM to every process of a worker.
    pub fn term(&mut self, id: WorkerId) {
        self.signal(id, Signal::TERM);
    }

    /// Kills every process of a worker.
    pub fn kill(&mut self, id: WorkerId) {
        self.signal(id, Signal::KILL);
    }

    pub(super) fn signal(&mut self, id: WorkerId, signal: Signal) {
        let containment = self.host.containment;
        let Some(worker) = self.workers.get_mut(&id.0) else {
            return;
        };
        if let Stage::Running { child, .. } = &worker.stage {
            worker.signal(child, signal, containment);
        } else if matches!(worker.stage, Stage::Starting { .. }) {
            worker.early.push(signal); // it may not be born yet
        }
    }

    /// Memory of a v1 group ran out: there is no `oom.group`, so what is left of the only worker is killed here. With more
    /// than one it can't be told whose process the kernel chose.
    pub fn oom(&mut self, function: u64) {
        let Ok(function) = u32::try_from(function) else { return };
        if let Some(active) = self.active.get_mut(&FunctionId(function)) {
            if let Some(oom) = &active.oom {
                let _ = rustix::io::read(oom, &mut [0; 8]); // only to make it unreadable
            }
            active.look_again = Some((crate::clock::now(), 20));
        }
        self.look_for_oom();
    }

    pub(super) fn look_for_oom(&mut self) {
        let now = crate::clock::now();
        for (function, active) in &mut self.active {
            let Some((_, tries)) = active.look_again.filter(|(at, _)| *at <= now) else {
                continue;
            };
            let kills = active.group.as_ref().map_or(0, |group| group.counters().oom_kills);
            if kills == active.oom_seen {
                active.look_again = tries.checked_sub(1).map(|left| (now + OOM_AGAIN, left));
                continue;
            }
            (active.oom_seen, active.look_again) = (kills, None);
            let is_running =
                |worker: &&Worker| worker.function == *function && matches!(worker.stage, Stage::Running { .. });
            let mut running = self.workers.values().filter(is_running);
            if let (Some(only), None) = (running.next(), running.next())
                && let Some(leaf) = &only.leaf
            {
                let _ = leaf.kill(); // one that is gone already needs none
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
