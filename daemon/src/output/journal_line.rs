//! The message for a line of a function's output, where the journal gets them.

use super::AttemptOutput;
use super::log_store::{Line, Stream};
use crate::telemetry::escape;

/// Logs a line of a function's output.
pub(crate) fn output_line(meta: &AttemptOutput, line: &Line<'_>) {
    let text = line.text.strip_suffix(b"\r").unwrap_or(line.text);
    let text = String::from_utf8_lossy(text);
    let mark = if line.stream == Stream::Note { "-" } else { "|" };
    // Without an invocation: a warm worker printed it between calls.
    let invocation = (meta.invocation.0 != 0).then(|| tracing::field::display(meta.invocation));
    macro_rules! say {
        ($level:ident) => {
            tracing::$level!(
                fnd_event = "output",
                fnd_function = meta.function.as_str(),
                fnd_invocation = invocation,
                fnd_attempt = u64::from(meta.attempt.0),
                fnd_stream = line.stream.shown().as_str(),
                "{}  {mark} {}",
                meta.function,
                escape(&text)
            )
        };
    }
    // `Capture::say` has put the level in front of the line.
    let level = text.split(' ').next().filter(|_| line.stream == Stream::Log);
    match level {
        Some("error") => say!(error),
        Some("warning") => say!(warn),
        Some("debug") => say!(debug),
        _ => say!(info),
    }
}
