//! A file that is mapped into memory, as slots of words. Knows neither what is in a slot nor how long the file is
//! ([`super::pages`] does).
#![expect(
    unsafe_code,
    reason = "a mapped file has no safe wrapper: whoever can write the file can shorten it"
)]

use super::bus::Guarded;
use super::slot;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

/// Number of slots that are mapped. The mapping takes 64 MiB of addresses, but no memory. A table is this long if the
/// whole queue of the ledger waits for its disk.
pub(super) const SLOTS: u64 = 1 << 17;
const LENGTH: usize = 64 << 20;
const _: () = assert!(LENGTH as u64 == SLOTS * slot::SIZE);

const WORDS: usize = slot::LENGTH / size_of::<AtomicU64>();

/// A slot. The words are atomic: if two threads stored a slot at once, its words would be mixed, and nothing worse.
pub(super) type MappedWords = [AtomicU64; WORDS];

/// The mapping of the first [`SLOTS`] slots of a file, also of those that the file does not have yet.
#[derive(Debug)]
pub(super) struct Mapping {
    words: NonNull<MappedWords>,
    guarded: Guarded,
}

// SAFETY: every thread accesses the memory by atomic operations only, and only the last owner unmaps it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let (access, descriptor) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: the kernel chooses the address, so the mapping replaces no other memory. The descriptor is open.
        let start = unsafe { libc::mmap(null_mut(), LENGTH, access, libc::MAP_SHARED, descriptor, 0) };
        let words = NonNull::new(start.cast::<MappedWords>()).filter(|_| start != libc::MAP_FAILED);
        let words = words.ok_or_else(io::Error::last_os_error)?;
        match Guarded::of(words.addr().get(), LENGTH) {
            Ok(guarded) => Ok(Self { words, guarded }),
            Err(error) => {
                unmap(words);
                Err(error)
            }
        }
    }

    /// Returns whether the file was shortened, so that what was stored is not in it.
    pub(super) fn is_lost(&self) -> bool {
        self.guarded.is_lost()
    }

    /// Returns a slot, if it is mapped. If the file does not have the slot, what is stored there is lost.
    pub(super) fn words(&self, at: u64) -> Option<&MappedWords> {
        let at = usize::try_from(at).ok().filter(|_| at < SLOTS)?;
        // SAFETY: the slot is within the mapping, which lasts as long as `self` and begins at the start of a page, so the
        // slot is aligned. All bytes are valid words. This process accesses the memory by atomic operations only.
        Some(unsafe { self.words.add(at).as_ref() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.words);
    }
}

/// Ends a mapping of [`Mapping::of`]. No reference to its memory may be left.
fn unmap(words: NonNull<MappedWords>) {
    // SAFETY: only the last owner of the mapping calls this.
    let unmapped = unsafe { libc::munmap(words.as_ptr().cast(), LENGTH) };
    debug_assert!(unmapped == 0, "{}", io::Error::last_os_error());
}
