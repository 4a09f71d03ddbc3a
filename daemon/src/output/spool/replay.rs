//! Reads spools, up to the first piece that is torn. Of a torn chunk, the bytes that are there are used.

use super::super::capture::Capture;
use super::super::{AttemptKey, AttemptOutput};
use super::{LOST, Piece, Spool, Spools, path};
use crate::output::log_store::Stream;
use fnd_core::mask::Mask;
use fnd_wire::form::Wire as _;
use fnd_wire::ids::{Attempt, InvocationId};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// The content of an attempt's spool.
pub(in super::super) enum Replayed {
    /// There is no spool, or it has no complete beginning: nothing was read from the attempt's pipes.
    Nothing,
    /// Output of the attempt could not be kept.
    Lost(Loss),
    /// Everything that was read from the attempt's pipes.
    Whole { capture: Box<Capture>, spool: Spool },
}

/// Why spooled output is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Loss {
    /// It could not be written or read.
    Damaged,
    /// It was in memory, which the machine has lost.
    Memory,
    /// It may contain values of secrets, and their fingerprints are gone.
    Unmasked,
}

impl Loss {
    /// Returns the note in place of the output.
    pub(in super::super) fn words(self) -> &'static str {
        match self {
            Self::Damaged => "output from before the restart of fnd is missing here: it could not be spooled",
            Self::Memory => {
                "output from before the restart of the machine may be missing here: the latest output of a function with \
                 secrets is only in memory"
            }
            Self::Unmasked => {
                "output of this attempt may be missing from here on: it was removed because values of secrets in it could \
                 not be masked any more"
            }
        }
    }
}

impl Spools {
    /// Returns the attempts that have spools; removes snapshots that were not written completely.
    pub(in super::super) fn list(&mut self) -> io::Result<Vec<AttemptKey>> {
        let mut found = list(&self.places.state)?;
        self.in_memory.extend(list(&self.places.memory)?);
        for key in &found {
            let first = ReplayPieces::open(&path(&self.places.state, *key))
                .ok()
                .and_then(|mut pieces| pieces.next());
            if matches!(first, Some(Piece::InMemory(_))) {
                self.in_memory.insert(*key);
            }
        }
        found.extend(&self.in_memory);
        // A spool in memory is found twice: by its marker, too.
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Returns the invocation and the bounds in a spool; absent where they cannot be read.
    pub(in super::super) fn meta(&self, key: AttemptKey) -> Option<AttemptOutput> {
        let first = |place| ReplayPieces::open(&path(place, key)).ok()?.next()?.meta();
        // A spool in memory may have lost its marker, or the marker its spool.
        let meta = first(&self.places.state).or_else(|| first(&self.places.memory));
        meta.filter(|meta| meta.key() == key)
    }

    /// Reads a spool, so that it can be continued; that of a function with secrets only with their fingerprints.
    pub(in super::super) fn replay(&mut self, key: AttemptKey, mask: Option<&Arc<Mask>>) -> io::Result<Replayed> {
        let in_memory = self.in_memory.contains(&key);
        if in_memory && mask.is_none() {
            let there = self.path(key).exists();
            return Ok(Replayed::Lost(if there { Loss::Unmasked } else { Loss::Memory }));
        }
        let mut pieces = match ReplayPieces::open(&self.path(key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let lost = Replayed::Lost(Loss::Memory);
                return Ok(if in_memory { lost } else { Replayed::Nothing });
            }
            pieces => pieces?,
        };
        let Some(meta) = pieces.next().and_then(Piece::meta) else {
            let (is_lost, lost) = (pieces.size == LOST, Replayed::Lost(Loss::Damaged));
            return Ok(if is_lost { lost } else { Replayed::Nothing });
        };
        // The spool is damaged: its bytes belong to an attempt that has a spool of its own.
        if meta.key() != key {
            return Ok(Replayed::Lost(Loss::Damaged));
        }
        let meta = AttemptOutput {
            mask: mask.cloned(),
            ..meta
        };
        let mut capture = Capture::new(meta.clone());
        let mut snapshot_end = pieces.end;
        let mut torn = false;
        while let Some(piece) = pieces.next() {
            match piece {
                // There is only one, the first.
                Piece::Begin(_) | Piece::BeginCgi(_) | Piece::InMemory(_) => {}
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
                Piece::HeldBack(held) => capture.hold_back(*held),
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

fn list(directory: &Path) -> io::Result<Vec<AttemptKey>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_name().to_str().and_then(parse) {
            Some(key) => found.push(key),
            None => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(found)
}

fn parse(name: &str) -> Option<AttemptKey> {
    let (invocation, attempt) = name.split_once('.')?;
    Some((InvocationId::parse(invocation)?, Attempt(attempt.parse().ok()?)))
}

/// The pieces of a spool, up to the first that is torn.
struct ReplayPieces {
    file: BufReader<File>,
    size: u64,
    /// The end of the last piece read.
    end: u64,
}

impl ReplayPieces {
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

impl Iterator for ReplayPieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let mut length = [0; 4];
        self.file.read_exact(&mut length).ok()?;
        let end = self.end + 4 + u64::from(u32::from_le_bytes(length));
        // Checked before memory is allocated, since a damaged length may be anything up to 4 GiB.
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
