//! The client of the control socket. Each request has its own HTTP/1.1 connection.

use crate::failure::ClientFailure;
use fnd_core::api::Problem;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

/// A request to be sent.
pub type Outgoing = Request<Full<Bytes>>;

/// The daemon at a socket.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    /// Whether it is the user's own daemon.
    user: bool,
    /// The run that calls, inside a function.
    invocation: Option<HeaderValue>,
}

/// A whole answer that is not a refusal.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Client {
    /// Returns a client; does not connect yet.
    #[must_use]
    pub fn new(path: PathBuf, user: bool) -> Self {
        // Inside a function this variable has the id of its run. With the id fnd knows which run calls, and where it
        // stands in the chain of calls.
        let invocation = std::env::var("FND_INVOCATION").ok();
        Self {
            path,
            user,
            // A text that cannot be a header is no id of a run.
            invocation: invocation.and_then(|id| HeaderValue::try_from(id).ok()),
        }
    }

    /// Returns the answer to a GET.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn get(&self, path: &str) -> Result<Reply, ClientFailure> {
        self.send(request(Method::GET, path, &[], Bytes::new())?).await
    }

    /// Returns the answer to a POST without body.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn post(&self, path: &str) -> Result<Reply, ClientFailure> {
        self.send(request(Method::POST, path, &[], Bytes::new())?).await
    }

    /// Returns the answer to a request.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn send(&self, request: Outgoing) -> Result<Reply, ClientFailure> {
        let Streaming { response, connection } = self.open(request).await?;
        let (parts, body) = response.into_parts();
        let body = self.whole(body).await?;
        // The task of the connection moves the bytes of the body: dropped earlier, it would cut the body off.
        drop(connection);
        Ok(Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        })
    }

    /// Returns an answer whose body comes piece by piece: one JSON object on each line.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn stream(&self, path: &str) -> Result<BodyPieces, ClientFailure> {
        let lines = [("accept".to_owned(), "application/x-ndjson".to_owned())];
        self.pieces(request(Method::GET, path, &lines, Bytes::new())?).await
    }

    /// Returns an answer whose body comes piece by piece, in the form that the request accepts.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn pieces(&self, request: Outgoing) -> Result<BodyPieces, ClientFailure> {
        let Streaming { response, connection } = self.open(request).await?;
        Ok(BodyPieces {
            body: response.into_body(),
            kept: Vec::new(),
            _connection: connection,
        })
    }

    /// Returns the size of an answer that is a file, and its bytes piece by piece.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn download(&self, path: &str) -> Result<(u64, BodyPieces), ClientFailure> {
        let pieces = self.pieces(request(Method::GET, path, &[], Bytes::new())?).await?;
        // The header of an archive's entry states the length, and it is written before the bytes.
        let size = hyper::body::Body::size_hint(&pieces.body).exact();
        let size = size.ok_or_else(|| ClientFailure::not_reached("fnd's answer does not state its length"))?;
        Ok((size, pieces))
    }

    async fn open(&self, mut request: Outgoing) -> Result<Streaming, ClientFailure> {
        if let Some(id) = &self.invocation {
            let headers = request.headers_mut();
            headers.entry("fnd-invocation").or_insert_with(|| id.clone());
        }
        let (mut sender, connection) = self.connect().await?;
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| self.broke_off(&error))?;
        // With `Fnd-State` the function chose the status: it is no refusal.
        if response.status().is_success() || response.headers().contains_key("fnd-state") {
            return Ok(Streaming { response, connection });
        }
        let status = response.status();
        let body = self.whole(response.into_body()).await?;
        Err(match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => ClientFailure::Refused(Box::new(problem)),
            // Every refusal of fnd is a problem document, so another program listens there.
            Err(_) => {
                let path = self.path.display();
                ClientFailure::not_reached(format!(
                    "the server at `{path}` is not fnd: it answered {status} without a problem document"
                ))
            }
        })
    }

    async fn whole(&self, body: Incoming) -> Result<Bytes, ClientFailure> {
        let collected = body.collect().await.map_err(|error| self.broke_off(&error))?;
        Ok(collected.to_bytes())
    }

    async fn connect(&self) -> Result<(SendRequest<Full<Bytes>>, JoinSet<()>), ClientFailure> {
        let stream = UnixStream::connect(&self.path)
            .await
            .map_err(|error| self.unreachable(&error))?;
        let handshake = http1::handshake(TokioIo::new(Patient::new(stream))).await;
        let (sender, connection) = handshake.map_err(|error| self.broke_off(&error))?;
        // A `JoinSet` aborts its tasks when it is dropped: the connection ends together with the answer.
        let mut owner = JoinSet::new();
        owner.spawn(async move {
            // The caller that waits for the answer sees the same error.
            let _ = connection.await;
        });
        Ok((sender, owner))
    }

    fn unreachable(&self, error: &std::io::Error) -> ClientFailure {
        let path = self.path.display();
        match error.kind() {
            ErrorKind::PermissionDenied => ClientFailure::NotAllowed {
                message: format!("you may not use the control socket `{path}`"),
                help: NO_ACCESS,
            },
            ErrorKind::NotFound => self.is_it_running(format!("there is no control socket `{path}`")),
            // The file of the socket stays when its process is killed.
            ErrorKind::ConnectionRefused => {
                self.is_it_running(format!("no process listens on the control socket `{path}`"))
            }
            _ => self.is_it_running(format!("failed to connect to the control socket `{path}`: {error}")),
        }
    }

    fn is_it_running(&self, message: String) -> ClientFailure {
        let start = if self.user {
            "`systemctl --user status fnd`, `fnd --user`"
        } else {
            "`systemctl status fnd`"
        };
        ClientFailure::not_reached(message).help(format!(
            "is fnd running? {start}, or `make run` in a checkout; another socket is named with --socket or FND_SOCKET"
        ))
    }

    fn broke_off(&self, error: &hyper::Error) -> ClientFailure {
        let path = self.path.display();
        ClientFailure::not_reached(format!("the connection to `{path}` broke off: {error}"))
            .help("fnd may have stopped; `fndctl history` shows whether it accepted the request")
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A connection that can still be read when the other end accepts no more bytes. If a body is too large, fnd refuses it
/// before it has read all of it. Without this type the caller would see a broken pipe instead of fnd's reason.
struct Patient {
    stream: UnixStream,
    /// The other end accepts no more bytes.
    is_deaf: bool,
    /// The reader that polled before the request was written. fnd refuses a connection over its limit before it reads a
    /// request, but hyper accepts no answer that comes before its request, so the reader waits.
    early: Option<Waker>,
    has_asked: bool,
}

impl Patient {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            is_deaf: false,
            early: None,
            has_asked: false,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.has_asked {
            self.early = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            // Bytes that fnd left unread reset the connection (unix(7)); fnd's whole answer was read by then.
            Poll::Ready(Err(error)) if self.is_deaf && error.kind() == ErrorKind::ConnectionReset => {
                Poll::Ready(Ok(()))
            }
            read => read,
        }
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.has_asked = true;
        if let Some(early) = self.early.take() {
            early.wake();
        }
        // An error here would make hyper end the connection with fnd's answer unread. So the rest of the body counts as
        // sent.
        if self.is_deaf {
            return Poll::Ready(Ok(bytes.len()));
        }
        match Pin::new(&mut self.stream).poll_write(cx, bytes) {
            Poll::Ready(Err(error)) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                self.is_deaf = true;
                Poll::Ready(Ok(bytes.len()))
            }
            took => took,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// An answer that has begun, and the task that drives its connection.
struct Streaming {
    response: Response<Incoming>,
    connection: JoinSet<()>,
}

/// A body that comes piece by piece.
pub struct BodyPieces {
    body: Incoming,
    kept: Vec<u8>,
    _connection: JoinSet<()>,
}

impl BodyPieces {
    /// Returns the next bytes; `None` after the last.
    ///
    /// # Errors
    /// The connection breaks off.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, ClientFailure> {
        loop {
            match self.body.frame().await {
                // Only `None` means the end, so a frame without bytes (trailers, for example) must not look like it.
                None => return Ok(None),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => {}
                },
                Some(Err(error)) => {
                    return Err(ClientFailure::not_reached(format!(
                        "the connection to fnd broke off: {error}"
                    )));
                }
            }
        }
    }

    /// Returns the next line that is not empty, without its end; `None` after the last.
    ///
    /// # Errors
    /// The connection breaks off.
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>, ClientFailure> {
        loop {
            while let Some(end) = self.kept.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.kept.drain(..=end).collect();
                line.pop();
                // The API may send empty lines, which have no meaning (openapi.json).
                if !line.is_empty() {
                    return Ok(Some(line));
                }
            }
            match self.piece().await? {
                None if self.kept.is_empty() => return Ok(None),
                // The last line may have no line end.
                None => return Ok(Some(std::mem::take(&mut self.kept))),
                // Cancel-safe: bytes of an unfinished line stay in `kept` until the next call.
                Some(data) => self.kept.extend(data),
            }
        }
    }
}

/// Returns a request.
///
/// # Errors
/// A header, the method or the path is not valid in HTTP.
pub fn request(
    method: Method,
    path: &str,
    headers: &[(String, String)],
    body: Bytes,
) -> Result<Outgoing, ClientFailure> {
    // HTTP/1.1 requires a host; a socket has none, so any name will do.
    let mut request = Request::builder().method(method).uri(path).header(HOST, "fnd");
    for (name, value) in headers {
        request = request.header(name.as_str(), value.as_str());
    }
    request
        .body(Full::new(body))
        .map_err(|error| ClientFailure::BadRequest(format!("this request is not valid in HTTP: {error}")))
}

/// Advice for a user whom the mode of the control socket keeps out.
const NO_ACCESS: &str = "run it with sudo; or, to operate every function, add yourself to group fnd: `sudo usermod -aG fnd $USER`, then \
                         log in again; or, for the functions of a team, ask for an entry in [[access]] of fnd.toml and `SocketMode=0666` \
                         in fnd.socket (docs/team.md)";

/// All characters except RFC 3986's unreserved ones.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns a text for use in a path or parameter, percent-encoded.
#[must_use]
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_one_segment() {
        assert_eq!(super::encode("ops/backup"), "ops%2Fbackup");
        assert_eq!(super::encode("a b+é?&="), "a%20b%2B%C3%A9%3F%26%3D");
    }
}
