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

/// Every kind of token; its place here is what the kernel keeps for us beside the number.
const KINDS: [fn(u64) -> Token; 9] = [
    |_| Token::Listener,
    |_| Token::Connection,
    |_| Token::Signals,
    |_| Token::Judge,
    Token::Launcher,
    Token::Worker,
    Token::Leaf,
    Token::Oom,
    Token::Helper,
];

impl Token {
    fn pack(self) -> u64 {
        let number = match self {
            Self::Listener | Self::Connection | Self::Signals | Self::Judge => 0,
            Self::Launcher(number) | Self::Worker(number) | Self::Leaf(number) => number,
            Self::Oom(number) | Self::Helper(number) => number,
        };
        let kind = KINDS.iter().position(|kind| kind(number) == self).unwrap_or(0);
        (kind as u64) << 56 | number & NUMBER_MAX
    }

    fn unpack(packed: u64) -> Option<Self> {
        let kind = KINDS.get(usize::try_from(packed >> 56).ok()?)?;
        Some(kind(packed & NUMBER_MAX))
    }
}

/// An epoll instance.
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
            Token::Judge => epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET,
            Token::Launcher(_) => epoll::EventFlags::IN | epoll::EventFlags::ET,
            _ => epoll::EventFlags::IN,
        };
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(token.pack()), flags)?)
    }

    /// Says what to wait for on the connection or a launcher's socket; with neither only its end is told.
    pub fn change(&self, fd: impl AsFd, token: Token, (read, write): (bool, bool)) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::ET, matches!(token, Token::Launcher(_)));
        flags.set(epoll::EventFlags::IN, read);
        flags.set(epoll::EventFlags::OUT, write);
        let _ = epoll::modify(&self.0, fd, epoll::EventData::new_u64(token.pack()), flags); // of what is watched it can't fail
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
        Ok(events.iter().filter_map(|event| Token::unpack(event.data.u64())).collect())
    }
}
