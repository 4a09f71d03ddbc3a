//! `[metrics] listen`: plain HTTP for Prometheus, which cannot use a Unix socket. It answers `GET /metrics`, and
//! nothing else.
//!
//! Any client that reaches the address may ask, so everything that a client can use up is bounded: connections, the
//! head, and the time of a whole connection, which serves one request.

use super::scrape;
use crate::driver::Daemon;
use crate::http::body::Body;
use crate::http::connections::{ConnectionOwner, Connections, HttpConnection, SocketPlaces};
use crate::http::limits::HttpLimits;
use crate::http::listen::socket::AcceptedConnection;
use crate::http::response::{Answered, Refusal, whole, with_status};
use crate::http::server::{self, HttpService};
use crate::input::Input;
use crate::metrics::MetricsFormat;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Most connections at once; more are closed. Two Prometheus servers and a person with a browser are three.
const CONNECTIONS_MAX: usize = 16;
/// Time for a whole head: a scraper sends it at once.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Pause before binding to an address is retried.
const AGAIN: Duration = Duration::from_secs(5);

/// Serves until the configuration has another address or none: this future is dropped then, and its connections with
/// it.
pub(crate) async fn serve(daemon: Rc<Daemon>, address: SocketAddr) {
    let listener = bind(&daemon, address).await;
    tracing::info!("metrics are served on http://{address}/metrics");
    let places = SocketPlaces {
        all: CONNECTIONS_MAX,
        of_one: CONNECTIONS_MAX,
        for_root: 0,
    };
    let connections = Rc::new(Connections::new("the metrics listener", places));
    let (serving, _stop) = server::serve(address.to_string(), listener.into(), Scrapes { daemon, connections });
    serving.await;
}

/// Returns a listener; retries while another program has the address.
async fn bind(daemon: &Rc<Daemon>, address: SocketAddr) -> TcpListener {
    loop {
        let bound = TcpListener::bind(address).await;
        let problem = bound.as_ref().err();
        let problem = problem.map(|error| format!("failed to listen on {address} (metrics.listen): {error}"));
        daemon.input(Input::MetricsPlace("listen", problem));
        if let Ok(listener) = bound {
            return listener;
        }
        // No event tells when an address is free.
        tokio::time::sleep(AGAIN).await;
    }
}

/// The service of the listener.
struct Scrapes {
    daemon: Rc<Daemon>,
    connections: Rc<Connections>,
}

impl HttpService for Scrapes {
    type Caller = ();

    const LIMITS: HttpLimits = HttpLimits {
        // The least that hyper accepts, and far more than a scraper sends.
        head_bytes: 8 * 1024,
        headers: 50,
        head_time: HEAD_TIME,
        silence: HEAD_TIME,
        idle: HEAD_TIME,
        // Long enough for megabytes of metrics over a slow line.
        single_request_time: Some(Duration::from_secs(30)),
        stop_time: Duration::ZERO,
        last_request_time: Duration::ZERO,
    };

    fn admit(&self, _: &AcceptedConnection) -> Result<((), Rc<HttpConnection>), Option<Refusal>> {
        // All callers share a few places, and a connection without a place is closed. Nobody's connection is ended for
        // another one.
        Ok(((), self.connections.admit_if_free(ConnectionOwner::Exempt).ok_or(None)?))
    }

    async fn answer(&self, (): &(), request: Request<Incoming>) -> Answered {
        let refusal = |status, text: &'static str| with_status(Response::new(Body::whole(text)), status);
        if request.uri().path() != "/metrics" {
            return refusal(StatusCode::NOT_FOUND, "there is only /metrics\n");
        }
        if request.method() != Method::GET {
            let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "use GET for /metrics\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return response;
        }
        let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let form = MetricsFormat::accepted(accept.unwrap_or(""));
        whole(form.content_type(), scrape(&self.daemon, form).await)
    }

    fn ended(&self, (): &(), _: &hyper::Error) {
        // A client that is too slow or sends no valid HTTP is closed; that is not logged.
    }
}
