//! The control API: HTTP over a Unix socket, described in `openapi.json`.
//!
//! It checks the caller, reads the request, asks the [`Backend`](crate::backend::Backend), and returns the answer in HTTP. It
//! makes no decisions about functions, and keeps no state.
//!
//! ```text
//! listen.rs ─▶ http/server.rs ─▶ service.rs (peer.rs) ─▶ routes/find.rs (roles) ─▶ routes/RESOURCE.rs ─▶ backend/
//!                                                       call.rs ◀────┘    └────▶ invoke/, refusal.rs
//! ```
//!
//! Files:
//! - `call`: a request whose route was found, with all that its route needs
//! - `condition`: the headers `If-Match` and `If-None-Match`
//! - `function_sockets`: the sockets of functions that may do something here
//! - `granted`: what a function may do at its socket
//! - `limits`: the limits of the control socket; `http/limits.rs` has those of every server
//! - `listen`: the socket itself, also after somebody has removed it
//! - `refusal`: the refusals of the API alone: ids that are unknown, failures of the daemon
//! - `routes`: all routes of the API, a file for each resource
//! - `service`: serves the API on the control socket

mod call;
mod condition;
pub(crate) mod function_sockets;
mod granted;
pub(crate) mod limits;
pub(crate) mod listen;
mod refusal;
mod routes;
mod service;
#[cfg(test)]
mod tests;

pub(crate) use service::serve;
