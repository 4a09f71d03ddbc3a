//! The response of express, as functions of Kubeless and Kyma use it. Node and deno have it alike.

use crate::forms::serve;
use crate::runtimes::{self, Runtime};
use crate::worker::{Answer, Call, Worker};
use fnd_core::records::protocol::{FailureKind, HttpRequest, ResultHead};

/// Runs `judge` with both runtimes.
pub(crate) fn both(mut judge: impl FnMut(&Runtime)) {
    for id in ["node", "deno"] {
        if let Some(runtime) = runtimes::one(id) {
            judge(&runtime);
        }
    }
}

/// Returns a call with the word `case` in a header.
pub(crate) fn case<'a>(name: &str, content_type: &'a str, body: &'a str) -> Call<'a> {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Call {
        request: Some(HttpRequest {
            method: "POST".to_owned(),
            path: "/users/7".to_owned(),
            query: "a=1&a=2&b=3".to_owned(),
            headers: vec![
                header("host", "example.com:8080"),
                header("accept", "text/html;q=0.5, application/*;q=0.9"),
                header("x-case", name),
            ],
            remote: "192.0.2.7".to_owned(),
            ..HttpRequest::default()
        }),
        ..Call::of(content_type, body.as_bytes())
    }
}

#[track_caller]
fn answered(runtime: &Runtime, worker: &mut Worker, name: &str) -> (ResultHead, String) {
    match worker.call(&case(name, "text/plain", "payload")) {
        Answer::Result(head, body) => (head, String::from_utf8(body.unwrap_or_default()).unwrap()),
        other @ Answer::Error { .. } => panic!("{}, {name}: {other:?}", runtime.id),
    }
}

/// A module whose handler calls the function that the header names.
pub(crate) fn module(cases: &str) -> String {
    format!(
        "import {{ Readable, Writable, finished, pipeline as pipelineOf }} from 'node:stream';
import {{ pipeline }} from 'node:stream/promises';
const later = (then) => new Promise((resolve) => setTimeout(() => resolve(then()), 5));
const from = (...pieces) => Readable.from(pieces);
const cases = {{{cases}}};
export default (event) => cases[event.extensions.request.get('X-Case')](event.extensions, event);
"
    )
}

/// `hellostream` of Kubeless pipes into the response and returns the stream when it has ended; the others are its relatives.
#[test]
fn a_response_is_a_stream() {
    let code = module(
        "
  kubeless: ({ response }) => new Promise((resolve, reject) => {
    const stream = from('a', 'b');
    finished(stream, (error) => error ? reject(error) : resolve(stream));
    response.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
    stream.pipe(response);
  }),
  piped: ({ response }) => { from('a', 'b').pipe(response); },
  returned: ({ response }) => from('a', 'b').pipe(response),
  pipeline: ({ response }) => pipeline(async function* () { yield 'a'; yield await later(() => 'b'); }, response),
  request: ({ request, response }) => { request.pipe(response); },
  later: ({ response }) => { response.write('a'); later(() => response.end('b')); },
  promise: async ({ response }) => { response.write('a'); await later(() => response.write('b')); },
  value: ({ response }) => { response.write('a'); return 'b'; },
  finish: ({ response }) => new Promise((resolve) => response.once('finish', resolve).end('ab')),
  close: ({ response }) => new Promise((resolve) => { response.send('ab'); response.on('close', resolve); }),
  called: ({ response }) => new Promise((resolve) => response.end('ab', resolve)),
  first: ({ response }) => { response.end('ab'); response.send('c'); return 'd'; },
  kind: ({ response }) => `${response instanceof Writable} ${response.headersSent} ${response.writableEnded}`,
",
    );
    both(|runtime| {
        let (mut worker, _function) = serve(runtime, "streams.mjs", &code, "");
        for name in ["kubeless", "piped", "returned", "pipeline", "later", "promise", "value"] {
            let (head, body) = answered(runtime, &mut worker, name);
            assert_eq!((head.status, body.as_str()), (None, "ab"), "{}, {name}", runtime.id);
            let expected = if name == "kubeless" {
                "text/event-stream"
            } else {
                "text/plain"
            };
            let found = head.content_type.unwrap();
            assert_eq!(found, format!("{expected}; charset=utf-8"), "{}, {name}", runtime.id);
        }
        for name in ["finish", "close", "called", "first"] {
            assert_eq!(answered(runtime, &mut worker, name).1, "ab", "{}, {name}", runtime.id);
        }
        assert_eq!(answered(runtime, &mut worker, "request").1, "payload", "{}", runtime.id);
        assert_eq!(
            answered(runtime, &mut worker, "kind").1,
            "true false false",
            "{}",
            runtime.id
        );
    });
}

/// None of these ends the worker, with which other calls would end.
#[test]
fn a_stream_that_fails_fails_its_call_only() {
    let code = module(
        "
  source: ({ response }) => { pipelineOf(new Readable({ read() { this.destroy(new Error('no source')); } }), response, () => {}); },
  destroyed: ({ response }) => { response.write('a'); response.destroy(); },
  emitted: ({ response }) => { response.write('a'); response.emit('error', new Error('no pipe')); },
  after: async ({ response }) => { response.write('a'); response.end(); response.write('b'); await later(() => {}); },
  endless: ({ response }) => { new Readable({ read() { this.push(new Uint8Array(1 << 20)); } }).pipe(response); },
  object: ({ response }) => response.end({ a: 1 }),
  map: ({ response }) => { response.write(''); later(() => response.send(new Map())); },
  render: ({ response }) => response.render('page'),
  cookie: ({ response }) => response.cookie('a', 'b', { path: '/; Domain=example.com' }),
",
    );
    both(|runtime| {
        let (mut worker, _function) = serve(runtime, "failures.mjs", &code, "");
        for (name, kind, why) in [
            ("source", FailureKind::Error, "no source"),
            ("destroyed", FailureKind::Error, "destroyed before its end"),
            ("emitted", FailureKind::Error, "no pipe"),
            ("endless", FailureKind::BadAnswer, "a quarter of `limits.memory`"),
            ("object", FailureKind::Error, "must be of type string"),
            ("map", FailureKind::BadAnswer, "not text, bytes or JSON: a Map"),
            ("render", FailureKind::Error, "fnd has no `response.render`"),
            ("cookie", FailureKind::Error, "a character that a header cannot have"),
        ] {
            let (found, message) = worker.call(&case(name, "text/plain", "")).error();
            assert_eq!(found, kind, "{}, {name}: {message}", runtime.id);
            assert!(message.contains(why), "{}, {name}: {message}", runtime.id);
        }
        assert_eq!(answered(runtime, &mut worker, "after").1, "a", "{}", runtime.id);
    });
}

#[test]
fn a_response_has_what_express_has() {
    let code = module(
        "
  send: ({ response }) => { response.send('<p>'); },
  json: ({ response }) => response.status(201).json({ a: 1 }),
  object: ({ response }) => { response.statusCode = 202; response.send({ a: 1 }); },
  like: ({ response }) => { response.send({ status: 404, body: 'x' }); },
  bytes: ({ response }) => { response.send(new Uint8Array([97])); },
  status: ({ response }) => { response.status(404); },
  none: ({ response }) => { response.status(204).send('x'); },
  sendStatus: ({ response }) => { response.sendStatus(404); },
  redirect: ({ response }) => response.redirect('/\\u00fc?a=b%20c'),
  moved: ({ response }) => response.redirect(301, 'https://example.com/'),
  head: ({ response }) => { response.writeHead(203, 'Fine', { 'X-A': ['1', '2'], 'Content-Type': 'text/css' }); response.end('p {}'); },
  headers: ({ response }) => {
    response.set({ 'X-A': 1, 'X-B': '2' }).append('X-A', '3').type('html').removeHeader('x-b');
    return JSON.stringify([response.get('x-a'), response.getHeader('X-B') ?? null, response.statusCode]);
  },
  cookies: ({ response }) => response.cookie('a', 'b c', { httpOnly: true, maxAge: 2000, expires: 0, sameSite: 'lax' }).clearCookie('d').end(),
",
    );
    let html = Some("text/html; charset=utf-8");
    let text = Some("text/plain; charset=utf-8");
    let json = Some("application/json");
    type Case = (&'static str, Option<u16>, Option<&'static str>, &'static str);
    let cases: [Case; 11] = [
        ("send", None, html, "<p>"),
        ("json", Some(201), json, r#"{"a":1}"#),
        ("object", Some(202), json, r#"{"a":1}"#),
        ("like", None, json, r#"{"status":404,"body":"x"}"#),
        ("bytes", None, Some("application/octet-stream"), "a"),
        ("status", Some(404), None, ""),
        ("none", Some(204), None, ""),
        ("sendStatus", Some(404), text, "Not Found"),
        ("redirect", Some(302), text, "Redirecting to /%C3%BC?a=b%20c\n"),
        ("moved", Some(301), text, "Redirecting to https://example.com/\n"),
        ("headers", None, html, r#"[["1","3"],null,200]"#),
    ];
    both(|runtime| {
        let (mut worker, _function) = serve(runtime, "express.mjs", &code, "");
        for (name, status, content_type, expected) in cases {
            let (head, body) = answered(runtime, &mut worker, name);
            let found = (head.status, head.content_type.as_deref(), body.as_str());
            assert_eq!(found, (status, content_type, expected), "{}, {name}", runtime.id);
        }
        let (head, body) = answered(runtime, &mut worker, "head");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(head.headers, [pair("x-a", "1"), pair("x-a", "2")], "{}", runtime.id);
        let found = (head.status, head.content_type.as_deref(), body.as_str());
        assert_eq!(found, (Some(203), Some("text/css"), "p {}"), "{}", runtime.id);
        let (head, _) = answered(runtime, &mut worker, "cookies");
        assert_eq!(head.headers.len(), 2, "{}: {:?}", runtime.id, head.headers);
        let (_, cookie) = &head.headers[0];
        assert!(
            cookie.starts_with("a=b%20c; Max-Age=2; Path=/; Expires=") && cookie.ends_with("; HttpOnly; SameSite=Lax"),
            "{cookie}"
        );
        let gone = pair("set-cookie", "d=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(head.headers[1], gone, "{}", runtime.id);
    });
}
