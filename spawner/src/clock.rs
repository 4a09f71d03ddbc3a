//! Reads the clock; no other module does.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// Returns the monotonic time since boot: the clock of fnd and of epoll, so an instant that fnd names is the same one here.
pub fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

/// Returns whether the kernel's last tick was at this time of the wall clock. The kernel stamps files with that time.
pub fn is_tick(seconds: i64, nanoseconds: i64) -> bool {
    clock_gettime(ClockId::RealtimeCoarse) == Timespec { tv_sec: seconds, tv_nsec: nanoseconds }
}

/// Returns the wall clock in Unix milliseconds, for exits that are reported after a restart.
pub fn unix_ms() -> u64 {
    let since = Duration::try_from(clock_gettime(ClockId::Realtime)).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
