//! Prints what became of each field of imported files, and which functions were written.

use super::ImportTarget;
use crate::common::conversion::table;
use crate::context::Context;
use crate::exit::CommandFailure;
use crate::output::Format;
use fnd_import::{Imported, write};
use fnd_manifest::diagnostic::Diagnostic;
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
