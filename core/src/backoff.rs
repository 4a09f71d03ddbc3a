//! Computes the delay before a retry (manifest `[retry]`).

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The growth of the delays between the attempts of an invocation, and their random part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    /// Delay before the first retry.
    pub interval: Duration,
    /// Factor of each delay to the one before; 1 is `backoff = "fixed"`.
    pub factor: f64,
    /// Largest delay before the random part is taken from it; longer delays are cut to this.
    pub max_interval: Duration,
    /// Which part is random.
    pub jitter: Jitter,
}

/// The random part of a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Jitter {
    /// Half fixed, half random.
    Equal,
    /// All of the delay is random.
    Full,
    /// The delay is exact: no part of it is random.
    None,
}

impl Backoff {
    /// Returns the delay before retry `n` (from 1), with `random` in `0.0..1.0` as its random part.
    #[must_use]
    pub fn delay(&self, n: u32, random: f64) -> Duration {
        // Seconds as floating point: a factor to a large power becomes infinite and is then capped, so that nothing
        // overflows.
        let exponent = i32::try_from(n.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.interval.as_secs_f64() * self.factor.powi(exponent);
        // An interval of 0 times an infinite factor is not a number, of which `min` makes the longest delay.
        let capped = grown.min(self.max_interval.as_secs_f64());
        let seconds = match self.jitter {
            Jitter::None => capped,
            Jitter::Equal => capped / 2.0 + capped / 2.0 * random,
            Jitter::Full => capped * random,
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(self.max_interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(jitter: Jitter, n: u32, random: f64, expected_ms: u64) {
        let backoff = Backoff {
            interval: Duration::from_secs(1),
            factor: 2.0,
            max_interval: Duration::from_secs(300),
            jitter,
        };
        assert_eq!(
            backoff.delay(n, random),
            Duration::from_millis(expected_ms),
            "{jitter:?} {n} {random}"
        );
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        check(Jitter::None, 1, 0.5, 1_000);
        check(Jitter::None, 2, 0.5, 2_000);
        check(Jitter::None, 9, 0.5, 256_000);
        check(Jitter::None, 10, 0.5, 300_000);
        check(Jitter::None, u32::MAX, 0.5, 300_000);
    }

    #[test]
    fn equal_jitter_keeps_half_and_full_keeps_nothing() {
        check(Jitter::Equal, 1, 0.0, 500);
        check(Jitter::Equal, 1, 0.5, 750);
        check(Jitter::Full, 3, 0.0, 0);
        check(Jitter::Full, 3, 0.5, 2_000);
    }

    #[test]
    fn a_zero_interval_stays_zero() {
        let zero = Backoff {
            interval: Duration::ZERO,
            factor: 2.0,
            max_interval: Duration::from_secs(1),
            jitter: Jitter::None,
        };
        // For a very large retry number, 0 times infinity is not a number; then the delay is the cap, which is safe.
        assert_eq!(zero.delay(3, 0.0), Duration::ZERO);
    }
}
