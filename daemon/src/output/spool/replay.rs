//! Reads spools, up to the first piece that is torn. Of a torn chunk, the bytes that are there are used.

use super::super::Meta;
use super::super::capture::Capture;
use super::{LOST, Piece, Spool, Spools};
use crate::output::kept::Stream;
use fnd_wire::form::Wire as _;
use fnd_wire::ids::{Attempt, InvocationId};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

/// The content of an attempt's spool.
pub(in super::super) enum Replayed {
    /// There is no spool, or it has no complete beginning: nothing was read from the attempt's pipes.
    Nothing,
    /// Output of the attempt could not be kept.
    Lost,
    /// Everything that was read from the attempt's pipes.
    Whole { capture: Box<Capture>, spool: Spool },
}

impl Spools {
    /// Returns the attempts that have spools; removes snapshots that were not written completely.
    pub(in super::super) fn list(&self) -> io::Result<Vec<(InvocationId, Attempt)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            match entry.file_name().to_str().and_then(parse) {
                Some(key) => found.push(key),
                None => std::fs::remove_file(entry.path())?,
            }
        }
        Ok(found)
    }

    /// Returns the invocation and the bounds in a spool; absent where they cannot be read.
    pub(in super::super) fn meta(&self, key: (InvocationId, Attempt)) -> Option<Meta> {
        let first = Pieces::open(&self.path(key)).ok()?.next()?;
        first.meta().filter(|meta| meta.key() == key)
    }

    /// Reads a spool, so that it can be continued.
    pub(in super::super) fn replay(&mut self, key: (InvocationId, Attempt)) -> io::Result<Replayed> {
        let mut pieces = match Pieces::open(&self.path(key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Replayed::Nothing),
            pieces => pieces?,
        };
        let Some(meta) = pieces.next().and_then(Piece::meta) else {
            let lost = pieces.size == LOST;
            return Ok(if lost { Replayed::Lost } else { Replayed::Nothing });
        };
        // The spool is damaged: its bytes belong to an attempt that has a spool of its own.
        if meta.key() != key {
            return Ok(Replayed::Lost);
        }
        let mut capture = Capture::new(meta.clone());
        let mut snapshot_end = pieces.end;
        let mut torn = false;
        while let Some(piece) = pieces.next() {
            match piece {
                // There is only one, the first.
                Piece::Begin(_) | Piece::BeginCgi(_) => {}
                Piece::Chunk(chunk) => {
                    let stream = if chunk.stderr { Stream::Stderr } else { Stream::Stdout };
                    let bytes = pieces.bytes(chunk.length)?;
                    torn = bytes.len() < chunk.length as usize;
                    capture.feed(stream, chunk.time_ms, &bytes, &mut |_, _| {});
                }
                Piece::Snapshot(snapshot) => {
                    capture = Capture::restore(meta.clone(), *snapshot);
                    snapshot_end = pieces.end;
                }
            }
        }
        let mut file = OpenOptions::new().read(true).write(true).open(self.path(key))?;
        // A torn piece would hide the pieces written after it.
        file.set_len(pieces.end)?;
        file.seek(SeekFrom::Start(pieces.end))?;
        let mut spool = Spool::Whole {
            file,
            size: pieces.end,
            grown: pieces.end - snapshot_end,
        };
        let mut capture = Box::new(capture);
        if torn {
            self.rewrite(&mut spool, &mut capture);
        }
        Ok(Replayed::Whole { capture, spool })
    }
}

fn parse(name: &str) -> Option<(InvocationId, Attempt)> {
    let (invocation, attempt) = name.split_once('.')?;
    Some((InvocationId::parse(invocation)?, Attempt(attempt.parse().ok()?)))
}

/// The pieces of a spool, up to the first that is torn.
struct Pieces {
    file: BufReader<File>,
    size: u64,
    /// The end of the last piece read.
    end: u64,
}

impl Pieces {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            file: BufReader::new(file),
            size,
            end: 0,
        })
    }

    /// Returns the bytes of the chunk that was read last, as many as there are.
    fn bytes(&mut self, length: u32) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Read::by_ref(&mut self.file)
            .take(u64::from(length))
            .read_to_end(&mut bytes)?;
        self.end += bytes.len() as u64;
        Ok(bytes)
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let mut length = [0; 4];
        self.file.read_exact(&mut length).ok()?;
        let end = self.end + 4 + u64::from(u32::from_le_bytes(length));
        if end > self.size {
            return None;
        }
        let mut piece = vec![0; u32::from_le_bytes(length) as usize];
        self.file.read_exact(&mut piece).ok()?;
        let piece = Piece::from_wire(&piece).ok()?;
        self.end = end;
        Some(piece)
    }
}
