//! Marks: what fnd remembers of schedules, of watched files and of messages together with an invocation, so that no slot, no
//! file and no message runs a function twice.

use fnd_wire::form::{Bytes, wire_structs};
use fnd_wire::ids::InvocationId;
use std::sync::Arc;

/// The last slot of a schedule that was handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastSlot {
    /// The schedule within its function: its text, and a number where two have the same text.
    pub key: Arc<str>,
    /// The slot, Unix milliseconds. If the schedule had no slot yet: the time when fnd first saw the schedule.
    pub last_ms: u64,
    /// An earlier mark that was too far ahead of the clock, Unix milliseconds: the slots up to it have been handled, too.
    pub ahead_ms: Option<u64>,
}

wire_structs! {
    /// A content of a file, as it was seen. Two files with the same inode in the same watched directory are the same
    /// content if size and time of change are equal; if only `changed_ns` or `device` differ, the hash decides.
    pub struct SeenFile {
        /// Number of the watched directory: position of the first entry of `[[file]]` that names its path.
        pub directory: u16,
        /// Path below the watched directory; not always UTF-8.
        pub path: Bytes,
        /// Inode.
        pub inode: u64,
        /// Device (`st_dev`).
        pub device: u64,
        /// Size in bytes.
        pub size: u64,
        /// `st_mtime` in nanoseconds since 1970.
        pub modified_ns: i64,
        /// `st_ctime` in nanoseconds since 1970.
        pub changed_ns: i64,
        /// First 8 bytes of the SHA-256 of the content, in big endian; of more than 4 MiB only the first and the last 2 MiB
        /// count. Absent if the user of the function cannot read the file.
        pub hash: Option<u64>,
    }
}

/// A change of what fnd remembers of a function's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileMark {
    /// The content of this file is handled; it replaces what is known of the same inode.
    Known {
        /// The watched directory.
        directory: Arc<str>,
        /// The file; its number of a directory does not count.
        file: SeenFile,
        /// Whether something is to be done with the file after the invocation that has this mark.
        acts: bool,
    },
    /// The invocation that has this mark repeats a run for files: what is to be done with them follows its end.
    Repeated {
        /// The run that had the files first.
        run: InvocationId,
    },
    /// The file is gone.
    Gone {
        /// The watched directory.
        directory: Arc<str>,
        /// Inode of the file.
        inode: u64,
    },
}

/// A message in its stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamPlace {
    /// The name of the stream.
    pub stream: Arc<str>,
    /// When the message was made there: when the stream stored it, nanoseconds since 1970. A stream that is deleted and made anew
    /// counts from 1 again, at other times; one that is restored has the same ones.
    pub created_ns: u64,
    /// The sequence of the message.
    pub sequence: u64,
}

/// The message of NATS that an invocation handles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageMark {
    /// The key of its claim, in the bucket that all nodes share.
    pub key: Arc<str>,
    /// Where the message is.
    pub place: StreamPlace,
    /// The consumer that delivered it.
    pub consumer: Arc<str>,
    /// Where the server expects its acknowledgement, and signs of life.
    pub ack: Arc<str>,
    /// The revision of the claim, as this node wrote it; absent: this node has not claimed it yet.
    pub revision: Option<u64>,
    /// When this node got it, Unix milliseconds.
    pub received_ms: u64,
    /// Attempts that other nodes have begun; how the last one ended is not known. 0: there is none.
    pub begun: u32,
    /// Whether it is acknowledged once it is in the ledger (`ack = "accept"`): no other node gets it, so it needs no claim. It says
    /// so until the invocation has ended.
    pub is_accepted: bool,
}
