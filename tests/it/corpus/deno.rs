//! Deno: TypeScript and JavaScript, with no permission but what fnd always grants and the manifest adds.

use super::{Case, Send, Want, case, check_all, fails};
use fnd_tests::{Fnd, require};

pub(super) const CASES: &[Case] = &[
    case("crlf-deno.ts", Want::Json("8")),
    case("bom-deno.ts", Want::Text("bom")),
    case("no-newline-deno.ts", Want::Text("hi")),
    case("top-level-await.ts", Want::Text("awaited")),
    case("typescript.ts", Want::Json(r#"{"color": "red"}"#)),
    fails("deno-exit-65.ts", "failed").says("final"),
    fails("deno-throw.ts", "exit-1").says("Error: thrown"),
    case("deno-stdin.ts", Want::Json(r#"{"hello": "Ada"}"#)).sent(Send::Text(r#"{"name": "Ada"}"#)),
    case("deno-data.ts", Want::Json("42")).sent(Send::Text(r#"{"a": 41}"#)),
    case("deno-result.ts", Want::Json(r#"{"ok": true}"#)),
    case("deno-tmp.ts", Want::Text("kept")),
    case("deno-no-read.ts", Want::Text("NotCapable")),
    case("deno-no-net.ts", Want::Text("NotCapable")),
    case("deno-no-env.ts", Want::Text("deno-no-env NotCapable")),
    case("deno-granted.ts", Want::Json("true")).manifest(r#"permissions = ["read=/etc/os-release"]"#),
    case("deno-module.mjs", Want::Json("5")).sent(Send::Text("hello")),
    case("deno-interval.ts", Want::Text("exiting")),
];

#[test]
fn deno_scripts() {
    require!(deno);
    let fnd = Fnd::start();
    check_all(&fnd, CASES);
    fnd.finish();
}
