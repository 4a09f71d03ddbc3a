//! A capture as a value, for the spool.

use super::super::AttemptOutput;
use super::{Capture, ErrorLine, HeldBack, LastLines};
use crate::output::log_store::{Decoder, LogLinesReader, Stream};
use fnd_wire::form::{Bytes, wire_structs};

wire_structs! {
    /// A whole [`Capture`], except its [`AttemptOutput`].
    pub struct Snapshot {
        /// See [`Capture`]; the other fields likewise.
        pub last_ms: u64,
        /// Lines of the head not on disk yet.
        pub head: KeptLines,
        /// Bytes by which the head may still grow.
        pub head_left: u64,
        /// Lines of the tail.
        pub tail: KeptLines,
        /// Bytes dropped between head and tail.
        pub gap: u64,
        /// Bytes cut from lines that are too long.
        pub cut: u64,
        /// When the first bytes were dropped, Unix milliseconds.
        pub gap_ms: u64,
        pub stdout: UnfinishedLine,
        pub stderr: UnfinishedLine,
        /// The bytes of standard output, while they can be a result.
        pub result: Bytes,
        /// See [`ErrorLine`].
        pub error_line: Bytes,
    }

    /// Some [`LogLinesReader`].
    pub struct KeptLines {
        /// Number of the first.
        pub first: u64,
        /// The base of the times, as [`LogLinesReader::encoded`] gave it.
        pub base_ms: u64,
        /// The lines, as [`LogLinesReader::encoded`] gave them.
        pub lines: Bytes,
    }

    /// A stream, as far as it was split into lines.
    #[derive(Default)]
    pub struct UnfinishedLine {
        /// Bytes on the stream.
        pub bytes: u64,
        /// The line that has not ended yet.
        pub partial: Bytes,
        /// Bytes of that line beyond the longest line that is kept.
        pub cut: u64,
    }
}

impl Capture {
    /// Returns the whole state.
    pub(in super::super) fn snapshot(&mut self) -> Snapshot {
        // Output that is too large is no result any more, so its beginning need not be stored.
        let is_result = self.bytes(Stream::Stdout) <= self.meta.result_max;
        let [stdout, stderr] = self.streams.clone();
        Snapshot {
            last_ms: self.last_ms,
            head: kept(&mut self.head),
            head_left: self.head_left,
            tail: kept(&mut self.tail),
            gap: self.gap,
            cut: self.cut,
            gap_ms: self.gap_ms,
            stdout,
            stderr,
            result: Bytes(if is_result { self.result.clone() } else { Vec::new() }),
            error_line: Bytes(self.error_line.encoded()),
        }
    }

    /// Returns the bytes that the snapshot does not have, because they are not masked yet; absent where the function has
    /// no secrets.
    pub(in super::super) fn held_back(&self) -> Option<HeldBack> {
        self.masked.as_ref().map(|masked| masked.held_back())
    }

    /// Gives a restored capture the bytes that were held back.
    pub(in super::super) fn hold_back(&mut self, held: HeldBack) {
        if let Some(masked) = &mut self.masked {
            masked.restore(held);
        }
    }

    /// Returns the capture that a snapshot was taken of.
    pub(in super::super) fn restore(meta: AttemptOutput, snapshot: Snapshot) -> Self {
        let lines = |kept: &KeptLines| LogLinesReader::decode(kept.first, kept.base_ms, &kept.lines.0);
        // The snapshot has no last lines, but it has the lines that are not on disk yet, and the tail.
        let mut last_lines = LastLines::default();
        for kept in [&snapshot.head, &snapshot.tail] {
            let printed = Decoder::new(kept.base_ms, &kept.lines.0).filter(|line| line.stream != Stream::Note);
            printed.for_each(|line| last_lines.see(line.text));
        }
        Self {
            last_ms: snapshot.last_ms,
            head: lines(&snapshot.head),
            head_left: snapshot.head_left,
            tail: lines(&snapshot.tail),
            gap: snapshot.gap,
            cut: snapshot.cut,
            gap_ms: snapshot.gap_ms,
            streams: [snapshot.stdout, snapshot.stderr],
            result: snapshot.result.0,
            error_line: ErrorLine::decode(snapshot.error_line.0),
            last_lines,
            ..Self::new(meta)
        }
    }
}

fn kept(lines: &mut LogLinesReader) -> KeptLines {
    let first = lines.first();
    let (base_ms, encoded) = lines.encoded();
    KeptLines {
        first,
        // Without lines `base_ms` is left over from earlier lines.
        base_ms: if encoded.is_empty() { 0 } else { base_ms },
        lines: Bytes(encoded.to_vec()),
    }
}
