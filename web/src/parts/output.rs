//! Lines of a program's output. They are hostile: text only, and a line stays inside its own direction of writing.

use super::ansi::{Style, colored, plain};
use super::text;
use fnd_core::api::{LogLine, LogStream};
use maud::{Markup, html};

/// Lines of one part.
pub(crate) const PART: usize = 1000;

/// Returns lines, oldest first. Each stream has its colours, which last from one of its lines to the next.
pub(crate) fn lines<'a>(lines: impl IntoIterator<Item = &'a LogLine>) -> Markup {
    let mut styles = [Style::default(); LogStream::ALL.len()];
    html! {
        @for line in lines {
            (with_style(line, &mut styles[line.stream as usize]))
        }
    }
}

/// Returns one line that came alone.
pub(crate) fn line(line: &LogLine) -> Markup {
    with_style(line, &mut Style::default())
}

fn with_style(line: &LogLine, style: &mut Style) -> Markup {
    let stream = line.stream.as_str();
    html! {
        div class={ "line " (stream) } {
            time datetime=(line.time) { (line.time.get(11..23).unwrap_or(&line.time)) }
            span.stream { (stream) }
            span.said { (colored(&line.text, style)) }
        }
    }
}

/// Returns whether a line has a text of small letters, whatever its own case, as a person sees it.
pub(crate) fn has(line: &LogLine, wanted: &str) -> bool {
    plain(&line.text).to_lowercase().contains(wanted)
}

/// Returns a part of lines: those before the last `before` ones, and whether there are earlier ones.
pub(crate) fn part<T>(lines: &[T], before: usize) -> (&[T], bool) {
    let end = lines.len().saturating_sub(before);
    let start = end.saturating_sub(PART);
    (lines.get(start..end).unwrap_or_default(), start > 0)
}

/// Returns all lines as they were printed, for the link "Raw".
pub(crate) fn raw(lines: &[LogLine]) -> String {
    lines.iter().map(|line| format!("{}\n", line.text)).collect()
}

/// Returns what is known of a payload or a result.
pub(crate) fn body(body: &[u8], content_type: &str, raw: &str) -> Markup {
    /// Bytes that a page shows.
    const SHOWN: usize = 64 * 1024;
    let size = text::size(Some(body.len() as u64));
    let text = std::str::from_utf8(body).ok();
    html! {
        p { (size) @if !content_type.is_empty() { ", " (content_type) } ", " a href=(raw) download { "Raw" } }
        @match text {
            Some(text) => pre tabindex="0" { (text::cut(text, SHOWN)) },
            None => p.empty { "It is no text: save it with “Raw”." },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(stream: &str, text: &str) -> LogLine {
        serde_json::from_value(json!({
            "time": "2026-11-21T08:00:00.123Z", "function": "hello", "attempt": 1, "stream": stream, "text": text,
            "invocation": "01934567-89ab-7def-8123-456789abcdef",
        }))
        .unwrap()
    }

    #[test]
    fn a_line_says_when_and_where_it_came() {
        let expected = r#"<div class="line stderr"><time datetime="2026-11-21T08:00:00.123Z">08:00:00.123</time><span class="stream">stderr</span><span class="said">&lt;b&gt;</span></div>"#;
        assert_eq!(line(&said("stderr", "<b>")).into_string(), expected);
    }

    #[test]
    fn colours_last_in_their_own_stream() {
        let all = [said("stdout", "\x1b[31mred"), said("stderr", "x"), said("stdout", "y")];
        let html = lines(&all).into_string();
        assert_eq!(html.matches("f1").count(), 2, "{html}");
    }

    #[test]
    fn the_search_looks_at_what_is_seen() {
        let all = [said("stdout", "10%\rDO\x1b[1mNE"), said("stdout", "other")];
        assert!(has(&all[0], "done") && !has(&all[1], "done"));
        assert!(!has(&all[0], "10%"));
        assert_eq!(raw(&all), "10%\rDO\x1b[1mNE\nother\n");
    }

    #[test]
    fn parts_follow_each_other_from_the_end() {
        let all: Vec<usize> = (0..2500).collect();
        let part = |before| {
            let (part, earlier) = part(&all, before);
            (part.first().copied(), part.last().copied(), earlier)
        };
        assert_eq!(part(0), (Some(1500), Some(2499), true));
        assert_eq!(part(2000), (Some(0), Some(499), false));
        assert_eq!(part(9000), (None, None, false));
    }
}
