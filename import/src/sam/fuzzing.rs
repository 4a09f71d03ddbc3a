//! The entry of the fuzzer, and of tests, to the import of templates: no file is there to be read.

use super::{SamMachine, functions};
use crate::{Imported, tree};
use fnd_manifest::foreign::WholeFile;
use std::path::Path;

/// Makes functions of a template; nothing of a text that is no YAML.
pub(crate) fn made(bytes: &[u8], parameters: &[(&str, &str)]) -> Option<Imported> {
    let documents = tree::parse_tagged("template.yaml", bytes).ok()?;
    let machine = SamMachine {
        base: Path::new("/srv/app"),
        read: code,
        architecture: "x86_64",
    };
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let parameters: Vec<_> = parameters.iter().map(owned).collect();
    Some(functions(&documents, "template.yaml", &parameters, machine))
}

/// Returns the code at a path: its name says what is wrong with it.
fn code(path: &Path) -> Result<Vec<WholeFile>, String> {
    let file = |path: &str, executable| WholeFile {
        path: path.to_owned(),
        bytes: b"#!/bin/sh\n".to_vec(),
        executable,
    };
    match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "missing" => Err(format!("failed to read `{}`", path.display())),
        "source" => Ok(vec![file("main.go", false)]),
        "bash" => Ok(vec![WholeFile {
            bytes: b"#!/bin/sh\nset -euo pipefail\n".to_vec(),
            ..file("bootstrap", true)
        }]),
        "plain" => Ok(vec![file("bootstrap", false)]),
        _ => Ok(vec![file("bootstrap", true), file("data.txt", false)]),
    }
}
