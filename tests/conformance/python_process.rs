//! The process of a worker in Python: its JSON, what it loads, how it ends, and messages of several frames.

use crate::forms::{serve, written};
use crate::runtimes;
use crate::worker::{Answer, Call, Worker};
use fnd_core::records::protocol::FailureKind;
use fnd_tests::programs::repository;
use serde_json::json;
use std::fs;
use std::process::Command;

#[test]
fn json_is_that_of_the_library() {
    let Some(python) = runtimes::one("python") else { return };
    let here = repository();
    let output = Command::new(python.interpreter())
        .args(["-I", "-S"])
        .arg(here.join("tests/conformance/python/compare_json.py"))
        .arg(here.join("runtimes/python/lib"))
        .env_clear()
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
}

#[test]
fn a_worker_of_one_call_at_a_time_loads_little() {
    let Some(python) = runtimes::one_at_a_time("python") else {
        return;
    };
    // Each of these takes as long as all modules of the shim.
    let code = "
import sys
SLOW = ['asyncio', 'collections', 'enum', 'functools', 'inspect', 'json', 're', 'socket', 'threading', 'traceback', 'typing']
LOADED = [name for name in SLOW if name in sys.modules]
def handler(event, context):
    return [LOADED, [name for name in SLOW if name in sys.modules]]
if __name__ == '__main__':
    print(*LOADED)
";
    // Packages of the machine may load some at each start of Python.
    let bare = Command::new(python.interpreter())
        .args(["-c", code])
        .env_clear()
        .output()
        .unwrap();
    let bare: Vec<String> = String::from_utf8(bare.stdout)
        .unwrap()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let (mut worker, _function) = serve(&python, "f.py", code, "");
    let answer = worker.call(&Call::json("{\"a\": [1, 2.5, null]}")).json();
    assert_eq!(answer, json!([bare, bare]));
}

#[test]
fn a_worker_ends_as_a_script_does() {
    let code = "
import atexit, os, threading, weakref

def written(name):
    with open(name, 'w') as file:
        file.write('done')

class Keeper:
    def __del__(self, write=os.write, open=os.open, flags=os.O_CREAT | os.O_WRONLY):
        write(open('deleted', flags), b'done')

buffered, keeper, cycle = open('buffered', 'w'), Keeper(), Keeper()
cycle.itself = cycle
weakref.finalize(keeper, written, 'finalized')
atexit.register(written, 'exited')
release = threading.Event()

def finish():
    threading.main_thread().join()
    written('threaded')

def handler(event, context):
    buffered.write('done')
    threading.Thread(target=finish).start()
    return list(os.listdir('.'))
";
    for python in [runtimes::one("python"), runtimes::one_at_a_time("python")]
        .into_iter()
        .flatten()
    {
        let (mut worker, function) = serve(&python, "f.py", code, "");
        worker.call(&Call::default());
        worker.ask_to_stop();
        assert_eq!(worker.exit_code(), Some(0), "{}", worker.output("stderr"));
        assert_eq!(worker.output("stderr"), "");
        for name in ["buffered", "deleted", "finalized", "exited", "threaded"] {
            let text = fs::read_to_string(function.file.with_file_name(name)).unwrap_or_default();
            assert_eq!(text, "done", "{name}");
        }
    }
}

#[test]
fn messages_of_every_size_and_what_is_left_of_the_last_attempt() {
    let code = "
def handler(event, context):
    data = event['data']
    assert type(data) is bytes, type(data)
    return data[::-1] if context['previous'] is None else [len(data), context['previous']]
";
    let function = written("f.py", code);
    for python in [runtimes::one("python"), runtimes::one_at_a_time("python")]
        .into_iter()
        .flatten()
    {
        let (mut worker, _) = Worker::serve(&python, &function.file);
        let frame = 256 << 10;
        let around = |size: usize| size.saturating_sub(600)..size + 20;
        let buffer = around(16 << 10).step_by(7);
        let sizes = buffer
            .chain(around(frame).step_by(7))
            .chain(around(3 * frame).step_by(97));
        worker.returns_reversed(sizes.chain([0, 1, 5 << 20]));
        for (size, previous) in [(3, 500_000), (500_000, 3), (frame, frame), (2 * frame, 1)] {
            let (data, previous) = (vec![b'x'; size], "p".repeat(previous));
            let quoted = json!(previous).to_string();
            let call = Call {
                previous: Some(&quoted),
                ..Call::of("application/octet-stream", &data)
            };
            assert_eq!(worker.call(&call).json(), json!([size, previous]));
        }
        let broken = worker.call(&Call::json("{\"a\": [1, 2,]}"));
        let Answer::Error { kind, message, .. } = broken else {
            panic!("{broken:?}");
        };
        assert_eq!(kind, FailureKind::Error);
        let expected =
            "the content type says JSON, but the payload is not: Expecting value: line 1 column 13 (char 12)";
        assert!(
            message == expected || message.contains("Illegal trailing comma"),
            "{message}"
        );
    }
}
