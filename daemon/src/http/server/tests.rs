//! The server in front of a service that is made up, over TCP: each connection serves one request.
//!
//! Files:
//! - `hostile`: bad input for a server that anybody can reach
//! - `public`: a server as the public listener is
//! - `storm`: more new connections than places

mod hostile;
mod public;
mod storm;

use super::*;
use crate::http::connections::{ConnectionOwner, Connections, SocketPlaces};
use crate::http::response::whole;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

const SILENCE: Duration = Duration::from_secs(5);
const TIME: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(1);

struct Single(Rc<Connections>);

impl HttpService for Single {
    type Caller = ();

    const LIMITS: HttpLimits = HttpLimits {
        head_bytes: 8 << 10,
        headers: 50,
        head_time: SILENCE,
        silence: SILENCE,
        idle: SILENCE,
        single_request_time: Some(TIME),
        stop_time: STOP,
        last_request_time: Duration::ZERO,
    };

    fn admit(&self, _: &AcceptedConnection) -> Result<((), Rc<HttpConnection>), Option<Refusal>> {
        Ok(((), self.0.admit_if_free(ConnectionOwner::Exempt).ok_or(None)?))
    }

    async fn answer(&self, (): &(), request: Request<Incoming>) -> Answered {
        if request.uri().path() == "/never" {
            std::future::pending::<()>().await;
        }
        whole("text/plain", "fine")
    }

    fn ended(&self, (): &(), _: &hyper::Error) {}
}

/// Serves in this runtime, with two places, until the test stops it.
async fn serve_here(test: impl AsyncFnOnce(std::net::SocketAddr, ServerStop)) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let places = SocketPlaces {
        all: 2,
        of_one: 2,
        for_root: 0,
    };
    let service = Single(Rc::new(Connections::new("a test", places)));
    let (server, stop) = serve("a test".to_owned(), listener.into(), service);
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let serving = tokio::task::spawn_local(server);
            test(address, stop).await;
            serving.await.unwrap();
        })
        .await;
}

/// Sends bytes on a connection of its own; returns everything that comes until it is closed, and when that was.
async fn exchange(address: std::net::SocketAddr, sent: &str) -> (String, Duration) {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut text = String::new();
    // A connection that is closed with bytes unread is reset.
    let _ = stream.read_to_string(&mut text).await;
    (text, start.elapsed())
}

const GET: &str = "GET / HTTP/1.1\r\nhost: fnd\r\n\r\n";

#[tokio::test]
async fn a_connection_serves_one_request() {
    serve_here(async |address, stop| {
        let (text, _) = exchange(address, &GET.repeat(2)).await;
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("fine"), "{text}");
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
        stop.now();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn time_limits_close_a_connection() {
    serve_here(async |address, stop| {
        for (sent, limit, status) in [
            ("", SILENCE, ""),
            ("GET / HTTP/1.1\r\nx-slow", SILENCE, "HTTP/1.1 408"),
            ("GET /never HTTP/1.1\r\nhost: fnd\r\n\r\n", TIME, ""),
        ] {
            let (text, time) = exchange(address, sent).await;
            assert!(
                text.starts_with(status) && text.is_empty() == status.is_empty(),
                "{sent}: {text}"
            );
            assert!(
                time >= limit && time < limit + Duration::from_secs(1),
                "{sent}: {time:?}"
            );
        }
        stop.now();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_a_free_place_a_connection_is_closed() {
    serve_here(async |address, stop| {
        let held = (
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
        );
        assert_eq!(exchange(address, "").await, (String::new(), Duration::ZERO));
        // A silent connection frees its place.
        tokio::time::sleep(2 * SILENCE).await;
        assert!(exchange(address, GET).await.0.ends_with("fine"));
        drop(held);
        stop.now();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_a_limited_time_for_answers() {
    serve_here(async |address, stop| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /never HTTP/1.1\r\nhost: fnd\r\n\r\n")
            .await
            .unwrap();
        // The request has begun when the server waits for nothing but time.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let start = Instant::now();
        stop.now();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).await;
        assert!(
            text.starts_with("HTTP/1.1 503") && text.contains("retry-after: 1"),
            "{text}"
        );
        assert!(
            start.elapsed() >= STOP && start.elapsed() < STOP + LAST_WORDS,
            "{:?}",
            start.elapsed()
        );
    })
    .await;
}
