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

use super::backend::Backend;
use super::granted::FunctionPermissions;
use super::limits::LIMITS;
use super::peer::Peer;
use super::routes;
use super::service::too_many;
use crate::buffers::Buffers;
use crate::http::connections::{ConnectionOwner, Connections, HttpConnection};
use crate::http::limits::HttpLimits;
use crate::http::listen::Listeners;
use crate::http::listen::socket::AcceptedConnection;
use crate::http::listen::unix;
use crate::http::response::{Answered, Refusal, count, problem, refuse};
use crate::http::server::{self, HttpService, ServerStop};
use fnd_core::access::Permissions;
use fnd_core::api::problem::Code;
use fnd_manifest::settings::Role;
use fnd_wire::ids::{FunctionId, FunctionName};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyper::Request;
use hyper::body::Incoming;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::sync::Notify;

/// The file name of a socket, as in [`SOCKET`](fnd_wire::plan::SOCKET).
const NAME: &str = "fnd.sock";

/// Every user may connect who reaches the socket; the service checks its peers.
const MODE: u32 = 0o666;

/// The sockets of functions.
#[derive(Debug, Default)]
pub(crate) struct FunctionSockets {
    /// The directory of their directories.
    dir: Option<PathBuf>,
    open: RefCell<BTreeMap<FunctionName, PathBuf>>,
    /// Sockets that are not served yet, and functions whose socket is closed.
    changes: RefCell<Vec<(FunctionName, Option<UnixListener>)>>,
    changed: Notify,
    stopped: Cell<bool>,
}

impl FunctionSockets {
    /// Returns no sockets yet. `http` is the spawner's directory for the sockets of programs that serve HTTP.
    pub(crate) fn new(http: &std::path::Path) -> Self {
        Self {
            dir: http.parent().map(|run| run.join("api")),
            ..Self::default()
        }
    }

    /// Listens for a function, or no longer. Must run in a runtime.
    pub(crate) fn set(&self, function: &FunctionName, id: Option<FunctionId>) {
        let path = id.and_then(|id| Some(self.dir.as_ref()?.join(id.0.to_string()).join(NAME)));
        // A new version of the function keeps the socket, and its processes keep their connections.
        if self.open.borrow().get(function) == path.as_ref() {
            return;
        }
        if let Some(before) = self.open.borrow_mut().remove(function) {
            let _ = std::fs::remove_file(before); // without a server it does no harm
            // Before the entry of a new socket: `serve` stops the server of this name, which would else be the new one.
            self.changes.borrow_mut().push((function.clone(), None));
        }
        if let Some(path) = path {
            match unix::bind(&path, MODE, None) {
                Ok(listener) => {
                    self.open.borrow_mut().insert(function.clone(), path);
                    self.changes.borrow_mut().push((function.clone(), Some(listener)));
                }
                Err(error) => {
                    let (path, error) = (path.display(), crate::chain(&error));
                    tracing::warn!(%function, "no socket for `[access]` of {function}: `{path}`: {error}; its calls fail");
                }
            }
        }
        self.changed.notify_one();
    }

    /// Stops the server of the sockets.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        self.changed.notify_one();
    }
}

/// Serves the sockets until they are stopped. Must run where tasks can be spawned locally.
pub(crate) async fn serve(sockets: Rc<FunctionSockets>, backend: Rc<dyn Backend>) {
    let mut servers = FuturesUnordered::new();
    let mut stops: BTreeMap<FunctionName, ServerStop> = BTreeMap::new();
    while !sockets.stopped.get() {
        for (function, listener) in sockets.changes.take() {
            stops.remove(&function); // which stops its server
            let Some(listener) = listener else { continue };
            let api = FunctionApi {
                function: function.clone(),
                connections: backend.connections(),
                buffers: backend.buffers(),
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
    while servers.next().await.is_some() {}
}

/// The API at the socket of one function.
struct FunctionApi {
    function: FunctionName,
    backend: Rc<dyn Backend>,
    connections: Rc<Connections>,
    buffers: Arc<Buffers>,
}

impl HttpService for FunctionApi {
    type Caller = Peer;

    fn limits(&self) -> HttpLimits {
        LIMITS
    }

    fn admit(&self, accepted: &AcceptedConnection) -> Result<(Self::Caller, Rc<HttpConnection>), Option<Refusal>> {
        let function = &self.function;
        let peer = Peer::of(accepted.unix().ok_or(None)?).map_err(|error| {
            tracing::warn!("failed to get the user of a connection to the socket of {function}: {error}, closing it");
            None
        })?;
        let uid = self.backend.access(function).map(|(uid, _)| uid);
        if uid != Some(peer.uid) {
            let detail = format!("this is the socket of `{function}`, and only the user of that function may use it");
            let refusal = refuse(Code::NotAllowed, detail);
            routes::refused_at_socket(&self.backend, &peer, function, &refusal);
            return Err(Some(refusal));
        }
        // After the check of the user, so that others take no place of the function's user.
        let place = self.connections.admit(ConnectionOwner::User(peer.uid));
        Ok((peer, place.map_err(|full| Some(too_many(full)))?))
    }

    async fn answer(&self, peer: &Self::Caller, request: Request<Incoming>) -> Answered {
        let granted = self
            .backend
            .access(&self.function)
            .map(|(_, manifest)| FunctionPermissions {
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
                let refusal = refuse(Code::NotAllowed, "the function is gone");
                routes::refused_at_socket(&self.backend, peer, &self.function, &refusal);
                problem(&refusal)
            }
        };
        count(answer, &self.buffers).await
    }

    fn ended(&self, peer: &Self::Caller, error: &hyper::Error) {
        // The function's process has ended, or did not speak HTTP: not a fault of fnd.
        let function = &self.function;
        tracing::debug!(pid = peer.pid, %function, "a connection of the socket of {function} ended: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileTypeExt as _;

    fn name(text: &str) -> FunctionName {
        FunctionName::new(text).unwrap()
    }

    #[tokio::test]
    async fn a_socket_is_there_while_its_function_may_call() {
        let run = tempfile::tempdir().unwrap();
        let dir = run.path().join("api/7");
        std::fs::create_dir_all(&dir).unwrap();
        let sockets = FunctionSockets::new(&run.path().join("http"));
        let is_there = || std::fs::symlink_metadata(dir.join(NAME)).is_ok_and(|meta| meta.file_type().is_socket());
        sockets.set(&name("a"), Some(FunctionId(7)));
        assert!(is_there());
        sockets.set(&name("a"), Some(FunctionId(7)));
        assert_eq!(sockets.changes.borrow().len(), 1, "the same again changes nothing");
        sockets.set(&name("a"), None);
        assert!(!is_there());
        assert_eq!(sockets.changes.borrow().len(), 2);
        // The spawner made no directory for it.
        sockets.set(&name("b"), Some(FunctionId(8)));
        assert!(sockets.open.borrow().is_empty());
    }

    #[tokio::test]
    async fn the_socket_of_an_earlier_fnd_is_replaced_and_a_file_is_not() {
        let run = tempfile::tempdir().unwrap();
        let dir = run.path().join("api/7");
        std::fs::create_dir_all(&dir).unwrap();
        let make = || FunctionSockets::new(&run.path().join("http"));
        let earlier = make();
        earlier.set(&name("a"), Some(FunctionId(7)));
        drop(earlier);
        let next = make();
        next.set(&name("a"), Some(FunctionId(7)));
        assert_eq!(next.open.borrow().len(), 1);
        drop(next);
        std::fs::remove_file(dir.join(NAME)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.join(NAME)).unwrap();
        let other = make();
        other.set(&name("a"), Some(FunctionId(7)));
        assert!(other.open.borrow().is_empty(), "a link is not followed");
    }
}
