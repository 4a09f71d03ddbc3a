//! The client of the control socket, with failures that have an exit code.

use crate::exit::{CommandFailure, Exit};
use fnd_client::client;
use fnd_client::failure::ClientFailure;
use hyper::body::Bytes;
use std::path::{Path, PathBuf};

pub(crate) use fnd_client::client::{Outgoing, Reply, encode, request};

/// The daemon at a socket.
#[derive(Debug)]
pub(crate) struct Client(client::Client);

/// A body that comes piece by piece.
pub(crate) struct BodyPieces(client::BodyPieces);

impl Client {
    /// Returns a client; does not connect yet.
    #[must_use]
    pub(crate) fn new(path: PathBuf, user: bool) -> Self {
        Self(client::Client::new(path, user))
    }

    /// Returns the answer to a GET.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub(crate) async fn get(&self, path: &str) -> Result<Reply, CommandFailure> {
        Ok(self.0.get(path).await?)
    }

    /// Returns the answer to a POST without body.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub(crate) async fn post(&self, path: &str) -> Result<Reply, CommandFailure> {
        Ok(self.0.post(path).await?)
    }

    /// Returns the answer to a request.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub(crate) async fn send(&self, request: Outgoing) -> Result<Reply, CommandFailure> {
        Ok(self.0.send(request).await?)
    }

    /// Returns an answer whose body comes piece by piece: one JSON object on each line.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub(crate) async fn stream(&self, path: &str) -> Result<BodyPieces, CommandFailure> {
        Ok(BodyPieces(self.0.stream(path).await?))
    }

    /// Returns the size of an answer that is a file, and its bytes piece by piece.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub(crate) async fn download(&self, path: &str) -> Result<(u64, BodyPieces), CommandFailure> {
        let (size, pieces) = self.0.download(path).await?;
        Ok((size, BodyPieces(pieces)))
    }

    /// Returns the path of the socket.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl BodyPieces {
    /// Returns the next bytes; `None` after the last.
    ///
    /// # Errors
    /// The connection breaks off.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, CommandFailure> {
        Ok(self.0.piece().await?)
    }

    /// Returns the next line that is not empty, without its end; `None` after the last.
    ///
    /// # Errors
    /// The connection breaks off.
    pub(crate) async fn line(&mut self) -> Result<Option<Vec<u8>>, CommandFailure> {
        // Cancel-safe: bytes of an unfinished line stay until the next call.
        Ok(self.0.line().await?)
    }
}

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
