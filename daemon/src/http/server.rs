//! The accept loop, and the life of one connection: HTTP/1.1 within limits, until the server is stopped. After a TLS
//! handshake the client may have chosen HTTP/2 (`server/http2.rs`).
//!
//! ```text
//! accepted ─▶ admitted by the service ─▶ request ─▶ answer ─▶ request ─▶ ... ─▶ closed
//!                │                                     by its end, the client, a limit, the stop
//!                └─▶ refused: 503 if it can be written at once, closed
//! ```
//!
//! Files:
//! - `http2`: one connection of HTTP/2

mod http2;

use super::connection_io::{ConnectionSocket, Io};
use super::connections::HttpConnection;
use super::framing::WrongFraming;
use super::limits::{HttpLimits, LAST_WORDS, READ_MAX};
use super::listen::Listeners;
use super::listen::socket::AcceptedConnection;
use super::response::{self, Answered, Refusal, problem, refuse};
use fnd_core::api::problem::Code;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// The service behind a server: it decides who may connect, and answers requests.
pub(crate) trait HttpService: 'static {
    /// The known facts about the client of a connection.
    type Caller: 'static;

    /// The limits of each connection.
    const LIMITS: HttpLimits;

    /// Returns the caller of a new connection and its place.
    ///
    /// # Errors
    /// The connection is refused: it is closed, after the refusal has been sent if that is possible at once.
    fn admit(&self, accepted: &AcceptedConnection) -> Result<(Self::Caller, Rc<HttpConnection>), Option<Refusal>>;

    /// Returns the answer to a request. The future is dropped if the caller leaves.
    async fn answer(&self, caller: &Self::Caller, request: Request<Incoming>) -> Answered;

    /// Called when HTTP ended a connection with an error.
    fn ended(&self, caller: &Self::Caller, error: &hyper::Error);
}

/// Stops a server, on request or when this is dropped.
#[derive(Debug)]
pub(crate) struct ServerStop(watch::Sender<bool>);

impl ServerStop {
    /// Stops the server: it accepts no new connections, and requests that are being answered have a limited time left.
    pub(crate) fn now(&self) {
        self.0.send_replace(true);
    }
}

/// Connections that are accepted before all other tasks have a turn. The loop that accepts is polled more often than the
/// tasks are, so a storm of connections would hold up all requests, and connections that were told to close would pile
/// up. It is less than half of the tasks that a `LocalSet` runs before it polls the loop again (61).
const ACCEPTED_PER_TURN: u32 = 16;

/// The treatment of requests, which changes only in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RequestPhase {
    Serving,
    /// Each answer is the last one of its connection.
    Stopping,
    /// Requests without an answer are refused.
    Refusing,
}

/// Returns a future that serves until it is stopped, and the handle that stops it. The future must run where tasks can
/// be [spawned locally](tokio::task::spawn_local); if it is dropped, so are its connections. `name` is the name of the
/// server, for the journal.
pub(crate) fn serve<S: HttpService>(
    name: String,
    listeners: Listeners,
    service: S,
) -> (impl Future<Output = ()>, ServerStop) {
    let (sender, stop) = watch::channel(false);
    (accept(name, listeners, Rc::new(service), stop), ServerStop(sender))
}

async fn accept<S: HttpService>(name: String, listeners: Listeners, service: Rc<S>, mut stop: watch::Receiver<bool>) {
    let mut tasks = JoinSet::new();
    let (phase, _) = watch::channel(RequestPhase::Serving);
    let ending = Rc::<ServerEnding>::default();
    let mut in_turn = 0;
    loop {
        if in_turn == ACCEPTED_PER_TURN {
            in_turn = 0;
            yield_now().await;
        }
        tokio::select! {
            // Cancel-safe: a connection is either accepted or still in the backlog.
            accepted = listeners.accept() => match accepted {
                Ok(accepted) => {
                    in_turn += 1;
                    match service.admit(&accepted) {
                        Ok((caller, place)) => {
                            let (service, ending) = (Rc::clone(&service), Rc::clone(&ending));
                            let life = Life { service, caller, place, is_last: Cell::default(), ending };
                            tasks.spawn_local(connection(accepted, life, phase.subscribe()));
                        }
                        // A refused client gets no task that waits for it: such tasks would use the descriptors and the
                        // memory that the limit protects.
                        Err(Some(refusal)) => accepted.answer_at_once(&response::last(&refusal)),
                        // A client that cannot be identified gets no answer.
                        Err(None) => {}
                    }
                }
                Err(error) => {
                    tracing::warn!("failed to accept on {name}: {error}, trying again");
                    // The likely cause is a lack of descriptors, and no event reports that descriptors are free again.
                    sleep(Duration::from_millis(100)).await;
                }
            },
            // Cancel-safe: a finished task stays in the set until it is taken. A panic ends only its own connection.
            Some(ended) = tasks.join_next() => if let Err(error) = ended {
                tracing::error!("a connection of {name} ended in a panic: {error}");
            },
            // Cancel-safe: only reads the value. A dropped sender also stops the server.
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
    // The sockets close first, so the server gets no new work. systemd keeps its own copies of the sockets that it
    // made: connections wait there for the next fnd.
    listeners.close();
    for (next, time) in [
        (RequestPhase::Stopping, S::LIMITS.stop_time),
        (RequestPhase::Refusing, LAST_WORDS),
    ] {
        phase.send_replace(next);
        if next == RequestPhase::Refusing {
            ending.refuse();
        }
        let answered = async { while tasks.join_next().await.is_some() {} };
        if timeout(time, answered).await.is_ok() {
            return;
        }
    }
    tracing::info!("{} connections of {name} were still in use, closing them", tasks.len());
}

/// Waits until the server is in a phase, or gone.
async fn reached(phase: &mut watch::Receiver<RequestPhase>, awaited: RequestPhase) {
    // The return value borrows the channel's value: if it were kept while a connection ends, it would block the next
    // change.
    drop(phase.wait_for(|phase| *phase >= awaited).await);
}

/// A connection, its caller and its place.
struct Life<S: HttpService> {
    service: Rc<S>,
    caller: S::Caller,
    place: Rc<HttpConnection>,
    /// Whether the next answer is the last one.
    is_last: Cell<bool>,
    ending: Rc<ServerEnding>,
}

/// The end of the server, for the requests of all connections.
#[derive(Debug, Default)]
struct ServerEnding {
    /// Whether requests without an answer are refused.
    refuses: Cell<bool>,
    changed: Notify,
}

impl ServerEnding {
    fn refuse(&self) {
        // `notify_waiters` wakes only the requests that wait now. The flag is for those that ask later. All of them run
        // on one thread, so nothing comes between a check of the flag and the wait.
        self.refuses.set(true);
        self.changed.notify_waiters();
    }

    async fn refuses(&self) {
        if !self.refuses.get() {
            self.changed.notified().await;
        }
    }
}

impl<S: HttpService> Life<S> {
    async fn answer(&self, line: &ConnectionSocket, mut request: Request<Incoming>) -> Result<Answered, Infallible> {
        let busy = self.place.busy();
        let is_head = request.method() == Method::HEAD;
        name_host(&mut request);
        // HTTP/1.0 has no chunks: an answer whose length is unknown ends when its connection closes.
        line.by_closing.set(request.version() == Version::HTTP_10);
        let wrong = line.next_request().or_else(|| wrong_host(&request));
        let mut answer = match wrong {
            Some(wrong) => malformed(wrong),
            None => tokio::select! {
                biased;
                // The answer is polled first: an answer that is ready when the refusals begin is still sent.
                // Dropped only if the server stops.
                // Boxed, because hyper keeps the memory of the future of a request as long as its connection.
                answer = Box::pin(self.service.answer(&self.caller, request)) => answer,
                // Only waits.
                () = self.ending.refuses() => problem(&response::stopping()),
            },
        };
        if let Some(tunnel) = answer.body_mut().take_tunnel() {
            // Nobody waits for an answer any more.
            busy.follows();
            line.switches(tunnel, busy);
            return Ok(answer);
        }
        if self.is_last.get() {
            answer
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        // The answers of HTTP/2 share a connection, so it can't follow one of them; `http2::serve` has set this.
        if line.is_http2.get() {
            http2::leave_out_body(&mut answer, is_head);
            http2::count_taken(answer.body_mut());
        } else {
            line.is_held.set(answer.body().is_held());
        }
        answer.body_mut().hold(busy);
        Ok(answer)
    }
}

/// Serves one connection until it ends.
async fn connection<S: HttpService>(
    accepted: AcceptedConnection,
    life: Life<S>,
    mut phase: watch::Receiver<RequestPhase>,
) {
    let limits = S::LIMITS;
    // Boxed, so that plain connections do not pay for the size of handshakes and of HTTP/2.
    let socket = if accepted.tls.is_some() {
        tokio::select! {
            biased;
            // No request has come yet, so none is lost.
            () = life.place.evicted() => return,
            // A client that speaks no TLS, or takes too long, is closed.
            secured = Box::pin(timeout(limits.head_time, accepted.secured())) => match secured {
                Ok(Ok(socket)) => socket,
                Ok(Err(_)) | Err(_) => return,
            },
            // Can be dropped: it only reads a value.
            () = reached(&mut phase, RequestPhase::Stopping) => return,
        }
    } else {
        accepted.socket
    };
    let is_http2 = socket.is_http2();
    let line = ConnectionSocket::new(socket, limits.head_time);
    let life = Rc::new(life);
    if is_http2 {
        return Box::pin(http2::serve(line, life, phase)).await;
    }
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // `ConnectionSocket` times heads, and `time_is_up` idle connections: hyper would set a timer for each request.
        .header_read_timeout(None)
        .max_headers(limits.headers)
        .max_header_size(limits.head_bytes)
        // hyper's default is 400 KiB: with many large bodies at once this would be as much as all of them may use.
        .max_buf_size(READ_MAX)
        .keep_alive(limits.single_request_time.is_none())
        // A client such as `nc -N` may close its half after the request and still read the answer. Without this, hyper
        // itself notices that the client has gone.
        .half_close(line.shows_half_close())
        .serve_connection(
            TokioIo::new(Io(Rc::clone(&line))),
            service_fn(|request| life.answer(&line, request)),
        );
    let ended = tokio::select! {
        // A request to close comes first, so that a request that arrives at the same moment is not begun.
        biased;
        // The connection is idle, or it only follows a stream: no answer is lost.
        () = life.place.evicted() => return,
        ended = &mut connection => ended,
        // The client has gone. The future that waits for its answer is dropped, and this tells the service.
        () = line.hung_up(&life.place) => return,
        // Can be dropped: it only waits, and then checks.
        () = time_is_up::<S>(&line, &life.place) => {
            if !line.heard.get() {
                let silent = &life.place.all.silent;
                silent.set(silent.get() + 1);
            }
            return;
        }
        // Can be dropped: it only reads a value.
        () = reached(&mut phase, RequestPhase::Stopping) => {
            // `graceful_shutdown` waits until below, because it closes an idle connection at once. The bytes of a
            // request may be on their way, and their sender would get a reset instead of an answer.
            life.is_last.set(true);
            tokio::select! {
                biased;
                ended = &mut connection => ended,
                // Only waits. An idle connection is closed by hyper now.
                () = sleep(limits.last_request_time) => {
                    std::pin::Pin::new(&mut connection).graceful_shutdown();
                    (&mut connection).await
                }
            }
        }
    };
    if let Err(error) = ended {
        line.break_off();
        life.service.ended(&life.caller, &error);
    } else if let Some((tunnel, _busy)) = line.switched() {
        // hyper may have read the first bytes of the next protocol together with the request.
        let read = connection.into_parts().read_buf;
        tokio::select! {
            biased;
            // Both ends see the end of their sockets.
            () = life.place.evicted() => {}
            () = Box::pin(tunnel.run(Io(line), read)) => {}
            // Can be dropped: it only reads a value.
            () = reached(&mut phase, RequestPhase::Refusing) => {}
        }
    }
}

/// Resolves if the client sends nothing after connecting, when the connection was idle for its time, or when its only
/// request has had its time.
///
/// One timer serves the whole connection: when it ends, it is set to the time that is up next by then.
async fn time_is_up<S: HttpService>(line: &ConnectionSocket, place: &HttpConnection) {
    let limits = S::LIMITS;
    let opened = Instant::now();
    let mut next = opened + limits.silence;
    let mut written = opened;
    loop {
        sleep_until(next).await;
        let now = Instant::now();
        if line.is_blocked.get() {
            // An answer that is not read has a time of its own.
            written = now;
        }
        next = match (limits.single_request_time, place.idle_since()) {
            (Some(time), _) if line.heard.get() => opened + time,
            // A head that has begun has a time of its own.
            (None, Some(since)) if !line.is_in_head() => {
                since.max(written) + if line.heard.get() { limits.idle } else { limits.silence }
            }
            (Some(_), _) => return,
            (None, _) => now + limits.idle,
        };
        if next <= now {
            return;
        }
    }
}

/// Gives a request of HTTP/2 the header `Host` that it has in HTTP/1.1: services and programs look there.
fn name_host(request: &mut Request<Incoming>) {
    if request.version() == Version::HTTP_2
        && !request.headers().contains_key(HOST)
        && let Some(authority) = request.uri().authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        request.headers_mut().insert(HOST, host);
    }
}

/// Returns the fault of a request that does not name its host, or names two.
fn wrong_host(request: &Request<Incoming>) -> Option<WrongFraming> {
    let Some(host) = request.headers().get(HOST) else {
        // HTTP/1.0 has no such header, and HTTP/2 its own place for the host.
        return (request.version() == Version::HTTP_11).then_some(WrongFraming::NoHost);
    };
    // An absolute target wins over `Host` (RFC 9112, section 3.2.2). But a proxy may have applied the rules of the host
    // in the header, so fnd refuses two different names.
    let target = request.uri().authority()?.as_str().as_bytes();
    (!host.as_bytes().eq_ignore_ascii_case(target)).then_some(WrongFraming::OtherHost)
}

/// Returns the answer to a request whose host, beginning or end is ambiguous; the connection ends with this answer.
fn malformed(wrong: WrongFraming) -> Answered {
    let mut answer = problem(&refuse(Code::BadRequest, wrong.to_string()));
    // fnd cannot know where the next request begins, so it reads none.
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}

#[cfg(test)]
mod tests;
