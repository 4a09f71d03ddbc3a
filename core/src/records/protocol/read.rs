//! Reads a worker's messages: joins frames to whole messages.

use super::header::FrameHeader;
use super::{FRAME_MAX, HEAD_MAX, HEADER, MORE, MessageKind, OPTIONAL, ResultHead, WorkerMessage, head_and_parts};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Why a worker's bytes are invalid. The worker is replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A frame with an invalid header.
    #[error("it sent an invalid frame ({0})")]
    Frame(&'static str),
    /// A message of a type that a worker does not send.
    #[error("it sent a message of type {0}, which a worker does not send")]
    Type(u8),
    /// A message that is larger than allowed.
    #[error("its answer is larger than {limit} bytes (limits.result)")]
    TooLarge {
        /// The call of the message.
        call: u64,
        /// Largest allowed size of the answer in bytes (`limits.result`).
        limit: u64,
    },
    /// More unfinished messages than calls in flight.
    #[error("it began more messages than it has calls")]
    TooMany,
    /// A message with invalid content.
    #[error("it sent an invalid message: {0}")]
    Message(String),
}

/// Joins a worker's bytes to messages. Holds at most one message per call in flight, each within its bounds.
///
/// The content of a large result is not joined: once its head is known, the bytes have their final place, and
/// [`Decoder::space`] lets the caller read them there.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Number of buffered bytes that were consumed.
    used: usize,
    partial: BTreeMap<u64, Partial>,
    /// The frame whose content goes to its final place.
    filling: Option<Filling>,
    result_max: u64,
    calls_max: usize,
}

/// A message that is not complete.
#[derive(Debug)]
enum Partial {
    Joined(MessageKind, Vec<u8>),
    Result(Begun),
    Stream(Stream),
}

/// A result whose size is not known before its end.
#[derive(Debug)]
struct Stream {
    head: ResultHead,
    data: Vec<u8>,
}

/// A result whose head has come.
#[derive(Debug)]
struct Begun {
    head: ResultHead,
    /// As long as the head says.
    data: Vec<u8>,
    /// Number of bytes of `data` that have come.
    filled: usize,
}

/// A frame that continues a result.
#[derive(Debug, Clone, Copy)]
struct Filling {
    call: u64,
    /// Bytes of the frame that have not come.
    rest: usize,
    /// Whether another frame follows.
    more: bool,
}

impl Decoder {
    /// Returns a decoder for a worker with at most `calls_max` calls in flight and results of at most `result_max`
    /// bytes.
    #[must_use]
    pub fn new(result_max: u64, calls_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            used: 0,
            partial: BTreeMap::new(),
            filling: None,
            result_max,
            calls_max,
        }
    }

    /// Says whether the decoder is between two messages, without a part of one.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.used == self.buffer.len() && self.partial.is_empty()
    }

    /// Returns how many bytes are missing to the end of the current frame or header. Valid after [`Decoder::next`] has
    /// returned nothing.
    #[must_use]
    pub fn missing(&self) -> usize {
        if let Some(filling) = &self.filling {
            return filling.rest;
        }
        let there = self.buffer.len().saturating_sub(self.used);
        // An invalid header does not come here: `next` has already refused it.
        let size = match self.header() {
            Ok(Some(header)) => HEADER + header.length,
            Ok(None) | Err(_) => HEADER,
        };
        size.saturating_sub(there)
    }

    /// Returns the place of the bytes that come next, as far as they belong to the same frame of a large result. Valid
    /// after [`Decoder::next`] has returned nothing. The caller reads there, and then calls [`Decoder::filled`].
    #[must_use]
    pub fn space(&mut self) -> Option<&mut [u8]> {
        let Filling { call, rest, .. } = self.filling?;
        match self.partial.get_mut(&call) {
            Some(Partial::Result(begun)) => begun.data.get_mut(begun.filled..begun.filled + rest),
            Some(Partial::Joined(..) | Partial::Stream(_)) | None => None,
        }
    }

    /// Returns the call of the large result whose content comes next, and its size.
    #[must_use]
    pub fn large(&self) -> Option<(u64, usize)> {
        let call = self.filling?.call;
        match self.partial.get(&call) {
            Some(Partial::Result(begun)) => Some((call, begun.data.len())),
            Some(Partial::Joined(..) | Partial::Stream(_)) | None => None,
        }
    }

    /// Says that the next `count` bytes are in their [`Decoder::space`].
    pub fn filled(&mut self, count: usize) {
        if let Some(filling) = &mut self.filling
            && let Some(Partial::Result(begun)) = self.partial.get_mut(&filling.call)
        {
            let count = count.min(filling.rest);
            begun.filled += count;
            filling.rest -= count;
        }
    }

    /// Adds bytes. Before the next call, [`Decoder::next`] must be called until it returns nothing.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole message; nothing if more bytes are needed.
    ///
    /// # Errors
    /// Any [`ProtocolError`]; the worker cannot be used any more.
    #[expect(
        clippy::should_implement_trait,
        reason = "fallible, and nothing is the end only for now"
    )]
    pub fn next(&mut self) -> Result<Option<WorkerMessage>, ProtocolError> {
        loop {
            if let Some(filling) = self.filling {
                self.fill();
                if self.missing() > 0 {
                    return Ok(None);
                }
                self.filling = None;
                if let Some(result) = self.frame_ended(filling)? {
                    return Ok(Some(result));
                }
            }
            let Some(header) = self.header()? else { return Ok(None) };
            let known = header.message_kind();
            let more = header.flags & MORE != 0;
            let call = header.call;
            if known == Some(MessageKind::Body)
                && let Some(Partial::Result(begun)) = self.partial.get(&call)
            {
                // A frame beyond the stated size would find no space, so its bytes would never be consumed.
                if header.length > begun.data.len() - begun.filled {
                    return Err(wrong_length());
                }
                self.used += HEADER;
                let rest = header.length;
                self.filling = Some(Filling { call, rest, more });
                continue;
            }
            let from = self.used + HEADER;
            let Some(content) = self.buffer.get(from..from + header.length) else {
                return Ok(None);
            };
            // So a later version of the protocol can add messages that this fnd need not know.
            if known.is_none() && header.flags & OPTIONAL != 0 {
                self.used = from + header.length;
                continue;
            }
            // An Error takes the place of a stream that was begun. Any other message is complete before the next one of its call.
            let begun = self.partial.remove(&call);
            let begun = begun.filter(|begun| known != Some(MessageKind::Error) || !matches!(begun, Partial::Stream(_)));
            let partial = match (known, begun) {
                (Some(MessageKind::Body), Some(Partial::Stream(mut stream))) => {
                    stream.append(call, content, self.result_max)?;
                    if !more {
                        self.used = from + header.length;
                        return Ok(Some(stream.ended(call)));
                    }
                    Partial::Stream(stream)
                }
                (Some(MessageKind::Body), Some(Partial::Joined(kind, mut message))) => {
                    message.extend_from_slice(content);
                    Partial::Joined(kind, message)
                }
                (Some(MessageKind::Body), _) => return Err(ProtocolError::Frame("a body without its message")),
                (Some(_), Some(_)) => return Err(ProtocolError::Frame("two messages for one call at once")),
                // The result is not joined from its frames: its bytes are read to the place where they stay, so a large
                // one is not copied again and again.
                (Some(MessageKind::Result), None) if more && call > 0 => match begin(call, content, self.result_max)? {
                    Some(begun) => begun,
                    None => Partial::Joined(MessageKind::Result, content.to_vec()),
                },
                (Some(kind), None) if !more => {
                    self.within_bounds(call, kind, content.len())?;
                    let message = worker_message(kind, call, content, self.result_max);
                    self.used = from + header.length;
                    return message.map(Some);
                }
                (Some(kind), None) => Partial::Joined(kind, content.to_vec()),
                (None, _) => return Err(ProtocolError::Type(header.kind)),
            };
            let part = match &partial {
                Partial::Stream(stream) => Some(stream.part(header)),
                Partial::Joined(..) | Partial::Result(_) => None,
            };
            self.used = from + header.length;
            if let Partial::Joined(kind, message) = &partial {
                // The bound holds after each frame: a message without an end takes no more memory than the largest
                // complete one.
                self.within_bounds(call, *kind, message.len())?;
                if !more {
                    return worker_message(*kind, call, message, self.result_max).map(Some);
                }
            }
            // One more than calls: the worker itself, call 0, may be in the middle of a message, too.
            if self.partial.len() >= self.calls_max.saturating_add(1) {
                return Err(ProtocolError::TooMany);
            }
            self.partial.insert(call, partial);
            if part.is_some() {
                return Ok(part);
            }
        }
    }

    /// Moves buffered bytes to their final place.
    fn fill(&mut self) {
        // `space` borrows the whole decoder, so the buffer leaves it for the time of the copy.
        let (mut buffer, used) = (std::mem::take(&mut self.buffer), self.used);
        let from = buffer.get(used..).unwrap_or_default();
        if let Some(space) = self.space() {
            let count = space.len().min(from.len());
            if let (Some(space), Some(from)) = (space.get_mut(..count), from.get(..count)) {
                space.copy_from_slice(from);
            }
            self.used += count;
            self.filled(count);
        }
        std::mem::swap(&mut self.buffer, &mut buffer);
    }

    /// Returns the result whose last frame has ended.
    fn frame_ended(&mut self, Filling { call, more, .. }: Filling) -> Result<Option<WorkerMessage>, ProtocolError> {
        if more {
            return Ok(None);
        }
        let Some(Partial::Result(begun)) = self.partial.remove(&call) else {
            return Ok(None);
        };
        // Otherwise the caller would get the zeros of the buffer in place of the missing bytes.
        if begun.filled < begun.data.len() {
            return Err(wrong_length());
        }
        let data = begun.head.data.map(|_| begun.data);
        let head = begun.head;
        Ok(Some(WorkerMessage::Result { call, head, data }))
    }

    fn header(&self) -> Result<Option<FrameHeader>, ProtocolError> {
        let Some(bytes) = self
            .buffer
            .get(self.used..)
            .and_then(|rest| rest.first_chunk::<HEADER>())
        else {
            return Ok(None);
        };
        let header = FrameHeader::parse(*bytes);
        if header.length > FRAME_MAX {
            return Err(ProtocolError::Frame("too long"));
        }
        if header.reserved != [0, 0] || header.flags & !(MORE | OPTIONAL) != 0 {
            return Err(ProtocolError::Frame("unknown flags"));
        }
        Ok(Some(header))
    }

    fn within_bounds(&self, call: u64, kind: MessageKind, size: usize) -> Result<(), ProtocolError> {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        let head = u64::try_from(HEAD_MAX).unwrap_or(u64::MAX);
        let limit = self.result_max.saturating_add(head);
        match kind {
            // An Error of execute-again contains a result, so the limit of results applies.
            MessageKind::Result | MessageKind::Error if size > limit => Err(ProtocolError::TooLarge {
                call,
                limit: self.result_max,
            }),
            MessageKind::Ready | MessageKind::Log if size > head => {
                Err(ProtocolError::Message("it is too long".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

impl Stream {
    fn append(&mut self, call: u64, piece: &[u8], limit: u64) -> Result<(), ProtocolError> {
        if (self.data.len() + piece.len()) as u64 > limit {
            return Err(ProtocolError::TooLarge { call, limit });
        }
        self.data.extend_from_slice(piece);
        Ok(())
    }

    /// Returns the bytes of the last frame. The content of the first frame, which is a Result, begins with the head.
    fn part(&self, frame: FrameHeader) -> WorkerMessage {
        let from = self.data.len().saturating_sub(frame.length);
        let is_first = frame.message_kind() == Some(MessageKind::Result);
        WorkerMessage::Part {
            call: frame.call,
            head: is_first.then(|| self.head.clone()),
            data: self.data.get(from..).unwrap_or_default().to_vec(),
        }
    }

    /// Returns the result as one that has stated its size.
    fn ended(mut self, call: u64) -> WorkerMessage {
        self.head.data = Some(self.data.len() as u64);
        WorkerMessage::Result {
            call,
            head: self.head,
            data: Some(self.data),
        }
    }
}

fn worker_message(
    kind: MessageKind,
    call: u64,
    message: &[u8],
    result_max: u64,
) -> Result<WorkerMessage, ProtocolError> {
    match kind {
        MessageKind::Ready if call == 0 => {
            let ready: super::ReadyMessage = json(message)?;
            // A worker that takes no call would stay in the pool and never get work.
            if ready.concurrency == 0 || ready.protocol == 0 {
                return Err(ProtocolError::Message("a Ready with the value 0".to_owned()));
            }
            Ok(WorkerMessage::Ready(ready))
        }
        MessageKind::Result if call > 0 => {
            let (head, data) = result(message)?;
            if u64::try_from(data.as_ref().map_or(0, Vec::len)).unwrap_or(u64::MAX) > result_max {
                return Err(ProtocolError::TooLarge {
                    call,
                    limit: result_max,
                });
            }
            Ok(WorkerMessage::Result { call, head, data })
        }
        MessageKind::Error => Ok(WorkerMessage::Error {
            call,
            failure: json(message)?,
        }),
        MessageKind::Log => Ok(WorkerMessage::Log {
            call,
            record: json(message)?,
        }),
        MessageKind::Ready | MessageKind::Result => Err(ProtocolError::Message(
            "it does not fit the call that it names".to_owned(),
        )),
        MessageKind::Invoke | MessageKind::Body | MessageKind::Stop | MessageKind::Cancel => {
            Err(ProtocolError::Type(kind as u8))
        }
    }
}

fn wrong_length() -> ProtocolError {
    ProtocolError::Message("a result does not have the length that it states".to_owned())
}

/// Returns a result whose head is whole in its first frame; nothing if the head goes on in another frame.
fn begin(call: u64, content: &[u8], result_max: u64) -> Result<Option<Partial>, ProtocolError> {
    let Some((head, part)) = head_and_parts(content) else {
        return Ok(None);
    };
    let head = checked(head)?;
    if head.stream {
        let data = Vec::new();
        let mut stream = Stream { head, data };
        stream.append(call, part, result_max)?;
        return Ok(Some(Partial::Stream(stream)));
    }
    let size = head.data.unwrap_or(0);
    if size > result_max {
        return Err(ProtocolError::TooLarge {
            call,
            limit: result_max,
        });
    }
    // Within the limit. Pages that no byte has come for take no memory.
    let mut data = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    let filled = part.len();
    let place = data.get_mut(..filled).ok_or_else(wrong_length)?;
    place.copy_from_slice(part);
    Ok(Some(Partial::Result(Begun { head, data, filled })))
}

fn result(message: &[u8]) -> Result<(ResultHead, Option<Vec<u8>>), ProtocolError> {
    let short = || ProtocolError::Message("a result ends inside its head".to_owned());
    let (head, body) = head_and_parts(message).ok_or_else(short)?;
    let mut head = checked(head)?;
    if head.stream {
        head.data = Some(body.len() as u64);
    }
    if head.data.unwrap_or(0) != u64::try_from(body.len()).unwrap_or(u64::MAX) {
        return Err(wrong_length());
    }
    // A length of 0 is an empty result. Without a length there is no result.
    let data = head.data.map(|_| body.to_vec());
    Ok((head, data))
}

fn checked(head: &[u8]) -> Result<ResultHead, ProtocolError> {
    let head: ResultHead = json(head)?;
    // A status below 200 says that the final answer is still to come (RFC 9110, section 15.2).
    if head.status.is_some_and(|status| !(200..600).contains(&status)) {
        return Err(ProtocolError::Message("a result has an invalid status".to_owned()));
    }
    if head.stream && head.data.is_some() {
        let message = "a result is a stream, and states its length".to_owned();
        return Err(ProtocolError::Message(message));
    }
    Ok(head)
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ProtocolError> {
    serde_json::from_slice(bytes).map_err(|error| ProtocolError::Message(error.to_string()))
}
