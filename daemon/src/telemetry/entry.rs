//! A message with its fields. It owns them, so that it can leave the thread that logged it.

use std::fmt::{self, Write as _};
use std::ops::Range;
use tracing::Level;
use tracing::field::{Field, Visit};

/// Fields that journald gets as fields of their own: the event as `report::journal` names it, its function, invocation
/// and attempt, the attempt's end and span, the function's stream; and the parts of an entry
/// of the audit.
const FIELDS: [&str; 16] = [
    "fnd_event",
    "fnd_function",
    "fnd_invocation",
    "fnd_attempt",
    "fnd_reason",
    "fnd_trace_id",
    "fnd_span_id",
    "fnd_parent_span_id",
    "fnd_duration_us",
    "fnd_stream",
    "fnd_audit",
    "fnd_verb",
    "fnd_uid",
    "fnd_user",
    "fnd_pid",
    "fnd_status",
];

/// Room for the field values at an attempt's end.
const VALUES: usize = 192;

#[derive(Debug)]
pub(super) struct LogEntry {
    pub(super) level: Level,
    /// Unix milliseconds.
    pub(super) time_ms: u64,
    /// The text; fields that are not in [`FIELDS`] follow as ` name=value`.
    pub(super) message: String,
    /// Values of [`FIELDS`], one after the other: a string for each would cost a warm call more than the rest of its
    /// message.
    values: String,
    places: [Option<Range<usize>>; FIELDS.len()],
    other: String,
}

impl LogEntry {
    pub(super) fn of(event: &tracing::Event<'_>, time_ms: u64) -> Self {
        let mut entry = Self::new(*event.metadata().level(), time_ms);
        entry.values.reserve(VALUES);
        event.record(&mut entry);
        let other = std::mem::take(&mut entry.other);
        entry.message.push_str(&other);
        entry
    }

    pub(super) fn new(level: Level, time_ms: u64) -> Self {
        Self {
            level,
            time_ms,
            message: String::new(),
            values: String::new(),
            places: [const { None }; FIELDS.len()],
            other: String::new(),
        }
    }

    /// Returns the value of one of [`FIELDS`], if the message has it.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let place = FIELDS.iter().position(|field| *field == name)?;
        self.values.get(self.places.get(place)?.clone()?)
    }

    /// Returns about how many bytes of memory it holds.
    pub(super) fn size(&self) -> usize {
        512 + self.message.len()
    }

    fn set(&mut self, name: &str, write: impl FnOnce(&mut String)) {
        if name == "message" {
            return write(&mut self.message);
        }
        let place = FIELDS.iter().position(|field| *field == name);
        match place.and_then(|place| self.places.get_mut(place)) {
            Some(place) => {
                let begin = self.values.len();
                write(&mut self.values);
                *place = Some(begin..self.values.len());
            }
            None => {
                self.other.extend([" ", name, "="]);
                write(&mut self.other);
            }
        }
    }
}

impl Visit for LogEntry {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field.name(), |to| {
            let _ = write!(to, "{value:?}"); // writing to a String cannot fail
        });
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), |to| to.push_str(&value.to_string()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), |to| to.push_str(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.set(field.name(), |to| to.push_str(&crate::chain(value)));
    }
}
