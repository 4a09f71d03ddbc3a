//! Rows of the report that do not depend on the value of a key, as tables.

use crate::names::lists;
use fnd_manifest::foreign::{ConversionReport, Field, FieldVerdict, MadeManifest};
use fnd_manifest::schema::read::nearest;
use toml::Value;

/// Texts about keys. The first part of a row names the keys, separated by blanks.
pub(crate) type KeyTexts = &'static [(&'static str, &'static str)];

/// The note on a policy that starts a service again only after some ends.
pub(crate) const RESTARTS: &str = "a service is always started again, whatever its end was";

/// Reports a key that a table names; says whether it does. A row is `VERDICT KEY ...` or `VERDICT:BECOMES KEY ...`, and the
/// note. The first row with the key counts.
pub(crate) fn reported(rows: KeyTexts, key: &str, report: &mut ConversionReport, field: &Field) -> bool {
    let Some((verdict, becomes, note)) = rows.iter().find_map(|row| row_of(*row, key)) else {
        return false;
    };
    report.add(field, verdict, becomes, Some(note).filter(|note| !note.is_empty()));
    true
}

/// Returns the note on a key that the other program does not know: `what` it has none of, and the key of its tables, or of `more` keys,
/// that may be meant.
pub(crate) fn unknown_key(what: &str, key: &str, rows: KeyTexts, more: &str) -> String {
    let of_rows = rows.iter().flat_map(|(head, _)| head.split_ascii_whitespace().skip(1));
    let names: Vec<&str> = of_rows.chain(more.split_ascii_whitespace()).collect();
    let near = nearest(key, &names).map(|near| format!("; did you mean `{near}`?"));
    format!("{what}{}", near.unwrap_or_default())
}

/// Returns the verdict of a row, what the key becomes, and the note, if the row names the key.
fn row_of<'a>((head, note): (&'a str, &'a str), key: &str) -> Option<(FieldVerdict, Option<&'a str>, &'a str)> {
    let (verdict, keys) = head.split_once(' ')?;
    if !lists(keys, key) {
        return None;
    }
    let (verdict, becomes) = match verdict.split_once(':') {
        Some((verdict, becomes)) => (verdict, Some(becomes)),
        None => (verdict, None),
    };
    Some((FieldVerdict::parse(verdict)?, becomes, note))
}

/// Reports keys that a file does not have, where the other program does something else without them than fnd. A row is `KEY` or
/// `KEY BECOMES`, and the note; `field` returns the place of an absent key.
pub(crate) fn absent(rows: KeyTexts, report: &mut ConversionReport, field: impl Fn(&str) -> Option<Field>) {
    for &(head, note) in rows {
        let (key, becomes) = head.split_once(' ').unwrap_or((head, ""));
        if let Some(field) = field(key) {
            report.differs(&field, becomes, note);
        }
    }
}

/// Sets a key to the value that was read of a field, or refuses the field.
pub(crate) fn take(
    made: &mut MadeManifest,
    report: &mut ConversionReport,
    key: &str,
    value: Result<impl Into<Value>, impl AsRef<str>>,
    field: &Field,
) {
    match value {
        Ok(value) => made.works(report, key, value, field),
        Err(why) => report.refused(field, why.as_ref()),
    }
}

/// Reports a field that was not taken over, and why.
pub(crate) fn refuse(report: &mut ConversionReport, taken: Result<(), String>, field: &Field) {
    if let Err(why) = taken {
        report.refused(field, &why);
    }
}

/// Returns a table of texts, as the value of a key.
pub(crate) fn table<const N: usize>(entries: [(&str, &str); N]) -> Value {
    let entries = entries.map(|(key, text)| (key.to_owned(), Value::from(text)));
    Value::Table(entries.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_recognised() {
        const ROWS: KeyTexts = &[("works name group", ""), ("refused:env max_restarts", "why")];
        for (key, expected) in [
            ("max_restart", "none; did you mean `max_restarts`?"),
            ("gruop", "none; did you mean `group`?"),
            ("commmand", "none; did you mean `command`?"),
            ("refused:env", "none"),
            ("volumes", "none"),
        ] {
            assert_eq!(unknown_key("none", key, ROWS, "command env"), expected, "{key}");
        }
    }
}
