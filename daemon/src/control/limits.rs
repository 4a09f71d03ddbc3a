//! The limits of the control socket; `http/limits.rs` has those of every server.

use crate::http::connections::SocketPlaces;
use crate::http::limits::HttpLimits;
use std::time::Duration;

/// How long a whole head may take, and how long an idle connection is kept.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(30);

/// How long a new connection may be silent: a client connects in order to send a request.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How long requests may continue to be answered when the server stops.
pub(crate) const STOP_TIME: Duration = Duration::from_secs(1);

pub(super) const LIMITS: HttpLimits = HttpLimits {
    // Except for `Fnd-Context`, no header of the API comes near this.
    head_bytes: 16 * 1024,
    headers: 100,
    head_time: HEAD_TIME,
    silence: SILENCE_MAX,
    idle: HEAD_TIME,
    single_request_time: None,
    stop_time: STOP_TIME,
    last_request_time: Duration::ZERO,
};

/// Most open connections. At the limit an idle connection is closed, then one that only follows; if all wait for an
/// answer, the new one is refused.
pub(crate) const CONNECTIONS_MAX: usize = 1000;

const _: () = assert!(
    CONNECTIONS_MAX <= crate::ledger::WAITING_MAX,
    "each caller can wait for one answer of the ledger"
);

/// Connections that one user may have open, unless it is root.
pub(crate) const CONNECTIONS_OF_ONE: usize = CONNECTIONS_MAX / 2;

/// Connections that are reserved for root: enough to find a problem and to end it.
pub(crate) const CONNECTIONS_FOR_ROOT: usize = 8;

/// The places of the control socket.
pub(crate) const PLACES: SocketPlaces = SocketPlaces {
    all: CONNECTIONS_MAX,
    of_one: CONNECTIONS_OF_ONE,
    for_root: CONNECTIONS_FOR_ROOT,
};

/// Largest body of a request that is not for a function, bytes. The `limits.body` of functions may be larger.
pub(crate) const BODY_MAX: u64 = 6 << 20;

/// Largest upload of a function, bytes: an archive of code with what it needs, not of data.
pub(crate) const UPLOAD_MAX: u64 = 64 << 20;

/// Longest `wait` for an invocation's end.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Longest `Idempotency-Key`, bytes.
pub(crate) const KEY_MAX: usize = 255;

/// Invocations, or functions, in a page: the default, and the most.
pub(crate) const PAGE: (u32, u32) = (100, 1000);

/// Kept lines of output: the default, and the most.
pub(crate) const LINES: (u32, u32) = (1000, 100_000);

/// Greatest `limit` for the kept events of a stream.
pub(crate) const EVENTS_MAX: u32 = 100_000;
