//! Runs helpers: copies of this process for work that may take long. Each kind of work has a number of places and a
//! deadline of its own, so that no kind waits for another. A helper that exceeds its deadline is killed.

use crate::clock::now;
use crate::install::Snapshot;
use crate::poller::{Poller, Token};
use crate::process::clone::{self, Child};
use fnd_wire::ids::{FunctionId, InvocationId};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{IntoRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

/// The kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Emptying a directory that a function owned; the function decides its size.
    Clean,
    /// Copying, storing, deleting versions, syncing.
    Write,
    /// Unpacking archives; who made the archive decides how long that takes.
    Unpack,
    /// Closing descriptors that fnd should not have passed.
    Close,
}

/// For each kind: how many helpers run at once, and how many seconds one may take.
const LANES: [(usize, u64); 4] = [(16, 30), (4, 300), (4, 120), (4, 30)];

/// The next step when a helper ends. A number is that of a [request](super::Spawner::number) (0: none).
pub(super) enum After {
    Done(u64),
    /// The `tmp` of the invocation was emptied; the rest of its files are removed now. The function, if fnd knows it.
    Released((u64, Option<FunctionId>), crate::places::FunctionPlaces, InvocationId),
    /// A large file was copied, or an archive unpacked.
    Copied(Box<Snapshot>),
    /// A function was stored; fnd gets this answer.
    Stored(std::rc::Rc<Snapshot>, Box<fnd_wire::frame::Installed>),
    /// The secrets of a function were read.
    Gathered(Box<super::gathering::Waiting>),
    /// A tree was made of a build, or could not be; the report says so.
    Sealed(u64, FunctionId, PathBuf),
    /// The files that builds have left in this home were removed.
    Cleared(u64, FunctionId, PathBuf),
    /// The directory of a socket was emptied; now the spawner removes the directory.
    Emptied(PathBuf),
}

/// The function that a helper runs.
type HelperBody = Box<dyn FnOnce() -> i32>;

struct HelperTask {
    lane: Lane,
    kept: RawFd,
    body: HelperBody,
    after: After,
}

struct Helper {
    child: Child,
    lane: Lane,
    after: After,
    ends_at: Duration,
    killed: bool,
}

#[derive(Default)]
pub(super) struct Helpers {
    running: BTreeMap<u64, Helper>,
    waiting: VecDeque<HelperTask>,
    count: u64,
}

impl Helpers {
    /// Adds work that needs no descriptor.
    pub(super) fn add(&mut self, lane: Lane, after: After, body: HelperBody) {
        // 2 is standard error, which a helper keeps in any case.
        self.add_with(lane, after, (2, body));
    }

    /// Adds work that needs one descriptor, which the work owns.
    pub(super) fn add_with(&mut self, lane: Lane, after: After, (kept, body): (RawFd, HelperBody)) {
        self.waiting.push_back(HelperTask { lane, kept, body, after });
    }

    /// Closes descriptors in a helper, since closing may take as long as the process that made them likes.
    pub(super) fn close(&mut self, descriptors: impl IntoIterator<Item = OwnedFd>) {
        let numbers: Vec<RawFd> = descriptors.into_iter().map(OwnedFd::into_raw_fd).collect();
        let body = move || {
            numbers.iter().for_each(|number| clone::close(*number));
            0
        };
        self.add(Lane::Close, After::Done(0), Box::new(body));
    }

    /// Starts waiting work while there are free places; returns the next steps of work that could not be started.
    pub(super) fn start(&mut self, poller: &Poller) -> Vec<After> {
        let mut failed = Vec::new();
        let mut index = 0;
        while let Some(lane) = self.waiting.get(index).map(|task| task.lane) {
            let (places, lasts) = LANES[lane as usize];
            if self.running.values().filter(|helper| helper.lane == lane).count() >= places {
                // All places of this kind are in use. Work of another kind may still begin.
                index += 1;
                continue;
            }
            let Some(HelperTask { kept, body, after, .. }) = self.waiting.remove(index) else { break };
            match fork(lane, kept, body) {
                Ok(child) => {
                    self.count += 1;
                    let _ = poller.add(&child.pidfd, (Token::Helper, self.count)); // fails only without memory
                    let ends_at = now() + Duration::from_secs(lasts);
                    self.running.insert(self.count, Helper { child, lane, after, ends_at, killed: false });
                }
                Err(error) => {
                    crate::log!("failed to start a helper: {error}");
                    // The next step comes all the same: it finds that the work was not done.
                    failed.push(after);
                }
            }
        }
        failed
    }

    /// Kills helpers that exceeded their deadline.
    pub(super) fn enforce(&mut self, now: Duration) {
        for helper in self.running.values_mut().filter(|helper| helper.ends_at <= now && !helper.killed) {
            crate::log!("a helper has exceeded its deadline and is killed");
            helper.killed = true;
            helper.child.signal(Signal::KILL);
        }
    }

    /// Gives all helpers this much more time: the spawner did not run meanwhile, and perhaps they did not either.
    pub(super) fn wait_longer(&mut self, pause: Duration) {
        self.running.values_mut().for_each(|helper| helper.ends_at += pause);
    }

    /// Returns when [`enforce`](Self::enforce) is due.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.running.values().filter(|helper| !helper.killed).map(|helper| helper.ends_at).min()
    }

    /// Returns whether this is a helper's process.
    pub(super) fn has(&self, pid: u32) -> bool {
        self.running.values().any(|helper| helper.child.pid == pid)
    }

    /// Removes a helper that has ended and returns its next step.
    pub(super) fn ended(&mut self, number: u64) -> Option<After> {
        let helper = self.running.remove(&number)?;
        let _ = crate::process::reap::ended(&helper.child); // the next step sees what the helper did
        Some(helper.after)
    }

    /// Returns how many functions wait for a copy; each keeps the files that were read in memory.
    pub(super) fn copying(&self) -> usize {
        let waiting = self.waiting.iter().map(|task| &task.after);
        let all = self.running.values().map(|helper| &helper.after).chain(waiting);
        all.filter(|after| matches!(after, After::Copied(_))).count()
    }
}

/// Makes a helper. A helper that closes descriptors shares this process's descriptor table, so the descriptors are
/// closed here, too, and this process does not wait.
fn fork(lane: Lane, kept: RawFd, body: HelperBody) -> std::io::Result<Child> {
    let closes = lane == Lane::Close;
    let spawner = Some(rustix::process::getpid());
    clone::fork(None, false, if closes { libc::CLONE_FILES } else { 0 }, || {
        // After the spawner nobody would end it at its deadline. While it shares the table of descriptors, fnd and the
        // launchers would not notice the spawner's end.
        let follows = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
        // With a shared table of descriptors `settle` would close those of the spawner itself.
        if !closes {
            clone::settle(kept);
        }
        let _ = rustix::thread::set_name(c"fnd-spawner:h"); // `fnd-helper` is another program
        // If the spawner ended before the call above, the signal never comes.
        if follows && getppid() == spawner { body() } else { 1 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, kill_process};
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    /// Waits until a helper ends, and returns its number.
    fn next_end(poller: &Poller) -> u64 {
        let limit = now() + Duration::from_secs(60);
        while now() < limit {
            if let Some((Token::Helper, number)) = poller.wait(Some(Duration::from_secs(1))).unwrap().first() {
                return *number;
            }
        }
        panic!("no helper ended");
    }

    #[test]
    fn a_helper_ends_with_the_spawner() {
        for lane in [Lane::Close, Lane::Clean] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let spawner = clone::fork(None, false, 0, || {
                let body = || -> i32 {
                    loop {
                        rustix::event::pause();
                    }
                };
                i32::from(fork(lane, theirs.as_raw_fd(), Box::new(body)).is_err())
            });
            let ended = crate::process::reap::wait(&spawner.unwrap()).unwrap();
            assert_eq!(ended.status, fnd_wire::frame::ExitStatus::Code(0));
            drop(theirs);
            assert_eq!(ours.read(&mut [0]).unwrap(), 0, "nobody has the other end");
        }
    }

    #[test]
    fn a_helper_that_does_not_end_is_killed_and_its_place_is_free_again() {
        let (places, lasts) = LANES[Lane::Clean as usize];
        let lasts = Duration::from_secs(lasts);
        let (poller, mut helpers) = (Poller::new().unwrap(), Helpers::default());
        let held = || -> i32 {
            loop {
                rustix::event::pause();
            }
        };
        let begun = now();
        for _ in 0..places {
            helpers.add(Lane::Clean, After::Done(1), Box::new(held));
        }
        helpers.add(Lane::Clean, After::Done(2), Box::new(|| 0));
        helpers.add(Lane::Write, After::Done(3), Box::new(|| 0));
        assert!(helpers.start(&poller).is_empty());
        // Each kind has its own places, so only the job of the same kind waits.
        assert_eq!((helpers.running.len(), helpers.waiting.len()), (places + 1, 1));
        let other = next_end(&poller);
        assert!(matches!(helpers.ended(other), Some(After::Done(3))));
        let first = helpers.running.values().next().unwrap().child.pid;
        kill_process(Pid::from_raw(first.cast_signed()).unwrap(), Signal::STOP).unwrap();
        // No helper is killed before its deadline; then every helper is, also a stopped one.
        let due = helpers.deadline().unwrap();
        assert!(due >= begun + lasts && due <= now() + lasts);
        helpers.enforce(due.saturating_sub(Duration::from_nanos(1)));
        assert!(helpers.running.values().all(|helper| !helper.killed));
        helpers.enforce(now() + lasts);
        assert!(helpers.running.values().all(|helper| helper.killed) && helpers.deadline().is_none());
        for _ in 0..places {
            // An end is reported again while a helper that did not run yet has a copy of its descriptor.
            let after = std::iter::repeat_with(|| helpers.ended(next_end(&poller))).flatten().next();
            assert!(matches!(after, Some(After::Done(1))));
        }
        assert!(helpers.start(&poller).is_empty() && helpers.waiting.is_empty());
        let last = next_end(&poller);
        assert!(matches!(helpers.ended(last), Some(After::Done(2))));
        assert!(helpers.running.is_empty());
    }
}
