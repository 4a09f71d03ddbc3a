//! Any bytes as code: its manifest block, its handler, its `#!` line.
#![no_main]

use fnd_core::manifest::{detect, env_file, forms, inline};
use fnd_core::runtime::shebang::Shebang;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = inline::block("x.py", bytes);
    for runtime in ["python", "deno", "bash"] {
        let _ = detect::handler(runtime, bytes);
    }
    let _ = detect::is_commonjs(bytes);
    let _ = env_file::read("x.env", bytes);
    let _ = Shebang::of(bytes);
    let _ = forms::file(bytes, &forms::Claims::default());
});
