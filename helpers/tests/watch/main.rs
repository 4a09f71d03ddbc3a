//! `fnd-helper --watch` on real directories, with a small fnd at the other end of its pipes.

#![expect(clippy::unwrap_used, reason = "a test's unwrap is an expectation")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests of a process measure its time, and wait for a moment for what must not happen"
)]

mod actions;
mod directories;
mod files;
mod floods;
mod fnd;
mod hindrances;
