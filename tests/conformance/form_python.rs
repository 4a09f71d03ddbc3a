//! Functions of Kubeless and Kyma in Python: equals of their examples and tests, the request and the answers of bottle, the
//! trace of a call.

use crate::forms::{request, runtime, serve, written};
use crate::runtimes;
use crate::worker::{Answer, Call, Worker};
use fnd_core::records::protocol::{FailureKind, HttpRequest};
use serde_json::json;
use std::fs;
use std::path::Path;

/// The example `request.py` of Kubeless: a header, a parameter, a field and a file of a form.
#[test]
fn kubeless_request_of_bottle() {
    let python = runtime!("python");
    let code = "
import io, os

def handler(event, context):
    req = event['extensions']['request']
    category = req.forms.get('category')
    upload = req.files.get('upload')
    directory = os.path.join(os.environ['TMPDIR'], category)
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, upload.filename)
    for _ in range(2):
        upload.save(path, overwrite=True)
    with open(path) as file:
        again = io.BytesIO()
        upload.save(again)
        assert again.getvalue() == upload.file.read() and upload.content_length == 2
        return [req.query.get('greeting', 'Hello'), req.get_header('Say-Hello-To', 'kubeless'), file.read()]
";
    let (mut worker, _function) = serve(&python, "request.py", code, "handler");
    let body = "--x\r\nContent-Disposition: form-data; name=category\r\n\r\nletters\r\n--x\r\n\
                Content-Disposition: form-data; name=upload; filename=a.txt\r\n\r\nhi\r\n--x--\r\n";
    let mut call = Call::of("multipart/form-data; boundary=x", body.as_bytes());
    call.request = request(&[("say-hello-to", "John")]);
    call.request.as_mut().unwrap().query = "greeting=Hola".to_owned();
    assert_eq!(worker.call(&call).json(), json!(["Hola", "John", "hi"]));
}

/// The functions that test eventing in Kyma: one sends, one keeps what comes.
#[test]
fn kyma_event_of_its_own_tests() {
    let python = runtime!("python");
    let code = "
import json

events = {}

def main(event, context):
    print('headers:', vars(event['extensions']['request'].headers))
    print('data:', vars(event['extensions']['request'].body))
    req = event.ceHeaders['extensions']['request']
    if req.method == 'GET':
        kind = req.query.get(key='type')
        return json.dumps(events if kind is None else events.get(req.query.get(key='source'), {}).get(kind, ''))
    if 'ce-type' not in event.ceHeaders:
        return [sorted(event.ceHeaders), event['ce-type'], req.json]
    headers = event.ceHeaders
    headers.pop('extensions')
    events[str(headers['ce-source'])] = {headers['ce-type']: headers}
    return context['namespace']
";
    let (mut worker, _function) = serve(&python, "handler.py", code, "main");
    let mut call = Call::json(r#"{"a":1}"#);
    call.request = request(&[
        ("ce-type", "made"),
        ("ce-source", "shop"),
        ("ce-id", "1"),
        ("ce-specversion", "1.0"),
        ("x-name", "Ada"),
    ]);
    assert_eq!(worker.call(&call).body(), None);
    let printed = worker.output("stdout");
    assert!(printed.contains("headers: {'environ': {"), "{printed}");
    assert!(printed.contains("'HTTP_X_NAME': 'Ada'"), "{printed}");
    let kept = json!({"ce-type": "made", "ce-source": "shop", "ce-id": "1", "ce-specversion": "1.0", "data": {"a": 1}});
    for (query, expected) in [
        ("", json!({"shop": {"made": kept}})),
        ("type=made&source=shop", kept),
        ("type=made", json!("")),
    ] {
        let call = Call {
            request: Some(HttpRequest {
                method: "GET".to_owned(),
                path: "/".to_owned(),
                query: query.to_owned(),
                ..HttpRequest::default()
            }),
            ..Call::default()
        };
        assert_eq!(worker.call(&call).json(), expected, "{query}");
    }
    assert_eq!(
        worker.call(&Call::json("[7]")).json(),
        json!([["data", "extensions"], null, [7]])
    );
}

/// Code for one expression after the other.
const EVALUATES: &str = "
import io, pickle

def handler(event, context):
    r = event['extensions']['request']
    return [eval(r.get_header('X-Ask'), {'r': r, 'event': event, 'io': io, 'pickle': pickle})]
";

#[test]
fn the_request_has_the_names_of_bottle() {
    let python = runtime!("python");
    let (mut worker, _function) = serve(&python, "names.py", EVALUATES, "");
    let form = "name=Ada&tag=a&tag=b&n=7";
    for (ask, expected) in [
        ("r.forms.name", json!("Ada")),
        ("r.forms.missing", json!("")),
        ("r.forms.get('tag')", json!("b")),
        ("r.forms.get('tag', index=0)", json!("a")),
        ("r.forms.get('tag', 'x', index=2)", json!("x")),
        ("r.forms.get(key='n', type=int)", json!(7)),
        ("r.forms.get('name', 0, type=int)", json!(0)),
        ("r.forms.get('missing')", json!(null)),
        (
            "[r.forms.getall('tag'), r.forms.getlist('tag'), r.forms.getone('tag')]",
            json!([["a", "b"], ["a", "b"], "b"]),
        ),
        (
            "[r.query.name, r.query['page'], r.query.getall('page'), str(r.query)]",
            json!(["Eve", "2", ["1", "2"], "name=Eve&page=1&page=2&id=9"]),
        ),
        (
            "[r.params.name, r.params.page, r.params['id'], r.url_args]",
            json!(["Ada", "2", "7", {"id": "7"}]),
        ),
        ("r.GET is r.query and list(r.POST) == list(r.forms)", json!(true)),
        (
            "[r.method, r.path, r.fullpath, r.query_string]",
            json!(["POST", "/u/7", "/u/7", "name=Eve&page=1&page=2&id=9"]),
        ),
        (
            "r.url",
            json!("https://example.com:8443/u/7?name=Eve&page=1&page=2&id=9"),
        ),
        (
            "[r.urlparts.scheme, r.urlparts.netloc, r.urlparts.path, r.urlparts.port]",
            json!(["https", "example.com:8443", "/u/7", 8443]),
        ),
        (
            "[r.content_type, r.content_length]",
            json!(["application/x-www-form-urlencoded; charset=utf-8", 24]),
        ),
        ("[r.remote_addr, r.remote_route]", json!(["192.0.2.7", ["192.0.2.7"]])),
        ("[r.is_xhr, r.is_ajax]", json!([true, true])),
        (
            "[r.get_cookie('a'), r.cookies.b, r.get_cookie('c', 'none'), dict(r.cookies)]",
            json!(["1", "x y", "none", {"a": "1", "b": "x y"}]),
        ),
        ("r.auth", json!(["Ada", "a:b"])),
        (
            "r.headers['X-NAME'] + r.headers.get('x-name') + r.headers.get('X-None', '-')",
            json!("1, 21, 2-"),
        ),
        (
            "['X-Name' in r.headers, r.headers.getall('X-Name'), r.headers.get('x-name', index=0), r.headers.raw('X-NAME')]",
            json!([true, ["1", "2"], "1", "1, 2"]),
        ),
        (
            "(lambda b: [b.read(4).decode(), b.read(1).decode(), b.tell(), b.seek(-1, 2), b.read().decode()])(r.body)",
            json!(["name", "=", 5, 23, "7"]),
        ),
        (
            "[r.body.read(4).decode(), r.body.read(4).decode(), r.body == b'name=Ada&tag=a&tag=b&n=7']",
            json!(["name", "name", true]),
        ),
        (
            "[r.body.read(4).decode(), r.body.readlines()[0].decode(), io.TextIOWrapper(io.BufferedReader(r.body)).read()]",
            json!(["name", form, form]),
        ),
        (
            "[r.environ[k] for k in ('REQUEST_METHOD', 'PATH_INFO', 'CONTENT_LENGTH', 'SERVER_NAME', 'SERVER_PORT', 'HTTP_X_NAME', 'HTTP_HOST')]",
            json!(["POST", "/u/7", "24", "example.com", "8443", "1, 2", "example.com:8443"]),
        ),
        (
            "[r['REMOTE_ADDR'], r.get('wsgi.url_scheme'), r.get('none', 1), r.environ['wsgi.input'].read(4).decode()]",
            json!(["192.0.2.7", "https", 1, "name"]),
        ),
        (
            "['HTTP_PROXY' in r.environ, 'HTTP_X_A' in r.environ, 'HTTP_A_B' in r.environ]",
            json!([false, false, false]),
        ),
        (
            "[repr(r).startswith('<Request: POST https://'), event.req is r]",
            json!([true, true]),
        ),
        // Kubeless gives an event to another process.
        (
            "(lambda e: [e.req.headers['X-Name'], e.req.forms.name, e['extensions']['request'].get('REQUEST_METHOD')])(pickle.loads(pickle.dumps(event)))",
            json!(["1, 2", "Ada", "POST"]),
        ),
    ] {
        let mut call = Call::of("application/x-www-form-urlencoded; charset=UTF-8", form.as_bytes());
        call.request = Some(HttpRequest {
            method: "POST".to_owned(),
            path: "/u/7".to_owned(),
            query: "name=Eve&page=1&page=2&id=9".to_owned(),
            route: "/u/{id}".to_owned(),
            params: vec![("id".to_owned(), "7".to_owned())],
            remote: "192.0.2.7".to_owned(),
            scheme: "https".to_owned(),
            host: "example.com:8443".to_owned(),
            headers: [
                ("x-ask", ask),
                ("x-name", "1"),
                ("x-name", "2"),
                ("cookie", "a=1; b=\"x y\"; bad; =no"),
                ("authorization", "Basic QWRhOmE6Yg=="),
                ("x-requested-with", "XMLHttpRequest"),
                ("proxy", "http://evil"),
                ("x_a", "forged"),
                ("a_b", "forged"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
            ..HttpRequest::default()
        });
        assert_eq!(worker.call(&call).json(), json!([expected]), "{ask}");
    }
}

/// Bottle's classes, as far as an answer needs them.
const BOTTLE: &str = "
class HTTPResponse(Exception):
    def __init__(self, body='', status=200, headers=None, **more):
        self.body, self.status_code, self.headers = body, status, dict(headers or {}, **more)
        self.headers = Headers(self.headers)
        self._cookies = {}
    @property
    def headerlist(self):
        return [('Content-Type', 'text/html; charset=UTF-8'), *self._cookies.items()]

class Headers(dict):
    def allitems(self):
        return [(name, value) for name in self for value in ([self[name]] if isinstance(self[name], str) else self[name])]

class HTTPError(HTTPResponse):
    def __init__(self, status=500, body=None):
        super().__init__(body, status)
";

#[test]
fn answers_of_bottle_are_sent() {
    let python = runtime!("python");
    let code = "
from bottle import HTTPResponse, HTTPError

def cookies():
    answer = HTTPResponse('c', 201, {'X-A': ['1', '2']})
    answer._cookies = {'Set-Cookie': 'a=1'}
    return answer

def generator():
    yield 'a'
    yield b'b'

def main(event, context):
    asked = event['extensions']['request'].params.get('text')
    if asked == 'raised':
        raise HTTPError(404, 'no such thing')
    if asked == 'broken':
        raise HTTPResponse([1])
    return {
        # A set of one text is a body of pieces.
        'None': lambda: HTTPResponse(body={'\"text\" is mandatory'}, status=400),
        'object': lambda: HTTPResponse({'a': 1}, 202, {'Content-Type': 'application/json'}),
        'cookies': cookies, 'generator': generator, 'set': lambda: iter([1]),
    }[str(asked)]()
";
    let function = written("handler.py", code);
    fs::write(function.file.with_file_name("bottle.py"), BOTTLE).unwrap();
    let (mut worker, _) = Worker::serve(&python, &function.file);
    let mut ask = |text: &str| {
        let query = if text.is_empty() {
            String::new()
        } else {
            format!("text={text}")
        };
        worker.call(&Call {
            request: Some(HttpRequest {
                method: "GET".to_owned(),
                path: "/".to_owned(),
                query,
                ..HttpRequest::default()
            }),
            ..Call::default()
        })
    };
    for (text, status, content_type, headers, body) in [
        (
            "",
            Some(400),
            "text/plain; charset=utf-8",
            &[][..],
            r#""text" is mandatory"#,
        ),
        ("object", Some(202), "application/json", &[], r#"{"a":1}"#),
        (
            "cookies",
            Some(201),
            "text/plain; charset=utf-8",
            &[("x-a", "1"), ("x-a", "2"), ("set-cookie", "a=1")],
            "c",
        ),
        ("generator", None, "application/octet-stream", &[], "ab"),
        ("raised", Some(404), "text/plain; charset=utf-8", &[], "no such thing"),
    ] {
        let Answer::Result(head, Some(found)) = ask(text) else {
            panic!("`{text}` failed");
        };
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(
            (head.status, head.content_type.as_deref(), head.headers),
            (status, Some(content_type), headers),
            "{text}"
        );
        assert_eq!(String::from_utf8_lossy(&found), body, "{text}");
    }
    for text in ["set", "broken"] {
        let (kind, message) = ask(text).error();
        assert_eq!(kind, FailureKind::BadAnswer, "{message}");
        assert!(message.contains("neither text nor bytes"), "{message}");
    }
}

#[test]
fn a_handler_passes_its_trace_on() {
    let python = runtime!("python");
    let code = "
def main(event, context):
    with event.tracer.start_as_current_span('parent', attributes={'a': 1}) as span:
        span.set_attribute('a', 1)
        span.add_event('b')
        with event.tracer.start_as_current_span('child') as child:
            number = '%032x' % child.get_span_context().trace_id
    return [context.trace.traceparent, context.trace.headers(), number, span.is_recording(), context['trigger']]
";
    let (mut worker, _function) = serve(&python, "handler.py", code, "");
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut call = Call::default();
    let number = "0af7651916cd43dd8448eb211c80319c";
    let expected = json!([parent, {"traceparent": parent}, number, false, "manual"]);
    assert_eq!(worker.call(&call).json(), expected);
    call.request = request(&[
        ("traceparent", parent),
        ("b3", "0"),
        ("tracestate", "a=b"),
        ("x-other", "c"),
    ]);
    let expected = json!({"traceparent": parent, "b3": "0", "tracestate": "a=b"});
    assert_eq!(worker.call(&call).json()[1], expected);
}

/// Kyma's newer form: `main()` finds its request in flask, and what it returns is an answer of flask.
#[test]
fn kyma_main_with_flask() {
    let python = runtime!("python");
    if !Path::new("/usr/lib/python3/dist-packages/flask").exists() {
        fnd_tests::require::skip("python-packages", "no Debian package for `import flask`");
        return;
    }
    let code = "
import flask
import sdk

def main():
    request = flask.request
    if request.args.get('ask') == 'tuple':
        return 'Bad request', 400
    if request.args.get('ask') == 'abort':
        flask.abort(404)
    event = sdk.get_cloud_event()
    kind = event.get_type() if event else None
    return flask.jsonify([request.get_json(), request.headers['X-Name'], kind, sdk.get_timeout(), sdk.get_function_name()])
";
    let (mut worker, _function) = serve(&python, "handler.py", code, "main");
    let mut ask = |query: &str, headers: &[(&str, &str)]| {
        let mut call = Call::json("[7]");
        call.request = request(headers);
        call.request.as_mut().unwrap().query = query.to_owned();
        let Answer::Result(head, Some(body)) = worker.call(&call) else {
            panic!("`{query}` failed");
        };
        (head.status, body)
    };
    let (status, body) = ask("", &[("x-name", "Ada"), ("ce-type", "made"), ("ce-source", "shop")]);
    let found: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (status, found),
        (Some(200), json!([[7], "Ada", "made", 180, "handler"]))
    );
    assert_eq!(ask("ask=tuple", &[]), (Some(400), b"Bad request".to_vec()));
    assert_eq!(ask("ask=abort", &[]).0, Some(404));
}
