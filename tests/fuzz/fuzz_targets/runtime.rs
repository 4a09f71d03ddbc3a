//! Any bytes as `runtime.toml`: a description that is accepted can be used.
#![no_main]

use fnd_fuzz::{file, show};
use fnd_manifest::function::forms::Claims;
use fnd_manifest::judge::Judge;
use fnd_manifest::runtime::read::runtime;
use fnd_wire::plan::JudgeSettings;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match runtime("runtime.toml", bytes) {
        Ok(runtime) => {
            for version in &runtime.summary.versions {
                let _ = runtime.candidates(Some(&version.name));
            }
            let _ = runtime.version_of(&runtime.summary.id);
            let _ = Claims::of(&runtime.summary.suffixes).split("x.sh");
        }
        Err(problems) => assert!(show(&problems)),
    }
    let (_, document) = Judge::new().settings(&JudgeSettings {
        files: vec![],
        runtimes: vec![file("runtime.toml", bytes)],
    });
    show(&document.diagnostics);
});
