//! Both clocks, and the ids that come from them. Nothing else calls now().
//!
//! Deadlines and delays are on `CLOCK_MONOTONIC`, not `CLOCK_BOOTTIME`. tokio's timers are on it too, so the driver is
//! woken by the same clock that it compares with. And a function does not use up its timeout while the machine is
//! suspended.

use fnd_core::run::Now;
use fnd_wire::ids::InvocationId;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Both clocks. The monotonic one counts from boot, so that events of an earlier fnd have their place on it, too.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    #[must_use]
    pub fn start() -> Self {
        let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Self::showing(Duration::try_from(since_boot).unwrap_or_default())
    }

    /// Returns the clocks; the monotonic one shows this time now.
    pub(crate) fn showing(mono: Duration) -> Self {
        let now = monotonic();
        Self {
            origin: now.checked_sub(mono).unwrap_or(now),
        }
    }

    #[must_use]
    pub fn now(&self) -> Now {
        Now {
            mono: self.mono(),
            unix_ms: unix_ms(),
        }
    }

    /// Returns the monotonic part of [`Self::now`].
    pub(crate) fn mono(&self) -> Duration {
        monotonic().saturating_duration_since(self.origin)
    }

    /// Returns the instant at which the monotonic part is `mono`, for timers (`tokio::time::Instant::from_std`).
    #[must_use]
    pub fn instant(&self, mono: Duration) -> Instant {
        // A time beyond the clock's range means never; a century is as good.
        let century = Duration::from_secs(100 * 366 * 86_400);
        self.origin.checked_add(mono).unwrap_or(self.origin + century)
    }
}

/// Returns the monotonic clock, for deadlines of edges that have no [`Clock`]. It is the clock of tokio, so that it stops
/// where a test has stopped that one.
#[must_use]
pub fn monotonic() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Returns for how long the machine was suspended since it was started.
#[must_use]
pub(crate) fn suspended() -> Duration {
    let of = |clock| Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default();
    let since_start = of(rustix::time::ClockId::Boottime);
    since_start.saturating_sub(of(rustix::time::ClockId::Monotonic))
}

/// Returns the wall clock in Unix milliseconds; 0 where it shows a time before 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the only caller of now()")]
pub fn unix_ms() -> u64 {
    #[cfg(any(test, feature = "simulate"))]
    if let Some(unix_ms) = simulated::unix_ms() {
        return unix_ms;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    stepped(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The wall clock of a simulated machine, for one thread.
#[cfg(any(test, feature = "simulate"))]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::time::Instant;

    thread_local! {
        /// An instant of the monotonic clock, and what the wall clock showed then.
        static SHOWN: Cell<Option<(Instant, u64)>> = const { Cell::new(None) };
    }

    /// Sets the wall clock of this thread; it goes on with the monotonic one. Absent: the wall clock is that of the machine.
    pub(crate) fn set(unix_ms: Option<u64>) {
        SHOWN.set(unix_ms.map(|unix_ms| (super::monotonic(), unix_ms)));
    }

    pub(super) fn unix_ms() -> Option<u64> {
        let (at, unix_ms) = SHOWN.get()?;
        let since = super::monotonic().saturating_duration_since(at).as_millis();
        Some(unix_ms.saturating_add(u64::try_from(since).unwrap_or(u64::MAX)))
    }
}

/// Returns an instant of [`unix_ms`] on the clock of the machine, for a timer of the kernel. They differ only where a test
/// has stepped the clock of fnd.
#[must_use]
pub fn on_the_machine(unix_ms: u64) -> u64 {
    #[cfg(debug_assertions)]
    let unix_ms = unix_ms.saturating_add_signed(-test::step());
    unix_ms
}

/// Waits until a test steps the clock of fnd, which no timer of the kernel notices; for ever in a release build.
pub async fn stepped_by_a_test() {
    #[cfg(debug_assertions)]
    test::stepped().await;
    #[cfg(not(debug_assertions))]
    std::future::pending().await
}

/// Returns the time on the clock of fnd.
#[cfg(debug_assertions)]
fn stepped(unix_ms: u64) -> u64 {
    unix_ms.saturating_add_signed(test::step())
}

/// A clock that a test has stepped: the file named by `FND_TEST_CLOCK` holds the step in milliseconds, with a sign. A
/// release build does not have this, so the clock of an installed fnd cannot be moved.
#[cfg(debug_assertions)]
mod test {
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    fn file() -> Option<&'static PathBuf> {
        static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
        FILE.get_or_init(|| std::env::var_os("FND_TEST_CLOCK").map(Into::into))
            .as_ref()
    }

    /// Returns the step. If the file cannot be read (a test can also take descriptors away), the clock keeps its last step.
    pub(super) fn step() -> i64 {
        static LAST: AtomicI64 = AtomicI64::new(0);
        let Some(file) = file() else { return 0 };
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Ok(step) = text.trim().parse() {
            LAST.store(step, Ordering::Relaxed);
        }
        LAST.load(Ordering::Relaxed)
    }

    /// Waits for another step.
    pub(super) async fn stepped() {
        let before = step();
        loop {
            match file() {
                Some(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                None => std::future::pending().await,
            }
            if step() != before {
                return;
            }
        }
    }
}

#[cfg(not(debug_assertions))]
fn stepped(unix_ms: u64) -> u64 {
    unix_ms
}

/// Makes invocation ids: `UUIDv7` (RFC 9562, section 5.7), each greater than every one before it.
///
/// Each id is also greater than the last one stored: if the clock went back between two runs of fnd, the order of the
/// history stays. Until the clock has caught up, ids then count on from the last one.
#[derive(Debug)]
pub struct Ids {
    last: u128,
    random: fastrand::Rng,
}

/// The 74 bits of a `UUIDv7` that are neither time nor version nor variant.
const TAIL_BITS: u32 = 74;

impl Ids {
    /// Returns a generator that continues after `last`, the newest id of the ledger.
    #[must_use]
    pub fn after(last: Option<InvocationId>) -> Self {
        let last = last.map_or(0, |id| compact(id.0));
        let random = fastrand::Rng::new();
        Self { last, random }
    }

    /// Returns the next id, made at `unix_ms`.
    pub fn next(&mut self, unix_ms: u64) -> InvocationId {
        // Random bits below the clock; the top one stays clear so that counting on does not soon reach the next
        // millisecond.
        let fresh = (u128::from(unix_ms) << TAIL_BITS) | (self.random.u128(..) & ((1 << (TAIL_BITS - 1)) - 1));
        // The step has a random size, so that the next id cannot be guessed from one id.
        let counted = self.last + 1 + u128::from(self.random.u32(..));
        self.last = if fresh > self.last { fresh } else { counted };
        let time = u64::try_from(self.last >> TAIL_BITS).unwrap_or(u64::MAX) & 0xffff_ffff_ffff;
        let tail = self.last & ((1 << TAIL_BITS) - 1);
        // 12 bits go beside the version, 62 beside the variant; the builder sets those.
        let placed = ((tail >> 62) << 64) | (tail & ((1 << 62) - 1));
        let mut rest = [0; 10];
        rest.copy_from_slice(&placed.to_be_bytes()[6..]);
        let id = uuid::Builder::from_unix_timestamp_millis(time, &rest).into_uuid();
        InvocationId(id.as_u128())
    }
}

/// Returns an id's time and tail without version and variant: 48 + 74 bits, in the same order as the ids.
fn compact(id: u128) -> u128 {
    let time = id >> 80;
    let high = (id >> 64) & 0xfff;
    let low = id & ((1 << 62) - 1);
    (time << TAIL_BITS) | (high << 62) | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_7_of_their_time_and_grow() {
        let mut ids = Ids::after(None);
        let mut last = InvocationId(0);
        for i in 0..10_000_u64 {
            let id = ids.next(1_795_248_000_000 + i / 1000);
            assert!(id > last, "{id} after {last}");
            let uuid = uuid::Uuid::from_u128(id.0);
            assert_eq!(uuid.get_version_num(), 7);
            assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
            assert_eq!(id.0 >> 80, u128::from(1_795_248_000_000 + i / 1000));
            last = id;
        }
    }

    #[test]
    fn a_clock_set_back_does_not_bring_ids_below_the_last_stored() {
        let stored = Ids::after(None).next(2_000_000_000_000);
        let mut ids = Ids::after(Some(stored));
        let first = ids.next(1_000_000_000_000);
        let second = ids.next(1_000_000_000_001);
        assert!(stored < first && first < second);
        assert!(ids.next(2_000_000_000_001) > second);
        assert_eq!(InvocationId::parse(&first.to_string()), Some(first));
    }

    #[test]
    fn clocks_go_forward() {
        let clock = Clock::start();
        let (a, b) = (clock.now(), clock.now());
        assert!(a.mono <= b.mono);
        let again = Clock::start().now();
        assert!(b.mono <= again.mono && again.mono < a.mono + Duration::from_secs(60));
        assert!(a.unix_ms > 1_600_000_000_000);
        assert!(clock.instant(Duration::MAX) > clock.instant(Duration::ZERO));
    }
}
