//! Writes imported functions. Each has a directory of its own; its secrets lie in a directory that fnd ignores, readable
//! for their owner only.

use super::Imported;
use crate::failure::{FailureKind, ImportFailure};
use fnd_manifest::foreign::MadeManifest;
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
    let secrets = base.join(SECRETS);
    let places = imported.functions.iter().map(|made| ("", base.join(&made.name)));
    let values = imported.secrets().map(|(name, _)| ("the secret ", secrets.join(name)));
    for (what, place) in places.chain(values) {
        // A link that leads nowhere counts, too: a file would be written through it.
        if place.symlink_metadata().is_ok() && !force {
            let message = format!("{what}`{}` exists already; nothing was written", place.display());
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
        directory(&secrets, 0o700)?;
        let place = secrets.join(name);
        match fs::remove_file(&place) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(refused(&place, &error)),
            // A file that is there could be a link to somewhere else, or readable for others.
            _ => file(&place, value, 0o600, &mut written)?,
        }
    }
    Ok(written)
}

fn function(place: &Path, made: &MadeManifest, head: &str, written: &mut Vec<PathBuf>) -> Result<(), ImportFailure> {
    let (manifest, _) = made.manifest.render(head);
    directory(place, 0o755)?;
    file(&place.join("function.toml"), manifest.as_bytes(), 0o644, written)?;
    for whole in &made.files {
        let path = place.join(&whole.path);
        let mode = if whole.executable { 0o755 } else { 0o644 };
        directory(path.parent().unwrap_or(place), 0o755)?;
        file(&path, &whole.bytes, mode, written)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_secret_that_is_there_is_replaced_by_force_only_and_a_link_is_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let imported = Imported {
            secrets: vec![("token".to_owned(), b"new".to_vec())],
            ..Imported::default()
        };
        let place = base.path().join(SECRETS).join("token");
        functions(base.path(), false, &imported).unwrap();
        let refusal = functions(base.path(), false, &imported).unwrap_err();
        assert!(refusal.message.contains("the secret"), "{}", refusal.message);
        let other = base.path().join("other");
        fs::write(&other, "other").unwrap();
        fs::remove_file(&place).unwrap();
        symlink(&other, &place).unwrap();
        functions(base.path(), true, &imported).unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "new");
        assert_eq!(
            fs::symlink_metadata(&place).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
    }
}
