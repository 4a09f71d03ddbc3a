//! Functions of Keptn, Kubeless, Kyma and Rafay.

use super::Imported;
use crate::failure::ImportFailure;
use fnd_manifest::foreign::yaml::{Document, FILE_MAX, documents};
use fnd_manifest::foreign::{ConversionReport, functions, secrets};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Makes functions of files; those that name each other are given together. `-` is standard input.
///
/// # Errors
/// A file cannot be read, or is no YAML.
pub fn import(files: &[PathBuf]) -> Result<Imported, ImportFailure> {
    let mut found: Vec<Document> = Vec::new();
    let mut problems = Vec::new();
    for path in files {
        let bytes = read(path)
            .map_err(|error| ImportFailure::usage(format!("failed to read `{}`: {error}", path.display())))?;
        match documents(&path.display().to_string(), &bytes) {
            Ok(more) => found.extend(more),
            Err(problem) => problems.push(*problem),
        }
    }
    // Objects in one file may need those of another, so a broken file leaves nothing to use.
    if !problems.is_empty() {
        let mut failure = ImportFailure::invalid("no file was used");
        failure.diagnostics = problems;
        return Err(failure);
    }
    let (functions, mut report) = functions(&found);
    let secrets = secrets(&found, &mut report);
    if report == ConversionReport::default() {
        let names: Vec<String> = files.iter().map(|path| format!("`{}`", path.display())).collect();
        let message = format!(
            "there is no function of Keptn, Kubeless, Kyma or Rafay in {}",
            names.join(", ")
        );
        return Err(ImportFailure::usage(message)
            .help("crontabs, units and other files have a verb of their own: `fndctl import --help`"));
    }
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    Ok(Imported {
        functions,
        report,
        secrets,
        ..Imported::new(format!("Made by `fndctl import` of {}.", names.join(", ")))
    })
}

/// Reads a file, one byte more than is allowed.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = FILE_MAX as u64 + 1;
    if path.as_os_str() == "-" {
        io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
