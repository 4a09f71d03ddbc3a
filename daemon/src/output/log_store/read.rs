//! Reads kept output record by record, so that memory does not grow with the log.

use super::record::{self, OutputRecord};
use super::{Decoder, Line, Position, directory, segment_path, segments};
use fnd_core::api::LogLine;
use fnd_core::instant;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// Most lines that `tail` returns.
const TAIL_MAX: usize = 10_000;

/// Which lines to read; absent means all.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Lines of this invocation.
    pub invocation: Option<InvocationId>,
    /// Lines that arrived at this time or later, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Lines that arrived before this time, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Only this many of the last lines, at most 10,000.
    pub tail: Option<usize>,
    /// Only output that was on disk up to this position, so that a follower can continue from there.
    pub end: Option<Position>,
}

/// Reads a function's kept output, in the order in which it was stored. Lines of one attempt are in order of arrival;
/// lines of attempts that ran at the same time may be mixed in blocks of a second.
///
/// Blocks on the disk. The iterator holds one record of 256 KiB at a time, and with `tail` also those lines.
///
/// # Errors
/// If the directory cannot be read. An unreadable segment ends the iterator with its error.
pub fn read(
    root: &Path,
    function: &FunctionName,
    query: &Query,
) -> io::Result<Box<dyn Iterator<Item = io::Result<LogLine>> + Send>> {
    let directory = directory(root, function);
    let segments = segments(&directory)?;
    let kept = |segments: &[u32]| KeptAttempt {
        directory: directory.clone(),
        function: function.clone(),
        query: query.clone(),
        segments: segments.iter().copied().collect(),
        open: None,
        lines: VecDeque::new(),
    };
    let Some(tail) = query.tail else {
        return Ok(Box::new(kept(&segments)));
    };
    let tail = tail.min(TAIL_MAX);
    let mut last = VecDeque::new();
    // The newest segments first: often the older ones are not needed.
    for segment in segments.iter().rev() {
        let mut here = VecDeque::new();
        for line in kept(std::slice::from_ref(segment)) {
            here.push_back(line);
            // Cut at each line: a segment may have far more lines than somebody asks for.
            if last.len() + here.len() > tail {
                here.pop_front();
            }
        }
        here.append(&mut last);
        last = here;
        if last.len() >= tail {
            break;
        }
    }
    Ok(Box::new(last.into_iter()))
}

struct KeptAttempt {
    directory: PathBuf,
    function: FunctionName,
    query: Query,
    segments: VecDeque<u32>,
    open: Option<OpenLogFile>,
    /// Lines of the last record that was read.
    lines: VecDeque<LogLine>,
}

struct OpenLogFile {
    file: BufReader<File>,
    at: Position,
}

impl KeptAttempt {
    /// Reads the next record of the query; nothing at the end.
    fn record(&mut self) -> io::Result<Option<OutputRecord>> {
        loop {
            if self.open.is_none() {
                let Some(segment) = self.segments.pop_front() else {
                    return Ok(None);
                };
                match File::open(segment_path(&self.directory, segment)) {
                    Ok(file) => {
                        let file = BufReader::new(file);
                        let at = Position { segment, offset: 0 };
                        self.open = Some(OpenLogFile { file, at });
                    }
                    // The segment was removed after it was listed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
            }
            let Some(open) = &mut self.open else { continue };
            if self.query.end.is_some_and(|end| open.at >= end) {
                self.segments.clear();
                self.open = None;
                continue;
            }
            let next = match self.query.invocation {
                Some(wanted) => record::decode_of(&mut open.file, wanted)?,
                None => record::decode(&mut open.file)?.map(|(record, size)| (Some(record), size)),
            };
            let Some((record, size)) = next else {
                self.open = None;
                continue;
            };
            open.at.offset += size;
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    fn wants(&self, line: &Line<'_>) -> bool {
        self.query.since_ms.is_none_or(|since| line.time_ms >= since)
            && self.query.until_ms.is_none_or(|until| line.time_ms < until)
    }
}

impl Iterator for KeptAttempt {
    type Item = io::Result<LogLine>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(Ok(line));
            }
            let record = match self.record() {
                Ok(record) => record?,
                Err(error) => {
                    self.segments.clear();
                    self.open = None;
                    return Some(Err(error));
                }
            };
            let wanted: VecDeque<_> = Decoder::new(record.base_ms, &record.lines)
                .filter(|line| self.wants(line))
                .map(|line| view(&self.function, record.invocation, record.attempt.0, &line))
                .collect();
            self.lines = wanted;
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
