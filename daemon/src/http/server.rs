//! The accept loop: a limited number of HTTP/1.1 connections, each with the role of its peer, until the server is
//! stopped.

use super::connections::{Connection, Connections, Full};
use super::framing::Wrong;
use super::limits::{CONNECTIONS_OF_ONE, HEAD_MAX, HEAD_TIME, HEADERS_MAX, READ_MAX, SILENCE_MAX, STOP_TIME};
use super::line::{Io, Line};
use super::response::{Answered, INVOCATION, no_room, problem, refuse as refuse_request};
use crate::buffers::Buffers;
use crate::control::backend::Backend;
use crate::control::peer::{Access, Peer};
use crate::control::routes;
use fnd_core::api::Problem;
use fnd_core::problem::Code;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Stops a server, on request or when this is dropped.
#[derive(Debug)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    /// Stops the server: it accepts no new connections, and requests that are being answered have [`STOP_TIME`] left.
    pub fn now(&self) {
        self.0.send_replace(true);
    }
}

/// The control server.
pub struct Server {
    listener: UnixListener,
    shared: Rc<Shared>,
    stop: watch::Receiver<bool>,
}

/// The parts that every connection shares.
struct Shared {
    backend: Rc<dyn Backend>,
    access: Rc<RefCell<Access>>,
    connections: Rc<Connections>,
    buffers: Arc<Buffers>,
}

impl Server {
    /// Returns a server and the handle that stops it. `access` may change while the server runs; a connection keeps the
    /// role that it had when it was made.
    #[must_use]
    pub fn new(listener: UnixListener, backend: Rc<dyn Backend>, access: Rc<RefCell<Access>>) -> (Self, Stop) {
        let (sender, stop) = watch::channel(false);
        let (connections, buffers) = (backend.connections(), backend.buffers());
        let shared = Shared {
            backend,
            access,
            connections,
            buffers,
        };
        (
            Self {
                listener,
                shared: Rc::new(shared),
                stop,
            },
            Stop(sender),
        )
    }

    /// Serves until it is stopped. Must run where tasks can be [spawned locally](tokio::task::spawn_local).
    pub async fn run(self) {
        let mut tasks = JoinSet::new();
        let mut stop = self.stop.clone();
        loop {
            tokio::select! {
                // Cancel-safe: a connection is either accepted or still in the backlog.
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => self.admit(stream, &mut tasks),
                    Err(error) => {
                        tracing::warn!("failed to accept on the control socket: {error}, trying again");
                        // The likely cause is a lack of descriptors, and no event reports that descriptors are free
                        // again.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                // Cancel-safe: a finished task stays in the set until it is taken. A panic ends only its own
                // connection.
                Some(ended) = tasks.join_next() => if let Err(error) = ended {
                    tracing::error!("a connection of the control socket ended in a panic: {error}");
                },
                // Cancel-safe: only reads the value. A dropped sender also stops the server.
                () = stopped(&mut stop) => break,
            }
        }
        drop(self.listener);
        let answered = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIME, answered).await.is_err() {
            tracing::info!(
                "{} connections of the control socket were still in use, closing them",
                tasks.len()
            );
        }
    }

    fn admit(&self, stream: UnixStream, tasks: &mut JoinSet<()>) {
        let peer = match Peer::of(&stream) {
            Ok(peer) => peer,
            Err(error) => {
                tracing::warn!("failed to tell who connected to the control socket: {error}, closing");
                return;
            }
        };
        match self.shared.connections.admit(peer.uid) {
            Ok(place) => {
                tasks.spawn_local(serve(stream, peer, place, Rc::clone(&self.shared), self.stop.clone()));
            }
            Err(full) => refuse(&stream, full),
        }
    }
}

/// Waits until the server is stopped or the sender is dropped.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The return value borrows the channel's value: if it were kept while a connection ends, it would block a second
    // stop.
    drop(stop.wait_for(|stop| *stop).await);
}

/// Refuses the connection because of too many others, if that can be written at once, and closes it.
fn refuse(stream: &UnixStream, full: Full) {
    let detail = match full {
        Full::All => "too many connections are open, and each of them waits for an answer".to_owned(),
        Full::User(uid) => format!(
            "your user ({uid}) has {CONNECTIONS_OF_ONE} connections open, which is the most for one user, and each of \
             them waits for an answer"
        ),
    };
    let problem = Problem::new(Code::TooManyConnections, detail);
    // A problem consists of plain text and numbers, so this cannot fail; if it did, the status would still be correct.
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let refusal = format!(
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    // A client that does not get it sees the connection close, which means the same.
    let _ = stream.try_write(refusal.as_bytes());
}

/// Serves one connection until it ends.
async fn serve(
    stream: UnixStream,
    peer: Peer,
    place: Rc<Connection>,
    shared: Rc<Shared>,
    mut stop: watch::Receiver<bool>,
) {
    let role = shared.access.borrow().role(&peer);
    let line = Line::new(stream);
    let service = service_fn(|request| {
        let busy = place.busy();
        let backend = Rc::clone(&shared.backend);
        let (peer, line, buffers) = (&peer, &line, &shared.buffers);
        async move {
            let mut response = match line.next_request() {
                None => routes::answer(backend, peer, role, request).await,
                Some(wrong) => malformed(wrong),
            };
            if let Err(error) = response.body_mut().count(buffers).await {
                // A run has ended nevertheless: its id tells the caller where to get the answer later.
                let id = response.headers_mut().remove(INVOCATION);
                response = problem(&no_room("the answer", &error));
                if let Some(id) = id {
                    response.headers_mut().insert(INVOCATION, id);
                }
            }
            line.answers_whole(response.body().is_whole());
            response.body_mut().hold(busy);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_MAX)
        // hyper's default is 400 KiB: with many large bodies at once this would be as much as all of them may use.
        .max_buf_size(READ_MAX)
        // A client such as `nc -N` may close its half after the request and still read the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(Io(Rc::clone(&line))), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        // A request to close comes first, so that a request that arrives at the same moment is not begun.
        biased;
        // The connection is idle or only follows, so no answer is lost.
        () = place.evicted() => return,
        ended = connection.as_mut() => ended,
        // The client has gone. The future that waits for its answer is dropped, and this tells the supervisor.
        () = line.hung_up(&place) => return,
        // Only waits, and then checks.
        () = silent(&line) => return place.was_silent(),
        // Only reads the value.
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // The client went away, was too slow, or did not speak HTTP: not a fault of fnd.
        tracing::debug!(
            uid = peer.uid,
            pid = peer.pid,
            "a connection of the control socket ended: {error}"
        );
    }
}

/// Returns the answer to a request whose beginning or end is ambiguous; the connection ends with this answer.
fn malformed(wrong: Wrong) -> Answered {
    let mut answer = problem(&refuse_request(Code::BadRequest, wrong.to_string()));
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(hyper::header::CONNECTION, close);
    answer
}

/// Resolves if the client sends nothing after connecting.
async fn silent(line: &Line) {
    tokio::time::sleep(SILENCE_MAX).await;
    if line.was_heard() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn the_refusal_is_whole() {
        use tokio::io::AsyncReadExt as _;
        let (here, mut there) = tokio::net::UnixStream::pair().unwrap();
        super::refuse(&here, super::Full::User(1000));
        drop(here);
        let mut text = String::new();
        there.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{text}");
        let problem: fnd_core::api::Problem = serde_json::from_str(body).unwrap();
        assert_eq!(problem.code, fnd_core::problem::Code::TooManyConnections.as_str());
    }
}
