//! The messages between fnd and a server of NATS about streams, as bytes: requests of JetStream and their answers
//! (the reference of its API is ADR-1 of NATS). Nothing here sends or waits.
//!
//! Files:
//! - `ack_address`: reads the address of a delivery
//! - `answers`: reads the answers of the server
//! - `objects`: requests to make streams, consumers and the bucket; whether fnd can use existing ones
//! - `pull_status`: reads the server's answers about a pull request

pub mod ack_address;
pub mod answers;
pub mod objects;
pub mod pull_status;
