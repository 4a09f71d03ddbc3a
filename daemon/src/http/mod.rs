//! HTTP/1.1 to a caller: connections, limits, requests and answers, for every socket that fnd listens on.
//!
//! It knows no roles, no routes and no function's state: the part that listens decides who may ask, and answers.
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
//! - `passing`: an answer that a function gives itself, on its way to the caller
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
pub mod passing;
pub(crate) mod query;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod server;
mod socket;
pub(crate) mod stream;
