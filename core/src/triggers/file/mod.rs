//! Files that run functions: which changes of watched directories count, once for each content.
//!
//! A watcher, a process of the function's user, sees the files. fnd remembers which contents are handled. The decisions of
//! a watcher are the [`FileMachine`](machine::FileMachine): it has no clock and opens no file. It gets events and gives actions.
//!
//! ```text
//!   event, scan ─▶ quiet time ─▶ ready ─▶ offered ─▶ known ─▶ deleted, or moved by an action
//!                      ▲           │         │
//!                      └── event ──┘◀────────┘ refused
//! ```
//!
//! Files:
//! - `actions`: what is done to files after their invocation
//! - `books`: the files that are known or wait, by path and by inode
//! - `changes`: events about paths
//! - `content`: whether two looks at a file show the same content
//! - `entries`: which entry of `[[file]]` a path belongs to
//! - `looks`: what follows from a look at a file
//! - `machine`: events, actions, and when they are due
//! - `memory`: what fnd remembers of handled files
//! - `message`: the messages between fnd and a watcher
//! - `offers`: which files are offered to fnd, and its answers
//! - `outbox`: messages to fnd in their order, in pieces
//! - `payload`: the payload and the cause of an invocation for files
//! - `record`: a file in the books, and the states of its way
//! - `scans`: what follows from the list of a directory

mod actions;
mod books;
mod changes;
pub mod content;
pub mod entries;
mod looks;
pub mod machine;
pub mod memory;
pub mod message;
mod offers;
mod outbox;
pub mod payload;
mod record;
mod scans;
#[cfg(test)]
mod tests;
