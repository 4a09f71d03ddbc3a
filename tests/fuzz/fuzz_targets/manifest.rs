//! Any bytes as the manifest of a function: there is a plan or an error, and its plan crosses the wire.
#![no_main]

use fnd_fuzz::{file, judge, show};
use fnd_manifest::judge::Judge;
use fnd_wire::form::Wire as _;
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{CodeLayout, JudgeFunction, Plan};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static JUDGE: LazyLock<Judge> = LazyLock::new(judge);

fuzz_target!(|bytes: &[u8]| {
    for (source, directory) in [("x.sh", false), ("main.py", true)] {
        let function = JudgeFunction {
            name: FunctionName::new("x").expect("a name"),
            files: vec![file(source, b"echo\n")],
            manifest: Some(file("x.toml", bytes)),
            form: if directory {
                CodeLayout::Directory
            } else {
                CodeLayout::File
            },
        };
        let judged = JUDGE.function(&function);
        assert_eq!(judged.plan.is_none(), show(&judged.verdict.diagnostics));
        if let Some(plan) = judged.plan {
            assert_eq!(Plan::from_wire(&plan.to_wire()).as_ref(), Ok(&plan));
        }
    }
});
