//! Messages of NATS JetStream that run functions, on several nodes that share one stream. Pure: both clocks, the answers of
//! the server and those of the ledger are arguments. The daemon has the connection.
//!
//! ```text
//!  delivered ─▶ accepted ─▶ claimed ─▶ running ─▶ ended ─▶ claim `done` ─▶ acknowledged
//!      │      (ledger row)  (register   │  ▲       (final record on the disk)
//!      │                    and ledger) │  └─ retry: claimed again
//!      ├─ given back, with a delay      └─ fenced: the lease of this node has ended
//!      ├─ acknowledged: another node has its final record
//!      └─ taken over: the node that had it is silent; its attempt counts as interrupted
//! ```
//!
//! Two facts of the server decide the design. An acknowledgement of a node that was replaced is accepted like any other, so
//! no answer to it proves that a node still has the message. And a delivery does not prove that the node before is
//! silent: a server that was killed, or a consumer that was made anew, delivers at once. So a *claim* in a bucket of keys and
//! values says who has a message, changes of it name the revision that they replace, and a node takes a message over only
//! if it has *seen itself* that the key of the other node was not renewed for `ack_wait`. The other node stops its attempts
//! before that: this is the *fence*.
//!
//! Files:
//! - `claim`: the record of a claim, and that of a node
//! - `claim_key`: which key of the bucket a message has
//! - `delivery`: decides the next step for a delivery
//! - `event`: events of all nodes, which go through one stream
//! - `lease`: the lease of this node, and the attempts that end with it
//! - `memory`: the facts about messages that the ledger stores
//! - `message`: the content of a message: a CloudEvent or data
//! - `open_claims`: the claims that wait for the answers of the register and the ledger
//! - `pull`: how many messages are asked for
//! - `rules`: an entry of `[[nats]]` with the limits of its manifest
//! - `server`: requests of JetStream and their answers, as bytes
//! - `witness`: for how long another node was silent

pub mod claim;
pub mod claim_key;
pub mod delivery;
pub mod event;
pub mod lease;
pub mod memory;
pub mod message;
pub mod open_claims;
pub mod pull;
pub mod rules;
pub mod server;
pub mod witness;

#[cfg(test)]
mod tests;
