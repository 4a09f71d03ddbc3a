//! Trace context: the trace of a request, and the span of each attempt in it.
//!
//! Two forms are read and written: W3C Trace Context (`traceparent`, `tracestate`; W3C Recommendation, 23 November
//! 2021) and B3 (`b3` in one header or `x-b3-*` in several; openzipkin/b3-propagation). If a request has both, the
//! first counts. Invalid headers are dropped and a new trace begins, as the recommendation asks (section 3.2). This
//! module exports no spans.

use fnd_wire::ids::{Attempt, InvocationId};
use std::fmt::{self, Write as _};

/// A trace's number; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub u128);

/// A span's number in its trace; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub u64);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::<32>(self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::<16>(self.0.into(), f)
    }
}

/// Writes the last digits of a number. Each attempt writes such numbers, and `write!` would take several times as long.
fn hex<const DIGITS: usize>(mut number: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [b'0'; DIGITS];
    for to in text.iter_mut().rev() {
        *to = b"0123456789abcdef"[(number & 0xf) as usize];
        number >>= 4;
    }
    f.write_str(str::from_utf8(&text).unwrap_or_default())
}

/// `sampled` in the flags of `traceparent`.
const SAMPLED: u8 = 1;

/// Limits of `tracestate`: bytes and members. The recommendation (sections 3.3.1.1 and 3.3.1.5) asks everybody to carry
/// this much.
const STATE_MAX: (usize, usize) = (512, 32);

/// A caller's position in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The trace's id, which all spans of the trace share.
    pub id: TraceId,
    /// The caller's span.
    pub parent: SpanId,
    /// Flags of `traceparent`.
    pub flags: u8,
    /// `tracestate`, passed on unread.
    pub state: Option<String>,
    /// Whether the request had B3 headers; then the function gets B3 as well.
    pub b3: bool,
}

impl Trace {
    /// Returns the trace in a request's headers; nothing where they contain no valid one. `header` returns the value of
    /// a name in lower case, with several values of one name joined by commas.
    #[must_use]
    pub fn of(header: impl Fn(&str) -> Option<String>) -> Option<Self> {
        if let Some((id, parent, flags)) = header("traceparent").and_then(|text| traceparent(text.trim())) {
            let state = header("tracestate").and_then(|text| state(&text));
            let b3 = header("b3").is_some() || header("x-b3-traceid").is_some();
            return Some(Self {
                id,
                parent,
                flags,
                state,
                b3,
            });
        }
        let (id, parent, sampled) = match header("b3") {
            Some(text) => b3_single(text.trim())?,
            None => b3_several(&header)?,
        };
        Some(Self {
            id,
            parent,
            flags: if sampled { SAMPLED } else { 0 },
            state: None,
            b3: true,
        })
    }

    /// Parses the [stored form](fmt::Display) of a trace.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (id, parent, flags) = traceparent(lines.next()?)?;
        let mut trace = Self {
            id,
            parent,
            flags,
            state: None,
            b3: false,
        };
        for line in lines {
            match line.split_once(": ") {
                Some(("tracestate", text)) => trace.state = state(text),
                _ if line == "b3" => trace.b3 = true,
                // A later version may have written this line.
                _ => {}
            }
        }
        Some(trace)
    }
}

/// The stored form: `traceparent`, then a line for each further value.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.id, self.parent, self.flags)?;
        if let Some(state) = &self.state {
            write!(f, "\ntracestate: {state}")?;
        }
        if self.b3 {
            f.write_str("\nb3")?;
        }
        Ok(())
    }
}

/// The span of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The trace: the caller's, or a new one with the number of the invocation.
    pub trace: TraceId,
    /// Number of the span, derived from invocation and attempt: so the number is the same after a restart.
    pub id: SpanId,
    /// The caller's span.
    pub parent: Option<SpanId>,
    /// Flags of `traceparent`.
    pub flags: u8,
}

impl Span {
    /// Returns the span of an attempt, in the caller's trace if there is one.
    #[must_use]
    pub fn of(caller: Option<&Trace>, invocation: InvocationId, attempt: Attempt) -> Self {
        let id = span_number(invocation, attempt);
        match caller {
            Some(caller) => Self {
                trace: caller.id,
                id,
                parent: Some(caller.parent),
                flags: caller.flags,
            },
            None => Self {
                // 0 is not a valid number of a trace.
                trace: TraceId(invocation.0.max(1)),
                id,
                parent: None,
                flags: SAMPLED,
            },
        }
    }

    /// Returns the `traceparent` with this span as the parent.
    #[must_use]
    pub fn traceparent(&self) -> String {
        let mut text = String::with_capacity(55); // Trace Context, section 3.2
        let _ = write!(text, "00-{}-{}-{:02x}", self.trace, self.id, self.flags); // writing to a String cannot fail
        text
    }

    /// Returns the `b3` with this span as the parent.
    #[must_use]
    pub fn b3(&self) -> String {
        let caller = self.parent.map_or_else(String::new, |parent| format!("-{parent}"));
        format!("{}-{}-{}{caller}", self.trace, self.id, self.flags & SAMPLED)
    }
}

/// Mixes the random part of the invocation's number with that of the attempt (the finalizer of SplitMix64).
fn span_number(invocation: InvocationId, attempt: Attempt) -> SpanId {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half: a UUIDv7's random part")]
    // The steps of SplitMix64: attempts that follow each other get numbers that look like chance.
    let mut mixed = (invocation.0 as u64).wrapping_add(u64::from(attempt.0).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    SpanId((mixed ^ (mixed >> 31)).max(1))
}

/// Parses a number other than 0 with exactly `digits` digits in lower case.
fn number(text: &str, digits: usize) -> Option<u128> {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    // `from_str_radix` takes a sign and upper-case digits, which are not allowed here.
    let whole = text.len() == digits && text.bytes().all(hex);
    let number = u128::from_str_radix(text, 16).ok().filter(|_| whole)?;
    (number != 0).then_some(number)
}

fn span(text: &str) -> Option<SpanId> {
    number(text, 16)
        .and_then(|number| u64::try_from(number).ok())
        .map(SpanId)
}

/// Reads `traceparent`. A version later than 00 may have more after another dash, which is ignored (section 3.2.4).
fn traceparent(text: &str) -> Option<(TraceId, SpanId, u8)> {
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let two = |part: &str| {
        (part == "00")
            .then_some(0)
            .or_else(|| number(part, 2))
            .map(u8::try_from)
    };
    let version = two(version)?.ok()?;
    // The version ff is invalid, and in version 00 nothing may follow the flags.
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    let flags = two(flags)?.ok()?;
    // Of the flags of a later version only those of version 00 are known.
    let flags = if version == 0 { flags } else { flags & SAMPLED };
    Some((TraceId(number(trace, 32)?), span(parent)?, flags))
}

/// Returns a `tracestate` within the limits; nothing for another.
fn state(text: &str) -> Option<String> {
    let text = text.trim();
    let (bytes, members) = STATE_MAX;
    let fits = !text.is_empty() && text.len() <= bytes && text.split(',').count() <= members;
    let plain = text.bytes().all(|b| (0x20..0x7f).contains(&b));
    (fits && plain).then(|| text.to_owned())
}

/// Reads a B3 trace number. Older ones have half as many digits.
fn b3_trace(text: &str) -> Option<TraceId> {
    // In B3 a trace id has 128 bits or 64.
    number(text, 32).or_else(|| number(text, 16)).map(TraceId)
}

/// Reads `TRACE-SPAN[-SAMPLED[-PARENT]]`. A value without numbers only requests sampling and has no trace.
fn b3_single(text: &str) -> Option<(TraceId, SpanId, bool)> {
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split('-');
    let (trace, of) = (b3_trace(parts.next()?)?, span(parts.next()?)?);
    let sampled = match parts.next() {
        None | Some("1" | "d") => true,
        Some("0") => false,
        Some(_) => return None,
    };
    let parent = parts.next();
    let whole = parent.is_none_or(|parent| span(parent).is_some()) && parts.next().is_none();
    whole.then_some((trace, of, sampled))
}

fn b3_several(header: impl Fn(&str) -> Option<String>) -> Option<(TraceId, SpanId, bool)> {
    let read = |name| header(name).map(|text| text.trim().to_ascii_lowercase());
    let (trace, of) = (b3_trace(&read("x-b3-traceid")?)?, span(&read("x-b3-spanid")?)?);
    // In B3 `debug` implies sampling, and the receiver decides where the sender has not.
    let debug = read("x-b3-flags").as_deref() == Some("1");
    let denied = matches!(read("x-b3-sampled").as_deref(), Some("0" | "false"));
    Some((trace, of, debug || !denied))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn of(headers: &[(&str, &str)]) -> Option<Trace> {
        Trace::of(|name| {
            let found = headers.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_traceparent_is_read_as_the_recommendation_says() {
        let good = |flags: &str, version: &str, rest: &str| format!("{version}-{TRACE}-{SPAN}-{flags}{rest}");
        for (text, flags) in [
            (good("01", "00", ""), Some(1)),
            (good("00", "00", ""), Some(0)),
            (good("03", "00", ""), Some(3)),
            (format!("  {} ", good("01", "00", "")), Some(1)),
            // Of a later version, the known parts count.
            (good("ff", "01", ""), Some(1)),
            (good("01", "cc", "-what-the-future-will-be"), Some(1)),
            (good("01", "00", "-more"), None),
            (good("01", "ff", ""), None),
            (good("1", "00", ""), None),
            (good("0G", "00", ""), None),
            (good("+1", "00", ""), None),
            (good("01", "00", ".more"), None),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), None),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), None),
            (format!("00-{TRACE}-{SPAN}"), None),
            (format!("{},{}", good("01", "00", ""), good("01", "00", "")), None),
            (String::new(), None),
        ] {
            let found = of(&[("traceparent", &text)]);
            assert_eq!(found.as_ref().map(|trace| trace.flags), flags, "{text}");
            if let Some(trace) = found {
                let numbers = (trace.id.to_string(), trace.parent.to_string());
                assert_eq!(numbers, (TRACE.to_owned(), SPAN.to_owned()), "{text}");
            }
        }
    }

    #[test]
    fn a_state_is_carried_beside_a_valid_parent_only() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        let state = |text: &str| of(&[("traceparent", &parent), ("tracestate", text)]).unwrap().state;
        assert_eq!(state("rojo=1,congo=2").as_deref(), Some("rojo=1,congo=2"));
        for text in ["", "  ", "a=\u{7}", "a=é", &"x".repeat(513), &"a=1,".repeat(33)] {
            assert_eq!(state(text), None, "{text:?}");
        }
        assert_eq!(of(&[("tracestate", "rojo=1")]), None);
    }

    #[test]
    fn b3_comes_in_one_header_or_in_several() {
        let b3 = |text: &str| of(&[("b3", text)]).map(|trace| (trace.id.0, trace.parent.0, trace.flags, trace.b3));
        let expected = |flags| {
            Some((
                0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
                0x00f0_67aa_0ba9_02b7,
                flags,
                true,
            ))
        };
        for (rest, flags) in [("", 1), ("-1", 1), ("-d", 1), ("-0", 0), ("-1-05e3ac9a4f6e3b90", 1)] {
            assert_eq!(b3(&format!("{TRACE}-{SPAN}{rest}")), expected(flags), "{rest}");
        }
        assert_eq!(
            b3(&format!("{}-{SPAN}", &TRACE[16..])),
            Some((0xa3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7, 1, true))
        );
        for text in [
            "0",
            "1",
            "d",
            "",
            "x-y",
            &format!("{TRACE}-{SPAN}-2"),
            &format!("{TRACE}-{SPAN}-1-x"),
        ] {
            assert_eq!(b3(text), None, "{text}");
        }
        let several = |more: &[(&str, &str)]| {
            let mut headers = vec![("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN)];
            headers.extend(more);
            of(&headers).unwrap().flags
        };
        assert_eq!(several(&[]), 1);
        assert_eq!(several(&[("x-b3-sampled", "0")]), 0);
        assert_eq!(several(&[("x-b3-sampled", "0"), ("x-b3-flags", "1")]), 1);
        assert_eq!(of(&[("x-b3-traceid", TRACE)]), None);
    }

    #[test]
    fn the_first_form_wins_and_the_second_is_remembered() {
        let parent = format!("00-{TRACE}-{SPAN}-00");
        let trace = of(&[("traceparent", &parent), ("b3", "ffffffffffffffff-ffffffffffffffff-1")]).unwrap();
        assert_eq!(
            (trace.id.to_string(), trace.flags, trace.b3),
            (TRACE.to_owned(), 0, true)
        );
    }

    #[test]
    fn each_attempt_is_a_span_of_its_own_in_one_trace() {
        let invocation = InvocationId(0x0193_4567_89ab_7def_8123_4567_89ab_cdef);
        let own = Span::of(None, invocation, Attempt(1));
        assert_eq!(own.trace.to_string(), "0193456789ab7def8123456789abcdef");
        assert_eq!(own.parent, None);
        let caller = of(&[("traceparent", &format!("00-{TRACE}-{SPAN}-01"))]).unwrap();
        let [first, second] = [1, 2].map(|attempt| Span::of(Some(&caller), invocation, Attempt(attempt)));
        assert_eq!((first.trace, first.parent), (caller.id, Some(caller.parent)));
        assert_eq!(first.trace, second.trace);
        assert_ne!(first.id, second.id);
        assert_eq!(first.traceparent(), format!("00-{TRACE}-{}-01", first.id));
        assert_eq!(first.b3(), format!("{TRACE}-{}-1-{SPAN}", first.id));
    }

    proptest! {
        #[test]
        fn what_is_read_can_be_stored_and_passed_on(
            parent in "[0-9a-f-]{0,60}|0[0-9]-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-x)?",
            state in "[ -~]{0,600}",
            b3 in "[0-9a-fA-F-]{0,70}|[0-9a-f]{32}-[0-9a-f]{16}(-[01d])?",
            invocation in any::<u128>(),
            attempt in 1..u32::MAX,
        ) {
            let headers = [("traceparent", parent.as_str()), ("tracestate", &state), ("b3", &b3)];
            let Some(trace) = of(&headers) else { return Ok(()) };
            prop_assert_eq!(Trace::parse(&trace.to_string()), Some(trace.clone()));
            let span = Span::of(Some(&trace), InvocationId(invocation), Attempt(attempt));
            let passed = of(&[("traceparent", &span.traceparent())]).unwrap();
            prop_assert_eq!((passed.id, passed.parent, passed.flags), (trace.id, span.id, trace.flags));
            let passed = of(&[("b3", &span.b3())]).unwrap();
            prop_assert_eq!((passed.id, passed.parent), (trace.id, span.id));
        }

        #[test]
        fn no_text_is_too_strange(text in any::<String>()) {
            let _ = Trace::parse(&text);
            for name in ["traceparent", "b3", "x-b3-traceid"] {
                let _ = of(&[(name, &text), ("tracestate", &text), ("x-b3-spanid", &text)]);
            }
        }
    }
}
