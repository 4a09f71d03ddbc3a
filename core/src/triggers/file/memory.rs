//! The memory that fnd has of handled files.

use super::message::SeenFile;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::sync::Arc;

/// A change of what fnd remembers of a function's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileMark {
    /// The content of this file is handled; it replaces what is known of the same inode.
    Known {
        /// Path of the watched directory that has the file.
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
        /// Path of the watched directory that had the file.
        directory: Arc<str>,
        /// Inode of the file.
        inode: u64,
    },
}

/// A change of what fnd remembers, that no invocation brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileMemory {
    /// Marks of a function's files.
    Marks(FunctionName, Vec<FileMark>),
    /// Directories that a function watches since this time (Unix milliseconds); directories that are known keep theirs.
    Since(FunctionName, Vec<Arc<str>>, u64),
    /// Nothing is left to do with the function's files of this invocation.
    Settled(FunctionName, InvocationId),
    /// The function is gone, and its files are forgotten.
    Forget(FunctionName),
}
