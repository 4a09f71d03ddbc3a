//! The process of a worker in JavaScript: its frames, what it loads, how it ends, and messages of several frames.

use crate::forms::{serve, written};
use crate::runtimes;
use crate::worker::{Call, Worker};
use fnd_core::records::protocol::WorkerMessage;
use fnd_tests::programs::repository;
use serde_json::json;
use std::process::Command;

/// Returns node and deno, if this machine has them.
fn both() -> impl Iterator<Item = runtimes::Runtime> {
    ["node", "deno"].into_iter().filter_map(runtimes::one)
}

#[test]
fn frames_are_cut_at_every_place() {
    let here = repository();
    for runtime in both() {
        let scratch = tempfile::tempdir().unwrap();
        let mut command = Command::new(runtime.interpreter());
        if runtime.id == "deno" {
            command.args(["run", "--no-prompt", "--no-lock", "--allow-all"]);
        }
        let output = command
            .arg(here.join("tests/conformance/javascript/wire.mjs"))
            .arg(here.join("runtimes"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("DENO_DIR", scratch.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", runtime.id);
    }
}

#[test]
fn handlers_of_the_exit_run_at_stop() {
    for runtime in both() {
        let mut code = "process.on('exit', (code) => console.log('exit', code));\n".to_owned();
        if runtime.id == "deno" {
            code.push_str("addEventListener('unload', () => console.log('unload'));\n");
        }
        code.push_str("export default () => 'x';\n");
        let (mut worker, _function) = serve(&runtime, "f.mjs", &code, "");
        worker.call(&Call::default());
        worker.ask_to_stop();
        assert_eq!(worker.exit_code(), Some(0), "{}", worker.output("stderr"));
        let expected = if runtime.id == "deno" {
            "exit 0\nunload\n"
        } else {
            "exit 0\n"
        };
        assert_eq!(worker.output("stdout"), expected, "{}", runtime.id);
    }
}

/// A handler in deno that uses no module of node costs none: they take as long to load as deno takes to start.
#[test]
fn deno_loads_modules_of_node_when_they_are_needed() {
    let Some(deno) = runtimes::one("deno") else { return };
    let code = "
const loaded = () => 'dispatchProcessExitEvent' in Deno[Deno.internal];
export default async (event, context) => {
  const { request, response } = event.extensions;
  JSON.stringify([event, context, request, response]);
  const before = loaded();
  const { Readable, Writable } = await import('node:stream');
  return [before, loaded(), request instanceof Readable, response instanceof Writable, request.body instanceof Buffer,
    Object.keys(request), Deno.args.length];
}";
    let (mut worker, _function) = serve(&deno, "f.mjs", code, "");
    let keys = "method path queryString url route remote_addr scheme host params headers body";
    let keys: Vec<&str> = keys.split(' ').collect();
    let answer = worker.call(&Call::text("text")).json();
    assert_eq!(answer, json!([false, true, true, true, true, keys, 1]));
}

#[test]
fn a_request_and_a_response_are_streams_before_a_method_is_called() {
    let code = "
import { EventEmitter } from 'node:events';
import { Readable, Writable } from 'node:stream';
export default ({ extensions: { request, response } }) => {
  const types = [request instanceof Readable, response instanceof Writable, request instanceof EventEmitter];
  request.user = 'ann';
  return [...types, 'pipe' in request, 'then' in request, request.then === undefined, typeof response.once, request.user,
    request.hasOwnProperty('user'), response.writable, request.readableEnded, `${request}`];
}";
    for runtime in both() {
        let (mut worker, _function) = serve(&runtime, "f.mjs", code, "");
        let expected = json!([
            true,
            true,
            true,
            true,
            false,
            true,
            "function",
            "ann",
            true,
            true,
            false,
            "[object Object]"
        ]);
        for _ in 0..2 {
            assert_eq!(worker.call(&Call::text("x")).json(), expected, "{}", runtime.id);
        }
    }
}

#[test]
fn messages_of_every_size_come_back() {
    let code = "export default (event) => event.data.reverse();\n";
    let function = written("f.mjs", code);
    for runtime in both() {
        let (mut worker, _) = Worker::serve(&runtime, &function.file);
        let frame = 256 << 10;
        let around = |size: usize| size.saturating_sub(600)..size + 20;
        let sizes = around(4 << 10)
            .step_by(7)
            .chain(around(64 << 10).step_by(7))
            .chain(around(frame).step_by(7))
            .chain(around(3 * frame).step_by(97));
        worker.returns_reversed(sizes.chain([0, 1, 5 << 20]));
    }
}

#[test]
fn records_come_in_order_and_before_their_answers() {
    let code = "
export default async (event, context) => {
  for (let n = 0; n < 10; n++) context.log(`${n}`, { text: 'x'.repeat(event.data) });
  if (event.data % 2) await null;
  return 'y'.repeat(event.data * 100);
}";
    for runtime in both() {
        let (mut worker, _function) = serve(&runtime, "f.mjs", code, "");
        let calls = 200;
        for n in 0..calls {
            worker.begin(&Call::json(&n.to_string()));
        }
        let mut records = vec![0; calls + 1];
        let mut answered = 0;
        while answered < calls {
            match worker.next_message() {
                Some(WorkerMessage::Log { call, record }) => {
                    let count = &mut records[usize::try_from(call).unwrap()];
                    assert_eq!(record.message, count.to_string(), "{}", runtime.id);
                    *count += 1;
                }
                Some(WorkerMessage::Result { call, data, .. }) => {
                    let call = usize::try_from(call).unwrap();
                    assert_eq!(records[call], 10, "{}: call {call}", runtime.id);
                    assert_eq!(data.unwrap().len(), (call - 1) * 100, "{}", runtime.id);
                    answered += 1;
                }
                other => panic!("{}: {other:?}\n{}", runtime.id, worker.output("stderr")),
            }
        }
    }
}

#[test]
fn a_function_in_deno_may_give_the_memory_of_its_data_away() {
    let Some(deno) = runtimes::one("deno") else { return };
    let code =
        "export default ({ data }) => structuredClone(data.buffer, { transfer: [data.buffer] }).byteLength >= 5;\n";
    let (mut worker, _function) = serve(&deno, "f.mjs", code, "");
    for size in [5, 5000, 60_000, 100_000, 1 << 20, 5] {
        let data = vec![7; size];
        let answer = worker.call(&Call::of("application/octet-stream", &data));
        assert_eq!(answer.json(), json!(true), "{size} bytes");
    }
}
