//! The disk under the ledger. It decides whether each commit is done, and a power cut takes the commits that were not synced.
//!
//! The ledger is a real file in memory, so nothing there is lost by itself. A power cut is made afterwards: the log of the
//! database is cut somewhere behind its last synced commit. SQLite syncs the log when a commit asks for it, and before it
//! copies the log into the database.

use super::facts::{Commit, Death};
use super::faults::{FaultKind, FaultKinds};
use crate::database::beside;
use crate::effects::fuse;
use crate::ledger::{CommitRule, FILE};
use fastrand::Rng;
use rusqlite::{Transaction, ffi};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a frame of the log: its header and a page.
const FRAME: u64 = 24 + 4096;
/// Bytes of the header of the log.
const HEADER: u64 = 32;

/// The answer of the disk to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitVerdict {
    Done,
    /// Nothing is written, and fnd is told so.
    Refused,
    /// It is written, and fnd is told that it is not.
    Unknown,
    /// It is written, and fnd is killed before it hears of that.
    DoneThenDead,
    /// The power is cut before anything is written.
    Lost,
}

impl CommitVerdict {
    /// Draws a verdict: nearly always `Done`, and else a fault, if the world has faults of this kind.
    pub(crate) fn any(random: &mut Rng, kinds: FaultKinds) -> Self {
        let drawn = match random.u16(0..600) {
            0..12 => (FaultKind::Disk, Self::Refused),
            12 => (FaultKind::Disk, Self::Unknown),
            13..16 => (FaultKind::Kills, Self::DoneThenDead),
            16..18 => (FaultKind::PowerCuts, Self::Lost),
            _ => return Self::Done,
        };
        if kinds.has(drawn.0) { drawn.1 } else { Self::Done }
    }
}

/// The result of one round of the ledger's writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriterRound {
    /// Absent if the writer had nothing to commit.
    pub(crate) commit: Option<Commit>,
    /// The death that came in the middle of the round. The fuse of fnd has burnt.
    pub(crate) death: Option<Death>,
}

#[derive(Default)]
struct DiskState {
    next: Option<CommitVerdict>,
    is_full: bool,
    /// The verdict on the commit of this round.
    given: Option<CommitVerdict>,
    /// Whether that commit asked for a sync.
    asked_sync: bool,
}

/// The facts about a log that are in its index (<https://sqlite.org/walformat.html>).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LogIndex {
    /// The salts of this log. SQLite chooses others when the log begins anew.
    salts: u64,
    frames: u32,
    /// How many frames were copied into the database.
    copied: u32,
}

pub(crate) struct SimulatedDisk {
    database: PathBuf,
    state: Arc<Mutex<DiskState>>,
    /// The log after the last round.
    log: LogIndex,
    /// How many of its frames a power cut leaves.
    synced: u32,
}

impl SimulatedDisk {
    /// Returns the disk with this directory of the ledger.
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            database: directory.join(FILE),
            state: Arc::default(),
            log: LogIndex::default(),
            synced: 0,
        }
    }

    /// Returns the rule by which an fnd commits.
    pub(crate) fn rule(&self) -> CommitRule {
        let state = Arc::clone(&self.state);
        Box::new(move |transaction| lock(&state).commit(transaction))
    }

    /// Decides on the commit of the next round.
    pub(crate) fn decide(&self, verdict: CommitVerdict) {
        lock(&self.state).next = Some(verdict);
    }

    /// Makes the disk full, or gives it room again.
    pub(crate) fn fill(&self, is_full: bool) {
        lock(&self.state).is_full = is_full;
    }

    /// Reads the log that an fnd has written at its start. The start syncs all of it.
    pub(crate) fn opened(&mut self) {
        self.log = self.index();
        self.synced = self.log.frames;
    }

    /// Reads the log after a round of the ledger's writer. `is_complete`: the writer has nothing left to write.
    pub(crate) fn after_round(&mut self, is_complete: bool) -> WriterRound {
        let DiskState { given, asked_sync, .. } = {
            let mut state = lock(&self.state);
            let is_full = state.is_full;
            std::mem::replace(
                &mut *state,
                DiskState {
                    is_full,
                    ..DiskState::default()
                },
            )
        };
        let now = self.index();
        if now.salts != self.log.salts {
            // The log was copied as a whole, and began anew.
            (self.synced, self.log) = (0, LogIndex::default());
        }
        // A commit that writes no page syncs nothing.
        if now.copied > self.log.copied || asked_sync && now.frames > self.log.frames {
            self.synced = now.frames;
        }
        self.log = now;
        let commit = |verdict: CommitVerdict| {
            let is_done = matches!(
                verdict,
                CommitVerdict::Done | CommitVerdict::Unknown | CommitVerdict::DoneThenDead
            );
            Commit {
                is_done,
                is_denied: matches!(verdict, CommitVerdict::Refused | CommitVerdict::Unknown),
                is_synced: is_done && self.synced == now.frames,
                is_complete,
            }
        };
        WriterRound {
            commit: given.map(commit),
            death: match given {
                Some(CommitVerdict::DoneThenDead) => Some(Death::Killed),
                Some(CommitVerdict::Lost) => Some(Death::PowerCut),
                Some(CommitVerdict::Done | CommitVerdict::Refused | CommitVerdict::Unknown) | None => None,
            },
        }
    }

    /// Cuts the log where a power cut could end it. No fnd may have the ledger open.
    pub(crate) fn power_cut(&mut self, random: &mut Rng) {
        let log = beside(&self.database, "-wal");
        let end = |frames: u32| match frames {
            0 => 0,
            frames => HEADER + FRAME * u64::from(frames),
        };
        // The disk may have written frames without a sync, and the last of them in part.
        let left = random.u64(end(self.synced)..=end(self.log.frames));
        if let Ok(log) = OpenOptions::new().write(true).open(log)
            && log.metadata().is_ok_and(|meta| meta.len() > left)
        {
            log.set_len(left).expect("a file in memory can be cut");
        }
        // The index is in memory only.
        let _ = std::fs::remove_file(beside(&self.database, "-shm"));
    }

    /// Reads the index of the log; nothing if there is none.
    fn index(&self) -> LogIndex {
        let mut bytes = [0; 100];
        let read = File::open(beside(&self.database, "-shm")).and_then(|index| index.read_exact_at(&mut bytes, 0));
        if read.is_err() {
            return LogIndex::default();
        }
        // The numbers of the index are in the order of the machine.
        let number = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        LogIndex {
            salts: u64::from(number(32)) << 32 | u64::from(number(36)),
            frames: number(16),
            copied: number(96),
        }
    }
}

impl DiskState {
    fn commit(&mut self, transaction: Transaction<'_>) -> rusqlite::Result<()> {
        let drawn = self.next.take().unwrap_or(CommitVerdict::Done);
        let verdict = if self.is_full { CommitVerdict::Refused } else { drawn };
        self.given = Some(verdict);
        match verdict {
            CommitVerdict::Refused if self.is_full => return Err(failure(ffi::SQLITE_FULL)),
            CommitVerdict::Refused => return Err(failure(ffi::SQLITE_IOERR)),
            CommitVerdict::Lost => {
                fuse::set(Some(0));
                return Err(failure(ffi::SQLITE_IOERR));
            }
            // These transactions are committed. The match below says what follows.
            CommitVerdict::Done | CommitVerdict::Unknown | CommitVerdict::DoneThenDead => {}
        }
        self.asked_sync = transaction
            .prepare_cached("PRAGMA synchronous")?
            .query_row([], |row| Ok(row.get::<_, i64>(0)? > 1))?;
        transaction.commit()?;
        match verdict {
            CommitVerdict::Unknown => return Err(failure(ffi::SQLITE_IOERR)),
            CommitVerdict::DoneThenDead => fuse::set(Some(0)),
            // After `Done` nothing more happens. The others have returned above.
            CommitVerdict::Done | CommitVerdict::Refused | CommitVerdict::Lost => {}
        }
        Ok(())
    }
}

fn failure(code: i32) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

fn lock(state: &Mutex<DiskState>) -> MutexGuard<'_, DiskState> {
    // The writer and the world are in one thread, so the lock is free.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
