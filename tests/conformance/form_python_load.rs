//! The forms of handlers in Python that are refused when the file is loaded, and their neighbours that are served.

use crate::forms::{runtime, serve, written};
use crate::runtimes;
use crate::worker::{Call, Worker};
use fnd_core::records::protocol::WorkerMessage;

#[test]
fn a_form_that_fnd_does_not_have_is_refused_at_load() {
    let python = runtime!("python");
    for (code, handler, why) in [
        ("def app(environ, start_response): pass", "app", "is a WSGI application"),
        (
            "async def app(scope, receive, send): pass",
            "app",
            "is an ASGI application",
        ),
        (
            "def handler(a, b, c): pass",
            "",
            "`handler` needs the parameters a, b, c, but fnd gives it two",
        ),
        ("def handler(a, *, b): pass", "", "needs the parameters a, b"),
        ("class handler: pass", "", "`handler` is a class"),
        (
            "async def handler(a, b):\n    yield 1",
            "",
            "is `async` and has `yield`",
        ),
        ("def handle(req): pass", "handle", "it is `handle(logger, request)`"),
        ("def main(args): pass", "", "the file has no `handler(event, context)`"),
        ("handler = 7", "", "the file has no `handler(event, context)`"),
        (
            "def hander(event, context): pass",
            "",
            "did you mean `handler` instead of `hander`?",
        ),
        (
            "from python_sdk_rafay_workflow.state_client import StateClientBuilder\ndef handle(logger, request): pass",
            "",
            "add `[access]` with `state = [\"rafay/*\"]` to the manifest",
        ),
    ] {
        let function = written("refused.py", code);
        let mut worker = Worker::start(&python, &function.file, handler);
        let Some(WorkerMessage::Error { call: 0, failure }) = worker.next_message() else {
            panic!("it loaded: {code}");
        };
        assert!(failure.message.contains(why), "{code}: {}", failure.message);
    }
}

/// What decorators and defaults add does not stand in the way.
#[test]
fn a_form_that_only_looks_like_another_is_served() {
    let python = runtime!("python");
    for (code, handler) in [
        ("def handler(event, context, retries=3): return 'x'", ""),
        ("def handler(event, context, *, retries=3): return 'x'", ""),
        ("def handler(*arguments, **more): return 'x'", ""),
        ("def handler(): return 'x'", ""),
        ("def main(): return 'x'", ""),
        (
            "def handle(event, context): return 'x' if context.log else ''",
            "handle",
        ),
        (
            "import functools\ndef more(f):\n    @functools.wraps(f)\n    def inner(event, context):\n        return f(event, \
             context, 'x')\n    return inner\n@more\ndef handler(event, context, text): return text",
            "",
        ),
        (
            "class Form:\n    def __call__(self, event, context): return 'x'\nhandler = Form()",
            "",
        ),
        (
            "class Form:\n    def run(self, event): return 'x'\nhandler = Form().run",
            "",
        ),
    ] {
        let (mut worker, _function) = serve(&python, "served.py", code, handler);
        assert_eq!(worker.call(&Call::default()).text(), "x", "{code}");
    }
}
