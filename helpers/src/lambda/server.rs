//! The server of Lambda's APIs on a port of 127.0.0.1.
//!
//! Its clients are the function's own processes. A slow or broken client harms only this function: connections, heads and
//! bodies are bounded, and no client holds another one up. A `next` waits without end, so no connection of theirs has a time
//! limit.

use super::api::{self, Reply, Route};
use super::extensions::ExtensionRefusal;
use super::state::{WorkerState, now_ms};
use super::{answer, complain, peer};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Connections at once besides those of calls: extensions, and threads that keep one each. Further ones wait in the kernel.
const CONNECTIONS: usize = 64;
/// Connections of a call: one for `next`, one for its response, and two that a client may have forgotten.
const CONNECTIONS_OF_CALL: usize = 4;
/// Connections of other users at once. Further ones are closed.
const FOREIGN: usize = 8;
/// How long a connection of another user may last: it gets one answer.
const FOREIGN_MAX: Duration = Duration::from_secs(1);
/// Most bytes of a request's head, and of its trailers: the clients of AWS put the cause of an error for X-Ray into a header,
/// which may have 1 MiB.
const HEAD_MAX: usize = (1 << 20) + (64 << 10);
/// Most bytes of the head of another user's request: the least that hyper can have.
const FOREIGN_HEAD_MAX: usize = 8 << 10;
/// No event says that a process has free descriptors again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Takes connections until it is dropped.
pub(super) async fn accept(listener: TcpListener, state: Rc<WorkerState>) {
    let concurrency = usize::try_from(state.facts.concurrency).unwrap_or(usize::MAX);
    let most = CONNECTIONS.saturating_add(CONNECTIONS_OF_CALL.saturating_mul(concurrency));
    let (mut own, mut others) = (JoinSet::new(), JoinSet::new());
    loop {
        while own.try_join_next().is_some() {}
        while others.try_join_next().is_some() {}
        if own.len() >= most {
            own.join_next().await;
        }
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Connections of other users have places of their own, so that they take none of the function's.
        if is_own(&stream, from) {
            own.spawn_local(serve(stream, Rc::clone(&state)));
        } else if others.len() < FOREIGN {
            others.spawn_local(refuse_all(stream));
        }
    }
}

/// Says whether a connection is of the function's own user. One that is not of IPv4 cannot be: the port is one of IPv4.
fn is_own(stream: &TcpStream, from: SocketAddr) -> bool {
    let (SocketAddr::V4(from), Ok(SocketAddr::V4(to))) = (from, stream.local_addr()) else {
        return false;
    };
    peer::is_own(from, to).unwrap_or_else(|error| {
        complain(&format!(
            "a connection is refused, because the kernel does not say whose it is: {error}"
        ));
        false
    })
}

/// Serves a connection of another user.
async fn refuse_all(stream: TcpStream) {
    let service = service_fn(|_: Request<Incoming>| async { Ok::<_, Infallible>(foreign()) });
    let mut builder = http1::Builder::new();
    builder.keep_alive(false).max_buf_size(FOREIGN_HEAD_MAX);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    // An error: the client broke off, or it took too long.
    let _ = tokio::time::timeout(FOREIGN_MAX, serving).await;
}

async fn serve(stream: TcpStream, state: Rc<WorkerState>) {
    // An error: the connection is gone, which its first read shows.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let state = Rc::clone(&state);
        async move { Ok::<_, Infallible>(reply(&state, request).await) }
    });
    // hyper writes the head of an answer and its body at once: with two writes, a client would wait 40 ms for the second one.
    let mut builder = http1::Builder::new();
    // Lambda's own case: a script may look for it.
    builder.title_case_headers(true);
    builder.max_buf_size(HEAD_MAX).max_header_size(HEAD_MAX);
    // An error: the client broke off. Its call, if it has one, has failed then.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Returns the answer to a client of another user.
fn foreign() -> Reply {
    let message = "this address answers only processes of the function's user";
    api::refusal(StatusCode::FORBIDDEN, "Forbidden", message)
}

async fn reply(state: &WorkerState, request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    match api::route(head.method.as_str(), head.uri.path()) {
        Route::Next => {
            let invocation = state.next_call().await;
            api::event_reply(&invocation, &state.facts.arn, now_ms())
        }
        Route::Response(id) => match begin(state, id, headers) {
            Some(call) => answer::response(state, call, headers, body).await,
            None => api::invalid_id(),
        },
        Route::Error(id) => match begin(state, id, headers) {
            Some(call) => answer::error(state, call, headers, body).await,
            None => api::invalid_id(),
        },
        Route::InitError | Route::RestoreError => init_error(state, headers, body).await,
        // Nothing is restored here, so the function goes on at once.
        Route::RestoreNext => Response::new(Full::new(Bytes::new())),
        Route::Register => register(state, headers, body).await,
        Route::EventNext => event_next(state, headers).await,
        Route::ExtensionError => extension_error(state, headers, body).await,
        Route::Logs => not_supported("Logs"),
        Route::Telemetry => not_supported("Telemetry"),
        Route::WrongMethod => api::reply(StatusCode::METHOD_NOT_ALLOWED, Bytes::new()),
        Route::Unknown => api::reply(StatusCode::NOT_FOUND, Bytes::from_static(b"404 page not found")),
    }
}

fn begin(state: &WorkerState, id: &str, headers: &HeaderMap) -> Option<u64> {
    state.begin_answer(id, api::text(headers, api::INVOCATION_ID))
}

/// Returns the answer of AWS's emulator, with which extensions go on without the logs.
fn not_supported(name: &str) -> Reply {
    let message = format!("{name} API is not supported");
    api::refusal(StatusCode::ACCEPTED, &format!("{name}.NotSupported"), &message)
}

async fn init_error(state: &WorkerState, headers: &HeaderMap, body: Incoming) -> Reply {
    if state.is_ready() {
        let message = "the function has already asked for its first invocation";
        return api::refusal(StatusCode::FORBIDDEN, "InvalidStateTransition", message);
    }
    let Some(body) = answer::small_body(body).await else {
        return api::too_large(answer::SMALL_MAX);
    };
    state.fail_load(api::failure(api::text(headers, api::ERROR_TYPE), &body));
    api::accepted()
}

async fn register(state: &WorkerState, headers: &HeaderMap, body: Incoming) -> Reply {
    let Some(body) = answer::small_body(body).await else {
        return api::too_large(answer::SMALL_MAX);
    };
    let name = api::text(headers, api::EXTENSION_NAME).unwrap_or_default();
    match state.register(name, &body) {
        Ok(id) => {
            let facts = &state.facts;
            let body = json!({ "functionName": facts.name, "functionVersion": "$LATEST", "handler": facts.handler });
            let mut reply = api::json_reply(StatusCode::OK, &body);
            api::set(&mut reply, api::EXTENSION_ID, &id);
            reply
        }
        Err(refused) => refuse(&refused),
    }
}

fn refuse(ExtensionRefusal(kind, message): &ExtensionRefusal) -> Reply {
    api::refusal(ExtensionRefusal::STATUS, kind, message)
}

/// Returns the identifier and the name of the extension that sent a request.
fn sender(state: &WorkerState, headers: &HeaderMap) -> Result<(String, String), ExtensionRefusal> {
    let id = api::text(headers, api::EXTENSION_ID);
    let extensions = state.extensions.borrow();
    let name = extensions.name(id)?.to_owned();
    Ok((id.unwrap_or_default().to_owned(), name))
}

async fn event_next(state: &WorkerState, headers: &HeaderMap) -> Reply {
    let id = match sender(state, headers) {
        Ok((id, _)) => id,
        Err(refused) => return refuse(&refused),
    };
    let event = state.next_event(&id).await;
    let of_event = event.get("requestId").and_then(serde_json::Value::as_str);
    let mut reply = api::json_reply(StatusCode::OK, &event);
    let of_event = of_event.unwrap_or("shutdown");
    api::set(&mut reply, "lambda-extension-event-identifier", of_event);
    reply
}

/// Takes the error of an extension. Before the function is loaded it cannot be loaded; later the end of the extension ends the
/// worker, and the log says why.
async fn extension_error(state: &WorkerState, headers: &HeaderMap, body: Incoming) -> Reply {
    let name = match sender(state, headers) {
        Ok((_, name)) => name,
        Err(refused) => return refuse(&refused),
    };
    let Some(body) = answer::small_body(body).await else {
        return api::too_large(answer::SMALL_MAX);
    };
    let mut failure = api::failure(api::text(headers, api::EXTENSION_ERROR_TYPE), &body);
    failure.message = format!("the extension `{name}` failed: {}", failure.message);
    if state.is_ready() {
        complain(&failure.message);
    } else {
        state.fail_load(failure);
    }
    api::accepted()
}
