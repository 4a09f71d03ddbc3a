//! Waits for conditions, never for time.

use std::time::{Duration, Instant};

/// Deadline of a wait: long enough for anything that does come, on a machine where every core is busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition is checked.
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// Returns the monotonic time.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "tests watch a real daemon, whose time is the machine's"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Pauses until a condition is checked again.
#[expect(
    clippy::disallowed_methods,
    reason = "the state of another process can't be waited on, only looked at"
)]
pub fn pause() {
    std::thread::sleep(POLL_PAUSE);
}

/// Returns the wall clock in Unix milliseconds.
///
/// # Panics
/// If it shows a time before 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "signatures of tests are of now")]
pub fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(now.expect("a time after 1970").as_millis()).expect("a time of this age")
}

/// Pauses for a millisecond, where a test chooses a moment and does not wait for a condition.
#[expect(
    clippy::disallowed_methods,
    reason = "a kill at any moment has nothing to wait for but time"
)]
pub fn pause_briefly() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Checks `condition` until it returns a value, and returns that.
///
/// # Panics
/// If there is no value within `limit`; the message names `what` was waited for.
#[track_caller]
pub fn wait_until<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} for {what}");
        pause();
    }
}
