//! Which signed requests were admitted, so that none is admitted a second time.
//!
//! A key is kept as long as its signature holds by the clock. A clock that goes back must not make a signature valid
//! again whose key was dropped: so no key is admitted that ends before the newest dropped one did. While the clock goes
//! forward, such signatures are too old anyway.

use super::credentials::ReplayKey;
use std::collections::{BTreeSet, HashMap};

/// More live keys than this are not kept. With a tolerance of 300 s it is reached above 300 signed requests a second.
pub const MAX_REPLAYS: usize = 100_000;

/// The keys of admitted signed requests, so that none is admitted twice.
#[derive(Debug, Default, Clone)]
pub struct Replays {
    until: HashMap<[u8; 32], u64>,
    by_end: BTreeSet<(u64, [u8; 32])>,
    /// The end of the newest key that was dropped.
    dropped_s: u64,
}

/// Why a request is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// It was admitted before, or it may have been: 409.
    Before,
    /// There is no room to remember it: 503.
    Full,
}

impl Replays {
    /// Remembers a request, unless it was admitted before.
    ///
    /// # Errors
    /// [`Replayed`].
    pub fn admit(&mut self, key: ReplayKey, now_s: u64) -> Result<(), Replayed> {
        self.drop_ended(now_s);
        if self.until.contains_key(&key.digest) || key.until_s <= self.dropped_s {
            return Err(Replayed::Before);
        }
        // To drop a key in favour of the new one would let the request of the dropped key in a second time.
        if self.until.len() >= MAX_REPLAYS {
            return Err(Replayed::Full);
        }
        self.restore(key);
        Ok(())
    }

    /// Forgets a request that was refused after all, so that its sender may repeat it.
    pub fn forget(&mut self, digest: &[u8; 32]) {
        if let Some(until_s) = self.until.remove(digest) {
            self.by_end.remove(&(until_s, *digest));
        }
    }

    /// Remembers a request that an earlier fnd admitted.
    pub fn restore(&mut self, key: ReplayKey) {
        // The digest may be known with another end, which must leave `by_end`, too.
        self.forget(&key.digest);
        self.until.insert(key.digest, key.until_s);
        self.by_end.insert((key.until_s, key.digest));
    }

    /// Restores the end of the newest dropped key ([`dropped_s`](Self::dropped_s)) of an earlier fnd.
    pub fn restore_dropped(&mut self, dropped_s: u64) {
        self.dropped_s = self.dropped_s.max(dropped_s);
    }

    /// Drops the keys whose signatures no longer hold.
    pub fn drop_ended(&mut self, now_s: u64) {
        while let Some((until_s, digest)) = self.by_end.first().copied().filter(|(until_s, _)| *until_s < now_s) {
            self.by_end.pop_first();
            self.until.remove(&digest);
            self.restore_dropped(until_s);
        }
    }

    /// Returns the end of the newest dropped key in Unix seconds, 0 without one.
    #[must_use]
    pub fn dropped_s(&self) -> u64 {
        self.dropped_s
    }

    /// Returns the remembered requests, the first to end first.
    pub fn keys(&self) -> impl Iterator<Item = ReplayKey> + '_ {
        let keys = self.by_end.iter();
        keys.map(|(until_s, digest)| ReplayKey {
            digest: *digest,
            until_s: *until_s,
        })
    }

    /// Returns how many requests are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.until.len()
    }

    /// Returns whether none is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u32, until_s: u64) -> ReplayKey {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&n.to_le_bytes());
        ReplayKey { digest, until_s }
    }

    #[test]
    fn a_request_is_admitted_once_as_long_as_its_signature_holds() {
        let mut replays = Replays::default();
        assert_eq!(replays.admit(key(1, 1300), 1000), Ok(()));
        for now_s in [1000, 1300, 700] {
            assert_eq!(replays.admit(key(1, 1300), now_s), Err(Replayed::Before));
        }
        assert_eq!(replays.admit(key(2, 1300), 1000), Ok(()));
        replays.drop_ended(1301);
        assert!(replays.is_empty());
    }

    #[test]
    fn a_clock_that_goes_back_admits_no_dropped_request() {
        let mut replays = Replays::default();
        assert_eq!(replays.admit(key(1, 1300), 1000), Ok(()));
        replays.drop_ended(2000);
        for n in [1, 2] {
            assert_eq!(replays.admit(key(n, 1300), 1000), Err(Replayed::Before));
        }
        // New signatures are admitted again as soon as they are newer.
        assert_eq!(replays.admit(key(3, 1301), 1001), Ok(()));
    }

    /// A clock that was years ahead for a moment locks nobody out.
    #[test]
    fn a_clock_far_ahead_does_not_count_by_itself() {
        let mut replays = Replays::default();
        assert_eq!(replays.admit(key(1, 1300), 1000), Ok(()));
        replays.drop_ended(4_000_000_000);
        assert_eq!(replays.dropped_s(), 1300);
        assert_eq!(replays.admit(key(2, 1310), 1010), Ok(()));
    }

    #[test]
    fn a_forgotten_request_may_be_repeated() {
        let mut replays = Replays::default();
        assert_eq!(replays.admit(key(1, 1300), 1000), Ok(()));
        replays.forget(&key(1, 1300).digest);
        replays.forget(&key(9, 1300).digest);
        assert_eq!(replays.admit(key(1, 1300), 1000), Ok(()));
    }

    #[test]
    fn a_full_table_admits_nothing_until_keys_end() {
        let mut replays = Replays::default();
        for n in 0..u32::try_from(MAX_REPLAYS).unwrap() {
            assert_eq!(replays.admit(key(n, 1300 + u64::from(n % 2)), 1000), Ok(()));
        }
        assert_eq!(replays.admit(key(u32::MAX, 1300), 1000), Err(Replayed::Full));
        assert_eq!(replays.admit(key(0, 1300), 1000), Err(Replayed::Before));
        assert_eq!(replays.admit(key(u32::MAX, 1400), 1301), Ok(()));
        assert_eq!(replays.len(), MAX_REPLAYS / 2 + 1);
    }

    proptest! {
        /// No key is admitted twice, even if the clock is set and fnd is restarted at any time.
        #[test]
        fn no_request_is_admitted_twice(steps in proptest::collection::vec((0..8_u32, 0..2000_u64, any::<bool>()), 1..200)) {
            let mut replays = Replays::default();
            let mut admitted = std::collections::HashSet::new();
            for (n, now_s, restart) in steps {
                // The end of a key follows from its content.
                let key = key(n, 300 + u64::from(n) * 150);
                // The signature holds by the clock.
                if now_s <= key.until_s && replays.admit(key, now_s).is_ok() {
                    prop_assert!(admitted.insert(n), "{n} at {now_s}");
                }
                replays.drop_ended(now_s);
                if restart {
                    let mut next = Replays::default();
                    next.restore_dropped(replays.dropped_s());
                    replays.keys().for_each(|key| next.restore(key));
                    replays = next;
                }
            }
        }
    }
}
