//! `rate` and `per` of a route: how many requests are accepted per time, of all callers or of one address.
//!
//! Each request moves the time until which the rate is used up; up to a whole period may be used at once.

use fnd_manifest::function::Rate;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Largest number of addresses that are remembered; the ones whose time is over go first, then all.
const ADDRESSES_MAX: usize = 100_000;

/// The acceptances of the routes that have a rate, for as long as they count.
#[derive(Debug, Default)]
pub struct Rates {
    /// Until when the rate of a route, or of an address at a route, is used up; the time since boot.
    used: HashMap<(u64, Option<IpAddr>), Duration>,
}

impl Rates {
    /// Accepts a request to the route with this identity; `from` is the address for which the rate counts.
    ///
    /// # Errors
    /// How long to wait if the rate is used up.
    pub fn admit(&mut self, route: u64, from: Option<IpAddr>, rate: Rate, now: Duration) -> Result<(), Duration> {
        let cost = rate.per / rate.count.max(1);
        let key = (route, from.map(network));
        let used = self.used.get(&key).copied().unwrap_or_default().max(now) + cost;
        let over = used.saturating_sub(now + rate.per);
        if !over.is_zero() {
            return Err(over);
        }
        if self.used.len() >= ADDRESSES_MAX && !self.used.contains_key(&key) {
            self.used.retain(|_, used| *used > now);
            if self.used.len() >= ADDRESSES_MAX {
                // Nobody is refused because of the number of others.
                self.used.clear();
            }
        }
        self.used.insert(key, used);
        Ok(())
    }
}

/// Returns the address that counts as one caller: of IPv6 the network of 64 bits, all of which one caller has.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    // A socket for both versions shows an IPv4 address as `::ffff:192.0.2.1`, which must not count as a network of
    // IPv6.
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << 64;
            IpAddr::V6((address.to_bits() & mask).into())
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate {
        count: 2,
        per: Duration::from_secs(10),
    };

    #[test]
    fn a_period_has_its_requests_and_says_when_the_next_one_may_come() {
        let mut rates = Rates::default();
        let at = Duration::from_secs;
        let address = |last| Some(IpAddr::from([192, 0, 2, last]));
        assert_eq!(rates.admit(0, None, RATE, at(100)), Ok(()));
        assert_eq!(rates.admit(0, None, RATE, at(100)), Ok(()));
        assert_eq!(rates.admit(0, None, RATE, at(100)), Err(at(5)));
        assert_eq!(rates.admit(0, None, RATE, at(103)), Err(at(2)));
        assert_eq!(rates.admit(1, None, RATE, at(103)), Ok(()), "another route");
        assert_eq!(
            rates.admit(0, address(1), RATE, at(103)),
            Ok(()),
            "an address of its own"
        );
        assert_eq!(rates.admit(0, None, RATE, at(105)), Ok(()));
        assert_eq!(rates.admit(0, None, RATE, at(105)), Err(at(5)));
    }

    #[test]
    fn one_caller_cannot_pose_as_many_by_its_own_network() {
        let v6 = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let mut rates = Rates::default();
        for text in ["2001:db8::1", "2001:db8::2"] {
            assert!(rates.admit(0, v6(text), RATE, Duration::ZERO).is_ok());
        }
        assert!(rates.admit(0, v6("2001:db8::3"), RATE, Duration::ZERO).is_err());
        assert!(rates.admit(0, v6("2001:db8:0:1::3"), RATE, Duration::ZERO).is_ok());
        assert_eq!(network(v6("::ffff:192.0.2.1").unwrap()), IpAddr::from([192, 0, 2, 1]));
    }

    proptest! {
        #[test]
        fn no_period_accepts_more_than_twice_its_count(gaps in prop::collection::vec(0..6_000_u64, 1..80)) {
            let mut rates = Rates::default();
            let (mut now, mut accepted) = (Duration::ZERO, Vec::new());
            for gap in gaps {
                now += Duration::from_millis(gap);
                match rates.admit(0, None, RATE, now) {
                    Ok(()) => accepted.push(now),
                    Err(wait) => prop_assert!(wait <= RATE.per / RATE.count),
                }
                let last = accepted.iter().filter(|at| **at + RATE.per > now).count();
                prop_assert!(last <= 4, "{last} within a period");
            }
        }
    }
}
