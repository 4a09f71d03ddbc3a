//! Prints what became of each field of imported files, and which functions were written.

use super::{ImportTarget, Imported, write};
use crate::context::Context;
use crate::exit::CommandFailure;
use crate::output::Format;
use crate::output::{TextTable, Tone};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::foreign::{FieldVerdict, Row};
use fnd_wire::units::counted;
use serde_json::json;
use std::path::PathBuf;

/// Prints the report.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn print(
    context: &Context,
    target: &ImportTarget,
    imported: &Imported,
    written: &[PathBuf],
    problems: &[Diagnostic],
) -> Result<(), CommandFailure> {
    let out = &context.out;
    let functions: Vec<&str> = imported.functions.iter().map(|made| made.name.as_str()).collect();
    let secrets: Vec<&str> = imported.secrets().map(|(name, _)| name.as_str()).collect();
    let written: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
    if out.format.is_document() {
        let document = json!({
            "functions": functions, "secrets": secrets, "written": written, "rows": imported.report.rows, "problems": problems,
        });
        let body = document.to_string().into_bytes();
        return if out.format == Format::Yaml {
            out.yaml(&body)
        } else {
            out.json(&body)
        };
    }
    if out.is_quiet() {
        out.diagnostics(problems)?;
        return functions.iter().try_for_each(|name| out.line(name));
    }
    out.table(&table(&imported.report.rows))?;
    out.diagnostics(problems)?;
    let count = counted(functions.len(), "function", "functions");
    let did = if target.dry_run { "would be written" } else { "written" };
    let colon = if functions.is_empty() { "" } else { ": " };
    out.line(&format!("{count} {did}{colon}{}", functions.join(", ")))?;
    if !secrets.is_empty() && !target.dry_run {
        let place = write::SECRETS;
        out.remark(&format!(
            "secrets lie in `{place}`; give them to fnd: `fndctl secret set NAME < {place}/NAME`"
        ))?;
    }
    Ok(())
}

/// Returns rows as a table.
pub(in crate::commands) fn table<'a>(rows: impl IntoIterator<Item = &'a Row>) -> TextTable {
    let mut table = TextTable::new(&["PLACE", "FIELD", "VERDICT", "BECOMES", "NOTE"]);
    for row in rows {
        let tone = match row.verdict {
            FieldVerdict::Refused => Tone::Bad,
            FieldVerdict::Works => Tone::Plain,
            _ => Tone::Dim,
        };
        let cells = [
            format!("{}:{}:{}", row.file, row.line, row.column),
            row.field.clone(),
            row.verdict.as_str().to_owned(),
            row.becomes.clone().unwrap_or_default(),
            row.note.clone().unwrap_or_default(),
        ];
        table.row(tone, cells);
    }
    table
}
