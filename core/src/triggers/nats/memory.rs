//! The facts about messages that the ledger stores, beside the mark of each message, which comes with its invocation.

use super::delivery::LocalStep;
use crate::records::MessageMark;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::sync::Arc;

/// Most messages that are forgotten at once: that takes the ledger a few milliseconds.
pub const FORGOTTEN_AT_ONCE: usize = 1000;

/// A change of what the ledger remembers of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageMemory {
    /// The server has delivered a message again: its acknowledgement has another address.
    Renewed {
        /// The invocation of the message.
        id: InvocationId,
        /// The address of the acknowledgement of its newest delivery.
        ack: Arc<str>,
    },
    /// The claim of a message has another revision, which this node wrote.
    Claimed {
        /// The invocation of the message.
        id: InvocationId,
        /// The revision of the key of its claim in the register.
        revision: u64,
    },
    /// This node has come further with a message.
    Step {
        /// The invocation of the message.
        id: InvocationId,
        /// How far this node has come now.
        step: LocalStep,
    },
    /// Messages that are done and came before this time, Unix milliseconds, need not be known any more. The oldest ones are
    /// forgotten, at most [`FORGOTTEN_AT_ONCE`].
    Forget {
        /// Unix milliseconds; a message that came at this time is kept.
        before_ms: u64,
    },
}

/// A message that the ledger knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownMessage {
    /// Its invocation, which the history may have forgotten.
    pub id: InvocationId,
    /// The function that has taken the message.
    pub function: FunctionName,
    /// The mark that was stored with the invocation, with all changes since.
    pub mark: MessageMark,
    /// How far this node has come with it.
    pub step: LocalStep,
    /// Whether an attempt of it has begun on this node, or is claimed in the ledger.
    pub has_begun: bool,
    /// Whether its invocation has ended as `interrupted`.
    pub is_interrupted: bool,
}
