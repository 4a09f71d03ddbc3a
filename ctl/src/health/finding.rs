//! The findings, and how they are printed.

use crate::exit::{CommandFailure, Exit};
use crate::output::Format;
use crate::output::{Output, TextTable, Tone, escape};
use fnd_core::verify_report::FindingLevel;
use fnd_wire::units::counted;
use serde::Serialize;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: FindingLevel,
    /// The area, a stable word.
    pub(crate) check: &'static str,
    /// The result: lower case, no final period.
    pub(crate) what: String,
    /// A path, a unit, a function.
    #[serde(rename = "where")]
    pub(crate) place: Option<String>,
    /// The remedy: a command where there is one.
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(super) fn new(level: FindingLevel, check: &'static str, what: impl Into<String>) -> Self {
        Self {
            level,
            check,
            what: what.into(),
            place: None,
            fix: None,
        }
    }

    pub(crate) fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(FindingLevel::Ok, check, what)
    }

    pub(crate) fn unknown(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(FindingLevel::Unknown, check, what)
    }

    pub(crate) fn warning(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(FindingLevel::Warning, check, what)
    }

    pub(crate) fn error(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(FindingLevel::Error, check, what)
    }

    /// Returns the finding with its place.
    pub(crate) fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Returns the finding with a place, unless it has one.
    pub(crate) fn at_if_none(mut self, place: &str) -> Self {
        self.place.get_or_insert_with(|| place.to_owned());
        self
    }

    /// Returns the finding with a fix.
    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

#[derive(Debug, Serialize)]
struct DoctorReport {
    findings: Vec<Finding>,
    errors: usize,
    warnings: usize,
    unknown: usize,
}

/// Prints findings and returns the exit code of the command.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn report(out: &Output, findings: Vec<Finding>) -> Result<Exit, CommandFailure> {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let report = DoctorReport {
        errors: count(FindingLevel::Error),
        warnings: count(FindingLevel::Warning),
        unknown: count(FindingLevel::Unknown),
        findings,
    };
    let verdict = if report.errors == 0 {
        Exit::Fine
    } else {
        Exit::FunctionFailed
    };
    // The verdict stands before anything is printed, so `fndctl doctor | head` has the same exit code.
    verdict.after(print(out, &report))
}

fn print(out: &Output, report: &DoctorReport) -> Result<(), CommandFailure> {
    match out.format {
        Format::Json | Format::Yaml => {
            let body = serde_json::to_vec(report).unwrap_or_default(); // texts and numbers: JSON can say it
            out.document(&body, |_: &serde_json::Value, _| Ok(()))
        }
        Format::Wide => out.table(&table(&report.findings)),
        Format::Table | Format::Name | Format::Raw => {
            for line in report.findings.iter().flat_map(lines) {
                out.wrapped(&escape(&line, false), INDENT)?;
            }
            out.line("")?;
            out.line(&format!(
                "{}, {}, {} could not be checked",
                counted(report.errors, "error", "errors"),
                counted(report.warnings, "warning", "warnings"),
                report.unknown
            ))
        }
    }
}

fn table(findings: &[Finding]) -> TextTable {
    let mut table = TextTable::new(&["LEVEL", "CHECK", "WHERE", "WHAT", "FIX"]);
    for finding in findings {
        let tone = if finding.level == FindingLevel::Error {
            Tone::Bad
        } else {
            Tone::Plain
        };
        let cell = |text: &Option<String>| text.clone().unwrap_or_default();
        let cells = [
            finding.level.as_str().to_owned(),
            finding.check.to_owned(),
            cell(&finding.place),
            finding.what.clone(),
            cell(&finding.fix),
        ];
        table.row(tone, cells);
    }
    table
}

/// The column at which results and fixes begin.
const INDENT: usize = 23;

/// Returns a finding for people: the result on one line, what to do below. Nothing is cut off: a fix has to be
/// complete.
fn lines(finding: &Finding) -> Vec<String> {
    let Finding { check, what, .. } = finding;
    let place: String = finding.place.iter().map(|place| format!("{place}: ")).collect();
    let first = format!("{:8} {check:13} {place}{what}", finding.level.as_str());
    let fix = finding.fix.iter().map(|fix| format!("{:INDENT$}fix: {fix}", ""));
    std::iter::once(first).chain(fix).collect()
}
