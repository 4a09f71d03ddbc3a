//! A server as the public listener is: many addresses, TLS, HTTP/2, many requests a connection.

use super::super::*;
use crate::buffers::Buffers;
use crate::http::connections::{ConnectionOwner, Connections, Full, SocketPlaces};
use crate::http::limits::{Pace, WRITE_TIME};
use crate::http::listen::socket::Peer;
use crate::http::listen::tls::{Tls, tests as pairs};
use crate::http::listen::{Address, Listeners, tls::Security};
use crate::http::request::{self, RequestBody, Unread, discard};
use crate::http::response::{count, refuse_for_now, whole};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

pub(super) const HEAD_TIME: Duration = Duration::from_secs(10);
pub(super) const IDLE: Duration = Duration::from_secs(75);
pub(super) const OF_ONE: usize = 64;

/// The requests that the service has received.
#[derive(Default)]
pub(super) struct Seen {
    /// Paths of requests, in order, each with its body.
    pub(super) requests: RefCell<Vec<(String, usize)>>,
    /// How many answers were given up by their callers.
    pub(super) left: Cell<usize>,
}

pub(super) struct Public {
    pub(super) connections: Rc<Connections>,
    pub(super) seen: Rc<Seen>,
    pub(super) buffers: Arc<Buffers>,
}

struct Left(Rc<Seen>, bool);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.left.set(self.0.left.get() + usize::from(!self.1));
    }
}

impl HttpService for Public {
    type Caller = Peer;

    const LIMITS: HttpLimits = HttpLimits {
        head_bytes: 16 << 10,
        headers: 100,
        head_time: HEAD_TIME,
        silence: IDLE,
        idle: IDLE,
        single_request_time: None,
        stop_time: Duration::from_secs(1),
        last_request_time: Duration::from_millis(200),
    };

    fn admit(&self, accepted: &AcceptedConnection) -> Result<(Peer, Rc<HttpConnection>), Option<Refusal>> {
        let owner = accepted
            .peer
            .address
            .map_or(ConnectionOwner::Exempt, ConnectionOwner::of);
        let place = self
            .connections
            .admit(owner)
            .map_err(|full: Full| Some(refuse_for_now(Code::TooManyConnections, format!("{full:?}"))))?;
        Ok((accepted.peer, place))
    }

    async fn answer(&self, peer: &Peer, request: Request<Incoming>) -> Answered {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let mut left = Left(Rc::clone(&self.seen), false);
        if path == "/never" {
            self.seen.requests.borrow_mut().push((path.clone(), 0));
            std::future::pending::<()>().await;
        }
        let host = parts
            .headers
            .get(HOST)
            .map_or("", |host| host.to_str().unwrap())
            .to_owned();
        let unread = Unread::new(&parts.headers, body);
        let request = request::IncomingRequest {
            parts,
            body: Rc::clone(&unread),
            pace: Pace::REMOTE,
        };
        let read = request
            .read_body(&self.buffers, RequestBody::OfKnown, (1 << 20, "a limit"))
            .await;
        left.1 = true;
        let body = match read {
            Ok(body) => body,
            Err(refusal) => {
                discard(&unread, Pace::REMOTE).await;
                return problem(&refusal);
            }
        };
        let size = usize::try_from(body.size()).unwrap();
        self.seen.requests.borrow_mut().push((path.clone(), size));
        let text = match path.as_str() {
            "/large" => "x".repeat(8 << 20),
            _ => format!(
                "{path} {host} {size} secure={} {}",
                peer.is_secure,
                peer.address.is_some()
            ),
        };
        count(whole("text/plain", text), &self.buffers).await
    }

    fn ended(&self, _: &Peer, _: &hyper::Error) {}
}

/// A server of [`Public`], on a TCP address.
pub(super) struct Here {
    pub(super) address: SocketAddr,
    pub(super) listeners: Listeners,
    pub(super) seen: Rc<Seen>,
    pub(super) connections: Rc<Connections>,
    pub(super) stop: ServerStop,
}

/// Serves in this runtime until the test ends.
pub(super) async fn serve_here<T>(test: impl AsyncFnOnce(Here) -> T) -> T {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listeners = Listeners::from(listener);
    let places = SocketPlaces {
        all: 1024,
        of_one: OF_ONE,
        for_root: 0,
    };
    let directory = tempfile::tempdir().unwrap();
    let connections = Rc::new(Connections::new("a test", places));
    let seen = Rc::new(Seen::default());
    let service = Public {
        connections: Rc::clone(&connections),
        seen: Rc::clone(&seen),
        buffers: Buffers::new(64 << 20, directory.path().to_owned()),
    };
    let (server, stop) = serve("a test".to_owned(), listeners.clone(), service);
    let here = Here {
        address,
        listeners,
        seen,
        connections,
        stop,
    };
    LocalSet::new()
        .run_until(async {
            let serving = tokio::task::spawn_local(server);
            let result = test(here).await;
            serving.await.unwrap();
            result
        })
        .await
}

/// A connection, plain or secured.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

pub(super) async fn plain(here: &Here) -> Box<dyn Stream> {
    Box::new(TcpStream::connect(here.address).await.unwrap())
}

/// Sends bytes on a connection; returns everything that comes until it is closed.
pub(super) async fn exchange(mut stream: Box<dyn Stream>, sent: &[u8]) -> String {
    let _ = stream.write_all(sent).await; // the server may have closed the connection already
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await; // a connection that is closed with bytes unread is reset
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns a client's configuration that accepts one certificate.
pub(super) fn trusting(pair: &crate::http::listen::tls::TlsPair, protocol: &[u8]) -> Arc<rustls::ClientConfig> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&pair.certificate).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config)
}

type Secured = tokio_rustls::client::TlsStream<TcpStream>;

pub(super) async fn secured(here: &Here, config: &Arc<rustls::ClientConfig>) -> std::io::Result<Secured> {
    let stream = TcpStream::connect(here.address).await?;
    let name = "localhost".try_into().unwrap();
    tokio_rustls::TlsConnector::from(Arc::clone(config))
        .connect(name, stream)
        .await
}

const GET: &str = "GET /a HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_body_that_is_refused_by_its_length_is_not_asked_for() {
    serve_here(async |here| {
        for (length, expected) in [(5, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"), (2 << 20, "HTTP/1.1 413")] {
            let head = format!(
                "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
            );
            let body = if length == 5 { "hello" } else { "" };
            let answer = exchange(plain(&here).await, format!("{head}{body}").as_bytes()).await;
            assert!(answer.starts_with(expected), "{answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_certificate_is_replaced_while_connections_go_on() {
    serve_here(async |here| {
        let (old, new) = (pairs::pair(), pairs::pair());
        let secure = |pair| {
            here.listeners
                .secure(Security::Tls(Tls::new(pair, pairs::now()).unwrap()));
        };
        secure(&old);
        let (of_old, of_new) = (trusting(&old, b"http/1.1"), trusting(&new, b"http/1.1"));
        let kept = secured(&here, &of_old).await.unwrap();
        assert!(secured(&here, &of_new).await.is_err());
        secure(&new);
        assert!(secured(&here, &of_old).await.is_err());
        let fresh = secured(&here, &of_new).await.unwrap();
        assert_eq!(fresh.get_ref().1.handshake_kind(), Some(rustls::HandshakeKind::Full));
        for stream in [kept, fresh] {
            let answer = exchange(Box::new(stream), GET.as_bytes()).await;
            assert!(answer.ends_with("/a example.com 0 secure=true true"), "{answer}");
        }
        let resumed = secured(&here, &of_new).await.unwrap();
        assert_eq!(
            resumed.get_ref().1.handshake_kind(),
            Some(rustls::HandshakeKind::Resumed)
        );
        // Nothing is served without TLS because a certificate is broken.
        here.listeners.secure(Security::Broken);
        assert_eq!(exchange(plain(&here).await, GET.as_bytes()).await, "");
        here.stop.now();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_has_its_time() {
    serve_here(async |here| {
        let pair = pairs::pair();
        here.listeners
            .secure(Security::Tls(Tls::new(&pair, pairs::now()).unwrap()));
        let start = Instant::now();
        // The beginning of a record.
        let (one, two) = tokio::join!(
            exchange(plain(&here).await, b"\x16\x03\x01"),
            exchange(plain(&here).await, b"")
        );
        assert!(one.is_empty() && two.is_empty() && start.elapsed() >= HEAD_TIME);
        assert!(start.elapsed() < HEAD_TIME + Duration::from_secs(1));
        here.stop.now();
    })
    .await;
}

#[tokio::test]
async fn a_handshake_counts_as_a_place() {
    serve_here(async |here| {
        let pair = pairs::pair();
        here.listeners
            .secure(Security::Tls(Tls::new(&pair, pairs::now()).unwrap()));
        let mut held = Vec::new();
        for _ in 0..3 * OF_ONE {
            held.push(TcpStream::connect(here.address).await.unwrap());
        }
        // The last one is the only one that makes its handshake: all others have been accepted then.
        let last = secured(&here, &trusting(&pair, b"http/1.1")).await.unwrap();
        let answer = exchange(Box::new(last), GET.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(here.connections.open.get() <= OF_ONE, "{}", here.connections.open.get());
        drop(held);
        here.stop.now();
    })
    .await;
}

/// Returns a client of HTTP/2; its connection is a task.
async fn http2(here: &Here, config: &Arc<rustls::ClientConfig>) -> hyper::client::conn::http2::SendRequest<Full0> {
    let stream = secured(here, config).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(Local, TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::task::spawn_local(async { drop(connection.await) });
    sender
}

type Full0 = http_body_util::Full<hyper::body::Bytes>;

#[derive(Clone)]
struct Local;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

fn to(path: &str, body: &'static str) -> Request<Full0> {
    let uri = format!("https://localhost{path}");
    Request::post(uri).body(Full0::from(body)).unwrap()
}

#[tokio::test]
async fn http2_answers_side_by_side_and_a_caller_that_leaves_ends_its_request() {
    use http_body_util::BodyExt as _;
    serve_here(async |here| {
        let pair = pairs::pair();
        here.listeners
            .secure(Security::Tls(Tls::new(&pair, pairs::now()).unwrap()));
        let config = trusting(&pair, b"h2");
        let mut client = http2(&here, &config).await;
        let never = tokio::task::spawn_local(client.send_request(to("/never", "")));
        let answer = client.send_request(to("/b", "body")).await.unwrap();
        assert_eq!(answer.version(), Version::HTTP_2);
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text, "/b localhost 4 secure=true true");
        let large = client.send_request(to("/large", "")).await.unwrap();
        assert_eq!(large.into_body().collect().await.unwrap().to_bytes().len(), 8 << 20);
        let mut slow = to("/c", "");
        slow.headers_mut()
            .insert("x-large", HeaderValue::from_str(&"y".repeat(20 << 10)).unwrap());
        let refused = client.send_request(slow).await;
        assert!(refused.is_err() || refused.unwrap().status() == 431);
        never.abort();
        while here.seen.left.get() == 0 {
            tokio::task::yield_now().await;
        }
        // A stop answers what is there, and refuses what does not end.
        let mut client = http2(&here, &config).await;
        let never = tokio::task::spawn_local(client.send_request(to("/never", "")));
        while here
            .seen
            .requests
            .borrow()
            .last()
            .is_none_or(|(path, _)| path != "/never")
        {
            tokio::task::yield_now().await;
        }
        here.stop.now();
        let refused = never.await.unwrap().unwrap();
        assert_eq!(
            (refused.status(), &refused.headers()["retry-after"]),
            (hyper::StatusCode::SERVICE_UNAVAILABLE, &HeaderValue::from_static("1"))
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_reads_over_http2_are_given_up() {
    use http_body_util::BodyExt as _;
    serve_here(async |here| {
        let pair = pairs::pair();
        here.listeners
            .secure(Security::Tls(Tls::new(&pair, pairs::now()).unwrap()));
        let stream = secured(&here, &trusting(&pair, b"h2")).await.unwrap();
        let (mut client, connection) = hyper::client::conn::http2::Builder::new(Local)
            .initial_stream_window_size(0)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::task::spawn_local(async { drop(connection.await) });
        let large = client.send_request(to("/large", "")).await.unwrap();
        let small = client.send_request(to("/b", "")).await.unwrap();
        // A request that is answered keeps the connection from being idle.
        let never = tokio::task::spawn_local(client.send_request(to("/never", "")));
        tokio::time::sleep(2 * WRITE_TIME).await;
        for unread in [large, small] {
            let read = tokio::time::timeout(WRITE_TIME, unread.into_body().collect()).await;
            assert!(read.expect("the answer is given up").is_err());
        }
        assert!(!never.is_finished() && !client.is_closed());
        here.stop.now();
    })
    .await;
}

#[tokio::test]
async fn streams_that_are_reset_at_once_end_the_connection_and_no_other() {
    serve_here(async |here| {
        let pair = pairs::pair();
        here.listeners
            .secure(Security::Tls(Tls::new(&pair, pairs::now()).unwrap()));
        let mut stream = secured(&here, &trusting(&pair, b"h2")).await.unwrap();
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .await
            .unwrap();
        // :method GET, :scheme https, :path /, :authority x; then RST_STREAM, for each odd number.
        let mut frames = Vec::new();
        for number in (1..20_001_u32).step_by(2) {
            let id = number.to_be_bytes();
            frames.extend_from_slice(&[0, 0, 6, 1, 5]);
            frames.extend_from_slice(&id);
            frames.extend_from_slice(&[0x82, 0x87, 0x84, 0x41, 0x01, b'x']);
            frames.extend_from_slice(&[0, 0, 4, 3, 0]);
            frames.extend_from_slice(&id);
            frames.extend_from_slice(&8_u32.to_be_bytes());
        }
        let exchanged = exchange(Box::new(stream), &frames).await;
        assert!(!exchanged.is_empty(), "there is no GOAWAY");
        let answered = here.seen.requests.borrow().len();
        assert!(answered < 1000, "{answered} requests were answered");
        let answer = exchange(
            Box::new(secured(&here, &trusting(&pair, b"http/1.1")).await.unwrap()),
            GET.as_bytes(),
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        here.stop.now();
    })
    .await;
}

#[tokio::test]
async fn the_addresses_may_change_while_it_serves() {
    serve_here(async |here| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("http.sock");
        assert_eq!(here.listeners.apply(&[Address::Unix(path.clone())]), []);
        let stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        let answer = exchange(Box::new(stream), GET.as_bytes()).await;
        assert!(answer.ends_with("secure=false false"), "{answer}");
        // The socket that was not made by an address stays.
        let answer = exchange(plain(&here).await, GET.as_bytes()).await;
        assert!(answer.ends_with("secure=false true"), "{answer}");
        here.stop.now();
    })
    .await;
}

/// Returns the resident memory of this process, bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[tokio::test]
async fn an_idle_connection_keeps_little_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const IDLE_ONES: usize = 9_000;
    let most = getrlimit(Resource::Nofile).maximum;
    let needed = Some(2 * IDLE_ONES as u64 + 100);
    if most.is_some() && most < needed {
        eprintln!("skipped: RLIMIT_NOFILE is below {needed:?}");
        return;
    }
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: needed,
            maximum: most,
        },
    )
    .unwrap();
    serve_here(async |here| {
        let (all, of_one) = (2 * IDLE_ONES, 2 * IDLE_ONES);
        let for_root = 0;
        here.connections.set_places(SocketPlaces { all, of_one, for_root });
        let before = resident();
        let mut held = Vec::new();
        let mut answer = [0; 1024];
        for _ in 0..IDLE_ONES {
            let mut stream = TcpStream::connect(here.address).await.unwrap();
            stream
                .write_all(b"GET /1 HTTP/1.1\r\nhost: example.com\r\nuser-agent: curl/8.14.1\r\naccept: */*\r\n\r\n")
                .await
                .unwrap();
            assert!(stream.read(&mut answer).await.unwrap() > 0);
            // The runtime's part of the client is not to be measured.
            held.push(stream.into_std().unwrap());
        }
        let each = (resident() - before) / IDLE_ONES;
        assert_eq!(here.connections.open.get(), IDLE_ONES);
        assert!(each <= 16 << 10, "{each} bytes for each idle connection");
        drop(held);
        here.stop.now();
    })
    .await;
}
