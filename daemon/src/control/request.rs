//! A request: the values in its path, its parameters, headers and body, each limited and checked.

use super::backend::Backend;
use crate::buffers::Gathering;
use crate::http::limits::{BODY_GAP, BODY_TIME, DISCARD_MAX};
use crate::http::response::{Refusal, refuse};
use fnd_core::data::Data;
use fnd_core::problem::Code;
use fnd_core::settings::Role;
use fnd_wire::ids::{FunctionName, InvocationId};
use fnd_wire::units::{parse_duration, print_size};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// A body that has not been read; its reader takes it out.
pub(super) type Unread = Rc<RefCell<Option<Incoming>>>;

/// A request whose route was found, with all that its handler needs.
pub(super) struct Call {
    pub(super) backend: Rc<dyn Backend>,
    /// The role of the caller.
    pub(super) role: Option<Role>,
    pub(super) parts: hyper::http::request::Parts,
    pub(super) body: Unread,
    /// The values of `{...}` in the path, decoded, in order.
    pub(super) places: Vec<String>,
}

impl Call {
    /// Returns the function in the path.
    ///
    /// # Errors
    /// [`Code::NotFound`] if the text is not a valid name.
    pub(super) fn function(&self) -> Result<FunctionName, Refusal> {
        let text = self.places.first().map_or("", String::as_str);
        FunctionName::new(text).map_err(|error| refuse(Code::NotFound, error.to_string()))
    }

    /// Returns the invocation in the path.
    ///
    /// # Errors
    /// [`Code::NotFound`] if the text is not a valid id.
    pub(super) fn invocation(&self) -> Result<InvocationId, Refusal> {
        let text = self.places.first().map_or("", String::as_str);
        InvocationId::parse(text).ok_or_else(|| {
            refuse(
                Code::NotFound,
                format!("`{}` is not an id of an invocation (a UUID)", short(text)),
            )
        })
    }

    /// Returns a header as text, without spaces around it.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if it occurs more than once or is not ASCII.
    pub(super) fn header(&self, name: &'static str) -> Result<Option<&str>, Refusal> {
        let mut values = self.parts.headers.get_all(name).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            if self.parts.headers.contains_key(name) {
                return Err(refuse(
                    Code::BadRequest,
                    format!("the header `{name}` is there more than once"),
                ));
            }
            return Ok(None);
        };
        match value.to_str() {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(refuse(
                Code::BadRequest,
                format!("the header `{name}` has other characters than ASCII"),
            )),
        }
    }

    /// Refuses a body whose announced length exceeds a limit. The body is not taken out, so that the rest of it can be
    /// discarded.
    ///
    /// # Errors
    /// [`Code::TooLarge`].
    pub(super) fn check_length(&self, limit: u64, limit_name: &str) -> Result<(), Refusal> {
        let body = self.body.borrow();
        if body.as_ref().is_some_and(|body| body.size_hint().lower() > limit) {
            return Err(too_large(limit, limit_name));
        }
        Ok(())
    }

    /// Returns the whole body, in memory or on the disk, as the memory budget allows.
    ///
    /// # Errors
    /// [`Code::TooLarge`], [`Code::SlowRequest`], [`Code::BadRequest`] if the body breaks off, and
    /// [`Code::Unavailable`] if neither memory nor disk has room for it.
    pub(super) async fn read_body(&self, limit: u64, limit_name: &str) -> Result<Data, Refusal> {
        self.check_length(limit, limit_name)?;
        let mut gathering = Gathering::new(&self.backend.buffers());
        let Some(mut body) = self.body.borrow_mut().take() else {
            return Ok(gathering.finish());
        };
        if body.is_end_stream() {
            return Ok(gathering.finish());
        }
        let end = deadline();
        while let Some(data) = next_data(&mut body, end).await? {
            if gathering.size() + data.len() as u64 > limit {
                self.body.borrow_mut().replace(body);
                return Err(too_large(limit, limit_name));
            }
            if let Err(error) = gathering.push(&data).await {
                self.body.borrow_mut().replace(body);
                return Err(no_room("the body", &error));
            }
        }
        Ok(gathering.finish())
    }
}

/// Returns the refusal for data for which neither memory nor disk has room.
pub(crate) fn no_room(what: &str, error: &std::io::Error) -> Refusal {
    tracing::warn!("{what} of a request has no place: [node] buffers is full, and the disk of the state: {error}");
    let detail = format!("fnd has no room for {what} now: its memory for that is full, and its disk takes nothing");
    let mut refusal = refuse(Code::Unavailable, detail);
    refusal.retry_after = Some(1);
    refusal
}

fn too_large(limit: u64, limit_name: &str) -> Refusal {
    let limit = print_size(limit);
    refuse(
        Code::TooLarge,
        format!("the body is larger than {limit} ({limit_name})"),
    )
}

fn deadline() -> Instant {
    Instant::now() + BODY_TIME
}

async fn next_data(body: &mut Incoming, end: Instant) -> Result<Option<hyper::body::Bytes>, Refusal> {
    let slow = |what: String| refuse(Code::SlowRequest, what);
    loop {
        let frame = timeout_at(end, timeout(BODY_GAP, body.frame())).await;
        let frame = frame.map_err(|_| slow(format!("the body took longer than {} s", BODY_TIME.as_secs())))?;
        let frame = frame.map_err(|_| slow(format!("nothing of the body came for {} s", BODY_GAP.as_secs())))?;
        match frame {
            None => return Ok(None),
            Some(Err(_)) => return Err(refuse(Code::BadRequest, "the body broke off")),
            // Trailers have no meaning here.
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Reads and drops the rest of a refused request's body, within limits, so that its sender gets to read the answer.
pub(super) async fn discard(body: &Unread) {
    let Some(mut body) = body.borrow_mut().take() else {
        return;
    };
    let end = deadline();
    let mut left = DISCARD_MAX;
    while let Ok(Some(data)) = next_data(&mut body, end).await {
        left = left.saturating_sub(data.len() as u64);
        if left == 0 {
            return;
        }
    }
}

/// The parameters of a request.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Returns the parameters, which must all be in `known`.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if one is unknown, occurs more than once, or is not UTF-8.
    pub(super) fn of(call: &Call, known: &[&str]) -> Result<Self, Refusal> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in call
            .parts
            .uri
            .query()
            .unwrap_or("")
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(refuse(Code::BadRequest, "a parameter is not UTF-8 in percent-encoding"));
            };
            if !known.contains(&name.as_str()) {
                let known = known
                    .iter()
                    .map(|known| format!("`{known}`"))
                    .collect::<Vec<_>>()
                    .join(", ");
                let known = if known.is_empty() {
                    "there are none here".to_owned()
                } else {
                    format!("known: {known}")
                };
                return Err(refuse(
                    Code::BadRequest,
                    format!("unknown parameter `{}`; {known}", short(&name)),
                ));
            }
            if name != "label" && pairs.iter().any(|(other, _)| *other == name) {
                return Err(refuse(
                    Code::BadRequest,
                    format!("the parameter `{name}` is there more than once"),
                ));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// Returns every value of a parameter.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns a parameter, parsed by `parse`.
    ///
    /// # Errors
    /// [`Code::BadRequest`], with the `expected` form.
    pub(super) fn get<T>(
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

    /// Returns a switch: `1` or `true`, `0` or `false`; absent means off.
    pub(super) fn switch(&self, name: &str) -> Result<bool, Refusal> {
        let parse = |text: &str| match text {
            "1" | "true" => Some(true),
            "0" | "false" => Some(false),
            _ => None,
        };
        Ok(self.get(name, "`1` or `0`", parse)?.unwrap_or(false))
    }

    /// Returns an instant in Unix milliseconds.
    pub(super) fn instant(&self, name: &str) -> Result<Option<u64>, Refusal> {
        self.get(name, INSTANT, instant)
    }

    /// Returns a count from 1 to the greater of the two numbers; absent means the smaller.
    pub(super) fn count(&self, name: &str, (usual, most): (u32, u32)) -> Result<u32, Refusal> {
        let parse = |text: &str| text.parse().ok().filter(|count| (1..=most).contains(count));
        Ok(self
            .get(name, &format!("a number from 1 to {most}"), parse)?
            .unwrap_or(usual))
    }

    /// Returns a duration of at most `most`.
    pub(super) fn duration(&self, name: &str, most: Duration) -> Result<Option<Duration>, Refusal> {
        let expected = format!("a duration of at most {} s, such as `30s`", most.as_secs());
        self.get(name, &expected, |text| {
            parse_duration(text).ok().filter(|duration| *duration <= most)
        })
    }
}

/// The form of an instant, for messages.
pub(super) const INSTANT: &str = "an instant of RFC 3339 such as `2026-11-21T08:00:00Z`";

/// Returns the Unix milliseconds of an instant; nothing if it is before 1970 or cannot be parsed.
pub(super) fn instant(text: &str) -> Option<u64> {
    let timestamp: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(timestamp.as_millisecond()).ok()
}

/// Returns the refusal of a value.
pub(super) fn wrong(name: &str, expected: &str, found: &str) -> Refusal {
    refuse(
        Code::BadRequest,
        format!("`{name}`: expected {expected}, found `{}`", short(found)),
    )
}

/// Returns a text of the request for use in a message: at most 80 characters, without control characters.
pub(crate) fn short(text: &str) -> String {
    text.chars()
        .take(80)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// Decodes percent-encoded text; returns nothing if it is not UTF-8. `+` means itself (RFC 3986), because time zones
/// contain it.
pub(super) fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
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
        ] {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
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
