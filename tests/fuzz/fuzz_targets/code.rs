//! Any bytes as code: its manifest block, its handler, its `#!` line; and as files beside it.
#![no_main]

use fnd_fuzz::{file, judge, show};
use fnd_manifest::function::{detect, env_file, forms, inline};
use fnd_manifest::judge::Judge;
use fnd_manifest::runtime::shebang::Shebang;
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{CodeLayout, JudgeFunction};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static JUDGE: LazyLock<Judge> = LazyLock::new(judge);

fuzz_target!(|bytes: &[u8]| {
    if let Err(problem) = inline::block("x.py", bytes) {
        show(&[*problem]);
    }
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    for runtime in ["python", "deno", "node", "bash"] {
        if let Some(found) = detect::handler(runtime, bytes) {
            assert!(
                (1..=lines).contains(&(found.line as usize)),
                "{found:?} of {lines} lines"
            );
        }
    }
    let _ = detect::is_commonjs(bytes);
    if let Err(problems) = env_file::read("x.env", bytes) {
        assert!(show(&problems));
    }
    if let Some(shebang) = Shebang::of(bytes) {
        assert!(!shebang.base_name().contains('/'));
        let _ = shebang.places();
    }
    let _ = forms::is_program(bytes);
    for source in ["x.py", "x.ts", "x.sh", "x"] {
        let function = JudgeFunction {
            name: FunctionName::new("x").expect("a name"),
            files: vec![file(source, bytes)],
            manifest: None,
            form: CodeLayout::File,
        };
        let judged = JUDGE.function(&function);
        assert_eq!(judged.plan.is_none(), show(&judged.verdict.diagnostics));
    }
});
