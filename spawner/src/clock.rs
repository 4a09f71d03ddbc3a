//! The only caller of the clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the monotonic time since the first call.
#[expect(
    clippy::disallowed_methods,
    reason = "the spawner's own clock: idle launchers, grace at the end, patience with the judge"
)]
pub fn now() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Returns the wall clock in Unix milliseconds, for ends that are told after a stop.
#[expect(clippy::disallowed_methods, reason = "the spawner's own clock")]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
