//! Writes fnd's messages: cuts them into frames.

use super::header::header;
use super::{FRAME_MAX, HEADER, InvokeHead, MORE, MessageKind, OPTIONAL};
use crate::data::Data;
use bytes::Bytes;
use std::io;

/// Parts up to this size are copied into the message: a view of its own would cost more.
const COPIED_MAX: usize = 16 << 10;

/// Most heads are not longer than this.
const HEAD_USUAL: usize = 512;

/// A message: its bytes in one piece, or in several, so that large parts need not be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutgoingMessage {
    /// All bytes of the message in one piece.
    Whole(Vec<u8>),
    /// In several, in this order.
    Pieces(Vec<Bytes>),
}

impl OutgoingMessage {
    /// Returns the bytes in one piece.
    #[must_use]
    pub fn joined(self) -> Vec<u8> {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Pieces(pieces) => pieces.concat(),
        }
    }
}

/// Returns an Invoke: its head, the payload and the previous attempt's result. Sets their lengths in the head.
///
/// # Errors
/// The payload is on a disk that cannot be read.
pub fn invoke(
    call: u64,
    mut head: InvokeHead<'_>,
    data: Option<&Data>,
    previous: Option<&Bytes>,
) -> io::Result<OutgoingMessage> {
    head.data = data.map(Data::size);
    head.previous = previous.map(|previous| previous.len() as u64);
    // The head has only strings, numbers and JSON values, which can always be written.
    let mut written = Vec::with_capacity(HEAD_USUAL);
    let _ = serde_json::to_writer(&mut written, &head);
    let head = written;
    let size = u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes();
    let data_size = data.map_or(0, |data| usize::try_from(data.size()).unwrap_or(usize::MAX));
    if data_size <= COPIED_MAX && previous.is_none_or(|previous| previous.len() <= COPIED_MAX) {
        let data = data.map(Data::bytes).transpose()?;
        let parts = [
            &size[..],
            &head,
            data.as_deref().unwrap_or_default(),
            previous.map_or(&[][..], |previous| previous),
        ];
        return Ok(OutgoingMessage::Whole(whole(MessageKind::Invoke, call, &parts)));
    }
    let data = data.map(Data::view).transpose()?;
    let own = Bytes::from([&size[..], &head].concat());
    let parts = [Some(own), data, previous.cloned()];
    Ok(OutgoingMessage::Pieces(pieces(
        MessageKind::Invoke,
        call,
        parts.into_iter().flatten().collect(),
    )))
}

/// Returns the message that asks the worker to finish its calls and exit.
#[must_use]
pub fn stop() -> OutgoingMessage {
    OutgoingMessage::Whole(whole(MessageKind::Stop, 0, &[]))
}

/// Returns a Cancel. A worker that does not know it skips it.
#[must_use]
pub fn cancel(call: u64) -> OutgoingMessage {
    OutgoingMessage::Whole(header(0, (MessageKind::Cancel, OPTIONAL), call).to_vec())
}

/// Returns a message of less than [`FRAME_MAX`] bytes.
pub(super) fn whole(kind: MessageKind, call: u64, parts: &[&[u8]]) -> Vec<u8> {
    let size = parts.iter().map(|part| part.len()).sum();
    if size > FRAME_MAX {
        // Payload and previous result are short here (`COPIED_MAX`), so the head alone exceeds a frame.
        let own = Bytes::from(parts.concat());
        return pieces(kind, call, vec![own]).concat();
    }
    let mut out = Vec::with_capacity(HEADER + size);
    out.extend_from_slice(&header(size, (kind, 0), call));
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// Cuts parts into frames: a header, and views of the parts behind it.
pub(super) fn pieces(mut kind: MessageKind, call: u64, parts: Vec<Bytes>) -> Vec<Bytes> {
    let mut remaining: usize = parts.iter().map(Bytes::len).sum();
    let mut parts = parts.into_iter();
    let mut part = Bytes::new();
    let mut out = Vec::new();
    loop {
        let mut room = remaining.min(FRAME_MAX);
        remaining -= room;
        let flags = if remaining > 0 { MORE } else { 0 };
        out.push(Bytes::copy_from_slice(&header(room, (kind, flags), call)));
        while room > 0 {
            if part.is_empty() {
                let Some(next) = parts.next() else { break };
                part = next;
            }
            let piece = part.split_to(part.len().min(room));
            room -= piece.len();
            out.push(piece);
        }
        if remaining == 0 {
            return out;
        }
        kind = MessageKind::Body;
    }
}
