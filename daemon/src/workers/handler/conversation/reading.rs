//! Reads from the socket: small messages through one buffer, large ones to their final place.

use super::connecting::ConnectionOrigin;
use super::{Conversation, ConversationEnd, Course};
use fnd_core::records::protocol::WorkerMessage;
use rustix::io::{Errno, readv};
use rustix::net::{RecvFlags, recv};
use std::cell::RefCell;
use std::io::IoSliceMut;

/// Bytes read at once, and in one turn: a piece full of small messages takes about a millisecond to handle.
pub(super) const PIECE: usize = 64 << 10;

/// Bytes read behind the end of a frame of a large result: they are copied once more.
const BEHIND: usize = 4 << 10;

/// Most bytes read of a worker that has ended.
const LEFT_MAX: usize = 16 << 20;

thread_local! {
    /// The buffer for reads. One serves all conversations: it is empty between two reads, and with a thousand idle
    /// workers it is a thousand times smaller.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// Whether a read has emptied the socket.
pub(super) enum Read {
    All,
    Some,
}

impl Conversation {
    /// Reads the bytes that a worker that has ended left in the socket, and hands each whole message to `on`. Where
    /// [`run`](Self::run) has ended there are no more.
    pub fn drain_messages(&self, mut on: impl FnMut(WorkerMessage)) {
        if self.origin.get() == ConnectionOrigin::Listens && !self.accept().unwrap_or(false) {
            return;
        }
        // No more than a socket holds: another process may have its other end, and go on sending.
        for _ in 0..LEFT_MAX / PIECE {
            if !matches!(self.read(&mut on), Ok(Read::Some)) {
                break;
            }
        }
    }

    /// Reads a piece. Returns how many bytes came and how many could have come.
    fn read_to_buffer(&self) -> rustix::io::Result<(usize, usize)> {
        let most = match self.course.get() {
            Course::Going => PIECE,
            // The next fnd continues with this socket, so no byte behind the present message may be taken.
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

    /// Counts the bytes of a stream against the budget, until the result or an error takes their place.
    fn count_stream(&self, message: &WorkerMessage) {
        let mut streamed = self.streamed.borrow_mut();
        match message {
            WorkerMessage::Part { call, data, .. } => {
                let counted = streamed.entry(*call).or_insert_with(|| self.buffers.take_anyway(0));
                counted.join(self.buffers.take_anyway(data.len() as u64));
            }
            WorkerMessage::Result { call, .. } | WorkerMessage::Error { call, .. } => drop(streamed.remove(call)),
            WorkerMessage::Ready(_) | WorkerMessage::Log { .. } => {}
        }
    }

    /// Reads a piece and hands the messages in it on.
    pub(super) fn read(&self, on: &mut impl FnMut(WorkerMessage)) -> Result<Read, ConversationEnd> {
        let read = match self.read_to_place() {
            Some(read) => read,
            None => self.read_to_buffer(),
        };
        let read = match read {
            Ok((0, _)) | Err(Errno::CONNRESET) => return Err(ConversationEnd::Closed),
            // A stream that gives fewer bytes than asked for is empty (epoll(7), "Questions and answers").
            Ok((count, most)) if count < most => Read::All,
            Ok(_) | Err(Errno::INTR) => Read::Some,
            Err(Errno::AGAIN) => return Ok(Read::All),
            Err(error) => return Err(ConversationEnd::Failed(error.into())),
        };
        while self.course.get() != Course::HungUp {
            // The decoder is not borrowed while `on` runs, because `on` may ask for its state.
            let next = self.decoder.borrow_mut().next();
            match next {
                Ok(Some(message)) => {
                    self.count_stream(&message);
                    on(message);
                }
                Ok(None) => break,
                Err(error) => {
                    // Nothing after the error can be trusted.
                    self.course.set(Course::HungUp);
                    return Err(ConversationEnd::Protocol(error));
                }
            }
        }
        Ok(read)
    }
}
