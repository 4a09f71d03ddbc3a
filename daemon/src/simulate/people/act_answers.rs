//! The answers that people get to their acts.

use super::PersonAct;
use crate::backend::NotPublished;
use fnd_core::api::ReleaseChanged;
use fnd_core::lifecycle::release::NotHeld;
use fnd_core::run::{Answer, Delivered};
use fnd_wire::ids::InvocationId;

/// An act that was answered.
#[derive(Debug)]
pub(crate) struct AnsweredAct {
    /// The number of the act.
    pub(crate) number: usize,
    pub(crate) act: PersonAct,
    /// The invocation that the person chose: to be cancelled, run again or discarded.
    pub(crate) id: Option<InvocationId>,
    pub(crate) heard: ActAnswer,
}

impl AnsweredAct {
    /// Returns the number of the function whose build has failed, if the person was told that.
    pub(crate) fn failed_build(&self) -> Option<u8> {
        match (&self.act, &self.heard) {
            (PersonAct::Rebuild(function, _), ActAnswer::Failed) => Some(*function),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum ActAnswer {
    Answer(Answer),
    Published(Result<Vec<Delivered>, NotPublished>),
    Release(Result<ReleaseChanged, NotHeld>),
    /// Whether a change was made that has no answer of its own: a pause, a discarded dead letter, the end of a drain.
    Changed(bool),
    /// It was carried out.
    Done,
    /// It could not be carried out.
    Failed,
    /// There was nothing to choose from.
    Nothing,
    /// There is no answer, because fnd is stopping.
    Gone,
}

impl ActAnswer {
    /// Returns the number of the answer's kind, for the hash of all events.
    pub(crate) fn kind(&self) -> u64 {
        match self {
            Self::Answer(answer) => match answer {
                Answer::Queued(_) => 0,
                Answer::Finished(_) => 1,
                Answer::TimedOut { .. } => 2,
                Answer::Rejected(_) => 3,
                Answer::Published(_) => 4,
                Answer::NotPublished { .. } => 5,
                Answer::Done => 6,
                Answer::NotFound => 7,
                Answer::StoreFailed => 8,
            },
            Self::Published(Ok(_)) => 9,
            Self::Published(Err(_)) => 10,
            Self::Release(Ok(_)) => 11,
            Self::Release(Err(_)) => 12,
            Self::Changed(false) => 13,
            Self::Changed(true) => 14,
            Self::Done => 15,
            Self::Failed => 16,
            Self::Nothing => 17,
            Self::Gone => 18,
        }
    }
}
