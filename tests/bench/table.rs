//! The one table, and the times in it.

use crate::load::{Load, Rates};
use crate::record::{Record, Recorder};
use std::fmt;
use std::time::Duration;

/// Number of short rounds that the times of one thing are cut into. The median of the rounds' medians is what counts: a
/// disturbance of the machine spoils one round, and the spread of the rounds shows it.
pub(crate) const ROUNDS: usize = 5;

/// The rows of the measurements so far.
#[derive(Debug, Default)]
pub(crate) struct Table {
    part: String,
    recorder: Recorder,
    lines: Vec<String>,
}

/// Times of one thing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    /// All of them, sorted.
    sorted: Vec<Duration>,
    /// The median of each round, sorted.
    medians: Vec<Duration>,
}

impl Times {
    /// Returns times, which are in the order of the measurement.
    #[must_use]
    pub(crate) fn new(times: Vec<Duration>) -> Self {
        let mut medians: Vec<Duration> = times
            .chunks(times.len().div_ceil(ROUNDS).max(1))
            .map(|round| percentile(&in_order(round.to_vec()), 50))
            .collect();
        medians.sort_unstable();
        Self {
            sorted: in_order(times),
            medians,
        }
    }

    /// Returns how many there are.
    #[must_use]
    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the time below which this share of a hundred lies; zero without any.
    #[must_use]
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        percentile(&self.sorted, percent)
    }

    /// Returns the median of the rounds' medians.
    #[must_use]
    pub(crate) fn median(&self) -> Duration {
        percentile(&self.medians, 50)
    }

    /// Returns the smallest and the largest median of a round.
    #[must_use]
    pub(crate) fn extremes(&self) -> (Duration, Duration) {
        let [first, last] = [self.medians.first(), self.medians.last()].map(|end| end.copied().unwrap_or_default());
        (first, last)
    }
}

fn in_order(mut times: Vec<Duration>) -> Vec<Duration> {
    times.sort_unstable();
    times
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default()
}

impl Table {
    /// Returns an empty one, whose rows are also recorded.
    #[must_use]
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self {
            recorder,
            ..Self::default()
        }
    }

    /// Names the part that the next rows belong to.
    pub(crate) fn begin(&mut self, part: &str) {
        part.clone_into(&mut self.part);
        self.lines.push(format!("\n{part}"));
    }

    /// Adds times, with their ratio to a floor (itself, where it is the floor).
    pub(crate) fn times(&mut self, what: &str, times: &Times, floor: &Times) {
        self.row(what, times, floor, None);
    }

    /// Adds what callers at once saw: times as above, and calls a second with their ratio to the floor's.
    pub(crate) fn load(&mut self, what: &str, load: &Load, floor: &Load) {
        let ratio = load.rates.median() / floor.rates.median();
        self.row(what, &load.times, &floor.times, Some((&load.rates, ratio)));
    }

    /// Adds a plain value.
    pub(crate) fn value(&mut self, what: &str, value: String) {
        self.lines.push(format!("{what:<55} {value:>58}"));
        let record = Record {
            text: Some(value),
            ..self.record(what)
        };
        self.recorder.add(&record);
    }

    fn row(&mut self, what: &str, times: &Times, floor: &Times, rates: Option<(&Rates, f64)>) {
        let ratio = |of: fn(&Times) -> Duration| of(times).as_secs_f64() / of(floor).as_secs_f64();
        let note = if times.sorted == floor.sorted {
            "floor".to_owned()
        } else {
            format!(
                "{:.2}x / {:.2}x",
                ratio(Times::median),
                ratio(|times| times.percentile(99))
            )
        };
        let (low, high) = times.extremes();
        let [p50, low, high, p99] =
            [times.median(), low, high, times.percentile(99)].map(|time| time.as_secs_f64() * 1e6);
        let rate = rates.map_or_else(String::new, |(rates, ratio)| {
            format!("{:.0}/s {} {ratio:.2}x", rates.median(), spread(rates.extremes()))
        });
        let line = format!(
            "{what:<55} {:>10} {:>6} {:>10} {note:>16} {rate:>21}",
            millis(p50),
            spread((low, high)),
            millis(p99)
        );
        self.lines.push(line.trim_end().to_owned());
        let record = Record {
            p50_us: Some(p50),
            p50_extremes_us: Some((low, high)),
            p99_us: Some(p99),
            per_second: rates.map(|(rates, _)| rates.median()),
            per_second_extremes: rates.map(|(rates, _)| rates.extremes()),
            ..self.record(what)
        };
        self.recorder.add(&record);
    }

    fn record(&self, what: &str) -> Record {
        Record {
            part: self.part.clone(),
            row: what.to_owned(),
            ..Record::default()
        }
    }
}

/// Returns how far values lie from their middle, in percent of it.
fn spread((low, high): (f64, f64)) -> String {
    let middle = f64::midpoint(low, high);
    if middle > 0.0 {
        format!("±{:.0}%", (high - low) / 2.0 / middle * 100.0)
    } else {
        String::new()
    }
}

fn millis(micros: f64) -> String {
    format!("{:.3} ms", micros / 1000.0)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<55} {:>10} {:>6} {:>10} {:>16} {:>21}",
            "", "p50", "", "p99", "to floor p50/p99", "calls a second"
        )?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disturbed_round_changes_the_spread_and_not_the_median() {
        let quiet = vec![Duration::from_micros(10); 40];
        let disturbed = [quiet, vec![Duration::from_micros(90); 10]].concat();
        let times = Times::new(disturbed);
        assert_eq!(times.median(), Duration::from_micros(10));
        assert_eq!(times.extremes(), (Duration::from_micros(10), Duration::from_micros(90)));
        assert_eq!(times.percentile(99), Duration::from_micros(90));
        assert_eq!(Times::new(Vec::new()).median(), Duration::ZERO);
    }
}
