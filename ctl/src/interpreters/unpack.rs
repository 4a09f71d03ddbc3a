//! Takes the program out of a package (a tar archive, compressed by gzip). Nothing else is taken, so paths and links in the
//! archive lead nowhere.

use super::{KnownInterpreter, failed};
use crate::exit::CommandFailure;
use flate2::read::GzDecoder;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path};

/// Largest archive without its compression, and largest description of a package, in bytes.
const UNPACKED_MAX: u64 = 2 << 30;
const DESCRIPTION_MAX: u64 = 1 << 20;

/// The part of `package.json` that counts.
#[derive(Debug, Deserialize)]
struct Description {
    name: String,
    version: String,
}

/// Writes the program of a package to a new file, executable for everybody. Returns the version of the package.
///
/// # Errors
/// The archive is damaged, is another package, or has no program.
pub(super) fn unpack(package: &Path, known: &KnownInterpreter, to: &Path) -> Result<String, CommandFailure> {
    let shown = package.display();
    let broken = |error: std::io::Error| failed(format!("failed to read the package `{shown}`: {error}"));
    let file = File::open(package).map_err(broken)?;
    // The size is bounded after decompression, since a small file may become any number of bytes.
    let mut archive = tar::Archive::new(GzDecoder::new(file).take(UNPACKED_MAX));
    let (mut description, mut written) = (None, false);
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        let Some(path) = below_top(&path) else { continue };
        let regular = entry.header().entry_type().is_file();
        if path == Path::new("package.json") && regular {
            let mut text = Vec::new();
            entry
                .by_ref()
                .take(DESCRIPTION_MAX)
                .read_to_end(&mut text)
                .map_err(broken)?;
            let found = serde_json::from_slice::<Description>(&text);
            description =
                Some(found.map_err(|error| failed(format!("`package.json` in `{shown}` is damaged: {error}")))?);
        } else if path == Path::new(known.program) {
            // Of two files with this name, another reader could take the other one.
            if !regular || written {
                let why = if regular {
                    "is there twice"
                } else {
                    "is no regular file"
                };
                return Err(failed(format!("`{}` in `{shown}` {why}", known.program)));
            }
            write(&mut entry, to)?;
            written = true;
        }
    }
    let description = description.ok_or_else(|| failed(format!("`{shown}` has no `package.json`")))?;
    // Nothing but this name says which package a file from `--file` is.
    if description.name != known.package {
        let found = description.name.escape_debug();
        return Err(failed(format!(
            "`{shown}` is the package `{found}`, not `{}`",
            known.package
        )));
    }
    if !written {
        return Err(failed(format!("`{shown}` has no `{}`", known.program)));
    }
    Ok(description.version)
}

/// Returns a path without its first directory, which each package has; nothing where it is no plain path.
fn below_top(path: &Path) -> Option<&Path> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let mut parts = path.components();
    let top = parts.next().filter(|part| plain(*part))?;
    parts.clone().all(plain).then(|| path.strip_prefix(top).ok())?
}

fn write(from: &mut impl Read, to: &Path) -> Result<(), CommandFailure> {
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(to)
        .and_then(|mut file| std::io::copy(from, &mut file).and_then(|_| file.sync_all()));
    written.map_err(|error| failed(format!("failed to write `{}`: {error}", to.display())))
}
