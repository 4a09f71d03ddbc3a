//! A message with its fields, owned, so that it can leave the thread that said it.

use std::fmt::{self, Write as _};
use tracing::Level;
use tracing::field::{Field, Visit};

/// One message.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) level: Level,
    /// Unix milliseconds.
    pub(super) time_ms: u64,
    /// What happened, in words; fields without a place of their own follow as ` name=value`.
    pub(super) message: String,
    /// Which event of [`events`](super::events).
    pub(super) event: Option<String>,
    pub(super) function: Option<String>,
    pub(super) invocation: Option<String>,
    pub(super) attempt: Option<u64>,
    /// How an attempt ended, and its span.
    pub(super) reason: Option<String>,
    pub(super) trace_id: Option<String>,
    pub(super) span_id: Option<String>,
    pub(super) parent_span_id: Option<String>,
    pub(super) duration_us: Option<u64>,
    /// Which of the function's streams.
    pub(super) stream: Option<String>,
    other: String,
}

impl Entry {
    pub(super) fn of(event: &tracing::Event<'_>, time_ms: u64) -> Self {
        let mut entry = Self::new(*event.metadata().level(), time_ms);
        event.record(&mut entry);
        let other = std::mem::take(&mut entry.other);
        entry.message.push_str(&other);
        entry
    }

    pub(super) fn new(level: Level, time_ms: u64) -> Self {
        let message = String::new();
        Self {
            level,
            time_ms,
            message,
            event: None,
            function: None,
            invocation: None,
            attempt: None,
            reason: None,
            trace_id: None,
            span_id: None,
            parent_span_id: None,
            duration_us: None,
            stream: None,
            other: String::new(),
        }
    }

    /// Roughly the memory it holds.
    pub(super) fn size(&self) -> usize {
        256 + self.message.len()
    }

    fn set(&mut self, name: &str, value: fmt::Arguments<'_>) {
        let place = match name {
            "message" => {
                let _ = self.message.write_fmt(value); // writing to a String cannot fail
                return;
            }
            "fnd_event" => &mut self.event,
            "fnd_function" => &mut self.function,
            "fnd_invocation" => &mut self.invocation,
            "fnd_reason" => &mut self.reason,
            "fnd_trace_id" => &mut self.trace_id,
            "fnd_span_id" => &mut self.span_id,
            "fnd_parent_span_id" => &mut self.parent_span_id,
            "fnd_stream" => &mut self.stream,
            _ => {
                let _ = write!(self.other, " {name}={value}"); // as above
                return;
            }
        };
        *place = Some(value.to_string());
    }
}

impl Visit for Entry {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field.name(), format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "fnd_attempt" => self.attempt = Some(value),
            "fnd_duration_us" => self.duration_us = Some(value),
            name => self.set(name, format_args!("{value}")),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut chain = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            let _ = write!(chain, ": {cause}"); // writing to a String cannot fail
            source = cause.source();
        }
        self.set(field.name(), format_args!("{chain}"));
    }
}
