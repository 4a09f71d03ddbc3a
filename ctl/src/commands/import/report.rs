//! Prints what became of each field of imported files, and which functions were written.

use super::ImportTarget;
use crate::common::conversion::table;
use crate::context::Context;
use crate::exit::CommandFailure;
use fnd_import::{Imported, quoted, write};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::foreign::FieldVerdict;
use fnd_wire::units::counted;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

/// The result of an import.
pub(super) struct ImportOutcome<'a> {
    /// The directories of the functions.
    pub(super) written: Vec<String>,
    /// The problems that fnd has with the functions.
    pub(super) problems: &'a [Diagnostic],
    /// The mistakes of the files; people read them in the rows.
    pub(super) refusals: &'a [Diagnostic],
}

/// # Errors
/// Standard output cannot be written.
pub(super) fn print(
    context: &Context,
    target: &ImportTarget,
    imported: &Imported,
    outcome: &ImportOutcome<'_>,
) -> Result<(), CommandFailure> {
    let out = &context.out;
    let functions: Vec<&str> = imported.functions.iter().map(|made| made.name.as_str()).collect();
    let secrets: Vec<&str> = imported.secrets().map(|(name, _)| name.as_str()).collect();
    let missing = missing_secrets(imported);
    let ImportOutcome {
        written,
        problems,
        refusals,
    } = outcome;
    if out.format.is_document() {
        let document = json!({
            "functions": functions, "refused": imported.refused, "secrets": secrets, "missing_secrets": missing, "written": written,
            "rows": imported.report.rows, "problems": refusals.iter().chain(*problems).collect::<Vec<_>>(),
        });
        return context.made(&document, |_| Ok(())).map(drop);
    }
    if out.is_quiet() {
        out.diagnostics(problems)?;
        return out.lines(&functions);
    }
    out.table(&table(&imported.report.rows))?;
    out.diagnostics(problems)?;
    let writes = target.directory().is_some();
    if !writes {
        for made in &imported.functions {
            let files = made.files.iter().map(|file| file.path.as_str());
            let files: Vec<&str> = std::iter::once("function.toml").chain(files).collect();
            out.line(&format!("{}: {}", made.name, files.join(", ")))?;
        }
    }
    let count = counted(functions.len(), "function", "functions");
    let did = if writes { "written" } else { "would be written" };
    let colon = if functions.is_empty() { "" } else { ": " };
    out.line(&format!("{count} {did}{colon}{}", functions.join(", ")))?;
    out.line(&fields(imported))?;
    if !writes && !target.dry_run && !functions.is_empty() {
        out.remark("nothing was written: say where with `--out DIR`, such as `--out /etc/fnd/functions`")?;
    }
    if imported.report.is_refused() {
        out.remark(&next_step(&imported.refused, !written.is_empty()))?;
    }
    if !missing.is_empty() {
        let names: Vec<&str> = missing.into_iter().collect();
        let names = names.join(", ");
        out.remark(&format!(
            "secrets that need a value, with `fndctl secret set NAME`: {names}"
        ))?;
    }
    if let Some(base) = target.directory().filter(|_| !secrets.is_empty()) {
        out.remark("the functions wait for their secrets; give them to fnd, and remove the files:")?;
        let lines = secret_commands(&base.join(write::SECRETS), &secrets);
        lines.iter().try_for_each(|line| out.remark(line))?;
    }
    Ok(())
}

/// Returns the secrets of the functions that no value comes with.
fn missing_secrets(imported: &Imported) -> BTreeSet<&str> {
    let known = |name: &&str| imported.secrets().any(|(known, _)| known == name);
    let names = imported.functions.iter().flat_map(|made| made.manifest.secret_names());
    names.filter(|name| !known(name)).collect()
}

/// Returns what to do about refused rows. Only functions that are there now need `--force`.
fn next_step(refused: &[String], is_written: bool) -> String {
    let subject = match refused {
        [] => "what has a `refused` row".to_owned(),
        names => format!("refused: {}; a function with a `refused` row", names.join(", ")),
    };
    let force = if is_written { " with `--force`" } else { "" };
    format!("{subject} is not written: correct the row's line, and import again{force}")
}

/// Returns the command lines that give secrets to fnd and remove their files.
fn secret_commands(directory: &Path, names: &[&str]) -> Vec<String> {
    let command = |name: &&str| {
        let file = quoted(&directory.join(name).display().to_string());
        format!("  fndctl secret set {name} <{file} && rm {file}")
    };
    names.iter().map(command).collect()
}

/// Returns how many fields have each verdict: `fields: 3 works, 1 refused`.
fn fields(imported: &Imported) -> String {
    let count = |verdict: &FieldVerdict| {
        let rows = imported.report.rows.iter();
        let count = rows.filter(|row| row.verdict == *verdict).count();
        (count > 0).then(|| format!("{count} {}", verdict.as_str()))
    };
    let counts: Vec<String> = FieldVerdict::ALL.iter().filter_map(count).collect();
    let none = if counts.is_empty() { "none" } else { "" };
    format!("fields: {none}{}", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::{next_step, secret_commands};
    use std::path::Path;

    #[test]
    fn the_next_step_names_the_functions_and_needs_force_only_over_written_ones() {
        let refused = ["shop".to_owned(), "mail".to_owned()];
        let text = next_step(&refused, false);
        assert!(text.starts_with("refused: shop, mail; "), "{text}");
        assert!(text.ends_with("import again"), "{text}");
        assert!(next_step(&[], true).ends_with("import again with `--force`"));
    }

    #[test]
    fn the_commands_for_secrets_can_be_pasted() {
        let lines = secret_commands(Path::new("/srv/my functions/.secrets"), &["deploy-hook"]);
        let file = "'/srv/my functions/.secrets/deploy-hook'";
        assert_eq!(lines, [format!("  fndctl secret set deploy-hook <{file} && rm {file}")]);
    }
}
