//! Messages to standard error: one line each, escaped, and not too many of them.

use std::fmt::Arguments;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::Duration;

/// Lines a second; what is beyond is counted and the count told with the next line. A broken peer must not fill the journal.
const RATE: u32 = 50;

struct Window {
    since: Duration,
    lines: u32,
    dropped: u64,
}

static WINDOW: Mutex<Window> = Mutex::new(Window { since: Duration::ZERO, lines: 0, dropped: 0 });

/// Writes one line. Control characters are escaped, so that a file name can't forge a line.
pub fn line(message: Arguments<'_>) {
    let Ok(mut window) = WINDOW.lock() else { return };
    let now = crate::clock::now();
    if now.saturating_sub(window.since) >= Duration::from_secs(1) {
        (window.since, window.lines) = (now, 0);
    }
    window.lines += 1;
    if window.lines > RATE {
        window.dropped += 1;
        return;
    }
    let mut text = String::from("fnd-spawner: ");
    if window.dropped > 0 {
        text.push_str(&format!("({} messages dropped) ", window.dropped));
        window.dropped = 0;
    }
    for c in message.to_string().chars() {
        if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text.push('\n');
    let _ = std::io::stderr().write_all(text.as_bytes()); // nowhere else to say it
}

/// Logs a line, formatted like `format!`.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => { $crate::log::line(format_args!($($argument)*)) };
}

/// Says what failed, for people.
pub trait Failed<T> {
    /// Puts "failed to WHAT" before the error.
    ///
    /// # Errors
    /// The same, in words.
    fn failed(self, what: &str) -> Result<T, String>;
}

impl<T, E: std::fmt::Display> Failed<T> for Result<T, E> {
    fn failed(self, what: &str) -> Result<T, String> {
        self.map_err(|error| format!("failed to {what}: {error}"))
    }
}
