//! Any bytes as `fnd.toml`: there is a policy or an error.
#![no_main]

use fnd_fuzz::{file, runtimes, show};
use fnd_manifest::judge::Judge;
use fnd_wire::plan::JudgeSettings;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut judge = Judge::new();
    let (policy, document) = judge.settings(&JudgeSettings {
        files: vec![file("fnd.toml", bytes)],
        runtimes: runtimes(),
    });
    assert_eq!(policy.is_none(), show(&document.diagnostics));
});
