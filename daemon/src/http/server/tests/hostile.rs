//! Bad input for a server that anybody can reach: each message gets its status and a closed connection, or only the
//! latter; none hangs, and none makes the server see a request that is not there.

use super::super::*;
use super::public::{HEAD_TIME, Here, IDLE, OF_ONE, Stream, exchange, plain, secured, serve_here, trusting};
use crate::http::limits::WRITE_TIME;
use crate::http::listen::tls::Security;
use crate::http::listen::tls::{Tls, tests as pairs};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A message that cannot be told apart from two, or is none: what is sent, and whether it may be answered as one
/// request.
const MESSAGES: &[(&str, &str)] = fnd_manifest::texts! {
    "CL and TE":
        "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "TE and CL":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "two CL":
        "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\ncontent-length: 44\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "CL twice":
        "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\ncontent-length: 0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a list of CL":
        "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 0, 0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "CL with a sign":
        "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: +0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a negative CL":
        "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a CL in hexadecimal":
        "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 0x0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a CL above 2^64":
        "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551616\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "two TE":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "chunked twice":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "an unknown TE":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "gzip, chunked":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a TE behind a vertical tab":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "TE in HTTP/1.0":
        "POST /x HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "two Host": "GET /x HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a target of another host": "GET http://b/x HTTP/1.1\r\nhost: a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "LF only": "GET /x HTTP/1.1\nhost: a\n\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "one LF": "GET /x HTTP/1.1\r\nhost: a\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "obs-fold": "GET /x HTTP/1.1\r\nhost: a\r\nx: 1\r\n 2\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a bare CR in a value":
        "GET /x HTTP/1.1\r\nhost: a\r\nx: 1\rtransfer-encoding: chunked\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a bare CR in the first line": "GET /x\rHTTP/1.1\r\nhost: a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a zero byte": "GET /x HTTP/1.1\r\nhost: a\r\nx: \0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a space before the colon":
        "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length : 44\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a space before the name": "GET /x HTTP/1.1\r\n host: a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "no colon": "GET /x HTTP/1.1\r\nhost: a\r\nnonsense\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "no target": "GET HTTP/1.1\r\nhost: a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "an unknown version": "GET /x HTTP/3.7\r\nhost: a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "no host": "GET /x HTTP/1.1\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "no host beside a target with one": "GET http://a/x HTTP/1.1\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "HTTP/0.9": "GET /x\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a record of TLS": "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n",
    "garbage": "\x7f\x01\x02\x03 nothing at all\r\n\r\n",
    "a chunk's size with a prefix":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0x2\r\nab\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a chunk's size with a sign":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n+2\r\nab\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a chunk's size above 2^64":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n10000000000000002\r\nab\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a chunk's size without digits":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n;\r\nab\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a chunk that is longer than its size":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a chunk's size that ends with LF":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\nab\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "a chunk's extension with LF":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2;a\nab\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    "the last chunk with LF":
        "POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\n\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
};

/// Calls `test` with a server and a way to connect to it, first plain and then by TLS.
async fn plain_and_secured(test: impl AsyncFn(&Here, &dyn AsyncConnect)) {
    serve_here(async |here| {
        test(&here, &Plainly).await;
        let pair = pairs::pair();
        here.listeners
            .secure(Security::Tls(Tls::new(&pair, pairs::now()).unwrap()));
        test(&here, &Securely(trusting(&pair, b"http/1.1"))).await;
        here.stop.now();
    })
    .await;
}

type Connecting<'a> = std::pin::Pin<Box<dyn Future<Output = Box<dyn Stream>> + 'a>>;

trait AsyncConnect {
    fn to<'a>(&'a self, here: &'a Here) -> Connecting<'a>;
}

struct Plainly;
struct Securely(std::sync::Arc<rustls::ClientConfig>);

impl AsyncConnect for Plainly {
    fn to<'a>(&'a self, here: &'a Here) -> Connecting<'a> {
        Box::pin(plain(here))
    }
}

impl AsyncConnect for Securely {
    fn to<'a>(&'a self, here: &'a Here) -> Connecting<'a> {
        Box::pin(async { Box::new(secured(here, &self.0).await.unwrap()) as Box<dyn Stream> })
    }
}

#[tokio::test]
async fn an_ambiguous_message_is_refused_and_hides_no_other() {
    plain_and_secured(async |here, connect| {
        for (what, message) in MESSAGES {
            let ended = tokio::time::timeout(Duration::from_secs(60), async {
                exchange(connect.to(here).await, message.as_bytes()).await
            });
            let answer = ended.await.unwrap_or_else(|_| panic!("{what}: it hangs"));
            let is_refused =
                answer.is_empty() || answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.0 400");
            assert!(is_refused && answer.matches("HTTP/1.").count() <= 1, "{what}: {answer}");
            let seen = here.seen.requests.borrow().clone();
            assert_eq!(seen, [], "{what}");
        }
    })
    .await;
}

#[tokio::test]
async fn valid_messages_that_look_strange_are_answered_one_by_one() {
    plain_and_secured(async |here, connect| {
        for (what, message, bodies) in [
            ("pipelining", "GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\n\r\nGET /3 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(), vec![0, 0, 0]),
            ("empty lines before", "\r\n\r\nGET /1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(), vec![0]),
            ("HTTP/1.0", "GET /1 HTTP/1.0\r\n\r\n".to_owned(), vec![0]),
            ("a target with its own host", "GET http://A/1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(), vec![0]),
            ("extensions and trailers", "POST /1 HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: Chunked\r\n\r\n2;a=\"b\"\r\nab\r\n0\r\nx: 1\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(), vec![2, 0]),
            ("one byte a chunk", format!("POST /1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n", "1\r\nx\r\n".repeat(1000)), vec![1000]),
        ] {
            let answers = exchange(connect.to(here).await, message.as_bytes()).await;
            assert_eq!(answers.matches("200 OK").count(), bodies.len(), "{what}: {answers}");
            let seen: Vec<usize> = here.seen.requests.take().into_iter().map(|(_, size)| size).collect();
            assert_eq!(seen, bodies, "{what}");
        }
        let head = format!("GET /x HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(32 << 10));
        let answer = exchange(connect.to(here).await, head.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
        let head = format!("GET /x HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(200));
        let answer = exchange(connect.to(here).await, head.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
        assert_eq!(here.seen.requests.borrow().len(), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn slow_clients_are_cut_off_in_their_time() {
    serve_here(async |here| {
        let second = Duration::from_secs(1);
        let check = async |sent: &str, expected: &str, time: Duration| {
            let start = Instant::now();
            let answer = exchange(plain(&here).await, sent.as_bytes()).await;
            assert!(
                answer.contains(expected) && answer.is_empty() == expected.is_empty(),
                "{sent}: {answer}"
            );
            assert!(
                start.elapsed() >= time && start.elapsed() < time + second,
                "{sent}: {:?}",
                start.elapsed()
            );
        };
        let get = "GET /1 HTTP/1.1\r\nhost: a\r\n\r\n";
        check("", "", IDLE).await;
        check(get, "200 OK", IDLE).await;
        check("GET /1 HTTP/1.1\r\nx", "HTTP/1.1 408", HEAD_TIME).await;
        check(&format!("{get}GET"), "HTTP/1.1 408", HEAD_TIME).await;
        check(
            "POST /1 HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n123",
            "slow-request",
            Duration::from_secs(10),
        )
        .await;
        // A head that begins late has its whole time, and one byte now and then does not prolong it.
        let start = Instant::now();
        let mut stream = TcpStream::connect(here.address).await.unwrap();
        tokio::time::sleep(IDLE - second).await;
        while stream.write_all(b"x").await.is_ok() && start.elapsed() < 2 * IDLE {
            tokio::time::sleep(second).await;
        }
        let ends = IDLE - second + HEAD_TIME;
        assert!(
            start.elapsed() >= ends && start.elapsed() < ends + 4 * second,
            "{:?}",
            start.elapsed()
        );
        // A body that comes with 4 KiB/s: it may be 10 s slower than 8 KiB/s.
        let start = Instant::now();
        let (mut from, mut to) = TcpStream::connect(here.address).await.unwrap().into_split();
        to.write_all(b"POST /1 HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n")
            .await
            .unwrap();
        let sending = tokio::task::spawn_local(async move {
            while to.write_all(&[b'x'; 4 << 10]).await.is_ok() {
                tokio::time::sleep(second).await;
            }
        });
        let mut answer = vec![0; 4096];
        let count = from.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..count]);
        assert!(
            answer.starts_with("HTTP/1.1 408") && answer.contains("slower than"),
            "{answer}"
        );
        let time = start.elapsed();
        assert!(time >= 18 * second && time <= 22 * second, "{time:?}");
        sending.abort();
        here.stop.now();
    })
    .await;
}

/// Asks for an answer of 8 MiB.
async fn ask_for_a_large_answer(here: &Here) -> TcpStream {
    let mut stream = TcpStream::connect(here.address).await.unwrap();
    stream
        .write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    stream
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_is_given_up() {
    serve_here(async |here| {
        let mut stream = ask_for_a_large_answer(&here).await;
        // The test reads only after that time: it gets the bytes that the socket had taken, and then the end.
        tokio::time::sleep(2 * WRITE_TIME).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await; // the connection may be reset
        assert!(bytes.len() < 8 << 20, "{} bytes", bytes.len());
        here.stop.now();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_read_slowly_arrives() {
    serve_here(async |here| {
        let mut stream = ask_for_a_large_answer(&here).await;
        let mut bytes = Vec::new();
        while bytes.len() < 8 << 20 {
            tokio::time::sleep(WRITE_TIME / 16).await;
            let before = bytes.len();
            while bytes.len() < before + (128 << 10) && bytes.len() < 8 << 20 {
                assert_ne!(
                    stream.read_buf(&mut bytes).await.unwrap(),
                    0,
                    "after {} bytes",
                    bytes.len()
                );
            }
        }
        here.stop.now();
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_leaves_or_closes_its_half_ends_its_request() {
    plain_and_secured(async |here, connect| {
        let before = here.seen.left.get();
        for closes in [false, true] {
            let mut stream = connect.to(here).await;
            stream
                .write_all(b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n")
                .await
                .unwrap();
            while here.seen.requests.borrow().is_empty() {
                tokio::task::yield_now().await;
            }
            here.seen.requests.take();
            if closes {
                stream.shutdown().await.unwrap();
            }
            drop(stream);
        }
        while here.seen.left.get() < before + 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    serve_here(async |here| {
        let mut held = Vec::new();
        for _ in 0..1000 {
            held.push(TcpStream::connect(here.address).await.unwrap());
            tokio::task::yield_now().await;
        }
        let answer = exchange(
            plain(&here).await,
            b"GET /1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        drop(held);
        // While all wait for an answer, one more is refused.
        let mut busy = Vec::new();
        for _ in 0..OF_ONE {
            let mut stream = TcpStream::connect(here.address).await.unwrap();
            stream
                .write_all(b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n")
                .await
                .unwrap();
            busy.push(stream);
        }
        while here
            .seen
            .requests
            .borrow()
            .iter()
            .filter(|(path, _)| path == "/never")
            .count()
            < OF_ONE
        {
            tokio::task::yield_now().await;
        }
        let answer = exchange(plain(&here).await, b"").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1\r\n"),
            "{answer}"
        );
        assert!(here.connections.refused.get() > 0);
        here.stop.now();
        // A stop answers each of them.
        for mut stream in busy {
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            assert!(
                text.starts_with("HTTP/1.1 503") && text.contains("retry-after: 1\r\n"),
                "{text}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_stop_answers_a_request_that_is_on_its_way() {
    serve_here(async |here| {
        let mut stream = TcpStream::connect(here.address).await.unwrap();
        let get = b"GET /1 HTTP/1.1\r\nhost: a\r\n\r\n";
        stream.write_all(get).await.unwrap();
        let mut bytes = [0; 4096];
        assert!(stream.read(&mut bytes).await.unwrap() > 0);
        here.stop.now();
        tokio::task::yield_now().await;
        stream.write_all(get).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(
            text.starts_with("HTTP/1.1 200") && text.contains("connection: close\r\n"),
            "{text}"
        );
    })
    .await;
}
