//! Runs `fndctl` as a person would.

use crate::programs::program;
use std::ffi::OsStr;
use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a run of `fndctl`.
#[derive(Debug, Clone)]
pub struct Run {
    /// Exit code; 128 and the signal's number for a signal, as in shells.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, as text.
    pub stderr: String,
}

impl Run {
    /// Returns standard output as text.
    #[must_use]
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns standard output as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("standard output is not JSON: {error}\n{self}"))
    }

    /// Checks the exit code and returns the run.
    ///
    /// # Panics
    /// When it differs.
    #[track_caller]
    #[must_use]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self}");
        self
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "exit {}\n--- standard output\n{}\n--- standard error\n{}",
            self.code,
            self.out(),
            self.stderr
        )
    }
}

/// Runs `fndctl` with an empty environment but for PATH, HOME and what is given.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn fndctl<S: AsRef<OsStr>>(arguments: &[S], input: &[u8], environment: &[(&str, &Path)]) -> Run {
    use std::os::unix::process::ExitStatusExt as _;
    let mut command = Command::new(program("fndctl"));
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent");
    command.envs(environment.iter().copied());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("fndctl starts");
    let mut pipe = child.stdin.take().expect("standard input was asked for");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // A verb that does not read its input closes it early, which is no error.
        let _ = pipe.write_all(&input);
    });
    let output = child.wait_with_output().expect("fndctl can be waited for");
    writer.join().expect("the writer does not panic");
    let code = output
        .status
        .code()
        .unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
    Run {
        code,
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
