//! Limits for the callers of every server; [`Limits`] are those that each server chooses.

use std::time::Duration;

/// The limits of one server.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Longest head of a request, bytes.
    pub(crate) head_bytes: usize,
    /// Most headers of a request.
    pub(crate) headers: usize,
    /// How long a connection may take to send a whole head, from its start or from the end of the previous answer. So
    /// it is also how long an idle connection is kept.
    pub(crate) head_time: Duration,
    /// How long a new connection may be silent: a client connects in order to send a request.
    pub(crate) silence: Duration,
    /// If set, a connection serves one request, and ends after this time. Otherwise it serves requests as they come.
    pub(crate) single_request_time: Option<Duration>,
    /// How long requests may continue to be answered when the server stops.
    pub(crate) stop_time: Duration,
}

/// Most bytes to read from a connection at once.
pub const READ_MAX: usize = 64 * 1024;

/// Longest pause within a body, also before its first byte.
pub const BODY_GAP: Duration = Duration::from_secs(10);

/// Longest time for a whole body. On a Unix socket the largest body takes milliseconds.
pub const BODY_TIME: Duration = Duration::from_secs(60);

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
