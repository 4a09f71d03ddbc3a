//! What the loop waits for, each with a name.

use rustix::event::{Timespec, epoll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// What became ready. Numbers are those of launchers, workers, functions and helpers; one that is gone by now is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// The listening socket.
    Listener,
    /// The connection with fnd.
    Connection,
    /// Signals to the spawner.
    Signals,
    /// The judge's socket.
    Judge,
    /// A launcher's socket.
    Launcher(u64),
    /// A launcher ended.
    LauncherEnd(u64),
    /// A worker's first process ended.
    Worker(u64),
    /// A leaf may have become empty.
    Leaf(u64),
    /// A function's v1 memory group ran out of memory.
    Oom(u64),
    /// A helper ended.
    Helper(u64),
}

/// Numbers a token can carry.
pub const NUMBER_MAX: u64 = (1 << 56) - 1;

impl Token {
    fn pack(self) -> u64 {
        let (kind, number) = match self {
            Self::Listener => (0, 0),
            Self::Connection => (1, 0),
            Self::Signals => (2, 0),
            Self::Judge => (3, 0),
            Self::Launcher(number) => (4, number),
            Self::LauncherEnd(number) => (5, number),
            Self::Worker(number) => (6, number),
            Self::Leaf(number) => (7, number),
            Self::Oom(number) => (8, number),
            Self::Helper(number) => (9, number),
        };
        kind << 56 | number & NUMBER_MAX
    }

    fn unpack(packed: u64) -> Self {
        let number = packed & NUMBER_MAX;
        match packed >> 56 {
            0 => Self::Listener,
            1 => Self::Connection,
            2 => Self::Signals,
            3 => Self::Judge,
            4 => Self::Launcher(number),
            5 => Self::LauncherEnd(number),
            6 => Self::Worker(number),
            7 => Self::Leaf(number),
            8 => Self::Oom(number),
            _ => Self::Helper(number),
        }
    }
}

/// An epoll instance.
#[derive(Debug)]
pub struct Poller(OwnedFd);

impl Poller {
    /// Makes one.
    ///
    /// # Errors
    /// From `epoll_create1`.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Waits for a descriptor to become readable; closing it ends that.
    ///
    /// # Errors
    /// From `epoll_ctl`.
    pub fn add(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        let flags = match token {
            // `cgroup.events` is always readable and tells of a change by POLLPRI.
            Token::Leaf(_) => epoll::EventFlags::PRI,
            // Told of once, when something came or there is room again: these are read and written until they would block.
            Token::Judge | Token::Launcher(_) => epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET,
            _ => epoll::EventFlags::IN,
        };
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(token.pack()), flags)?)
    }

    /// Says what to wait for on the connection; with neither only its end is told.
    pub fn change(&self, fd: impl AsFd, read: bool, write: bool) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, read);
        flags.set(epoll::EventFlags::OUT, write);
        // Nothing but memory can fail it, and it is said again before the next wait.
        let _ = epoll::modify(&self.0, fd, epoll::EventData::new_u64(Token::Connection.pack()), flags);
    }

    /// Stops waiting for a descriptor that stays open.
    pub fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.0, fd); // gone is gone
    }

    /// Waits until something is ready or the time is over; none: for ever.
    ///
    /// # Errors
    /// From `epoll_wait`.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<Token>> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(events.iter().map(|event| Token::unpack(event.data.u64())).collect())
    }
}
