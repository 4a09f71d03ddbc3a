//! The table of attempts that have begun and that the database may not know yet. Records that no caller waits for
//! gather for 50 ms before they are stored, and fnd can be killed in that time. An attempt that has begun must not run
//! a second time as if it had not, and an answered attempt must not be reported as interrupted.
//!
//! The table is a file of fixed-size slots in the run directory; like the attempts, it lasts until the next reboot. A
//! slot is filled before the function sees its work, gets the end of the attempt before the caller is answered (also that
//! of an attempt which its function never saw), and is emptied when the outcome is stored. A call that ends without an
//! attempt, such as one that is cancelled before its retry, gets a slot for its end; so does durable work whose end is told
//! to a caller. The next start puts the slots that are still filled into the database ([`old_table`]). The spawner reports
//! the end of a script's attempt a second time, with the result; its slot records the end in case the spawner died too,
//! and keeps it in the table of the next fnd in case the spawner dies before its report.
//!
//! The main thread fills the slots, and the ledger's thread empties them: a few hundred bytes to memory. The disk of the
//! state directory can be slow; the run directory is in memory, and the file is mapped there ([`pages`]). A power cut loses
//! the table.
//!
//! The first slot says that the table belongs to this boot and to this database, and that it is complete. Only if all
//! three hold, fnd can conclude that a claimed attempt that is not in the table has not begun.
//!
//! If the database has no room for the slots of an earlier fnd ([`Earlier`]), the table keeps them until there is room.
//! An fnd that starts in the meantime finds them again, together with the attempts that have begun since.
//!
//! Files:
//! - `bus`: keeps a mapped file that somebody shortens from ending fnd
//! - `earlier`: the table that an earlier fnd left, until its contents are in the database
//! - `fuzzing`: entry points of the fuzzer for the table of attempts that have begun
//! - `mapping`: the file in memory, as slots of words
//! - `old_table`: reads the table that an earlier fnd left, and applies it to the database
//! - `pages`: stores slots in the file, through its mapping or with system calls
//! - `slot`: a slot of the table

mod bus;
mod earlier;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod mapping;
mod old_table;
mod pages;
mod slot;
#[cfg(test)]
mod tests;

use crate::effects;
use crate::lock::lock;
use fnd_core::records::{AttemptRecord, InvocationRecord};
use fnd_wire::ids::{Attempt, InvocationId};
use pages::Pages;
use slot::{Over, Slot, SlotEnd, TableHeader};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;

pub(super) use earlier::Earlier;
pub(super) use old_table::{disown, known};
pub use slot::Begun;

/// File name in the run directory.
pub(super) const FILE: &str = "in-flight";

/// The table of attempts that have begun.
#[derive(Debug)]
pub(super) struct InFlight {
    pages: Pages,
    slots: Mutex<InFlightSlots>,
}

#[derive(Debug)]
struct InFlightSlots {
    header: TableHeader,
    /// Each attempt has its own slot until its end is stored: the next attempt may begin before that.
    taken: BTreeMap<(InvocationId, Attempt), FilledSlot>,
    empty: Vec<u64>,
    /// Number of slots, including the first.
    count: u64,
    /// The last write failed; logged once.
    failing: bool,
    /// A write has failed since this fnd began with the table.
    missed: bool,
    /// The bytes of the slot that is being stored, kept so that no slot needs new memory.
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct FilledSlot {
    at: u64,
    begun: Begun,
}

impl InFlight {
    /// Fills an empty file; writes the header last, because it says that the table is complete.
    fn begin_with(&self, running: &[Slot]) -> io::Result<()> {
        self.pages.reserve(0);
        let mut slots = lock(&self.slots);
        running.iter().for_each(|slot| slots.fill(&self.pages, slot.clone()));
        slots.write_header(&self.pages)
    }

    pub(super) fn begins(&self, begun: Begun) {
        if effects::leaves() {
            let over = SlotEnd::Unknown;
            lock(&self.slots).fill(&self.pages, Slot { begun, over });
        }
    }

    /// Handles that the database has all attempts of earlier fnds: `running` are those that have not ended. With their slots the
    /// table is complete, unless a write has failed.
    fn completes(&self, running: &[Slot]) {
        let mut slots = lock(&self.slots);
        if slots.header.complete || slots.missed || !effects::leaves() {
            return;
        }
        for slot in running {
            // A slot that is there may have the end.
            if !slots.taken.contains_key(&slot.key()) {
                slots.fill(&self.pages, slot.clone());
            }
        }
        slots.header.complete = !slots.missed;
        let written = slots.write_header(&self.pages);
        slots.wrote(&self.pages, written);
    }

    /// Adds the end of an attempt to its slot. `printed` says that its last output is not on disk yet.
    pub(super) fn ends(&self, attempt: &AttemptRecord, record: &InvocationRecord, printed: bool) {
        let Some(over) = Over::of(attempt, record, printed) else {
            return;
        };
        let mut slots = lock(&self.slots);
        let begun = match slots.taken.get(&(record.id, attempt.attempt)) {
            Some(filled) => filled.begun.clone(),
            // It has ended before its function saw it, for example because the code cannot be loaded.
            None => Begun::of(record, attempt.attempt, attempt.started_ms),
        };
        let over = SlotEnd::Attempt(over);
        if effects::leaves() {
            slots.fill(&self.pages, Slot { begun, over });
        }
    }

    /// Fills a slot with the end of an invocation that has ended without an attempt.
    pub(super) fn ends_waiting(&self, record: &InvocationRecord) {
        let Some(over) = Over::of_invocation(record) else {
            return;
        };
        let started_ms = record.started_ms.unwrap_or(record.accepted_ms);
        let begun = Begun::of(record, Attempt(record.attempts), started_ms);
        let over = SlotEnd::Invocation(over);
        if effects::leaves() {
            lock(&self.slots).fill(&self.pages, Slot { begun, over });
        }
    }

    /// Empties the slots of an invocation's attempts up to this one.
    pub(super) fn stored(&self, invocation: InvocationId, attempts: u32) {
        self.empty(invocation, Attempt(0)..=Attempt(attempts));
    }

    /// Empties all slots of an invocation whose end is stored.
    pub(super) fn end_stored(&self, invocation: InvocationId) {
        self.empty(invocation, Attempt(0)..=slot::ENDED);
    }

    /// Empties the slot of an attempt that could not be started. Earlier attempts may still have to be stored.
    pub(super) fn has_not_begun(&self, invocation: InvocationId, attempt: Attempt) {
        self.empty(invocation, attempt..=attempt);
    }

    fn empty(&self, invocation: InvocationId, attempts: RangeInclusive<Attempt>) {
        let these = (invocation, *attempts.start())..=(invocation, *attempts.end());
        let removed: Vec<_> = lock(&self.slots).taken.extract_if(these, |_, _| true).collect();
        for (_, FilledSlot { at, .. }) in removed {
            if !effects::leaves() {
                return;
            }
            // Without the lock, so that the main thread does not wait for the write. No other thread writes this slot: it
            // belongs to no attempt any more, and it is free only after the write.
            let written = self.pages.write(at, &slot::EMPTY);
            let mut slots = lock(&self.slots);
            slots.empty.push(at);
            slots.wrote(&self.pages, written);
        }
    }
}

impl InFlightSlots {
    /// Stores the slot of an attempt, which may have one already.
    fn fill(&mut self, pages: &Pages, content: Slot) {
        slot::encode_slot(&content, &mut self.bytes);
        let key = content.key();
        let begun = content.begun;
        let before = self.taken.get(&key).map(|filled| filled.at);
        let at = self.place(pages, before);
        let written = pages.write(at, &self.bytes);
        // The slot counts as filled also if the write has failed: then `wrote` marks the whole table as incomplete.
        self.taken.insert(key, FilledSlot { at, begun });
        if let Some(before) = before.filter(|before| *before != at) {
            // A slot in memory: this cannot fail.
            let _ = pages.write(before, &slot::EMPTY);
            self.empty.push(before);
        }
        self.wrote(pages, written);
    }

    /// Returns the slot for what is now to be said of an attempt. `before` is the attempt's present slot.
    fn place(&mut self, pages: &Pages, before: Option<u64>) -> u64 {
        // A kill can tear a slot that is overwritten in memory, and nothing would be known of the attempt. So it gets
        // another slot, before the present one is emptied. If a kill leaves both, they are applied one after the other:
        // the attempt has begun, and it has ended. A write by a system call is not torn.
        let Some(before) = before else {
            return self.free(pages);
        };
        if !pages.is_mapped(before) {
            return before;
        }
        let other = self.free(pages);
        if pages.is_mapped(other) {
            return other;
        }
        // There may be no room for another slot, and an end that is lost is worse than one that a kill could tear.
        self.empty.push(other);
        before
    }

    /// Returns an empty slot.
    fn free(&mut self, pages: &Pages) -> u64 {
        self.empty.pop().unwrap_or_else(|| {
            pages.reserve(self.count);
            self.count += 1;
            self.count - 1
        })
    }

    fn write_header(&mut self, pages: &Pages) -> io::Result<()> {
        slot::encode(&self.header, &mut self.bytes);
        pages.write(0, &self.bytes)
    }

    fn wrote(&mut self, pages: &Pages, written: io::Result<()>) {
        match written {
            Err(error) if !self.failing => {
                (self.failing, self.missed) = (true, true);
                tracing::error!(
                    "failed to write `{FILE}` ({error}), a crash of fnd can now hide attempts that have just begun"
                );
                self.header.complete = false;
                // This needs no new room: the header's slot already exists.
                if let Err(error) = self.write_header(pages) {
                    tracing::error!("failed to write `{FILE}` ({error})");
                }
            }
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!("`{FILE}` is written again");
            }
            // Nothing has changed, or the failure was reported when it began.
            Ok(()) | Err(_) => {}
        }
    }
}

/// Reads a table without changing it. Returns how many slots are filled, and how many cannot be read.
pub(super) fn inspect(path: &Path) -> io::Result<(usize, usize)> {
    let table = old_table::read(&File::open(path)?)?;
    Ok((table.slots.len(), table.unreadable))
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    // The slots of an earlier fnd stay until they are in the database.
    options.truncate(false).open(path)
}
