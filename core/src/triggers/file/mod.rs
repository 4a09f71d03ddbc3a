//! Files that run functions: which changes of watched directories count, once for each content.
//!
//! A watcher, a process of the function's user, sees the files. fnd remembers which contents are handled.
//!
//! Files:
//! - `memory`: what fnd remembers of handled files
//! - `message`: the messages between fnd and a watcher
//! - `payload`: the payload and the cause of an invocation for files

pub mod memory;
pub mod message;
pub mod payload;
