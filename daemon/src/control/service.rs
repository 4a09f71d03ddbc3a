//! Serves the API on the control socket: it decides who may connect, and how a request is answered.

use super::limits::{CONNECTIONS_OF_ONE, LIMITS};
use super::routes;
use crate::backend::Backend;
use crate::http::connections::{ConnectionOwner, Full, HttpConnection};
use crate::http::limits::HttpLimits;
use crate::http::listen::Listeners;
use crate::http::listen::socket::AcceptedConnection;
use crate::http::response::{Answered, Refusal, refuse_for_now};
use crate::http::server::{self, HttpService, ServerStop};
use crate::peer::{Peer, PeerAccess};
use fnd_core::access::Permissions;
use fnd_core::api::problem::Code;
use hyper::Request;
use hyper::body::Incoming;
use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;

/// Returns a future that serves the API until it is stopped, and the handle that stops it. `access` may change
/// meanwhile; a connection keeps the roles that it had when it was made. The future must run where tasks can be
/// [spawned locally](tokio::task::spawn_local).
pub(crate) fn serve(
    listeners: impl Into<Listeners>,
    backend: Rc<Backend>,
    access: Rc<RefCell<PeerAccess>>,
) -> (impl Future<Output = ()>, ServerStop) {
    let api = ControlApi { backend, access };
    server::serve("the control socket".to_owned(), listeners.into(), api)
}

struct ControlApi {
    backend: Rc<Backend>,
    access: Rc<RefCell<PeerAccess>>,
}

impl HttpService for ControlApi {
    type Caller = (Peer, Permissions);

    const LIMITS: HttpLimits = LIMITS;

    fn admit(&self, accepted: &AcceptedConnection) -> Result<(Self::Caller, Rc<HttpConnection>), Option<Refusal>> {
        let peer = peer_of(accepted, &"the control socket")?;
        let admitted = self.backend.connections().admit(ConnectionOwner::User(peer.uid));
        let place = admitted.map_err(|full| Some(too_many(full)))?;
        let reach = self.access.borrow().reach(&peer);
        Ok(((peer, reach), place))
    }

    async fn answer(&self, (peer, reach): &Self::Caller, request: Request<Incoming>) -> Answered {
        let answer = routes::answer(Rc::clone(&self.backend), peer, (reach, None), request).await;
        crate::http::response::count(answer, &self.backend.buffers()).await
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

/// Returns the peer of a connection to a socket. Without a peer that the kernel knows, it is closed.
pub(super) fn peer_of(accepted: &AcceptedConnection, socket: &dyn Display) -> Result<Peer, Option<Refusal>> {
    Peer::of(accepted.unix().ok_or(None)?).map_err(|error| {
        tracing::warn!("failed to get the user of a connection to {socket}: {error}, closing it");
        None
    })
}

/// Returns the refusal of a connection because of too many others.
pub(super) fn too_many(full: Full) -> Refusal {
    let detail = match full {
        Full::All => "too many connections are open, and each of them waits for an answer".to_owned(),
        Full::One(owner) => format!(
            "{owner} has {CONNECTIONS_OF_ONE} connections open, which is the most for one, and each of them waits for \
             an answer"
        ),
    };
    refuse_for_now(Code::TooManyConnections, detail)
}
