//! Calls to the control socket over real HTTP.

use crate::wait::PATIENCE;
use bytes::Bytes;
use fnd_core::api::Problem;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A caller of one control socket. Each call opens a connection of its own.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

/// The answer to a call.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// Returns the body as text, replacing what is not UTF-8.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body.
    ///
    /// # Panics
    /// When it is not one.
    #[track_caller]
    #[must_use]
    pub fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!(
                "answer {} has an unexpected body: {error}: {}",
                self.status,
                self.text()
            )
        })
    }

    /// Returns the problem of a refusal.
    ///
    /// # Panics
    /// When the answer is none, or is not marked as one.
    #[track_caller]
    #[must_use]
    pub fn problem(&self) -> Problem {
        let content_type = self.headers.get("content-type").and_then(|value| value.to_str().ok());
        assert_eq!(
            content_type,
            Some("application/problem+json"),
            "answer {}: {}",
            self.status,
            self.text()
        );
        self.json()
    }

    /// Returns a header's text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Client {
    /// Returns a caller of the socket at `socket`.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_path_buf(),
        }
    }

    /// Sends a request and returns the whole answer.
    ///
    /// # Errors
    /// In words: no connection, or one that ended early.
    pub fn try_call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> anyhow::Result<Answer> {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes())?)
            .uri(path)
            .header("host", "fnd");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body)))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let call = async {
                let stream = tokio::net::UnixStream::connect(&self.socket).await?;
                let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
                let mut tasks = tokio::task::JoinSet::new();
                tasks.spawn(connection);
                let response = sender.send_request(request).await?;
                let (head, body) = response.into_parts();
                let body = body.collect().await?.to_bytes();
                Ok(Answer {
                    status: head.status,
                    headers: head.headers,
                    body,
                })
            };
            // Twice the patience, so that the timeout of a run comes before this one.
            tokio::time::timeout(PATIENCE * 2, call).await?
        })
    }

    /// Sends a request that must be answered, whatever the status.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    #[must_use]
    pub fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_call(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} {path} on {}: {error:#}", self.socket.display()))
    }

    /// Reads a path.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    #[must_use]
    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &[], b"")
    }

    /// Sends JSON to a path.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    pub fn post(&self, path: &str, json: &str) -> Answer {
        let headers: &[(&str, &str)] = if json.is_empty() {
            &[]
        } else {
            &[("content-type", "application/json")]
        };
        self.call("POST", path, headers, json.as_bytes())
    }
}
