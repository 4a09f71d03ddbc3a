//! Tests the judge with files as people write them.
//!
//! Files:
//! - `bad`: what is refused
//! - `check`: the syntax of code
//! - `credentials`: secrets and service bindings
//! - `dependencies`: where dependencies are found, and their build
//! - `good`: what is accepted
//! - `handlers`: handlers, HTTP programs and services
//! - `input`: `[input]` and `mcp`
//! - `lambda`: programs for AWS Lambda
//! - `mistakes`: the mistakes that people make, and the fix in each message
//! - `nats`: messages of NATS
//! - `random`: arbitrary bytes
//! - `sandbox`: `[sandbox]`
//! - `shipped`: the files in `config/`
//! - `snapshot`: every key, and the documents
//! - `source`: code that is fetched

/// Compares a text with the file in `snapshots/` that has the name of the test; CONTRIBUTING.md says how to accept a
/// change.
macro_rules! snapshot {
    ($text:expr) => {
        insta::with_settings!(
            { omit_expression => true, prepend_module_to_snapshot => false },
            { insta::assert_snapshot!($text) }
        )
    };
}

mod bad;
mod check;
mod credentials;
mod dependencies;
mod good;
mod handlers;
mod input;
mod lambda;
mod mistakes;
mod nats;
mod random;
mod sandbox;
pub(crate) mod shipped;
mod snapshot;
mod source;

use super::*;
use fnd_wire::plan::{CodeLayout, JudgeFunction, PlanText};

/// Returns a file that is not executable and belongs to root.
fn file(path: &str, bytes: &[u8]) -> JudgedFile {
    JudgedFile {
        path: path.to_owned(),
        bytes: Bytes(bytes.to_vec()),
        mode: 0o644,
        trusted: true,
    }
}

fn executable(path: &str, bytes: &[u8]) -> JudgedFile {
    JudgedFile {
        mode: 0o755,
        ..file(path, bytes)
    }
}

/// Returns the runtimes that are shipped.
fn shipped_runtimes() -> Vec<JudgedFile> {
    let read = |id: &str, text: &str| file(&format!("/usr/lib/fnd/runtimes/{id}/runtime.toml"), text.as_bytes());
    vec![
        read("bash", include_str!("../../../../runtimes/bash/runtime.toml")),
        read("deno", include_str!("../../../../runtimes/deno/runtime.toml")),
        read("exec", include_str!("../../../../runtimes/exec/runtime.toml")),
        read("go", include_str!("../../../../runtimes/go/runtime.toml")),
        read("java", include_str!("../../../../runtimes/java/runtime.toml")),
        read("lambda", include_str!("../../../../runtimes/lambda/runtime.toml")),
        read("lua", include_str!("../../../../runtimes/lua/runtime.toml")),
        read("node", include_str!("../../../../runtimes/node/runtime.toml")),
        read("perl", include_str!("../../../../runtimes/perl/runtime.toml")),
        read("php", include_str!("../../../../runtimes/php/runtime.toml")),
        read("python", include_str!("../../../../runtimes/python/runtime.toml")),
        read("ruby", include_str!("../../../../runtimes/ruby/runtime.toml")),
    ]
}

/// Returns a judge with the shipped runtimes and a configuration without problems.
fn judge(settings: &str) -> Judge {
    let mut judge = Judge::new();
    let files = vec![file("/etc/fnd/fnd.toml", settings.as_bytes())];
    let (policy, document) = judge.settings(&JudgeSettings {
        files,
        runtimes: shipped_runtimes(),
    });
    assert!(
        policy.is_some() && document.diagnostics.is_empty(),
        "{:?}",
        document.diagnostics
    );
    judge
}

/// Returns a function in file form.
fn single(code: JudgedFile, manifest: Option<&str>) -> JudgeFunction {
    let manifest = manifest.map(|text| file("/f/x.toml", text.as_bytes()));
    JudgeFunction {
        name: FunctionName::new("x").unwrap(),
        files: vec![code],
        manifest,
        form: CodeLayout::File,
    }
}

/// Returns a function in directory form.
fn directory(files: Vec<JudgedFile>, manifest: &str) -> JudgeFunction {
    let manifest = Some(file("/f/x/function.toml", manifest.as_bytes()));
    JudgeFunction {
        name: FunctionName::new("x").unwrap(),
        files,
        manifest,
        form: CodeLayout::Directory,
    }
}

/// Returns diagnostics as `line:column code: message`.
fn reported(diagnostics: &[Diagnostic]) -> Vec<String> {
    let one = |problem: &Diagnostic| match &problem.place {
        Some(place) => format!("{}:{} {}: {}", place.line, place.column, problem.code, problem.message),
        None => format!("{}: {}", problem.code, problem.message),
    };
    diagnostics.iter().map(one).collect()
}

fn argv(judged: &Judged) -> Vec<&str> {
    let plan = judged
        .plan
        .as_ref()
        .unwrap_or_else(|| panic!("{:?}", reported(&judged.verdict.diagnostics)));
    plan.argv.iter().map(|text| text.text.as_str()).collect()
}
