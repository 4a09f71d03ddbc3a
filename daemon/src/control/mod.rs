//! The control API: HTTP over a Unix socket (contract, section 5).
//!
//! It checks the caller, reads and limits the request, asks the [`Backend`](backend::Backend), and returns the answer
//! in HTTP. It makes no decisions about functions, and keeps no state except that of its connections.
//!
//! ```text
//! listen.rs ─▶ server.rs (connections.rs, line.rs, framing.rs, peer.rs) ─▶ routes/mod.rs (table, roles) ─▶ routes/VERB.rs ─▶ backend.rs
//!                                                                request.rs ◀────┘    └────▶ answer.rs, response.rs
//! ```

mod answer;
pub mod backend;
pub mod connections;
mod framing;
mod headers;
mod kept;
pub mod limits;
mod line;
pub mod listen;
pub mod peer;
mod request;
mod response;
mod routes;
mod server;
mod stream;

pub use server::{Server, Stop};
