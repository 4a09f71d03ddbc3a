//! The code of each end of a run and of each refusal: the same for whoever asks over HTTP and over NATS.

use super::problem::{Code, Problem};
use crate::records::outcome::{Class, Reason, Skip};
use crate::run::{ChainRefusal, Rejection};
use fnd_wire::ids::FunctionName;

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

    fn of_refusal(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::NoSuchFunction => Self::NotFound,
            Rejection::Service => Self::BadRequest,
            Rejection::Invalid { .. } => Self::Invalid,
            Rejection::Quota { .. } => Self::OverQuota,
            Rejection::KeyReused => Self::KeyReused,
            Rejection::Input(_) => Self::Input,
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

impl Problem {
    /// Returns the problem of a request that was not accepted.
    #[must_use]
    pub fn of_refusal(rejection: &Rejection, function: &FunctionName) -> Self {
        let mut problem = Self::new(Code::of_refusal(rejection), rejection.words(function)).of(function);
        if let Rejection::Input(mistakes) = rejection {
            problem.reason = Some(Reason::Input);
            problem.input.clone_from(mistakes);
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_manifest::function::payload_schema::PayloadMistake;

    #[test]
    fn the_refusal_of_a_payload_has_its_mistakes() {
        let mistake = PayloadMistake {
            pointer: "/n".to_owned(),
            expected: "the value is not a number".to_owned(),
        };
        let function = FunctionName::new("f").unwrap();
        let problem = Problem::of_refusal(&Rejection::Input(vec![mistake.clone()]), &function);
        assert_eq!((problem.status, problem.reason), (422, Some(Reason::Input)));
        assert_eq!(problem.input, [mistake]);
        let problem = Problem::of_refusal(&Rejection::KeyReused, &function);
        assert_eq!((problem.status, problem.input), (422, Vec::new()));
    }
}
