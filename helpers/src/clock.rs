//! The clocks. No other file of this crate calls now().

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Returns the monotonic clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the only caller of now()")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Returns the wall clock of the machine in nanoseconds since 1970, for comparison with the times of files; 0 where it shows
/// a time before 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the only caller of now()")]
pub fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
