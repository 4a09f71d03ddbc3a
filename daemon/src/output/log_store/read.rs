//! Reads kept output in two steps, so that memory does not grow with the text of the log: first the places of the lines
//! that the query wants, then the text of one line after the other.

use super::record::{self, OutputRecord, RecordRead};
use super::{Decoder, Line, Position, Stream, directory, modified_ms, segment_path, segments};
use fnd_core::api::LogLine;
use fnd_core::instant;
use fnd_wire::ids::{Attempt, FunctionName, InvocationId};
use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Which lines to read; absent means all.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Lines of this invocation.
    pub invocation: Option<InvocationId>,
    /// Lines that arrived at this time or later, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Lines that arrived before this time, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Only this many of the last lines of all functions together. About 100 bytes of memory are needed for each.
    pub tail: Option<usize>,
    /// Only output that was on disk up to this position, so that a follower can continue from there.
    pub end: Option<Position>,
}

/// Reads kept output. The lines of one function come in the order in which they were stored: lines of one attempt are in
/// order of arrival; lines of attempts that ran at the same time may be mixed in blocks of a second. The lines of several
/// functions come in order of arrival.
///
/// Blocks on the disk. Output that cannot be read is named by a line of fnd, and the other output follows.
pub fn read(root: &Path, functions: &[FunctionName], query: &Query) -> impl Iterator<Item = LogLine> + Send + use<> {
    let tail = query.tail.unwrap_or(usize::MAX);
    let mut index = Vec::new();
    for (number, function) in functions.iter().enumerate() {
        index.extend(newest(&directory(root, function), number, query, tail));
        if functions.len() > 1 && index.len() / 2 >= tail {
            keep_newest(&mut index, tail);
        }
    }
    if functions.len() > 1 {
        keep_newest(&mut index, tail);
    }
    StoredLines {
        root: root.to_owned(),
        functions: functions.to_vec(),
        invocation: query.invocation,
        index: index.into_iter(),
        open: None,
        failed: HashSet::new(),
    }
}

/// A line that is to be read, or the text of a line of fnd in the place of output that cannot be read.
struct IndexedLine {
    time_ms: u64,
    /// The place of the function in the list of functions.
    function: usize,
    kept: Result<LinePlace, String>,
}

/// Where the text of a line is.
struct LinePlace {
    /// The record that has the line.
    record: Position,
    invocation: InvocationId,
    attempt: Attempt,
    /// Number of the first line of the record.
    first: u64,
    stream: Stream,
    /// Offset of the text in the segment.
    at: u64,
    length: usize,
}

/// Finds the last lines of a function.
fn newest(directory: &Path, function: usize, query: &Query, tail: usize) -> VecDeque<IndexedLine> {
    let line = |time_ms, kept| IndexedLine {
        time_ms,
        function,
        kept,
    };
    let mut last = VecDeque::new();
    let segments = match segments(directory) {
        Ok(segments) => segments,
        // The time of a directory says nothing about the lines in its files.
        Err(error) => return VecDeque::from([line(crate::clock::unix_ms(), Err(unreadable(&error)))]),
    };
    // The newest segments first: often the older ones are not needed.
    for segment in segments.into_iter().rev() {
        let path = segment_path(directory, segment);
        let mut here = VecDeque::new();
        let mut add = |line| {
            here.push_back(line);
            // Cut at each line: a segment may have far more lines than somebody asks for.
            if last.len() + here.len() > tail {
                here.pop_front();
            }
        };
        let indexed = index(&path, segment, query, |time_ms, kept| add(line(time_ms, kept)));
        match indexed {
            // The segment was removed after it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => add(line(written_ms(&path), Err(unreadable(&error)))),
            Ok(()) => {}
        }
        here.append(&mut last);
        last = here;
        if last.len() >= tail {
            break;
        }
    }
    last
}

/// Finds the lines of a segment that the query wants, and the places where records are damaged.
fn index(
    path: &Path,
    segment: u32,
    query: &Query,
    mut found: impl FnMut(u64, Result<LinePlace, String>),
) -> io::Result<()> {
    let mut file = BufReader::new(File::open(path)?);
    let mut record = Position { segment, offset: 0 };
    // Bytes of the damaged records since the last whole one, and the time of the last line before them.
    let (mut damaged, mut before_ms) = (0, None);
    while query.end.is_none_or(|end| record < end) {
        let next = match query.invocation {
            Some(wanted) => record::decode_of(&mut file, wanted)?,
            None => record::decode(&mut file)?,
        };
        match next {
            RecordRead::Whole(decoded, size) => {
                let bytes = std::mem::take(&mut damaged);
                if let Some((time_ms, note)) = damage(bytes, before_ms, decoded.head.base_ms, query) {
                    found(time_ms, Err(note));
                }
                let last_ms = lines_of(&decoded, (record, size), query, |time_ms, place| {
                    found(time_ms, Ok(place));
                });
                before_ms = last_ms.or(before_ms);
                record.offset += size;
            }
            RecordRead::Other(size) => record.offset += size,
            RecordRead::Damaged(size) => {
                damaged += size;
                record.offset += size;
            }
            RecordRead::Lost => {
                damaged += file.get_ref().metadata()?.len().saturating_sub(record.offset);
                break;
            }
            RecordRead::End => break,
        }
    }
    if let Some((time_ms, note)) = damage(damaged, before_ms, written_ms(path), query) {
        found(time_ms, Err(note));
    }
    Ok(())
}

/// Finds the lines of a record that the query wants. Returns the time of its last line.
fn lines_of(
    OutputRecord { head, lines }: &OutputRecord,
    (record, size): (Position, u64),
    query: &Query,
    mut found: impl FnMut(u64, LinePlace),
) -> Option<u64> {
    let end = record.offset + size;
    let mut decoder = Decoder::new(head.base_ms, lines);
    let mut last_ms = None;
    while let Some(line) = decoder.next() {
        last_ms = Some(line.time_ms);
        if wants(query, &line) {
            let place = LinePlace {
                record,
                invocation: head.invocation,
                attempt: head.attempt,
                first: head.first,
                stream: line.stream,
                at: end - (decoder.rest().1.len() + line.text.len()) as u64,
                length: line.text.len(),
            };
            found(line.time_ms, place);
        }
    }
    last_ms
}

/// Returns the text of a line of fnd in the place of damaged records, with its time. Nothing knows when their lines arrived: after
/// the line before them, and before the line after them.
fn damage(bytes: u64, before_ms: Option<u64>, after_ms: u64, query: &Query) -> Option<(u64, String)> {
    let time_ms = before_ms.unwrap_or(after_ms);
    let may_be_wanted = query.since_ms.is_none_or(|since| after_ms >= since)
        && query
            .until_ms
            .is_none_or(|until| before_ms.is_none_or(|before| before < until));
    let note = || format!("output that is kept here is damaged: {bytes} bytes of it cannot be read");
    (bytes > 0 && may_be_wanted).then(|| (time_ms, note()))
}

fn wants(query: &Query, line: &Line<'_>) -> bool {
    query.since_ms.is_none_or(|since| line.time_ms >= since) && query.until_ms.is_none_or(|until| line.time_ms < until)
}

/// Sorts lines by time and removes all but the last.
fn keep_newest(index: &mut Vec<IndexedLine>, tail: usize) {
    // The sort is stable: lines of one function with the same time keep their order.
    index.sort_by_key(|line| line.time_ms);
    index.drain(..index.len().saturating_sub(tail));
}

/// Returns when a file was written last, Unix milliseconds; no line in it is newer.
fn written_ms(path: &Path) -> u64 {
    let written = path.metadata().ok().and_then(|about| modified_ms(&about));
    written.unwrap_or_else(crate::clock::unix_ms)
}

fn unreadable(error: &io::Error) -> String {
    format!("output that is kept here cannot be read: {error}")
}

/// Reads the text of lines.
struct StoredLines {
    root: PathBuf,
    functions: Vec<FunctionName>,
    invocation: Option<InvocationId>,
    index: std::vec::IntoIter<IndexedLine>,
    /// The segment of the last line.
    open: Option<(PathBuf, File)>,
    /// The segments of which a line could not be read.
    failed: HashSet<PathBuf>,
}

impl StoredLines {
    fn text(&mut self, path: &Path, place: &LinePlace) -> io::Result<Vec<u8>> {
        let file = match self.open.take() {
            Some((open, file)) if open == *path => file,
            _ => File::open(path)?,
        };
        // The newest segment may have been forgotten and begun anew.
        let record = (place.invocation, place.attempt, place.first);
        if !record::is_at(&file, place.record.offset, record)? {
            return Err(io::Error::other("it was forgotten meanwhile"));
        }
        let mut text = vec![0; place.length];
        file.read_exact_at(&mut text, place.at)?;
        self.open = Some((path.to_owned(), file));
        Ok(text)
    }
}

impl Iterator for StoredLines {
    type Item = LogLine;

    fn next(&mut self) -> Option<LogLine> {
        loop {
            let line = self.index.next()?;
            let function = self.functions.get(line.function)?.clone();
            let invocation = self.invocation.unwrap_or(InvocationId(0));
            let note = |text: &str| view(&function, invocation, 0, &Line::note(line.time_ms, text));
            let place = match &line.kept {
                Ok(place) => place,
                Err(text) => return Some(note(text)),
            };
            let path = segment_path(&directory(&self.root, &function), place.record.segment);
            match self.text(&path, place) {
                Ok(text) => {
                    let line = Line::new(line.time_ms, place.stream, &text);
                    return Some(view(&function, place.invocation, place.attempt.0, &line));
                }
                // One line of fnd stands for all lines of the segment.
                Err(error) if self.failed.insert(path) => return Some(note(&unreadable(&error))),
                // Such a line was shown for this segment already.
                Err(_) => {}
            }
        }
    }
}

/// Returns a line for the API: replaces bytes that are not UTF-8, and removes the carriage return of a CRLF.
pub(crate) fn view(function: &FunctionName, invocation: InvocationId, attempt: u32, line: &Line<'_>) -> LogLine {
    let text = line.text.strip_suffix(b"\r").unwrap_or(line.text);
    LogLine {
        time: instant::text(line.time_ms),
        function: function.clone(),
        invocation,
        attempt,
        stream: line.stream.shown(),
        text: String::from_utf8_lossy(text).into_owned(),
    }
}
