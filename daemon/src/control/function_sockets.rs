//! The sockets of functions with `[access]`: at its own, each function reaches the part of the API that its manifest names.
//!
//! The spawner makes the directory of a socket ([`SOCKET`](fnd_wire::plan::SOCKET)), which only fnd and the function's
//! group may enter, and shows it in the function's sandbox. So a socket that the next fnd makes is at the same place for
//! a function that runs on. The peer must be the function's user; where functions share a user, the socket alone says
//! which function it is.
//!
//! ```text
//! version installed ─▶ FunctionSockets::set ─▶ listens ─▶ serve ─▶ FunctionApi ─▶ routes (granted.rs)
//! ```

use super::call::RequestingFunction;
use super::limits::LIMITS;
use super::routes;
use super::service::{peer_of, too_many};
use crate::backend::Backend;
use crate::functions::api_sockets::FunctionSockets;
use crate::http::connections::{ConnectionOwner, HttpConnection};
use crate::http::limits::HttpLimits;
use crate::http::listen::Listeners;
use crate::http::listen::socket::AcceptedConnection;
use crate::http::response::{Answered, Refusal, count, problem, refuse};
use crate::http::server::{self, HttpService, ServerStop};
use crate::peer::Peer;
use fnd_core::access::Permissions;
use fnd_core::api::problem::Code;
use fnd_manifest::settings::Role;
use fnd_wire::ids::FunctionName;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyper::Request;
use hyper::body::Incoming;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Serves the sockets until they are stopped. Must run where tasks can be spawned locally.
pub(crate) async fn serve(sockets: Rc<FunctionSockets>, backend: Rc<Backend>) {
    let mut servers = FuturesUnordered::new();
    let mut stops: BTreeMap<FunctionName, ServerStop> = BTreeMap::new();
    while !sockets.stopped.get() {
        for (function, listener) in sockets.changes.take() {
            stops.remove(&function); // which stops its server
            let Some(listener) = listener else { continue };
            let api = FunctionApi {
                function: function.clone(),
                backend: Rc::clone(&backend),
            };
            let (server, stop) = server::serve(format!("the socket of {function}"), Listeners::from(listener), api);
            servers.push(server);
            stops.insert(function, stop);
        }
        tokio::select! {
            // Cancel-safe: a notification that came before is kept.
            () = sockets.changed.notified() => {}
            // Cancel-safe: the servers go on with the next poll. One that has ended was stopped.
            Some(()) = servers.next() => {}
        }
    }
    stops.clear();
    // A stopped server still answers the requests that it has begun; its future ends after them.
    while servers.next().await.is_some() {}
}

/// The API at the socket of one function.
struct FunctionApi {
    function: FunctionName,
    backend: Rc<Backend>,
}

impl HttpService for FunctionApi {
    type Caller = Peer;

    const LIMITS: HttpLimits = LIMITS;

    fn admit(&self, accepted: &AcceptedConnection) -> Result<(Self::Caller, Rc<HttpConnection>), Option<Refusal>> {
        let function = &self.function;
        let peer = peer_of(accepted, &format_args!("the socket of {function}"))?;
        let uid = self.backend.access(function).map(|(uid, _)| uid);
        if uid != Some(peer.uid) {
            let detail = format!("this is the socket of `{function}`, and only the user of that function may use it");
            let refusal = refuse(Code::NotAllowed, detail);
            routes::refused_at_socket(&self.backend, &peer, function, &refusal);
            return Err(Some(refusal));
        }
        // After the check of the user, so that others take no place of the function's user.
        let place = self.backend.connections().admit(ConnectionOwner::User(peer.uid));
        Ok((peer, place.map_err(|full| Some(too_many(full)))?))
    }

    async fn answer(&self, peer: &Self::Caller, request: Request<Incoming>) -> Answered {
        // Asked for each request and not once for a connection: another version of the function may have another
        // `[access]`.
        let granted = self
            .backend
            .access(&self.function)
            .map(|(_, manifest)| RequestingFunction {
                function: self.function.clone(),
                manifest,
            });
        let answer = match granted {
            Some(granted) => {
                // `granted` checks each request.
                let reach = Permissions::everywhere(Role::Operator);
                routes::answer(Rc::clone(&self.backend), peer, (&reach, Some(granted)), request).await
            }
            None => {
                // The server of a function that is gone stops, but open connections may still bring requests for a
                // moment.
                let refusal = refuse(Code::NotAllowed, "the function is gone");
                routes::refused_at_socket(&self.backend, peer, &self.function, &refusal);
                problem(&refusal)
            }
        };
        count(answer, &self.backend.buffers()).await
    }

    fn ended(&self, peer: &Self::Caller, error: &hyper::Error) {
        // The function's process has ended, or did not speak HTTP: not a fault of fnd.
        let function = &self.function;
        tracing::debug!(pid = peer.pid, %function, "a connection of the socket of {function} ended: {error}");
    }
}
