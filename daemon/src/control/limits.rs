//! Everything a peer of the control socket can use up, and how much of it there is.

use std::time::Duration;

/// Longest request head, bytes: nothing the API knows comes near it but `Fnd-Context`.
pub const HEAD_MAX: usize = 16 * 1024;

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

/// Connections open at once. At the limit the one that is idle for longest makes room; where none is idle the new one
/// is refused.
pub const CONNECTIONS_MAX: usize = 1000;

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
