//! The forms of handlers that Kubeless, Kyma and Rafay know, and features of one language only.

use crate::runtimes::{self, Runtime};
use crate::worker::{Answer, Call, TIME, Worker};
use fnd_core::records::protocol::{FailureKind, HttpRequest, WorkerMessage};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// A function written by a test.
pub(crate) struct Written {
    _directory: tempfile::TempDir,
    pub(crate) file: PathBuf,
}

pub(crate) fn written(name: &str, text: &str) -> Written {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(name);
    fs::write(&file, text).unwrap();
    Written {
        _directory: directory,
        file,
    }
}

/// Serves a function; `handler` as the manifest would name it.
#[track_caller]
pub(crate) fn serve(runtime: &Runtime, name: &str, text: &str, handler: &str) -> (Worker, Written) {
    let function = written(name, text);
    let (worker, _) = Worker::serve_with(runtime, &function.file, handler);
    (worker, function)
}

pub(crate) fn request(headers: &[(&str, &str)]) -> Option<HttpRequest> {
    Some(HttpRequest {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        query: String::new(),
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..HttpRequest::default()
    })
}

/// Returns a runtime by its id, or ends the test if this machine does not have it.
macro_rules! runtime {
    ($id:literal) => {
        match runtimes::one($id) {
            Some(runtime) => runtime,
            None => return,
        }
    };
}
pub(crate) use runtime;

#[test]
fn python_kubeless_handler_with_its_names_and_types() {
    let python = runtime!("python");
    let code = "
def foo(event, context):
    return {
        'data': type(event['data']).__name__, 'id': event['event-id'], 'type': event['event-type'], 'time': event['event-time'],
        'namespace': event['event-namespace'], 'name': context['function-name'], 'timeout': context['timeout'],
        'runtime': context['runtime'], 'memory': context['memory-limit'],
        'header': event['extensions']['request'].get_header('X-None', 'none'),
    }
";
    let (mut worker, _function) = serve(&python, "hello-loop.py", code, "foo");
    let mut call = Call::of("application/json; charset=utf-8", b"{}");
    call.request = request(&[("event-id", "7"), ("event-namespace", "shop")]);
    let expected = json!({
        "data": "dict", "id": "7", "type": "application/json; charset=utf-8", "time": TIME, "namespace": "shop", "name": "foo", "timeout": 180.0,
        "runtime": "python", "memory": "268435456", "header": "none",
    });
    assert_eq!(worker.call(&call).json(), expected);
    for (content_type, data, kind) in [
        ("application/octet-stream", "{}", "bytes"),
        ("application/x-www-form-urlencoded", "a=b", "bytes"),
        ("text/csv", "a,b", "str"),
        ("application/json", "[]", "list"),
        ("application/json", "", "NoneType"),
    ] {
        assert_eq!(
            worker.call(&Call::of(content_type, data.as_bytes())).json()["data"],
            kind,
            "{content_type}"
        );
    }
}

#[test]
fn python_results_keep_their_kind() {
    let python = runtime!("python");
    let code = "
import datetime, decimal
VALUES = {
    'text': 'x', 'bytes': b'x', 'none': None, 'number': 1.5, 'list': [True], 'set': {1}, 'nan': float('nan'),
    'decimal': decimal.Decimal(1), 'date': datetime.date(2026, 1, 1), 'surrogate': '\\ud800',
    'response': {'status': 404, 'body': 'no', 'headers': {'X-A': 'b'}}, 'data': {'status': 'ok', 'body': 1},
}
class Bottle:
    status_code, headers, body = 202, {'Content-Type': 'text/html'}, ['<p>']
VALUES['bottle'] = Bottle()
def handler(event, context):
    return VALUES[event['data']]
";
    let (mut worker, _function) = serve(&python, "values.py", code, "");
    for (value, status, content_type, body) in [
        ("text", None, Some("text/plain; charset=utf-8"), Some("x")),
        ("bytes", None, Some("application/octet-stream"), Some("x")),
        ("none", None, None, None),
        ("number", None, Some("application/json"), Some("1.5")),
        ("list", None, Some("application/json"), Some("[true]")),
        ("response", Some(404), Some("text/plain; charset=utf-8"), Some("no")),
        (
            "data",
            None,
            Some("application/json"),
            Some(r#"{"status":"ok","body":1}"#),
        ),
        ("bottle", Some(202), Some("text/html"), Some("<p>")),
    ] {
        let Answer::Result(head, found) = worker.call(&Call::text(value)) else {
            panic!("{value} failed");
        };
        assert_eq!(
            (head.status, head.content_type.as_deref()),
            (status, content_type),
            "{value}"
        );
        assert_eq!(found.as_deref(), body.map(str::as_bytes), "{value}");
    }
    for value in ["set", "nan", "decimal", "date", "surrogate"] {
        let (kind, message) = worker.call(&Call::text(value)).error();
        assert_eq!(kind, FailureKind::BadAnswer, "{value}: {message}");
    }
}

#[test]
fn python_kyma_main_with_cloud_events() {
    let python = runtime!("python");
    let code = "
def main(event, context):
    return [event['data'], event['ce-type'], event.ceHeaders['ce-source'], event['event-type'], event.data == event['data']]
";
    let (mut worker, _function) = serve(&python, "handler.py", code, "");
    let structured = r#"{"specversion":"1.0","id":"1","type":"made","source":"shop","datacontenttype":"application/json","data":{"a":1}}"#;
    let expected = json!([{"a": 1}, "made", "shop", "made", true]);
    assert_eq!(
        worker
            .call(&Call::of("application/cloudevents+json", structured.as_bytes()))
            .json(),
        expected
    );
    let mut binary = Call::json(r#"{"a":1}"#);
    binary.request = request(&[
        ("ce-type", "made"),
        ("ce-source", "shop"),
        ("ce-id", "1"),
        ("ce-specversion", "1.0"),
    ]);
    assert_eq!(worker.call(&binary).json(), expected);
}

#[test]
fn python_rafay_handle_with_its_sdk() {
    let python = runtime!("python");
    let code = "
from python_sdk_rafay_workflow import sdk

async def handle(logger, request):
    logger.info('got %s', request['name'], step=1)
    if request['name'] == 'poll':
        seen = request.get('previous', {}).get('seen', 0)
        raise sdk.ExecuteAgainException('not yet', seen=seen + 1)
    if request['name'] == 'transient':
        raise sdk.TransientException('later')
    if request['name'] == 'failed':
        raise sdk.FailedException('never')
    return {'metadata': request['metadata']['activityID'], 'name': request['name']}
";
    let (mut worker, _function) = serve(&python, "function.py", code, "");
    let mut call = Call::json(r#"{"name":"x","metadata":{"activityID":"forged"}}"#);
    call.request = request(&[("x-activity-id", "a-1")]);
    assert_eq!(worker.call(&call).json(), json!({"metadata": "a-1", "name": "x"}));
    assert_eq!(worker.logs.pop().unwrap().message, "got x");
    let mut call = Call::json(r#"{"name":"poll"}"#);
    call.previous = Some(r#"{"seen":4}"#);
    let Answer::Error {
        kind, message, data, ..
    } = worker.call(&call)
    else {
        panic!("it did not ask for another call");
    };
    assert_eq!((kind, message.as_str()), (FailureKind::ExecuteAgain, "not yet"));
    assert_eq!(data, Some(json!({"seen": 5})));
    let failed = worker.call(&Call::json(r#"{"name":"failed"}"#)).error();
    assert_eq!(failed, (FailureKind::Failed, "never".to_owned()));
    let transient = worker.call(&Call::json(r#"{"name":"transient"}"#)).error();
    assert_eq!(transient, (FailureKind::Transient, "later".to_owned()));
}

#[test]
fn python_coroutines_share_a_loop() {
    let python = runtime!("python");
    let code = "
import asyncio
gate = asyncio.Event()

async def handler(event, context):
    if event['data'] == 'open':
        gate.set()
    else:
        await gate.wait()
    return event['data']
";
    let function = written("gate.py", code);
    let (mut worker, ready) = Worker::serve(&python, &function.file);
    assert!(ready.concurrency >= 100);
    let waiting: Vec<u64> = (0..20).map(|_| worker.begin(&Call::text("wait"))).collect();
    let opening = worker.begin(&Call::text("open"));
    let mut answered: Vec<u64> = (0..21).map(|_| worker.answer().0).collect();
    answered.sort_unstable();
    assert_eq!(answered, [waiting, vec![opening]].concat());
}

#[test]
fn python_runs_a_sole_call_in_the_main_thread_of_a_module_of_its_name() {
    let python = runtime!("python");
    let code = "
import sys, threading
import beside

def handler(event, context):
    main = threading.current_thread() is threading.main_thread()
    return [main, __name__, sys.argv, sys.modules[__name__].handler is handler, beside.VALUE]

if __name__ == '__main__':
    raise SystemExit('not a script')
";
    let function = written("my-function.py", code);
    fs::write(function.file.with_file_name("beside.py"), "VALUE = 7\n").unwrap();
    let (mut worker, _) = Worker::serve(&python, &function.file);
    let path = function.file.to_str().unwrap();
    for _ in 0..3 {
        assert_eq!(
            worker.call(&Call::default()).json(),
            json!([true, "my-function", [path], true, 7])
        );
    }
}

#[test]
fn python_exit_codes_are_those_of_a_script() {
    let python = runtime!("python");
    let code = "
import sys
def handler(event, context):
    sys.exit(event['data'])
";
    let (mut worker, _function) = serve(&python, "leaves.py", code, "");
    assert_eq!(worker.call(&Call::json("0")).body(), None);
    for (code, kind) in [
        ("75", FailureKind::Transient),
        ("65", FailureKind::Failed),
        ("3", FailureKind::Error),
    ] {
        assert_eq!(worker.call(&Call::json(code)).error(), (kind, format!("exit {code}")));
    }
}

#[test]
fn python_imports_what_debian_packages() {
    let python = runtime!("python");
    let installed: Vec<&str> = ["requests", "yaml", "git"]
        .into_iter()
        .filter(|name| {
            let there = PathBuf::from("/usr/lib/python3/dist-packages").join(name).exists();
            if !there {
                fnd_tests::require::skip("python-packages", &format!("no Debian package for `import {name}`"));
            }
            there
        })
        .collect();
    let imports: Vec<String> = installed.iter().map(|name| format!("import {name}")).collect();
    let code = format!(
        "{}\ndef handler(event, context):\n    return [{}]\n",
        imports.join("\n"),
        {
            let names: Vec<String> = installed.iter().map(|name| format!("{name}.__name__")).collect();
            names.join(", ")
        }
    );
    let (mut worker, _function) = serve(&python, "imports.py", &code, "");
    assert_eq!(worker.call(&Call::default()).json(), json!(installed));
}

#[test]
fn node_takes_every_form_of_export() {
    let node = runtime!("node");
    for (name, code, handler) in [
        ("a.cjs", "module.exports = (event) => event.data", ""),
        ("b.cjs", "module.exports = { main: (event) => event.data }", ""),
        ("c.cjs", "module.exports = { handler: async (event) => event.data }", ""),
        ("d.cjs", "module.exports = { foo: (event) => event.data }", "foo"),
        ("e.cjs", "exports.handler = function (event) { return event.data }", ""),
        ("f.mjs", "export default (event) => event.data", ""),
        ("g.mjs", "export function main(event) { return event.data }", ""),
        ("h.mjs", "export const foo = async (event) => event.data", "foo"),
    ] {
        let (mut worker, _function) = serve(&node, name, code, handler);
        assert_eq!(worker.call(&Call::text("x")).text(), "x", "{name}");
    }
}

#[test]
fn deno_takes_every_form_of_export() {
    let deno = runtime!("deno");
    for (name, code, handler) in [
        ("a.ts", "export default (event: { data: string }) => event.data", ""),
        (
            "b.ts",
            "export function handler(event: any): string { return event.data }",
            "",
        ),
        (
            "c.ts",
            "export async function main(event: any) { return await event.data }",
            "",
        ),
        ("d.mjs", "export const foo = (event) => event.data", "foo"),
        (
            "e.ts",
            "export default (event: any) => new Response(event.data, { status: 200 })",
            "",
        ),
    ] {
        let (mut worker, _function) = serve(&deno, name, code, handler);
        assert_eq!(worker.call(&Call::text("x")).text(), "x", "{name}");
    }
}

/// Both have the same library.
#[test]
fn javascript_results_and_responses() {
    let code = "(event, context, sendResponse) => {
  const response = event.extensions.response;
  switch (event.data) {
    case 'undefined': return response.end();
    case 'null': return sendResponse(null, 200, {});
    case 'number': return 1.5;
    case 'false': return false;
    case 'bytes': return new Uint8Array([0, 255]);
    case 'object': return { status: 'ok', body: 1 };
    case 'later': setTimeout(() => sendResponse('late', 202, { 'X-A': 'b' }), 10); return;
    case 'express': response.status(203).set('X-A', 'b').json({ a: 1 }); return;
    case 'helpers': event.setResponseStatus(204); event.setResponseHeader('X-A', 'b');
      event.setResponseContentType('text/html'); return '<p>';
    case 'web': return new Response('made', { status: 201, headers: { 'X-A': 'b' } });
    case 'thrown': throw 'text';
    case 'rejected': return Promise.reject(new Error('no'));
  }
}";
    for (id, name, export) in [
        ("node", "values.cjs", "module.exports = "),
        ("deno", "values.mjs", "export default "),
    ] {
        let Some(runtime) = runtimes::one(id) else { continue };
        let (mut worker, _function) = serve(&runtime, name, &format!("{export}{code}"), "");
        type Case = (&'static str, Option<u16>, Option<&'static [u8]>);
        let cases: [Case; 10] = [
            ("undefined", None, None),
            ("null", Some(200), Some(b"null")),
            ("number", None, Some(b"1.5")),
            ("false", None, Some(b"false")),
            ("bytes", None, Some(b"\0\xff")),
            ("object", None, Some(br#"{"status":"ok","body":1}"#)),
            ("later", Some(202), Some(b"late")),
            ("express", Some(203), Some(br#"{"a":1}"#)),
            ("helpers", Some(204), Some(b"<p>")),
            ("web", Some(201), Some(b"made")),
        ];
        for (word, status, body) in cases {
            let Answer::Result(head, found) = worker.call(&Call::text(word)) else {
                panic!("{id}, {word} failed");
            };
            assert_eq!((head.status, found.as_deref()), (status, body), "{id}, {word}");
            let named = head.headers.contains(&("x-a".to_owned(), "b".to_owned()));
            assert_eq!(
                named,
                matches!(word, "later" | "express" | "helpers" | "web"),
                "{id}, {word}"
            );
        }
        assert_eq!(
            worker.call(&Call::text("thrown")).error(),
            (FailureKind::Error, "text".to_owned()),
            "{id}"
        );
        assert_eq!(
            worker.call(&Call::text("rejected")).error(),
            (FailureKind::Error, "no".to_owned()),
            "{id}"
        );
    }
}

#[test]
fn javascript_cloud_events() {
    let code = "(event) => [event.data, event['ce-type'], event['ce-source'], event['event-type']]";
    let structured = r#"{"specversion":"1.0","id":"1","type":"made","source":"shop","data":{"a":1}}"#;
    for (id, name, export) in [
        ("node", "ce.cjs", "module.exports = "),
        ("deno", "ce.mjs", "export default "),
    ] {
        let Some(runtime) = runtimes::one(id) else { continue };
        let (mut worker, _function) = serve(&runtime, name, &format!("{export}{code}"), "");
        let call = Call::of("application/cloudevents+json", structured.as_bytes());
        assert_eq!(
            worker.call(&call).json(),
            json!([{"a": 1}, "made", "shop", "made"]),
            "{id}"
        );
    }
}

/// Node and deno have one library, `runtimes/share/js`, which is no runtime itself.
#[test]
fn node_and_deno_have_the_same_library() {
    let directory = fnd_tests::programs::repository().join("runtimes");
    for (id, file) in [("node", "shim.mjs"), ("deno", "handle.mjs")] {
        let shim = fs::read_to_string(directory.join(id).join(file)).unwrap();
        assert!(shim.contains("\"../share/js/serve.mjs\""), "{id}");
        assert!(!directory.join(id).join("lib").exists(), "{id}");
    }
    assert!(!directory.join("share/runtime.toml").exists());
}

#[test]
fn bash_gives_a_handler_the_variables_of_a_request() {
    let bash = runtime!("bash");
    let code = r#"
handler() {
    printf '%s|' "${REQUEST_METHOD-none}" "${HTTP_X_NAME-none}" "${FND_PARAM_ID-none}" "${CONTEXT-none}" "$FUNC_PORT"
    cat
}
"#;
    let (mut worker, _function) = serve(&bash, "request.sh", code, "");
    let quoted = "a \"b\" \\ c\n\u{e9} $(id) ,\"request\":{ ]}}";
    let mut call = Call::text("body");
    call.request = request(&[("x-name", quoted)]);
    let context = r#"{"request":{"a":[{}]},"request":{}}"#;
    call.context = Some(serde_json::from_str(context).unwrap());
    let variables = json!({"FND_PARAM_ID": "7", "HTTP_X_NAME": quoted, "REQUEST_METHOD": "PUT"});
    call.variables = variables.as_object().cloned();
    let expected = format!("PUT|{quoted}|7|{}|8080|body", call.context.as_ref().unwrap());
    assert_eq!(worker.call(&call).text(), expected);
    // Nothing of a call is left for the next one.
    assert_eq!(worker.call(&Call::text("x")).text(), "none|none|none|none|8080|x");
}

#[test]
fn bash_gives_a_handler_its_variables_and_its_options() {
    let bash = runtime!("bash");
    let code = r#"
set -euo pipefail
shopt -s nullglob
count=0
handler() {
    count=$((count + 1))
    echo "$count|${DATA-none}|${KEPTN_CONTEXT-none}|$-|$(shopt -q nullglob && echo nullglob)|${LC_ALL-unset}"
    ls /proc/self/fd | grep -c '^3$' || true
    cat
}
"#;
    let (mut worker, _function) = serve(&bash, "variables.sh", code, "");
    let context = json!({"name": "a \"b\" } \u{e9}"});
    let call = Call {
        context: Some(context.clone()),
        ..Call::text("x\ny")
    };
    for _ in 0..2 {
        let text = worker.call(&call).text();
        // Each call has its own subshell, so no state remains for the next call.
        assert!(text.starts_with("1|x\ny|"), "{text}");
        let fields: Vec<&str> = text.split('|').collect();
        assert_eq!(serde_json::from_str::<Value>(fields[2]).unwrap(), context);
        assert!(fields[3].contains('e') && fields[3].contains('u'), "{text}");
        assert_eq!(fields[4], "nullglob");
        assert!(fields[5].starts_with("unset\n") && text.ends_with("x\ny"), "{text}");
    }
    assert!(worker.call(&Call::default()).text().starts_with("1|none|none|"));
    let long = "x".repeat((64 << 10) + 1);
    assert!(worker.call(&Call::text(&long)).text().starts_with("1|none|none|"));
}

#[test]
fn bash_fails_at_the_first_failed_command_where_the_file_says_so() {
    let bash = runtime!("bash");
    let (mut worker, _function) = serve(&bash, "strict.sh", "set -e\nhandler() { false; echo no; }\n", "");
    assert_eq!(
        worker.call(&Call::default()).error(),
        (FailureKind::Error, "exit 1".to_owned())
    );
    let (mut worker, _function) = serve(&bash, "loose.sh", "handler() { false; echo -n yes; }\n", "");
    assert_eq!(worker.call(&Call::default()).text(), "yes");
    let function = written("not.sh", "set -e\necho 'no such thing' >&2\nfalse\nhandler() { :; }\n");
    let mut worker = Worker::start(&bash, &function.file, "");
    let Some(WorkerMessage::Error { call: 0, failure }) = worker.next_message() else {
        panic!("it loaded");
    };
    assert_eq!(failure.message, "no such thing");
}

#[test]
fn bash_refuses_to_leave_what_is_no_json() {
    let bash = runtime!("bash");
    let (mut worker, _function) = serve(&bash, "again.sh", "handler() { cat; exit 99; }\n", "");
    for (data, kind) in [
        (
            r#" {"a":[1,-2.5e3,"\u00e9\"",{}],"b":null} "#,
            FailureKind::ExecuteAgain,
        ),
        ("", FailureKind::ExecuteAgain),
        ("not json", FailureKind::BadAnswer),
        (r#"{"a":1} {}"#, FailureKind::BadAnswer),
        (r#"{"a":01}"#, FailureKind::BadAnswer),
    ] {
        assert_eq!(worker.call(&Call::text(data)).error().0, kind, "{data}");
    }
}
