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
//! - `endpoint`: the endpoint of a worker that serves HTTP
//! - `exchange`: sends one request to a worker that serves HTTP and receives the answer
//! - `key`: the key by which a worker that serves HTTP recognizes fnd's requests

pub mod address;
pub mod endpoint;
pub mod exchange;
pub mod key;

use self::exchange::{ExchangeError, Sent};
use crate::driver::inbox::{Inbox, Input};
use crate::driver::tasks::Owner;
use crate::http::passing::{Headed, Passing, PassingEnd};
use crate::workers::Workers;
use crate::workers::environment;
use crate::workers::http::address::Address;
use crate::workers::http::endpoint::Endpoint;
use crate::workers::http::key::WorkerKey;
use bytes::Bytes;
use fnd_core::data::Data;
use fnd_core::instant;
use fnd_core::outcome::Reason;
use fnd_core::record::{RunResult, is_json};
use fnd_core::supervisor::{AttemptOrder, CallOrder, Event, FunctionKind, Rules};
use fnd_manifest::function::Listen;
use fnd_wire::frame::Exited;
use fnd_wire::ids::{InvocationId, WorkerId};
use fnd_wire::units::print_size;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

/// How long a broken connection waits for the news that its worker has ended, which gives the better reason: a process
/// closes its sockets a moment before its end is reported.
const EXIT_WAIT: Duration = Duration::from_secs(1);
/// How long the answers that a worker left in its sockets are read after its end. Only a caller that does not read
/// takes longer.
const READ_OUT_MAX: Duration = Duration::from_millis(500);
/// Pause between two readiness probes, at first and at most: the kernel sends no event when a process listens on a
/// port.
const PROBE_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// A caller's request on its way to a worker.
pub(crate) struct Upload {
    /// The body that the caller sends.
    pub(crate) body: Incoming,
    /// Most bytes of the body.
    pub(crate) limit: u64,
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
    /// Whether the worker has ended. Also signals each change of `open`.
    ended: watch::Sender<bool>,
}

/// A task that checks whether a worker is ready.
#[derive(Debug)]
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
            ended: watch::channel(false).0,
        })
    }

    /// Returns the address and key.
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint.borrow().clone()
    }

    /// Returns whether no request is being answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.open.get() == 0
    }

    /// Returns whether the worker ends within a time.
    async fn ends_within(&self, time: Duration) -> bool {
        let mut ended = self.ended.subscribe();
        let waited = tokio::time::timeout(time, ended.wait_for(|ended| *ended));
        matches!(waited.await, Ok(Ok(_)))
    }
}

/// A request that is being answered.
struct Open(Rc<Server>);

impl Open {
    fn new(server: Rc<Server>) -> Self {
        server.open.set(server.open.get() + 1);
        Self(server)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        // A task that reads the worker's last answers checks `open` again.
        self.0.ended.send_modify(|_| {});
    }
}

/// Returns the endpoint for a worker of a user; without an address where the worker needs none, or names it itself.
///
/// # Errors
/// There is no free address, or no key can be made.
pub(crate) fn endpoint(
    rules: &Rules,
    sockets: Option<&Path>,
    (worker, user): (WorkerId, Option<u32>),
) -> io::Result<Endpoint> {
    let address = address(rules, sockets, (worker, user))?;
    let key = rules.kind.http().map(|_| WorkerKey::new()).transpose()?;
    Ok(Endpoint { address, key })
}

fn address(
    rules: &Rules,
    sockets: Option<&Path>,
    (worker, user): (WorkerId, Option<u32>),
) -> io::Result<Option<Address>> {
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
            let old = || io::Error::other("the running fnd-spawner is older than this fnd; restart it");
            Some(Address::socket(sockets.ok_or_else(old)?, worker, user)?)
        }
        Listen::Told => None,
    })
}

/// Returns the environment variables that give a worker its address and key.
pub(crate) fn variables(endpoint: &Endpoint) -> impl Iterator<Item = (String, fnd_wire::form::Bytes)> {
    let address = endpoint.address.as_ref().map(|address| match address {
        Address::Port(port) => ("PORT", port.to_string()),
        Address::Socket { path, .. } => ("FND_SOCKET_PATH", path.display().to_string()),
    });
    let key = endpoint.key.as_ref();
    let key = key.map(|key| (WorkerKey::VARIABLE, key.as_str().to_owned()));
    let variable = |(name, value): (&str, String)| (name.to_owned(), fnd_wire::form::Bytes(value.into_bytes()));
    address.into_iter().chain(key).map(variable)
}

impl Workers {
    fn server(&self, worker: WorkerId) -> Option<&Rc<Server>> {
        self.attached.get(&worker)?.member.as_ref()?.server.as_ref()
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
        let probe = probe(self.inbox.clone(), (worker, user), endpoint, ready);
        Some(ReadinessProbe(self.inbox.spawn(Owner::Worker(worker), probe)))
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
        if let (Address::Port(port), Some(other)) = (&address, server.user.and_then(|user| address.stranger(user))) {
            return Err(strange(*port, other));
        }
        server.endpoint.borrow_mut().address = Some(address);
        Ok(())
    }

    /// Reads the answers that a worker that has ended left in its sockets; returns whether its end waits for that.
    pub(crate) fn read_out(&self, frame: &Exited) -> bool {
        let Some(server) = self.server(frame.worker).map(Rc::clone) else {
            return false;
        };
        server.ended.send_replace(true);
        if server.is_quiet() {
            return false;
        }
        let (inbox, frame) = (self.inbox.clone(), frame.clone());
        self.inbox.spawn(Owner::Worker(frame.worker), async move {
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
        let task = Task {
            inbox: self.inbox.clone(),
            worker: order.worker,
            call: order.call,
            invocation: order.attempt.invocation,
            result_max: order.rules.result_max,
        };
        let request = head(&order.attempt, self.clock.now().unix_ms);
        let owner = Owner::Worker(order.worker);
        self.inbox.spawn(owner, task.run(Open::new(server), request, upload));
    }
}

/// Returns the request for a call, with the body that is there.
fn head(attempt: &AttemptOrder, now_ms: u64) -> Result<Request<Bytes>, String> {
    let payload = &attempt.payload;
    let made = environment::request(attempt);
    let made = made.as_deref();
    let default = if payload.data.is_some() { "POST" } else { "GET" };
    let method = made.map_or(default, |made| made.method.as_str());
    let target = match made {
        None => "/".to_owned(),
        Some(made) if made.query.is_empty() => made.path.clone(),
        Some(made) => format!("{}?{}", made.path, made.query),
    };
    let body = match payload.data.as_ref().map(Data::bytes).transpose() {
        Ok(body) => body.map(|bytes| Bytes::from(bytes.into_owned())).unwrap_or_default(),
        Err(error) => return Err(format!("its body, which waited on the disk, cannot be read: {error}")),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(target)
        .body(body)
        .map_err(|error| format!("its request is not valid in HTTP: {error}"))?;
    let given = made.map_or(&[][..], |made| &made.headers);
    let find = |name: &str| {
        given
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.clone())
    };
    let mut own = vec![
        ("traceparent", environment::span(attempt).traceparent()),
        ("fnd-invocation", attempt.invocation.to_string()),
        ("fnd-attempt", attempt.attempt.0.to_string()),
    ];
    own.extend(
        attempt
            .deadline_ms
            .map(|deadline| ("fnd-deadline", deadline.to_string())),
    );
    // The event's fields come from the caller's headers, else from its CloudEvent headers. Without either, each
    // invocation is an event of its own.
    let id = || attempt.invocation.to_string();
    let time = || instant::text(now_ms);
    own.push((
        "event-id",
        find("event-id").or_else(|| find("ce-id")).unwrap_or_else(id),
    ));
    own.push((
        "event-time",
        find("event-time").or_else(|| find("ce-time")).unwrap_or_else(time),
    ));
    own.extend(
        find("event-type")
            .or_else(|| find("ce-type"))
            .map(|kind| ("event-type", kind)),
    );
    own.extend(
        find("event-namespace")
            .or_else(|| find("ce-source"))
            .map(|source| ("event-namespace", source)),
    );
    if let Some(content_type) = &payload.content_type {
        own.push(("content-type", content_type.clone()));
    }
    exchange::put(request.headers_mut(), given, &own);
    Ok(request)
}

/// A call that is being made.
struct Task {
    inbox: Inbox,
    worker: WorkerId,
    call: u64,
    invocation: InvocationId,
    result_max: u64,
}

/// The end of a call, and the kept part of its answer.
type Outcome = ((Reason, String), Option<RunResult>);

/// The message that a caller gets once the end of the call is in the table of calls in flight.
enum Afterwards {
    Nothing,
    /// The body is over: dropping this sends the rest of the body.
    End {
        #[expect(dead_code, reason = "it is dropped")]
        kept: oneshot::Sender<()>,
    },
    /// The whole answer, which has no body.
    Answer(oneshot::Sender<Headed>, Headed),
}

impl Afterwards {
    fn send(self) {
        match self {
            Self::Answer(answer, headed) => {
                let _ = answer.send(headed); // an error: the caller has gone
            }
            Self::Nothing | Self::End { .. } => {}
        }
    }
}

impl Task {
    /// Makes the call and reports how it ended.
    async fn run(self, open: Open, request: Result<Request<Bytes>, String>, upload: Option<Option<Upload>>) {
        let mut afterwards = Afterwards::Nothing;
        let sent = match (request, upload) {
            (Err(why), _) => Err(ExchangeError::Worker(why)),
            (Ok(request), None) => self.keep(&open.0, signed(&open.0, request)).await,
            (Ok(_), Some(None)) => Err(ExchangeError::Caller),
            (Ok(request), Some(Some(upload))) => {
                let request = signed(&open.0, request);
                self.pass(&open.0, request, upload, &mut afterwards).await
            }
        };
        let (how, result) = match sent {
            Ok(outcome) => outcome,
            // The worker's end gives the better reason.
            Err(ExchangeError::Worker(_)) if open.0.ends_within(EXIT_WAIT).await => return,
            Err(ExchangeError::Worker(why)) => ((Reason::BadAnswer, why), None),
            Err(ExchangeError::TooLarge) => {
                let why = "the body of the request is larger than limits.body".to_owned();
                ((Reason::Cancelled, why), None)
            }
            Err(ExchangeError::Caller) => ((Reason::Cancelled, "the caller closed the connection".to_owned()), None),
        };
        self.inbox.input(Input::Answered(self.worker, self.call, how, result));
        afterwards.send();
        drop(open);
    }

    async fn send(&self, server: &Server, request: Request<Sent>) -> Result<Response<Incoming>, ExchangeError> {
        exchange::send(&self.inbox, (self.worker, &reached(server)?), request).await
    }

    /// Sends a request whose body is there, and keeps the whole answer.
    async fn keep(&self, server: &Server, request: Request<Bytes>) -> Result<Outcome, ExchangeError> {
        let request = request.map(|body| Sent::Whole(Some(body).filter(|body| !body.is_empty())));
        let (parts, body) = self.send(server, request).await?.into_parts();
        let Some(body) = exchange::collect(body, self.result_max).await? else {
            let limit = print_size(self.result_max);
            let why = format!("the answer is larger than {limit} (limits.result)");
            return Ok(((Reason::ResultTooLarge, why), None));
        };
        let kept = exchange::kept(parts.status, &parts.headers);
        let stated = kept.content_type.as_deref();
        let json = stated.is_none_or(is_json) && serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok();
        let result = RunResult {
            json,
            data: body.into(),
            response: Some(Arc::new(kept)),
        };
        Ok((judged(parts.status), Some(result)))
    }

    /// Sends a request whose body comes from a caller. The caller gets the answer as it comes, except for the piece
    /// that completes it.
    async fn pass(
        &self,
        server: &Server,
        request: Request<Bytes>,
        upload: Upload,
        afterwards: &mut Afterwards,
    ) -> Result<Outcome, ExchangeError> {
        let Upload { body, limit, answer } = upload;
        let request = request.map(|_| Sent::Passed {
            from: body,
            left: limit,
            error: Rc::default(),
        });
        let sent = self.send(server, request).await;
        if sent.as_ref().is_err_and(|error| *error == ExchangeError::TooLarge) {
            let _ = answer.send(Headed::TooLarge(self.invocation)); // an error: the caller has gone
            return Err(ExchangeError::TooLarge);
        }
        let (parts, body) = sent?.into_parts();
        let how = judged(parts.status);
        let (body, end) = Passing::new(body);
        let is_empty = body.is_empty();
        let headed = Headed::Answer(self.invocation, Box::new(Response::from_parts(parts, body)));
        if is_empty {
            *afterwards = Afterwards::Answer(answer, headed);
            return Ok((how, None));
        }
        answer.send(headed).map_err(|_| ExchangeError::Caller)?;
        let PassingEnd { ended, kept } = end;
        *afterwards = Afterwards::End { kept };
        match ended.await {
            Ok(Ok(())) => Ok((how, None)),
            Ok(Err(cause)) => Err(ExchangeError::Worker(exchange::broken_off(&cause))),
            Err(_) => Err(ExchangeError::Caller),
        }
    }
}

/// Returns a request with the worker's key.
fn signed(server: &Server, mut request: Request<Bytes>) -> Request<Bytes> {
    if let Some(key) = &server.endpoint.borrow().key {
        key.put(request.headers_mut());
    }
    request
}

/// Returns the address of a worker; a worker that is ready has one.
fn reached(server: &Server) -> Result<Address, ExchangeError> {
    let unknown = || ExchangeError::Worker("it never reported its port".to_owned());
    server.endpoint().address.ok_or_else(unknown)
}

/// Returns how the call ended, by the status of the answer: a 5xx status means that the server failed.
fn judged(status: StatusCode) -> (Reason, String) {
    if status.is_server_error() {
        (Reason::Error, format!("it answered {status}"))
    } else {
        (Reason::Ok, String::new())
    }
}

/// Returns the message that a port is not the worker's.
fn strange(port: u16, user: u32) -> String {
    format!("port {port} is not its own: a process of another user ({user}) listens there")
}

/// Probes whether a worker serves, until it does.
async fn probe(inbox: Inbox, (worker, user): (WorkerId, Option<u32>), endpoint: Endpoint, ready: Option<String>) {
    let Endpoint {
        address: Some(address),
        key,
    } = endpoint
    else {
        return;
    };
    let mut pause = PROBE_PAUSE.0;
    let mut reported = String::new();
    loop {
        let found = exchange::probe(&inbox, (worker, &address), key.as_ref(), ready.as_deref()).await;
        // `stranger` reads the table of all sockets of the machine: not for a worker that does not serve yet.
        let found = match (
            &address,
            user.filter(|_| found.is_ok()).and_then(|user| address.stranger(user)),
        ) {
            (Address::Port(port), Some(other)) => Err(strange(*port, other)),
            _ => found,
        };
        match found {
            Ok(()) => {
                // Only `pool.concurrency` bounds the worker: it cannot be asked how many calls it takes.
                let concurrency = u32::MAX;
                inbox.input(Input::Event(Event::WorkerReady { worker, concurrency }));
                return;
            }
            Err(why) if why != reported => {
                reported.clone_from(&why);
                if !inbox.input(Input::Event(Event::NotReady { worker, why })) {
                    return;
                }
            }
            Err(_) => {}
        }
        tokio::time::sleep(pause).await; // no event reports it: see PROBE_PAUSE
        pause = (pause * 2).min(PROBE_PAUSE.1);
    }
}
