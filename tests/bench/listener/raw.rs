//! Requests as bytes on a connection, and an echo that answers them without reading what they are: their floor.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// The request: fnd answers it without a function.
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: fnd\r\n\r\n";

/// The answer of the echo, of the form that fnd's has.
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 3\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nok\n";

/// Sends the request and reads its answer.
pub(super) fn exchange(stream: &mut (impl Read + Write)) {
    stream.write_all(REQUEST).expect("the server reads");
    stream.flush().expect("the server reads");
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while !answer.ends_with(b"\r\n\r\nok\n") {
        let count = stream.read(&mut buffer).expect("the server answers");
        assert!(count > 0, "the server closed the connection");
        answer.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "another answer");
}

/// Connects as a caller does.
pub(super) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("an option of TCP");
    stream
}

/// Threads of the echo, each with one connection at a time: more than there are callers at once. A new one for each
/// connection would be slower than fnd.
const THREADS: usize = 32;

/// Starts an echo, until the program ends.
pub(super) fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    for _ in 0..THREADS {
        let listener = listener.try_clone().expect("a descriptor");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream);
            }
        });
    }
    address
}

fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("an option of TCP");
    let mut buffer = [0; 1024];
    while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
        if stream.write_all(ANSWER).is_err() {
            return; // the caller has gone
        }
    }
}
