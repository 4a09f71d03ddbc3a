//! The control server over a real socket, in front of a daemon that is made up.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod crowd;
mod deploy;
mod fake;
mod http;
mod limits;
mod openapi;
mod roles;
mod routes;
