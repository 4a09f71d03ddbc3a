//! Writes imported functions. Each has a directory of its own; its secrets lie in a directory that fnd ignores, readable
//! for their owner only.

use super::Imported;
use crate::failure::{FailureKind, ImportFailure};
use fnd_manifest::foreign::{MadeFile, MadeManifest};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The directory of imported secrets. fnd ignores names that begin with a dot.
pub const SECRETS: &str = ".secrets";

/// Writes the functions to a directory and returns the paths of all files, in order. `force` replaces functions of the same
/// names.
///
/// # Errors
/// A function exists already, or a file cannot be written.
pub fn functions(base: &Path, force: bool, imported: &Imported) -> Result<Vec<PathBuf>, ImportFailure> {
    // Nothing is written if one of them cannot be.
    for made in &imported.functions {
        let place = base.join(&made.name);
        if place.symlink_metadata().is_ok() && !force {
            let message = format!("`{}` exists already; nothing was written", place.display());
            return Err(
                ImportFailure::usage(message).help("choose another directory with --out, or replace it with --force")
            );
        }
    }
    let mut written = Vec::new();
    for made in &imported.functions {
        let place = base.join(&made.name);
        if force && place.is_dir() {
            // Files of the old function must not stay beside those of the new one.
            fs::remove_dir_all(&place).map_err(|error| refused(&place, &error))?;
        }
        function(&place, made, &imported.head, &mut written)?;
    }
    for (name, value) in imported.secrets() {
        let place = base.join(SECRETS);
        directory(&place, 0o700)?;
        file(&place.join(name), value, 0o600, &mut written)?;
    }
    Ok(written)
}

fn function(place: &Path, made: &MadeManifest, head: &str, written: &mut Vec<PathBuf>) -> Result<(), ImportFailure> {
    let (manifest, _) = made.manifest.render(head);
    directory(place, 0o755)?;
    file(&place.join("function.toml"), manifest.as_bytes(), 0o644, written)?;
    for MadeFile {
        path,
        bytes,
        executable,
    } in &made.files
    {
        let path = place.join(path);
        directory(path.parent().unwrap_or(place), 0o755)?;
        file(&path, bytes, if *executable { 0o755 } else { 0o644 }, written)?;
    }
    Ok(())
}

fn directory(path: &Path, mode: u32) -> Result<(), ImportFailure> {
    let made = DirBuilder::new().mode(mode).recursive(true).create(path);
    made.map_err(|error| refused(path, &error))
}

/// Writes a file. Other users cannot write to it, whatever the umask: fnd would refuse such a function.
fn file(path: &Path, bytes: &[u8], mode: u32, written: &mut Vec<PathBuf>) -> Result<(), ImportFailure> {
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path);
    opened
        .and_then(|mut file| file.write_all(bytes))
        .map_err(|error| refused(path, &error))?;
    written.push(path.to_owned());
    Ok(())
}

fn refused(path: &Path, error: &io::Error) -> ImportFailure {
    let message = format!("failed to write `{}`: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied => ImportFailure::new(FailureKind::NotAllowed, message)
            .help("run it with sudo, or write to another directory with --out and copy the functions"),
        _ => ImportFailure::usage(message),
    }
}
