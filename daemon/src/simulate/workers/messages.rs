//! The worker protocol as a worker sees it (`runtimes/PROTOCOL.md`): messages of fnd are read, messages to fnd are written. fnd has
//! no code for this side.

use fnd_core::records::protocol::{
    FRAME_MAX, FailureKind, HEADER, InvokeHead, Level, LogRecord, ProtocolFailure, ReadyMessage, ResultHead, VERSION,
};
use fnd_wire::ids::InvocationId;

const READY: u8 = 1;
pub(crate) const INVOKE: u8 = 2;
const BODY: u8 = 3;
pub(crate) const RESULT: u8 = 4;
pub(crate) const ERROR: u8 = 5;
const LOG: u8 = 6;
pub(crate) const STOP: u8 = 7;
const CANCEL: u8 = 8;
/// A type that no version of the protocol has.
const UNKNOWN: u8 = 99;
/// The flag of a frame that another one continues.
const MORE: u8 = 1;

/// A message of fnd.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DaemonMessage {
    Invoke {
        call: u64,
        invocation: InvocationId,
        attempt: u32,
    },
    Cancel(u64),
    Stop,
}

/// Takes a whole message from the bytes that have come; nothing if more bytes are needed.
pub(super) fn take(received: &mut Vec<u8>) -> Option<DaemonMessage> {
    let (kind, call, content) = take_frames(received)?;
    Some(message(kind, call, &content))
}

/// Takes the frames of a whole message: its type, the number of the call, and its content.
pub(crate) fn take_frames(received: &mut Vec<u8>) -> Option<(u8, u64, Vec<u8>)> {
    let (mut at, mut content, mut first) = (0, Vec::new(), None);
    loop {
        let header = received.get(at..at + HEADER)?;
        let length = u32::from_le_bytes(header[..4].try_into().expect("four bytes")) as usize;
        let (kind, more) = (header[4], header[5] & MORE != 0);
        let call = u64::from_le_bytes(header[8..].try_into().expect("eight bytes"));
        content.extend(received.get(at + HEADER..at + HEADER + length)?);
        at += HEADER + length;
        let (kind, call) = *first.get_or_insert((kind, call));
        if !more {
            drop(received.drain(..at));
            return Some((kind, call, content));
        }
    }
}

fn message(kind: u8, call: u64, content: &[u8]) -> DaemonMessage {
    match kind {
        INVOKE => {
            let (size, rest) = content.split_at(4);
            let size = u32::from_le_bytes(size.try_into().expect("four bytes"));
            let head: InvokeHead<'_> = serde_json::from_slice(&rest[..size as usize]).expect("the head of an Invoke");
            DaemonMessage::Invoke {
                call,
                invocation: InvocationId::parse(&head.invocation).expect("the id of an invocation"),
                attempt: head.attempt,
            }
        }
        CANCEL => DaemonMessage::Cancel(call),
        STOP => DaemonMessage::Stop,
        _ => panic!("fnd sent a message of type {kind}"),
    }
}

pub(crate) fn ready(concurrency: u32) -> Vec<u8> {
    let ready = ReadyMessage {
        protocol: VERSION,
        concurrency,
        port: None,
        variables: false,
        cancel: false,
    };
    frames(READY, 0, &json(&ready))
}

pub(super) fn result(call: u64, data: &[u8]) -> Vec<u8> {
    let head = json(&ResultHead {
        content_type: None,
        data: Some(data.len() as u64),
        status: None,
        headers: Vec::new(),
        stream: false,
    });
    let size = u32::try_from(head.len()).expect("a short head").to_le_bytes();
    frames(RESULT, call, &[&size, &head[..], data].concat())
}

pub(super) fn error(call: u64, kind: FailureKind) -> Vec<u8> {
    let failure = ProtocolFailure {
        kind,
        message: "no such order".to_owned(),
        printed: false,
        stack: None,
        data: (kind == FailureKind::ExecuteAgain).then(|| "later".into()),
    };
    frames(ERROR, call, &json(&failure))
}

pub(super) fn log(call: u64, time_ms: u64) -> Vec<u8> {
    let record = LogRecord {
        time_ms,
        level: Level::Info,
        message: "begins".to_owned(),
        fields: serde_json::Map::new(),
    };
    frames(LOG, call, &json(&record))
}

/// Returns a message that fnd does not know.
pub(super) fn unknown(call: u64) -> Vec<u8> {
    frames(UNKNOWN, call, b"{}")
}

/// Returns the header of a frame that is longer than allowed.
pub(super) fn too_long(call: u64) -> Vec<u8> {
    let mut frame = u32::MAX.to_le_bytes().to_vec();
    frame.extend([RESULT, 0, 0, 0]);
    frame.extend(call.to_le_bytes());
    frame
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("only strings, numbers and JSON values")
}

/// Cuts a message into frames.
pub(crate) fn frames(kind: u8, call: u64, content: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    let count = content.len().div_ceil(FRAME_MAX).max(1);
    for number in 0..count {
        let piece = &content[number * FRAME_MAX..content.len().min((number + 1) * FRAME_MAX)];
        frames.extend(u32::try_from(piece.len()).expect("at most a frame").to_le_bytes());
        let kind = if number == 0 { kind } else { BODY };
        frames.extend([kind, u8::from(number + 1 < count) * MORE, 0, 0]);
        frames.extend(call.to_le_bytes());
        frames.extend(piece);
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::data::Data;
    use fnd_core::records::protocol::{Decoder, WorkerMessage, cancel, invoke, stop};

    fn decoded(bytes: &[u8]) -> Result<Option<WorkerMessage>, String> {
        let mut decoder = Decoder::new(1 << 20, 4);
        decoder.push(bytes);
        decoder.next().map_err(|error| error.to_string())
    }

    #[test]
    fn fnd_reads_what_a_worker_writes() {
        let long = vec![b'a'; 2 * FRAME_MAX + 1];
        for data in [&b""[..], &b"{\"n\":1}"[..], &long[..]] {
            let Ok(Some(WorkerMessage::Result {
                call: 7, data: read, ..
            })) = decoded(&result(7, data))
            else {
                panic!("another message");
            };
            assert_eq!(read.as_deref(), Some(data));
        }
        assert!(matches!(decoded(&ready(4)), Ok(Some(WorkerMessage::Ready(ready))) if ready.concurrency == 4));
        let failure = decoded(&error(7, FailureKind::Transient));
        assert!(
            matches!(failure, Ok(Some(WorkerMessage::Error { call: 7, failure })) if failure.kind == FailureKind::Transient)
        );
        assert!(matches!(
            decoded(&log(7, 1)),
            Ok(Some(WorkerMessage::Log { call: 7, .. }))
        ));
        assert!(decoded(&unknown(7)).is_err() && decoded(&too_long(7)).is_err());
    }

    #[test]
    fn a_worker_reads_what_fnd_writes_in_any_pieces() {
        let id = InvocationId::parse("01998ac1-0000-7000-8000-000000000001").unwrap();
        let head = InvokeHead {
            invocation: id.to_string().into(),
            attempt: 2,
            ..InvokeHead::default()
        };
        let long = Data::from(&vec![b'a'; FRAME_MAX][..]);
        let messages = [invoke(7, head, Some(&long), None).unwrap(), cancel(7), stop()];
        let (mut received, mut read) = (Vec::new(), Vec::new());
        for piece in messages.map(|message| message.joined()).concat().chunks(1000) {
            received.extend(piece);
            read.extend(std::iter::from_fn(|| take(&mut received)));
        }
        let invoked = DaemonMessage::Invoke {
            call: 7,
            invocation: id,
            attempt: 2,
        };
        assert_eq!(read, [invoked, DaemonMessage::Cancel(7), DaemonMessage::Stop]);
        assert!(received.is_empty());
    }
}
