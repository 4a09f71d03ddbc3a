//! Instants, durations and sizes for people, and instants as people write them.
//!
//! Files:
//! - `moments`: instants in words

mod moments;

use crate::exit::CommandFailure;
use fnd_core::api::FunctionStatus;
use fnd_core::records::outcome::Reason;
use fnd_wire::ids::InvocationId;
use fnd_wire::units::parse_duration;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use nix::unistd::{Uid, User};
use std::time::Duration;

/// Characters of an id that tables show: among a million runs, one of 4000 ids shares them with another one.
const SHOWN: usize = 8;

/// Returns the end of an id, for tables.
pub(crate) fn short(id: InvocationId) -> String {
    end_of(&id.to_string()).to_owned()
}

/// Returns the end of an id that is a text.
pub(crate) fn end_of(id: &str) -> &str {
    id.get(id.len().saturating_sub(SHOWN)..).unwrap_or_default()
}

/// Returns how long ago an instant of the API was, or how far in the future it is: `5s ago`, `in 3m`.
pub(crate) fn distance(instant: Option<&str>, now: Timestamp) -> String {
    let Some(then) = instant.and_then(|text| text.parse::<Timestamp>().ok()) else {
        return String::new();
    };
    let ms = now.as_millisecond() - then.as_millisecond();
    let span = rough(Duration::from_millis(ms.unsigned_abs()));
    if ms >= 0 {
        format!("{span} ago")
    } else {
        format!("in {span}")
    }
}

/// Returns when an attempt ended, by its start and its duration.
pub(crate) fn ended(started: Option<&str>, duration_ms: Option<f64>) -> Option<String> {
    let started: Timestamp = started?.parse().ok()?;
    let lasted = Duration::try_from_secs_f64(duration_ms? / 1000.0).ok()?;
    Some(started.checked_add(lasted).ok()?.to_string())
}

/// Returns the time between two instants of the API, or since the first: `12ms`, `1.2s`, `3m`, `5h`.
pub(crate) fn between(start: Option<&str>, end: Option<&str>, now: Timestamp) -> String {
    let parse = |text: &str| text.parse::<Timestamp>().ok();
    let Some(start) = start.and_then(parse) else {
        return String::new();
    };
    let ms = end.and_then(parse).unwrap_or(now).as_millisecond() - start.as_millisecond();
    // Less than nothing: the clock was set back.
    let span = Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    if span < Duration::from_secs(120) {
        brief(Some(span.as_secs_f64() * 1000.0))
    } else {
        rough(span)
    }
}

/// Returns a span in its largest unit: `42s`, `3m`, `5h`, `12d`.
fn rough(span: Duration) -> String {
    match span.as_secs() {
        s @ 0..120 => format!("{s}s"),
        s @ 120..7200 => format!("{}m", s / 60),
        s @ 7200..172_800 => format!("{}h", s / 3600),
        // From two years on, days do not matter.
        s if s < 730 * 86_400 => format!("{}d", s / 86_400),
        s => format!("{}y", s / 86_400 / 365),
    }
}

/// Returns a duration with three digits: `0.42ms`, `12.3ms`, `1.20s`, `3m05s`.
pub(crate) fn duration(ms: Option<f64>) -> String {
    match ms {
        None => String::new(),
        Some(ms) if ms < 10.0 => format!("{ms:.2}ms"),
        Some(ms) if ms < 100.0 => format!("{ms:.1}ms"),
        Some(ms) if ms < 1000.0 => format!("{ms:.0}ms"),
        Some(ms) if ms < 10_000.0 => format!("{:.2}s", ms / 1000.0),
        Some(ms) if ms < 60_000.0 => format!("{:.1}s", ms / 1000.0),
        Some(ms) => format!("{}m{:02.0}s", (ms / 60_000.0).floor(), (ms % 60_000.0 / 1000.0).floor()),
    }
}

/// Returns a duration with two digits, for tables: `0.4ms`, `12ms`, `1.2s`, `59s`, `3m`.
pub(crate) fn brief(ms: Option<f64>) -> String {
    match ms {
        None => String::new(),
        Some(ms) if ms < 9.95 => format!("{ms:.1}ms"),
        Some(ms) if ms < 999.5 => format!("{ms:.0}ms"),
        Some(ms) if ms < 9950.0 => format!("{:.1}s", ms / 1000.0),
        Some(ms) if ms < 120_000.0 => format!("{:.0}s", ms / 1000.0),
        Some(ms) => format!("{:.0}m", (ms / 60_000.0).floor()),
    }
}

/// Returns a size with its unit: `512B`, `9.2M`, `256M`.
pub(crate) fn size(bytes: Option<u64>) -> String {
    let Some(bytes) = bytes else { return String::new() };
    let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        None => format!("{bytes}B"),
        Some((unit, shift)) => {
            // Tenths, rounded down; from ten of a unit on they do not matter.
            let tenths = (u128::from(bytes) * 10) >> shift;
            if tenths < 100 && tenths % 10 != 0 {
                format!("{}.{}{unit}", tenths / 10, tenths % 10)
            } else {
                format!("{}{unit}", tenths / 10)
            }
        }
    }
}

/// Returns reason and message of an end. If the message begins with the reason, as a program's own last line may, the
/// reason is not repeated.
pub(crate) fn why(reason: Option<Reason>, message: &str) -> String {
    // fnd's own words for the number say nothing more.
    let message = match reason {
        Some(Reason::Exit(code)) if message == format!("exit code {code}") => "",
        _ => message,
    };
    let reason = reason.map(|reason| reason.to_string()).unwrap_or_default();
    if message.is_empty() || message.starts_with(&reason) {
        format!("{reason}{}", message.strip_prefix(&reason).unwrap_or_default())
    } else {
        format!("{reason}: {message}")
    }
}

/// Returns why a service is crash-looping although its runs ended without an error: their records have no message.
pub(crate) fn ended_service(status: &FunctionStatus) -> Option<&'static str> {
    let is_looping = status.state.as_str() == "crash-looping" && status.reason == Some(Reason::Ok);
    is_looping.then_some(
        "it ends with exit code 0, but a service runs until it is stopped: start the program in the foreground, or make it a script (no `[service]`, no `mode = \"service\"`)",
    )
}

/// Returns the state of a function for people: a service that a person has stopped is disabled for the API.
pub(crate) fn state(status: &FunctionStatus) -> &'static str {
    status.stopped.as_ref().map_or(status.state.as_str(), |_| "stopped")
}

/// Returns by whom and since when a service is stopped, and what starts it.
pub(crate) fn stopped(status: &FunctionStatus, now: Timestamp) -> Option<String> {
    let stop = status.stopped.as_ref()?;
    let user = User::from_uid(Uid::from_raw(stop.uid)).ok().flatten();
    let by = user.map_or_else(|| format!("user {}", stop.uid), |user| user.name);
    let since = distance(Some(&stop.since), now);
    Some(format!(
        "stopped by {by} {since}; an edit does not start it, `fndctl start {}` does",
        status.function
    ))
}

/// Converts the instant that an option has for the API: RFC 3339 stays, `1h` is an hour before now, and a time without
/// zone, as a terminal shows it, is local. Words such as `yesterday` are those of [`moments`].
pub(crate) fn since(option: &str, text: &str, now: Timestamp) -> Result<String, CommandFailure> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant.to_string());
    }
    if let Ok(local) = text.parse::<DateTime>()
        && let Ok(instant) = local.to_zoned(TimeZone::system())
    {
        return Ok(instant.timestamp().to_string());
    }
    let ago = parse_duration(text).ok().and_then(|ago| now.checked_sub(ago).ok());
    let ago = ago.or_else(|| moments::instant(text, &now.to_zoned(TimeZone::system())));
    ago.map(|instant| instant.to_string()).ok_or_else(|| {
        CommandFailure::usage(format!(
            "`{option} {text}` is no time: write how long ago it was, such as `1h` or `2 hours ago`, a time of the day such as `09:00`, \
             `today`, `yesterday`, or `2026-11-21 08:00`"
        ))
    })
}

/// Parses the duration that an option has.
pub(crate) fn span(option: &str, text: &str) -> Result<Duration, CommandFailure> {
    parse_duration(text).map_err(|error| CommandFailure::usage(format!("`{option} {text}`: {error}")))
}

/// Parses the duration of an option that need not be there.
pub(crate) fn optional_span(option: &str, text: Option<&str>) -> Result<Option<Duration>, CommandFailure> {
    text.map(|text| span(option, text)).transpose()
}

#[cfg(test)]
mod tests {
    use crate::text::*;

    #[test]
    fn a_reason_is_printed_once() {
        for (reason, message, expected) in [
            (Reason::Oom, "at the limit of 64 MiB", "oom: at the limit of 64 MiB"),
            (Reason::Failed, "failed: no such host", "failed: no such host"),
            (Reason::Exit(3), "no such host", "exit-3: no such host"),
            (Reason::Exit(3), "exit code 3", "exit-3"),
            (Reason::Exit(3), "exit code 4 of tar", "exit-3: exit code 4 of tar"),
            (Reason::Ok, "", "ok"),
        ] {
            assert_eq!(why(Some(reason), message), expected);
        }
    }

    #[test]
    fn for_people() {
        let now: Timestamp = "2026-11-21T08:00:00Z".parse().unwrap();
        for (instant, expected) in [
            (None, ""),
            (Some("2026-11-21T07:59:58.500Z"), "1s ago"),
            (Some("2026-11-21T07:00:00Z"), "60m ago"),
            (Some("2026-11-20T08:00:00Z"), "24h ago"),
            (Some("2026-10-21T08:00:00Z"), "31d ago"),
            (Some("2001-11-21T08:00:00Z"), "25y ago"),
            (Some("2026-11-21T08:00:05Z"), "in 5s"),
        ] {
            assert_eq!(distance(instant, now), expected);
        }
        for (end, expected) in [
            (Some("2026-11-21T07:00:00.113Z"), "113ms"),
            (Some("2026-11-21T07:01:59Z"), "119s"),
            (Some("2026-11-21T06:59:59Z"), "0.0ms"),
            (None, "60m"),
        ] {
            assert_eq!(between(Some("2026-11-21T07:00:00Z"), end, now), expected);
        }
        assert_eq!(between(None, None, now), "");
        for (ms, expected) in [
            (0.4216, "0.42ms"),
            (12.34, "12.3ms"),
            (999.4, "999ms"),
            (1204.0, "1.20s"),
            (59_900.0, "59.9s"),
            (185_900.0, "3m05s"),
        ] {
            assert_eq!(duration(Some(ms)), expected);
        }
        for (ms, expected) in [
            (0.42, "0.4ms"),
            (9.96, "10ms"),
            (999.6, "1.0s"),
            (9951.0, "10s"),
            (119_000.0, "119s"),
            (125_000.0, "2m"),
        ] {
            assert_eq!(brief(Some(ms)), expected);
        }
        for (bytes, expected) in [
            (512, "512B"),
            (9_646_899, "9.1M"),
            (256 << 20, "256M"),
            (1 << 30, "1G"),
            (u64::MAX, "16777215T"),
        ] {
            assert_eq!(size(Some(bytes)), expected);
        }
        let since = |text: &str| since("--since", text, now);
        assert_eq!(since("1h").unwrap(), "2026-11-21T07:00:00Z");
        assert_eq!(since("2026-11-21T10:00:00+02:00").unwrap(), "2026-11-21T08:00:00Z");
        let local = DateTime::constant(2026, 11, 21, 9, 30, 0, 0)
            .to_zoned(TimeZone::system())
            .unwrap();
        assert_eq!(since("2026-11-21 09:30").unwrap(), local.timestamp().to_string());
        assert!(since("yesterday").is_ok());
    }

    #[test]
    fn a_mistake_names_its_option() {
        let failure = since("--until", "soon", Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(
            failure.message.starts_with("`--until soon` is no time: "),
            "{}",
            failure.message
        );
        let failure = span("--idle", "5").unwrap_err();
        assert!(
            failure.message.starts_with("`--idle 5`: expected a duration"),
            "{}",
            failure.message
        );
        assert_eq!(span("--idle", "5m").unwrap(), Duration::from_secs(300));
    }
}
