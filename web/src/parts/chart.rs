//! Pictures of numbers, drawn on the server: bars of hours, and lines of the last runs. Each has a table for readers.

use super::text;
use fnd_wire::units::counted;
use maud::{Markup, html};
use std::fmt::Write as _;

/// Width and height of a picture in its own units; the style sheet sets its size.
const WIDE: f64 = 480.0;
const HIGH: f64 = 96.0;

/// An hour with its ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    pub(crate) start: String,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
}

/// Returns a bar for each hour: what succeeded, and above it what failed.
pub(crate) fn bars(bars: &[Bar], now: jiff::Timestamp) -> Markup {
    let most = bars
        .iter()
        .map(|bar| bar.succeeded + bar.failed)
        .max()
        .unwrap_or(0)
        .max(1);
    let step = WIDE / share(bars.len().max(1) as u64, 1);
    html! {
        svg.chart viewBox=(view_box()) role="img" aria-label="Runs of each hour; the table below has the numbers" preserveAspectRatio="none" {
            @for (place, bar) in bars.iter().enumerate() {
                @let x = step * share(place as u64, 1);
                @let (good, bad) = (height(bar.succeeded, most), height(bar.failed, most));
                g {
                    title { (label(bar)) }
                    @if bar.succeeded > 0 {
                        rect.good x=(tenth(x + 1.0)) y=(tenth(HIGH - good)) width=(tenth(step - 2.0)) height=(tenth(good)) {}
                    }
                    @if bar.failed > 0 {
                        rect.bad x=(tenth(x + 1.0)) y=(tenth(HIGH - good - bad)) width=(tenth(step - 2.0)) height=(tenth(bad)) {}
                    }
                }
            }
        }
        details {
            summary { "Numbers of each hour" }
            table {
                thead { tr { th scope="col" { "Hour" } th.number scope="col" { "Succeeded" } th.number scope="col" { "Failed" } } }
                tbody {
                    @for bar in bars {
                        tr {
                            th scope="row" { (text::time(&bar.start, now)) }
                            td.number { (text::number(bar.succeeded)) }
                            td.number { (text::number(bar.failed)) }
                        }
                    }
                }
            }
        }
    }
}

fn label(bar: &Bar) -> String {
    let hour = bar.start.get(11..16).unwrap_or(&bar.start);
    format!("{hour} UTC: {} succeeded, {} failed", bar.succeeded, bar.failed)
}

/// Returns how high a part of a bar is; whatever is there can be seen.
fn height(count: u64, most: u64) -> f64 {
    if count == 0 {
        0.0
    } else {
        (share(count, most) * HIGH).max(2.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a picture needs no exact numbers")]
fn share(count: u64, of: u64) -> f64 {
    count as f64 / of as f64
}

/// A run of a chart; values that are not known are left out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) id: String,
    pub(crate) at: String,
    pub(crate) duration_ms: Option<f64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) failed: bool,
}

/// Returns the durations and the memory of runs, oldest first.
pub(crate) fn lines(points: &[Point], now: jiff::Timestamp) -> Markup {
    let durations: Vec<_> = points.iter().map(|point| point.duration_ms).collect();
    let memory: Vec<_> = points
        .iter()
        .map(|point| point.memory_bytes.map(|bytes| share(bytes, 1)))
        .collect();
    html! {
        div.charts {
            (line("Duration", &durations, points, |most| text::duration(Some(most))))
            (line("Memory", &memory, points, bytes))
        }
        details {
            summary { "Numbers of these runs" }
            table {
                thead { tr {
                    th scope="col" { "Run" } th scope="col" { "Began" } th.number scope="col" { "Duration" } th.number scope="col" { "Memory" } th scope="col" { "End" }
                } }
                tbody {
                    @for point in points.iter().rev() {
                        tr {
                            th scope="row" { a href={ "/runs/" (point.id) } { (text::short(&point.id)) } }
                            td { (text::time(&point.at, now)) }
                            td.number { (text::or_dash(&text::duration(point.duration_ms))) }
                            td.number { (text::or_dash(&text::size(point.memory_bytes))) }
                            td { @if point.failed { "failed" } @else { "not failed" } }
                        }
                    }
                }
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was a size before"
)]
fn bytes(bytes: f64) -> String {
    text::size(Some(bytes as u64))
}

/// Returns one line, with a mark at each run that failed and the greatest value as a label.
fn line(name: &str, values: &[Option<f64>], points: &[Point], unit: impl Fn(f64) -> String) -> Markup {
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let places = places(values, most);
    let mut path = String::new();
    for (x, y) in places.iter().flatten() {
        let _ = write!(path, "{x:.1},{y:.1} "); // writing to a String cannot fail
    }
    // A single point would draw nothing.
    if let [Some((_, y))] = places.as_slice() {
        let _ = write!(path, "{WIDE:.1},{y:.1}");
    }
    html! {
        figure {
            figcaption { (name) @if most > 0.0 { ", at most " (unit(most)) } @else { ": not known" } }
            @if most > 0.0 {
                svg.chart viewBox=(view_box()) role="img" aria-label={ (name) " of the last runs; the table below has the numbers" } preserveAspectRatio="none" {
                    polyline.line points=(path.trim_end()) {}
                    @for (place, point) in places.iter().zip(points).filter(|(_, point)| point.failed) {
                        @if let Some((x, y)) = place {
                            rect.mark x=(tenth(x - 2.0)) y=(tenth(y - 3.0)) width="4" height="6" { title { (text::short(&point.id)) " failed" } }
                        }
                    }
                }
            }
        }
    }
}

/// Returns where each value is; nothing where there is none.
fn places(values: &[Option<f64>], most: f64) -> Vec<Option<(f64, f64)>> {
    let step = WIDE / share((values.len().max(2) - 1) as u64, 1);
    let place = |(place, value): (usize, &Option<f64>)| {
        let height = (*value)? / most.max(f64::MIN_POSITIVE) * (HIGH - 8.0);
        Some((step * share(place as u64, 1), HIGH - 4.0 - height))
    };
    values.iter().enumerate().map(place).collect()
}

/// Returns the next 24 hours as a line with marks where something runs. Minutes count from now, in their order; `is_part` says that
/// there are more.
pub(crate) fn day(minutes: &[(i64, &str)], is_part: bool, now: jiff::Timestamp) -> Markup {
    /// Minutes of one mark: a line of this width shows no more.
    const MARK: i64 = 5;
    let marks = minutes.chunk_by(|one, other| one.0 / MARK == other.0 / MARK);
    let place = |minute: i64| share(u64::try_from(minute).unwrap_or(0), 24 * 60) * WIDE;
    let name = format!(
        "{}{} in the next 24 hours; the table below has each schedule",
        if is_part { "At least " } else { "" },
        counted(minutes.len(), "run", "runs")
    );
    let hour = |hours: i64| {
        now.saturating_add(jiff::SignedDuration::from_hours(hours))
            .unwrap_or(now)
    };
    html! {
        svg.chart.day viewBox="0 0 480 24" role="img" aria-label=(name) preserveAspectRatio="none" {
            line.axis x1="0" y1="20" x2=(WIDE) y2="20" {}
            @for mark in marks {
                @if let [(minute, function), more @ ..] = mark {
                    rect.slot x=(tenth(place(*minute))) y="4" width="2" height="16" {
                        title { (function) ", in " (minute) " min" @if !more.is_empty() { ", and " (more.len()) " more" } }
                    }
                }
            }
        }
        p.scale {
            @for hours in [0, 6, 12, 18, 24] { (text::time(&hour(hours).to_string(), now)) " " }
        }
    }
}

fn view_box() -> String {
    format!("0 0 {WIDE} {HIGH}")
}

fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> jiff::Timestamp {
        "2026-11-21T08:00:00Z".parse().unwrap()
    }

    #[test]
    fn bars_have_their_numbers_as_text_too() {
        let bar = |succeeded, failed| Bar {
            start: "2026-11-21T07:00:00.000Z".to_owned(),
            succeeded,
            failed,
        };
        let html = bars(&[bar(0, 0), bar(9, 1)], now()).into_string();
        assert!(
            html.contains("<title>07:00 UTC: 9 succeeded, 1 failed</title>"),
            "{html}"
        );
        assert!(
            html.contains(r#"<rect class="good" x="241.0" y="9.6" width="238.0" height="86.4">"#),
            "{html}"
        );
        assert!(
            html.contains(r#"<td class="number">9</td><td class="number">1</td>"#),
            "{html}"
        );
        // One failure among a million can be seen.
        assert!(
            bars(&[bar(1_000_000, 1)], now())
                .into_string()
                .contains(r#"height="2.0""#)
        );
        assert!(bars(&[], now()).into_string().contains("<svg"));
    }

    #[test]
    fn the_line_of_a_day_reaches_its_end_however_much_runs() {
        let often: Vec<_> = (0..24 * 60).flat_map(|minute| [(minute, "a"), (minute, "b")]).collect();
        let html = day(&often, false, now()).into_string();
        assert!(html.contains("2880 runs in the next 24 hours"), "{html}");
        assert_eq!(html.matches("<rect").count(), 288);
        assert!(html.contains("a, in 1435 min, and 9 more"), "{html}");
        let one = day(&[(3, "a")], true, now()).into_string();
        assert!(
            one.contains("At least 1 run in") && one.contains("<title>a, in 3 min</title>"),
            "{one}"
        );
    }

    #[test]
    fn lines_leave_out_what_is_not_known() {
        let point = |duration_ms, failed| Point {
            id: "01934567-89ab-7def-8123-456789abcdef".to_owned(),
            at: "2026-11-21T07:00:00.000Z".to_owned(),
            duration_ms,
            memory_bytes: None,
            failed,
        };
        let points = [point(Some(10.0), false), point(None, false), point(Some(20.0), true)];
        let html = lines(&points, now()).into_string();
        assert!(html.contains(r#"points="0.0,48.0 480.0,4.0""#), "{html}");
        assert!(
            html.contains("Duration, at most 20 ms") && html.contains("Memory: not known"),
            "{html}"
        );
        assert_eq!(html.matches("<rect").count(), 1, "{html}");
        let one = lines(&[point(Some(10.0), false)], now()).into_string();
        assert!(one.contains(r#"points="0.0,4.0 480.0,4.0""#), "{one}");
        assert!(!lines(&[], now()).into_string().contains("NaN"));
    }
}
