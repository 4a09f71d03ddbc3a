//! The table of the verdicts on the fields of foreign files, and the exit code of an import that failed.

use crate::common::tables::toned;
use crate::exit::{CommandFailure, Exit};
use crate::output::{TextTable, Tone};
use fnd_import::failure::{FailureKind, ImportFailure};
use fnd_manifest::foreign::{FieldVerdict, Row};

impl From<ImportFailure> for CommandFailure {
    fn from(failure: ImportFailure) -> Self {
        let exit = match failure.kind {
            FailureKind::Usage => Exit::Usage,
            FailureKind::NoSuchThing => Exit::NoSuchThing,
            FailureKind::NotAllowed => Exit::NotAllowed,
            FailureKind::InvalidManifest => Exit::InvalidManifest,
        };
        let mut command = Self::new(exit, failure.message);
        command.help = failure.help;
        command.diagnostics = failure.diagnostics;
        command
    }
}

/// Returns rows as a table.
pub(crate) fn table<'a>(rows: impl IntoIterator<Item = &'a Row>) -> TextTable {
    let tone = |row: &Row| match row.verdict {
        FieldVerdict::Refused => Tone::Bad,
        FieldVerdict::Works => Tone::Plain,
        _ => Tone::Dim,
    };
    toned(["PLACE", "FIELD", "VERDICT", "BECOMES", "NOTE"], rows, tone, |row| {
        [
            format!("{}:{}:{}", row.file, row.line, row.column),
            row.field.clone(),
            row.verdict.as_str().to_owned(),
            row.becomes.clone().unwrap_or_default(),
            row.note.clone().unwrap_or_default(),
        ]
    })
}
