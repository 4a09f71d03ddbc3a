//! The control server of a small daemon for `tests/fuzz`.
#![expect(dead_code, reason = "the tests of the start use more")]

#[path = "tests/small.rs"]
mod small;
#[path = "tests/spawner.rs"]
mod spawner;
#[path = "tests/world.rs"]
mod world;

use std::path::PathBuf;

/// Starts a control server; returns the path of its socket.
pub fn control_socket() -> PathBuf {
    let server = std::mem::ManuallyDrop::new(small::Running::start());
    server.socket.clone()
}
