//! Serves the API on the control socket: it decides who may connect, and how a request is answered.

use super::backend::Backend;
use super::limits::{CONNECTIONS_OF_ONE, LIMITS};
use super::peer::{Access, Peer};
use super::routes;
use crate::buffers::Buffers;
use crate::http::connections::{Connection, Connections, Full};
use crate::http::limits::Limits;
use crate::http::response::Answered;
use crate::http::server::{self, Service, Stop};
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_manifest::settings::Role;
use hyper::Request;
use hyper::body::Incoming;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::{UnixListener, UnixStream};

/// Returns a future that serves the API until it is stopped, and the handle that stops it. `access` may change
/// meanwhile; a connection keeps the role that it had when it was made. The future must run where tasks can be
/// [spawned locally](tokio::task::spawn_local).
pub fn serve(
    listener: UnixListener,
    backend: Rc<dyn Backend>,
    access: Rc<RefCell<Access>>,
) -> (impl Future<Output = ()>, Stop) {
    let (connections, buffers) = (backend.connections(), backend.buffers());
    let api = ControlApi {
        backend,
        access,
        connections,
        buffers,
    };
    server::serve("the control socket".to_owned(), listener, api)
}

struct ControlApi {
    backend: Rc<dyn Backend>,
    access: Rc<RefCell<Access>>,
    connections: Rc<Connections>,
    buffers: Arc<Buffers>,
}

impl Service for ControlApi {
    type Listener = UnixListener;
    type Caller = (Peer, Option<Role>);
    const LIMITS: Limits = LIMITS;

    fn admit(&self, stream: &UnixStream) -> Option<(Self::Caller, Rc<Connection>)> {
        let peer = match Peer::of(stream) {
            Ok(peer) => peer,
            Err(error) => {
                tracing::warn!("failed to get the user of a connection to the control socket: {error}, closing it");
                return None;
            }
        };
        match self.connections.admit(peer.uid) {
            Ok(place) => {
                let role = self.access.borrow().role(&peer);
                Some(((peer, role), place))
            }
            Err(full) => {
                refuse(stream, full);
                None
            }
        }
    }

    async fn answer(&self, (peer, role): &Self::Caller, request: Request<Incoming>) -> Answered {
        let answer = routes::answer(Rc::clone(&self.backend), peer, *role, request).await;
        crate::http::response::count(answer, &self.buffers).await
    }

    fn ended(&self, (peer, _): &Self::Caller, error: &hyper::Error) {
        // The client went away, was too slow, or did not speak HTTP: not a fault of fnd.
        tracing::debug!(
            uid = peer.uid,
            pid = peer.pid,
            "a connection of the control socket ended: {error}"
        );
    }
}

/// Refuses the connection because of too many others, if that can be written at once.
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
        assert_eq!(problem.code, fnd_core::api::problem::Code::TooManyConnections.as_str());
    }
}
