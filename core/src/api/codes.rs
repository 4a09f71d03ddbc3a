//! The code of each end of a run and of each refusal: the same for whoever asks over HTTP and over NATS.

use super::problem::Code;
use crate::records::outcome::{Class, Reason, Skip};
use crate::run::{ChainRefusal, Rejection};

impl Code {
    /// Returns the code for the reason with which an invocation ended, other than success.
    #[must_use]
    pub fn of_end(reason: Reason) -> Self {
        match (reason, reason.class()) {
            (_, Class::Timeout | Class::Deadline) => Self::Timeout,
            (_, Class::Cancelled) => Self::Cancelled,
            (_, Class::Skipped) => Self::Skipped,
            (_, Class::Spawn | Class::Interrupted) => Self::CouldNotRun,
            (Reason::BadAnswer | Reason::ResultTooLarge, _) => Self::BadAnswer,
            (
                _,
                // Nobody asks for the code of a success.
                Class::Success
                | Class::Transient
                | Class::ExecuteAgain
                | Class::Failed
                | Class::Error
                | Class::Oom
                | Class::Signal,
            ) => Self::FunctionFailed,
        }
    }

    /// Returns the code for a request that was not accepted.
    #[must_use]
    pub fn of_refusal(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::NoSuchFunction => Self::NotFound,
            Rejection::Service => Self::BadRequest,
            Rejection::Invalid { .. } => Self::Invalid,
            Rejection::Quota { .. } => Self::OverQuota,
            Rejection::KeyReused => Self::KeyReused,
            Rejection::Chain(ChainRefusal::NotRunning(_)) => Self::NotAllowed,
            Rejection::Chain(ChainRefusal::TooLong) => Self::ChainTooLong,
            Rejection::Chain(ChainRefusal::WaitsForItself) => Self::WaitsForItself,
            Rejection::Unavailable { .. } => Self::Unavailable,
            Rejection::Skipped { skip, .. } => match skip {
                Skip::Overlap => Self::Overlap,
                Skip::QueueFull => Self::QueueFull,
                Skip::Rate => Self::Rate,
                Skip::Disabled => Self::Disabled,
                Skip::Quota => Self::OverQuota,
                Skip::Expired | Skip::Deleted | Skip::Missed | Skip::Unknown | Skip::Invalid | Skip::Depth => {
                    Self::Skipped
                }
            },
        }
    }
}
