//! `[metrics] listen`: plain HTTP for Prometheus, which cannot use a Unix socket. It answers `GET /metrics`, and
//! nothing else.
//!
//! Any client that reaches the address may ask, so everything that a client can use up is bounded: connections, the
//! head, and the time of a whole connection, which serves one request.

use super::encode::Form;
use super::scrape;
use crate::driver::Daemon;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Most connections at once; more are closed. Two Prometheus servers and a person with a browser are three.
const CONNECTIONS_MAX: usize = 16;
/// Longest head, in bytes, and most headers: the least that hyper accepts, and far more than a scraper sends.
const HEAD_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 50;
/// Time for a whole head, and for a whole connection: long enough for megabytes of metrics over a slow line.
const HEAD_TIME: Duration = Duration::from_secs(5);
const CONNECTION_TIME: Duration = Duration::from_secs(30);
/// Pause before binding to an address is retried.
const AGAIN: Duration = Duration::from_secs(5);

/// Serves until the configuration has another address or none: this future is dropped then, and its connections with
/// it.
pub(crate) async fn serve(daemon: Rc<Daemon>, address: SocketAddr) {
    let listener = bind(&daemon, address).await;
    tracing::info!("metrics are served on http://{address}/metrics");
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            // Cancel-safe: a connection is either accepted or still in the backlog.
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if tasks.len() < CONNECTIONS_MAX => {
                    tasks.spawn_local(connection(Rc::clone(&daemon), stream));
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("failed to accept on {address}: {error}, trying again");
                    // Descriptors are missing here, and no event tells when some are free again.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            // Cancel-safe: a finished task stays in the set until it is taken. A panic ends its connection only.
            Some(ended) = tasks.join_next() => if let Err(error) = ended {
                tracing::error!("a connection of the metrics listener ended in a panic: {error}");
            },
        }
    }
}

/// Returns a listener; retries while another program has the address.
async fn bind(daemon: &Rc<Daemon>, address: SocketAddr) -> TcpListener {
    loop {
        let bound = TcpListener::bind(address).await;
        let problem = bound.as_ref().err();
        let problem = problem.map(|error| format!("failed to listen on {address} (metrics.listen): {error}"));
        daemon.state.borrow_mut().report_exposed("listen", problem);
        if let Ok(listener) = bound {
            return listener;
        }
        // No event tells when an address is free.
        tokio::time::sleep(AGAIN).await;
    }
}

async fn connection(daemon: Rc<Daemon>, stream: TcpStream) {
    let service = service_fn(|request| {
        let daemon = Rc::clone(&daemon);
        async move { Ok::<_, Infallible>(answer(&daemon, &request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that is too slow or sends no valid HTTP is closed; that is not logged.
    let _ = tokio::time::timeout(CONNECTION_TIME, served).await;
}

async fn answer(daemon: &Rc<Daemon>, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let refusal = |status, text: &'static str| {
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != "/metrics" {
        return refusal(StatusCode::NOT_FOUND, "there is only /metrics\n");
    }
    if request.method() != Method::GET {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "/metrics takes GET\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return response;
    }
    let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let form = Form::accepted(accept.unwrap_or(""));
    let mut response = Response::new(Full::from(scrape(daemon, form).await));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(form.content_type()));
    response
}
