//! Checks of single values.

use super::words::{escaped, nearest};
use super::{KeyReader, TomlValue, advice};
use crate::diagnostic::Diagnostic;
use crate::json_text::JsonText;
use crate::schema::{TextKind, ValueKind, Zero, one_of};
use fnd_wire::units::{self, UnitError};
use std::ops::{Range, RangeInclusive};
use toml::de::DeValue;

impl KeyReader<'_> {
    /// Reports a value, and returns nothing in its place.
    pub(super) fn bad<T>(&mut self, span: &Range<usize>, message: &str, help: Option<String>) -> Option<T> {
        let mut problem = Diagnostic::error("bad-value", self.about(message));
        problem.help = help;
        self.problem(span, problem);
        None
    }

    pub(super) fn text(&mut self, span: &Range<usize>, form: TextKind, text: &str) -> Option<TomlValue> {
        if form.holds(text) {
            return Some(TomlValue::Text(text.to_owned()));
        }
        // Without its NUL the text may have the right form, so a description of the form would not help.
        let message = if text.contains('\0') {
            "expected text without NUL characters".to_owned()
        } else {
            format!("expected {}, found `{}`", form.expected(), escaped(text))
        };
        self.bad(span, &message, advice::of_aws(&self.path.join("."), text))
    }

    pub(super) fn word(&mut self, span: &Range<usize>, words: &[&str], text: &str) -> Option<TomlValue> {
        if words.contains(&text) {
            return Some(TomlValue::Text(text.to_owned()));
        }
        self.unknown_word(span, &one_of(words), words, text)
    }

    /// Reports a text that is none of the words.
    pub(super) fn unknown_word(
        &mut self,
        span: &Range<usize>,
        expected: &str,
        words: &[&str],
        text: &str,
    ) -> Option<TomlValue> {
        let message = format!("expected {expected}, found `{}`", escaped(text));
        let near = || nearest(text, words).map(|near| format!("did you mean `{near}`?"));
        let help = advice::of_aws(&self.path.join("."), text).or_else(near);
        self.bad(span, &message, help)
    }

    pub(super) fn unit(
        &mut self,
        span: &Range<usize>,
        text: &str,
        value: Result<TomlValue, UnitError>,
    ) -> Option<TomlValue> {
        match value {
            Ok(value) => Some(value),
            Err(error) => self.no_unit(span, text, &error, None),
        }
    }

    /// Reports a quantity that cannot be read; `near` is what may be meant.
    fn no_unit(
        &mut self,
        span: &Range<usize>,
        text: &str,
        error: &UnitError,
        near: Option<String>,
    ) -> Option<TomlValue> {
        let help = near.map(|near| format!("did you mean `\"{near}\"`?"));
        self.bad(span, &format!("{error}, found `{}`", escaped(text)), help)
    }

    pub(super) fn cpu(&mut self, span: &Range<usize>, text: &str) -> Option<TomlValue> {
        self.unit(span, text, units::parse_cpu(text).map(TomlValue::Cpu))
    }

    pub(super) fn duration(&mut self, span: &Range<usize>, zero: Zero, text: &str) -> Option<TomlValue> {
        match units::parse_duration(text) {
            Ok(duration) if duration.is_zero() && zero == Zero::Refused => {
                let help = "remove the key to get its default".to_owned();
                self.bad(span, "expected a duration above zero", Some(help))
            }
            Ok(duration) => Some(TomlValue::Duration(Some(duration))),
            Err(error) => {
                let short = crate::duration_words::short(text);
                let short = short.filter(|short| units::parse_duration(short).is_ok());
                self.no_unit(span, text, &error, short)
            }
        }
    }

    pub(super) fn micros(&mut self, span: &Range<usize>, range: &RangeInclusive<u32>, text: &str) -> Option<TomlValue> {
        match units::parse_micros(text) {
            Ok(micros) if !range.contains(&micros) => {
                let expected = ValueKind::Micros(range.clone()).expected();
                self.bad(span, &format!("expected {expected}, found `{}`", escaped(text)), None)
            }
            value => self.unit(span, text, value.map(TomlValue::Micros)),
        }
    }

    pub(super) fn size(&mut self, span: &Range<usize>, range: &RangeInclusive<u64>, text: &str) -> Option<TomlValue> {
        match units::parse_size(text) {
            Ok(bytes) if range.contains(&bytes) => Some(TomlValue::Size(Some(bytes))),
            Ok(_) => {
                let (low, high) = (units::print_size(*range.start()), units::print_size(*range.end()));
                let message = format!("expected a size from `{low}` to `{high}`, found `{}`", escaped(text));
                // Other systems take a number as megabytes.
                let megabytes = units::parse_size(&format!("{text}M")).is_ok_and(|bytes| range.contains(&bytes));
                let help = megabytes.then(|| format!("a number alone is bytes: write `\"{text}M\"`"));
                self.bad(span, &message, help)
            }
            Err(error) => {
                // `256m` means 0.256 bytes in Kubernetes and is a mistake elsewhere; `256MB` is common elsewhere.
                let upper = text.to_ascii_uppercase();
                let fixed = upper.trim_end_matches('B').trim_end_matches('I');
                let near = units::parse_size(fixed).ok().map(|_| fixed.to_owned());
                self.no_unit(span, text, &error, near)
            }
        }
    }

    pub(super) fn whole(
        &mut self,
        span: &Range<usize>,
        range: &RangeInclusive<u64>,
        number: &toml::de::DeInteger<'_>,
    ) -> Option<TomlValue> {
        // TOML also has hexadecimal, octal and binary numbers.
        let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
        if let Some(value) = parsed.filter(|value| range.contains(value)) {
            return Some(TomlValue::Whole(value));
        }
        let (low, high) = (range.start(), range.end());
        let message = format!("expected a whole number from {low} to {high}, found {number}");
        self.bad(span, &message, None)
    }

    pub(super) fn real(&mut self, span: &Range<usize>, range: &RangeInclusive<f64>, text: &str) -> Option<TomlValue> {
        // Not-a-number is in no range and so is refused.
        if let Some(value) = text.parse::<f64>().ok().filter(|value| range.contains(value)) {
            return Some(TomlValue::Real(value));
        }
        let (low, high) = (range.start(), range.end());
        let message = format!("expected a number from {low:?} to {high:?}, found {text}");
        self.bad(span, &message, None)
    }

    /// Returns the JSON of a TOML value as a text, with the keys of tables in the order of the file.
    pub(super) fn json_in_order(&mut self, span: &Range<usize>, found: &DeValue<'_>) -> Option<JsonText> {
        // This reports what JSON cannot express.
        self.json(span, found)?;
        JsonText::new(self.written(span, found)?)
    }

    fn written(&mut self, span: &Range<usize>, found: &DeValue<'_>) -> Option<String> {
        match found {
            DeValue::Table(table) => {
                let mut entries: Vec<_> = table.iter().collect();
                // The parser sorts a table by its names. The places of the names have the order of the file.
                entries.sort_by_key(|(name, _)| name.span().start);
                let members: Option<Vec<String>> = entries
                    .into_iter()
                    .map(|(name, item)| {
                        let name = serde_json::to_string(name.get_ref().as_ref()).ok()?;
                        Some(format!("{name}:{}", self.written(&item.span(), item.get_ref())?))
                    })
                    .collect();
                Some(format!("{{{}}}", members?.join(",")))
            }
            DeValue::Array(items) => {
                let items: Option<Vec<String>> = items
                    .iter()
                    .map(|item| self.written(&item.span(), item.get_ref()))
                    .collect();
                Some(format!("[{}]", items?.join(",")))
            }
            scalar => self.json(span, scalar).map(|json| json.to_string()),
        }
    }

    /// Returns the JSON of a TOML value. The parser bounds the depth.
    pub(super) fn json(&mut self, span: &Range<usize>, found: &DeValue<'_>) -> Option<serde_json::Value> {
        Some(match found {
            DeValue::String(text) => text.to_string().into(),
            DeValue::Boolean(truth) => (*truth).into(),
            DeValue::Integer(number) => {
                // A larger number would become a float in JSON and lose its last digits.
                let Ok(number) = i64::from_str_radix(number.as_str(), number.radix()) else {
                    return self.bad(span, "expected a whole number of at most 64 bits", None);
                };
                number.into()
            }
            DeValue::Float(number) => {
                let float = number.as_str().parse().ok().and_then(serde_json::Number::from_f64);
                let Some(float) = float else {
                    let message = "expected a number that JSON can represent, not infinity or `nan`";
                    return self.bad(span, message, None);
                };
                float.into()
            }
            // JSON has no type for a time.
            DeValue::Datetime(time) => time.to_string().into(),
            DeValue::Array(items) => {
                // In two steps, so that the problems of all items are reported. The same holds for tables.
                let items: Vec<Option<serde_json::Value>> = items
                    .iter()
                    .map(|item| self.json(&item.span(), item.get_ref()))
                    .collect();
                items.into_iter().collect::<Option<Vec<serde_json::Value>>>()?.into()
            }
            DeValue::Table(table) => {
                let entries: Vec<Option<(String, serde_json::Value)>> = table
                    .iter()
                    .map(|(name, item)| Some((name.get_ref().to_string(), self.json(&item.span(), item.get_ref())?)))
                    .collect();
                serde_json::Value::Object(entries.into_iter().collect::<Option<_>>()?)
            }
        })
    }
}
