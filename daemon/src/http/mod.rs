//! HTTP to callers: sockets, connections, limits, requests and answers, for every address that fnd listens on.
//!
//! It knows no roles, no routes, no configuration and no function's state: the part that listens decides who may ask,
//! and answers. Such a part implements [`server::HttpService`] and does four things:
//!
//! ```text
//! let listeners = Listeners::new();                  // or Listeners::from(a socket)
//! listeners.inherit(socket)?;                        // those of the service manager
//! listeners.secure(Security::Tls(Tls::new(pair)?));  // at each reload; not called with a bad pair, the old one stays
//! let problems = listeners.apply(&addresses);        // at each reload; others keep serving
//! let (serving, stop) = server::serve(name, listeners.clone(), service);
//! serving.await;                                     // where tasks can be spawned locally; stop.now() ends it
//! ```
//!
//! `listeners.keep_trying(changed)` runs beside it and tries the addresses that could not be used. A service admits a
//! connection with [`connections::Connections::admit`], by its user or its address.
//!
//! Files:
//! - `body`: the bodies of answers
//! - `connections`: tracks the open connections and their owners, and decides which connections are closed at the
//!   limit
//! - `framing`: refuses messages that hyper accepts although two programs can see their beginning or end in different
//!   places
//! - `headers`: headers that pass between a caller and a function
//! - `held_body`: a body that fnd holds until its caller reads it, in memory or on the disk
//! - `limits`: limits for the callers of every server; `Limits` are those that each server chooses
//! - `connection_io`: the bytes of one connection
//! - `live_answer`: a result that comes as a stream, on its way to the caller that waits for it
//! - `listen`: the sockets that a server listens on
//! - `paced`: a caller's body on its way to a program: it must come at a pace
//! - `streaming_body`: an answer that a function gives itself, on its way to the caller
//! - `query`: the parameters of a request, and the forms of their values
//! - `request`: a request
//! - `response`: answers
//! - `server`: the accept loop, and the life of one connection
//! - `stream`: answers that come in pieces
//! - `tunnel`: a connection that speaks another protocol from its first answer on

pub(crate) mod body;
mod connection_io;
pub mod connections;
mod framing;
pub(crate) mod headers;
mod held_body;
pub mod limits;
pub mod listen;
pub(crate) mod live_answer;
pub mod paced;
pub(crate) mod query;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod server;
pub(crate) mod stream;
pub mod streaming_body;
pub mod tunnel;
