//! The thread with the connection to the servers. It carries out requests of the part, and says facts. It decides
//! nothing about messages: it neither reads them nor knows whose they are.
//!
//! Files:
//! - `connect`: the settings of a connection, and its changes
//! - `entries`: the entries of `[[nats]]`: when each is looked for, and the result
//! - `headers`: headers of messages
//! - `keys`: reads and writes keys of the bucket, hears of renewals
//! - `pending_replies`: requests that wait for an answer
//! - `pulls`: the pull requests of an entry
//! - `streams`: looks for streams, consumers and the bucket, and has them made; reads messages of streams
//! - `subscriptions`: the subscriptions of the connection
//! - `thread`: the loop
//! - `unreadable`: messages at which the client gives its connection up

mod connect;
mod entries;
mod headers;
mod keys;
mod pending_replies;
mod pulls;
mod streams;
mod subscriptions;
mod thread;
mod unreadable;

pub(super) use thread::run;
