//! The client of the control socket, whose failures get an exit code and advice here.

use crate::exit::{CommandFailure, Exit};
use fnd_client::failure::ClientFailure;

pub(crate) use fnd_client::client::{BodyPieces, Client, Outgoing, Reply, encode, request};

impl From<ClientFailure> for CommandFailure {
    fn from(failure: ClientFailure) -> Self {
        match failure {
            ClientFailure::Refused(problem) => (*problem).into(),
            ClientFailure::NotAllowed { message, help } => Self::new(Exit::NotAllowed, message).help(help),
            ClientFailure::NotReached { message, help } => {
                let failure = Self::new(Exit::NotReachable, message);
                Self { help, ..failure }
            }
            ClientFailure::BadRequest(message) => Self::usage(message),
        }
    }
}
