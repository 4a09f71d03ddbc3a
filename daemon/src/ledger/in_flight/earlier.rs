//! The table that an earlier fnd left, until its contents are in the database.
//!
//! ```text
//! read -> settle, in a transaction --committed--> begin: a new table, with the attempts that run
//!                                  --no room----> go_on: the table stays as it is; later: settle, committed -> went_on
//! ```

use super::old_table::{self, OldTable};
use super::pages::Pages;
use super::slot::{self, Slot, TableHeader};
use super::{FILE, FilledSlot, InFlight, InFlightSlots};
use crate::lock::lock;
use fnd_wire::ids::{Attempt, InvocationId};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

/// The table that an earlier fnd left.
#[derive(Debug)]
pub(in crate::ledger) struct Earlier {
    table: OldTable,
    /// The attempts that the spawner still knows.
    held_attempts: BTreeSet<(InvocationId, Attempt)>,
    boot: String,
    /// The number by which the database knows the table, once the table is settled.
    nonce: u64,
}

impl Earlier {
    /// Reads the table of a run directory; creates it if it does not exist. Also returns its file. `held_attempts` are
    /// the attempts that the spawner still knows.
    pub(in crate::ledger) fn read(run: &Path, held_attempts: &[(InvocationId, u32)]) -> io::Result<(Self, File)> {
        let file = super::open(&run.join(FILE))?;
        let held_attempts = held_attempts.iter().map(|(id, attempt)| (*id, Attempt(*attempt)));
        let earlier = Self {
            table: old_table::read(&file)?,
            held_attempts: held_attempts.collect(),
            // Without an id of the boot no table counts as complete.
            boot: crate::database::boot(),
            nonce: fastrand::u64(..),
        };
        Ok((earlier, file))
    }

    /// Stores the table in the database, as part of the caller's transaction. Returns the slots that the database still
    /// needs: [`old_table::settle`].
    pub(in crate::ledger) fn settle(&self, transaction: &Connection) -> rusqlite::Result<Vec<Slot>> {
        old_table::settle(transaction, (&self.table, &self.held_attempts), &self.boot, self.nonce)
    }

    /// Starts a new table with these slots; the database has all other contents of the old one.
    pub(in crate::ledger) fn begin(&self, file: File, running: &[Slot]) -> io::Result<InFlight> {
        self.begin_as(self.header(true), file, running)
    }

    fn begin_as(&self, header: TableHeader, file: File, running: &[Slot]) -> io::Result<InFlight> {
        // Before the file is mapped: its mapping must not be accessed behind its end.
        file.set_len(0)?;
        let table = empty(file, header);
        table.begin_with(running)?;
        Ok(table)
    }

    /// Continues with the table as it is, because the database could not be written. A table of another database is started
    /// anew. `known` is the number that the database has recorded.
    pub(in crate::ledger) fn go_on(
        &mut self,
        file: File,
        running: &[Slot],
        known: Option<&str>,
    ) -> io::Result<InFlight> {
        // The database can record no other number now, and after a further kill the table must count as that of this database. If
        // the database has recorded none (a power cut can undo that), any table may be its own.
        let recorded = known.and_then(|known| known.parse().ok());
        let written = self.table.header.as_ref().map(|header| header.nonce);
        self.nonce = recorded.or(written).unwrap_or(self.nonce);
        if !self.table.may_be(known) {
            // Attempts of an earlier boot have no slot here: what was claimed and is not in the table may have begun.
            return self.begin_as(self.header(false), file, running);
        }
        let before = self.table.header.as_ref().filter(|before| before.boot == self.boot);
        let table = empty(file, before.cloned().unwrap_or_else(|| self.header(false)));
        table.pages.reserve(self.table.count.saturating_sub(1));
        {
            let mut slots = lock(&table.slots);
            slots.count = self.table.count;
            let mut old: Vec<_> = self.table.slots.iter().collect();
            // A kill can leave two slots of an attempt, of its start and of its end; the slot of the end stays.
            old.sort_by_key(|(_, slot)| slot.over.is_known());
            for (at, slot) in old {
                let (at, key, begun) = (*at, slot.key(), slot.begun.clone());
                if let Some(start) = slots.taken.insert(key, FilledSlot { at, begun }) {
                    table.pages.write(start.at, &slot::EMPTY)?;
                    slots.empty.push(start.at);
                }
            }
            if before.is_none() {
                slots.write_header(&table.pages)?;
            }
        }
        Ok(table)
    }

    /// After [`Earlier::go_on`] and a later `settle`: empties the slots that the database now has, except those of
    /// running attempts.
    pub(in crate::ledger) fn went_on(&self, table: &InFlight, running_slots: &[Slot]) {
        let running: BTreeSet<_> = running_slots.iter().map(Slot::key).collect();
        for (_, slot) in &self.table.slots {
            let (invocation, attempt) = slot.key();
            if !running.contains(&(invocation, attempt)) {
                // Only this slot is emptied: a newer attempt of the same invocation may have begun meanwhile.
                table.has_not_begun(invocation, attempt);
            }
        }
        table.completes(running_slots);
    }

    fn header(&self, complete: bool) -> TableHeader {
        TableHeader {
            boot: self.boot.clone(),
            nonce: self.nonce,
            complete,
        }
    }
}

fn empty(file: File, header: TableHeader) -> InFlight {
    InFlight {
        pages: Pages::new(file),
        slots: Mutex::new(InFlightSlots {
            header,
            taken: BTreeMap::new(),
            empty: Vec::new(),
            count: 1,
            failing: false,
            missed: false,
            bytes: Vec::with_capacity(slot::LENGTH),
        }),
    }
}
