//! Reports what happens: in the journal, on the stream, in the metrics and in the status files.
//!
//! - `observe.rs`: turns the supervisor's events and actions into the stream, the metrics, and the span of each attempt
//! - `journal.rs`: the messages of fnd, in words for people and fields for queries
//! - `status.rs`: writes status files

pub(crate) mod journal;
mod observe;
mod status;

pub(crate) use observe::Observer;
