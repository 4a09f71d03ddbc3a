//! Awkward scripts do what people expect: each file of `tests/corpus` is run through fndctl and fnd and compared
//! with its expectation.
//!
//! The files are kept byte for byte (`.gitattributes`): carriage returns, byte-order marks and missing line ends are the
//! point of them. One fnd serves a whole table; every mismatch of it is reported.
//!
//! Files:
//! - `bash`, `deno`, `exec`, `python`: the scripts of a language

mod bash;
mod deno;
mod exec;
mod python;

use fnd_core::api::InvocationView;
use fnd_tests::programs::repository;
use fnd_tests::{Fnd, Run};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// The expected result.
#[derive(Debug, Clone, Copy)]
enum Want {
    /// No result: nothing was written.
    Nothing,
    /// This JSON value, however it is spaced.
    Json(&'static str),
    /// This text; a line end at its end does not count.
    Text(&'static str),
    Bytes(&'static [u8]),
}

/// The payload of a script.
#[derive(Debug, Clone, Copy)]
enum Send {
    /// Nothing: standard input is empty and `DATA` absent.
    Nothing,
    /// A text, as JSON where it is JSON.
    Text(&'static str),
    /// A letter this many times.
    Letters(usize),
    /// Lines of 100 letters, this many.
    Lines(usize),
}

/// A file of the corpus and what is expected of it.
#[derive(Debug, Clone, Copy)]
struct Case {
    file: &'static str,
    manifest: &'static str,
    send: Send,
    reason: &'static str,
    message: Option<&'static str>,
    want: Want,
}

/// Returns a case that succeeds with a result, without payload and manifest.
const fn case(file: &'static str, want: Want) -> Case {
    Case {
        file,
        manifest: "",
        send: Send::Nothing,
        reason: "ok",
        message: None,
        want,
    }
}

/// Returns a case that fails for a reason, without a result.
const fn fails(file: &'static str, reason: &'static str) -> Case {
    Case {
        reason,
        ..case(file, Want::Nothing)
    }
}

impl Case {
    const fn sent(self, send: Send) -> Self {
        Self { send, ..self }
    }

    const fn manifest(self, manifest: &'static str) -> Self {
        Self { manifest, ..self }
    }

    /// The record's message must contain this.
    const fn says(self, message: &'static str) -> Self {
        Self {
            message: Some(message),
            ..self
        }
    }

    const fn result(self, want: Want) -> Self {
        Self { want, ..self }
    }

    fn name(&self) -> &'static str {
        self.file.split('.').next().unwrap_or(self.file)
    }

    fn payload(&self) -> Option<Vec<u8>> {
        match self.send {
            Send::Nothing => None,
            Send::Text(text) => Some(text.as_bytes().to_vec()),
            Send::Letters(count) => Some(vec![b'a'; count]),
            Send::Lines(count) => Some(format!("{}\n", "b".repeat(100)).repeat(count).into_bytes()),
        }
    }

    /// The exit code of `fndctl invoke` (docs/fndctl.md).
    fn exit_code(&self) -> i32 {
        match self.reason {
            "ok" => 0,
            "timeout" => 6,
            _ => 1,
        }
    }

    /// Installs file and sidecar. No file of the corpus runs by itself.
    fn install(&self, fnd: &Fnd) {
        let source = repository().join("tests/corpus").join(self.file);
        let mode = fs::metadata(&source).unwrap().permissions().mode() & 0o755;
        fnd.drop_file(
            &format!("{}.toml", self.name()),
            &format!("on_load = false\n{}", self.manifest),
        );
        fnd.drop_bytes(self.file, &fs::read(&source).unwrap(), mode);
    }

    fn invoke(&self, fnd: &Fnd) -> Run {
        let mut arguments = vec!["invoke".to_owned(), self.name().to_owned()];
        if let Some(payload) = self.payload() {
            let path = fnd.path("payload");
            fs::write(&path, payload).unwrap();
            arguments.extend(["-d".to_owned(), format!("@{}", path.display())]);
        }
        fnd.ctl(&arguments)
    }

    /// Returns what differs from the expectation.
    fn check(&self, fnd: &Fnd) -> Result<(), String> {
        let run = self.invoke(fnd);
        let newest = fnd
            .history(self.name())
            .into_iter()
            .next()
            .ok_or_else(|| format!("was not run:\n{run}"))?;
        let record = fnd.wait_end(newest.id);
        let mut wrong = String::new();
        let mut differs = |what: &str, got: &dyn std::fmt::Debug, want: &dyn std::fmt::Debug| {
            let _ = writeln!(wrong, "  {what}: got {got:?}, expected {want:?}"); // writing to a String cannot fail
        };
        let reason = record.reason.map(|reason| reason.to_string()).unwrap_or_default();
        if reason != self.reason {
            differs("reason", &reason, &self.reason);
        }
        if run.code != self.exit_code() {
            differs("exit code of fndctl", &run.code, &self.exit_code());
        }
        if let Some(message) = self.message.filter(|message| !record.message.contains(message)) {
            differs("message", &record.message, &message);
        }
        let result = stored(fnd, &record);
        if !self.want.is(result.as_deref()) {
            let shown = result.map(|bytes| String::from_utf8_lossy(&bytes).chars().take(300).collect::<String>());
            differs("result", &shown, &self.want);
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = fnd
            .logs(record.id)
            .iter()
            .map(|line| line.text.chars().take(200).collect())
            .take(10)
            .collect();
        Err(format!(
            "{wrong}  message: {}\n  output: {lines:?}\n  fndctl: {}",
            record.message,
            run.stderr.trim()
        ))
    }
}

impl Want {
    fn is(self, result: Option<&[u8]>) -> bool {
        match (self, result) {
            (Self::Nothing, None) => true,
            (Self::Nothing, Some(bytes)) => bytes.is_empty(),
            (_, None) => false,
            (Self::Bytes(want), Some(bytes)) => bytes == want,
            (Self::Text(want), Some(bytes)) => {
                std::str::from_utf8(bytes).is_ok_and(|text| text.trim_end_matches('\n') == want)
            }
            (Self::Json(want), Some(bytes)) => {
                let want: serde_json::Value = serde_json::from_str(want).unwrap();
                serde_json::from_slice::<serde_json::Value>(bytes).is_ok_and(|value| value == want)
            }
        }
    }
}

/// Returns the stored result, if there is one.
fn stored(fnd: &Fnd, record: &InvocationView) -> Option<Vec<u8>> {
    let answer = fnd.result(record.id);
    // Without a result a success is an empty 200, a failure a problem.
    let problem = answer.header("content-type") == Some("application/problem+json");
    (!problem && !answer.body.is_empty()).then(|| answer.body.to_vec())
}

/// Runs a table on one fnd.
fn check_all(fnd: &Fnd, cases: &[Case]) {
    for case in cases {
        case.install(fnd);
    }
    let mut wrong = String::new();
    for case in cases {
        fnd.wait_ready(case.name());
        if let Err(report) = case.check(fnd) {
            let _ = writeln!(wrong, "{}:\n{report}", case.file); // writing to a String cannot fail
        }
    }
    assert!(wrong.is_empty(), "not as expected:\n{wrong}");
}

/// A file that no table names would never be run.
#[test]
fn every_file_has_an_expectation() {
    let known: Vec<&str> = [bash::CASES, python::CASES, deno::CASES, exec::CASES]
        .concat()
        .iter()
        .map(|c| c.file)
        .collect();
    for entry in fs::read_dir(repository().join("tests/corpus")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&file.as_str()), "tests/corpus/{file} has no expectation");
    }
    assert!(known.len() >= 40, "{}", known.len());
}
