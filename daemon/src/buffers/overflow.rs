//! The file that holds the bytes for which the budget has no room.
//!
//! It is one file for all, without a name, so that it needs one descriptor however many bodies it holds, and the system
//! removes it with fnd. Each piece gets a range of its own. Ranges that are not needed any more are given back to the
//! disk as holes (fallocate(2)), and the file begins at zero whenever it is empty.

use super::Buffers;
use crate::free_space::FreeSpace;
use crate::lock::lock;
use fnd_core::data::BytesOwner;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Ranges begin at multiples of this, so that each can be given back whole.
const BLOCK: u64 = 4096;

/// The file, once it is needed.
#[derive(Debug)]
pub(super) struct Overflow {
    directory: PathBuf,
    open: Mutex<Option<Arc<OpenOverflow>>>,
}

#[derive(Debug)]
pub(super) struct OpenOverflow {
    file: File,
    space: Mutex<Space>,
}

#[derive(Debug, Default)]
struct Space {
    /// The start of the next range.
    next: u64,
    /// Ranges in use, and their bytes.
    ranges: u64,
    bytes: u64,
}

/// Bytes in the file; their ranges are released when this is dropped.
#[derive(Debug)]
pub struct OverflowRange {
    of: Arc<Buffers>,
    open: Arc<OpenOverflow>,
    /// The start and the length of each range.
    ranges: Vec<(u64, u64)>,
}

impl Overflow {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            open: Mutex::default(),
        }
    }

    /// Returns how many bytes are in the file.
    pub(super) fn live(&self) -> u64 {
        lock(&self.open).as_ref().map_or(0, |open| lock(&open.space).bytes)
    }

    /// Returns the file for new bytes, of which the first are `size`.
    ///
    /// # Errors
    /// The file cannot be made, or the disk would be nearly full.
    pub(super) fn begin(&self, size: u64) -> io::Result<Arc<OpenOverflow>> {
        // The history needs the rest of the disk more.
        let full = FreeSpace::at(&self.directory).is_some_and(|free| {
            let bytes = free.bytes.saturating_sub(size);
            FreeSpace { bytes, ..free }.is_low()
        });
        if full {
            let why = "the disk of the state is nearly full";
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        let mut open = lock(&self.open);
        if let Some(open) = &*open {
            return Ok(Arc::clone(open));
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        // `O_TMPFILE` makes a file without a name (open(2)): a kill of fnd leaves nothing behind that has to be
        // removed.
        let file = rustix::fs::open(&self.directory, flags, Mode::RUSR | Mode::WUSR)?;
        let made = Arc::new(OpenOverflow {
            file: file.into(),
            space: Mutex::default(),
        });
        Ok(Arc::clone(open.insert(made)))
    }
}

impl OverflowRange {
    pub(super) fn new(open: Arc<OpenOverflow>, of: &Arc<Buffers>) -> Self {
        Self {
            of: Arc::clone(of),
            open,
            ranges: Vec::new(),
        }
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let size = bytes.len() as u64;
        let at = {
            let mut space = lock(&self.open.space);
            let at = space.next;
            space.next = at.saturating_add(size.next_multiple_of(BLOCK));
            space.ranges += 1;
            space.bytes += size;
            at
        };
        // The range belongs to it from now on, also if writing fails.
        self.ranges.push((at, size));
        // Written without the lock: the range belongs to this body alone, and other bodies must not wait for the disk.
        self.open.file.write_all_at(bytes, at)
    }

    /// Returns how many bytes there are.
    pub fn size(&self) -> u64 {
        self.ranges.iter().map(|(_, size)| size).sum()
    }

    /// Returns at most `most` bytes from a position on; fewer only where a range ends, none at the end.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub fn read(&self, mut from: u64, most: u64) -> io::Result<Vec<u8>> {
        for (at, size) in &self.ranges {
            if from < *size {
                let count = most.min(size - from);
                let mut bytes = vec![0; usize::try_from(count).map_err(io::Error::other)?];
                self.open.file.read_exact_at(&mut bytes, at + from)?;
                return Ok(bytes);
            }
            from -= size;
        }
        Ok(Vec::new())
    }
}

impl BytesOwner for OverflowRange {
    fn size(&self) -> u64 {
        Self::size(self)
    }

    fn bytes(&self) -> io::Result<Cow<'_, [u8]>> {
        // Read and not mapped: if the disk failed under a mapping, SIGBUS would kill fnd.
        let mut all = Vec::with_capacity(usize::try_from(Self::size(self)).map_err(io::Error::other)?);
        for (at, size) in &self.ranges {
            let begin = all.len();
            all.resize(begin + usize::try_from(*size).map_err(io::Error::other)?, 0);
            let room = all.get_mut(begin..).unwrap_or_default();
            self.open.file.read_exact_at(room, *at)?;
        }
        Ok(Cow::Owned(all))
    }
}

impl OverflowRange {
    fn give_back(&self) {
        let mut space = lock(&self.open.space);
        space.ranges = space.ranges.saturating_sub(self.ranges.len() as u64);
        space.bytes = space.bytes.saturating_sub(Self::size(self));
        // Under the lock, since another thread could begin a range in the file that is cut here.
        if space.ranges == 0 && self.open.file.set_len(0).is_ok() {
            space.next = 0;
            return;
        }
        drop(space);
        for (at, size) in &self.ranges {
            // A file system without holes gets everything back when the file is empty.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&self.open.file, flags, *at, size.next_multiple_of(BLOCK));
        }
    }
}

impl Drop for OverflowRange {
    fn drop(&mut self) {
        self.give_back();
        self.of.check_full();
    }
}
