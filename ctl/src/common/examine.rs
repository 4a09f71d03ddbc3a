//! Runs programs that say something about themselves or about files: an interpreter says its version, and `fnd` examines a
//! ledger, since only it knows the schema. Under root `fnd` runs as the owner of the state, since root reads no database that
//! another user can write.

use crate::exit::CommandFailure;
use crate::health::program::{number, output};
use fnd_core::verify_report::Examined;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the version that an interpreter prints; nothing if it does not answer. `probe` is the command that asks it.
pub(crate) async fn version_of(probe: &[String], interpreter: &str) -> Option<String> {
    let words = probe.iter().map(|word| word.replace("{interpreter}", interpreter));
    let words: Vec<String> = words.collect();
    let (program, arguments) = words.split_first()?;
    number(&output(program, arguments).await.ok()?)
}

/// The ledger that `fnd` examines.
#[derive(Debug)]
pub(crate) struct ExaminedSubject<'a> {
    /// A state directory, or a database file.
    pub(crate) path: &'a Path,
    /// A file or directory: under root, `fnd` runs as its owner.
    pub(crate) owner: &'a Path,
    pub(crate) run: &'a Path,
    /// Whether to repair what is safe to repair.
    pub(crate) repair: bool,
}

/// Returns the findings of `fnd`.
///
/// # Errors
/// `fnd` cannot be started, fails, or gives an unexpected answer.
pub(crate) fn examine(subject: &ExaminedSubject<'_>) -> Result<Examined, CommandFailure> {
    let program = crate::local::fnd()?;
    let mut arguments: Vec<OsString> = vec!["--examine".into(), subject.path.into()];
    arguments.extend(["--run-dir".into(), subject.run.into()]);
    if subject.repair {
        arguments.push("--repair".into());
    }
    let mut command = Command::new(&program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        // The user of the state may not be able to enter the caller's directory.
        .current_dir("/")
        .stdin(Stdio::null());
    if rustix::process::geteuid().is_root()
        && let Ok(about) = std::fs::metadata(subject.owner)
        && about.uid() != 0
    {
        // This also drops supplementary groups.
        command.uid(about.uid()).gid(about.gid());
    }
    let failed = |why: String| CommandFailure::failed(format!("`{}` {why}", program.display()));
    let output = command
        .output()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.lines().last().unwrap_or_default();
        return Err(failed(format!(
            "failed to check the ledger ({}): {message}",
            output.status
        )));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(format!("is of another version: failed to read its answer: {error}")))
}
