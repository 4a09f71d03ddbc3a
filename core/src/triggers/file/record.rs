//! A file in the books, and the states of its way.

use super::content::FileContent;
use std::rc::Rc;

/// Position of a file in the books. It may be used again when the file is dropped.
pub type FileId = u32;

/// Where a file is on its way. States with a look end when the look is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileState {
    /// Nothing is due for the file.
    Idle,
    /// It was created or moved in: a look decides whether its content is known.
    Arriving,
    /// In its quiet time.
    Quiet,
    /// The quiet time is over: a look decides whether it is ready.
    Resting,
    /// It waits for an invocation.
    Ready,
    /// A last look before it is offered.
    Checking,
    /// fnd has not answered yet.
    Offered,
    /// Its name is gone by a move: it may arrive under another name.
    MovedAway,
    /// Its name is gone by a deletion: it may come back, as with programs that delete a file before they write it.
    Removed,
    /// A complete scan did not find it: a look decides whether it is gone.
    Vanishing,
    /// The deletion waits for an invocation.
    ReadyGone,
    /// The deletion is offered, and fnd has not answered yet.
    OfferedGone,
}

impl FileState {
    /// Returns whether the file may count soon: a batch waits for it.
    pub(super) fn is_quiet(self) -> bool {
        matches!(self, Self::Arriving | Self::Quiet | Self::Resting)
    }

    /// Returns whether a look is to be answered.
    pub(super) fn is_looked_at(self) -> bool {
        matches!(self, Self::Arriving | Self::Resting | Self::Checking | Self::Vanishing)
    }

    /// Returns whether the file waits for its turn.
    pub(super) fn is_ready(self) -> bool {
        matches!(self, Self::Ready | Self::ReadyGone)
    }

    /// Returns whether the name is, or seems to be, without a file.
    pub(super) fn is_gone(self) -> bool {
        matches!(
            self,
            Self::MovedAway | Self::Removed | Self::Vanishing | Self::ReadyGone | Self::OfferedGone
        )
    }
}

/// Times of a file that is on its way. Known files at rest have none, to save memory.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    /// When the quiet time or the window of a move ends, in nanoseconds of the monotonic clock.
    pub(super) until: u64,
    /// The earliest time at which it is in the queue of deadlines; `u64::MAX` if it is not.
    pub(super) queued: u64,
    /// Size and time of change at the last look.
    pub(super) looked: Option<(u64, i64)>,
}

/// A file in the books: its content is known, or it is on its way, or both.
#[derive(Debug)]
pub(super) struct FileRecord {
    pub(super) path: Rc<[u8]>,
    pub(super) wait: Option<Box<Wait>>,
    /// The content that is handled.
    pub(super) known: Option<FileContent>,
    pub(super) directory: u16,
    /// The entry that takes it.
    pub(super) entry: Option<u16>,
    pub(super) state: FileState,
    /// The scan that saw it last.
    pub(super) mark: u8,
    /// A program closed it, or it was moved in: only `debounce` counts.
    pub(super) closed: bool,
    /// It changed after it was offered.
    pub(super) changed: bool,
    /// Its inode has another name, or had one: a scan decides before its content counts as deleted.
    pub(super) linked: bool,
    /// The name had a content before, which was moved to another name.
    pub(super) renewed: bool,
}

impl FileRecord {
    pub(super) fn new(directory: u16, path: Rc<[u8]>, entry: Option<u16>) -> Self {
        Self {
            path,
            wait: None,
            known: None,
            directory,
            entry,
            state: FileState::Idle,
            mark: 0,
            closed: false,
            changed: false,
            linked: false,
            renewed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With path, maps and the slack of growing tables a known file then takes less than 300 bytes.
    #[test]
    fn a_record_is_small() {
        assert!(size_of::<FileRecord>() <= 104, "{}", size_of::<FileRecord>());
    }
}
