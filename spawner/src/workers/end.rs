//! Handles the answers of launchers and the ends of workers. Distinguishes starts that failed because of the function from
//! those that failed because the machine has run out of something.

use super::*;
use rustix::io::Errno;

/// Added to the message of a failed start if the kernel counted a refused fork.
const TOO_MANY: &str = "; the function has as many processes as `limits.pids` allows";

impl WorkerTable {
    /// Reads a launcher's answers and sends its waiting orders. If the launcher has ended, the starts that it did not
    /// answer fail.
    pub fn launcher_ready(&mut self, number: u64, poller: &Poller, out: &mut Outbox) {
        loop {
            // The answer brings descriptors. Without free numbers the kernel would drop them (`MSG_CTRUNC`).
            let waited_for = self.make_room();
            let Some(launcher) = self.launchers.get_mut(&number) else { return };
            // The socket is watched edge-triggered, so everything that waits is sent and read until it would block.
            let waited = launcher.channel.waiting() > 0;
            let flushed = launcher.channel.flush();
            if waited && launcher.channel.waiting() == 0 {
                poller.change(&launcher.channel, (Token::Launcher, number), (true, false));
            }
            match launcher.channel.receive() {
                Ok(Some(frame)) => self.answered(frame, poller, out),
                other => {
                    // This can't fail: the descriptors were freed just now, and no other ones were opened since.
                    self.aside.extend(if waited_for { set_aside() } else { Ok(Vec::new()) }.into_iter().flatten());
                    if other.is_err() || flushed.is_err() {
                        self.launcher_ended(number, out);
                    }
                    return;
                }
            }
        }
    }

    pub(super) fn answered(&mut self, mut frame: Frame, poller: &Poller, out: &mut Outbox) {
        let Ok((id, ((pid, errno), why))) = LauncherAnswer::from_wire(&frame.bytes) else { return };
        let child = frame.descriptors.pop_front().map(|pidfd| Child { pid, pidfd });
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.is_starting()) else { return };
        let request = worker.request;
        if let Some(launcher) = self.launchers.get_mut(&worker.launcher) {
            launcher.answered();
            // The resource that it lacked may be there again: the next start gets a new launcher.
            launcher.retired |= pid == launcher::NEVER;
        }
        match child {
            Some(child) if why.is_empty() => {
                self.hangs.remove(&worker.function);
                let early = std::mem::take(&mut worker.early);
                early.into_iter().for_each(|signal| worker.signal(&child, signal, self.host.containment));
                let watched = poller.add(&child.pidfd, (Token::Worker, id));
                worker.stage = Stage::Running(child, frame.descriptors.pop_front());
                worker.pid = pid;
                let ends = std::mem::take(&mut worker.ready);
                let reply = if worker.channel.is_some() { Reply::SpawnedWithChannel } else { Reply::Spawned };
                // The fingerprints come first: fnd needs them before it reads the first byte of output.
                out.extend(worker.masks(id).map(|masks| (0, masks, Vec::new())));
                out.push((request, reply(worker.spawned(id, !ends.is_empty())), ends));
                if let Err(error) = watched {
                    crate::log!("failed to watch {}: {error}; it is killed", WorkerId(id));
                    self.signal(WorkerId(id), Signal::KILL);
                }
            }
            child => {
                let group = self.active.get(&worker.function).and_then(|active| active.group.as_ref());
                let refused = group.map_or(0, |group| group.counters().pids_refused) > worker.before.pids_refused;
                let full = if refused && child.is_none() { TOO_MANY } else { "" };
                // The child is about to exit, or may be stopped. The spawner does not wait for it here; it is reaped
                // like an orphan.
                let _ = child.map(|child| child.signal(Signal::KILL));
                let error = |errno: u32| Errno::from_raw_os_error(errno.cast_signed());
                let shortage = (1..4096).contains(&errno).then(|| error(errno)).filter(|_| !refused);
                self.failed(id, request, NoStart { why: why + full, shortage, child: None }, out);
            }
        }
    }

    pub(super) fn failed(&mut self, id: u64, request: u64, why: NoStart, out: &mut Outbox) {
        let mut function = FunctionId(0);
        if let Some(worker) = self.workers.remove(&id) {
            function = worker.function;
            self.sockets.extend(worker.socket);
            self.release_launcher(worker.launcher);
            let _ = worker.leaf.map(|leaf| self.clear(leaf));
        }
        out.push((request, self.not_started(WorkerId(id), function, why), Vec::new()));
    }

    /// Returns the answer for a worker of a function that was not started.
    pub fn not_started(&self, worker: WorkerId, function: FunctionId, why: NoStart) -> Reply {
        let group = self.active.get(&function).and_then(|active| active.group.as_ref());
        let node = match why.shortage {
            None => false,
            // Each function also has its own limit of processes and memory.
            Some(Errno::AGAIN | Errno::NOMEM) => group.is_none_or(|group| !group.is_at_its_limits()),
            Some(_) => true,
        };
        let failed = SpawnFailed { worker, message: why.why };
        if node { Reply::NodeCannotStart(failed) } else { Reply::SpawnFailed(failed) }
    }

    pub(super) fn release_launcher(&mut self, number: u64) {
        if let Some(launcher) = self.launchers.get_mut(&number) {
            launcher.live = launcher.live.saturating_sub(1);
            launcher.idle_since = now();
        }
    }

    /// Removes a function's secrets where its launchers have no file systems of their own.
    fn empty_credentials(&self, function: &FunctionName) {
        let dirs = self.host.places.of(&function.file_form());
        for dir in [&dirs.credentials, &dirs.bindings].into_iter().filter(|_| !self.host.lacking.can("mounts")) {
            if let Err(error) = crate::sandbox::secret_files::empty(dir) {
                crate::log!("failed to remove the secrets of {function}: {error}");
            }
        }
    }

    pub(super) fn launcher_ended(&mut self, number: u64, out: &mut Outbox) {
        self.end_launcher(number, &"the function's launcher ended unexpectedly".into(), out);
    }

    /// Kills a launcher: the starts that it did not answer fail. It gets a signal, since a launcher that hangs reads no
    /// order.
    pub(super) fn end_launcher(&mut self, number: u64, why: &NoStart, out: &mut Outbox) {
        let Some(launcher) = self.launchers.remove(&number) else { return };
        // The launcher may be broken or hang. It is killed first, so that no process starts after the children are
        // dead.
        reap::end(&launcher.child);
        let starting = self.workers.iter().filter(|(_, worker)| worker.launcher == number && worker.is_starting());
        let lost: Vec<(u64, u64)> = starting.map(|(id, worker)| (*id, worker.request)).collect();
        for (id, request) in lost {
            // This start had numbers set aside for its answer, which does not come any more.
            self.make_room();
            self.failed(id, request, NoStart { shortage: why.shortage, ..why.why.clone().into() }, out);
        }
        let function = launcher.function;
        if self.launchers.values().any(|other| other.function == function) {
            return;
        }
        self.empty_credentials(&launcher.plan.function);
        if self.is_idle(function) {
            if let Some(Active { group: Some(group), .. }) = self.active.remove(&function) {
                group.remove(); // dropping `oom` closes it, which ends the watch
            }
            let places = self.host.places.of(&launcher.plan.function.file_form());
            places.remove_spare_result();
            self.unbound(function, &places);
        }
    }

    /// Frees the file system of a function's `TMPDIR`, if it is not needed any more.
    pub fn unbound(&self, function: FunctionId, places: &FunctionPlaces) {
        if self.host.own_mounts
            && !self.active.contains_key(&function)
            && let Err(error) = places.unbound()
        {
            crate::log!("failed to unmount `{}`: {error}", places.tmp.display());
        }
    }

    /// Handles the end of a worker's first process.
    pub fn worker_ended(&mut self, id: u64, poller: &Poller, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Stage::Running(child, report) = &mut worker.stage else { return };
        let Some(mut ended) = reap::ended(child) else { return };
        // The launcher may still hold a copy of the descriptor. Then closing ours would not end the watch, and the loop
        // would wake up again and again.
        poller.remove(&child.pidfd);
        let mut stragglers = false;
        if let Some(report) = report.take() {
            // The init sends its report before it ends. An init that was killed sent none; then its own status is used
            // as the function's.
            let frame = Channel::new(report).receive().ok().flatten();
            if let Some(report) = frame.and_then(|frame| InitReport::from_wire(&frame.bytes).ok()) {
                (ended.status, stragglers) = report;
            }
        }
        worker.stage = Stage::Draining(ended, stragglers);
        self.leaf_changed(id, poller, out);
    }

    /// Removes the leaves of workers whose end was reported: fnd need not wait for that.
    pub fn remove_emptied(&mut self) {
        for (id, leaf) in std::mem::take(&mut self.emptied) {
            if let Err(error) = leaf.remove() {
                crate::log!("failed to remove the cgroup of {}, fnd-spawner tries again: {error}", WorkerId(id));
                self.leaving.push(LeavingLeaf::new(leaf));
            }
        }
    }

    /// Handles a change in a leaf: ends the worker if the leaf is empty.
    pub fn leaf_changed(&mut self, id: u64, poller: &Poller, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Stage::Draining(ended, stragglers) = &mut worker.stage else { return };
        let mut usage = cgroup::LeafUsage { cpu_us: ended.cpu_us, memory_peak: None, oom_kills: None };
        if let Some(leaf) = &worker.leaf
            && leaf.populated()
        {
            if std::mem::replace(stragglers, true) {
                return; // they were killed before
            }
            let watched = poller.add(&leaf.events, (Token::Leaf, id));
            match leaf.kill().and(watched) {
                // It may have become empty before the watch began.
                Ok(()) if leaf.populated() => return,
                Ok(()) => {}
                Err(error) => {
                    crate::log!("failed to empty the cgroup of {}, fnd-spawner tries again: {error}", WorkerId(id));
                    usage = leaf.usage();
                    self.leaving.extend(worker.leaf.take().map(LeavingLeaf::new));
                }
            }
        }
        if let Some(leaf) = worker.leaf.take() {
            // The counters are read before the leaf is removed: they go with it.
            usage = leaf.usage();
            self.emptied.push((id, leaf)); // removed when the end is reported
        }
        let group = self.active.get(&worker.function).and_then(|active| active.group.as_ref());
        let now = group.map(Group::counters).unwrap_or_default();
        let exited = Exited {
            worker: WorkerId(id),
            status: ended.status,
            cpu_us: usage.cpu_us,
            // Where the kernel counts no peak of the leaf, the largest process stands for all.
            memory_peak: usage.memory_peak.or(Some(ended.largest)),
            peak_of_largest: usage.memory_peak.is_none(),
            // Version 1 counts for the whole function, so the difference since the start has to do.
            oom_kills: usage.oom_kills.unwrap_or_else(|| now.oom_kills.saturating_sub(worker.before.oom_kills)),
            oom_shared: usage.oom_kills.is_none() && worker.shared,
            pids_refused: now.pids_refused.saturating_sub(worker.before.pids_refused),
            throttled_us: now.throttled_us.saturating_sub(worker.before.throttled_us),
            stragglers: *stragglers,
            late: worker.overtime(),
        };
        worker.over(exited.clone());
        self.sockets.extend(worker.socket.take());
        let number = worker.launcher;
        self.release_launcher(number);
        self.bound_kept();
        out.push((0, Reply::Exited(exited), Vec::new()));
    }
}
