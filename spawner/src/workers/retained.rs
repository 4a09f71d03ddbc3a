//! Keeps workers that outlive an fnd: reports them to the next fnd, ends them at their time while none is connected,
//! and keeps their exits on disk while the spawner is stopped.

use super::*;
use crate::clock::unix_ms;
use fnd_wire::form::WireError;
use fnd_wire::frame::{AdoptionRecord, Lease, Masked, RECORD_MAX, RECORDS_MAX, RetainedWorker, StoredExit};
use rustix::fs::{MemfdFlags, memfd_create};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;

/// Largest number of ended workers whose descriptors are kept until fnd has acknowledged their exits. There are more
/// only if fnd can't write its records to the disk; then the oldest lose their descriptors. A record without the last
/// output is better than a start that fails for want of descriptors.
const KEPT_MAX: usize = 1000;
/// Largest number of bytes of a pipe or a result that are kept over a stop.
const REST_MAX: u64 = 16 << 20;

impl WorkerTable {
    /// Returns the reports for a new fnd about the workers of an earlier one: first the workers, then
    /// the exits.
    pub fn held(&self, now: Duration) -> Vec<(Reply, Vec<OwnedFd>)> {
        let mut reports: Vec<(Reply, Vec<OwnedFd>)> = Vec::new();
        for (id, worker) in &self.workers {
            let ends = worker.copies();
            let reply = if worker.channel.is_some() { Reply::HeldWithChannel } else { Reply::Held };
            reports.extend(worker.masks(*id).map(|masks| (masks, Vec::new())));
            reports.push((reply(worker.hold(*id, !ends.is_empty(), now)), ends));
        }
        let late = |worker: &WorkerProcess| {
            let Stage::Ended(exited, lasted, at_ms) = &worker.stage else { return None };
            // By the wall clock: an earlier spawner may have stored this exit, even before a boot.
            let ago = unix_ms().saturating_sub(*at_ms).saturating_mul(1000);
            let lasted = u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX);
            Some((Reply::Exited(Exited { late: Some((ago, lasted)), ..exited.clone() }), Vec::new()))
        };
        reports.extend(self.workers.values().filter_map(late));
        reports
    }

    /// Replaces a worker's adoption record, and its socket by the connection that fnd accepted there.
    pub fn set_record(&mut self, AdoptionRecord { worker, record }: AdoptionRecord, connection: Option<Closing>) {
        let before = self.workers.get(&worker.0).map_or(0, |worker| worker.record.0.len());
        let fits = record.0.len() <= RECORD_MAX && self.records_len() - before + record.0.len() <= RECORDS_MAX;
        if let Some(worker) = self.workers.get_mut(&worker.0).filter(|_| fits) {
            worker.record = record;
            worker.channel = connection.or(worker.channel.take());
        }
    }

    /// Sets when a worker's time is up, in place of the time before. One whose time was up already ends all the same.
    pub fn lease(&mut self, Lease { worker, until_ms }: Lease) {
        let until = until_ms.map(Duration::from_millis);
        self.workers.get_mut(&worker.0).into_iter().for_each(|worker| worker.until = until);
        self.recheck_at(until);
    }

    /// Returns the size of all adoption records in bytes.
    pub(super) fn records_len(&self) -> usize {
        self.workers.values().map(|worker| worker.record.0.len()).sum()
    }

    /// Returns whether a start is under way.
    pub fn any_starting(&self) -> bool {
        self.workers.values().any(WorkerProcess::is_starting)
    }

    /// Sends the stop signal to every process of a worker, once, and records the cause.
    pub fn terminate(&mut self, id: WorkerId, cause: TermCause) {
        // Many programs take a second stop signal as the order to end at once. The first cause is the reason for which the worker ends.
        let Some(worker) = self.workers.get_mut(&id.0).filter(|worker| worker.termed.is_none()) else { return };
        worker.termed = Some((now(), cause));
        let stop = worker.stop.unwrap_or(Signal::TERM);
        // `enforce` has to find anew when a worker's time is over, since the grace begins now.
        self.recheck_at(Some(now()));
        self.signal(id, stop);
    }

    /// Ends workers whose time is up. `slack` is the extra time in which a connected fnd may do so itself; fnd also has
    /// this time to kill a worker that it terminated.
    pub fn enforce(&mut self, now: Duration, slack: Duration) {
        // When fnd connects or leaves, the slack changes, and with it the deadline of every worker.
        let same = std::mem::replace(&mut self.slack, slack) == slack;
        if same && self.enforce_at.is_none_or(|at| at > now) {
            return;
        }
        for (id, grace) in self.running() {
            let is_due = |worker: &&mut WorkerProcess| worker.due(grace, slack).is_some_and(|at| at <= now);
            let Some(worker) = self.workers.get_mut(&id.0).filter(is_due) else { continue };
            worker.killed = worker.termed.is_some();
            if worker.killed { self.signal(id, Signal::KILL) } else { self.terminate(id, TermCause::TimeUp) }
        }
        let due = |(id, grace): (WorkerId, Duration)| self.workers.get(&id.0)?.due(grace, slack);
        self.enforce_at = self.running().into_iter().filter_map(due).min();
    }

    /// Makes sure that [`enforce`](Self::enforce) runs at this time.
    pub(super) fn recheck_at(&mut self, at: Option<Duration>) {
        self.enforce_at = self.enforce_at.into_iter().chain(at).min();
    }

    /// Drops the descriptors of the oldest ended workers if there are too many.
    pub(super) fn bound_kept(&mut self) {
        let with_ends = |worker: &&mut WorkerProcess| worker.is_over() && !worker.ends.is_empty();
        let mut ended: Vec<&mut WorkerProcess> = self.workers.values_mut().filter(with_ends).collect();
        let excess = ended.len().saturating_sub(KEPT_MAX);
        for worker in ended.iter_mut().take(excess) {
            (worker.ends, worker.channel) = (Vec::new(), None);
        }
    }

    /// Writes the exits that fnd has not acknowledged to a file; writes nothing if there are none.
    pub fn store_ends(&self, path: &Path) -> io::Result<()> {
        let keep = |(id, worker): (&u64, &WorkerProcess)| {
            let Stage::Ended(exited, lasted, at_ms) = &worker.stage else { return None };
            // Output that could hold secrets is not written to the disk.
            let ends = if worker.masks.fingerprints.is_empty() { &worker.ends[..] } else { &[] };
            let rest: Vec<Bytes> = ends.iter().enumerate().map(read_rest).collect();
            let held = worker.hold(*id, !rest.is_empty(), worker.began + *lasted);
            Some(StoredExit { held, exited: exited.clone(), at_ms: *at_ms, rest })
        };
        let kept: Vec<StoredExit> = self.workers.iter().filter_map(keep).collect();
        if kept.is_empty() { Ok(()) } else { crate::places::replace(path, &kept.to_wire()) }
    }

    /// Restores the exits that [`store_ends`](Self::store_ends) wrote. The file stays until all of them are
    /// acknowledged.
    pub fn restore_ends(&mut self, path: &Path) -> Result<(), String> {
        let Some(bytes) = places::if_there(fs::read(path)).failed("read the stored exits")? else { return Ok(()) };
        let kept = decode_kept(&bytes).or_else(|error| {
            // Without these exits the ledger records the runs as interrupted, which is not wrong. The file stays so
            // that people can examine it.
            crate::log!("`{}` is damaged ({error}) and is moved to `exits.corrupt`", path.display());
            fs::rename(path, path.with_extension("corrupt")).map(|()| Vec::new())
        });
        for StoredExit { held, exited, at_ms, rest } in kept.failed("set the stored exits aside")? {
            let id = held.spawned.worker.0;
            let ends = rest.iter().enumerate().map(write_rest).collect::<io::Result<_>>().failed("restore output")?;
            let termed = held.termed.map(|(_, cause)| (now(), cause));
            let began = now().saturating_sub(Duration::from_millis(held.age_ms));
            let stage = Stage::Ended(exited, Duration::from_millis(held.age_ms), at_ms);
            let (record, killed) = (held.record, true);
            // The earlier spawner has removed its socket and its leaf.
            let new = WorkerProcess { record, ends, began, termed, killed, stage, ..WorkerProcess::default() };
            self.workers.insert(id, new);
            self.next = self.next.max(id + 1);
        }
        self.kept = Some(path.to_owned());
        Ok(())
    }
}

impl WorkerProcess {
    /// Returns when the worker is ended next: by its stop signal, or with SIGKILL if it got that already. If fnd terminated it,
    /// fnd may kill it first.
    fn due(&self, grace: Duration, slack: Duration) -> Option<Duration> {
        match self.termed {
            None => self.until.map(|until| until + slack),
            Some(_) if self.killed => None,
            Some((at, TermCause::Asked)) => Some(at + grace + slack),
            Some((at, _)) => Some(at + grace),
        }
    }

    /// Returns the time since the worker's end (0, since it is now) and how long it ran, if it was ended for its time:
    /// fnd may not have noticed the end. In microseconds.
    pub(super) fn overtime(&self) -> Option<(u64, u64)> {
        let over = (0, u64::try_from(now().saturating_sub(self.began).as_micros()).unwrap_or(u64::MAX));
        matches!(self.termed, Some((_, TermCause::TimeUp))).then_some(over)
    }

    /// Records the worker's exit.
    pub(super) fn over(&mut self, exited: Exited) {
        self.stage = Stage::Ended(exited, now().saturating_sub(self.began), unix_ms());
    }

    /// Returns copies of the worker's descriptors for fnd, last the kill end of its leaf and a handler's socket. If
    /// there is no room for copies it returns none: an exit matters more than the output.
    pub(super) fn copies(&self) -> Vec<OwnedFd> {
        let (kill, channel) = (self.leaf.iter().map(|leaf| &leaf.kill_end), self.channel.as_ref());
        let all = self.ends.iter().chain(kill).chain(channel.and_then(Closing::descriptor));
        all.map(OwnedFd::try_clone).collect::<io::Result<_>>().unwrap_or_default()
    }

    /// Returns the answer to the worker's start; `ends`: whether descriptors come with it.
    pub(super) fn spawned(&self, id: u64, ends: bool) -> Spawned {
        let pid = if self.is_over() { 0 } else { self.pid };
        let kill = ends && self.leaf.is_some();
        Spawned { worker: WorkerId(id), pid, stdout: ends, stderr: ends, result: ends, kill }
    }

    /// Returns the report of the secrets that the worker can print, if there are any.
    pub(super) fn masks(&self, id: u64) -> Option<Reply> {
        let masks = Some(&self.masks).filter(|masks| !masks.fingerprints.is_empty())?;
        Some(Reply::Masks(Masked { worker: WorkerId(id), masks: masks.clone() }))
    }

    fn hold(&self, id: u64, ends: bool, now: Duration) -> RetainedWorker {
        let millis = |since: Duration| u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX);
        let (age_ms, termed) = (millis(self.began), self.termed.map(|(at, cause)| (millis(at), cause)));
        RetainedWorker { spawned: self.spawned(id, ends), age_ms, termed, record: self.record.clone() }
    }
}

/// Decodes stored exits. A worker has no number that is out of range: after it no more workers could start.
fn decode_kept(bytes: &[u8]) -> Result<Vec<StoredExit>, WireError> {
    let kept = Vec::<StoredExit>::from_wire(bytes)?;
    let has_number = |kept: &StoredExit| kept.held.spawned.worker.0 <= NUMBER_MAX;
    if kept.iter().all(has_number) { Ok(kept) } else { Err(WireError::Value) }
}

/// Reads the unread data of a worker's pipe (0 and 1), or its result.
fn read_rest((index, end): (usize, &OwnedFd)) -> Bytes {
    let mut rest = Vec::new();
    let Ok(file) = end.try_clone().map(File::from) else { return Bytes(rest) };
    if index < 2 {
        // All data is read once the pipe ends or would block: no process writes to it any more.
        let _ = rustix::io::ioctl_fionbio(&file, true).map(|()| file.take(REST_MAX).read_to_end(&mut rest));
    } else {
        rest.resize(usize::try_from(file.metadata().map_or(0, |meta| meta.len()).min(REST_MAX)).unwrap_or(0), 0);
        let _ = file.read_exact_at(&mut rest, 0); // fails if a process outside the leaf has shortened it
    }
    Bytes(rest)
}

/// Makes a pipe or, for the result, a memory file with these bytes in it.
fn write_rest((index, rest): (usize, &Bytes)) -> io::Result<OwnedFd> {
    if index < 2 {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A function may have enlarged its pipe (F_SETPIPE_SZ, fcntl(2)), so a new pipe may be too small for the rest.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, rest.0.len().max(1));
        File::from(write).write_all(&rest.0)?;
        Ok(read)
    } else {
        let mut file = File::from(memfd_create("fnd-result", MemfdFlags::CLOEXEC)?);
        file.write_all(&rest.0)?;
        Ok(file.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::frame::ExitStatus;

    /// Returns the file of a worker that has ended, with the number `worker`.
    fn stored(worker: u64) -> Vec<u8> {
        let worker = WorkerId(worker);
        let spawned = Spawned { worker, pid: 0, stdout: false, stderr: false, result: false, kill: false };
        let held = RetainedWorker { spawned, age_ms: 0, termed: None, record: Bytes(Vec::new()) };
        let exited = Exited {
            worker,
            late: None,
            status: ExitStatus::Code(0),
            cpu_us: 0,
            memory_peak: None,
            peak_of_largest: false,
            oom_kills: 0,
            oom_shared: false,
            pids_refused: 0,
            throttled_us: 0,
            stragglers: false,
        };
        vec![StoredExit { held, exited, at_ms: 0, rest: Vec::new() }].to_wire()
    }

    #[test]
    fn a_lease_moves_the_end_of_a_worker_until_its_time_is_up() {
        let at = Duration::from_secs;
        let mut worker = WorkerProcess { began: at(1), until: Some(at(10)), ..WorkerProcess::default() };
        let due = |worker: &WorkerProcess| worker.due(at(5), at(1));
        assert_eq!(due(&worker), Some(at(11)));
        worker.until = Some(at(20));
        assert_eq!(due(&worker), Some(at(21)));
        worker.until = None;
        assert_eq!(due(&worker), None);
        worker.termed = Some((at(21), TermCause::TimeUp));
        worker.until = Some(at(90));
        assert_eq!(due(&worker), Some(at(26)), "it was renewed too late");
    }

    #[test]
    fn a_number_that_no_worker_can_have_is_damage() {
        for worker in [1, NUMBER_MAX] {
            assert!(decode_kept(&stored(worker)).is_ok(), "{worker}");
        }
        for worker in [NUMBER_MAX + 1, u64::MAX] {
            assert!(matches!(decode_kept(&stored(worker)), Err(WireError::Value)), "{worker}");
        }
    }
}
