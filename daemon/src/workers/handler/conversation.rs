//! The socket between fnd and one worker (`runtimes/PROTOCOL.md`): sends and receives messages, and never waits for the
//! worker.
//!
//! [`Conversation::send`] writes at once. [`Conversation::run`] sends what the socket did not take, reads, and hands
//! each message to a closure. It knows nothing of calls: the closure decides what a message means.
//!
//! Most workers inherit their end of the socket. A worker whose command has `{socket}` connects instead: fnd-spawner then
//! gives fnd a socket that listens, and the conversation begins with the first connection there.
//!
//! A worker can cost this much memory: messages that are not sent yet, which are at most what fnd has to send to it
//! (concurrency x `limits.body`); and the parts of messages, at most one per call in flight and each within
//! `limits.result` ([`Decoder`]). A flood of messages is read one piece in each turn, so that everything else has its
//! turn in between. The content of a large result stays in the socket until the budget has room for it; that of a stream, whose
//! size nobody knows, counts as it comes.
//!
//! Files:
//! - `connecting`: the beginning of a conversation with a worker that connects
//! - `reading`: reads from the socket, large messages to their final place
//! - `writing`: writes as much as the socket takes, and waits for room for the rest

mod connecting;
mod reading;
mod writing;

use crate::buffers::{Buffers, Permit, Reservation};
use crate::effects;
use crate::or_never;
use bytes::Bytes;
use connecting::ConnectionOrigin;
use fnd_core::records::protocol::{Decoder, OutgoingMessage, ProtocolError, WorkerMessage};
use reading::Read;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// A conversation with one worker, for one thread.
pub struct Conversation {
    /// Watched for bytes only: if it were watched for room too, each message that a worker takes would wake fnd.
    socket: RefCell<Rc<AsyncFd<OwnedFd>>>,
    origin: Cell<ConnectionOrigin>,
    decoder: RefCell<Decoder>,
    /// The bytes that the socket has not taken, in parts.
    unsent: RefCell<VecDeque<Bytes>>,
    course: Cell<Course>,
    /// The budget in which large results need room; absent where they need none.
    buffers: Arc<Buffers>,
    /// The room for the large results that are being read, by call. The caller that gets a result takes its room.
    reserved: RefCell<BTreeMap<u64, Reservation>>,
    /// Counts the results that come as streams, by call, until they are whole.
    streamed: RefCell<BTreeMap<u64, Permit>>,
    /// The course changed, or something is unsent.
    changed: Notify,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Going,
    /// Goes on until no message is half read or half sent.
    Stopping,
    HungUp,
}

/// Why a conversation ended.
#[derive(Debug)]
pub enum ConversationEnd {
    /// The worker closed the socket or is gone.
    Closed,
    /// The worker sent bytes that are no message; the messages before them were handed on.
    Protocol(ProtocolError),
    /// The system does not read from the socket any more.
    Failed(io::Error),
    /// [`Conversation::stop`] was called: everything read was handed on as whole messages, and the socket took
    /// everything sent.
    Stopped,
    /// [`Conversation::hang_up`] was called.
    HungUp,
}

/// A wait for room, and the call for whose result it is.
type Reserving = Pin<Box<dyn Future<Output = (u64, Reservation)>>>;

impl Conversation {
    /// Returns the conversation on a socket that is connected or listens, which is made non-blocking, with a worker that has
    /// at most `calls_max` calls in flight and whose results have at most `result_max` bytes. Needs a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be watched.
    pub fn new(socket: OwnedFd, result_max: u64, calls_max: usize, buffers: Arc<Buffers>) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let listens = rustix::net::sockopt::socket_acceptconn(&socket)?;
        Ok(Self {
            socket: RefCell::new(Rc::new(crate::descriptors::watch(socket, Interest::READABLE)?)),
            origin: Cell::new(if listens {
                ConnectionOrigin::Listens
            } else {
                ConnectionOrigin::Inherited
            }),
            decoder: RefCell::new(Decoder::new(result_max, calls_max)),
            unsent: RefCell::default(),
            course: Cell::new(Course::Going),
            buffers,
            reserved: RefCell::default(),
            streamed: RefCell::default(),
            changed: Notify::new(),
        })
    }

    /// Returns the call and the size of a large result for which there is no room, so that its content is not read yet.
    fn lacks_room(&self) -> Option<(u64, u64)> {
        let (call, size) = self.decoder.borrow().large()?;
        let mut reserved = self.reserved.borrow_mut();
        if reserved.contains_key(&call) {
            return None;
        }
        match self.buffers.reserve_now(size as u64) {
            Some(reservation) => {
                reserved.insert(call, reservation);
                None
            }
            None => Some((call, size as u64)),
        }
    }

    /// Waits until there is room for a result.
    fn reserve(&self, (call, size): (u64, u64)) -> Reserving {
        let buffers = Arc::clone(&self.buffers);
        Box::pin(async move { (call, buffers.reserve(size).await) })
    }

    /// Returns the room of a result that was read. A stream has no size before its end, so it gets room if there is some now: then
    /// at least those behind it wait.
    pub(super) fn room(&self, call: u64, streamed: Option<u64>) -> Option<Reservation> {
        let reserved = self.reserved.borrow_mut().remove(&call);
        reserved.or_else(|| self.buffers.reserve_now(streamed?))
    }

    /// Sends a message after those before it, at once as far as the socket takes it. A message to a worker that is gone
    /// is dropped; [`run`](Self::run) reports that the worker is gone.
    pub fn send(&self, message: OutgoingMessage) {
        if self.course.get() == Course::HungUp || !effects::leaves() {
            return;
        }
        let mut unsent = self.unsent.borrow_mut();
        let waits = !unsent.is_empty();
        match message {
            OutgoingMessage::Whole(bytes) => unsent.push_back(bytes.into()),
            OutgoingMessage::Pieces(pieces) => unsent.extend(pieces),
        }
        // After other messages it waits for the room that they wait for.
        if waits || !self.write(&mut unsent) {
            self.changed.notify_one();
        }
    }

    /// Returns whether the socket has taken everything.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.unsent.borrow().is_empty()
    }

    /// Returns whether no message is half read or half sent, so that another fnd can continue with the socket.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.is_flushed() && self.decoder.borrow().is_between()
    }

    /// Lets [`run`](Self::run) end between two messages; only the rest of a message that has begun is still read. With
    /// a worker that does not read or does not finish its message this may never happen, so the caller sets a limit.
    pub fn stop(&self) {
        self.turn_to(Course::Stopping);
    }

    /// Ends the conversation at once: nothing more is sent or handed on, not even messages that were read already.
    pub fn hang_up(&self) {
        self.turn_to(Course::HungUp);
        self.unsent.borrow_mut().clear();
    }

    fn socket(&self) -> Rc<AsyncFd<OwnedFd>> {
        Rc::clone(&self.socket.borrow())
    }

    fn goes_on(&self) -> Result<(), ConversationEnd> {
        match self.course.get() {
            Course::HungUp => Err(ConversationEnd::HungUp),
            Course::Stopping if self.is_between() => Err(ConversationEnd::Stopped),
            Course::Going | Course::Stopping => Ok(()),
        }
    }

    fn turn_to(&self, course: Course) {
        if self.course.get() != Course::HungUp {
            self.course.set(course);
        }
        self.changed.notify_one();
    }

    /// Reads, hands each message to `on`, and sends what could not be sent at once, until the conversation ends. `on`
    /// may send, stop and hang up.
    ///
    /// May be dropped at any time and called again: nothing is lost by that. Two calls must not run at once.
    pub async fn run(&self, mut on: impl FnMut(WorkerMessage)) -> ConversationEnd {
        if let Err(end) = self.connected().await {
            return end;
        }
        let (socket, mut room) = (self.socket(), None);
        let mut reserving: Option<Reserving> = None;
        loop {
            if let Err(end) = self.goes_on() {
                return end;
            }
            // The watched duplicate is kept while something is unsent: each new one would cost three system calls.
            room = match (self.is_flushed(), room) {
                (true, _) => None,
                (false, Some(room)) => Some(room),
                (false, None) => match self.watch_room() {
                    Ok(room) => Some(room),
                    Err(error) => return ConversationEnd::Failed(error),
                },
            };
            if reserving.is_none() {
                reserving = self.lacks_room().map(|lacking| self.reserve(lacking));
            }
            // A conversation that stops reads only the rest of a message: the next message is for the next fnd.
            let reads = self.course.get() == Course::Going || !self.decoder.borrow().is_between();
            // The result stays in the socket until it has room, and so does everything behind it.
            let reads = reads && reserving.is_none();
            // Cancel-safe: each arm only waits for readiness or room, and the code after it does not wait. The wait for room keeps
            // its place in the queue between two turns.
            let waited = tokio::select! {
                biased;
                () = self.changed.notified() => Ok(()),
                (call, reservation) = or_never(reserving.as_mut()) => {
                    reserving = None;
                    self.reserved.borrow_mut().insert(call, reservation);
                    Ok(())
                }
                guard = or_never(room.as_ref().map(AsyncFd::writable)) => guard.map(|mut guard| {
                    if !self.write(&mut self.unsent.borrow_mut()) {
                        guard.clear_ready();
                    }
                }),
                guard = socket.readable(), if reads => match guard {
                    Ok(mut guard) => match self.read(&mut on) {
                        Ok(Read::All) => {
                            guard.clear_ready();
                            Ok(())
                        }
                        Ok(Read::Some) => {
                            // More bytes are there. The guard is not cleared, and other tasks get a turn before they
                            // are read.
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
                return ConversationEnd::Failed(error);
            }
        }
    }
}

#[cfg(test)]
mod tests;
