//! The accept loop, and the life of one connection: HTTP/1.1 within limits, until the server is stopped.
//!
//! ```text
//! accepted ─▶ admitted by the service ─▶ request ─▶ answer ─▶ request ─▶ ... ─▶ closed
//!                │                                     by its end, the client, a limit, the stop
//!                └─▶ refused: closed
//! ```

use super::connections::Connection;
use super::framing::Wrong;
use super::limits::{Limits, READ_MAX};
use super::line::{Io, Line};
use super::response::{Answered, problem, refuse};
use super::socket::{Listener, Socket};
use fnd_core::api::problem::Code;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The service behind a server: it decides who may connect, and answers requests.
pub(crate) trait Service: 'static {
    /// The kind of its socket.
    type Listener: Listener;
    /// The known facts about the client of a connection.
    type Caller;
    /// Its limits.
    const LIMITS: Limits;

    /// Returns the caller of a new connection and its place; nothing if the connection is refused, which closes it.
    fn admit(&self, socket: &SocketOf<Self>) -> Option<(Self::Caller, Rc<Connection>)>;

    /// Returns the answer to a request.
    async fn answer(&self, caller: &Self::Caller, request: Request<Incoming>) -> Answered;

    /// Called when HTTP ended a connection with an error.
    fn ended(&self, caller: &Self::Caller, error: &hyper::Error);
}

type SocketOf<S> = <<S as Service>::Listener as Listener>::Socket;

/// Stops a server, on request or when this is dropped.
#[derive(Debug)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    /// Stops the server: it accepts no new connections, and requests that are being answered have a limited time left.
    pub fn now(&self) {
        self.0.send_replace(true);
    }
}

/// Returns a future that serves until it is stopped, and the handle that stops it. The future must run where tasks can
/// be [spawned locally](tokio::task::spawn_local); if it is dropped, so are its connections. `name` is the name of the
/// socket, for the journal.
pub(crate) fn serve<S: Service>(name: String, listener: S::Listener, service: S) -> (impl Future<Output = ()>, Stop) {
    let (sender, stop) = watch::channel(false);
    (accept(name, listener, Rc::new(service), stop), Stop(sender))
}

async fn accept<S: Service>(name: String, listener: S::Listener, service: Rc<S>, stop: watch::Receiver<bool>) {
    let mut tasks = JoinSet::new();
    let mut stopping = stop.clone();
    loop {
        tokio::select! {
            // Cancel-safe: a connection is either accepted or still in the backlog.
            accepted = listener.accept() => match accepted {
                Ok(socket) => if let Some((caller, place)) = service.admit(&socket) {
                    tasks.spawn_local(connection(Rc::clone(&service), socket, caller, place, stop.clone()));
                },
                Err(error) => {
                    tracing::warn!("failed to accept on {name}: {error}, trying again");
                    // The likely cause is a lack of descriptors, and no event reports that descriptors are free again.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            // Cancel-safe: a finished task stays in the set until it is taken. A panic ends only its own connection.
            Some(ended) = tasks.join_next() => if let Err(error) = ended {
                tracing::error!("a connection of {name} ended in a panic: {error}");
            },
            // Cancel-safe: only reads the value. A dropped sender also stops the server.
            () = stopped(&mut stopping) => break,
        }
    }
    drop(listener);
    let answered = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(S::LIMITS.stop_time, answered).await.is_err() {
        tracing::info!("{} connections of {name} were still in use, closing them", tasks.len());
    }
}

/// Waits until the server is stopped or the sender is dropped.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The return value borrows the channel's value: if it were kept while a connection ends, it would block a second
    // stop.
    drop(stop.wait_for(|stop| *stop).await);
}

/// Serves one connection until it ends.
async fn connection<S: Service>(
    service: Rc<S>,
    socket: SocketOf<S>,
    caller: S::Caller,
    place: Rc<Connection>,
    mut stop: watch::Receiver<bool>,
) {
    let limits = &S::LIMITS;
    let keep_alive = limits.single_request_time.is_none();
    let line = Line::new(socket, keep_alive);
    let answers = service_fn(|request| {
        let busy = place.busy();
        let (service, caller, line) = (&service, &caller, &line);
        async move {
            let mut response = match line.next_request() {
                None => service.answer(caller, request).await,
                Some(wrong) => malformed(wrong),
            };
            line.answers_whole(response.body().is_whole());
            response.body_mut().hold(busy);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_headers(limits.headers)
        .max_header_size(limits.head_bytes)
        // hyper's default is 400 KiB: with many large bodies at once this would be as much as all of them may use.
        .max_buf_size(READ_MAX)
        .keep_alive(keep_alive)
        // A client such as `nc -N` may close its half after the request and still read the answer. Without this, hyper
        // itself notices that the client has gone.
        .half_close(SocketOf::<S>::SHOWS_HALF_CLOSE)
        .serve_connection(TokioIo::new(Io(Rc::clone(&line))), answers);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        // A request to close comes first, so that a request that arrives at the same moment is not begun.
        biased;
        // The connection is idle or only follows, so no answer is lost.
        () = place.evicted() => return,
        ended = connection.as_mut() => ended,
        // The client has gone. The future that waits for its answer is dropped, and this tells the service.
        () = line.hung_up(&place) => return,
        // Only waits, and then checks.
        () = time_is_up(&line, limits) => {
            if !line.was_heard() {
                place.was_silent();
            }
            return;
        }
        // Only reads the value.
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        service.ended(&caller, &error);
    }
}

/// Resolves if the client sends nothing after connecting, or when the only request of the connection has had its time.
async fn time_is_up<S: Socket>(line: &Line<S>, limits: &Limits) {
    tokio::time::sleep(limits.silence).await;
    if line.was_heard() {
        match limits.single_request_time {
            Some(time) => tokio::time::sleep(time.saturating_sub(limits.silence)).await,
            None => std::future::pending().await,
        }
    }
}

/// Returns the answer to a request whose beginning or end is ambiguous; the connection ends with this answer.
fn malformed(wrong: Wrong) -> Answered {
    let mut answer = problem(&refuse(Code::BadRequest, wrong.to_string()));
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(hyper::header::CONNECTION, close);
    answer
}

#[cfg(test)]
mod tests;
