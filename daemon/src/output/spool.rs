//! The bytes read from the pipes of running attempts, on disk: a restart, a crash and a reboot lose none of them.
//!
//! ```text
//! spool/INVOCATION.ATTEMPT = Begin (Chunk bytes | Snapshot HeldBack?)*     pieces behind their length (u32), in wire form
//! ```
//! The file is made before the first read. The kernel [moves](take) a chunk's bytes from the pipe to the file before
//! any of them is kept or reported. So the spool has everything that the kept output has, and whenever fnd is killed
//! each byte is in the pipe or in the spool. A spool grown large is replaced by one snapshot of the [`Capture`].
//! A spool that cannot be written is cut to [`LOST`], which means that output is missing; [`Spools::heal`] retries it.
//! Nothing is synced.
//!
//! A spool is not masked. So that no value of a secret is on a disk, the spool of a function with secrets lies in the run
//! directory, which is in memory. In its place in the state directory is a marker, `InMemory`: if the memory is lost with a
//! restart of the machine, the kept output says so. Such a spool is read only with the fingerprints of the secrets, which
//! the spawner reports for the workers that it holds.
//!
//! Files:
//! - `replay`: reads spools, up to the first piece that is torn
//! - `take`: moves bytes from a pipe into a spool in one step of the kernel

use super::capture::{Capture, HeldBack, Snapshot};
use super::{AttemptKey, AttemptOutput, SpoolPlaces, log_store};
use fnd_wire::form::{Wire as _, wire_enum, wire_structs};
use fnd_wire::ids::{Attempt, FunctionName, InvocationId};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

mod replay;
mod take;

pub(super) use replay::{Loss, Replayed};

/// Length of a spool that could not be written.
const LOST: u64 = 1;
/// How much a spool may grow beyond twice the largest snapshot.
const SLACK: u64 = 1 << 20;

wire_structs! {
    /// A [`AttemptOutput`], without its kind.
    pub struct SpooledMeta {
        /// See [`AttemptOutput`]; the other fields likewise.
        pub function: FunctionName,
        pub invocation: InvocationId,
        /// The number of the try.
        pub attempt: Attempt,
        /// `limits.output`.
        pub output_max: u64,
        /// `limits.result`.
        pub result_max: u64,
    }

    /// The head of a piece of bytes from a pipe; the bytes follow it.
    pub struct Chunk {
        /// Whether they are of standard error; else of standard output.
        pub stderr: bool,
        /// When they were read, Unix milliseconds.
        pub time_ms: u64,
        /// How many bytes; a spool may end before the last of them.
        pub length: u32,
    }
}

wire_enum! {
    /// One piece of a spool.
    pub enum Piece {
        /// The invocation and the bounds; always the first piece, except of a CGI script.
        0 = Begin(SpooledMeta),
        /// The bytes that were read next.
        1 = Chunk(Chunk),
        /// Everything that came before.
        2 = Snapshot(Box<Snapshot>),
        /// The first piece of a CGI script.
        3 = BeginCgi(SpooledMeta),
        /// Follows [`Self::Snapshot`] of a function with secrets: the bytes that are not in it.
        4 = HeldBack(Box<HeldBack>),
        /// The only piece of a marker: the spool is in memory.
        5 = InMemory(SpooledMeta),
    }
}

impl Piece {
    /// Returns the first piece of a spool.
    fn begin(meta: &AttemptOutput) -> Self {
        let spooled = SpooledMeta::of(meta);
        // A kind of its own and no new field of `SpooledMeta`, so that spools of an earlier fnd can be read.
        if meta.cgi {
            Self::BeginCgi(spooled)
        } else {
            Self::Begin(spooled)
        }
    }

    /// Returns what the first piece of a spool says.
    fn meta(self) -> Option<AttemptOutput> {
        let (spooled, cgi) = match self {
            Self::Begin(spooled) | Self::InMemory(spooled) => (spooled, false),
            Self::BeginCgi(spooled) => (spooled, true),
            Self::Chunk(_) | Self::Snapshot(_) | Self::HeldBack(_) => return None,
        };
        Some(AttemptOutput {
            function: spooled.function,
            invocation: spooled.invocation,
            attempt: spooled.attempt,
            output_max: spooled.output_max,
            result_max: spooled.result_max,
            cgi,
            mask: None,
        })
    }
}

impl SpooledMeta {
    fn of(meta: &AttemptOutput) -> Self {
        Self {
            function: meta.function.clone(),
            invocation: meta.invocation,
            attempt: meta.attempt,
            output_max: meta.output_max,
            result_max: meta.result_max,
        }
    }
}

/// The spools' directories.
pub(super) struct Spools {
    places: SpoolPlaces,
    /// The attempts whose spools are in memory.
    in_memory: HashSet<AttemptKey>,
    /// The piece being written.
    piece: Vec<u8>,
    /// The last write failed, so that a failure is reported once.
    failing: bool,
}

/// One attempt's spool.
#[derive(Default)]
pub(super) enum Spool {
    /// Nothing was read so far, and there is no file.
    #[default]
    None,
    /// The spool has everything that was read.
    Whole {
        file: File,
        /// Its length, bytes.
        size: u64,
        /// Bytes since the last snapshot.
        grown: u64,
    },
    /// The spool could not be written.
    Failed,
}

impl Spools {
    /// Opens the directories, which are made if they are not there.
    pub(super) fn new(places: SpoolPlaces) -> Self {
        // Only fnd may enter: output in a spool is not masked.
        let made = [&places.state, &places.memory].map(|directory| log_store::make(directory));
        let mut spools = Self {
            places,
            in_memory: HashSet::new(),
            piece: Vec::new(),
            failing: false,
        };
        for error in made.into_iter().filter_map(Result::err) {
            spools.failed(&error);
        }
        spools
    }

    /// Makes a spool, if there is none yet. It is made here because there is no time for it between a read and the
    /// write that follows.
    pub(super) fn begin(&mut self, spool: &mut Spool, meta: &AttemptOutput) {
        if !matches!(spool, Spool::None) {
            return;
        }
        // The marker comes first: after a kill in between, the kept output says that something may be missing.
        self.mark(meta);
        self.piece.clear();
        put(&Piece::begin(meta), &mut self.piece);
        let (size, grown) = (0, 0);
        let written = create(&self.path(meta.key())).and_then(|mut file| {
            let written = file.write_all(&self.piece);
            *spool = Spool::Whole { file, size, grown };
            written
        });
        // With `Failed`, `heal` tries again with the next write of the heads. With `None`, each read would try again.
        if written.is_err() && matches!(spool, Spool::None) {
            *spool = Spool::Failed;
        }
        self.written(spool, written, self.piece.len() as u64);
    }

    /// Notes that the spool of a function with secrets is in memory. Without its marker, a restart of the machine would
    /// lose it without a word.
    fn mark(&mut self, meta: &AttemptOutput) {
        let key = meta.key();
        if meta.mask.is_none() || !self.in_memory.insert(key) {
            return;
        }
        let mut marker = Vec::new();
        put(&Piece::InMemory(SpooledMeta::of(meta)), &mut marker);
        let written = create(&path(&self.places.state, key)).and_then(|mut file| file.write_all(&marker));
        if let Err(error) = written {
            self.failed(&error);
        }
    }

    /// Replaces a spool grown large by a snapshot.
    pub(super) fn bound(&mut self, spool: &mut Spool, capture: &mut Capture) {
        let (output_max, result_max) = (capture.meta.output_max, capture.meta.result_max);
        if matches!(spool, Spool::Whole { grown, .. } if *grown > output_max.saturating_add(result_max).saturating_mul(2).saturating_add(SLACK))
        {
            self.rewrite(spool, capture);
        }
    }

    /// Rewrites a spool that could not be written, if that is possible now.
    pub(super) fn heal(&mut self, spool: &mut Spool, capture: &mut Capture) {
        if matches!(spool, Spool::Failed) {
            self.rewrite(spool, capture);
        }
    }

    /// Replaces a spool by a snapshot.
    pub(super) fn rewrite(&mut self, spool: &mut Spool, capture: &mut Capture) {
        self.mark(&capture.meta);
        self.piece.clear();
        put(&Piece::begin(&capture.meta), &mut self.piece);
        put(&Piece::Snapshot(Box::new(capture.snapshot())), &mut self.piece);
        if let Some(held) = capture.held_back() {
            put(&Piece::HeldBack(Box::new(held)), &mut self.piece);
        }
        let path = self.path(capture.meta.key());
        let new = path.with_added_extension("new");
        let written = create(&new).and_then(|mut file| {
            file.write_all(&self.piece)?;
            // By a rename, so that a kill leaves the old spool or the whole snapshot.
            std::fs::rename(&new, &path)?;
            let (size, grown) = (self.piece.len() as u64, 0);
            *spool = Spool::Whole { file, size, grown };
            Ok(())
        });
        if written.is_err() {
            // It may never have been made; if it stays, the next start removes it.
            let _ = std::fs::remove_file(&new);
        }
        // A snapshot may be far larger than later pieces, so its memory is freed.
        self.piece = Vec::new();
        self.written(spool, written, 0);
    }

    pub(super) fn remove(&mut self, key: AttemptKey) {
        let remove = |place| match std::fs::remove_file(path(place, key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("failed to remove the output spooled for {} ({error})", key.0);
            }
            // It is removed, or there was none in this place.
            _ => {}
        };
        if self.in_memory.remove(&key) {
            remove(&self.places.memory);
        }
        remove(&self.places.state);
    }

    fn path(&self, key: AttemptKey) -> PathBuf {
        let is_in_memory = self.in_memory.contains(&key);
        let SpoolPlaces { state, memory } = &self.places;
        path(if is_in_memory { memory } else { state }, key)
    }

    fn written(&mut self, spool: &mut Spool, written: io::Result<()>, more: u64) {
        match written {
            Ok(()) => {
                if let Spool::Whole { grown, size, .. } = spool {
                    *grown += more;
                    *size += more;
                }
                if self.failing {
                    self.failing = false;
                    tracing::info!("output of running functions is spooled again");
                }
            }
            Err(error) => {
                if let Spool::Whole { file, .. } = std::mem::replace(spool, Spool::Failed) {
                    // If this fails too, a restart uses what was written until now.
                    let _ = file.set_len(LOST);
                }
                self.failed(&error);
            }
        }
    }

    fn failed(&mut self, error: &io::Error) {
        if !self.failing {
            self.failing = true;
            tracing::error!(
                "failed to spool output of running functions in {} ({error}), a restart of fnd loses it until writes succeed again",
                self.places.state.display()
            );
        }
    }
}

fn path(place: &Path, (invocation, attempt): AttemptKey) -> PathBuf {
    place.join(format!("{invocation}.{}", attempt.0))
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    options.mode(0o600).open(path)
}

fn put(piece: &Piece, out: &mut Vec<u8>) {
    let at = out.len();
    0_u32.put(out);
    piece.put(out);
    let length = u32::try_from(out.len() - at - 4).expect("limits keep a snapshot below 4 GiB");
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}
