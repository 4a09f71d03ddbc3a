//! Lines of output in a compact form, with the same bytes in memory and on disk.
//!
//! A line is `varint(delta << 3 | newline << 2 | stream)`, `varint(length)`, and its bytes. `delta` is in milliseconds
//! since the previous line (for the first line: since `base_ms`). An empty line takes only two bytes, so a flood of
//! empty lines stays near its limit.

use fnd_core::api::LogStream;
use std::collections::VecDeque;

/// The source of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
    /// fnd itself: notes on output that was not kept.
    Note,
    /// A log record of a worker: its level, a space, and its message.
    Log,
}

impl Stream {
    /// The streams of a program, in the order of its pipes.
    pub(in crate::output) const PIPES: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Returns the place of the stream among [`Self::PIPES`].
    pub(in crate::output) fn pipe(self) -> usize {
        usize::from(self != Self::Stdout)
    }

    /// Returns the source as the API names it.
    pub fn shown(self) -> LogStream {
        match self {
            Self::Stdout => LogStream::Stdout,
            Self::Stderr => LogStream::Stderr,
            Self::Note => LogStream::Fnd,
            Self::Log => LogStream::Log,
        }
    }
}

/// One line, without its line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// When it arrived, Unix milliseconds.
    pub time_ms: u64,
    /// The source of the line.
    pub stream: Stream,
    /// Whether a line feed ended it.
    pub newline: bool,
    /// The bytes of the line; they can be any bytes.
    pub text: &'a [u8],
}

impl<'a> Line<'a> {
    /// Returns a line that a line feed has ended.
    pub fn new(time_ms: u64, stream: Stream, text: &'a [u8]) -> Self {
        Self {
            time_ms,
            stream,
            newline: true,
            text,
        }
    }

    /// Returns a line of fnd itself.
    pub fn note(time_ms: u64, text: &'a str) -> Self {
        Self::new(time_ms, Stream::Note, text.as_bytes())
    }

    /// Returns how many bytes of output the line was, with its line feed; notes of fnd count as 0.
    pub fn raw(&self) -> u64 {
        raw(self.stream as u64, self.text.len(), self.newline)
    }
}

/// Lines in order of arrival; they are removed at the front.
#[derive(Debug, Default)]
pub struct LogLinesReader {
    /// Number of lines that were removed, and so the number of the first line.
    first: u64,
    count: u64,
    base_ms: u64,
    last_ms: u64,
    bytes: VecDeque<u8>,
    kept: u64,
}

impl LogLinesReader {
    /// Decodes the bytes that [`LogLinesReader::encoded`] returned; the first line gets the number `first`. Stops at the first
    /// byte that cannot be a line.
    pub fn decode(first: u64, base_ms: u64, encoded: &[u8]) -> Self {
        let mut lines = Self {
            first,
            ..Self::default()
        };
        lines.extend(Decoder::new(base_ms, encoded));
        lines
    }

    /// Adds a line at the end; a time before that of the last line counts as that of the last line.
    pub fn push(&mut self, line: &Line<'_>) {
        if self.bytes.is_empty() {
            self.base_ms = line.time_ms;
            self.last_ms = line.time_ms;
        }
        // Three bits are added to the delta, and 63 bits can be read: a time from a damaged spool must not hide the
        // lines after it.
        let delta = line.time_ms.saturating_sub(self.last_ms).min(u64::MAX >> 4);
        self.last_ms += delta;
        let head = (delta << 3) | (u64::from(line.newline) << 2) | line.stream as u64;
        put(&mut self.bytes, head);
        put(&mut self.bytes, line.text.len() as u64);
        self.bytes.extend(line.text);
        self.kept += line.raw();
        self.count += 1;
    }

    /// Adds lines at the end.
    pub fn extend<'a>(&mut self, lines: impl Iterator<Item = Line<'a>>) {
        lines.for_each(|line| self.push(&line));
    }

    /// Removes the first line. Returns how many bytes of output it was, with its line feed.
    pub fn pop(&mut self) -> Option<u64> {
        let mut at = 0;
        let mut next = || {
            let byte = self.bytes.get(at).copied();
            at += 1;
            byte
        };
        let head = take(&mut next)?;
        let length = usize::try_from(take(&mut next)?).ok()?;
        self.bytes.drain(..at.saturating_add(length).min(self.bytes.len()));
        self.base_ms = self.base_ms.saturating_add(head >> 3);
        let raw = raw(head & 3, length, head & 4 != 0);
        self.kept -= raw;
        self.first = self.first.saturating_add(1);
        self.count -= 1;
        Some(raw)
    }

    /// Removes the lines before number `first`.
    pub fn skip_to(&mut self, first: u64) {
        while self.first < first && self.pop().is_some() {}
    }

    /// Returns the number of the first line, counted from 0 over all lines that were ever added.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the bytes of output in the lines, with line feeds.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Returns whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the time that the first line's delta starts from, and the encoded lines.
    pub fn encoded(&mut self) -> (u64, &[u8]) {
        (self.base_ms, self.bytes.make_contiguous())
    }

    /// Removes every line; their numbers are not used again.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.kept = 0;
        self.first = self.first.saturating_add(self.count);
        self.count = 0;
    }
}

/// Reads encoded lines; stops at the first byte that cannot be a line.
pub struct Decoder<'a> {
    time_ms: u64,
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Returns a reader of the bytes that [`LogLinesReader::encoded`] returned.
    pub fn new(base_ms: u64, encoded: &'a [u8]) -> Self {
        Self {
            time_ms: base_ms,
            rest: encoded,
        }
    }

    /// Returns the time that the next line's delta starts from, and the lines that are not read yet.
    pub fn rest(&self) -> (u64, &'a [u8]) {
        (self.time_ms, self.rest)
    }
}

impl<'a> Iterator for Decoder<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let mut bytes = self.rest.iter().copied();
        let head = take(&mut || bytes.next())?;
        let length = usize::try_from(take(&mut || bytes.next())?).ok()?;
        let body = self.rest.get(self.rest.len() - bytes.len()..)?;
        let text = body.get(..length)?;
        self.rest = &body[length..];
        self.time_ms = self.time_ms.saturating_add(head >> 3);
        let stream = match head & 3 {
            0 => Stream::Stdout,
            1 => Stream::Stderr,
            2 => Stream::Note,
            _ => Stream::Log,
        };
        Some(Line {
            time_ms: self.time_ms,
            stream,
            newline: head & 4 != 0,
            text,
        })
    }
}

fn raw(stream: u64, length: usize, newline: bool) -> u64 {
    if stream == Stream::Note as u64 {
        return 0;
    }
    length as u64 + u64::from(newline)
}

/// Appends a number with seven bits in each byte, the lowest first.
fn put(bytes: &mut VecDeque<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push_back((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push_back((number & 0x7f) as u8);
}

fn take(next: &mut impl FnMut() -> Option<u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let byte = next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_survive_and_come_off_in_order(
            lines in proptest::collection::vec((0..100_000_u64, 0..4_u8, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..300)), 0..50),
            popped in 0..60_usize,
        ) {
            let mut kept = LogLinesReader::default();
            let mut time_ms = 1_795_000_000_000;
            let mut expected = Vec::new();
            for (delta, stream, newline, text) in &lines {
                time_ms += delta;
                let stream = [Stream::Stdout, Stream::Stderr, Stream::Note, Stream::Log][usize::from(*stream)];
                let line = Line { time_ms, stream, newline: *newline, text };
                kept.push(&line);
                expected.push(line);
            }
            for _ in 0..popped {
                let first = (!expected.is_empty()).then(|| expected.remove(0));
                prop_assert_eq!(kept.pop(), first.map(|line| line.raw()));
            }
            prop_assert_eq!(kept.first(), popped.min(lines.len()) as u64);
            prop_assert_eq!(kept.kept(), expected.iter().map(Line::raw).sum::<u64>());
            let (first, (base, bytes)) = (kept.first(), kept.encoded());
            prop_assert_eq!(&Decoder::new(base, bytes).collect::<Vec<_>>(), &expected);
            let mut again = LogLinesReader::decode(first, base, bytes);
            prop_assert_eq!((again.first(), again.kept()), (first, kept.kept()));
            let (base, bytes) = again.encoded();
            prop_assert_eq!(&Decoder::new(base, bytes).collect::<Vec<_>>(), &expected);
            again.skip_to(lines.len() as u64 + 1);
            prop_assert!(again.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = Decoder::new(u64::MAX, &bytes).count();
        }
    }
}
