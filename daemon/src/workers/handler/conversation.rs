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
//! turn in between.

use bytes::{Buf as _, Bytes};
use fnd_core::protocol::{Decoder, Message, ProtocolError, WorkerMessage};
use rustix::io::{Errno, readv};
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, accept_with, recv, send, sendmsg, shutdown,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::sync::Notify;

/// Bytes read at once, and in one turn: a piece full of small messages takes about a millisecond to handle.
const PIECE: usize = 64 << 10;

/// Bytes read behind the end of a frame of a large result: they are copied once more.
const BEHIND: usize = 4 << 10;

/// Parts that are sent with one system call.
const PARTS: usize = 16;

/// Most bytes read of a worker that has ended.
const LEFT_MAX: usize = 16 << 20;

thread_local! {
    /// The buffer for reads. One serves all conversations: it is empty between two reads, and with a thousand idle
    /// workers it is a thousand times smaller.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// A conversation with one worker, for one thread.
pub struct Conversation {
    /// Watched for bytes only: if it were watched for room too, each message that a worker takes would wake fnd.
    socket: RefCell<Rc<AsyncFd<OwnedFd>>>,
    origin: Cell<Origin>,
    decoder: RefCell<Decoder>,
    /// The bytes that the socket has not taken, in parts.
    unsent: RefCell<VecDeque<Bytes>>,
    course: Cell<Course>,
    /// The course changed, or something is unsent.
    changed: Notify,
}

/// Where the socket of a conversation comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The worker inherited the other end.
    Inherited,
    /// The worker has not connected yet.
    Listens,
    /// It was accepted; fnd-spawner has no copy of it.
    Accepted,
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
pub enum End {
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

impl Conversation {
    /// Returns the conversation on a socket that is connected or listens, which is made non-blocking, with a worker that has
    /// at most `calls_max` calls in flight and whose results have at most `result_max` bytes. Needs a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be watched.
    pub fn new(socket: OwnedFd, result_max: u64, calls_max: usize) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let listens = rustix::net::sockopt::socket_acceptconn(&socket)?;
        Ok(Self {
            socket: RefCell::new(Rc::new(crate::workers::watch(socket, Interest::READABLE)?)),
            origin: Cell::new(if listens { Origin::Listens } else { Origin::Inherited }),
            decoder: RefCell::new(Decoder::new(result_max, calls_max)),
            unsent: RefCell::default(),
            course: Cell::new(Course::Going),
            changed: Notify::new(),
        })
    }

    /// Sends a message after those before it, at once as far as the socket takes it. A message to a worker that is gone
    /// is dropped; [`run`](Self::run) reports that the worker is gone.
    pub fn send(&self, message: Message) {
        if self.course.get() == Course::HungUp {
            return;
        }
        let mut unsent = self.unsent.borrow_mut();
        let waits = !unsent.is_empty();
        match message {
            Message::Whole(bytes) => unsent.push_back(bytes.into()),
            Message::Pieces(pieces) => unsent.extend(pieces),
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

    /// Returns a copy of the connection of a worker that has connected; nothing where it inherited its socket, or has not
    /// connected yet: then fnd-spawner has a copy.
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn connection(&self) -> io::Result<Option<OwnedFd>> {
        let accepted = self.origin.get() == Origin::Accepted;
        accepted.then(|| self.socket().get_ref().try_clone()).transpose()
    }

    fn socket(&self) -> Rc<AsyncFd<OwnedFd>> {
        Rc::clone(&self.socket.borrow())
    }

    /// Takes the first connection of a socket that listens, which then takes its place. Returns whether there was one.
    fn accept(&self) -> io::Result<bool> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match accept_with(self.socket().get_ref(), flags) {
            Ok(connection) => {
                let connection = crate::workers::watch(connection, Interest::READABLE)?;
                self.socket.replace(Rc::new(connection));
                self.origin.set(Origin::Accepted);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the worker has connected. Returns the end of the conversation if that comes first.
    async fn connected(&self) -> Result<(), End> {
        while self.origin.get() == Origin::Listens {
            self.goes_on()?;
            let socket = self.socket();
            // Cancel-safe, like those of `run`.
            let waited = tokio::select! {
                biased;
                () = self.changed.notified() => Ok(()),
                guard = socket.readable() => guard.and_then(|mut guard| {
                    if !self.accept()? {
                        guard.clear_ready();
                    }
                    Ok(())
                }),
            };
            waited.map_err(End::Failed)?;
        }
        Ok(())
    }

    fn goes_on(&self) -> Result<(), End> {
        match self.course.get() {
            Course::HungUp => Err(End::HungUp),
            Course::Stopping if self.is_between() => Err(End::Stopped),
            Course::Going | Course::Stopping => Ok(()),
        }
    }

    /// Reads the bytes that a worker that has ended left in the socket, and hands each whole message to `on`. Where
    /// [`run`](Self::run) has ended there are no more.
    pub fn drain_messages(&self, mut on: impl FnMut(WorkerMessage)) {
        if self.origin.get() == Origin::Listens && !self.accept().unwrap_or(false) {
            return;
        }
        // No more than a socket holds: another process may have its other end, and go on sending.
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

    /// Reads, hands each message to `on`, and sends what could not be sent at once, until the conversation ends. `on`
    /// may send, stop and hang up.
    ///
    /// May be dropped at any time and called again: nothing is lost by that. Two calls must not run at once.
    pub async fn run(&self, mut on: impl FnMut(WorkerMessage)) -> End {
        if let Err(end) = self.connected().await {
            return end;
        }
        let (socket, mut room) = (self.socket(), None);
        loop {
            if let Err(end) = self.goes_on() {
                return end;
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
            // Cancel-safe: each arm only waits for readiness, and the code after it does not wait.
            let waited = tokio::select! {
                biased;
                () = self.changed.notified() => Ok(()),
                guard = writable(room.as_ref()) => guard.map(|mut guard| {
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
        crate::workers::watch(self.socket().get_ref().try_clone()?, Interest::WRITABLE)
    }

    /// Writes as much as the socket takes. Returns whether that is everything.
    fn write(&self, unsent: &mut VecDeque<Bytes>) -> bool {
        if self.origin.get() == Origin::Listens {
            return false;
        }
        while !unsent.is_empty() {
            match self.send_parts(unsent) {
                Ok(count) => taken(unsent, count),
                Err(Errno::AGAIN) => return false,
                Err(Errno::INTR) => {}
                Err(error) => {
                    unsent.clear();
                    if !matches!(error, Errno::PIPE | Errno::CONNRESET) {
                        tracing::warn!("failed to send to a worker ({error}), its connection is closed");
                    }
                    // Messages that came before are still read, and then the end. If the shutdown fails, the worker is
                    // gone already.
                    let _ = shutdown(self.socket.borrow().get_ref(), Shutdown::Both);
                }
            }
        }
        true
    }

    /// Sends the first parts. Returns how many bytes the socket has taken.
    fn send_parts(&self, unsent: &VecDeque<Bytes>) -> rustix::io::Result<usize> {
        if let (1, Some(only)) = (unsent.len(), unsent.front()) {
            return send(self.socket.borrow().get_ref(), only, SendFlags::NOSIGNAL);
        }
        let parts: Vec<IoSlice<'_>> = unsent.iter().take(PARTS).map(|part| IoSlice::new(part)).collect();
        let mut nothing = SendAncillaryBuffer::default();
        sendmsg(
            self.socket.borrow().get_ref(),
            &parts,
            &mut nothing,
            SendFlags::NOSIGNAL,
        )
    }

    /// Reads a piece. Returns how many bytes came and how many could have come.
    fn read_to_buffer(&self) -> rustix::io::Result<(usize, usize)> {
        let most = match self.course.get() {
            Course::Going => PIECE,
            Course::Stopping | Course::HungUp => self.decoder.borrow().missing().min(PIECE),
        };
        BUFFER.with_borrow_mut(|buffer| {
            let piece = buffer.get_mut(..most).unwrap_or_default();
            let (count, _) = recv(self.socket.borrow().get_ref(), &mut *piece, RecvFlags::empty())?;
            self.decoder.borrow_mut().push(piece.get(..count).unwrap_or_default());
            Ok((count, most))
        })
    }

    /// Reads a piece of a large result to its final place. Returns nothing if no such piece comes next, else how many
    /// bytes came and how many could have come.
    fn read_to_place(&self) -> Option<rustix::io::Result<(usize, usize)>> {
        let mut decoder = self.decoder.borrow_mut();
        let behind = if self.course.get() == Course::Going { BEHIND } else { 0 };
        BUFFER.with_borrow_mut(|buffer| {
            let behind = buffer.get_mut(..behind).unwrap_or_default();
            let place = decoder.space()?;
            let (most, in_place) = (place.len() + behind.len(), place.len());
            let read = readv(
                self.socket.borrow().get_ref(),
                &mut [IoSliceMut::new(place), IoSliceMut::new(behind)],
            );
            Some(read.map(|count| {
                decoder.filled(count);
                if let Some(more) = behind.get(..count.saturating_sub(in_place)) {
                    decoder.push(more);
                }
                (count, most)
            }))
        })
    }

    /// Reads a piece and hands the messages in it on.
    fn read(&self, on: &mut impl FnMut(WorkerMessage)) -> Result<Read, End> {
        let read = match self.read_to_place() {
            Some(read) => read,
            None => self.read_to_buffer(),
        };
        let read = match read {
            Ok((0, _)) | Err(Errno::CONNRESET) => return Err(End::Closed),
            Ok((count, most)) if count < most => Read::All,
            Ok(_) | Err(Errno::INTR) => Read::Some,
            Err(Errno::AGAIN) => return Ok(Read::All),
            Err(error) => return Err(End::Failed(error.into())),
        };
        while self.course.get() != Course::HungUp {
            // The decoder is not borrowed while `on` runs, because `on` may ask for its state.
            let next = self.decoder.borrow_mut().next();
            match next {
                Ok(Some(message)) => on(message),
                Ok(None) => break,
                Err(error) => {
                    // Nothing after the error can be trusted.
                    self.course.set(Course::HungUp);
                    return Err(End::Protocol(error));
                }
            }
        }
        Ok(read)
    }
}

/// Removes bytes that the socket has taken.
fn taken(unsent: &mut VecDeque<Bytes>, mut count: usize) {
    while let Some(first) = unsent.front_mut() {
        let part = count.min(first.len());
        first.advance(part);
        count -= part;
        if !first.is_empty() {
            return;
        }
        unsent.pop_front();
    }
}

/// Whether a read has emptied the socket.
enum Read {
    All,
    Some,
}

/// Waits for room, where `room` is there; for ever otherwise.
async fn writable(room: Option<&AsyncFd<OwnedFd>>) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
    match room {
        Some(room) => room.writable().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
