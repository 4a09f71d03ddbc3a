//! The file of the table. Where that is safe, the file is mapped into memory: storing a slot is then a copy of a few
//! hundred bytes, without a system call.
//!
//! Access to a mapping ends fnd with SIGBUS if the page cannot be provided: the file system is full and the file has a
//! hole there, a disk fails, or the file is shorter. Therefore only a file in memory (tmpfs, as `/run` is) is mapped, and
//! only slots whose memory is allocated are accessed. All others are written with `pwrite(2)`, which fails softly. If root
//! shortens the file nevertheless, the signal is caught ([`super::bus`]), and all slots are written from then on.
//!
//! A kill can stop fnd between any two instructions of a copy. So the first word of a slot (its checksum, its length and
//! two bytes of its content) is stored last, in one instruction: a slot that was empty stays empty until its content is
//! complete. A slot that is filled must not be overwritten, because it would be torn in between.

use super::mapping::{MappedWords, Mapping, SLOTS};
use super::slot;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of slots that are allocated together.
const STEP: u64 = 128;
const WORD: usize = size_of::<u64>();

/// The file of the table.
#[derive(Debug)]
pub(super) struct Pages {
    file: File,
    mapping: Option<Mapping>,
    /// Number of slots at the beginning of the file that are allocated and mapped.
    allocated: AtomicU64,
}

impl Pages {
    pub(super) fn new(file: File) -> Self {
        let is_in_memory = fstatfs(&file).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC);
        let mapping = is_in_memory.then(|| Mapping::of(&file)).and_then(|mapping| {
            mapping
                .inspect_err(|error| tracing::warn!("failed to map `{}` ({error}), writing it instead", super::FILE))
                .ok()
        });
        let allocated = AtomicU64::new(0);
        Self {
            file,
            mapping,
            allocated,
        }
    }

    /// Allocates a slot, where it can be mapped. A slot for which this fails is written, and the write reports the
    /// failure.
    pub(super) fn reserve(&self, at: u64) {
        let allocated = self.allocated.load(Ordering::Relaxed);
        if self.mapping.as_ref().is_none_or(Mapping::is_lost) || at < allocated || at >= SLOTS {
            return;
        }
        // A store to a page for which the file system has no room would be SIGBUS. So slots are allocated before they
        // are used.
        let until = (at + 1).next_multiple_of(STEP);
        let bytes = (until - allocated) * slot::SIZE;
        // This fills holes that an earlier fnd left, and changes nothing that is there.
        if fallocate(&self.file, FallocateFlags::empty(), allocated * slot::SIZE, bytes).is_ok() {
            self.allocated.store(until, Ordering::Relaxed);
        }
    }

    /// Returns whether a slot is stored in memory, so that a kill can tear it while it is overwritten.
    pub(super) fn is_mapped(&self, at: u64) -> bool {
        at < self.allocated.load(Ordering::Relaxed)
    }

    /// Stores the first bytes of a slot.
    ///
    /// # Errors
    /// From `pwrite(2)`, for slots that are not mapped; or the file was shortened, so that earlier slots may be missing.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(words) = self.words(at) else {
            return self.file.write_all_at(bytes, at * slot::SIZE);
        };
        let mut values = words.iter().zip(bytes.chunks(WORD).map(word));
        let first = values.next();
        for (word, value) in values {
            word.store(value, Ordering::Relaxed);
        }
        // The first word has the checksum. It is stored last, so a kill before it leaves no slot that looks whole.
        if let Some((word, value)) = first {
            word.store(value, Ordering::Release);
        }
        if self.mapping.as_ref().is_some_and(Mapping::is_lost) {
            // The pages of the mapping may not be those of the file any more, so from now on every slot is written.
            self.allocated.store(0, Ordering::Relaxed);
            self.file.write_all_at(bytes, at * slot::SIZE)?;
            return Err(io::Error::other("it was truncated while fnd was running"));
        }
        Ok(())
    }

    fn words(&self, at: u64) -> Option<&MappedWords> {
        let mapping = self.mapping.as_ref().filter(|_| self.is_mapped(at))?;
        mapping.words(at)
    }
}

/// Returns bytes as a word of memory; a word that is not full ends with zeros.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}
