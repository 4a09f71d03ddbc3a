//! The header of a frame.

use super::{HEADER, MessageKind};

/// A header as it came: its reader checks it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHeader {
    /// Number of bytes after the header.
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) reserved: [u8; 2],
    pub(super) call: u64,
}

impl FrameHeader {
    pub(super) fn parse(bytes: [u8; HEADER]) -> Self {
        let [l0, l1, l2, l3, kind, flags, r0, r1, call @ ..] = bytes;
        Self {
            length: usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX),
            kind,
            flags,
            reserved: [r0, r1],
            call: u64::from_le_bytes(call),
        }
    }

    /// Returns the type, if a receiver must know it. Cancel is none of these: it always has OPTIONAL.
    pub(super) fn message_kind(self) -> Option<MessageKind> {
        [
            MessageKind::Ready,
            MessageKind::Invoke,
            MessageKind::Body,
            MessageKind::Result,
            MessageKind::Error,
            MessageKind::Log,
            MessageKind::Stop,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == self.kind)
    }
}

pub(super) fn header(length: usize, (kind, flags): (MessageKind, u8), call: u64) -> [u8; HEADER] {
    // The length is at most FRAME_MAX.
    let [l0, l1, l2, l3] = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let [c0, c1, c2, c3, c4, c5, c6, c7] = call.to_le_bytes();
    [l0, l1, l2, l3, kind as u8, flags, 0, 0, c0, c1, c2, c3, c4, c5, c6, c7]
}
