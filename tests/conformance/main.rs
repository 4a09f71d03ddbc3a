//! The conformance suite: every runtime's shim, driven over a socket as fnd does (`runtimes/PROTOCOL.md`).
//!
//! Judged are the runtimes of `runtimes/`, the one that docs/new-runtime.md walks through, and those in the directories of
//! `FND_CONFORMANCE`. The same functions exist for each, in `functions/ID`; a runtime without one of the optional ones does
//! not support what it shows.
#![expect(clippy::unwrap_used, reason = "a test's unwrap is an expectation")]

mod answers;
mod forms;
mod life;
mod round_trip;
mod runtimes;
mod worker;
