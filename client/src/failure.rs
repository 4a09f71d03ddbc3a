//! Why a request has no good answer.

use fnd_core::api::Problem;

/// Why a request has no good answer. Messages are lower case and have no final period.
#[derive(Debug)]
pub enum ClientFailure {
    /// fnd refused the request.
    Refused(Box<Problem>),
    /// The permissions of the socket do not allow its use.
    NotAllowed { message: String, help: &'static str },
    /// No fnd answers on the socket, or its answer broke off.
    NotReached { message: String, help: Option<String> },
    /// The request cannot be sent.
    BadRequest(String),
}

impl ClientFailure {
    /// Returns the failure of a request without an answer, without advice.
    pub(crate) fn not_reached(message: impl Into<String>) -> Self {
        Self::NotReached {
            message: message.into(),
            help: None,
        }
    }

    /// Returns the failure of a request without an answer with other advice; another failure as it is.
    pub(crate) fn help(self, advice: impl Into<String>) -> Self {
        match self {
            Self::NotReached { message, .. } => Self::NotReached {
                message,
                help: Some(advice.into()),
            },
            other => other,
        }
    }
}
