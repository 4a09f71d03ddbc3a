//! Words for messages about what was found: types, names, syntax errors.

use crate::diagnostic::Diagnostic;
use crate::schema::ValueKind;
use crate::schema::source::Source;
use std::ops::Range;
use toml::de::DeValue;

/// Says whether a value has the TOML type of a kind.
pub(super) fn fits(kind: &ValueKind, found: &DeValue<'_>) -> bool {
    match kind {
        ValueKind::Bool => found.is_bool(),
        ValueKind::Json => true,
        ValueKind::List(_) | ValueKind::Tables(_) => found.is_array(),
        ValueKind::JsonTable | ValueKind::Map(..) | ValueKind::Table(_) | ValueKind::Defaults(_) => found.is_table(),
        ValueKind::Whole(_) => found.is_integer(),
        ValueKind::Real(_) => found.is_float() || found.is_integer(),
        ValueKind::Size(_) | ValueKind::SizeOrNone(_) => found.is_str() || found.is_integer(),
        ValueKind::Cpu => found.is_str() || found.is_integer() || found.is_float(),
        ValueKind::Either(first, second) => fits(first, found) || fits(second, found),
        ValueKind::Text(_)
        | ValueKind::Word(_)
        | ValueKind::Duration(_)
        | ValueKind::DurationOrNone(_)
        | ValueKind::ByteRate
        | ValueKind::Rate
        | ValueKind::Mode
        | ValueKind::Micros(_) => found.is_str(),
    }
}

/// Returns the correct form of a value of the wrong type, where that form is obvious.
pub(super) fn hint(kind: &ValueKind, found: &DeValue<'_>) -> Option<String> {
    match (kind, found) {
        (ValueKind::Duration(_) | ValueKind::DurationOrNone(_), DeValue::Integer(number)) => Some(format!(
            "write it with its unit, seconds, minutes or hours: `\"{number}s\"`, `\"{number}m\"` or `\"{number}h\"`"
        )),
        (ValueKind::Micros(_), DeValue::Integer(number)) => Some(format!("write it with its unit: `\"{number}us\"`")),
        (ValueKind::Bool, DeValue::String(text)) if text == "true" || text == "false" => {
            Some(format!("write it without quotes: `{text}`"))
        }
        (ValueKind::Whole(_) | ValueKind::Real(_), DeValue::String(text)) if text.parse::<u32>().is_ok() => {
            Some(format!("write it without quotes: `{text}`"))
        }
        (ValueKind::List(each), DeValue::String(text)) if fits(each, found) => {
            Some(format!("write `[\"{}\"]`", escaped(text)))
        }
        (ValueKind::Text(_), DeValue::Integer(number)) => Some(format!("write it in quotes: `\"{number}\"`")),
        (ValueKind::Text(_), DeValue::Boolean(truth)) => Some(format!("write it in quotes: `\"{truth}\"`")),
        // TOML reads `640` as a decimal number, and refuses `0640`, because a decimal number has no zero in front.
        (ValueKind::Mode, DeValue::Integer(number)) => {
            Some(format!("write it in quotes: `\"{:0>4}\"`", number.as_str()))
        }
        _ => None,
    }
}

pub(super) fn type_name(found: &DeValue<'_>) -> &'static str {
    match found {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Returns the diagnostic of a TOML syntax error.
pub(super) fn syntax(source: &Source, error: &toml::de::Error, span: Range<usize>) -> Diagnostic {
    let message = error.message();
    // An error of the crate `toml` has a message and a place, but no kind that could be compared.
    if message.contains("duplicate key") {
        let name = source.toml.get(span.clone()).unwrap_or_default();
        let message = format!("the key `{}` appears twice", escaped(name));
        return Diagnostic::error("duplicate-key", message)
            .at(source, span)
            .with_help("remove one of them");
    }
    if message.contains("recursion") {
        return Diagnostic::error("syntax", "tables or arrays are nested too deeply").at(source, span);
    }
    let problem = Diagnostic::error("syntax", format!("not valid TOML: {}", escaped(message)));
    // `timeout = 30s` is a very common mistake.
    let line = source.line_text(span.start);
    let value = line.split_once('=').map_or("", |(_, value)| value).trim();
    let bare = !value.is_empty()
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-/%:".contains(&b));
    let problem = problem.at(source, span);
    if is_yaml(line) {
        problem.with_help(
            "this looks like YAML; a manifest is TOML: `key = \"value\"`, and `[table]` above the keys of a table",
        )
    } else if bare {
        problem.with_help(format!("write text in quotes: `\"{value}\"`"))
    } else {
        problem
    }
}

/// Says whether a line begins as a line of YAML does: `key:`.
fn is_yaml(line: &str) -> bool {
    let (key, rest) = line.trim().split_once(':').unwrap_or_default();
    let is_word =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    is_word(key.trim_start_matches("- ")) && (rest.is_empty() || rest.starts_with(' '))
}

/// Returns the name that is most similar to a text; absent if none is similar.
#[must_use]
pub fn nearest<'a>(text: &str, names: &[&'a str]) -> Option<&'a str> {
    // One wrong letter in three is a typing error; more is another word. Long texts are no typing errors, and slow to
    // compare.
    if text.len() > 64 {
        return None;
    }
    // `Memory` is a typing error, too: names of keys have small letters.
    let lower = text.to_lowercase();
    names
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), *name))
        .filter(|(distance, name)| *distance <= (name.len().max(text.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns names in backquotes, with commas.
#[must_use]
pub fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Returns a text on one line without control characters, cut to 80 characters.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut result = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == 80 {
            result.push('…');
            break;
        }
        if crate::diagnostic::is_plain(c) {
            result.push(c);
        } else {
            result.extend(c.escape_default());
        }
    }
    result
}
