//! Forms of requests: urlencoded and multipart bodies as browsers send them, and as an attacker would.

use crate::answers::each;
use crate::runtimes::Runtime;
use crate::worker::{Answer, Call, Worker};
use fnd_core::records::protocol::HttpRequest;
use serde_json::{Value, json};

const TYPE: &str = "multipart/form-data; boundary=frontier";

/// Returns a multipart body of parts, each with its headers and its content.
fn multipart(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (headers, content) in parts {
        body.extend_from_slice(format!("--frontier\r\n{headers}\r\n\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--frontier--\r\n");
    body
}

fn field(name: &str) -> String {
    format!("Content-Disposition: form-data; name=\"{name}\"")
}

fn asking(what: &str) -> Call<'static> {
    Call {
        request: Some(HttpRequest {
            method: "POST".to_owned(),
            path: "/users/7".to_owned(),
            route: "/users/{id}/{*rest}".to_owned(),
            params: vec![
                ("id".to_owned(), "7".to_owned()),
                ("rest".to_owned(), "a b/c".to_owned()),
            ],
            remote: "192.0.2.7".to_owned(),
            headers: vec![("x-ask".to_owned(), what.to_owned())],
            ..HttpRequest::default()
        }),
        ..Call::default()
    }
}

#[test]
fn a_request_has_its_route_and_its_caller() {
    each("form", |runtime, worker| {
        let expected = json!(["/users/{id}/{*rest}", {"id": "7", "rest": "a b/c"}, "192.0.2.7"]);
        assert_eq!(worker.call(&asking("route")).json(), expected, "{}", runtime.id);
    });
}

#[test]
fn a_urlencoded_form_has_fields() {
    each("form", |runtime, worker| {
        let check = |worker: &mut Worker, body: &str, forms: Value| {
            let call = Call::of("application/x-www-form-urlencoded; charset=UTF-8", body.as_bytes());
            let expected = json!({"forms": forms, "files": {}});
            assert_eq!(worker.call(&call).json(), expected, "{}: {body}", runtime.id);
        };
        check(
            worker,
            "a=1&b=x+y%26&a=%C3%A9&c=",
            json!({"a": ["1", "é"], "b": ["x y&"], "c": [""]}),
        );
        check(worker, "", json!({}));
        check(
            worker,
            "__proto__=1&constructor=2&7=8",
            json!({"__proto__": ["1"], "constructor": ["2"], "7": ["8"]}),
        );
        check(
            worker,
            "&&a&b=1=2&%=%4&c=%ff%zz&",
            json!({"a": [""], "b": ["1=2"], "%": ["%4"], "c": ["\u{fffd}%zz"]}),
        );
        // The most that is allowed, each with a name of its own.
        let most: Vec<String> = (0..10_000).map(|number| format!("a{number}=1")).collect();
        let most = most.join("&");
        let found = worker
            .call(&Call::of("application/x-www-form-urlencoded", most.as_bytes()))
            .json();
        assert_eq!(found["forms"].as_object().unwrap().len(), 10_000, "{}", runtime.id);
        for count in [10_001, 100_000] {
            let many = vec!["a=1"; count].join("&");
            refused(
                runtime,
                worker,
                &Call::of("application/x-www-form-urlencoded", many.as_bytes()),
                "more than 10000 fields",
            );
        }
        // Without a form there is nothing to read.
        let expected = json!({"forms": {}, "files": {}});
        assert_eq!(worker.call(&Call::json("[1]")).json(), expected, "{}", runtime.id);
    });
}

#[test]
fn a_multipart_form_has_fields_and_files() {
    each("form", |runtime, worker| {
        let binary: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let latin = "Content-Disposition: form-data; name=latin\r\nContent-Type: text/plain; charset=ISO-8859-1";
        let body = multipart(&[
            (&field("a"), b"1"),
            (&field("a"), "zwei ü".as_bytes()),
            (&field("empty"), b""),
            (&field("lines"), b"\r\n--frontiers\r\n--frontier x\r\n"),
            (latin, b"\xe9"),
            (
                "Content-Disposition: form-data; name=\"photo\"; filename=\"a \\\"b\\\".png\"\r\nContent-Type: image/png",
                &binary,
            ),
            ("content-disposition:form-data; name=bare; filename=x.txt", b""),
        ]);
        let call = Call::of(TYPE, &body);
        let start: String = (0..16u8).map(char::from).collect();
        let expected = json!({
            "forms": {
                "a": ["1", "zwei ü"], "empty": [""], "lines": ["\r\n--frontiers\r\n--frontier x\r\n"], "latin": ["é"],
            },
            "files": {
                "photo": ["a \"b\".png", "image/png", 300_000, start],
                "bare": ["x.txt", "application/octet-stream", 0, ""],
            },
        });
        assert_eq!(worker.call(&call).json(), expected, "{}", runtime.id);
        // A quoted boundary with every mark that one may have, and a line break before the first one.
        let quoted = b"\r\n--a'()+_,-./:=? b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--a'()+_,-./:=? b--";
        let call = Call::of(
            "Multipart/Form-Data; charset=utf-8; boundary=\"a'()+_,-./:=? b\"",
            quoted,
        );
        assert_eq!(
            worker.call(&call).json(),
            json!({"forms": {"a": ["1"]}, "files": {}}),
            "{}",
            runtime.id
        );
        assert_eq!(
            worker.call(&asking("left")).json(),
            json!([]),
            "{}: files are left",
            runtime.id
        );
    });
}

#[test]
fn a_file_name_names_no_directory() {
    each("form", |runtime, worker| {
        for (sent, expected) in [
            ("../../etc/passwd", "passwd"),
            ("/etc/cron.d/x", "x"),
            ("C:\\\\dir\\file.txt", "file.txt"),
            ("..", "empty"),
            ("a/..", "empty"),
            ("", "empty"),
            ("%22%0D%0AX: y", "\"%0D%0AX: y"),
        ] {
            let body = multipart(&[(&format!("{}; filename=\"{sent}\"", field("f")), b"x")]);
            let found = worker.call(&Call::of(TYPE, &body)).json();
            assert_eq!(found["files"]["f"][0], expected, "{}: {sent}", runtime.id);
        }
    });
}

#[test]
fn a_hostile_multipart_body_is_answered_with_400() {
    each("form", |runtime, worker| {
        let fine = multipart(&[(&field("a"), b"1")]);
        for (content_type, body, why) in hostile(&fine) {
            refused(runtime, worker, &Call::of(&content_type, &body), why);
        }
        // The worker goes on.
        let expected = json!({"forms": {"a": ["1"]}, "files": {}});
        assert_eq!(worker.call(&Call::of(TYPE, &fine)).json(), expected, "{}", runtime.id);
    });
}

fn hostile(fine: &[u8]) -> Vec<(String, Vec<u8>, &'static str)> {
    let one = |headers: &str| multipart(&[(headers, b"x")]);
    let typed = |kind: &str| one(&format!("{}\r\nContent-Type: {kind}", field("a")));
    let many: Vec<_> = std::iter::repeat_n((field("a"), &b"1"[..]), 10_000).collect();
    let many: Vec<_> = many
        .iter()
        .map(|(headers, content)| (headers.as_str(), *content))
        .collect();
    let plain = |body: Vec<u8>, why| (TYPE.to_owned(), body, why);
    let of_type = |kind: &str, why| (kind.to_owned(), fine.to_vec(), why);
    vec![
        of_type("multipart/form-data", "boundary"),
        of_type("multipart/form-data; boundary=", "boundary"),
        of_type("multipart/form-data; boundary=\"a\u{1}\"", "boundary"),
        of_type(&format!("multipart/form-data; boundary={}", "x".repeat(71)), "boundary"),
        of_type("multipart/form-data; boundary=a; boundary=b", "twice"),
        of_type("multipart/form-data; boundary=\"frontier", "invalid parameters"),
        of_type("multipart/form-data; boundary=other", "does not begin"),
        plain(Vec::new(), "does not begin"),
        plain([b"preamble\r\n", fine].concat(), "does not begin"),
        plain(b"--frontier".to_vec(), "line of its own"),
        plain(b"--frontier\r\n".to_vec(), "do not end"),
        plain(fine[..fine.len() - 14].to_vec(), "last boundary"),
        plain(fine[..fine.len() - 4].to_vec(), "last boundary"),
        plain(multipart(&many), "more than 1000 parts"),
        plain(
            one(&format!("{}\r\nX: {}", field("a"), "x".repeat(9 << 10))),
            "do not end within 8 KiB",
        ),
        plain(one("Content-Type: text/plain"), "Content-Disposition"),
        plain(one("Content-Disposition: attachment; name=a"), "Content-Disposition"),
        plain(one("Content-Disposition: form-data"), "no name"),
        plain(one("Content-Disposition: form-data; name=a; name=b"), "twice"),
        plain(one(&format!("{0}\r\n{0}", field("a"))), "twice"),
        plain(one("Content-Disposition : form-data; name=a"), "invalid header"),
        plain(
            one(&format!("{}; filename=\"a\r\nX-Injected: y\"", field("a"))),
            "invalid",
        ),
        plain(one(&format!("{}; filename=\"a\0.png\"", field("a"))), "invalid header"),
        plain(one(&format!("{}; filename=\"a\nb\"", field("a"))), "invalid header"),
        plain(typed("multipart/mixed; boundary=inner"), "multipart body itself"),
        plain(typed("text/plain; charset=utf-7"), "character set"),
        plain(typed("text/plain; charset=\""), "invalid parameters"),
        plain(typed("text/plain; charset="), "character set"),
        plain(one("Content-Disposition: form-data; name=a; NAME=b"), "`NAME` twice"),
        plain(multipart(&[(&field("a"), b"\xff\xfe")]), "not utf-8"),
        plain(
            [
                b"--frontier\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\n",
                &b"x"[..],
            ]
            .concat(),
            "not UTF-8",
        ),
    ]
}

/// The readers of the languages are two programs, so each is the test of the other.
#[test]
fn a_damaged_body_has_the_same_answer_in_every_language() {
    let fine = multipart(&[
        (&field("a"), b"1"),
        (
            &format!("{}\r\nContent-Type: text/plain; charset=utf-8", field("a")),
            b"",
        ),
        (
            &format!("{}; filename=\"x\\\"y.txt\"\r\nX: y", field("f")),
            b"--frontiers\r\n--frontier \t\r",
        ),
        ("content-disposition:form-data;name=b", b"\xc3\xa9"),
    ]);
    let pieces: [&[u8]; 24] = [
        b"\r\n",
        b"\r",
        b"\n",
        b"--frontier",
        b"--",
        b"\"",
        b"\\",
        b";",
        b"=",
        b" ",
        b"\t",
        b"\xc2\xa0",
        b"\xef\xbb\xbf",
        b"\x1c",
        b"\xc2\x85",
        b"\0",
        b":",
        b"%22",
        b"/..",
        b"name=",
        b"filename*=",
        b"\xe2\x80\xa8",
        b"\xff",
        b"__proto__",
    ];
    // The same choices in each run.
    let mut state = 7_u64;
    let mut choose = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let bodies: Vec<Vec<u8>> = (0..400)
        .map(|_| {
            let mut body = fine.clone();
            for _ in 0..=choose(3) {
                let at = choose(body.len());
                let to = body.len().min(at + choose(4));
                body.splice(at..to, pieces[choose(pieces.len())].iter().copied());
            }
            body
        })
        .collect();
    let mut first: Option<Vec<(Option<u16>, Vec<u8>)>> = None;
    each("form", |runtime, worker| {
        let answers = bodies.iter().map(|body| match worker.call(&Call::of(TYPE, body)) {
            Answer::Result(head, Some(body)) => {
                // Keys of objects are in another order.
                let value = serde_json::from_slice::<Value>(&body).map(|value| value.to_string().into_bytes());
                (head.status, value.unwrap_or(body))
            }
            other => panic!("{}: {other:?} for {}", runtime.id, body.escape_ascii()),
        });
        let answers: Vec<_> = answers.collect();
        assert!(answers.iter().any(|(status, _)| status.is_none()), "no body is fine");
        let expected = first.get_or_insert_with(|| answers.clone());
        for ((answer, expected), body) in answers.iter().zip(expected).zip(&bodies) {
            assert_eq!(answer, expected, "{}: {}", runtime.id, body.escape_ascii());
        }
    });
}

/// Checks that a call is answered with status 400 and a text that says why.
#[track_caller]
fn refused(runtime: &Runtime, worker: &mut Worker, call: &Call<'_>, why: &str) {
    let Answer::Result(head, Some(body)) = worker.call(call) else {
        panic!("{}: {why}: no answer", runtime.id);
    };
    let text = String::from_utf8_lossy(&body);
    assert_eq!(head.status, Some(400), "{}: {why}: {text}", runtime.id);
    assert!(text.contains(why), "{}: expected {why}: {text}", runtime.id);
}
