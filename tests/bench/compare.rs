//! `bench --compare BEFORE AFTER`: two histories of the same rows, measured in turns.
//!
//! A row that became more than 5 % worse is marked, unless the runs of one build differ as much from each other.

use crate::record::Record;

/// A change that is worth a mark.
const WORSE: f64 = 0.05;

/// One property of a row, in all runs of a build.
#[derive(Debug)]
struct Series {
    part: String,
    row: String,
    unit: String,
    values: Vec<f64>,
}

impl Series {
    fn is_same(&self, other: &Self) -> bool {
        (&self.part, &self.row, &self.unit) == (&other.part, &other.row, &other.unit)
    }

    fn median(&self) -> f64 {
        let mut values = self.values.clone();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    }

    /// Returns half the distance of the extremes, as a share of the median.
    fn noise(&self) -> f64 {
        let low = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.values.iter().copied().fold(0.0, f64::max);
        (high - low) / 2.0 / self.median()
    }
}

/// Returns the table of a comparison, and the number of rows that became worse.
pub(crate) fn compare(before: &[Record], after: &[Record]) -> (String, usize) {
    let (before, after) = (all_series(before), all_series(after));
    let line = |name: &str, cells: [String; 4], mark: &str| {
        let [was, is, change, noise] = cells;
        let line = format!("{name:<70} {was:>14} {is:>14} {change:>8} {noise:>7} {mark}");
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line("", ["before", "after", "change", "noise"].map(str::to_owned), "");
    let mut worse = 0;
    for was in &before {
        let Some(is) = after.iter().find(|series| series.is_same(was)) else {
            continue;
        };
        let change = is.median() / was.median() - 1.0;
        let noise = was.noise().max(is.noise());
        let loss = if was.unit == "/s" { -change } else { change };
        let is_worse = loss > WORSE && loss > noise;
        worse += usize::from(is_worse);
        let shown = |series: &Series| format!("{:.1} {}", series.median(), series.unit);
        let cells = [
            shown(was),
            shown(is),
            format!("{:+.1}%", change * 100.0),
            format!("{:.1}%", noise * 100.0),
        ];
        text += &line(
            &format!("{}: {}", was.part, was.row),
            cells,
            if is_worse { "worse" } else { "" },
        );
    }
    (text, worse)
}

/// Collects the runs of each row, in the order of the first run.
fn all_series(records: &[Record]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for record in records {
        let text = record.text.as_deref().and_then(number);
        let times = record.p50_us.map(|value| (value, "us"));
        let rate = record.per_second.map(|value| (value, "/s"));
        for (value, unit) in [times, rate, text].into_iter().flatten() {
            let one = Series {
                part: record.part.clone(),
                row: record.row.clone(),
                unit: unit.to_owned(),
                values: vec![value],
            };
            match all.iter_mut().find(|series| series.is_same(&one)) {
                Some(series) => series.values.push(value),
                None => all.push(one),
            }
        }
    }
    all
}

/// Returns the number that a text begins with, and the word behind it: `1.25 s`, `8700/s`.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(end);
    Some((number.parse().ok()?, rest.split_whitespace().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(p50: f64, rate: f64, text: &str) -> Vec<Record> {
        let record = |row: &str| Record {
            part: "handlers".to_owned(),
            row: row.to_owned(),
            ..Record::default()
        };
        vec![
            Record {
                p50_us: Some(p50),
                per_second: Some(rate),
                ..record("warm")
            },
            Record {
                text: Some(text.to_owned()),
                ..record("start")
            },
        ]
    }

    #[test]
    fn only_a_loss_beyond_the_noise_is_marked() {
        let before = [row(100.0, 1000.0, "2.0 s"), row(102.0, 1000.0, "2.0 s")].concat();
        let marked = |after: &[Vec<Record>]| compare(&before, &after.concat()).1;
        assert_eq!(marked(&[row(100.0, 1000.0, "2.0 s")]), 0);
        assert_eq!(marked(&[row(110.0, 900.0, "2.2 s")]), 3);
        // Better, and an unknown text.
        assert_eq!(marked(&[row(50.0, 2000.0, "not installed")]), 0);
        // The runs of the new build differ more than it lost.
        assert_eq!(
            marked(&[
                row(90.0, 1000.0, "2.0 s"),
                row(120.0, 1000.0, "2.0 s"),
                row(110.0, 1000.0, "2.0 s")
            ]),
            0
        );
        let (text, _) = compare(&before, &row(110.0, 1000.0, "1.9 s"));
        assert!(text.contains("handlers: warm") && text.contains("+7.8%"), "{text}");
    }

    #[test]
    fn texts_begin_with_a_number_and_its_unit() {
        assert_eq!(number("1.25 s"), Some((1.25, "s")));
        assert_eq!(number("8700/s 0.9x"), Some((8700.0, "/s")));
        assert_eq!(number("12 / 9 KiB"), Some((12.0, "/")));
        for text in ["webhook is not installed", "", "12", "1.2.3 s"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
