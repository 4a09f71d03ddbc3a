//! Everything a peer of the control socket can use up, and how much of it there is.

use std::time::Duration;

/// Longest request head, bytes: nothing the API knows comes near it but `Fnd-Context`.
pub const HEAD_MAX: usize = 16 * 1024;

/// Most bytes that are read of a connection at once.
pub const READ_MAX: usize = 64 * 1024;

/// Most headers of a request.
pub const HEADERS_MAX: usize = 100;

/// How long a connection may take to send a whole head, counted from its start or the end of the answer before: so also
/// how long an idle connection is kept.
pub const HEAD_TIME: Duration = Duration::from_secs(30);

/// Largest body of a request that is not for a function, bytes. The `limits.body` of functions may be larger.
pub const BODY_MAX: u64 = 6 << 20;

/// Longest silence within a body, also before its first byte.
pub const BODY_GAP: Duration = Duration::from_secs(10);

/// Longest time for a whole body. On a Unix socket the largest takes milliseconds.
pub const BODY_TIME: Duration = Duration::from_secs(60);

/// How much of a body that nobody wants is read before the refusal is sent, so that the client reads that instead of a
/// broken pipe. A larger one may see the latter.
pub const DISCARD_MAX: u64 = 16 << 20;

/// How long a connection may be silent from its start. A client connects to ask something.
pub const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How long a caller may take for the next [`WRITE_MIN`] bytes of an answer that fnd holds for it.
pub const WRITE_TIME: Duration = Duration::from_secs(30);

/// Bytes of an answer that a caller has to read within [`WRITE_TIME`], or all that is left of it.
pub const WRITE_MIN: usize = 1 << 20;

/// Connections open at once. At the limit one that is idle makes room, then one that only follows; where every one waits
/// for an answer the new one is refused.
pub const CONNECTIONS_MAX: usize = 1000;

/// Connections that one user may have open, unless it is root.
pub const CONNECTIONS_OF_ONE: usize = CONNECTIONS_MAX / 2;

/// Connections that only root may have: enough to find out what is wrong and to end it.
pub const CONNECTIONS_FOR_ROOT: usize = 8;

/// How long requests that are being answered may go on when the server stops.
pub const STOP_TIME: Duration = Duration::from_secs(1);

/// Longest `wait` of a request for an invocation's end.
pub const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Longest `Idempotency-Key`, bytes.
pub const KEY_MAX: usize = 255;

/// Invocations in a page where the request does not say, and at most.
pub const PAGE: (u32, u32) = (100, 1000);

/// Kept lines of output where the request does not say, and at most.
pub const LINES: (u32, u32) = (1000, 100_000);

/// Most events of a stream that a request can limit what is kept to.
pub const EVENTS_MAX: u32 = 100_000;

/// Lines put into one chunk of a streamed answer, if as many are there.
pub const LINES_PER_CHUNK: usize = 64;

/// Longest silence of a followed log; then an empty line is sent, which is how the end of the client is noticed.
pub const FOLLOW_GAP: Duration = Duration::from_secs(30);
