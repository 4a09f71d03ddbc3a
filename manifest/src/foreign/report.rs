//! The verdict on each field of a foreign file: the report that people read and programs parse.

use crate::diagnostic::{Diagnostic, EXCERPT_MAX, Place};
use crate::warning::Warning;
use crate::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// The fate of a field.
    pub enum FieldVerdict {
        /// fnd does the same.
        Works = "works",
        /// fnd does it in another way; the note says how.
        Differs = "differs",
        /// It has no meaning on one machine, or fnd has nothing like it; the note says why.
        NotHere = "not-here",
        /// The other system does not know the field either.
        Unknown = "unknown",
        /// It is wrong: its function is refused.
        Refused = "refused",
    }
}

/// A field of a file, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The file, for people.
    pub file: String,
    /// The name, as the other system says it: `spec.timeout`, `MAILTO`.
    pub name: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The text of the line.
    pub excerpt: String,
}

impl Field {
    /// Returns the field as a comment says it: `spec.timeout, hello.yaml:12`.
    #[must_use]
    pub fn origin(&self) -> String {
        let file = self.file.rsplit('/').next().unwrap_or(&self.file);
        format!("{}, {file}:{}", self.name, self.line)
    }

    /// Returns the position of the field in its file, with the excerpt for diagnostics.
    #[must_use]
    pub fn place(&self) -> Place {
        let excerpt: String = self.excerpt.chars().take(EXCERPT_MAX).collect();
        // The length of a value is not known, so the mark goes on to the end of its line.
        let after = excerpt
            .trim_end()
            .chars()
            .count()
            .saturating_sub(self.column.saturating_sub(1) as usize);
        Place {
            line: self.line,
            column: self.column,
            length: u32::try_from(after).unwrap_or(1).max(1),
            excerpt,
        }
    }
}

/// The verdict on one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The field, as the other system names it.
    pub field: String,
    /// Its verdict.
    pub verdict: FieldVerdict,
    /// The key of fnd's manifest that says the same; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub becomes: Option<String>,
    /// The difference, the reason or the mistake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The text of the line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
}

/// The verdicts on all fields, in the order of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConversionReport {
    /// One row for each field.
    pub rows: Vec<Row>,
}

impl ConversionReport {
    /// Adds the row of a field; `becomes` is the key that it becomes, and `note` a sentence for people.
    pub fn add(&mut self, field: &Field, verdict: FieldVerdict, becomes: Option<&str>, note: Option<&str>) {
        self.rows.push(Row {
            becomes: becomes.filter(|key| !key.is_empty()).map(str::to_owned),
            note: note.map(str::to_owned),
            ..Row::new(field, verdict)
        });
    }

    /// Says that a field works as this key.
    pub fn works(&mut self, field: &Field, becomes: &str) {
        self.add(field, FieldVerdict::Works, Some(becomes), None);
    }

    /// Says that a field becomes this key (or none, if it is empty), with a difference.
    pub fn differs(&mut self, field: &Field, becomes: &str, note: &str) {
        self.add(field, FieldVerdict::Differs, Some(becomes), Some(note));
    }

    /// Says that a field has no effect, and why.
    pub fn not_here(&mut self, field: &Field, why: &str) {
        self.add(field, FieldVerdict::NotHere, None, Some(why));
    }

    /// Says that the other system has no such field.
    pub fn unknown(&mut self, field: &Field, note: &str) {
        self.add(field, FieldVerdict::Unknown, None, Some(note));
    }

    /// Says what is wrong with a field.
    pub fn refused(&mut self, field: &Field, why: &str) {
        self.add(field, FieldVerdict::Refused, None, Some(why));
    }

    /// Says whether something is wrong.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == FieldVerdict::Refused)
    }

    /// Takes over a mistake that the judge has found in what was made of a field: no row of this field says that it works. A
    /// mistake of no field has a row of its own.
    pub fn refuse(&mut self, problem: &Diagnostic) {
        let is_place = |row: &&mut Row| {
            let place = problem.place.as_ref();
            Some(&row.file) == problem.file.as_ref() && place.is_some_and(|place| place.line == row.line)
        };
        let works = |row: &&mut Row| matches!(row.verdict, FieldVerdict::Works | FieldVerdict::Differs);
        // The message begins with the name of the field.
        let named = |row: &&mut Row| problem.message.starts_with(&format!("`{}`: ", row.field));
        let help = problem.help.iter().map(|help| format!(": {help}"));
        let note: String = std::iter::once(problem.message.clone()).chain(help).collect();
        let mut found = false;
        for row in self.rows.iter_mut().filter(is_place).filter(named) {
            // Several functions may be made of one field.
            found |= row.note.as_ref() == Some(&note);
            if works(&row) {
                row.verdict = FieldVerdict::Refused;
                row.note = Some(note.clone());
                found = true;
            }
        }
        if !found {
            let field = Field {
                file: problem.file.clone().unwrap_or_default(),
                name: "function.toml".to_owned(),
                line: problem.place.as_ref().map_or(1, |place| place.line),
                column: problem.place.as_ref().map_or(1, |place| place.column),
                excerpt: String::new(),
            };
            self.refused(&field, &note);
        }
    }

    /// Sorts the rows by file and line. Of rows that say the same of one place, the first one stays.
    pub fn sort(&mut self) {
        fn place(row: &Row) -> (&str, u32, u32) {
            (row.file.as_str(), row.line, row.column)
        }
        self.rows.sort_by(|a, b| place(a).cmp(&place(b)));
        let mut kept: Vec<Row> = Vec::with_capacity(self.rows.len());
        for row in self.rows.drain(..) {
            let mut here = kept.iter().rev().take_while(|known| place(known) == place(&row));
            if !here.any(|known| *known == row) {
                kept.push(row);
            }
        }
        self.rows = kept;
    }

    /// Keeps the rows of fields that do not simply work, at most so many: mistakes first, then by file and line. Returns how
    /// many more there were.
    pub fn keep_problems(&mut self, most: usize) -> usize {
        self.rows.retain(|row| row.verdict != FieldVerdict::Works);
        self.sort();
        // This sort is stable: among mistakes, and among other rows, the order of the files stays.
        self.rows.sort_by_key(|row| row.verdict != FieldVerdict::Refused);
        let more = self.rows.len().saturating_sub(most);
        self.rows.truncate(most);
        more
    }

    /// Returns a diagnostic for each field that does not simply work.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.rows.iter().filter_map(Row::diagnostic).collect()
    }
}

impl Row {
    /// Returns the row of a field that becomes no key, without a note.
    pub(super) fn new(field: &Field, verdict: FieldVerdict) -> Self {
        Self {
            file: field.file.clone(),
            line: field.line,
            column: field.column,
            field: field.name.clone(),
            verdict,
            becomes: None,
            note: None,
            excerpt: field.place().excerpt,
        }
    }

    /// Returns the field with its place.
    #[must_use]
    pub fn source(&self) -> Field {
        Field {
            file: self.file.clone(),
            name: self.field.clone(),
            line: self.line,
            column: self.column,
            excerpt: self.excerpt.clone(),
        }
    }

    /// Returns the diagnostic of a field that does not simply work.
    #[must_use]
    pub fn diagnostic(&self) -> Option<Diagnostic> {
        let note = self.note.as_deref().unwrap_or_default();
        let same = || format!("`{}`: {note}", self.field);
        let none = || format!("`{}` has no effect: {note}", self.field);
        let diagnostic = match self.verdict {
            FieldVerdict::Works => return None,
            FieldVerdict::Differs => Diagnostic::warning(Warning::ForeignDiffers, same()),
            FieldVerdict::NotHere => Diagnostic::warning(Warning::ForeignNotHere, none()),
            FieldVerdict::Unknown => Diagnostic::warning(Warning::ForeignUnknown, none()),
            FieldVerdict::Refused => Diagnostic::error("foreign-refused", same()),
        };
        let mut diagnostic = diagnostic.in_file(&self.file);
        diagnostic.place = Some(self.source().place());
        Some(diagnostic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_judge_refuses_does_not_work() {
        let field = |name: &str, line| Field {
            file: "a.service".to_owned(),
            name: name.to_owned(),
            line,
            column: 1,
            excerpt: String::new(),
        };
        let mut report = ConversionReport::default();
        report.works(&field("MemoryMax=", 3), "limits.memory");
        report.works(&field("User=", 4), "sandbox.user");
        let mut problem = Diagnostic::error("bad-value", "`MemoryMax=`: it is too much").in_file("a.service");
        problem.place = Some(field("MemoryMax=", 3).place());
        report.refuse(&problem);
        assert_eq!(report.rows[0].verdict, FieldVerdict::Refused);
        assert_eq!(report.rows[1].verdict, FieldVerdict::Works);
        report.refuse(&Diagnostic::error("impossible", "two keys exclude each other"));
        let last = report.rows.last().unwrap();
        assert_eq!(
            (last.verdict, last.field.as_str()),
            (FieldVerdict::Refused, "function.toml")
        );
    }

    /// Two functions of one program have the same user.
    #[test]
    fn a_field_of_several_functions_is_refused_once_with_the_fix() {
        let field = Field {
            file: "a.conf".to_owned(),
            name: "user".to_owned(),
            line: 3,
            column: 1,
            excerpt: String::new(),
        };
        let mut report = ConversionReport::default();
        let mut problem = Diagnostic::error("not-allowed", "`user`: it is not allowed").with_help("add it to `allow`");
        problem = problem.in_file("a.conf");
        problem.place = Some(field.place());
        for _ in 0..2 {
            report.works(&field, "sandbox.user");
            report.refuse(&problem);
        }
        report.sort();
        assert_eq!(report.rows.len(), 1);
        let note = report.rows[0].note.as_deref();
        assert_eq!(note, Some("`user`: it is not allowed: add it to `allow`"));
    }
}
