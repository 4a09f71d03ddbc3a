//! The one table.

use crate::load::Load;
use std::fmt;
use std::time::Duration;

/// Rows of measurements.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<[String; 5]>,
}

/// Times of one thing, sorted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Returns them in order.
    #[must_use]
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Returns the time below which this share of a hundred lies; zero without any.
    #[must_use]
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let index = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(index).copied().unwrap_or_default()
    }
}

impl Table {
    /// Returns an empty one.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds times, with their ratio to a floor (itself, where it is the floor).
    pub(crate) fn times(&mut self, what: &str, times: &Times, floor: &Times) {
        let ratio = |percent| times.percentile(percent).as_secs_f64() / floor.percentile(percent).as_secs_f64();
        let note = if times.0 == floor.0 {
            "floor".to_owned()
        } else {
            format!("{:.2}x / {:.2}x", ratio(50), ratio(99))
        };
        self.rows.push([
            what.to_owned(),
            millis(times.percentile(50)),
            millis(times.percentile(99)),
            note,
            String::new(),
        ]);
    }

    /// Adds what callers at once saw: times as above, and calls a second with their ratio to the floor's.
    pub(crate) fn load(&mut self, what: &str, load: &Load, floor: &Load) {
        self.times(what, &load.times, &floor.times);
        let rate = format!("{:.0}/s {:.2}x", load.per_second, load.per_second / floor.per_second);
        if let Some([.., value]) = self.rows.last_mut() {
            *value = rate;
        }
    }

    /// Adds a plain value.
    pub(crate) fn value(&mut self, what: &str, value: String) {
        self.rows
            .push([what.to_owned(), String::new(), String::new(), String::new(), value]);
    }
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<55} {:>10} {:>10} {:>16} {:>14}",
            "", "p50", "p99", "to floor p50/p99", ""
        )?;
        for [what, p50, p99, ratio, value] in &self.rows {
            writeln!(
                f,
                "{}",
                format!("{what:<55} {p50:>10} {p99:>10} {ratio:>16} {value:>14}").trim_end()
            )?;
        }
        Ok(())
    }
}
