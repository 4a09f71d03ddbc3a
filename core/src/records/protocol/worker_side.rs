//! The worker's side of the protocol: reads the messages of fnd, and writes those of a worker. fnd itself has no use for it. The
//! worker of functions for AWS Lambda speaks it, and workers that tests play.

use super::header::{FrameHeader, header};
use super::write::{pieces, whole};
use super::{
    FRAME_MAX, HEADER, LogRecord, MORE, MessageKind, OPTIONAL, ProtocolFailure, ReadyMessage, ResultHead, VERSION,
};
use bytes::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;

/// A message of fnd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FndMessage {
    /// A call, whose answer is one Result or one Error.
    Invoke {
        /// The number of the call.
        call: u64,
        /// An [`super::InvokeHead`] and the parts behind it, which [`super::head_and_parts`] splits.
        content: Vec<u8>,
    },
    /// The worker is to finish its calls and to exit.
    Stop,
}

/// Joins the bytes of fnd to messages.
#[derive(Debug, Default)]
pub struct FndDecoder {
    buffer: Vec<u8>,
    /// Invokes whose last frame has not come, by their call.
    begun: BTreeMap<u64, Vec<u8>>,
}

impl FndDecoder {
    /// Adds bytes that have come from fnd.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole message; nothing if more bytes are needed.
    ///
    /// # Errors
    /// A frame that has no place in the protocol.
    pub fn take(&mut self) -> Result<Option<FndMessage>, String> {
        while let Some(bytes) = self.buffer.first_chunk::<HEADER>() {
            let header = FrameHeader::parse(*bytes);
            if header.length > FRAME_MAX {
                return Err(format!("fnd sent a frame of {} bytes", header.length));
            }
            let end = HEADER + header.length;
            let Some(content) = self.buffer.get(HEADER..end) else {
                return Ok(None);
            };
            let content = content.to_vec();
            self.buffer.drain(..end);
            if let Some(message) = self.join(header, content)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Returns the message that a frame ends.
    fn join(&mut self, header: FrameHeader, content: Vec<u8>) -> Result<Option<FndMessage>, String> {
        let call = header.call;
        let content = match header.message_kind() {
            Some(MessageKind::Invoke) => content,
            Some(MessageKind::Body) => {
                let begun = self.begun.remove(&call);
                let mut begun = begun.ok_or_else(|| "fnd sent a body without its message".to_owned())?;
                begun.extend_from_slice(&content);
                begun
            }
            Some(MessageKind::Stop) => return Ok(Some(FndMessage::Stop)),
            // Cancel among them: these workers do not say that they end calls.
            _ if header.flags & OPTIONAL != 0 => return Ok(None),
            _ => return Err(format!("fnd sent a message of type {}", header.kind)),
        };
        if header.flags & MORE != 0 {
            self.begun.insert(call, content);
            return Ok(None);
        }
        Ok(Some(FndMessage::Invoke { call, content }))
    }
}

/// Returns a Ready of a worker that gets Invokes, without the variables of requests, and skips Cancel.
#[must_use]
pub fn ready(concurrency: u32) -> Vec<u8> {
    let ready = ReadyMessage {
        protocol: VERSION,
        concurrency,
        port: None,
        variables: false,
        cancel: false,
    };
    whole(MessageKind::Ready, 0, &[&json(&ready)])
}

/// Returns a Result. The head states the length of the body.
#[must_use]
pub fn result(call: u64, head: &ResultHead, body: Bytes) -> Vec<u8> {
    pieces(MessageKind::Result, call, vec![sized(head).into(), body]).concat()
}

/// Returns an Error. For call 0 it says why the worker cannot serve.
#[must_use]
pub fn failure(call: u64, failure: &ProtocolFailure) -> Vec<u8> {
    whole(MessageKind::Error, call, &[&json(failure)])
}

/// Returns a Log, which is kept with the output of its call; for call 0 with that of the worker.
#[must_use]
pub fn log(call: u64, record: &LogRecord) -> Vec<u8> {
    whole(MessageKind::Log, call, &[&json(record)])
}

/// Returns the begin of a Result whose size is not known: parts follow, and then [`stream_end`] or a [`failure`]. The media type
/// is short, so the head fits in a frame.
#[must_use]
pub fn stream_start(call: u64, content_type: &str) -> Vec<u8> {
    let head = sized(&ResultHead {
        content_type: Some(content_type.to_owned()),
        stream: true,
        ..ResultHead::default()
    });
    [&header(head.len(), (MessageKind::Result, MORE), call)[..], &head].concat()
}

/// Returns a part of a Result that was begun.
#[must_use]
pub fn stream_part(call: u64, part: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(part.len() + HEADER);
    for piece in part.chunks(FRAME_MAX) {
        out.extend_from_slice(&header(piece.len(), (MessageKind::Body, MORE), call));
        out.extend_from_slice(piece);
    }
    out
}

/// Returns the end of a Result that was begun: a frame without content.
#[must_use]
pub fn stream_end(call: u64) -> Vec<u8> {
    header(0, (MessageKind::Body, 0), call).to_vec()
}

/// Returns a head with its length before it.
fn sized(head: &ResultHead) -> Vec<u8> {
    let head = json(head);
    let size = u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes();
    [&size[..], &head].concat()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // These messages have only texts, numbers, truth values and JSON, which can always be written.
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::tests::frame;
    use super::super::{
        Decoder, FailureKind, InvokeHead, Level, OutgoingMessage, WorkerMessage, cancel, head_and_parts, invoke, stop,
    };
    use super::*;
    use crate::data::Data;

    /// Reads bytes that come in pieces of this size.
    fn read(bytes: &[u8], size: usize) -> Result<Vec<FndMessage>, String> {
        let (mut decoder, mut messages) = (FndDecoder::default(), Vec::new());
        for piece in bytes.chunks(size) {
            decoder.push(piece);
            while let Some(message) = decoder.take()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    #[test]
    fn fnds_messages_are_read_in_any_pieces() {
        let large = vec![b'x'; 3 * FRAME_MAX];
        for data in [None, Some(vec![]), Some(b"[1]".to_vec()), Some(large)] {
            let head = InvokeHead {
                invocation: "i".into(),
                attempt: 2,
                ..InvokeHead::default()
            };
            let expected = data.clone().unwrap_or_default();
            let sent = invoke(3, head, data.map(Data::from).as_ref(), None).unwrap();
            let bytes = [sent, cancel(3), stop()].map(OutgoingMessage::joined).concat();
            for size in [1, 1000, bytes.len()] {
                let messages = read(&bytes, size).unwrap();
                let [FndMessage::Invoke { call: 3, content }, FndMessage::Stop] = &messages[..] else {
                    panic!("{} messages", messages.len())
                };
                let (head, parts) = head_and_parts(content).unwrap();
                let head: InvokeHead<'_> = serde_json::from_slice(head).unwrap();
                assert_eq!((&*head.invocation, head.attempt), ("i", 2));
                assert_eq!(parts, expected);
            }
        }
    }

    #[test]
    fn bytes_of_another_form_are_refused() {
        assert_eq!(read(&frame(99, OPTIONAL, 3, b"x"), 1), Ok(vec![]));
        for (bytes, why) in [
            (frame(99, 0, 3, b""), "type 99"),
            (frame(4, 0, 3, b""), "type 4"),
            (frame(3, 0, 3, b""), "without its message"),
            (vec![0xff; HEADER], "4294967295"),
        ] {
            let refused = read(&bytes, bytes.len()).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    fn decoded(bytes: &[u8]) -> WorkerMessage {
        let mut decoder = Decoder::new(1 << 30, 1);
        decoder.push(bytes);
        let message = decoder.next().unwrap().unwrap();
        assert!(decoder.is_between());
        message
    }

    #[test]
    fn fnd_reads_the_answers() {
        let WorkerMessage::Ready(read) = decoded(&ready(4)) else {
            panic!("no Ready")
        };
        assert_eq!((read.protocol, read.concurrency), (VERSION, 4));
        let wrong = ProtocolFailure {
            kind: FailureKind::Error,
            message: "E: no".repeat(FRAME_MAX / 3),
            printed: false,
            stack: None,
            data: None,
        };
        let expected = WorkerMessage::Error {
            call: 5,
            failure: wrong.clone(),
        };
        assert_eq!(decoded(&failure(5, &wrong)), expected);
        let record = LogRecord {
            time_ms: 1,
            level: Level::Info,
            message: "m".to_owned(),
            fields: serde_json::Map::new(),
        };
        assert_eq!(decoded(&log(5, &record)), WorkerMessage::Log { call: 5, record });
    }

    #[test]
    fn a_result_of_any_size_fits_in_frames() {
        for size in [0, 1, FRAME_MAX - 60, FRAME_MAX, 2 * FRAME_MAX, 3 * FRAME_MAX + 1] {
            let body = vec![b'y'; size];
            let head = ResultHead {
                content_type: Some("text/plain".to_owned()),
                data: Some(size as u64),
                ..ResultHead::default()
            };
            let expected = WorkerMessage::Result {
                call: 5,
                head: head.clone(),
                data: Some(body.clone()),
            };
            assert!(decoded(&result(5, &head, body.into())) == expected, "{size}");
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
        let head = br#"{"content_type":"a/b","stream":true}"#;
        let size = u32::try_from(head.len()).unwrap().to_le_bytes();
        let expected = [
            frame(4, MORE, 5, &[&size[..], head].concat()),
            frame(3, MORE, 5, b"abc"),
            frame(3, 0, 5, b""),
        ];
        assert_eq!(bytes.concat(), expected.concat());
    }
}
