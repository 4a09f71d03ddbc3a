//! The request of express, as functions of Kubeless and Kyma use it, and as parsers of forms read it.

use crate::form_express::{both, case, module};
use crate::forms::serve;
use serde_json::{Value, json};

#[test]
fn a_request_has_what_express_has() {
    let code = module(
        "
  names: ({ request }) => {
    const { hostname, protocol, ip, query, originalUrl, path, httpVersion, secure } = request;
    return { hostname, protocol, ip, query, originalUrl, path, httpVersion, secure, header: request.header('Host'), length: request.get('content-length') };
  },
  is: ({ request }) => [request.is('text'), request.is('json', 'text/*'), request.is(['html', 'json']), request.is('multipart/*')],
  accepts: ({ request }) => [request.accepts('html', 'json'), request.accepts('text/html'), request.accepts('png')],
  events: ({ request }) => new Promise((resolve) => {
    let text = '';
    request.setEncoding('utf8');
    request.on('data', (piece) => text += piece).on('end', () => resolve([text, request.rawBody.toString(), request.body.toString()]));
  }),
  iterated: async ({ request }) => { let size = 0; for await (const piece of request) size += piece.length; return size; },
",
    );
    let cases: [(&str, Value); 5] = [
        (
            "names",
            json!({
                "hostname": "example.com", "protocol": "http", "ip": "192.0.2.7", "query": {"a": ["1", "2"], "b": "3"},
                "originalUrl": "/users/7?a=1&a=2&b=3", "path": "/users/7", "httpVersion": "1.1", "secure": false,
                "header": "example.com:8080", "length": "7",
            }),
        ),
        ("is", json!(["text", "text/plain", false, false])),
        ("accepts", json!(["json", "text/html", false])),
        ("events", json!(["payload", "payload", "payload"])),
        ("iterated", json!(7)),
    ];
    both(|runtime| {
        let (mut worker, _function) = serve(runtime, "request.mjs", &code, "");
        for (name, expected) in &cases {
            let found = worker.call(&case(name, "text/plain", "payload")).json();
            assert_eq!(found, *expected, "{}, {name}", runtime.id);
        }
    });
}

/// `hello-multipart` of Kubeless gives the request to a parser, which reads it as a stream and puts `file` into it.
#[test]
fn a_parser_of_forms_reads_the_request() {
    let code = module(
        "
  parser: ({ request }) => new Promise((resolve) => {
    if (!request.is('multipart/*')) return resolve('no form');
    const pieces = [];
    request.pipe(new Writable({
      write(piece, encoding, then) { pieces.push(piece); then(); },
      final(then) { request.body = { read: pieces.join('').length }; request.files = ['a']; then(); },
    })).on('finish', () => { request.unpipe(); resolve([request.body, request.files, Number(request.headers['content-length'])]); });
  }),
",
    );
    both(|runtime| {
        let (mut worker, _function) = serve(runtime, "parser.mjs", &code, "");
        let form = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n";
        let size = form.len();
        let found = worker
            .call(&case("parser", "multipart/form-data; boundary=x", form))
            .json();
        assert_eq!(found, json!([{"read": size}, ["a"], size]), "{}", runtime.id);
        let found = worker.call(&case("parser", "text/plain", "x")).text();
        assert_eq!(found, "no form", "{}", runtime.id);
    });
}
