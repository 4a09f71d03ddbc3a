//! A caller that keeps its HTTP connection, as a program would.

use fnd_tests::wait_until;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a server listens.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    /// On a Unix socket.
    Unix(PathBuf),
    /// On a port of this machine.
    Tcp(SocketAddr),
}

/// A connection, and the request that it repeats.
pub(crate) struct Caller {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
    /// Owns the task that drives the connection.
    _connection: JoinSet<hyper::Result<()>>,
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
}

impl Caller {
    /// Connects, once the server listens. Each call posts.
    pub(crate) fn open(server: &Server, path: &str) -> Self {
        Self::with(server, Method::POST, path)
    }

    /// Connects, once the server listens. Each call asks.
    pub(crate) fn asking(server: &Server, path: &str) -> Self {
        Self::with(server, Method::GET, path)
    }

    fn with(server: &Server, method: Method, path: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (sender, connection) = wait_until("the server to listen", PATIENCE, || {
            runtime.block_on(connect(server)).ok()
        });
        Self {
            runtime,
            sender,
            _connection: connection,
            method,
            path: path.to_owned(),
            headers: vec![("host", "fnd".to_owned())],
        }
    }

    /// Sends a token with each request.
    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.headers.push(("authorization", format!("Bearer {token}")));
        self
    }

    /// Sends what a browser sends to the page, which refuses the names of other hosts.
    pub(crate) fn with_session(mut self, cookie: &str) -> Self {
        self.headers = vec![("host", "localhost".to_owned()), ("cookie", cookie.to_owned())];
        self
    }

    /// Asks or posts, and takes the whole answer.
    pub(crate) fn call(&mut self) {
        let _ = self.body();
    }

    /// Asks or posts, and returns the body of the answer.
    pub(crate) fn body(&mut self) -> Bytes {
        let mut request = Request::builder().method(&self.method).uri(&*self.path);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::default());
        let request = request.expect("a constant request is well-formed");
        let Self { runtime, sender, .. } = self;
        runtime.block_on(async {
            let answer = sender.send_request(request).await.expect("the server answers");
            assert!(answer.status().is_success(), "{answer:?}");
            let body = answer.into_body().collect().await.expect("the answer is whole");
            body.to_bytes()
        })
    }
}

type Connected = (SendRequest<Full<Bytes>>, JoinSet<hyper::Result<()>>);

async fn connect(server: &Server) -> anyhow::Result<Connected> {
    match server {
        Server::Unix(path) => talk(tokio::net::UnixStream::connect(path).await?).await,
        Server::Tcp(address) => {
            let stream = tokio::net::TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            talk(stream).await
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> anyhow::Result<Connected> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    Ok((sender, tasks))
}
