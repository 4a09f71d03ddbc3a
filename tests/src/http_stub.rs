//! A small HTTP server on the loopback address for functions that call one. It gives the configured answers and records
//! the requests.

use crate::wait::PATIENCE;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A request it received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Method and path: `POST /hook`.
    pub line: String,
    pub body: String,
}

/// A running server. It stops when dropped.
#[derive(Debug)]
pub struct HttpStub {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    thread: Option<JoinHandle<()>>,
}

/// The request that ends the server.
const STOP: &str = "STOP /";

impl HttpStub {
    /// Starts a server that answers the n-th request with the n-th of `statuses`, and those after with the last of them.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn start(statuses: &[u16], body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback address");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (kept, statuses) = (Arc::clone(&seen), statuses.to_vec());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = kept.lock().unwrap_or_else(PoisonError::into_inner).len();
                let status = statuses.get(count).or(statuses.last()).copied().unwrap_or(200);
                // A caller that closes its connection was killed; the next one is served.
                let Ok(request) = receive(&stream) else { continue };
                if request.line == STOP {
                    return;
                }
                // Recorded before the answer: the caller may check the record at once.
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                let _ = answer(&stream, status, body);
            }
        });
        Self {
            port,
            seen,
            thread: Some(thread),
        }
    }

    /// Returns its address: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for HttpStub {
    fn drop(&mut self) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            // A refused connection means that the server has ended already.
            let _ = stream.write_all(format!("{STOP} HTTP/1.1\r\n\r\n").as_bytes());
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the server has failed the test already, since an answer was missing.
            let _ = thread.join();
        }
    }
}

fn receive(stream: &TcpStream) -> std::io::Result<Seen> {
    // A caller that sends nothing would hold up the others.
    stream.set_read_timeout(Some(PATIENCE / 2))?;
    let mut reader = BufReader::new(stream);
    let (mut line, mut header) = (String::new(), String::new());
    reader.read_line(&mut line)?;
    let mut length = 0;
    loop {
        header.clear();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let lower = header.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut received = vec![0; length];
    reader.read_exact(&mut received)?;
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    Ok(Seen {
        line,
        body: String::from_utf8_lossy(&received).into_owned(),
    })
}

fn answer(mut stream: &TcpStream, status: u16, body: &str) -> std::io::Result<()> {
    let answer = format!(
        "HTTP/1.1 {status} Stub\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes())
}
