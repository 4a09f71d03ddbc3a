//! The events of a simulation: always as a hash, and also in words if the trace is to be printed.

use std::hash::{DefaultHasher, Hasher as _};
use std::time::Duration;

pub(super) struct WorldTrace {
    /// With fixed keys, unlike the hash of a table.
    hash: DefaultHasher,
    /// Whether lines are kept.
    in_words: bool,
    /// The beginning of the lines of this step.
    head: String,
    lines: Vec<String>,
}

impl WorldTrace {
    /// Returns an empty trace; `in_words`: with words.
    pub(super) fn new(in_words: bool) -> Self {
        Self {
            hash: DefaultHasher::new(),
            in_words,
            head: String::new(),
            lines: Vec::new(),
        }
    }

    /// Begins a step, at a time since the begin of the simulation and a time of the wall clock.
    pub(super) fn step(&mut self, number: u32, now: Duration, wall_ms: u64) {
        let now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        self.note([u64::from(number), now_us, wall_ms]);
        if self.in_words {
            let seconds = now.as_secs_f64();
            self.head = format!("step {number:<5} t={seconds:<9.3} wall {}  ", time_of_day(wall_ms));
        }
    }

    /// Adds an event to the hash.
    pub(super) fn note(&mut self, numbers: [u64; 3]) {
        numbers.into_iter().for_each(|number| self.hash.write_u64(number));
    }

    /// Adds a line in words.
    pub(super) fn say(&mut self, words: impl FnOnce() -> String) {
        if self.in_words {
            self.lines.push(format!("{}{}", self.head, words()));
        }
    }

    /// Returns a hash of all events.
    pub(super) fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// Takes the lines of another trace, each with the name of its machine.
    pub(super) fn adopt(&mut self, name: &str, other: &mut Self) {
        let lines = std::mem::take(&mut other.lines).into_iter();
        self.lines.extend(lines.map(|line| format!("{name} {line}")));
    }

    /// Returns all lines, oldest first.
    pub(super) fn lines(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.lines.iter().map(String::as_str)
    }
}

/// Returns the time of the day in UTC.
fn time_of_day(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3600 % 24);
    format!("{hours:02}:{minutes:02}:{:02}.{ms:03}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_a_line_for_each_event_only_if_somebody_reads_it() {
        for in_words in [false, true] {
            let mut trace = WorldTrace::new(in_words);
            trace.step(412, Duration::from_millis(63_204), 1_795_428_063_204);
            trace.say(|| "fnd 3 is killed".to_owned());
            let lines: Vec<&str> = trace.lines().collect();
            let expected = ["step 412   t=63.204    wall 10:01:03.204  fnd 3 is killed"];
            assert_eq!(lines, if in_words { &expected[..] } else { &[] });
        }
    }

    #[test]
    fn equal_events_have_an_equal_hash() {
        let hash = |numbers: &[[u64; 3]]| {
            let mut trace = WorldTrace::new(false);
            numbers.iter().for_each(|numbers| trace.note(*numbers));
            trace.hash()
        };
        assert_eq!(hash(&[[1, 2, 3], [4, 5, 6]]), hash(&[[1, 2, 3], [4, 5, 6]]));
        assert_ne!(hash(&[[1, 2, 3], [4, 5, 6]]), hash(&[[4, 5, 6], [1, 2, 3]]));
    }
}
