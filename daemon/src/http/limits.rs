//! Limits for the callers of every server; [`HttpLimits`] are those that each server chooses.

use std::time::Duration;

/// The limits of one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpLimits {
    /// Longest head of a request, bytes.
    pub(crate) head_bytes: usize,
    /// Most headers of a request.
    pub(crate) headers: usize,
    /// How long a whole head may take, from its first byte.
    pub(crate) head_time: Duration,
    /// How long a new connection may be silent: a client connects in order to send a request.
    pub(crate) silence: Duration,
    /// How long a connection may be idle after an answer.
    pub(crate) idle: Duration,
    /// If set, a connection serves one request, and ends after this time. Otherwise it serves requests as they come.
    pub(crate) single_request_time: Option<Duration>,
    /// How long requests may continue to be answered when the server stops; those that are left then get 503.
    pub(crate) stop_time: Duration,
    /// How long an idle connection may still bring a request when the server stops: its bytes may be on their way.
    pub(crate) last_request_time: Duration,
}

/// How long the last refusals may take to be sent when the server stops.
pub const LAST_WORDS: Duration = Duration::from_millis(250);

/// Most bytes to read from a connection at once.
pub const READ_MAX: usize = 64 * 1024;

/// Longest pause within a body, also before its first byte.
pub const BODY_GAP: Duration = Duration::from_secs(10);

/// How long a body may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// The whole body has a time, whatever its size.
    Within(Duration),
    /// The body has a time of its own at first, and then more with each byte that has come.
    AtLeast {
        /// The time at first.
        start: Duration,
        /// Bytes that give another second.
        bytes_per_second: u64,
    },
}

impl Pace {
    /// For local callers: on a Unix socket the largest body takes milliseconds.
    pub const LOCAL: Self = Self::Within(Duration::from_secs(60));
    /// For callers over a network: 8 KiB/s at least, after a start of 10 s.
    pub const REMOTE: Self = Self::AtLeast {
        start: Duration::from_secs(10),
        bytes_per_second: 8 << 10,
    };

    /// Returns how long a body may have taken when so many of its bytes have come.
    #[must_use]
    pub fn time(self, bytes: u64) -> Duration {
        match self {
            Self::Within(time) => time,
            Self::AtLeast {
                start,
                bytes_per_second,
            } => {
                let more = bytes.saturating_mul(1000) / bytes_per_second.max(1);
                start.saturating_add(Duration::from_millis(more))
            }
        }
    }
}

/// How much of an unwanted body is read before the refusal is sent, so that the client gets the refusal and not a
/// broken pipe. A client that sends more may get a broken pipe.
pub const DISCARD_MAX: u64 = 16 << 20;

/// How long a caller may take for the next [`WRITE_MIN`] bytes of an answer that fnd holds for it.
pub const WRITE_TIME: Duration = Duration::from_secs(30);

/// Bytes of an answer that a caller has to read within [`WRITE_TIME`], or the rest of the answer.
pub const WRITE_MIN: usize = 1 << 20;

/// Most lines in one chunk of a streamed answer.
pub const LINES_PER_CHUNK: usize = 64;

/// Longest silence of a followed log; then an empty line is sent, so that fnd notices a client that has left.
pub const FOLLOW_GAP: Duration = Duration::from_secs(30);
