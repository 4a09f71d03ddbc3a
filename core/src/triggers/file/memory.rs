//! The memory that fnd has of handled files.

use crate::records::FileMark;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::sync::Arc;

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
