//! Any bytes as what a worker says on descriptor 3: however they arrive, they are the same messages within the same bounds.
#![no_main]

use fnd_core::records::protocol::{Decoder, ProtocolError, WorkerMessage};
use libfuzzer_sys::fuzz_target;

const RESULT_MAX: u64 = 1_000;
const CALLS_MAX: usize = 2;

/// Returns the messages of bytes that arrive in pieces of at most `piece` bytes, and the error behind them.
fn decode(bytes: &[u8], piece: usize) -> (Vec<WorkerMessage>, Option<ProtocolError>) {
    let mut decoder = Decoder::new(RESULT_MAX, CALLS_MAX);
    let mut all = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(message)) => all.push(message),
                Ok(None) => break,
                Err(error) => return (all, Some(error)),
            }
        }
        assert!(decoder.missing() > 0, "it waits for nothing");
    }
    (all, None)
}

fuzz_target!(|bytes: &[u8]| {
    let whole = decode(bytes, bytes.len().max(1));
    assert_eq!(decode(bytes, 1 + bytes.len() / 3), whole);
    if bytes.len() < 500 {
        assert_eq!(decode(bytes, 1), whole);
    }
    for message in whole.0 {
        if let WorkerMessage::Result { call, data, head } = message {
            let length = data.as_ref().map_or(0, Vec::len) as u64;
            assert!(call > 0 && length <= RESULT_MAX && head.data.unwrap_or(0) == length);
        }
    }
});
