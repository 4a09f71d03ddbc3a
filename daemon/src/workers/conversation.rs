//! The socket between fnd and one worker (`runtimes/PROTOCOL.md`): messages out, messages in, never waiting for the worker.
//!
//! [`Conversation::send`] writes at once; what the socket does not take is sent by [`Conversation::run`], which also reads
//! and hands each message to a closure. It knows nothing of calls: what a message means is decided by who gets it.
//!
//! A worker can cost this much memory: what was not sent yet, which is at most what fnd has to say to it (concurrency x
//! `limits.body`); and the parts of messages, at most one per call in flight and each within `limits.result`
//! ([`Decoder`]). A flood of messages is read a piece a turn, between which everything else has its turn.

use fnd_core::protocol::{Decoder, ProtocolError, WorkerMessage};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::sync::Notify;

/// Read at once, and in one turn: a piece of small messages takes about a millisecond to act on.
const PIECE: usize = 64 << 10;

/// Most that is read of a worker that has ended.
const LEFT_MAX: usize = 16 << 20;

thread_local! {
    /// Where bytes are read to. One for all conversations: nothing is in it between two reads, and with a thousand idle
    /// workers it is a thousand times smaller.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// A conversation with one worker, for one thread.
pub struct Conversation {
    /// Watched for bytes only: watched for room too, each message a worker takes would wake fnd.
    socket: AsyncFd<OwnedFd>,
    decoder: RefCell<Decoder>,
    unsent: RefCell<VecDeque<Unsent>>,
    course: Cell<Course>,
    /// The course changed, or something is unsent.
    changed: Notify,
}

/// A message, and how much of it the socket has taken.
struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Going,
    /// Until nothing is half said.
    Stopping,
    HungUp,
}

/// Why a conversation ended.
#[derive(Debug)]
pub enum End {
    /// The worker closed it or is gone.
    Closed,
    /// It said what cannot be understood; what it had said before was handed on.
    Protocol(ProtocolError),
    /// The system does not read from the socket any more.
    Failed(io::Error),
    /// [`Conversation::stop`]: everything read is handed on as whole messages, and everything sent was taken.
    Stopped,
    /// [`Conversation::hang_up`].
    HungUp,
}

impl Conversation {
    /// Returns the conversation on a connected socket, which is made non-blocking, with a worker that has at most `calls_max`
    /// calls in flight and whose results have at most `result_max` bytes. Needs a tokio runtime.
    ///
    /// # Errors
    /// Where the socket cannot be watched.
    pub fn new(socket: OwnedFd, result_max: u64, calls_max: usize) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self {
            socket: super::watch(socket, Interest::READABLE)?,
            decoder: RefCell::new(Decoder::new(result_max, calls_max)),
            unsent: RefCell::default(),
            course: Cell::new(Course::Going),
            changed: Notify::new(),
        })
    }

    /// Sends a message, behind those before it: now, as far as the socket takes it. What a worker that is gone does not get
    /// is dropped; [`run`](Self::run) says that it is gone.
    pub fn send(&self, bytes: Vec<u8>) {
        if self.course.get() == Course::HungUp {
            return;
        }
        let mut unsent = self.unsent.borrow_mut();
        unsent.push_back(Unsent { bytes, sent: 0 });
        // Behind others it waits for the room they wait for.
        if unsent.len() > 1 || !self.write(&mut unsent) {
            self.changed.notify_one();
        }
    }

    /// Says whether the socket has taken everything.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.unsent.borrow().is_empty()
    }

    /// Says whether no message is half read or half sent, so that another fnd can go on with the socket.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.is_flushed() && self.decoder.borrow().is_between()
    }

    /// Lets [`run`](Self::run) end between two messages, without taking more from the socket than the rest of what has
    /// begun. It may never come to that with a worker that does not read or finish: the caller has a limit.
    pub fn stop(&self) {
        self.turn_to(Course::Stopping);
    }

    /// Ends it at once: nothing more is sent, and nothing more handed on, be it read already.
    pub fn hang_up(&self) {
        self.turn_to(Course::HungUp);
        self.unsent.borrow_mut().clear();
    }

    /// Reads what a worker that has ended left in the socket, and hands each whole message to `on`. Where [`run`](Self::run)
    /// has come to an end there is nothing more.
    pub fn drain_messages(&self, mut on: impl FnMut(WorkerMessage)) {
        // No more than a socket holds: somebody else may have its other end, and go on.
        for _ in 0..LEFT_MAX / PIECE {
            if !matches!(self.read(&mut on), Ok(Read::Some)) {
                break;
            }
        }
    }

    fn turn_to(&self, course: Course) {
        if self.course.get() != Course::HungUp {
            self.course.set(course);
        }
        self.changed.notify_one();
    }

    /// Reads, hands each message to `on`, and sends what could not be sent at once, until it ends. `on` may send, stop and
    /// hang up.
    ///
    /// May be dropped at any time and called again: nothing is lost by that. Not to be called twice at once.
    pub async fn run(&self, mut on: impl FnMut(WorkerMessage)) -> End {
        let mut room = None;
        loop {
            match self.course.get() {
                Course::HungUp => return End::HungUp,
                Course::Stopping if self.is_between() => return End::Stopped,
                Course::Going | Course::Stopping => {}
            }
            room = match (self.is_flushed(), room) {
                (true, _) => None,
                (false, Some(room)) => Some(room),
                (false, None) => match self.watch_room() {
                    Ok(room) => Some(room),
                    Err(error) => return End::Failed(error),
                },
            };
            let reads = self.course.get() == Course::Going || !self.decoder.borrow().is_between();
            // Cancel-safe: each arm waits for readiness only, and what follows does not wait.
            let waited = tokio::select! {
                biased;
                () = self.changed.notified() => Ok(()),
                guard = writable(room.as_ref()) => guard.map(|mut guard| {
                    if !self.write(&mut self.unsent.borrow_mut()) {
                        guard.clear_ready();
                    }
                }),
                guard = self.socket.readable(), if reads => match guard {
                    Ok(mut guard) => match self.read(&mut on) {
                        Ok(Read::All) => {
                            guard.clear_ready();
                            Ok(())
                        }
                        Ok(Read::Some) => {
                            drop(guard);
                            tokio::task::yield_now().await;
                            Ok(())
                        }
                        Err(end) => return end,
                    },
                    Err(error) => Err(error),
                },
            };
            if let Err(error) = waited {
                return End::Failed(error);
            }
        }
    }

    /// Watches a duplicate of the socket for room.
    fn watch_room(&self) -> io::Result<AsyncFd<OwnedFd>> {
        super::watch(self.socket.get_ref().try_clone()?, Interest::WRITABLE)
    }

    /// Writes what the socket takes. Says whether that is everything.
    fn write(&self, unsent: &mut VecDeque<Unsent>) -> bool {
        while let Some(next) = unsent.front_mut() {
            let rest = next.bytes.get(next.sent..).unwrap_or_default();
            if rest.is_empty() {
                unsent.pop_front();
                continue;
            }
            match send(self.socket.get_ref(), rest, SendFlags::NOSIGNAL) {
                Ok(count) => next.sent += count,
                Err(Errno::AGAIN) => return false,
                Err(Errno::INTR) => {}
                Err(error) => {
                    unsent.clear();
                    if !matches!(error, Errno::PIPE | Errno::CONNRESET) {
                        tracing::warn!("failed to send to a worker ({error}), the conversation with it ends");
                    }
                    // What it said before is still read, and then its end; where that cannot be done it is gone already.
                    let _ = shutdown(self.socket.get_ref(), Shutdown::Both);
                }
            }
        }
        true
    }

    /// Reads a piece and hands the messages in it on.
    fn read(&self, on: &mut impl FnMut(WorkerMessage)) -> Result<Read, End> {
        let most = match self.course.get() {
            Course::Going => PIECE,
            Course::Stopping | Course::HungUp => self.decoder.borrow().missing().min(PIECE),
        };
        let read = BUFFER.with_borrow_mut(|buffer| {
            let piece = buffer.get_mut(..most).unwrap_or_default();
            let (count, _) = recv(self.socket.get_ref(), &mut *piece, RecvFlags::empty())?;
            self.decoder.borrow_mut().push(piece.get(..count).unwrap_or_default());
            Ok(count)
        });
        let read = match read {
            Ok(0) | Err(Errno::CONNRESET) => return Err(End::Closed),
            Ok(count) if count < most => Read::All,
            Ok(_) | Err(Errno::INTR) => Read::Some,
            Err(Errno::AGAIN) => return Ok(Read::All),
            Err(error) => return Err(End::Failed(error.into())),
        };
        while self.course.get() != Course::HungUp {
            // Not borrowed while it is handed on: who gets it may ask for the state.
            let next = self.decoder.borrow_mut().next();
            match next {
                Ok(Some(said)) => on(said),
                Ok(None) => break,
                Err(error) => {
                    // Nothing behind it can be trusted.
                    self.course.set(Course::HungUp);
                    return Err(End::Protocol(error));
                }
            }
        }
        Ok(read)
    }
}

/// How much of what there is was read.
enum Read {
    All,
    Some,
}

/// Waits for room where that is waited for.
async fn writable(room: Option<&AsyncFd<OwnedFd>>) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
    match room {
        Some(room) => room.writable().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
