//! Helpers of the tests of importers.

use crate::rows::{KeyTexts, reported};
use crate::{Imported, tree};
use fnd_manifest::foreign::{ConversionReport, FieldVerdict, MadeManifest, Row};

/// Returns a function's manifest, as it is written.
pub(crate) fn table(made: &MadeManifest) -> toml::Table {
    toml::from_str(&made.manifest.render("x").0).unwrap()
}

/// Returns the only function.
#[track_caller]
pub(crate) fn only(imported: &Imported) -> &MadeManifest {
    let [made] = imported.functions.as_slice() else {
        panic!("{:?}", imported.report);
    };
    made
}

/// Returns the first row about a field.
#[track_caller]
pub(crate) fn row<'a>(report: &'a ConversionReport, field: &str) -> &'a Row {
    let found = report.rows.iter().find(|row| row.field == field);
    found.unwrap_or_else(|| panic!("`{field}` is not in {report:?}"))
}

/// Checks that something is refused with these words.
#[track_caller]
pub(crate) fn check_refused(report: &ConversionReport, words: &str, text: &str) {
    let refused = report.rows.iter().filter(|row| row.verdict == FieldVerdict::Refused);
    let notes: Vec<_> = refused.filter_map(|row| row.note.as_deref()).collect();
    assert!(
        notes.iter().any(|note| note.contains(words)),
        "{text}: no `{words}` in {notes:?}"
    );
}

/// Returns the keys that the rows of a table name.
pub(crate) fn keys_of(rows: KeyTexts) -> Vec<&'static str> {
    let keys = rows.iter().flat_map(|(head, _)| head.split_ascii_whitespace().skip(1));
    keys.collect()
}

/// Checks that each key of a program has a verdict where a file lacks it: a row of `absent`, or a reason in `without`.
#[track_caller]
pub(crate) fn check_absent(mut keys: Vec<&'static str>, absent: KeyTexts, without: KeyTexts) {
    let reported = absent
        .iter()
        .filter_map(|(head, _)| head.split_ascii_whitespace().next());
    let others = without.iter().flat_map(|(head, _)| head.split_ascii_whitespace());
    let mut decided: Vec<&str> = reported.chain(others).collect();
    decided.sort_unstable();
    keys.sort_unstable();
    // Several tables may name a key.
    keys.dedup();
    assert_eq!(decided, keys);
}

/// Checks that the rows of tables have verdicts: every key that they name is reported.
#[track_caller]
pub(crate) fn check_rows(tables: &[KeyTexts]) {
    let field = tree::whole("file", "key");
    for &rows in tables {
        for (head, _) in rows {
            let (_, keys) = head.split_once(' ').expect("a row has a verdict and keys");
            for key in keys.split(' ') {
                let mut report = ConversionReport::default();
                assert!(reported(rows, key, &mut report, &field), "`{key}` of `{head}`");
            }
        }
    }
}
