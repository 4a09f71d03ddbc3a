//! The output of a run, which fnd gives in parts if it is long.

use super::LINES_MAX;
use crate::api::{Api, Failure};
use crate::http::Request;
use crate::parts::filters::instant;
use crate::parts::output;
use crate::parts::text::unix_ms;
use fnd_client::client::encode;
use fnd_core::api::{LogLine, LogList};
use fnd_wire::ids::InvocationId;
use jiff::Timestamp;

/// Lines of the output of a run, oldest first.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) all: Vec<LogLine>,
    /// The instant before which fnd may keep more lines; absent if there are none.
    pub(super) earlier: Option<Timestamp>,
}

impl Lines {
    /// Takes lines that fnd gave. If they are as many as it gives at once, those of the oldest instant may not be all of that
    /// instant, so they are left to the part before.
    fn of(mut all: Vec<LogLine>) -> Self {
        let earlier = end_of_earlier(&all);
        if let Some(end) = earlier.map(Timestamp::as_millisecond) {
            all.retain(|line| unix_ms(&line.time).is_none_or(|time| time >= end));
        }
        Self { all, earlier }
    }
}

/// Returns the instant before which fnd may keep more lines; nothing if it gave fewer than it gives at once. Lines come as they were
/// stored, so the first is not the oldest if the clock was set back: from its instant on, fnd would give the same lines for ever.
fn end_of_earlier(lines: &[LogLine]) -> Option<Timestamp> {
    if lines.len() < LINES_MAX {
        return None;
    }
    let times = || lines.iter().filter_map(|line| unix_ms(&line.time));
    let (oldest, newest) = (times().min()?, times().max()?);
    // The API has milliseconds, and excludes the instant before which it is asked. More lines of one instant than fnd gives at
    // once cannot be had.
    let end = if oldest == newest {
        oldest
    } else {
        oldest.saturating_add(1)
    };
    Timestamp::from_millisecond(end).ok()
}

/// Returns the newest lines before the instant of the address; with a search, those that have its text.
///
/// # Errors
/// The instant is none, or fnd refuses or does not answer.
pub(super) async fn read(request: &Request, api: &Api, id: InvocationId, before: usize) -> Result<Lines, Failure> {
    let until = instant(request, "until")?;
    match request.query("q") {
        Some(wanted) => search(api, id, wanted, until).await,
        None => part(api, id, before.saturating_add(output::PART + 1), until.as_deref()).await,
    }
}

/// Looks through all lines, until so many have the text as fnd gives at once.
async fn search(api: &Api, id: InvocationId, wanted: &str, mut until: Option<String>) -> Result<Lines, Failure> {
    let wanted = wanted.to_lowercase();
    let mut found: Vec<LogLine> = Vec::new();
    loop {
        let read = part(api, id, LINES_MAX, until.as_deref()).await?;
        let mut older: Vec<LogLine> = read.all.into_iter().filter(|line| output::has(line, &wanted)).collect();
        older.append(&mut found);
        found = older;
        let earlier = read.earlier.map(|earlier| earlier.to_string());
        // Lines of fnd about damaged output come whatever the instant, so a part may end where it began.
        if earlier.is_none() || earlier == until || found.len() >= LINES_MAX {
            return Ok(Lines {
                all: found,
                earlier: read.earlier,
            });
        }
        until = earlier;
    }
}

/// Returns the newest lines before an instant, at most so many as fnd gives at once.
async fn part(api: &Api, id: InvocationId, most: usize, until: Option<&str>) -> Result<Lines, Failure> {
    Ok(Lines::of(lines(api, id, most, until).await?))
}

async fn lines(api: &Api, id: InvocationId, most: usize, until: Option<&str>) -> Result<Vec<LogLine>, Failure> {
    let until = until
        .map(|until| format!("&until={}", encode(until)))
        .unwrap_or_default();
    let limit = most.min(LINES_MAX);
    let path = format!("/v1/invocations/{id}/logs?limit={limit}{until}");
    Ok(api.get::<LogList>(&path).await?.lines)
}

/// Returns the output as it was printed. The last line says if this may not be all of it.
///
/// # Errors
/// fnd refuses or does not answer.
pub(super) async fn raw(api: &Api, id: InvocationId) -> Result<String, Failure> {
    let newest = lines(api, id, LINES_MAX, None).await?;
    let mut text = output::raw(&newest);
    text.extend(note(&newest, id));
    Ok(text)
}

/// Returns the last line of an output that may not be all of it.
fn note(newest: &[LogLine], id: InvocationId) -> Option<String> {
    let until = end_of_earlier(newest)?;
    let shown = newest.len();
    Some(format!(
        "--- These are the newest {shown} lines. Lines before these, if there are any: \
         fndctl logs --id {id} -n {LINES_MAX} --until {until}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(second: u8) -> LogLine {
        serde_json::from_value(json!({
            "time": format!("2026-11-21T08:00:{second:02}.123Z"), "function": "web/a", "attempt": 1, "stream": "stdout",
            "text": "x", "invocation": "01934567-89ab-7def-8123-456789abcdef",
        }))
        .unwrap()
    }

    /// Returns as many lines as fnd gives at once; the first ones are of an earlier second.
    fn full(first: usize) -> Vec<LogLine> {
        let mut lines = vec![line(1); first];
        lines.resize(LINES_MAX, line(2));
        lines
    }

    #[test]
    fn the_part_before_has_all_lines_of_an_instant() {
        let of = |lines| {
            let Lines { all, earlier } = Lines::of(lines);
            (all.len(), earlier.map(|earlier| earlier.to_string()))
        };
        let instant = |text: &str| Some(text.to_owned());
        assert_eq!(of(Vec::new()), (0, None));
        assert_eq!(of(vec![line(1); LINES_MAX - 1]), (LINES_MAX - 1, None));
        assert_eq!(of(full(3)), (LINES_MAX - 3, instant("2026-11-21T08:00:01.124Z")));
        let set_back = [vec![line(2); 3], vec![line(1); LINES_MAX - 3]].concat();
        assert_eq!(of(set_back), (3, instant("2026-11-21T08:00:01.124Z")));
        // Otherwise the parts would never end.
        assert_eq!(of(full(LINES_MAX)), (LINES_MAX, instant("2026-11-21T08:00:01.123Z")));
    }

    #[test]
    fn raw_output_that_is_not_all_of_it_says_so() {
        let many = full(1);
        let id = many[0].invocation;
        let last = "--- These are the newest 100000 lines. Lines before these, if there are any: fndctl logs --id \
                    01934567-89ab-7def-8123-456789abcdef -n 100000 --until 2026-11-21T08:00:01.124Z\n";
        assert_eq!(note(&many, id).as_deref(), Some(last));
        assert_eq!(note(&many[1..], id), None);
    }
}
