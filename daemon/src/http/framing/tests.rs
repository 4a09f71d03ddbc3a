use super::*;
use proptest::prelude::*;

/// Returns what is wrong, and with which message, however the bytes are cut.
fn check(bytes: &[u8], expected: Option<(u64, Wrong)>) {
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
        ("GET / HTTP/1.1\nhost: a\n\n".to_owned(), 1, Wrong::LineEnd),
        ("GET / HTTP/1.1\r\nhost: a\n\r\n".to_owned(), 1, Wrong::LineEnd),
        (format!("{GET}GET / HTTP/1.1\r\nhost: a\r\n\n"), 2, Wrong::LineEnd),
        (
            format!("GET / HTTP/1.1\r\nx: {}\nHost: a\r\n\r\n", "y".repeat(126)),
            1,
            Wrong::LineEnd,
        ),
        (
            format!("GET / HTTP/1.1\r\nx: {}\n\r\n", "y".repeat(500)),
            1,
            Wrong::LineEnd,
        ),
        (format!("{long}\n"), 2, Wrong::LineEnd),
        (
            "GET / HTTP/1.1\r\nhost: a\r\nHOST: a\r\n\r\n".to_owned(),
            1,
            Wrong::Hosts,
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 3\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            1,
            Wrong::TwoLengths,
        ),
        (
            format!("{GET}POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n"),
            2,
            Wrong::TwoLengths,
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n".to_owned(),
            1,
            Wrong::LineEnd,
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
