//! The parameters of a request, and the forms of their values.

use super::response::{Refusal, refuse};
use fnd_core::api::problem::Code;
use fnd_wire::ids::FunctionName;
use fnd_wire::units::parse_duration;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::time::Duration;

/// The parameters of a request.
#[derive(Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Returns the parameters, which must all be in `known`.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if one is unknown, occurs more than once, or is not UTF-8.
    pub(crate) fn parse(text: &str, known: &[&str]) -> Result<Self, Refusal> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(refuse(Code::BadRequest, "a parameter is not UTF-8 in percent-encoding"));
            };
            // Not ignored: a list with a misspelt filter would show more than its caller asked for.
            if !known.contains(&name.as_str()) {
                let known = match known {
                    [] => "this path has no parameters".to_owned(),
                    _ => format!("known: `{}`", known.join("`, `")),
                };
                return Err(refuse(
                    Code::BadRequest,
                    format!("unknown parameter `{}`; {known}", short(&name)),
                ));
            }
            // A filter may name several labels. Of any other parameter, two programs could each take another value.
            if name != "label" && pairs.iter().any(|(other, _)| *other == name) {
                return Err(refuse(
                    Code::BadRequest,
                    format!("the parameter `{name}` appears more than once"),
                ));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// Returns every value of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns a parameter, parsed by `parse`.
    ///
    /// # Errors
    /// [`Code::BadRequest`], with the `expected` form.
    pub(crate) fn get<T>(
        &self,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        self.all(name)
            .next()
            .map(|value| parse(value).ok_or_else(|| wrong(name, expected, value)))
            .transpose()
    }

    /// Returns a parameter that the request must have, parsed by `parse`. `example` is a value.
    ///
    /// # Errors
    /// As of [`Self::get`], or the parameter is missing.
    pub(crate) fn required<T>(
        &self,
        (name, example): (&str, &str),
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Refusal> {
        let missing = || {
            let detail = format!("`{name}` is missing: use `?{name}={example}`");
            refuse(Code::BadRequest, detail)
        };
        self.get(name, expected, parse)?.ok_or_else(missing)
    }

    /// Returns a text that is not empty.
    pub(crate) fn text(&self, name: &str, expected: &str) -> Result<Option<String>, Refusal> {
        self.get(name, expected, |text| (!text.is_empty()).then(|| text.to_owned()))
    }

    /// Returns the function that a parameter names.
    pub(crate) fn function(&self, name: &str) -> Result<Option<FunctionName>, Refusal> {
        self.get(name, "the name of a function", |text| FunctionName::new(text).ok())
    }

    /// Returns a switch: `1` or `true`, `0` or `false`; absent means off.
    pub(crate) fn switch(&self, name: &str) -> Result<bool, Refusal> {
        self.switch_or(name, false)
    }

    /// The same with another default.
    pub(crate) fn switch_or(&self, name: &str, default: bool) -> Result<bool, Refusal> {
        let parse = |text: &str| match text {
            "1" | "true" => Some(true),
            "0" | "false" => Some(false),
            _ => None,
        };
        Ok(self.get(name, "`1` or `0`", parse)?.unwrap_or(default))
    }

    /// Returns an instant in Unix milliseconds.
    pub(crate) fn instant(&self, name: &str) -> Result<Option<u64>, Refusal> {
        self.get(name, INSTANT, instant)
    }

    /// Returns a count from 1 to the greater of the two numbers; absent means the smaller.
    pub(crate) fn count(&self, name: &str, (usual, most): (u32, u32)) -> Result<u32, Refusal> {
        Ok(self.at_most(name, most)?.unwrap_or(usual))
    }

    /// Returns a count from 1 to `most`, if the request has it.
    pub(crate) fn at_most(&self, name: &str, most: u32) -> Result<Option<u32>, Refusal> {
        let parse = |text: &str| text.parse().ok().filter(|count| (1..=most).contains(count));
        self.get(name, &format!("a number from 1 to {most}"), parse)
    }

    /// Returns a duration of at most `most`.
    pub(crate) fn duration(&self, name: &str, most: Duration) -> Result<Option<Duration>, Refusal> {
        let expected = format!("a duration of at most {} s, such as `30s`", most.as_secs());
        self.get(name, &expected, |text| {
            parse_duration(text).ok().filter(|duration| *duration <= most)
        })
    }
}

/// The form of an instant, for messages.
pub(crate) const INSTANT: &str = "an instant of RFC 3339 such as `2026-11-21T08:00:00Z`";

/// Returns the Unix milliseconds of an instant; nothing if it is before 1970 or cannot be parsed.
pub(crate) fn instant(text: &str) -> Option<u64> {
    let timestamp: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(timestamp.as_millisecond()).ok()
}

/// Returns the refusal of a value.
pub(crate) fn wrong(name: &str, expected: &str, found: &str) -> Refusal {
    refuse(
        Code::BadRequest,
        format!("`{name}`: expected {expected}, found `{}`", short(found)),
    )
}

/// Decodes percent-encoded text; returns nothing if it is not UTF-8, or a `%` is without its two digits. `+` means
/// itself (RFC 3986), because time zones contain it; so this is not the encoding of forms.
pub(crate) fn decode(text: &str) -> Option<String> {
    // The decoder would leave a `%` without digits as it is, and another program may read it differently.
    let bytes = text.as_bytes();
    let has_digits = |at: usize| {
        let digits = bytes.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.match_indices('%').all(|(at, _)| has_digits(at)) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// Returns a text of the request for use in a message: at most 80 characters, without control characters.
pub(crate) fn short(text: &str) -> String {
    text.chars()
        .take(80)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding() {
        for (text, expected) in [
            ("plain", Some("plain")),
            ("ops%2Fbackup", Some("ops/backup")),
            ("2026-11-21T08:00:00+02:00", Some("2026-11-21T08:00:00+02:00")),
            ("%e2%82%ac", Some("€")),
            ("%ff", None),
            ("%", None),
            ("%2", None),
            ("%+1", None),
            ("%zz", None),
            ("%%41", None),
            ("a%2", None),
            ("%e2%82", None),
            ("%2541", Some("%41")),
            ("", Some("")),
        ] {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn parameters_are_decoded_pairs() {
        let known = ["since", "label", "follow"];
        for (text, expected) in [
            ("", &[][..]),
            ("&&", &[]),
            ("follow", &[("follow", "")]),
            ("follow=&since=a=b", &[("follow", ""), ("since", "a=b")]),
            // `+` is no space: time zones contain it.
            (
                "since=2026-11-21T08:00:00+02:00",
                &[("since", "2026-11-21T08:00:00+02:00")],
            ),
            ("%73ince=a%26b%3Dc%20d", &[("since", "a&b=c d")]),
            ("label=a=1&label=b=2", &[("label", "a=1"), ("label", "b=2")]),
        ] {
            let Query(pairs) = Query::parse(text, &known).unwrap();
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(pairs, expected, "{text}");
        }
    }

    #[test]
    fn other_parameters_are_refused_with_the_reason() {
        let encoding = "a parameter is not UTF-8 in percent-encoding";
        let unknown = "unknown parameter `x`; known: `since`, `label`";
        for (text, known, expected) in [
            ("since=%ff", &["since"][..], encoding),
            ("since=%", &["since"], encoding),
            ("%zz=1", &["since"], encoding),
            ("since=%e2%82", &["since"], encoding),
            ("x=1", &["since", "label"], unknown),
            // The first fault is named.
            ("x=1&since=%ff", &["since", "label"], unknown),
            ("x", &[], "unknown parameter `x`; this path has no parameters"),
            (
                "%0a=1",
                &[],
                "unknown parameter `\u{fffd}`; this path has no parameters",
            ),
            (
                "since=1&sinc%65=2",
                &["since"],
                "the parameter `since` appears more than once",
            ),
        ] {
            let refusal = Query::parse(text, known).err().unwrap();
            assert_eq!(
                (refusal.problem.status, refusal.problem.detail.as_str()),
                (400, expected),
                "{text}"
            );
        }
    }

    #[test]
    fn instants() {
        assert_eq!(instant("2026-11-21T08:00:00.123Z"), Some(1_795_248_000_123));
        assert_eq!(instant("2026-11-21T10:00:00+02:00"), Some(1_795_248_000_000));
        for text in ["", "now", "2026-11-21", "1969-12-31T23:59:59Z", "1795248000"] {
            assert_eq!(instant(text), None, "{text}");
        }
    }
}
