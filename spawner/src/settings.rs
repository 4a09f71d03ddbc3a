//! Collecting configuration and runtime descriptions for the judge; nothing in them is understood here.

use crate::policy::{Myself, insecure_above, problem};
use fnd_core::frame::Problem;
use fnd_core::plan::{JudgeSettings, JudgedFile};
use fnd_core::wire::Bytes;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Largest file of settings.
const FILE_MAX: u64 = 1 << 20;
/// Most files of settings.
const FILES_MAX: usize = 1000;

/// Reads `fnd.toml`, `conf.d/*.toml` beside it and every `ID/runtime.toml` of the runtimes directories.
///
/// What is wrong comes second; then the settings must not be put in force.
pub fn read(config: &Path, runtimes: &[PathBuf], myself: &Myself) -> (JudgeSettings, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut add = |path: &Path, into: &mut Vec<JudgedFile>| match read_file(path, myself) {
        Ok(file) => into.extend(file),
        Err(problem) => problems.push(problem),
    };
    let mut settings = JudgeSettings { files: Vec::new(), runtimes: Vec::new() };
    add(config, &mut settings.files);
    for path in below(&config.with_file_name("conf.d")) {
        if path.extension().is_some_and(|extension| extension == "toml") {
            add(&path, &mut settings.files);
        }
    }
    for dir in runtimes {
        for path in below(dir) {
            add(&path.join("runtime.toml"), &mut settings.runtimes);
        }
    }
    (settings, problems)
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(FILES_MAX);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Reads one; one that is absent is none.
fn read_file(path: &Path, myself: &Myself) -> Result<Option<JudgedFile>, Problem> {
    let shown = path.display().to_string();
    let help = "check the file and its mode";
    let failed = |error: io::Error| problem(&shown, format!("failed to read it: {error}"), help);
    let meta = match fs::metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        other => other.map_err(failed)?,
    };
    if !meta.is_file() || meta.len() > FILE_MAX {
        return Err(problem(&shown, "it is not a regular file of at most 1 MiB", "replace it"));
    }
    let real = fs::canonicalize(path).map_err(failed)?;
    if let Some(bad) = insecure_above(&real, &[0, myself.uid, meta.uid()]) {
        let message = format!("INSECURE MODE: others than root and the owner can write `{}`", bad.display());
        return Err(problem(&shown, message, format!("run `chmod go-w {}`", bad.display())));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_MAX).read_to_end(&mut bytes)).map_err(failed)?;
    let trusted = meta.uid() == 0 || meta.uid() == myself.uid;
    Ok(Some(JudgedFile { path: shown, bytes: Bytes(bytes), mode: meta.mode() & 0o7777, trusted }))
}
