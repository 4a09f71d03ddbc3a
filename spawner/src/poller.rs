//! Waits for the events of the spawner's loop; each event has a token.

use rustix::event::{Timespec, epoll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The source of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    Listener,
    /// The connection with fnd.
    Connection,
    /// Signals to the spawner.
    Signals,
    /// The judge's socket.
    Judge,
    /// A launcher's socket.
    Launcher,
    /// A worker's first process ended.
    Worker,
    /// A leaf may have become empty.
    Leaf,
    /// A function's v1 memory group ran out of memory.
    Oom,
    Helper,
}

/// A source, and the number of the launcher, worker, function or helper (0: there is only one). A number that no longer
/// exists is ignored.
pub type NumberedToken = (Token, u64);

/// Largest number that is kept.
pub const NUMBER_MAX: u64 = (1 << 56) - 1;

/// The sources in their order. The kernel stores a source's index here together with the number.
const TOKENS: [Token; 9] = {
    use Token::*;
    [Listener, Connection, Signals, Judge, Launcher, Worker, Leaf, Oom, Helper]
};

fn pack((token, number): NumberedToken) -> epoll::EventData {
    epoll::EventData::new_u64((token as u64) << 56 | number & NUMBER_MAX)
}

fn unpack(packed: u64) -> Option<NumberedToken> {
    Some((*TOKENS.get(usize::try_from(packed >> 56).ok()?)?, packed & NUMBER_MAX))
}

/// An epoll instance.
pub struct Poller(OwnedFd);

impl Poller {
    /// Makes an epoll instance.
    ///
    /// # Errors
    /// If `epoll_create1` fails.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Begins to watch a descriptor for reading; closing the descriptor ends that.
    ///
    /// # Errors
    /// If `epoll_ctl` fails.
    pub fn add(&self, fd: impl AsFd, token: NumberedToken) -> io::Result<()> {
        let flags = match token.0 {
            // `cgroup.events` is always readable and signals a change by POLLPRI.
            Token::Leaf => epoll::EventFlags::PRI,
            // Edge-triggered: these sockets are read and written until they would block, so one event for new data or
            // new room is enough.
            Token::Judge => epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET,
            Token::Launcher => epoll::EventFlags::IN | epoll::EventFlags::ET,
            _ => epoll::EventFlags::IN,
        };
        Ok(epoll::add(&self.0, fd, pack(token), flags)?)
    }

    /// Sets whether the connection or a launcher's socket is watched for reading and for writing; with neither only its
    /// end is reported.
    pub fn change(&self, fd: impl AsFd, token: NumberedToken, (read, write): (bool, bool)) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::ET, token.0 == Token::Launcher);
        flags.set(epoll::EventFlags::IN, read);
        flags.set(epoll::EventFlags::OUT, write);
        // For a watched descriptor this can't fail.
        let _ = epoll::modify(&self.0, fd, pack(token), flags);
    }

    /// Stops watching a descriptor that stays open.
    pub fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.0, fd); // an error means that it is not watched
    }

    /// Waits until an event comes or the time is over; none: without limit. Returns the tokens of the events.
    ///
    /// # Errors
    /// If `epoll_wait` fails.
    pub fn wait(&self, timeout: Option<std::time::Duration>) -> io::Result<Vec<NumberedToken>> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(events.iter().filter_map(|event| unpack(event.data.u64())).collect())
    }
}
