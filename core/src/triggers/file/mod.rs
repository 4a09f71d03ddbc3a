//! Files that run functions: which changes of watched directories count, once for each content.
//!
//! A watcher, a process of the function's user, sees the files. fnd remembers which contents are handled.
//!
//! Files:
//! - `message`: the messages between fnd and a watcher

pub mod message;
