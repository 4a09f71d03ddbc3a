//! Waiting for a condition, never for time.

use std::time::{Duration, Instant};

/// Long enough that only something that never comes takes it, on a machine where every core is busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition is looked at.
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

/// Lets other threads and processes go on until a condition is looked at again.
#[expect(
    clippy::disallowed_methods,
    reason = "the state of another process can't be waited on, only looked at"
)]
pub fn pause() {
    std::thread::sleep(POLL_PAUSE);
}

/// Lets a millisecond pass: for a moment that is chosen, not waited for.
#[expect(
    clippy::disallowed_methods,
    reason = "a kill at any moment has nothing to wait for but time"
)]
pub fn pause_briefly() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Returns what `condition` finds, looking until it does.
///
/// # Panics
/// When it found nothing within `limit`: the panic names `what` was waited for.
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
