//! All limits for the clients of the control socket.

use std::time::Duration;

/// Longest request head, bytes: except for `Fnd-Context`, no header of the API comes near it.
pub const HEAD_MAX: usize = 16 * 1024;

/// Most bytes to read from a connection at once.
pub const READ_MAX: usize = 64 * 1024;

/// Most headers of a request.
pub const HEADERS_MAX: usize = 100;

/// How long a connection may take to send a whole head, from its start or from the end of the previous answer. So it is
/// also how long an idle connection is kept.
pub const HEAD_TIME: Duration = Duration::from_secs(30);

/// Largest body of a request that is not for a function, bytes. The `limits.body` of functions may be larger.
pub const BODY_MAX: u64 = 6 << 20;

/// Longest pause within a body, also before its first byte.
pub const BODY_GAP: Duration = Duration::from_secs(10);

/// Longest time for a whole body. On a Unix socket the largest body takes milliseconds.
pub const BODY_TIME: Duration = Duration::from_secs(60);

/// How much of an unwanted body is read before the refusal is sent, so that the client gets the refusal and not a
/// broken pipe. A client that sends more may get a broken pipe.
pub const DISCARD_MAX: u64 = 16 << 20;

/// How long a new connection may be silent: a client connects in order to send a request.
pub const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How long a caller may take for the next [`WRITE_MIN`] bytes of an answer that fnd holds for it.
pub const WRITE_TIME: Duration = Duration::from_secs(30);

/// Bytes of an answer that a caller has to read within [`WRITE_TIME`], or the rest of the answer.
pub const WRITE_MIN: usize = 1 << 20;

/// Most open connections. At the limit an idle connection is closed, then one that only follows; if all wait for an
/// answer, the new one is refused.
pub const CONNECTIONS_MAX: usize = 1000;

/// Connections that one user may have open, unless it is root.
pub const CONNECTIONS_OF_ONE: usize = CONNECTIONS_MAX / 2;

/// Connections that are reserved for root: enough to find a problem and to end it.
pub const CONNECTIONS_FOR_ROOT: usize = 8;

/// How long requests may continue to be answered when the server stops.
pub const STOP_TIME: Duration = Duration::from_secs(1);

/// Longest `wait` for an invocation's end.
pub const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Longest `Idempotency-Key`, bytes.
pub const KEY_MAX: usize = 255;

/// Invocations in a page: the default, and the most.
pub const PAGE: (u32, u32) = (100, 1000);

/// Kept lines of output: the default, and the most.
pub const LINES: (u32, u32) = (1000, 100_000);

/// Greatest `limit` for the kept events of a stream.
pub const EVENTS_MAX: u32 = 100_000;

/// Most lines in one chunk of a streamed answer.
pub const LINES_PER_CHUNK: usize = 64;

/// Longest silence of a followed log; then an empty line is sent, so that fnd notices a client that has left.
pub const FOLLOW_GAP: Duration = Duration::from_secs(30);
