//! The messages between fnd and a watcher (`fnd-helper --watch`), which runs as the function's user: fnd writes [`ToWatcher`] to
//! its standard input, the watcher writes [`FromWatcher`] to its standard output. A message is a `u32` length in little
//! endian, then the [`wire`](fnd_wire::form) form. Each side checks the other's bytes: the watcher has the rights of
//! somebody's function.

use crate::records::SeenFile;
use fnd_wire::form::{Wire, wire_enum, wire_structs};
use fnd_wire::ids::InvocationId;

/// Version of these messages: fnd and watcher may be of different builds for a moment during an upgrade.
pub const PROTOCOL: u16 = 3;
/// Largest message in bytes.
pub const MESSAGE_MAX: usize = 1 << 20;
/// Most files of one message, and of one invocation. A message ends earlier where its paths are long.
pub const FILES_MAX: usize = 1000;
/// Longest path of a file below its directory, in bytes (`PATH_MAX` of Linux).
pub const PATH_MAX: usize = 4096;

wire_structs! {
    /// A file that is handled, for the memory of fnd.
    pub struct KnownFile {
        /// The content that is handled.
        pub file: SeenFile,
        /// The invocation after whose end something is to be done with the file; absent if nothing is.
        pub after: Option<InvocationId>,
    }

    /// A change of a file.
    pub struct SeenChange {
        /// 0 created, 1 modified, 2 deleted.
        pub kind: u8,
        /// The content; of a deleted file the last one.
        pub file: SeenFile,
    }

    /// Files for one invocation.
    pub struct WatcherReady {
        /// Number of this message, counted up from 1.
        pub number: u64,
        /// Position of the entry of `[[file]]`.
        pub entry: u16,
        /// The changes, at most `batch` of the entry; fewer where their paths are longer than 512 KiB together.
        pub changes: Vec<SeenChange>,
    }

    /// The end of an invocation.
    pub struct FileRunEnded {
        /// The invocation that has ended.
        pub id: InvocationId,
        /// Whether it succeeded, which decides between `then` and `failed`.
        pub success: bool,
        /// Its contents: a watcher does not know those of a run that repeats another. Empty where [`KnownFile::after`] has them.
        pub contents: Vec<RunContent>,
    }

    /// A content that an invocation had.
    pub struct RunContent {
        /// Number of the watched directory.
        pub directory: u16,
        /// Number of the inode (`st_ino`).
        pub inode: u64,
        /// Size in bytes (`st_size`).
        pub size: u64,
        /// `st_mtime` in nanoseconds since 1970.
        pub modified_ns: i64,
    }

    /// The answer to [`FromWatcher::Ready`]: the invocation is stored.
    pub struct AcceptedFile {
        /// The number of the message.
        pub number: u64,
        /// The invocation that handles the files.
        pub id: InvocationId,
    }

    /// A problem of the watcher, or the end of one.
    pub struct Trouble {
        /// Position of the entry of `[[file]]`.
        pub entry: u16,
        /// The problem, for people; absent: it is over.
        pub problem: Option<String>,
    }
}

wire_enum! {
    /// A message to a watcher.
    pub enum ToWatcher {
        /// Files that are handled, from the memory of fnd.
        1 = Known(Vec<KnownFile>),
        /// All known files were sent: the watcher begins. The values are since when fnd watches the directory of each entry,
        /// Unix milliseconds: for `existing = false`.
        2 = Begin(Vec<u64>),
        /// The invocation of a [`FromWatcher::Ready`] is stored; its end follows as [`ToWatcher::Ended`].
        3 = Accepted(AcceptedFile),
        /// The files of a [`FromWatcher::Ready`] wait: the function takes no more invocations now. The watcher offers them
        /// again after the next [`ToWatcher::Ended`], or after a second.
        4 = Refused(u64),
        /// An invocation has ended. It may be one of an earlier watcher ([`KnownFile::after`]).
        5 = Ended(FileRunEnded),
        /// The function's processes see from now on these [`FromWatcher::Places`].
        6 = Shown(u64),
    }
}

wire_enum! {
    /// A message from a watcher.
    pub enum FromWatcher {
        /// The first message: [`PROTOCOL`].
        1 = Hello(u16),
        /// Files for one invocation. fnd remembers their contents in the transaction that stores the invocation.
        2 = Ready(WatcherReady),
        /// Contents to remember without an invocation: files that do not run the function, new names, new hashes. A file
        /// replaces the one with the same directory and inode.
        3 = Seen(Vec<SeenFile>),
        /// Files that are gone, by directory and inode: fnd forgets them.
        4 = Gone(Vec<(u16, u64)>),
        /// Everything that followed the end of an invocation was done, or cannot be done.
        5 = Settled(InvocationId),
        /// A problem of the watcher.
        6 = Trouble(Trouble),
        /// Number of files that wait: they are ready, and have no invocation yet.
        7 = Waiting(u64),
        /// A number for where the watched directories lead and what is mounted below them. A process of the function has a view of
        /// its own, which may be older; so no files are offered until fnd has answered with [`ToWatcher::Shown`].
        8 = Places(u64),
    }
}

/// Appends a message with its length.
pub fn put<T: Wire>(message: &T, out: &mut Vec<u8>) {
    let bytes = message.to_wire();
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// Bytes that were read, of which the last message may be incomplete.
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    at: usize,
}

impl Messages {
    /// Adds bytes as they were read.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete message.
    ///
    /// # Errors
    /// The bytes are no message, or one above [`MESSAGE_MAX`]: the connection cannot be used any more.
    pub fn take<T: Wire>(&mut self) -> Result<Option<T>, String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        // A length above the bound is refused before its bytes are collected in memory.
        if length > MESSAGE_MAX {
            return Err(format!("a message has {length} bytes, more than {MESSAGE_MAX}"));
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let message = T::from_wire(message).map_err(|error| format!("a message cannot be read: {error}"))?;
        self.at += 4 + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_from_pieces_of_any_size() {
        let sent = [
            ToWatcher::Begin(vec![7]),
            ToWatcher::Refused(3),
            ToWatcher::Known(Vec::new()),
        ];
        let mut bytes = Vec::new();
        sent.iter().for_each(|message| put(message, &mut bytes));
        for size in 1..bytes.len() {
            let mut messages = Messages::default();
            let mut read = Vec::new();
            for piece in bytes.chunks(size) {
                messages.add(piece);
                while let Some(message) = messages.take::<ToWatcher>().unwrap() {
                    read.push(message);
                }
            }
            assert_eq!(read, sent, "{size}");
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let refused = |bytes: &[u8]| {
            let mut messages = Messages::default();
            messages.add(bytes);
            messages.take::<FromWatcher>()
        };
        assert!(refused(&u32::MAX.to_le_bytes()).unwrap_err().contains("more than"));
        assert!(refused(&[1, 0, 0, 0, 99]).unwrap_err().contains("cannot be read"));
        assert_eq!(refused(&[9, 0, 0, 0, 1]), Ok(None));
    }
}
