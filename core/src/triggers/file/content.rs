//! Whether two looks at a file show the same content.

use crate::records::SeenFile;
use fnd_wire::form::Bytes;

/// A content in short: inode, size, time of change in nanoseconds.
pub type FileStamp = (u64, u64, i64);

/// Properties of a file, from `fstatat(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// Number of the inode (`st_ino`).
    pub inode: u64,
    /// Device of the file system (`st_dev`).
    pub device: u64,
    /// Size in bytes (`st_size`).
    pub size: u64,
    /// `st_mtime` in nanoseconds since 1970.
    pub modified_ns: i64,
    /// `st_ctime` in nanoseconds since 1970.
    pub changed_ns: i64,
    /// Whether the file has more than one name (`st_nlink`). fnd does not remember it: the first scan finds the names.
    pub is_linked: bool,
}

impl FileStat {
    /// Returns size and time of change, by which two looks are compared.
    pub(super) fn looked(&self) -> (u64, i64) {
        (self.size, self.modified_ns)
    }

    /// Returns the content in short.
    pub(super) fn stamp(&self) -> FileStamp {
        (self.inode, self.size, self.modified_ns)
    }
}

/// A content of a file: what identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileContent {
    pub(super) facts: FileStat,
    pub(super) hash: Option<u64>,
}

/// Whether the content was hashed with the look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// It was not asked for.
    NotAsked,
    /// The content cannot be read.
    Unreadable,
    /// The hash, as [`SeenFile::hash`] has it.
    Is(u64),
}

impl Hash {
    /// Returns the hash for the memory of fnd.
    pub(super) fn known(self) -> Option<u64> {
        match self {
            Self::NotAsked | Self::Unreadable => None,
            Self::Is(hash) => Some(hash),
        }
    }
}

/// How a content compares with an earlier one of the same inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    Same,
    Different,
    /// Only the hash can decide.
    AskHash,
}

impl FileContent {
    /// Compares with a later look at the same inode.
    ///
    /// A rename, a link and `chmod` change `st_ctime` and not the content, and a reboot may number the devices anew. But
    /// `utimes(2)` can hide that a file was written, so in these cases the hash decides.
    pub(super) fn compare(&self, facts: &FileStat, hash: Hash) -> Compared {
        let old = &self.facts;
        if old.looked() != facts.looked() {
            return Compared::Different;
        }
        if (old.changed_ns, old.device) == (facts.changed_ns, facts.device) {
            return Compared::Same;
        }
        match (self.hash, hash) {
            // Without both hashes nothing shows another content: size and time of change are the same.
            (None, _) | (_, Hash::Unreadable) => Compared::Same,
            (Some(_), Hash::NotAsked) => Compared::AskHash,
            (Some(old), Hash::Is(new)) if old == new => Compared::Same,
            (Some(_), Hash::Is(_)) => Compared::Different,
        }
    }

    pub(super) fn file(&self, directory: u16, path: &[u8]) -> SeenFile {
        SeenFile {
            directory,
            path: Bytes(path.to_vec()),
            inode: self.facts.inode,
            device: self.facts.device,
            size: self.facts.size,
            modified_ns: self.facts.modified_ns,
            changed_ns: self.facts.changed_ns,
            hash: self.hash,
        }
    }

    pub(super) fn of(file: &SeenFile) -> Self {
        Self {
            facts: FileStat {
                inode: file.inode,
                device: file.device,
                size: file.size,
                modified_ns: file.modified_ns,
                changed_ns: file.changed_ns,
                is_linked: false,
            },
            hash: file.hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_decides_only_where_the_facts_cannot() {
        let facts = FileStat {
            inode: 1,
            device: 2,
            size: 3,
            modified_ns: 4,
            changed_ns: 5,
            is_linked: false,
        };
        let hash = Some(7);
        let old = FileContent { facts, hash };
        assert_eq!(old.compare(&facts, Hash::NotAsked), Compared::Same);
        let size = FileStat { size: 9, ..facts };
        assert_eq!(old.compare(&size, Hash::Is(7)), Compared::Different);
        let touched = FileStat {
            modified_ns: 9,
            ..facts
        };
        assert_eq!(old.compare(&touched, Hash::Is(7)), Compared::Different);
        for other in [FileStat { changed_ns: 9, ..facts }, FileStat { device: 9, ..facts }] {
            assert_eq!(old.compare(&other, Hash::NotAsked), Compared::AskHash);
            assert_eq!(old.compare(&other, Hash::Is(7)), Compared::Same);
            assert_eq!(old.compare(&other, Hash::Is(8)), Compared::Different);
            assert_eq!(old.compare(&other, Hash::Unreadable), Compared::Same);
            let unknown = FileContent { facts, hash: None };
            assert_eq!(unknown.compare(&other, Hash::Is(8)), Compared::Same);
        }
        assert_eq!(FileContent::of(&old.file(0, b"a")), old);
    }
}
