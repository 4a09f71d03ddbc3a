//! The frames of the worker protocol (`runtimes/PROTOCOL.md`) as a worker reads and writes them. No socket is touched here.

use fnd_core::records::protocol::{FRAME_MAX, HEADER, ProtocolFailure, ReadyMessage, ResultHead, VERSION};
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

const READY: u8 = 1;
const INVOKE: u8 = 2;
const BODY: u8 = 3;
const RESULT: u8 = 4;
const ERROR: u8 = 5;
const STOP: u8 = 7;

const MORE: u8 = 0x01;
const OPTIONAL: u8 = 0x02;

/// The event of a call without a payload: clients read the event as JSON.
const NO_EVENT: &[u8] = b"{}";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) length: usize,
    kind: u8,
    flags: u8,
    call: u64,
}

impl FrameHeader {
    /// Reads the header of a frame.
    ///
    /// # Errors
    /// The frame is longer than a frame may be.
    pub(super) fn read(bytes: [u8; HEADER]) -> Result<Self, String> {
        let [l0, l1, l2, l3, kind, flags, _, _, call @ ..] = bytes;
        let length = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
        if length > FRAME_MAX {
            return Err(format!("fnd sent a frame of {length} bytes"));
        }
        let call = u64::from_le_bytes(call);
        Ok(Self {
            length,
            kind,
            flags,
            call,
        })
    }
}

/// A message of fnd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FndMessage {
    Invoke(Invocation),
    Stop,
}

/// A call, as far as Lambda has a place for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    pub(super) call: u64,
    /// The invocation's id. A later attempt at the same invocation has the same one.
    pub(super) id: String,
    /// W3C `traceparent`; empty if there is none.
    pub(super) traceparent: String,
    /// End of this attempt, Unix milliseconds; absent without a limit.
    pub(super) deadline_ms: Option<u64>,
    pub(super) content_type: Option<String>,
    pub(super) event: Bytes,
}

/// The keys that the shim reads. A worker may outlive the fnd that started it, so a later fnd may send others.
#[derive(Deserialize)]
struct InvokeHead {
    invocation: String,
    #[serde(default)]
    traceparent: String,
    deadline_ms: Option<u64>,
    content_type: Option<String>,
    data: Option<usize>,
}

/// Joins the frames of fnd to messages.
#[derive(Debug, Default)]
pub(super) struct FrameJoiner {
    /// Invokes whose last frame has not come, by their call.
    begun: BTreeMap<u64, Vec<u8>>,
}

impl FrameJoiner {
    /// Adds a frame, and returns the message that it ends.
    ///
    /// # Errors
    /// The frame has no place in the protocol.
    pub(super) fn add(&mut self, header: FrameHeader, content: Vec<u8>) -> Result<Option<FndMessage>, String> {
        let FrameHeader { kind, flags, call, .. } = header;
        let message = match kind {
            INVOKE => content,
            BODY => {
                let begun = self.begun.remove(&call);
                let mut message = begun.ok_or_else(|| "fnd sent a body without its message".to_owned())?;
                message.extend_from_slice(&content);
                message
            }
            STOP => return Ok(Some(FndMessage::Stop)),
            // Cancel among them: the Runtime API has no way to end a call.
            _ if flags & OPTIONAL != 0 => return Ok(None),
            _ => return Err(format!("fnd sent a message of type {kind}")),
        };
        if flags & MORE != 0 {
            self.begun.insert(call, message);
            return Ok(None);
        }
        invocation(call, message).map(|invocation| Some(FndMessage::Invoke(invocation)))
    }
}

fn invocation(call: u64, message: Vec<u8>) -> Result<Invocation, String> {
    let short = || "an Invoke ends before its parts do".to_owned();
    let message = Bytes::from(message);
    let size = message.first_chunk::<4>().ok_or_else(short)?;
    let size = usize::try_from(u32::from_le_bytes(*size)).unwrap_or(usize::MAX);
    let start = size.saturating_add(4);
    let head = message.get(4..start).ok_or_else(short)?;
    let head: InvokeHead = serde_json::from_slice(head).map_err(|error| format!("the head of an Invoke: {error}"))?;
    let event = match head.data {
        Some(size) => {
            let end = start.saturating_add(size);
            message.get(start..end).ok_or_else(short)?;
            message.slice(start..end)
        }
        None => Bytes::from_static(NO_EVENT),
    };
    Ok(Invocation {
        call,
        id: head.invocation,
        traceparent: head.traceparent,
        deadline_ms: head.deadline_ms,
        content_type: head.content_type,
        event,
    })
}

/// Returns a Ready.
pub(super) fn ready(concurrency: u32) -> Vec<u8> {
    let ready = ReadyMessage {
        protocol: VERSION,
        concurrency,
        port: None,
        variables: false,
        cancel: false,
    };
    // Numbers and truth values can always be written, as the texts below can.
    message(READY, 0, &[], &serde_json::to_vec(&ready).unwrap_or_default())
}

/// Returns a Result. The media type is short (`api::result_type`), so the head fits in the first frame.
pub(super) fn result(call: u64, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = ResultHead {
        content_type: Some(content_type.to_owned()),
        data: Some(u64::try_from(body.len()).unwrap_or(u64::MAX)),
        ..ResultHead::default()
    };
    message(
        RESULT,
        call,
        &sized(&serde_json::to_vec(&head).unwrap_or_default()),
        body,
    )
}

/// Returns an Error. For call 0 it says why the worker cannot serve.
pub(super) fn failure(call: u64, failure: &ProtocolFailure) -> Vec<u8> {
    message(ERROR, call, &[], &serde_json::to_vec(failure).unwrap_or_default())
}

/// Returns the begin of a Result whose size is not known: parts follow, and then [`stream_end`] or a [`failure`].
pub(super) fn stream_start(call: u64, content_type: &str) -> Vec<u8> {
    let head = json!({ "content_type": content_type, "stream": true }).to_string();
    let mut out = Vec::new();
    put(&mut out, (RESULT, MORE), call, [&sized(head.as_bytes()), &[]]);
    out
}

/// Returns a part of a Result that was begun.
pub(super) fn stream_part(call: u64, part: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(part.len() + HEADER);
    for piece in part.chunks(FRAME_MAX) {
        put(&mut out, (BODY, MORE), call, [piece, &[]]);
    }
    out
}

/// Returns the end of a Result that was begun: a frame without content.
pub(super) fn stream_end(call: u64) -> Vec<u8> {
    message(BODY, call, &[], &[])
}

/// Returns a head with its length before it.
fn sized(head: &[u8]) -> Vec<u8> {
    let size = u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes();
    [&size[..], head].concat()
}

/// Returns a whole message, cut into frames. The prefix is shorter than a frame.
fn message(kind: u8, call: u64, prefix: &[u8], body: &[u8]) -> Vec<u8> {
    let room = FRAME_MAX.saturating_sub(prefix.len());
    let (first, rest) = body.split_at(body.len().min(room));
    let frames = 2 + rest.len() / FRAME_MAX;
    let mut out = Vec::with_capacity(prefix.len() + body.len() + frames * HEADER);
    let more = |is_last: bool| if is_last { 0 } else { MORE };
    put(&mut out, (kind, more(rest.is_empty())), call, [prefix, first]);
    let mut pieces = rest.chunks(FRAME_MAX).peekable();
    while let Some(piece) = pieces.next() {
        put(&mut out, (BODY, more(pieces.peek().is_none())), call, [piece, &[]]);
    }
    out
}

fn put(out: &mut Vec<u8>, (kind, flags): (u8, u8), call: u64, parts: [&[u8]; 2]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&[kind, flags, 0, 0]);
    out.extend_from_slice(&call.to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::data::Data;
    use fnd_core::records::protocol::{Decoder, FailureKind, InvokeHead, WorkerMessage, cancel, invoke, stop};

    /// Reads what fnd has written.
    fn read(mut bytes: &[u8]) -> Result<Vec<FndMessage>, String> {
        let (mut joiner, mut messages) = (FrameJoiner::default(), Vec::new());
        while let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() {
            let header = FrameHeader::read(*header)?;
            let (content, rest) = rest.split_at(header.length);
            messages.extend(joiner.add(header, content.to_vec())?);
            bytes = rest;
        }
        Ok(messages)
    }

    fn sent(data: Option<&Data>) -> Vec<u8> {
        let head = InvokeHead {
            invocation: "i".into(),
            trigger: "manual".into(),
            traceparent: "00-t".into(),
            deadline_ms: Some(7),
            ..InvokeHead::default()
        };
        invoke(3, head, data, None).unwrap().joined()
    }

    #[test]
    fn fnds_messages_are_read() {
        let large = vec![b'x'; 3 * FRAME_MAX];
        for (data, expected) in [
            (None, NO_EVENT),
            (Some(vec![]), &[][..]),
            (Some(b"[1]".to_vec()), b"[1]"),
            (Some(large.clone()), &large[..]),
        ] {
            let data = data.map(Data::from);
            let messages = read(&sent(data.as_ref())).unwrap();
            let [FndMessage::Invoke(invocation)] = &messages[..] else {
                panic!("{} messages", messages.len())
            };
            assert_eq!((invocation.call, &*invocation.id), (3, "i"));
            assert_eq!((&*invocation.traceparent, invocation.deadline_ms), ("00-t", Some(7)));
            assert_eq!(invocation.event, expected);
        }
        assert_eq!(read(&stop().joined()), Ok(vec![FndMessage::Stop]));
        assert_eq!(read(&cancel(3).joined()), Ok(vec![]));
    }

    #[test]
    fn bytes_of_another_form_are_refused() {
        let frame = |kind: u8, flags: u8, content: &[u8]| {
            let mut out = Vec::new();
            put(&mut out, (kind, flags), 3, [content, &[]]);
            read(&out)
        };
        assert_eq!(frame(99, OPTIONAL, b"x"), Ok(vec![]));
        for (kind, content, why) in [
            (99, &b""[..], "type 99"),
            (BODY, b"", "without its message"),
            (INVOKE, b"", "before its parts"),
            (INVOKE, b"\x02\0\0\0{}", "missing field `invocation`"),
            (
                INVOKE,
                b"\x1c\0\0\0{\"invocation\":\"i\",\"data\":10}",
                "before its parts",
            ),
        ] {
            let refused = frame(kind, 0, content).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        let long = FrameHeader::read([0xff; HEADER]).unwrap_err();
        assert!(long.contains("4294967295"), "{long}");
    }

    #[test]
    fn fnd_reads_the_answers() {
        let mut decoder = Decoder::new(1 << 30, 1);
        let mut decoded = |bytes: Vec<u8>| {
            decoder.push(&bytes);
            decoder.next().unwrap().unwrap()
        };
        let WorkerMessage::Ready(ready) = decoded(ready(4)) else {
            panic!("no Ready")
        };
        assert_eq!((ready.protocol, ready.concurrency), (VERSION, 4));
        let wrong = ProtocolFailure {
            kind: FailureKind::Error,
            message: "E: no".repeat(FRAME_MAX / 3),
            printed: false,
            stack: None,
            data: None,
        };
        let WorkerMessage::Error { call: 5, failure } = decoded(failure(5, &wrong)) else {
            panic!("no Error")
        };
        assert_eq!(failure, wrong);
    }

    #[test]
    fn a_result_of_any_size_fits_in_frames() {
        for size in [0, 1, FRAME_MAX - 60, FRAME_MAX, 2 * FRAME_MAX, 3 * FRAME_MAX + 1] {
            let body = vec![b'y'; size];
            let bytes = result(5, "text/plain", &body);
            let (mut at, mut content, mut more) = (0, Vec::new(), true);
            while let Some(header) = bytes[at..].first_chunk::<HEADER>() {
                assert!(more, "a frame after the last one");
                let header = FrameHeader::read(*header).unwrap();
                at += HEADER;
                content.extend_from_slice(&bytes[at..at + header.length]);
                at += header.length;
                more = header.flags & MORE != 0;
            }
            assert!(!more && content.ends_with(&body), "{size}");
            assert_eq!(at, bytes.len());
        }
    }

    #[test]
    fn a_stream_is_frames_of_one_call() {
        let bytes = [
            stream_start(5, "a/b"),
            stream_part(5, b"abc"),
            stream_part(5, b""),
            stream_end(5),
        ];
        let bytes = bytes.concat();
        let head = br#"{"content_type":"a/b","stream":true}"#;
        let mut expected = Vec::new();
        put(&mut expected, (RESULT, MORE), 5, [&sized(head), &[]]);
        put(&mut expected, (BODY, MORE), 5, [b"abc", &[]]);
        put(&mut expected, (BODY, 0), 5, [&[], &[]]);
        assert_eq!(bytes, expected);
    }
}
