//! Writes fnd's messages: cuts them into frames.

use super::{FRAME_MAX, HEADER, InvokeHead, Kind, MORE};

/// Returns the bytes of an Invoke: its head, the payload and the previous attempt's result. Sets their lengths in the
/// head.
#[must_use]
pub fn invoke(call: u64, mut head: InvokeHead<'_>, data: Option<&[u8]>, previous: Option<&[u8]>) -> Vec<u8> {
    let length = |part: Option<&[u8]>| part.map(|part| u64::try_from(part.len()).unwrap_or(u64::MAX));
    head.data = length(data);
    head.previous = length(previous);
    // The head has only strings, numbers and JSON values, which can always be written.
    let head = serde_json::to_vec(&head).unwrap_or_default();
    let size = u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes();
    let parts = [&size[..], &head, data.unwrap_or_default(), previous.unwrap_or_default()];
    message(Kind::Invoke, call, &parts)
}

/// Returns the bytes of a Stop.
#[must_use]
pub fn stop() -> Vec<u8> {
    message(Kind::Stop, 0, &[])
}

fn message(kind: Kind, call: u64, parts: &[&[u8]]) -> Vec<u8> {
    let mut remaining: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(remaining + HEADER * (1 + remaining / FRAME_MAX));
    let mut bytes = parts.iter().copied();
    let mut part: &[u8] = &[];
    let mut kind = kind;
    loop {
        let mut room = remaining.min(FRAME_MAX);
        remaining -= room;
        header(&mut out, room, (kind, if remaining > 0 { MORE } else { 0 }), call);
        while room > 0 {
            if part.is_empty() {
                let Some(next) = bytes.next() else { break };
                part = next;
            }
            let (taken, rest) = part.split_at(part.len().min(room));
            out.extend_from_slice(taken);
            room -= taken.len();
            part = rest;
        }
        if remaining == 0 {
            return out;
        }
        kind = Kind::Body;
    }
}

fn header(out: &mut Vec<u8>, length: usize, (kind, flags): (Kind, u8), call: u64) {
    // The length is at most FRAME_MAX.
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&[kind as u8, flags, 0, 0]);
    out.extend_from_slice(&call.to_le_bytes());
}
