//! Helpers of several targets: files as the judge takes them, and a judge that knows the shipped runtimes.

use fnd_manifest::diagnostic::{Colour, Diagnostic};
use fnd_manifest::judge::Judge;
use fnd_wire::form::Bytes;
use fnd_wire::plan::{JudgeSettings, JudgedFile};

/// Returns an executable file that is not root's.
pub fn file(path: &str, bytes: &[u8]) -> JudgedFile {
    JudgedFile {
        path: path.to_owned(),
        bytes: Bytes(bytes.to_vec()),
        mode: 0o755,
        trusted: false,
    }
}

/// Returns the descriptions of some shipped runtimes.
pub fn runtimes() -> Vec<JudgedFile> {
    vec![
        file(
            "bash/runtime.toml",
            include_bytes!("../../../runtimes/bash/runtime.toml"),
        ),
        file(
            "deno/runtime.toml",
            include_bytes!("../../../runtimes/deno/runtime.toml"),
        ),
        file(
            "exec/runtime.toml",
            include_bytes!("../../../runtimes/exec/runtime.toml"),
        ),
        file(
            "lambda/runtime.toml",
            include_bytes!("../../../runtimes/lambda/runtime.toml"),
        ),
        file(
            "python/runtime.toml",
            include_bytes!("../../../runtimes/python/runtime.toml"),
        ),
    ]
}

/// Returns a judge without configuration.
pub fn judge() -> Judge {
    let mut judge = Judge::new();
    let (policy, _) = judge.settings(&JudgeSettings {
        files: vec![],
        runtimes: runtimes(),
    });
    assert!(policy.is_some(), "the shipped runtimes are refused");
    judge
}

/// Shows diagnostics in every form; whether one of them is an error.
pub fn show(diagnostics: &[Diagnostic]) -> bool {
    for diagnostic in diagnostics {
        for text in [
            diagnostic.render(Colour::Ansi),
            diagnostic.render(Colour::Plain),
            diagnostic.line(),
        ] {
            assert!(!text.is_empty());
        }
        assert!(!diagnostic.line().contains('\n'), "{:?}", diagnostic.line());
    }
    diagnostics.iter().any(Diagnostic::is_error)
}

/// Returns the parts of an input that stands for several messages: each behind its length, two bytes. The last may be shorter.
pub fn parts(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (part, rest) = rest.split_at(length);
        bytes = rest;
        Some(part)
    })
}

/// Returns a directory in memory that is removed at the end of the process.
pub fn directory() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("fnd-fuzz-")
        .tempdir_in("/dev/shm")
        .expect("a temporary directory")
}
