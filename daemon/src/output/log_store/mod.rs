//! The kept output of attempts: append-only segment files for each function below `STATE/logs/FUNCTION/`.
//!
//! The output thread owns [`LogStore`] and appends. Any thread may call [`fn@read`] at any time; it sees whole records only.
//! Nothing is synced: a power cut loses the last seconds of output, but no output before them.
//!
//! Files:
//! - `lines`: lines of output in a compact form, with the same bytes in memory and on disk
//! - `read`: finds lines of kept output and reads them one by one, so that memory does not grow with their text
//! - `record`: records of a segment file
//! - `retention`: forgets old output by age and by bytes, of one function and of all, and to make room on a disk that
//!   is nearly full

mod lines;
mod read;
mod record;
mod retention;

pub use lines::{Decoder, Line, LogLinesReader, Stream};
pub(crate) use read::view;
pub use read::{Query, read};
pub use retention::{KeepOutput, Keeper};

use fnd_wire::ids::{Attempt, FunctionName, InvocationId};
use record::{OutputRecord, RecordHead, RecordRead};
use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Size from which a new segment is begun, bytes.
pub const SEGMENT: u64 = 16 << 20;

/// A position in a function's output; all output before it is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    segment: u32,
    offset: u64,
}

#[derive(Debug)]
pub struct LogStore {
    root: PathBuf,
    segment: u64,
    /// Where each function's output ends, for functions whose output was checked.
    ends: HashMap<FunctionName, Position>,
    keeper: Keeper,
}

impl LogStore {
    /// Returns the store below `root`, which is created with the first output. `segment` is the size of a segment in
    /// bytes. The store tells the keeper when it begins a segment, and asks it how much output a function may keep.
    pub fn new(root: PathBuf, segment: u64, keeper: Keeper) -> Self {
        Self {
            root,
            segment,
            ends: HashMap::new(),
            keeper,
        }
    }

    /// Appends lines of several attempts of a function with one write.
    ///
    /// # Errors
    /// If the file could not be written; then no line of any of them is kept, and a record that was written in part is removed again.
    pub fn append_all<'a>(
        &mut self,
        function: &FunctionName,
        attempts: impl IntoIterator<Item = (InvocationId, Attempt, &'a mut LogLinesReader)>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (invocation, attempt, lines) in attempts {
            encode(&mut bytes, (invocation, attempt), lines);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let directory = directory(&self.root, function);
        let end = match self.ends.remove(function) {
            Some(end) => end,
            None => recover(&directory)?,
        };
        // An error leaves no entry, so that the next append searches for the end of the last whole record.
        let end = self.write(function, &directory, end, &bytes)?;
        self.ends.insert(function.clone(), end);
        Ok(())
    }

    fn write(
        &self,
        function: &FunctionName,
        directory: &Path,
        mut end: Position,
        bytes: &[u8],
    ) -> io::Result<Position> {
        // Lines that are larger than a segment get a segment of their own.
        if end.offset > 0 && end.offset + bytes.len() as u64 > self.segment {
            end = Position {
                segment: end.segment + 1,
                offset: 0,
            };
            // Remove the oldest segment at once, so that even a fast flood is bounded. Segments beyond a changed limit
            // are removed by the other thread.
            let segments = u32::try_from(self.keeper.keep_bytes(function) / self.segment).unwrap_or(u32::MAX);
            if let Some(oldest) = end.segment.checked_sub(segments.max(1)) {
                remove(&segment_path(directory, oldest))?;
            }
            self.keeper.ring();
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        let path = segment_path(directory, end.segment);
        let mut file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(directory)?;
                options.open(&path)?
            }
            opened => opened?,
        };
        // Another thread removes segments that are no longer kept; if this one was old, that includes this one.
        if end.offset > 0 && file.metadata()?.len() == 0 {
            end.offset = 0;
        }
        if let Err(error) = file.write_all(bytes) {
            // A partial record would hide the records after it. If the truncation fails too, `recover` finds it.
            let _ = file.set_len(end.offset);
            return Err(error);
        }
        end.offset += bytes.len() as u64;
        Ok(end)
    }

    /// Counts the lines that were appended so far for attempts of a function, by the last record of each; the number of
    /// an attempt without a record does not change.
    ///
    /// Reads all of the function's output.
    ///
    /// # Errors
    /// If a segment cannot be read; attempts found before that have their numbers.
    pub fn count(
        &self,
        function: &FunctionName,
        attempts: &mut HashMap<(InvocationId, Attempt), u64>,
    ) -> io::Result<()> {
        let directory = directory(&self.root, function);
        for segment in segments(&directory)? {
            let mut file = BufReader::new(File::open(segment_path(&directory, segment))?);
            loop {
                let OutputRecord { head, lines } = match record::decode(&mut file)? {
                    RecordRead::Whole(record, _) => record,
                    // None of its lines counts here, and the next record follows.
                    RecordRead::Other(_) | RecordRead::Damaged(_) => continue,
                    RecordRead::Lost | RecordRead::End => break,
                };
                if let Some(count) = attempts.get_mut(&(head.invocation, head.attempt)) {
                    let lines = Decoder::new(head.base_ms, &lines).count();
                    *count = head.first.saturating_add(lines as u64);
                }
            }
        }
        Ok(())
    }

    /// Returns where a function's output ends; nothing if none was appended since the start.
    pub fn end(&self, function: &FunctionName) -> Option<Position> {
        self.ends.get(function).copied()
    }
}

/// Appends an attempt's lines as records.
fn encode(bytes: &mut Vec<u8>, (invocation, attempt): (InvocationId, Attempt), lines: &mut LogLinesReader) {
    let mut first = lines.first();
    let (base_ms, encoded) = lines.encoded();
    bytes.reserve(encoded.len() + 64);
    let mut decoder = Decoder::new(base_ms, encoded);
    loop {
        let (base_ms, rest) = decoder.rest();
        let mut count = 0;
        while rest.len() - decoder.rest().1.len() < record::LINES_MAX && decoder.next().is_some() {
            count += 1;
        }
        let taken = rest.len() - decoder.rest().1.len();
        if taken == 0 {
            break;
        }
        let head = RecordHead {
            invocation,
            attempt,
            first,
            base_ms,
        };
        record::encode(bytes, &head, &rest[..taken]);
        first += count;
    }
}

fn directory(root: &Path, function: &FunctionName) -> PathBuf {
    root.join(function.file_form())
}

fn segment_path(directory: &Path, segment: u32) -> PathBuf {
    directory.join(format!("{segment:08}.log"))
}

pub(super) fn make(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns when a file was written last, Unix milliseconds; nothing if that is not known.
fn modified_ms(about: &Metadata) -> Option<u64> {
    let since = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the numbers of a function's segments, oldest first; none if there is no directory.
fn segments(directory: &Path) -> io::Result<Vec<u32>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".log"));
        numbers.extend(number.and_then(|number| number.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Finds the position to append at. After a torn or damaged record this is a new segment, so that nothing is destroyed; the journal
/// says so.
fn recover(directory: &Path) -> io::Result<Position> {
    let Some(segment) = segments(directory)?.pop() else {
        make(directory)?;
        return Ok(Position { segment: 0, offset: 0 });
    };
    let path = segment_path(directory, segment);
    let file = File::open(&path)?;
    let size = file.metadata()?.len();
    let mut reader = BufReader::new(file);
    let mut whole = 0;
    loop {
        match record::decode(&mut reader)? {
            RecordRead::Whole(_, size) | RecordRead::Other(size) => whole += size,
            RecordRead::Damaged(_) => {}
            RecordRead::Lost | RecordRead::End => break,
        }
    }
    let damaged = size.saturating_sub(whole);
    if damaged > 0 {
        tracing::warn!(
            "{damaged} bytes of the output kept in `{}` are damaged or cut off, new output goes to another file",
            path.display()
        );
        return Ok(Position {
            segment: segment + 1,
            offset: 0,
        });
    }
    Ok(Position { segment, offset: whole })
}

#[cfg(test)]
mod tests;
