//! The table of attempts that have begun and that the database may not know yet. Records that no caller waits for
//! gather for 50 ms before they are stored, and fnd can be killed in that time. An attempt that has begun must not run
//! a second time as if it had not, and an answered attempt must not be reported as interrupted.
//!
//! The table is a file of fixed-size slots in the run directory; like the attempts, it lasts until the next reboot. A
//! slot is filled before the function sees its work, gets the end of the attempt before the caller is answered, and is
//! emptied when the outcome is stored. The next start puts the slots that are still filled into the database
//! ([`old_table`]). The spawner reports the end of a script's attempt a second time, with the result; its slot records
//! the end in case the spawner died too.
//!
//! The main thread does each of these writes: a few hundred bytes to memory, about a microsecond. The disk of the state
//! directory can be slow; the run directory is in memory. A power cut loses the table. Shared memory would save the
//! write, but needs unsafe code.
//!
//! The first slot says that the table belongs to this boot and to this database, and that it is complete. Only if all
//! three hold, fnd can conclude that a claimed attempt that is not in the table has not begun.
//!
//! If the database has no room for the slots of an earlier fnd ([`Earlier`]), the table keeps them until there is room.
//! An fnd that starts in the meantime finds them again, together with the attempts that have begun since.
//!
//! Files:
//! - `earlier`: the table that an earlier fnd left, until its contents are in the database
//! - `fuzzing`: entry points of the fuzzer for the table of attempts that have begun
//! - `old_table`: reads the table that an earlier fnd left, and applies it to the database
//! - `slot`: a slot of the table

mod earlier;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod old_table;
mod slot;
#[cfg(test)]
mod tests;

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
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) use earlier::Earlier;
pub use slot::Begun;

/// File name in the run directory; earlier versions of fnd had the file in the state directory.
pub(super) const FILE: &str = "in-flight";

/// The table of attempts that have begun.
#[derive(Debug)]
pub(super) struct InFlight {
    file: File,
    slots: Mutex<Slots>,
}

#[derive(Debug)]
struct Slots {
    header: Header,
    /// Each attempt has its own slot until its end is stored: the next attempt may begin before that.
    taken: BTreeMap<(InvocationId, Attempt), FilledSlot>,
    empty: Vec<u64>,
    /// Number of slots, including the first.
    count: u64,
    /// The last write failed; logged once.
    failing: bool,
}

#[derive(Debug)]
struct FilledSlot {
    at: u64,
    begun: Begun,
}

impl InFlight {
    /// Fills an empty file; writes the header last, because it says that the table is complete.
    fn begin_with(&self, running: &[Begun]) -> io::Result<()> {
        self.file.set_len(0)?;
        running.iter().for_each(|begun| self.begins(begun));
        let slots = self.lock();
        self.file.write_all_at(&slot::encode(&slots.header), 0)
    }

    /// Fills a slot.
    pub(super) fn begins(&self, begun: &Begun) {
        let begun = begun.clone();
        let bytes = slot::encode(&Slot {
            begun: begun.clone(),
            over: None,
        });
        let mut slots = self.lock();
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

    /// Adds the end of an attempt to its slot, if it has one. `printed` says that its last output is not on disk yet.
    pub(super) fn ends(&self, attempt: &AttemptRecord, record: &InvocationRecord, printed: bool) {
        let Some(over) = Over::of(attempt, record, printed) else {
            return;
        };
        let mut slots = self.lock();
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

    /// Empties the slot of an attempt that could not be started. Earlier attempts may still have to be stored.
    pub(super) fn has_not_begun(&self, invocation: InvocationId, attempt: Attempt) {
        self.empty(invocation, attempt..=attempt);
    }

    fn empty(&self, invocation: InvocationId, attempts: RangeInclusive<Attempt>) {
        let these = (invocation, *attempts.start())..=(invocation, *attempts.end());
        let removed: Vec<_> = self.lock().taken.extract_if(these, |_, _| true).collect();
        for (_, FilledSlot { at, .. }) in removed {
            // Without the lock, so that the main thread does not wait for the write. No other thread writes this slot: it
            // belongs to no attempt any more, and it is free only after the write.
            let written = self.file.write_all_at(&slot::EMPTY, at * slot::SIZE);
            let mut slots = self.lock();
            slots.empty.push(at);
            slots.wrote(&self.file, written);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        // Each change is complete before anything can panic, so a poisoned mutex is still consistent.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn wrote(&mut self, file: &File, written: io::Result<()>) {
        match written {
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::error!(
                    "failed to write `{FILE}` ({error}), a crash of fnd can now hide attempts that have just begun"
                );
                self.header.complete = false;
                // This needs no new room: the header's slot already exists.
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

/// The contents of a table.
pub(super) struct Seen {
    /// Number of attempts.
    pub(super) filled: usize,
    /// Number of slots that cannot be read.
    pub(super) unreadable: usize,
}

/// Reads a table without changing it.
pub(super) fn inspect(path: &Path) -> io::Result<Seen> {
    let table = old_table::read(&File::open(path)?)?;
    Ok(table.seen())
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

/// Returns the nonce of the table that the database has recorded as its own.
pub(super) fn known(db: &Connection) -> rusqlite::Result<Option<String>> {
    old_table::known(db)
}

/// Removes the nonce from a copy of a database: the copy is of another moment than the table beside it.
pub(super) fn disown(copy: &Path) -> rusqlite::Result<()> {
    old_table::disown(&Connection::open(copy)?)
}

/// Returns the id of this boot. The id is empty if the kernel provides none; then no table counts as complete.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}
