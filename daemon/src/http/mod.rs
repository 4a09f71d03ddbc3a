//! HTTP/1.1 to a caller: connections, limits, requests and answers, for every socket that fnd listens on.
//!
//! It knows no roles, no routes and no function's state: the part that listens decides who may ask, and answers.
//!
//! ```text
//! server.rs       the accept loop, and the life of one connection; `Service` is what it serves
//! socket.rs       the kinds of sockets
//! connections.rs  the places: which users have how many, and which connection is closed at the limit
//! limits.rs       the limits of every server, and those that each chooses
//! line.rs         the bytes of one connection: a caller that has gone or does not read
//! framing.rs      the beginnings and ends of messages; finds those that two programs see differently
//! request.rs      headers and body of a request
//! query.rs        parameters, percent-encoding
//! headers.rs      headers that pass between a caller and a function
//! response.rs     answers: values, results, problems
//! body.rs         the bodies of answers
//! stream.rs       bodies in pieces: lines, events, files
//! kept.rs         bodies that stay on the disk until they are read
//! ```
//!
//! Files:
//! - `body`: the bodies of answers
//! - `connections`: tracks the open connections and their users, and decides which connections are closed at the
//!   limit
//! - `framing`: refuses messages that hyper accepts although two programs can see their beginning or end in different
//!   places
//! - `headers`: headers that pass between a caller and a function
//! - `kept`: an answer that stays on the disk until its caller reads it
//! - `limits`: limits for the callers of every server; `Limits` are those that each server chooses
//! - `line`: the bytes of one connection
//! - `query`: the parameters of a request, and the forms of their values
//! - `request`: a request
//! - `response`: answers
//! - `server`: the accept loop, and the life of one connection
//! - `socket`: the kinds of sockets that a server can listen on
//! - `stream`: answers that come in pieces

pub(crate) mod body;
pub mod connections;
mod framing;
pub(crate) mod headers;
mod kept;
pub mod limits;
mod line;
pub(crate) mod query;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod server;
mod socket;
pub(crate) mod stream;
