//! Workers that serve HTTP themselves: checks whether they are ready, sends them their calls as requests, and reads
//! their last answers at their end.
//!
//! A caller that waits gets the answer as it comes, and its body goes to the worker as it comes. Only the buffers of
//! sockets hold parts of either, so a slow reader slows the worker down. Body and answer are kept whole where no
//! connection waits for them (queued work) and where the call may be retried.
//!
//! Files:
//! - `address`: the address of a worker that serves HTTP: a port of the loopback, or a Unix socket in a directory of
//!   its own
//! - `closable`: a connection that fnd can close while its request is answered
//! - `call`: one call: its request, its answer, and how it ended
//! - `endpoint`: the endpoint of a worker that serves HTTP
//! - `exchange`: sends one request to a worker that serves HTTP and receives the answer
//! - `key`: the key by which a worker that serves HTTP recognizes fnd's requests
//! - `readiness`: checks whether a worker is ready

pub mod address;
mod call;
mod closable;
pub mod endpoint;
pub mod exchange;
pub mod key;
mod readiness;

use crate::http::paced::Paced;
use crate::http::streaming_body::Headed;
use crate::input::{Input, TaskOwner};
use crate::workers::Workers;
use crate::workers::http::address::Address;
use crate::workers::http::call::EXIT_WAIT;
use crate::workers::http::closable::RequestCloser;
use crate::workers::http::endpoint::Endpoint;
use crate::workers::http::key::WorkerKey;
use fnd_core::run::{CallOrder, FunctionKind, Rules};
use fnd_manifest::function::Listen;
use fnd_wire::frame::Exited;
use fnd_wire::ids::WorkerId;
use hyper::header::HeaderValue;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

/// How long the answers that a worker left in its sockets are read after its end. Only a caller that does not read
/// takes longer.
const READ_OUT_MAX: Duration = Duration::from_millis(500);
/// How long the end of an answer that only the end of its connection shows is held back, until the worker's death would be
/// known or its socket would be closed: the kernel closes the sockets of a process in one go, but on a busy machine the process may lose
/// the CPU in between.
const DEATH_SHOWS: Duration = Duration::from_millis(30);
/// The same where no caller waits for it.
const DEATH_SHOWS_LATER: Duration = Duration::from_millis(300);
/// How long a connection to a worker may take that shows whether it still listens.
const LISTENS_MAX: Duration = Duration::from_millis(500);

/// A caller's request on its way to a worker.
pub(crate) struct Upload {
    /// The body that the caller sends.
    pub(crate) body: Paced,
    /// Most bytes of the body.
    pub(crate) limit: u64,
    /// The protocol that the caller asks for instead of HTTP. It belongs to the caller's connection, so a record has no
    /// such thing, and a repeated call asks for none.
    pub(crate) upgrade: Option<HeaderValue>,
    /// The channel for the answer.
    pub(crate) answer: oneshot::Sender<Headed>,
}

/// A worker that serves HTTP.
pub(crate) struct Server {
    /// The user it runs as, where that is known.
    user: Option<u32>,
    /// The address and key; without an address until the worker has named it.
    endpoint: RefCell<Endpoint>,
    /// How many requests are being answered.
    open: Cell<usize>,
    /// Closes the connections of requests that are being answered, by call.
    closers: RefCell<HashMap<u64, Arc<RequestCloser>>>,
    /// Whether the worker has ended. Also signals each change of `open`.
    ended: watch::Sender<bool>,
    /// Whether fnd has begun to end the worker.
    is_ending: Cell<bool>,
}

/// A task that checks whether a worker is ready.
pub(crate) struct ReadinessProbe(AbortHandle);

impl Drop for ReadinessProbe {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Server {
    pub(crate) fn new(user: Option<u32>, endpoint: Endpoint) -> Rc<Self> {
        Rc::new(Self {
            user,
            endpoint: RefCell::new(endpoint),
            open: Cell::new(0),
            closers: RefCell::default(),
            ended: watch::channel(false).0,
            is_ending: Cell::new(false),
        })
    }

    /// Returns the address and key.
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint.borrow().clone()
    }

    /// Closes the connection of a request, as if its caller had left.
    pub(crate) fn close_request(&self, call: u64) {
        if let Some(closer) = self.closers.borrow_mut().remove(&call) {
            closer.close();
        }
    }

    /// Returns whether no request is being answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.open.get() == 0
    }

    /// Returns whether a worker seems to have died whose connection has ended. The end of a connection says nothing by itself: the
    /// kernel closes the sockets of a process that is killed as the process would, all at about the same time. So the worker
    /// is dead or dying if it does not listen any more.
    async fn seems_dead(&self, shows: Duration) -> bool {
        // The flag is read twice, because fnd may begin to end the worker during the wait.
        if self.is_ending.get() || self.ends_within(shows).await || self.is_ending.get() {
            return true;
        }
        let Some(address) = self.endpoint().address else {
            return false;
        };
        match tokio::time::timeout(LISTENS_MAX, address.connect()).await {
            Ok(Err(error)) => matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound),
            // It listens, or is slow.
            Ok(Ok(_)) | Err(_) => false,
        }
    }

    /// Returns whether the end of a connection was the worker's death, whose reason is or will be known. `shows` is the time
    /// that this may take while the worker lives.
    async fn has_died(&self, shows: Duration) -> bool {
        // A server that closes its socket after one request, and lives on, has answered.
        self.seems_dead(shows).await && (self.is_ending.get() || self.ends_within(EXIT_WAIT).await)
    }

    /// Returns whether the worker ends within a time.
    async fn ends_within(&self, time: Duration) -> bool {
        let mut ended = self.ended.subscribe();
        let waited = tokio::time::timeout(time, ended.wait_for(|ended| *ended));
        matches!(waited.await, Ok(Ok(_)))
    }
}

/// Returns the endpoint for a worker of a user; without an address where the worker needs none, or names it itself.
///
/// # Errors
/// There is no free address, or no key can be made.
pub(crate) fn endpoint(rules: &Rules, sockets: &Path, (worker, user): (WorkerId, Option<u32>)) -> io::Result<Endpoint> {
    let address = address(rules, sockets, (worker, user))?;
    let key = rules.kind.http().map(|_| WorkerKey::new()).transpose()?;
    Ok(Endpoint { address, key })
}

fn address(rules: &Rules, sockets: &Path, (worker, user): (WorkerId, Option<u32>)) -> io::Result<Option<Address>> {
    let http = match &rules.kind {
        FunctionKind::Script | FunctionKind::Handler(_) => return Ok(None),
        // A service with a readiness probe has to know where the probe connects.
        FunctionKind::Service(service) => return service.ready.as_ref().map(|_| Address::free_port()).transpose(),
        FunctionKind::Http(_, http) => http,
    };
    Ok(match http.listen {
        Listen::Free => Some(Address::free_port()?),
        Listen::Port(port) => Some(Address::Port(port)),
        Listen::Unix => {
            let user = user.ok_or_else(|| io::Error::other("the function is gone"))?;
            Some(Address::socket(sockets, worker, user)?)
        }
        Listen::Told => None,
    })
}

/// Returns the environment variables that give a worker its address and key.
pub(crate) fn variables(endpoint: &Endpoint) -> impl Iterator<Item = (String, fnd_wire::form::Bytes)> {
    let address = endpoint.address.as_ref().map(Address::variable);
    let key = endpoint.key.as_ref();
    let key = key.map(|key| (WorkerKey::VARIABLE, key.as_str().to_owned()));
    let variable = |(name, value): (&str, String)| (name.to_owned(), fnd_wire::form::Bytes(value.into_bytes()));
    address.into_iter().chain(key).map(variable)
}

impl Workers {
    fn server(&self, worker: WorkerId) -> Option<&Rc<Server>> {
        self.member(worker)?.server.as_ref()
    }

    /// Says that fnd has begun to end a worker: what it answers from now on may be cut off.
    pub(crate) fn is_ending(&self, worker: WorkerId) {
        if let Some(server) = self.server(worker) {
            server.is_ending.set(true);
        }
    }

    /// Probes whether a worker is ready, until it is or is gone. A worker that reports readiness itself is not probed.
    pub(crate) fn probe_readiness(
        &self,
        worker: WorkerId,
        (user, rules): (Option<u32>, &Rules),
        endpoint: Endpoint,
    ) -> Option<ReadinessProbe> {
        let ready = match &rules.kind {
            FunctionKind::Script | FunctionKind::Handler(_) => return None,
            FunctionKind::Http(_, http) => http.ready.clone(),
            FunctionKind::Service(service) => service.ready.clone(),
        };
        endpoint.address.as_ref()?; // absent: the worker names its address when it is ready
        let probe = readiness::probe(self.inbox.clone(), (worker, user), endpoint, ready);
        Some(ReadinessProbe(self.inbox.spawn(TaskOwner::Worker(worker), probe)))
    }

    /// Stores the address at which a worker says that it serves.
    ///
    /// # Errors
    /// The worker named no port, or the port is not its own.
    pub(crate) fn serves_at(&self, worker: WorkerId, port: Option<u16>) -> Result<(), String> {
        let Some(server) = self.server(worker) else {
            return Ok(());
        };
        let address = port
            .map(Address::Port)
            .ok_or("it reported that it is ready, but without its port")?;
        // A worker could name the port of somebody else's program, which would then get the requests of all callers.
        address.check_owner(server.user)?;
        server.endpoint.borrow_mut().address = Some(address);
        Ok(())
    }

    /// Reads the answers that a worker that has ended left in its sockets; returns whether its end waits for that.
    pub(crate) fn read_out(&self, frame: &Exited) -> bool {
        let Some(server) = self.server(frame.worker).map(Rc::clone) else {
            return false;
        };
        // Tasks whose connection has broken wait for this news: the end of the worker gives the better reason.
        server.ended.send_replace(true);
        if server.is_quiet() {
            return false;
        }
        let (inbox, frame) = (self.inbox.clone(), frame.clone());
        self.inbox.spawn(TaskOwner::Worker(frame.worker), async move {
            let mut ended = server.ended.subscribe();
            let quiet = ended.wait_for(|_| server.is_quiet());
            let _ = tokio::time::timeout(READ_OUT_MAX, quiet).await; // the other requests end with the worker's reason
            inbox.input(Input::ReadOut(frame));
        });
        true
    }

    /// Sends a call as a request.
    pub(super) fn ask_server(&mut self, order: &CallOrder, server: Rc<Server>) {
        let upload = self.uploads.remove(&order.attempt.invocation);
        let closer = Arc::<RequestCloser>::default();
        server.closers.borrow_mut().insert(order.call, Arc::clone(&closer));
        let task = call::HttpCallTask {
            closer,
            inbox: self.inbox.clone(),
            worker: order.worker,
            call: order.call,
            invocation: order.attempt.invocation,
            result_max: order.rules.result_max,
        };
        let request = call::head(&order.attempt, self.clock.now().unix_ms);
        let owner = TaskOwner::Worker(order.worker);
        self.inbox
            .spawn(owner, task.run(call::OpenCall::new(server), request, upload));
    }
}
