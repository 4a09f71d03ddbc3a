//! Reads the clock; no other module does.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the monotonic time since the first call of this function.
#[expect(clippy::disallowed_methods, reason = "the clock of idle launchers, of the grace and of the judge")]
pub fn now() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Returns whether the kernel's last tick was at this time of the wall clock. The kernel stamps files with that time.
pub fn is_tick(seconds: i64, nanoseconds: i64) -> bool {
    clock_gettime(ClockId::RealtimeCoarse) == Timespec { tv_sec: seconds, tv_nsec: nanoseconds }
}

/// Returns the wall clock in Unix milliseconds, for exits that are reported after a restart.
#[expect(clippy::disallowed_methods, reason = "the spawner's own clock")]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
