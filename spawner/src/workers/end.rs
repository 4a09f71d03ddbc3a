//! What launchers answer and how workers end.

use super::*;

impl Workers {
    /// Reads a launcher's answers, and sends what waits for it.
    pub fn launcher_ready(&mut self, number: u64, poller: &Poller, out: &mut Outbox) {
        loop {
            let Some(launcher) = self.launchers.get_mut(&number) else { return };
            let flushed = launcher.channel.flush();
            match launcher.channel.receive() {
                Ok(Some(frame)) if !frame.bytes.is_empty() => self.answered(frame, poller, out),
                Ok(None) if flushed.is_ok() => return,
                _ => {
                    // It ended or broke: what it had begun to start is settled when its end is seen.
                    launcher.child.signal(Signal::KILL);
                    return;
                }
            }
        }
    }

    pub(super) fn answered(&mut self, mut frame: Frame, poller: &Poller, out: &mut Outbox) {
        let Ok((id, (pid, (step, errno)))) = Answer::from_wire(&frame.bytes) else {
            return;
        };
        let child = frame.descriptors.pop_front().map(|pidfd| Child { pid, pidfd });
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Stage::Starting { request, ends } = &mut worker.stage else { return };
        let (request, ends) = (*request, std::mem::take(ends));
        match child {
            Some(child) if errno == 0 => {
                for signal in std::mem::take(&mut worker.early) {
                    worker.signal(&child, signal, self.host.containment);
                }
                let spawned = Spawned {
                    worker: WorkerId(id),
                    pid,
                    stdout: true,
                    stderr: true,
                    result: true,
                    kill: worker.leaf.is_some(),
                };
                let watched = poller.add(&child.pidfd, Token::Worker(id));
                worker.stage = Stage::Running { child, report: frame.descriptors.pop_front() };
                out.push((request, Reply::Spawned(spawned), ends));
                if let Err(error) = watched {
                    crate::log!("failed to watch {}: {error}; it is killed", WorkerId(id));
                    self.kill(WorkerId(id));
                }
            }
            child => {
                if let Some(child) = child {
                    // It exits right after its step failed, or died before it could say more.
                    let _ = reap::wait(&child);
                }
                let error = CloneError::at(usize::try_from(step).unwrap_or(0), errno);
                self.failed(id, request, error.to_string(), out);
            }
        }
    }

    pub(super) fn failed(&mut self, id: u64, request: u32, message: String, out: &mut Outbox) {
        if let Some(worker) = self.workers.remove(&id) {
            if let Some(leaf) = &worker.leaf {
                let _ = leaf.kill().and_then(|()| leaf.remove()); // the function's group goes at the latest with the spawner
            }
            self.release_launcher(worker.launcher);
        }
        out.push((request, Reply::SpawnFailed(SpawnFailed { worker: WorkerId(id), message }), Vec::new()));
    }

    pub(super) fn release_launcher(&mut self, number: u64) {
        if let Some(launcher) = self.launchers.get_mut(&number) {
            launcher.live = launcher.live.saturating_sub(1);
            launcher.idle_since = crate::clock::now();
        }
    }

    /// A launcher ended: its answers that came are read, starts it did not answer failed.
    pub fn launcher_ended(&mut self, number: u64, poller: &Poller, out: &mut Outbox) {
        self.launcher_ready(number, poller, out);
        let Some(launcher) = self.launchers.remove(&number) else { return };
        let _ = reap::ended(&launcher.child);
        let starting = |(id, worker): (&u64, &Worker)| match worker.stage {
            Stage::Starting { request, .. } if worker.launcher == number => Some((*id, request)),
            _ => None,
        };
        let lost: Vec<(u64, u32)> = self.workers.iter().filter_map(starting).collect();
        for (id, request) in lost {
            self.failed(id, request, "the function's launcher ended unexpectedly".to_owned(), out);
        }
        let function = launcher.function;
        let in_use = self.launchers.values().any(|other| other.function == function)
            || self.workers.values().any(|worker| worker.function == function && !worker.is_over());
        if !in_use && let Some(Active { group: Some(group), .. }) = self.active.remove(&function) {
            group.remove(); // closing `oom` ends watching it
        }
    }

    /// A worker's first process ended.
    pub fn worker_ended(&mut self, id: u64, poller: &Poller, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Stage::Running { child, report } = &mut worker.stage else { return };
        let Some(mut ended) = reap::ended(child) else { return };
        let mut stragglers = false;
        if let Some(report) = report.take() {
            // The init wrote it before it ended; one that was killed did not, and its own end stands for the function's.
            if let Ok((status, left)) = crate::contain::record(&mut File::from(report)) {
                ended.status = crate::contain::status(status);
                stragglers = left != 0;
            }
        }
        let populated = worker.leaf.as_ref().is_some_and(Leaf::populated);
        worker.stage = Stage::Draining { ended, stragglers: stragglers || populated };
        if let Some(leaf) = worker.leaf.as_ref().filter(|_| populated) {
            let _ = poller.add(&leaf.events, Token::Leaf(id));
            if let Err(error) = leaf.kill() {
                crate::log!("failed to kill what {} left: {error}", WorkerId(id));
            }
        }
        self.leaf_changed(id, poller, out);
    }

    /// A leaf may be empty now.
    pub fn leaf_changed(&mut self, id: u64, poller: &Poller, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Stage::Draining { ended, stragglers } = worker.stage else { return };
        let mut usage = cgroup::Usage { cpu_us: ended.cpu_us, memory_peak: None, oom_kills: None };
        if let Some(leaf) = &worker.leaf {
            if leaf.populated() {
                return;
            }
            usage = leaf.usage(); // before it is removed
            poller.remove(&leaf.events);
            if let Err(error) = leaf.remove() {
                crate::log!("failed to remove the cgroup of {}: {error}", WorkerId(id));
            }
        }
        let group = self.active.get(&worker.function).and_then(|active| active.group.as_ref());
        let now = group.map(Group::counters).unwrap_or_default();
        let exited = Exited {
            worker: WorkerId(id),
            status: ended.status,
            cpu_us: usage.cpu_us,
            memory_peak: usage.memory_peak.or(Some(ended.largest)),
            peak_of_largest: usage.memory_peak.is_none(),
            oom_kills: usage.oom_kills.unwrap_or_else(|| now.oom_kills.saturating_sub(worker.before.oom_kills)),
            oom_shared: usage.oom_kills.is_none() && worker.shared,
            pids_refused: now.pids_refused.saturating_sub(worker.before.pids_refused),
            throttled_us: now.throttled_us.saturating_sub(worker.before.throttled_us),
            stragglers,
        };
        worker.leaf = None;
        worker.stage = Stage::Ended(exited.clone());
        let number = worker.launcher;
        self.release_launcher(number);
        out.push((0, Reply::Exited(exited), Vec::new()));
    }
}
