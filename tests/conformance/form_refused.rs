//! Forms of JavaScript that cannot be served: they fail when they are loaded, and the message says what to do.

use crate::form_express::both;
use crate::forms::written;
use crate::runtimes;
use crate::worker::Worker;
use fnd_core::records::protocol::WorkerMessage;

#[test]
fn a_form_that_cannot_be_served_is_refused_when_it_is_loaded() {
    let cases = [
        (
            "class.mjs",
            "export default class Handler {}",
            "",
            "`default` is a class",
        ),
        (
            "generator.mjs",
            "export function* main(event) { yield 1; }",
            "",
            "`main` is a generator",
        ),
        (
            "stream.mjs",
            "export default async function* () { yield 1; }",
            "",
            "is a generator",
        ),
        (
            "app.mjs",
            "const app = (req, res) => {}; app.listen = () => {}; export default app;",
            "",
            "`[http_server]`",
        ),
        (
            "server.mjs",
            "import http from 'node:http'; export default http.createServer();",
            "",
            "`[http_server]`",
        ),
        (
            "named.mjs",
            "export const foo = () => 1, bar = 2;",
            "",
            "it exports `foo`",
        ),
        (
            "other.mjs",
            "export const foo = () => 1;",
            "bar",
            "no function `bar`, which `handler` of the manifest names; it exports `foo`",
        ),
    ];
    both(|runtime| {
        for (name, code, handler, why) in &cases {
            let function = written(name, code);
            let mut worker = Worker::start(runtime, &function.file, handler);
            let Some(WorkerMessage::Error { call: 0, failure }) = worker.next_message() else {
                panic!("{}, {name} is loaded", runtime.id);
            };
            assert!(
                failure.message.contains(why),
                "{}, {name}: {}",
                runtime.id,
                failure.message
            );
        }
    });
}

#[test]
fn the_error_of_a_wrong_kind_of_module_says_what_to_do() {
    for (id, name, code, why) in [
        (
            "node",
            "handler.cjs",
            "export function main() {}",
            "name the file `.mjs`",
        ),
        (
            "node",
            "handler.mjs",
            "module.exports = { main() {} };",
            "name the file `.cjs`",
        ),
        (
            "node",
            "needs.cjs",
            "require('left-pad'); exports.main = () => 1;",
            "list it in `dependencies`",
        ),
        (
            "node",
            "imports.mjs",
            "import 'left-pad'; export const main = () => 1;",
            "list it in `dependencies`",
        ),
        (
            "deno",
            "handler.mjs",
            "module.exports = { main() {} };",
            "write `export default`",
        ),
        (
            "deno",
            "sdk.mjs",
            "import { getTracer } from 'sdk'; export function main() {}",
            "`runtime = \"node\"`",
        ),
    ] {
        let Some(runtime) = runtimes::one(id) else { continue };
        let function = written(name, code);
        let mut worker = Worker::start(&runtime, &function.file, "");
        let Some(WorkerMessage::Error { call: 0, failure }) = worker.next_message() else {
            panic!("{id}, {name} is loaded");
        };
        assert!(failure.message.contains(why), "{id}, {name}: {}", failure.message);
    }
}
