//! The answer of a handler reaches the caller unchanged: status, headers, bytes; from every runtime.

use super::{ask, lines};
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use serde_json::json;

/// Each of these has functions of its own.
#[test]
fn answers_of_every_runtime() {
    let fnd = Fnd::start();
    status_headers_and_body_are_the_functions(&fnd);
    every_export_of_commonjs_is_a_handler(&fnd);
    bytes_are_kept(&fnd);
    a_bash_handler_is_warm(&fnd);
    a_handler_for_sh_is_served_by_bash(&fnd);
    a_program_implements_the_protocol_itself(&fnd);
    typescript_with_a_named_export(&fnd);
    records_belong_to_their_call_in_a_worker_of_several_calls(&fnd);
    fnd.finish();
}

fn status_headers_and_body_are_the_functions(fnd: &Fnd) {
    fnd.install(
        "py.py",
        "",
        "def handler(event, context): return {'status': 201, 'headers': {'X-Name': 'value'}, 'body': {'made': True}}\n",
    );
    fnd.install(
        "js.cjs",
        "",
        "module.exports = () => ({ status: 201, headers: { 'X-Name': 'value' }, body: { made: true } });\n",
    );
    let mut names = vec!["py", "js"];
    if fnd_tests::require::met(&["deno"]) {
        let code =
            "export default () => Response.json({ made: true }, { status: 201, headers: { 'X-Name': 'value' } });\n";
        fnd.install("ts.ts", "", code);
        names.push("ts");
    }
    for name in names {
        let answer = fnd.invoke(name, "");
        assert_eq!(answer.status, 201, "{name}: {}", answer.text());
        assert_eq!(answer.header("x-name"), Some("value"), "{name}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{name}");
        assert_eq!(answer.json::<serde_json::Value>(), json!({"made": true}), "{name}");
    }
}

/// CommonJS has several ways to export, and none of them needs a manifest.
fn every_export_of_commonjs_is_a_handler(fnd: &Fnd) {
    for (name, code) in [
        ("a.cjs", "exports.main = (event) => 'answered';\n"),
        (
            "b.js",
            "exports.handler = async function (event) { return 'answered'; };\n",
        ),
        ("c.js", "module.exports.main = () => 'answered';\n"),
    ] {
        fnd.drop_file(name, code);
        let name = name.split('.').next().unwrap();
        let _ = fnd.wait_ready(name);
        assert_eq!(fnd.invoke(name, "").text(), "answered", "{name}");
    }
}

/// A binary body that is larger than a frame comes back byte for byte.
fn bytes_are_kept(fnd: &Fnd) {
    fnd.install(
        "bytes-py.py",
        "",
        "def handler(event, context): return event['extensions']['request'].body\n",
    );
    fnd.install(
        "bytes-js.cjs",
        "",
        "module.exports = (event) => event.extensions.request.body;\n",
    );
    fnd.install("bytes-sh.sh", "", "handler() {\n  cat >\"$FND_RESULT\"\n}\n");
    let bytes: Vec<u8> = (0..600_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    for name in ["bytes-py", "bytes-js", "bytes-sh"] {
        let path = format!("/v1/functions/{name}/invoke");
        let headers = [("content-type", "application/octet-stream")];
        let answer = fnd.client().call("POST", &path, &headers, &bytes);
        assert_eq!(answer.status, 200, "{name}");
        assert!(answer.body == bytes, "{name}: {} bytes came back", answer.body.len());
    }
}

fn a_bash_handler_is_warm(fnd: &Fnd) {
    let code =
        "loaded=$$\nhandler() {\n  echo noise >&2\n  printf '{\"pid\":%s,\"data\":%s}' \"$loaded\" \"$DATA\"\n}\n";
    fnd.install("shell.sh", "", code);
    let first = ask(fnd, "shell", "[1]");
    assert_eq!(first["data"], json!([1]));
    assert_eq!(ask(fnd, "shell", "[1]"), first);
    let (_, view) = fnd.run("shell", "[2]");
    assert!(!view.attempt_records[0].cold);
    assert!(super::lines(fnd, view.id).contains(&"noise".to_owned()));
}

fn a_handler_for_sh_is_served_by_bash(fnd: &Fnd) {
    let code = "#!/bin/sh\nhandler() {\n  printf '\"%s\"' \"${BASH_VERSION:+bash}\"\n}\n";
    fnd.drop_executable("plain.sh", code.as_bytes());
    let function = fnd.wait_ready("plain");
    assert_eq!(function.error, None);
    assert_eq!(ask(fnd, "plain", ""), json!("bash"));
}

fn a_program_implements_the_protocol_itself(fnd: &Fnd) {
    let protocol = include_str!("../../conformance/functions/exec/worker.py");
    let program = include_str!("../../conformance/functions/exec/echo");
    fnd.drop_bytes("program/worker.py", protocol.as_bytes(), 0o644);
    fnd.drop_executable("program/serve", program.as_bytes());
    fnd.drop_file(
        "program/function.toml",
        "runtime = \"exec\"\nentry = \"serve\"\nmode = \"handler\"\n",
    );
    fnd.wait_ready("program");
    for n in 0..3 {
        let (answer, view) = fnd.run("program", &format!("{{\"n\":{n}}}"));
        assert_eq!(answer.json::<serde_json::Value>(), json!({ "n": n }));
        assert_eq!(view.attempt_records[0].cold, n == 0);
    }
}

fn typescript_with_a_named_export(fnd: &Fnd) {
    require!(deno);
    let code = "interface Event { data: { name: string } }\nexport async function handler(event: Event, context: unknown): Promise<object> {\n  return { hello: event.data.name };\n}\n";
    fnd.install("typed.ts", "", code);
    assert_eq!(ask(fnd, "typed", "{\"name\":\"Ada\"}"), json!({"hello": "Ada"}));
}

/// If calls run at the same time in one worker, a log record belongs to its call, and printed output to no call.
fn records_belong_to_their_call_in_a_worker_of_several_calls(fnd: &Fnd) {
    const CALLS: usize = 6;
    let code = "import asyncio
async def handler(event, context):
    for step in range(5):
        print('printed', event['data'], step, flush=True)
        context.log.info('logged', who=event['data'])
        await asyncio.sleep(0.01)
    return event['data']
";
    fnd.install("choir.py", "[pool]\nmax = 1\nconcurrency = 6\n", code);
    let ids: Vec<_> = (0..CALLS).map(|call| fnd.queue("choir", &call.to_string())).collect();
    for (call, id) in ids.iter().enumerate() {
        let view = fnd.wait_end(*id);
        assert_eq!(view.state, RunState::Succeeded, "{}", view.message);
        let records = lines(fnd, *id);
        let own = |line: &&String| line.contains("logged") && line.contains(&format!("{{\"who\":{call}}}"));
        assert_eq!(records.iter().filter(own).count(), 5, "{records:?}");
        assert_eq!(
            records.len(),
            5,
            "nobody else's, and nothing that was printed: {records:?}"
        );
    }
    // All output is kept with the function.
    wait_until("everything that was printed", PATIENCE, || {
        let all = fnd.ctl(&["logs", "choir"]).expect_code(0);
        let printed = all.out().lines().filter(|line| line.contains("printed")).count();
        assert!(printed <= CALLS * 5, "{all}");
        (printed == CALLS * 5).then_some(())
    });
}
