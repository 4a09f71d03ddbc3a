//! Attempts that have begun and that the database may not know of yet: what nobody waits for gathers 50 ms before it is
//! stored, the claim of asynchronous work is on its way to the disk, and fnd can be killed within that. What was begun must
//! not be run again as if it had not.
//!
//! A file of fixed slots beside the database. One is filled before the function sees its work, and emptied when what
//! became of it is stored; what is still filled at the next start is put into the database as running, for the supervisor
//! to find. Each is one write of a few hundred bytes to the page cache (about a microsecond); nothing is synced, so a power
//! cut can take what it would have said. Shared memory would save that write and needs unsafe code.

use super::rows::{blob, int};
use fnd_core::ids::{Attempt, FunctionName, InvocationId};
use fnd_core::outcome::Trigger;
use fnd_core::wire::{Wire as _, wire_structs};
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// File name in the state directory.
const FILE: &str = "in-flight";
/// Size of a slot: length (u16, 0 where it is empty) and [`Begun`] in wire form, whose name has at most 127 bytes.
const SLOT: usize = 256;

wire_structs! {
    /// An attempt that begins.
    pub struct Begun {
        /// The invocation.
        pub invocation: InvocationId,
        /// Which try.
        pub attempt: Attempt,
        /// Its function.
        pub function: FunctionName,
        /// What made it ([`Trigger::as_str`]).
        pub trigger: String,
        /// When it begins, Unix milliseconds.
        pub started_ms: u64,
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct InFlight {
    file: File,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    taken: HashMap<InvocationId, u64>,
    empty: Vec<u64>,
    count: u64,
    /// The last write failed; said once.
    failing: bool,
}

impl InFlight {
    /// Opens the table of a state directory, after what an earlier fnd has left in it was put into the database.
    pub(super) fn open(state: &Path, db: &mut Connection) -> rusqlite::Result<io::Result<Self>> {
        let opened = open(&state.join(FILE)).and_then(|file| Ok((left(&file)?, file)));
        let (left, file) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        if !left.is_empty() {
            let transaction = db.transaction()?;
            for begun in &left {
                store(&transaction, begun)?;
            }
            transaction.commit()?;
        }
        let slots = Mutex::default();
        Ok(file.set_len(0).map(|()| Self { file, slots }))
    }

    /// Fills a slot.
    pub(super) fn begins(&self, begun: &Begun) {
        let mut bytes = vec![0; 2];
        begun.put(&mut bytes);
        let length = bytes.len() - 2;
        debug_assert!(bytes.len() <= SLOT, "a function's name has at most 127 bytes");
        bytes[..2].copy_from_slice(&u16::try_from(length).unwrap_or(0).to_le_bytes());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = &mut *slots;
        let at = *slots.taken.entry(begun.invocation).or_insert_with(|| {
            slots.empty.pop().unwrap_or_else(|| {
                slots.count += 1;
                slots.count - 1
            })
        });
        slots.wrote(self.file.write_all_at(&bytes, at * SLOT as u64));
    }

    /// Empties the slot of an invocation, if it has one.
    pub(super) fn stored(&self, invocation: InvocationId) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = slots.taken.remove(&invocation) {
            slots.empty.push(at);
            slots.wrote(self.file.write_all_at(&[0; 2], at * SLOT as u64));
        }
    }
}

impl Slots {
    fn wrote(&mut self, written: io::Result<()>) {
        match written {
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::error!("failed to write `{FILE}` ({error}), a crash of fnd can now hide what has just begun");
            }
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!("`{FILE}` is written again");
            }
            Ok(()) | Err(_) => {}
        }
    }
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

/// Reads what is filled. A slot that cannot be read says nothing: it was damaged by a power cut, which syncs none of them.
fn left(mut file: &File) -> io::Result<Vec<Begun>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    let filled = bytes.chunks(SLOT).filter_map(|slot| {
        let (length, rest) = slot.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let begun = Begun::from_wire(rest.get(..length).filter(|slot| !slot.is_empty())?);
        begun
            .inspect_err(|error| tracing::warn!("a slot of `{FILE}` cannot be read ({error}), it is left out"))
            .ok()
            .filter(|begun| Trigger::parse(&begun.trigger).is_some())
    });
    Ok(filled.collect())
}

/// Has the database know that an attempt has begun, unless it does, or knows the end.
fn store(db: &Connection, begun: &Begun) -> rusqlite::Result<()> {
    let sql = "INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, started_ms, attempts, polls, message)
        VALUES (?1, ?2, ?3, 'running', 0, ?4, ?5, ?6, 0, '')
        ON CONFLICT (id) DO UPDATE SET state = excluded.state, started_ms = coalesce(started_ms, excluded.started_ms),
            attempts = excluded.attempts
        WHERE state IN ('queued', 'waiting', 'polling') AND attempts < excluded.attempts";
    db.execute(
        sql,
        params![
            blob(begun.invocation),
            begun.function.as_str(),
            begun.trigger,
            int(begun.invocation.unix_ms()),
            int(begun.started_ms),
            begun.attempt.0,
        ],
    )?;
    Ok(())
}
