//! Any bytes as the manifest of a function and as the configuration.
#![no_main]

use fnd_core::diagnostic::Colour;
use fnd_core::ids::FunctionName;
use fnd_core::judge::Judge;
use fnd_core::plan::{JudgeFunction, JudgeSettings, JudgedFile};
use fnd_core::wire::Bytes;
use libfuzzer_sys::fuzz_target;

fn file(path: &str, bytes: &[u8]) -> JudgedFile {
    JudgedFile { path: path.to_owned(), bytes: Bytes(bytes.to_vec()), mode: 0o755, trusted: false }
}

fuzz_target!(|bytes: &[u8]| {
    let mut judge = Judge::new();
    let runtime = include_bytes!("../../../runtimes/bash/runtime.toml");
    let runtimes = vec![file("runtime.toml", runtime)];
    judge.settings(&JudgeSettings { files: vec![], runtimes: runtimes.clone() });
    let function = JudgeFunction {
        name: FunctionName::new("x").expect("a name"),
        files: vec![file("/f/x.sh", b"echo\n")],
        manifest: Some(file("/f/x.toml", bytes)),
        directory: false,
    };
    let judged = judge.function(&function);
    assert_eq!(judged.plan.is_none(), judged.verdict.diagnostics.iter().any(|problem| problem.is_error()));
    for problem in &judged.verdict.diagnostics {
        let _ = problem.render(Colour::Ansi);
    }
    judge.settings(&JudgeSettings { files: vec![file("fnd.toml", bytes)], runtimes });
});
