//! The content of messages between the workers of the simulation and fnd, and bytes that are no message of the worker protocol.

use fnd_core::records::protocol::{
    FailureKind, InvokeHead, Level, LogRecord, ProtocolFailure, ResultHead, head_and_parts, worker_side,
};
use fnd_wire::ids::InvocationId;

/// Returns the invocation that an Invoke names, and the number of the attempt.
pub(super) fn invoked(content: &[u8]) -> (InvocationId, u32) {
    let (head, _) = head_and_parts(content).expect("a whole head");
    let head: InvokeHead<'_> = serde_json::from_slice(head).expect("the head of an Invoke");
    let invocation = InvocationId::parse(&head.invocation).expect("the id of an invocation");
    (invocation, head.attempt)
}

pub(super) fn result(call: u64, data: &[u8]) -> Vec<u8> {
    let head = ResultHead {
        data: Some(data.len() as u64),
        ..ResultHead::default()
    };
    worker_side::result(call, &head, data.to_vec().into())
}

pub(super) fn error(call: u64, kind: FailureKind) -> Vec<u8> {
    let failure = ProtocolFailure {
        kind,
        message: "no such order".to_owned(),
        printed: false,
        stack: None,
        data: (kind == FailureKind::ExecuteAgain).then(|| "later".into()),
    };
    worker_side::failure(call, &failure)
}

pub(super) fn log(call: u64, time_ms: u64) -> Vec<u8> {
    let record = LogRecord {
        time_ms,
        level: Level::Info,
        message: "begins".to_owned(),
        fields: serde_json::Map::new(),
    };
    worker_side::log(call, &record)
}

/// Returns a message of a type that no version of the protocol has.
pub(super) fn unknown(call: u64) -> Vec<u8> {
    [&header(2, 99, call)[..], b"{}"].concat()
}

/// Returns the header of a Result whose frame is longer than allowed.
pub(super) fn too_long(call: u64) -> Vec<u8> {
    header(u32::MAX, 4, call)
}

fn header(length: u32, kind: u8, call: u64) -> Vec<u8> {
    let (length, call) = (length.to_le_bytes(), call.to_le_bytes());
    [&length[..], &[kind, 0, 0, 0], &call].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::records::protocol::worker_side::{FndDecoder, FndMessage};
    use fnd_core::records::protocol::{Decoder, WorkerMessage, invoke};

    fn decoded(bytes: &[u8]) -> Result<Option<WorkerMessage>, String> {
        let mut decoder = Decoder::new(1 << 20, 4);
        decoder.push(bytes);
        decoder.next().map_err(|error| error.to_string())
    }

    #[test]
    fn fnd_reads_what_a_worker_writes() {
        for data in [&b""[..], b"{\"n\":1}"] {
            let Ok(Some(WorkerMessage::Result {
                call: 7, data: read, ..
            })) = decoded(&result(7, data))
            else {
                panic!("another message");
            };
            assert_eq!(read.as_deref(), Some(data));
        }
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
    fn a_worker_reads_what_fnd_writes() {
        let id = InvocationId::parse("01998ac1-0000-7000-8000-000000000001").unwrap();
        let head = InvokeHead {
            invocation: id.to_string().into(),
            attempt: 2,
            ..InvokeHead::default()
        };
        let mut decoder = FndDecoder::default();
        decoder.push(&invoke(7, head, None, None).unwrap().joined());
        let Ok(Some(FndMessage::Invoke { call: 7, content })) = decoder.take() else {
            panic!("another message");
        };
        assert_eq!(invoked(&content), (id, 2));
    }
}
