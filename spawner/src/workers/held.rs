//! Workers that outlive an fnd: told to the next one, ended at their time while there is none, and kept on disk over a stop
//! of the spawner.

use super::*;
use crate::clock::unix_ms;
use fnd_wire::frame::{Held, Kept, NOTE_MAX, NOTES_MAX, Note, PROTOCOL_HANDLERS, TermCause};
use rustix::fs::{MemfdFlags, memfd_create};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;

/// Ended workers whose descriptors are kept until fnd has acknowledged their ends. Of more than that, which only a disk that
/// takes no records leaves, the oldest lose theirs: a record without its last output is better than no start for want of
/// descriptors.
const KEPT_MAX: usize = 1000;
/// Most bytes of a pipe or a result that are kept over a stop.
const REST_MAX: u64 = 16 << 20;

/// What there is of a worker for the next fnd.
#[derive(Debug)]
pub(super) struct Handover {
    /// From fnd, unread.
    pub(super) note: Bytes,
    /// Of its first process.
    pub(super) pid: u32,
    /// Reading ends of standard output and error, and `$FND_RESULT`.
    pub(super) ends: Vec<OwnedFd>,
    /// fnd's end of a handler's socket. What is unread in it does not outlive the spawner: what was called is then interrupted.
    pub(super) channel: Option<OwnedFd>,
    /// When it was ordered to start.
    pub(super) began: Duration,
    /// When its time is up.
    pub(super) until: Option<Duration>,
    pub(super) termed: Option<(Duration, TermCause)>,
    pub(super) killed: bool,
}

impl Handover {
    pub(super) fn new(note: Bytes, ends: Vec<OwnedFd>, (began, until): (Duration, Option<Duration>)) -> Self {
        Self { note, pid: 0, ends, channel: None, began, until, termed: None, killed: false }
    }
}

impl Workers {
    /// Returns what a new fnd, of this protocol, is told of the workers of an earlier one: who there is, then the ends.
    pub fn held(&self, now: Duration, protocol: u16) -> Vec<(Reply, Vec<OwnedFd>)> {
        let mut told: Vec<(Reply, Vec<OwnedFd>)> = Vec::new();
        for (id, worker) in &self.workers {
            let ends = worker.copies();
            // An older fnd lets go of the descriptor it does not know; it ends the worker, of which it knows nothing.
            let channel = worker.handover.channel.is_some() && protocol >= PROTOCOL_HANDLERS;
            let reply = if channel { Reply::HeldWithChannel } else { Reply::Held };
            told.push((reply(worker.hold(*id, !ends.is_empty(), now)), ends));
        }
        let late = |worker: &Worker| match &worker.stage {
            Stage::Ended { exited, lasted, at_ms } => {
                let ago = unix_ms().saturating_sub(*at_ms).saturating_mul(1000);
                let lasted = u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX);
                Some(Exited { late: Some((ago, lasted)), ..exited.clone() })
            }
            _ => None,
        };
        told.extend(self.workers.values().filter_map(late).map(|exited| (Reply::Exited(exited), Vec::new())));
        told
    }

    /// Keeps what fnd says of a worker, in place of what it said before.
    pub fn note(&mut self, Note { worker, note }: Note) {
        let others = self.notes() - self.workers.get(&worker.0).map_or(0, |worker| worker.handover.note.0.len());
        let fits = note.0.len() <= NOTE_MAX && others + note.0.len() <= NOTES_MAX;
        if let Some(worker) = self.workers.get_mut(&worker.0).filter(|_| fits) {
            worker.handover.note = note;
        }
    }

    /// Returns the bytes of all notes.
    pub(super) fn notes(&self) -> usize {
        self.workers.values().map(|worker| worker.handover.note.0.len()).sum()
    }

    /// Says whether a start is under way.
    pub fn any_starting(&self) -> bool {
        self.workers.values().any(Worker::is_starting)
    }

    /// Sends SIGTERM to every process of a worker and remembers why.
    pub fn terminate(&mut self, id: WorkerId, cause: TermCause) {
        if let Some(worker) = self.workers.get_mut(&id.0) {
            worker.handover.termed.get_or_insert((now(), cause));
        }
        self.recheck_at(Some(now()));
        self.signal(id, Signal::TERM);
    }

    /// Ends workers whose time is up. An fnd that is there has so much more time to do it, and a worker it terminated by itself
    /// is its to kill.
    pub fn enforce(&mut self, now: Duration, slack: Duration) {
        let same = std::mem::replace(&mut self.slack, slack) == slack;
        if same && self.enforce_at.is_none_or(|at| at > now) {
            return;
        }
        for (id, grace) in self.running() {
            let Some(worker) = self.workers.get_mut(&id.0) else { continue };
            match worker.handover.termed {
                None if worker.handover.until.is_some_and(|until| until + slack <= now) => {
                    self.terminate(id, TermCause::TimeUp);
                }
                Some((at, cause)) if at + grace + slack_of(cause, slack) <= now && !worker.handover.killed => {
                    worker.handover.killed = true;
                    self.signal(id, Signal::KILL);
                }
                _ => {}
            }
        }
        let due = |(id, grace): (WorkerId, Duration)| {
            let handover = &self.workers.get(&id.0)?.handover;
            match handover.termed {
                None => handover.until.map(|until| until + slack),
                Some((at, cause)) => (!handover.killed).then_some(at + grace + slack_of(cause, slack)),
            }
        };
        self.enforce_at = self.running().into_iter().filter_map(due).min();
    }

    /// Returns when [`enforce`](Self::enforce) is due. Not later; what it was due for may have ended.
    pub fn enforce_at(&self) -> Option<Duration> {
        self.enforce_at
    }

    /// Something is to be looked at then.
    pub(super) fn recheck_at(&mut self, at: Option<Duration>) {
        self.enforce_at = self.enforce_at.into_iter().chain(at).min();
    }

    /// Lets the oldest of too many ended workers go without their descriptors.
    pub(super) fn bound_kept(&mut self) {
        let with_ends = |worker: &&mut Worker| worker.is_over() && !worker.handover.ends.is_empty();
        let mut ended: Vec<&mut Worker> = self.workers.values_mut().filter(with_ends).collect();
        let excess = ended.len().saturating_sub(KEPT_MAX);
        for worker in ended.iter_mut().take(excess) {
            (worker.handover.ends, worker.handover.channel) = (Vec::new(), None);
        }
    }

    /// Writes the ends nobody acknowledged to a file; none where there are none.
    pub fn store_ends(&self, path: &Path) -> io::Result<()> {
        let keep = |(id, worker): (&u64, &Worker)| {
            let Stage::Ended { exited, at_ms, lasted } = &worker.stage else { return None };
            let rest: Vec<Bytes> = worker.handover.ends.iter().enumerate().map(read_rest).collect();
            let held = worker.hold(*id, !rest.is_empty(), worker.handover.began + *lasted);
            Some(Kept { held, exited: exited.clone(), at_ms: *at_ms, rest })
        };
        let kept: Vec<Kept> = self.workers.iter().filter_map(keep).collect();
        if kept.is_empty() {
            return Ok(());
        }
        crate::places::replace(path, &kept.to_wire())
    }

    /// Takes back what [`store_ends`](Self::store_ends) wrote. The file stays until all of it is acknowledged.
    pub fn restore_ends(&mut self, path: &Path) -> Result<(), String> {
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            bytes => bytes.failed("read the kept ends")?,
        };
        let kept = Vec::<Kept>::from_wire(&bytes).or_else(|error| {
            // Without them the ledger calls what ran interrupted, which is not wrong; for people to look at it stays.
            crate::log!("`{}` is damaged ({error}), it is moved to `exits.corrupt`", path.display());
            fs::rename(path, path.with_extension("corrupt")).map(|()| Vec::new())
        });
        for Kept { held, exited, at_ms, rest } in kept.failed("set the kept ends aside")? {
            let id = held.spawned.worker.0;
            let ends = rest.iter().enumerate().map(write_rest).collect::<io::Result<_>>().failed("restore output")?;
            let termed = held.termed.map(|(_, cause)| (now(), cause));
            let began = now().saturating_sub(Duration::from_millis(held.age_ms));
            let handover = Handover { termed, killed: true, ..Handover::new(held.note, ends, (began, None)) };
            let stage = Stage::Ended { exited, lasted: Duration::from_millis(held.age_ms), at_ms };
            let (function, before) = (FunctionId(0), Counters::default());
            let worker = Worker {
                socket: None, // the spawner that had it removed it
                function,
                invocation: InvocationId(0),
                launcher: 0,
                leaf: None,
                before,
                shared: false,
                early: vec![],
                ready: vec![],
                handover,
                stage,
            };
            self.workers.insert(id, worker);
            self.next = self.next.max(id + 1);
        }
        self.kept = Some(path.to_owned());
        Ok(())
    }

    /// Removes the file of kept ends once nothing of it is waited for.
    pub(super) fn forget_kept(&mut self) {
        let restored = |worker: &Worker| worker.launcher == 0;
        if let Some(path) = self.kept.take_if(|_| !self.workers.values().any(restored)) {
            let _ = fs::remove_file(path); // read again they would be known to the ledger
        }
    }
}

impl Worker {
    /// Returns since when it has ended (now) and how long it ran, where it was ended for its time: fnd may not have looked.
    pub(super) fn overtime(&self) -> Option<(u64, u64)> {
        let lasted = now().saturating_sub(self.handover.began).as_micros();
        let over = matches!(self.handover.termed, Some((_, TermCause::TimeUp)));
        over.then(|| (0, u64::try_from(lasted).unwrap_or(u64::MAX)))
    }

    /// Its leaf is empty.
    pub(super) fn over(&mut self, exited: Exited) {
        self.leaf = None;
        self.stage = Stage::Ended { exited, lasted: now().saturating_sub(self.handover.began), at_ms: unix_ms() };
    }

    /// Returns copies of its descriptors for fnd, the kill end of its leaf and a handler's socket last; none where there is no
    /// room for them: an end matters more than its output.
    pub(super) fn copies(&self) -> Vec<OwnedFd> {
        let kill = self.leaf.iter().map(|leaf| &leaf.kill_end);
        self.handover
            .ends
            .iter()
            .chain(kill)
            .chain(&self.handover.channel)
            .map(OwnedFd::try_clone)
            .collect::<io::Result<_>>()
            .unwrap_or_default()
    }

    /// Returns what is said of its start; `ends`: with descriptors.
    pub(super) fn spawned(&self, id: u64, ends: bool) -> Spawned {
        let pid = if self.is_over() { 0 } else { self.handover.pid };
        let kill = ends && self.leaf.is_some();
        Spawned { worker: WorkerId(id), pid, stdout: ends, stderr: ends, result: ends, kill }
    }

    fn hold(&self, id: u64, ends: bool, now: Duration) -> Held {
        let millis = |since: Duration| u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX);
        let termed = self.handover.termed.map(|(at, cause)| (millis(at), cause));
        Held {
            spawned: self.spawned(id, ends),
            age_ms: millis(self.handover.began),
            termed,
            note: self.handover.note.clone(),
        }
    }
}

/// One that fnd terminated itself is fnd's to kill, in its own time.
fn slack_of(cause: TermCause, slack: Duration) -> Duration {
    if cause == TermCause::Asked { slack } else { Duration::ZERO }
}

/// Reads what is left in a worker's pipe (0 and 1), or its result.
fn read_rest((index, end): (usize, &OwnedFd)) -> Bytes {
    let mut rest = Vec::new();
    let Ok(file) = end.try_clone().map(File::from) else { return Bytes(rest) };
    if index < 2 {
        // What comes up to the end or to where it would block is all: nobody writes to it any more.
        let _ = rustix::io::ioctl_fionbio(&file, true).map(|()| file.take(REST_MAX).read_to_end(&mut rest));
    } else {
        let size = file.metadata().map_or(0, |meta| meta.len()).min(REST_MAX);
        rest.resize(usize::try_from(size).unwrap_or(0), 0);
        let _ = file.read_exact_at(&mut rest, 0); // shorter by now: somebody outside the leaf writes to it
    }
    Bytes(rest)
}

/// Makes a pipe with these bytes in it, or a file.
fn write_rest((index, rest): (usize, &Bytes)) -> io::Result<OwnedFd> {
    if index < 2 {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let _ = rustix::pipe::fcntl_setpipe_size(&write, rest.0.len().max(1));
        File::from(write).write_all(&rest.0)?;
        Ok(read)
    } else {
        let mut file = File::from(memfd_create("fnd-result", MemfdFlags::CLOEXEC)?);
        file.write_all(&rest.0)?;
        Ok(file.into())
    }
}
