//! The destination of fnd's own messages: the journal where fnd is a service, standard error otherwise. fnd waits for
//! neither.
//!
//! ```text
//! tracing event -> entry (owned) -> bounded channel -> thread -> tracing-journald, or text on standard error
//!                                     | full: dropped, counted, reported when there is room again
//! ```
//! `report::journal` has the words for each event, so that they and the fields `FND_FUNCTION`, `FND_INVOCATION`,
//! `FND_ATTEMPT` are the same everywhere. `output::sinks` does the same for the output of functions.
//!
//! Files:
//! - `entry`: a message with its fields
//! - `level`: the filter of fnd's messages, which can be changed while fnd runs
//! - `sink`: the thread that writes messages, and the bounded channel to it
//! - `text`: messages as text for people

mod entry;
pub mod level;
mod sink;
mod text;

pub use sink::{Guard, LogTarget};
pub use text::{escape, plain_duration};

use fnd_manifest::diagnostic::Colour;
use std::io::{self, IsTerminal as _};
use std::os::linux::fs::MetadataExt as _;
use std::path::Path;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;

/// journald's socket for native messages (systemd.io/JOURNAL_NATIVE_PROTOCOL).
const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";

/// Telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not valid.
    #[error("{0}")]
    Filter(String),
    /// The thread could not be started.
    #[error("failed to start the log thread")]
    Thread(#[source] io::Error),
    /// Logging was set up before.
    #[error("logging is set up already")]
    Twice,
}

/// Sets up logging for the process, with a `filter` as in `FND_LOG` (absent: `info`). Messages are written until the
/// guard is dropped.
///
/// # Errors
/// [`TelemetryError`].
pub fn start(filter: Option<&str>, target: LogTarget) -> Result<Guard, TelemetryError> {
    let text = filter.unwrap_or("info");
    let filter = level::changeable(text, level::parse(text).map_err(TelemetryError::Filter)?);
    let (layer, guard) = sink::start(target).map_err(TelemetryError::Thread)?;
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter));
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::Twice)?;
    Ok(guard)
}

/// Returns whether standard error shows colours: it is a terminal, and `NO_COLOR` is not set or empty (no-color.org).
#[must_use]
pub fn colour() -> Colour {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stderr().is_terminal() && !is_plain {
        Colour::Ansi
    } else {
        Colour::Plain
    }
}

/// Returns the destination of messages: the journal if standard error is connected to it, else standard error, with
/// time and colours where it is a terminal. `journal_stream` is `JOURNAL_STREAM` (systemd.exec(5)).
#[must_use]
pub fn target(journal_stream: Option<&str>) -> LogTarget {
    let stderr = std::fs::metadata("/proc/self/fd/2").ok();
    // A stale variable of a parent service must not hide messages: device and inode must be those of standard error.
    let connected = stderr.is_some_and(|file| journal_stream == Some(&format!("{}:{}", file.st_dev(), file.st_ino())));
    if connected && Path::new(JOURNAL_SOCKET).exists() {
        return LogTarget::Journal;
    }
    LogTarget::Stderr {
        time: io::stderr().is_terminal(),
        color: colour() == Colour::Ansi,
    }
}
