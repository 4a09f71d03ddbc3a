use super::*;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use std::cell::Cell;
use tokio::io::AsyncWriteExt as _;

/// Returns what is wrong, and with which message, however the bytes are cut.
fn check(bytes: &[u8], expected: Option<(u64, WrongFraming)>) {
    for step in [1, 2, 3, 7, bytes.len().max(1)] {
        let mut framing = Framing::new();
        bytes.chunks(step).for_each(|piece| framing.read(piece));
        assert_eq!(
            framing.wrong,
            expected,
            "{:?} in pieces of {step}",
            String::from_utf8_lossy(bytes)
        );
    }
}

const GET: &str = "GET / HTTP/1.1\r\nhost: fnd\r\n\r\n";

#[test]
fn messages_are_followed_to_their_ends() {
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\nHost: a\r\n\r\n", "y".repeat(500));
    for fine in [
        GET.to_owned(),
        GET.repeat(3),
        format!("\r\n\r\n{GET}"),
        long.clone(),
        // Line feeds of a body are its own.
        format!("POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\n\na\nb\n\n{GET}"),
        format!(
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\n\n\n\n\r\n0A\r\n0123456\n\n\n\r\n0\r\nt: 1\r\n\r\n{GET}"
        ),
        "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n\n\n".to_owned(),
    ] {
        check(fine.as_bytes(), None);
    }
    for (text, number, wrong) in [
        ("GET / HTTP/1.1\nhost: a\n\n".to_owned(), 1, WrongFraming::LineEnd),
        ("GET / HTTP/1.1\r\nhost: a\n\r\n".to_owned(), 1, WrongFraming::LineEnd),
        (
            format!("{GET}GET / HTTP/1.1\r\nhost: a\r\n\n"),
            2,
            WrongFraming::LineEnd,
        ),
        (
            format!("GET / HTTP/1.1\r\nx: {}\nHost: a\r\n\r\n", "y".repeat(126)),
            1,
            WrongFraming::LineEnd,
        ),
        (
            format!("GET / HTTP/1.1\r\nx: {}\n\r\n", "y".repeat(500)),
            1,
            WrongFraming::LineEnd,
        ),
        (format!("{long}\n"), 2, WrongFraming::LineEnd),
        (
            "GET / HTTP/1.1\r\nhost: a\r\nHOST: a\r\n\r\n".to_owned(),
            1,
            WrongFraming::Hosts,
        ),
        (
            format!("POST / HTTP/1.1\r\ncontent-length:{}2\r\n\r\n", " ".repeat(130)),
            1,
            WrongFraming::Digits,
        ),
        (
            format!("POST / HTTP/1.1\r\ncontent-length: {}2\r\n\r\n", "0".repeat(130)),
            1,
            WrongFraming::Digits,
        ),
        (
            format!(
                "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{}8\r\n",
                "0".repeat(200)
            ),
            1,
            WrongFraming::Digits,
        ),
        // hyper does not look at a length beside this coding.
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: x\r\n\r\n".to_owned(),
            1,
            WrongFraming::TwoLengths,
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 3\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            1,
            WrongFraming::TwoLengths,
        ),
        (
            format!("{GET}POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n"),
            2,
            WrongFraming::TwoLengths,
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n".to_owned(),
            1,
            WrongFraming::LineEnd,
        ),
    ] {
        check(text.as_bytes(), Some((number, wrong)));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived_and_cuts_change_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 1..40_usize) {
        let (mut whole, mut cuts) = (Framing::new(), Framing::new());
        whole.read(&bytes);
        bytes.chunks(cut).for_each(|piece| cuts.read(piece));
        prop_assert_eq!((whole.wrong, whole.at, whole.heads), (cuts.wrong, cuts.at, cuts.heads));
    }
}

/// Returns how many requests hyper reads completely.
fn read_by_hyper(bytes: &[u8]) -> u64 {
    let read = Cell::new(0);
    let service = service_fn(|request: Request<Incoming>| async {
        request.into_body().collect().await?;
        read.set(read.get() + 1);
        Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new()))
    });
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        theirs.write_all(bytes).await.unwrap();
        theirs.shutdown().await.unwrap();
        // A faulty message ends the connection with an error.
        let _ = http1::Builder::new()
            .half_close(true)
            .serve_connection(TokioIo::new(ours), service)
            .await;
    });
    read.get()
}

/// Parts of messages, most of which hyper accepts in some order.
fn part() -> impl Strategy<Value = String> {
    let spaces = || prop_oneof![Just(0_usize), Just(1), Just(127), Just(200)];
    let length = || (spaces(), spaces(), 0..12_u32);
    prop_oneof![
        4 => Just("POST / HTTP/1.1\r\nhost: a\r\n".to_owned()),
        4 => Just("\r\n".to_owned()),
        1 => Just("transfer-encoding: chunked\r\n".to_owned()),
        1 => Just("content-length: x\r\n".to_owned()),
        1 => Just("host: b\r\n".to_owned()),
        2 => length().prop_map(|(before, zeros, length)| {
            format!("content-length:{}{}{length}\r\n", " ".repeat(before), "0".repeat(zeros))
        }),
        2 => (spaces(), 0..12_u32, spaces()).prop_map(|(zeros, size, more)| {
            format!("{}{size:x}{}\r\n", "0".repeat(zeros), ";x".repeat(more))
        }),
        1 => "[a-z\r\n0]{0,11}",
        1 => Just("\n".to_owned()),
    ]
}

proptest! {
    #[test]
    fn no_message_that_hyper_reads_is_overlooked(parts in prop::collection::vec(part(), 0..16)) {
        let bytes = parts.concat();
        let mut framing = Framing::new();
        framing.read(bytes.as_bytes());
        if framing.wrong.is_none() {
            prop_assert!(read_by_hyper(bytes.as_bytes()) <= framing.heads);
        }
    }
}
