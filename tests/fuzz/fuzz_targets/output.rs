//! Any bytes as kept output, and as output that is kept: kept output can be read again, and cannot control a terminal.
#![no_main]

use fnd_daemon::output::log_store::{Decoder, Line, LogLinesReader, Stream};
use fnd_daemon::telemetry::escape;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let read: usize = Decoder::new(1_000, bytes).map(|line| line.text.len() + 2).sum();
    assert!(read <= bytes.len());
    let mut lines = LogLinesReader::default();
    let texts: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    for (time_ms, text) in (1_000..).zip(&texts) {
        lines.push(&Line {
            time_ms,
            stream: Stream::Stderr,
            newline: true,
            text,
        });
    }
    let (base_ms, encoded) = lines.encoded();
    let again: Vec<&[u8]> = Decoder::new(base_ms, encoded).map(|line| line.text).collect();
    assert_eq!(again, texts);
    let shown = escape(&String::from_utf8_lossy(bytes)).into_owned();
    assert!(
        !shown.chars().any(|c| c.is_control() && c != '\t' && c != '\n'),
        "{shown:?}"
    );
});
