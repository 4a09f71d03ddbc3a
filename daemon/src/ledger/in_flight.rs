//! Attempts that have begun and that the database may not know of yet: what nobody waits for gathers 50 ms before it is
//! stored, and fnd can be killed within that. What was begun must not be run again as if it had not, and what was answered
//! must not be called interrupted.
//!
//! A file of fixed slots in the run directory, which belongs to one boot as they do. One is filled before the function sees its
//! work; its end is added before its caller is answered; it is emptied when what became of it is stored. What is still filled
//! at the next start is put into the database ([`left`]). Of a script's attempt the spawner tells the end again, with the
//! result: its slot says the end for the case that the spawner died as well.
//!
//! Each is one write of a few hundred bytes to memory (about a microsecond), by the main thread: the state's disk can be slow,
//! the run directory has none. A power cut takes what it would have said. Shared memory would save the write and needs unsafe
//! code.
//!
//! The first slot says whose the table is: of this boot, of this database, and complete. Only of such a one it follows that
//! what is claimed and not in it has not begun.
//!
//! Where the database has no room for what an earlier fnd has left ([`Earlier`]), the table goes on with that in it, until there
//! is room: whoever starts meanwhile finds the same, and what has begun since.

mod earlier;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod old_table;
mod slot;

use fnd_core::record::{AttemptRecord, InvocationRecord};
use fnd_wire::ids::{Attempt, InvocationId};
use rusqlite::Connection;
use slot::{Header, Over, Slot};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub(super) use earlier::Earlier;
pub use slot::Begun;

/// File name in the run directory, and in the state directory of an fnd before that.
pub(super) const FILE: &str = "in-flight";

/// The table.
#[derive(Debug)]
pub(super) struct InFlight {
    file: File,
    slots: Mutex<Slots>,
}

#[derive(Debug)]
struct Slots {
    header: Header,
    /// An attempt has its own, until its end is stored: the next one may begin before that.
    taken: BTreeMap<(InvocationId, Attempt), FilledSlot>,
    empty: Vec<u64>,
    /// Slots there are, the first included.
    count: u64,
    /// The last write failed; said once.
    failing: bool,
}

#[derive(Debug)]
struct FilledSlot {
    at: u64,
    begun: Begun,
}

impl InFlight {
    /// Fills an empty file; last of all it says that it is complete.
    fn begin_with(&self, running: &[Begun]) -> io::Result<()> {
        self.file.set_len(0)?;
        running.iter().for_each(|begun| self.begins(begun));
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.write_all_at(&slot::encode(&slots.header), 0)
    }

    /// Fills a slot.
    pub(super) fn begins(&self, begun: &Begun) {
        let begun = begun.clone();
        let bytes = slot::encode(&Slot {
            begun: begun.clone(),
            over: None,
        });
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = &mut *slots;
        let key = (begun.invocation, begun.attempt);
        let taken = slots.taken.remove(&key).map(|taken| taken.at);
        let at = taken.or_else(|| slots.empty.pop()).unwrap_or_else(|| {
            slots.count += 1;
            slots.count - 1
        });
        slots.taken.insert(key, FilledSlot { at, begun });
        slots.wrote(&self.file, self.file.write_all_at(&bytes, at * slot::SIZE));
    }

    /// Adds how an attempt has ended to its slot, if it has one. `printed`: what it printed last is not on disk yet.
    pub(super) fn ends(&self, attempt: &AttemptRecord, record: &InvocationRecord, printed: bool) {
        let Some(over) = Over::of(attempt, record, printed) else {
            return;
        };
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(FilledSlot { at, begun }) = slots.taken.get(&(record.id, attempt.attempt)) else {
            return;
        };
        let at = *at;
        let slot = Slot {
            begun: begun.clone(),
            over: Some(over),
        };
        let bytes = slot::encode(&slot);
        slots.wrote(&self.file, self.file.write_all_at(&bytes, at * slot::SIZE));
    }

    /// Empties the slots of an invocation's attempts up to this one.
    pub(super) fn stored(&self, invocation: InvocationId, attempts: u32) {
        self.empty(invocation, Attempt(0)..=Attempt(attempts));
    }

    /// Empties the slot of an attempt that could not be started. Those before it may still be stored.
    pub(super) fn has_not_begun(&self, invocation: InvocationId, attempt: Attempt) {
        self.empty(invocation, attempt..=attempt);
    }

    fn empty(&self, invocation: InvocationId, attempts: RangeInclusive<Attempt>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = &mut *slots;
        let these = (invocation, *attempts.start())..=(invocation, *attempts.end());
        let emptied: Vec<_> = slots.taken.extract_if(these, |_, _| true).collect();
        for (_, FilledSlot { at, .. }) in emptied {
            slots.empty.push(at);
            slots.wrote(&self.file, self.file.write_all_at(&slot::EMPTY, at * slot::SIZE));
        }
    }
}

impl Slots {
    fn wrote(&mut self, file: &File, written: io::Result<()>) {
        match written {
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::error!("failed to write `{FILE}` ({error}), a crash of fnd can now hide what has just begun");
                self.header.complete = false;
                // There is room for it: it is there already.
                if let Err(error) = file.write_all_at(&slot::encode(&self.header), 0) {
                    tracing::error!("failed to write `{FILE}` ({error})");
                }
            }
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!("`{FILE}` is written again");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// What a table has.
pub(super) struct Seen {
    /// Attempts.
    pub(super) filled: usize,
    /// Slots that cannot be read.
    pub(super) unreadable: usize,
}

/// Looks at a table without changing it.
pub(super) fn look(path: &Path) -> io::Result<Seen> {
    let left = old_table::read(&File::open(path)?)?;
    Ok(left.seen())
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Returns the number of the table that a database knows as its own.
pub(super) fn known(db: &Connection) -> rusqlite::Result<Option<String>> {
    old_table::known(db)
}

/// Has a copy of a database belong to no table: it is of another moment than the table beside it.
pub(super) fn disown(copy: &Path) -> rusqlite::Result<()> {
    old_table::disown(&Connection::open(copy)?)
}

/// Returns what names this boot; empty where the kernel does not say, and then no table is believed to be complete.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}
