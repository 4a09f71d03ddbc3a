//! The control API: HTTP over a Unix socket (contract, section 5).
//!
//! It checks the caller, reads the request, asks the [`Backend`](backend::Backend), and returns the answer in HTTP. It
//! makes no decisions about functions, and keeps no state.
//!
//! ```text
//! listen.rs ─▶ http/server.rs ─▶ service.rs (peer.rs) ─▶ routes/mod.rs (table, roles) ─▶ routes/VERB.rs ─▶ backend/
//!                                                           call.rs ◀────┘    └────▶ answer.rs, refusal.rs
//! ```

mod answer;
pub mod backend;
mod call;
pub mod limits;
pub mod listen;
pub mod peer;
mod refusal;
mod routes;
mod service;

pub use crate::http::server::Stop;
pub use service::serve;
