//! The files of a function that was made, and the places in the foreign file that its problems have.
//!
//! `fnd-helper --unpack` makes the files, and the judge reads them: what became of the fields goes from one to the other in a file.

use super::made::{MadeManifest, ORIGINS};
use super::report::{ConversionReport, FieldVerdict, Row};
use super::yaml::{Document, documents};
use super::{function, report::Field};
use crate::diagnostic::{Diagnostic, Severity};
use crate::warning::Warning;
use fnd_unpack::WholeFile;
use fnd_wire::unpack::Foreign;
use serde::{Deserialize, Serialize};

/// Most fields that are reported of a function.
const ROWS_MAX: usize = 100;

/// The verdicts on the fields, and the field from which each line of `function.toml` comes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Origins {
    report: ConversionReport,
    /// Problems of the file as a whole.
    problems: Vec<Diagnostic>,
    /// The field of each line.
    lines: Vec<Option<Row>>,
}

/// Makes the files of a function; without a function there is only [`ORIGINS`], which says why.
#[must_use]
pub fn files(mut set: Foreign) -> Vec<WholeFile> {
    let left_out = set.take_left_out();
    let mut origins = Origins::default();
    let mut found: Vec<Document> = Vec::new();
    for (path, bytes) in &set.files {
        match documents(path, &bytes.0) {
            Ok(more) => found.extend(more),
            // A file beside it has its own function, which reports it.
            Err(problem) if *path == set.path => origins.problems.push(*problem),
            Err(_) => {}
        }
    }
    let (made, report) = function(&found, &set.path, &set.function);
    origins.report = report;
    // A file can have many thousands of fields, and an answer of the judge has a limit.
    let more = origins.report.keep_problems(ROWS_MAX);
    if made.is_none() && origins.problems.is_empty() && !origins.report.is_refused() {
        let message = format!("there is no function `{}` in it", set.function);
        origins
            .problems
            .push(Diagnostic::error("foreign-refused", message).in_file(&set.path));
    }
    let warning = |message: String| Diagnostic::warning(Warning::ForeignDiffers, message).in_file(&set.path);
    if more > 0 {
        let message = format!("{more} more fields do not work here as they do there");
        origins.problems.push(warning(message));
    }
    if let Some(first) = left_out {
        let message = format!(
            "`{first}` and the YAML files after it are not read: the files beside this one are more than 200, or have more than 4 MiB \
             together"
        );
        let help = "move this file, with the files that it needs, to a group: a directory of their own";
        origins.problems.push(warning(message).with_help(help));
    }
    let name = set.path.rsplit('/').next().unwrap_or(&set.path);
    written(made, &format!("Made of {name}."), origins)
}

/// Returns the files of a function that was made: those that an installed one has.
#[must_use]
pub fn as_installed(made: MadeManifest) -> Vec<WholeFile> {
    written(Some(made), "", Origins::default())
}

/// Returns the files of a function, and the one with what became of its fields.
fn written(made: Option<MadeManifest>, head: &str, mut origins: Origins) -> Vec<WholeFile> {
    let mut files = Vec::new();
    if let Some(made) = made {
        (files, origins.lines) = packed(made, head);
    }
    let origins = serde_json::to_vec(&origins).unwrap_or_default();
    files.push(WholeFile::new(ORIGINS, origins));
    files
}

/// Returns the files of a function, `function.toml` among them, and the field of each line of that one.
fn packed(made: MadeManifest, head: &str) -> (Vec<WholeFile>, Vec<Option<Row>>) {
    let (manifest, lines) = made.manifest.render(head);
    let row = |field: &Field| Row::new(field, FieldVerdict::Works);
    let mut files = made.files;
    files.push(WholeFile::new("function.toml", manifest));
    (files, lines.iter().map(|line| line.as_ref().map(row)).collect())
}

impl Origins {
    /// Returns the files of a function for an upload, and the places of the problems that fnd finds in them. `head` is the
    /// first comment of `function.toml`.
    #[must_use]
    pub fn of(made: MadeManifest, head: &str) -> (Vec<WholeFile>, Self) {
        let (files, lines) = packed(made, head);
        let origins = Self {
            lines,
            ..Self::default()
        };
        (files, origins)
    }

    /// Reads the file [`ORIGINS`].
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        // If the file cannot be parsed, the problems stay at the lines of `function.toml`.
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// Says whether there is a function.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.report.is_refused() || self.problems.iter().any(Diagnostic::is_error)
    }

    /// Returns the problems of the fields, and these problems of the judge at the fields that they come from.
    #[must_use]
    pub fn place(&self, found: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let mut all = self.problems.clone();
        all.extend(self.report.diagnostics());
        all.extend(found.into_iter().map(|problem| self.moved(problem)));
        all.sort_by_key(|problem| problem.severity != Severity::Error);
        all
    }

    /// Returns a problem of `function.toml` at the field that its line comes from; any other as it is.
    #[must_use]
    pub fn moved(&self, mut problem: Diagnostic) -> Diagnostic {
        let is_manifest = problem
            .file
            .as_ref()
            .is_some_and(|file| file.ends_with("function.toml"));
        let line = problem.place.as_ref().filter(|_| is_manifest).map(|place| place.line);
        let index = line.and_then(|line| usize::try_from(line).ok()?.checked_sub(1));
        if let Some(Some(row)) = index.and_then(|index| self.lines.get(index)) {
            problem.file = Some(row.file.clone());
            problem.place = Some(row.source().place());
            // The message is about a key of fnd, which the author of the field does not know.
            problem.message = format!("`{}`: {}", row.field, problem.message);
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::form::Bytes;

    /// Returns the problems of a function `f` with these lines after its code, in a set of files.
    fn problems(lines: &str, change: impl FnOnce(&mut Foreign)) -> Vec<Diagnostic> {
        let text = format!(
            "apiVersion: kubeless.io/v1beta1\nkind: Function\nmetadata: {{name: f}}\nspec:\n  handler: m.f\n  runtime: \
             python3.7\n  function: 'def f(event, context): return 1'\n{lines}"
        );
        let mut set = Foreign {
            function: "f".to_owned(),
            path: "f.yaml".to_owned(),
            files: vec![("f.yaml".to_owned(), Bytes(text.into_bytes()))],
        };
        change(&mut set);
        let files = files(set);
        let origins = files.iter().find(|file| file.path == ORIGINS).unwrap();
        Origins::read(&origins.bytes).place(Vec::new())
    }

    #[test]
    fn files_that_are_left_out_are_told_of() {
        let before = problems("", |_| {});
        let after = problems("", |set| assert!(!set.has_room("g.yaml", 5 << 20)));
        assert_eq!(after.len(), before.len() + 1);
        let told = &after[0];
        assert!(
            told.message
                .starts_with("`g.yaml` and the YAML files after it are not read"),
            "{told:?}"
        );
        assert!(!told.is_error() && told.help.is_some());
    }

    #[test]
    fn a_hundred_fields_are_reported_and_mistakes_first() {
        let unknown: String = (0..300).map(|number| format!("  unknown{number:03}: 1\n")).collect();
        let all = problems(&format!("{unknown}  checksum: sha256:00\n"), |_| {});
        assert_eq!(all.len(), ROWS_MAX + 1);
        assert!(all[0].is_error(), "{:?}", all[0]);
        let is_more = |problem: &&Diagnostic| problem.message.contains("more fields");
        let more = all.iter().find(is_more).unwrap();
        assert!(more.message.starts_with("20"), "{}", more.message);
        let lines: Vec<u32> = all[1..]
            .iter()
            .filter_map(|problem| Some(problem.place.as_ref()?.line))
            .collect();
        assert!(lines.is_sorted() && lines.len() == ROWS_MAX - 1, "{lines:?}");
    }
}
