//! Calls of the control API, as the caller of this program. This program checks no right: fnd does, for each call.

use fnd_client::client::{BodyPieces, Client, Reply, request};
use fnd_client::failure::ClientFailure;
use fnd_core::api::Problem;
use hyper::Method;
use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::timeout;

/// How long fnd may take to answer, or to begin an answer that follows.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The control socket of one fnd.
#[derive(Debug)]
pub(crate) struct Api {
    client: Client,
}

/// Why a call has no good answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// fnd refused the call.
    Refused(Box<Problem>),
    /// fnd does not answer, or another program answers: the page is 503 and comes back by itself.
    NotReached { message: String, help: Option<String> },
    /// The page itself refuses: a filter that is none, a path without a page, an action while the page is read only.
    Page { status: u16, message: String },
}

impl Failure {
    /// Returns the HTTP status of the page that shows the failure.
    pub(crate) fn status(&self) -> u16 {
        match self {
            // A status of success would let a broken refusal look like a page that worked.
            Self::Refused(problem) if (400..600).contains(&problem.status) => problem.status,
            Self::Refused(_) => 502,
            Self::NotReached { .. } => 503,
            Self::Page { status, .. } => *status,
        }
    }

    /// Returns a failure of the page itself.
    pub(crate) fn page(status: u16, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Page { status, message }
    }

    /// Returns the failure of a path that has no page.
    pub(crate) fn no_page() -> Self {
        Self::page(404, "There is no such page.")
    }

    /// Returns the failure of a parameter or field; `message` is a sentence that lists what is allowed.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::page(400, message)
    }
}

impl From<ClientFailure> for Failure {
    fn from(failure: ClientFailure) -> Self {
        match failure {
            ClientFailure::Refused(problem) => Self::Refused(problem),
            ClientFailure::NotReached { message, help } => Self::NotReached { message, help },
            ClientFailure::NotAllowed { message, help } => Self::page(403, format!("{message}: {help}")),
            ClientFailure::BadRequest(message) => Self::bad_request(message),
        }
    }
}

impl Api {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns the document at a path, for example `/v1/functions`.
    ///
    /// # Errors
    /// fnd refuses or does not answer, or the answer is another document.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// Sends a document, or nothing, and returns the document of the answer.
    ///
    /// # Errors
    /// See [`Self::get`].
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, Failure> {
        let json = [("content-type".to_owned(), "application/json".to_owned())];
        let headers: &[(String, String)] = if body.is_empty() { &[] } else { &json };
        let reply = self.send(method, path, headers, body).await?;
        serde_json::from_slice(&reply.body).map_err(|error| Failure::NotReached {
            message: format!("fnd answered `{path}` with an unknown document: {error}"),
            help: Some("fnd-web and fnd are of different versions: restart `fndctl web`".to_owned()),
        })
    }

    /// Sends a request and returns the answer as bytes, with status and headers.
    ///
    /// # Errors
    /// fnd refuses or does not answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Reply, Failure> {
        in_time(self.client.send(request(method, path, headers, body)?)).await
    }

    /// Returns an answer whose body comes piece by piece.
    ///
    /// # Errors
    /// fnd refuses or does not answer.
    pub(crate) async fn stream(&self, path: &str, headers: &[(String, String)]) -> Result<BodyPieces, Failure> {
        let request = request(Method::GET, path, headers, Bytes::new())?;
        in_time(self.client.pieces(request)).await
    }
}

/// Returns what a call of fnd returns. A daemon that is stuck is one that does not answer.
async fn in_time<T>(call: impl Future<Output = Result<T, ClientFailure>>) -> Result<T, Failure> {
    match timeout(ANSWER_TIME, call).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Failure::NotReached {
            message: "fnd did not answer within 30 seconds".to_owned(),
            help: Some(
                "fnd may be overloaded: `fndctl status` shows whether it answers, `fndctl history` whether it accepted the request"
                    .to_owned(),
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[tokio::test(start_paused = true)]
    async fn a_silent_fnd_is_one_that_does_not_answer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let _silent = UnixListener::bind(&path).unwrap();
        let api = Api::new(Client::new(path, false));
        let refused = api.get::<serde_json::Value>("/v1/access").await.unwrap_err();
        assert_eq!(refused.status(), 503);
        assert!(format!("{refused:?}").contains("within 30 seconds"), "{refused:?}");
        assert!(api.stream("/v1/stream", &[]).await.is_err());
    }
}
