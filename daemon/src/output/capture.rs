//! The part of one attempt's output that is kept. Pure: bytes and times in, lines out.
//!
//! Files:
//! - `error_line`: the line of standard error that says why a program failed
//! - `last_lines`: the last lines that an attempt printed
//! - `masked`: masks the values of secrets
//! - `snapshot`: a capture as a value, for the spool

use super::result::{self, WrittenResult};
use super::{AttemptOutput, Captured};
use crate::output::log_store::{Decoder, Line, LogLinesReader, Stream};
use fnd_core::records::RunResult;
use fnd_core::records::protocol::Level;
use fnd_core::run::TooLarge;
use fnd_wire::ids::WorkerId;
use std::borrow::Cow;
use std::os::fd::OwnedFd;

mod error_line;
mod last_lines;
mod masked;
mod snapshot;

use error_line::ErrorLine;
use last_lines::LastLines;
pub(super) use masked::HeldBack;
use masked::Masked;
pub(super) use snapshot::Snapshot;
use snapshot::UnfinishedLine;

/// Longest line kept; the rest of it is dropped and counted.
const LINE_MAX: usize = 16 << 10;

/// Gets every whole line and note, and whether it is in the head.
type LineObserver<'a> = dyn FnMut(&Line<'_>, bool) + 'a;

/// One attempt's output.
pub(super) struct Capture {
    pub(super) meta: AttemptOutput,
    /// When bytes came last, Unix milliseconds.
    pub(super) last_ms: u64,
    /// Those of the first lines that are not on disk yet. Their numbers count all lines of the attempt in the order in
    /// which they are kept.
    pub(super) head: LogLinesReader,
    /// Bytes by which the head may still grow; 0 from the first line that did not fit.
    head_left: u64,
    /// The last lines, once the head is full.
    tail: LogLinesReader,
    tail_max: u64,
    /// Bytes dropped between head and tail; below it, bytes cut from lines that are too long.
    gap: u64,
    cut: u64,
    gap_ms: u64,
    /// Standard output and error.
    streams: [UnfinishedLine; 2],
    /// Masks both streams; absent where the function has no secrets.
    masked: Option<Box<Masked>>,
    /// Standard output may be the result.
    pub(super) gives_result: bool,
    /// Nothing that is printed is kept, it is only counted: it may contain values of secrets, and nobody has their fingerprints.
    pub(super) withheld: bool,
    result: Vec<u8>,
    error_line: ErrorLine,
    last_lines: LastLines,
}

impl Capture {
    pub(super) fn new(meta: AttemptOutput) -> Self {
        let head_left = meta.output_max / 2;
        let tail_max = meta.output_max - head_left;
        let masked = meta.mask.as_ref().map(|mask| Box::new(Masked::new(mask)));
        Self {
            meta,
            last_ms: 0,
            head: LogLinesReader::default(),
            head_left,
            tail: LogLinesReader::default(),
            tail_max,
            gap: 0,
            cut: 0,
            gap_ms: 0,
            streams: Default::default(),
            masked,
            gives_result: true,
            withheld: false,
            result: Vec::new(),
            error_line: ErrorLine::default(),
            last_lines: LastLines::default(),
        }
    }

    /// Returns a capture that takes no result from standard output: a worker's results come by its protocol.
    pub(super) fn of_worker(meta: AttemptOutput) -> Self {
        Self {
            gives_result: false,
            ..Self::new(meta)
        }
    }

    /// Returns whether the head is full: something was dropped, or only the tail takes more.
    pub(super) fn is_full(&self) -> bool {
        self.head_left == 0
    }

    /// Adds a log record of a worker: each of its lines, with its level in front.
    pub(super) fn say(&mut self, time_ms: u64, level: Level, text: &str, seen: &mut LineObserver<'_>) {
        self.last_ms = time_ms;
        // A record comes whole, so it is masked here and not by the maskers of the streams.
        let mask = self.meta.mask.clone();
        let text = mask.as_ref().map_or(Cow::Borrowed(text), |mask| mask.text(text));
        for line in text.lines() {
            let line = format!("{} {line}", level.as_str());
            let text = line.as_bytes();
            let kept = text.get(..LINE_MAX).unwrap_or(text);
            self.cut = self.cut.saturating_add((text.len() - kept.len()) as u64);
            self.line(&Line::new(time_ms, Stream::Log, kept), seen);
        }
    }

    /// Returns a capture that begins after `first` lines, which are kept already, and says in these words that the
    /// output after them was lost.
    pub(super) fn after_loss(
        meta: AttemptOutput,
        first: u64,
        (time_ms, words): (u64, &str),
        seen: &mut LineObserver<'_>,
    ) -> Self {
        let mut capture = Self::new(meta);
        capture.head = LogLinesReader::decode(first, 0, &[]);
        capture.place(&Line::note(time_ms, words), seen);
        capture
    }

    /// Adds bytes. `seen` gets every whole line and note, and whether it is in the head.
    pub(super) fn feed(&mut self, stream: Stream, time_ms: u64, bytes: &[u8], seen: &mut LineObserver<'_>) {
        let may_be_result = self.gives_result && !self.withheld && stream == Stream::Stdout;
        if may_be_result && self.bytes(stream) <= self.meta.result_max {
            // One byte more than a result may have shows that it is no result.
            let most = self.meta.result_max.saturating_add(1);
            let room = most.saturating_sub(self.result.len() as u64);
            let take = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
            self.result.extend_from_slice(&bytes[..take]);
        }
        self.last_ms = time_ms;
        let is_answer = self.meta.cgi && stream == Stream::Stdout;
        let unfinished = self.unfinished(stream);
        // Counts may come from a damaged spool, so they saturate.
        unfinished.bytes = unfinished.bytes.saturating_add(bytes.len() as u64);
        if is_answer || self.withheld {
            // A page or a picture has no place in the log.
            return;
        }
        self.mask_and_split(stream, time_ms, Some(bytes), seen);
    }

    /// Takes the next bytes of a stream, or its end, masks the values of secrets, and makes lines of the rest.
    fn mask_and_split(&mut self, stream: Stream, time_ms: u64, bytes: Option<&[u8]>, seen: &mut LineObserver<'_>) {
        match self.masked.take() {
            None => self.split(stream, time_ms, bytes.unwrap_or_default(), seen),
            Some(mut masked) => {
                self.split(stream, time_ms, masked.feed(stream, bytes), seen);
                self.masked = Some(masked);
            }
        }
    }

    fn split(&mut self, stream: Stream, time_ms: u64, bytes: &[u8], seen: &mut LineObserver<'_>) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (piece, after) = rest.split_at(end);
            rest = &after[1..];
            let unfinished = self.unfinished(stream);
            // Most lines come whole: they are passed on as they lie in the buffer, without a copy.
            if unfinished.partial.0.is_empty() && unfinished.cut == 0 && piece.len() <= LINE_MAX {
                self.line(&Line::new(time_ms, stream, piece), seen);
            } else {
                unfinished.grow(piece);
                self.end_line(stream, time_ms, true, seen);
            }
        }
        self.unfinished(stream).grow(rest);
    }

    /// Ends the capture: unfinished lines become lines, and the tail is appended to the head.
    pub(super) fn end(&mut self, time_ms: u64, seen: &mut LineObserver<'_>) {
        // Before the gap is noted: an unfinished line may push other lines out of the tail, which count as not kept.
        for stream in Stream::PIPES {
            self.mask_and_split(stream, time_ms, None, seen);
            if !self.unfinished(stream).partial.0.is_empty() {
                self.end_line(stream, time_ms, false, seen);
            }
        }
        if self.gap > 0 {
            let text = format!("{} bytes of output were not kept here (limits.output)", self.gap);
            let gap = Line::note(self.gap_ms, &text);
            // Into the head and not by `place`, which would put the note behind the last lines: the gap is before them.
            self.head.push(&gap);
            seen(&gap, true);
        }
        let (base_ms, tail) = self.tail.encoded();
        self.head.extend(Decoder::new(base_ms, tail));
        self.tail.clear();
        let (bytes, most) = (self.bytes(Stream::Stdout), self.meta.result_max);
        if self.gives_result && !self.meta.cgi && bytes > most {
            let text = format!(
                "standard output is {bytes} bytes, more than a result may have ({most}, limits.result): it was taken as log only"
            );
            let note = Line::note(time_ms, &text);
            self.head.push(&note);
            seen(&note, true);
        }
    }

    /// Returns the bytes printed on a stream.
    pub(super) fn bytes(&self, stream: Stream) -> u64 {
        self.streams[stream.pipe()].bytes
    }

    /// Returns the bytes of both streams that were not kept.
    pub(super) fn dropped(&self) -> u64 {
        self.gap.saturating_add(self.cut)
    }

    /// Returns what was captured, without a result.
    pub(super) fn captured(&self) -> Captured {
        Captured {
            stdout_bytes: self.bytes(Stream::Stdout),
            stderr_bytes: self.bytes(Stream::Stderr),
            dropped_bytes: self.dropped(),
            last_error_line: self.error_line(),
            last_lines: self.last_lines.text(),
            ..Captured::default()
        }
    }

    /// Returns standard output as the result; absent where it is empty, or larger than a result may be and so only log.
    pub(super) fn take_result(&mut self) -> Option<RunResult> {
        let data = std::mem::take(&mut self.result);
        let fits = self.bytes(Stream::Stdout) <= self.meta.result_max;
        (fits && !data.is_empty()).then(|| result::of(data))
    }

    /// Returns standard output where it would be the result if it were not too large.
    fn output_too_large(&self) -> Option<TooLarge> {
        let bytes = self.bytes(Stream::Stdout);
        let is_too_large = self.gives_result && !self.withheld && bytes > self.meta.result_max;
        is_too_large.then_some(TooLarge { bytes, is_output: true })
    }

    /// Returns the output of the capture, which has ended, with the result: that of `$FND_RESULT`, of which this is the file, else
    /// standard output.
    pub(super) fn conclude(&mut self, worker: WorkerId, file: Option<OwnedFd>) -> Captured {
        let result_max = self.meta.result_max;
        let mut captured = Captured {
            result: self.take_result(),
            ..self.captured()
        };
        let withheld = self.withheld;
        match file.filter(|_| !withheld).map(|file| result::read(file, result_max)) {
            None | Some(Ok(WrittenResult::No)) if self.meta.cgi && !withheld => captured.read_document(result_max),
            None | Some(Ok(WrittenResult::No)) => captured.result_too_large = self.output_too_large(),
            Some(Ok(WrittenResult::Yes(written))) => captured.result = Some(written),
            Some(Ok(WrittenResult::TooLarge(size))) => {
                captured.result = None;
                captured.result_too_large = Some(TooLarge {
                    bytes: size,
                    is_output: false,
                });
            }
            Some(Err(error)) => tracing::warn!("failed to read the result of {worker} ({error}), taking its output"),
        }
        if let Some(mask) = &self.meta.mask {
            captured.mask(mask);
        }
        captured
    }

    /// Returns whether a line has begun and not ended.
    pub(super) fn is_in_a_line(&self) -> bool {
        let holds = self.masked.as_ref().is_some_and(|masked| masked.holds());
        holds || self.streams.iter().any(|stream| !stream.partial.0.is_empty())
    }

    /// Returns the line of standard error that says why the program failed.
    pub(super) fn error_line(&self) -> Option<String> {
        self.error_line.text()
    }

    fn unfinished(&mut self, stream: Stream) -> &mut UnfinishedLine {
        &mut self.streams[stream.pipe()]
    }

    fn end_line(&mut self, stream: Stream, time_ms: u64, newline: bool, seen: &mut LineObserver<'_>) {
        let unfinished = self.unfinished(stream);
        let mut text = std::mem::take(&mut unfinished.partial.0);
        let cut = std::mem::take(&mut unfinished.cut);
        let line = Line::new(time_ms, stream, &text);
        self.line(&Line { newline, ..line }, seen);
        if cut > 0 {
            self.cut = self.cut.saturating_add(cut);
            let note = format!("the line above had {cut} bytes more, which were not kept");
            let note = Line::note(time_ms, &note);
            self.place(&Line { newline: false, ..note }, seen);
        }
        // The next unfinished line uses this memory again.
        text.clear();
        self.unfinished(stream).partial.0 = text;
    }

    fn line(&mut self, line: &Line<'_>, seen: &mut LineObserver<'_>) {
        if line.stream == Stream::Stderr {
            self.error_line.see(line.text);
        }
        self.last_lines.see(line.text);
        self.place(line, seen);
    }

    /// Puts a line into the head or the tail; the tail drops its oldest lines where it is too large.
    fn place(&mut self, line: &Line<'_>, seen: &mut LineObserver<'_>) {
        let size = line.raw();
        let in_head = self.head_left > 0 && size <= self.head_left;
        seen(line, in_head);
        if in_head {
            self.head_left -= size;
            self.head.push(line);
            return;
        }
        // After the first line that does not fit, none goes to the head: short lines would get before longer ones.
        self.head_left = 0;
        self.tail.push(line);
        while self.tail.kept() > self.tail_max {
            if self.gap == 0 {
                self.gap_ms = line.time_ms;
            }
            self.gap = self.gap.saturating_add(self.tail.pop().unwrap_or(0));
        }
    }
}

impl UnfinishedLine {
    fn grow(&mut self, piece: &[u8]) {
        let room = LINE_MAX - self.partial.0.len().min(LINE_MAX);
        let kept = room.min(piece.len());
        self.partial.0.extend_from_slice(&piece[..kept]);
        self.cut = self.cut.saturating_add((piece.len() - kept) as u64);
    }
}
