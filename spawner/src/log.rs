//! Writes messages to standard error, one escaped line each. The systemd unit limits how many a second the journal
//! keeps.

use std::io::Write as _;

/// Writes one line. Control characters are escaped, so that a file name can't forge a line.
pub fn line(message: std::fmt::Arguments<'_>) {
    let mut text = String::from("fnd-spawner: ");
    for c in message.to_string().chars() {
        if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text.push('\n');
    let _ = std::io::stderr().write_all(text.as_bytes()); // there is no other place to report to
}

/// Logs a line, formatted like `format!`.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => { $crate::log::line(format_args!($($argument)*)) };
}

/// Adds the name of the failed step to an error.
pub trait Failed<T> {
    /// Puts "failed to WHAT" before the error.
    ///
    /// # Errors
    /// The same error, as text.
    fn failed(self, what: &str) -> Result<T, String>;
}

impl<T, E: std::fmt::Display> Failed<T> for Result<T, E> {
    fn failed(self, what: &str) -> Result<T, String> {
        self.map_err(|error| format!("failed to {what}: {error}"))
    }
}
