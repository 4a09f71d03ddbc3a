//! How many bytes of bodies fnd holds for callers who have shown no credential, and how many of them one address may have.
//!
//! A caller may have a third of what it leaves free. So the first caller has at most a quarter of all, the next one a quarter
//! of the rest, and so on: a few callers with large bodies leave room for the small body of another one.

use super::rate::network;
use std::collections::HashMap;
use std::net::IpAddr;

/// The bytes that are held.
#[derive(Debug, Default)]
pub struct BodyBudget {
    held: u64,
    /// Of each caller: an address, or all Unix sockets together.
    callers: HashMap<Option<IpAddr>, u64>,
    /// The largest limit of a body so far. It is remembered, so that all requests share one budget.
    largest: u64,
}

impl BodyBudget {
    /// Takes bytes of a body; returns whether there was room. All bodies together have four times `[node] buffers`, or four
    /// times the largest `limits.body` if that is more: so a single body always has room.
    pub fn take(&mut self, from: Option<IpAddr>, bytes: u64, (buffers, limit): (u64, u64)) -> bool {
        self.largest = self.largest.max(limit);
        let all = buffers.max(self.largest).saturating_mul(4);
        let from = from.map(network);
        let own = self
            .callers
            .get(&from)
            .copied()
            .unwrap_or_default()
            .saturating_add(bytes);
        let held = self.held.saturating_add(bytes);
        if own > all.saturating_sub(held) / 3 {
            return false;
        }
        self.held = held;
        self.callers.insert(from, own);
        true
    }

    /// Gives back bytes that were taken.
    pub fn give_back(&mut self, from: Option<IpAddr>, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
        let from = from.map(network);
        if let Some(own) = self.callers.get_mut(&from) {
            *own = own.saturating_sub(bytes);
            // An address without bytes is forgotten, so that the table does not grow with the number of callers.
            if *own == 0 {
                self.callers.remove(&from);
            }
        }
    }

    /// Returns how many bytes are held.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUFFERS: u64 = 1000;
    /// All bodies together: four times the buffers.
    const ALL: u64 = 4000;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    fn take(budget: &mut BodyBudget, from: Option<IpAddr>, bytes: u64) -> bool {
        budget.take(from, bytes, (BUFFERS, 0))
    }

    #[test]
    fn one_address_has_a_quarter_and_leaves_room_for_others() {
        let mut budget = BodyBudget::default();
        let (first, second) = (address("192.0.2.1"), address("192.0.2.2"));
        assert!(take(&mut budget, first, 600) && take(&mut budget, first, 400));
        assert!(!take(&mut budget, first, 1));
        assert!(take(&mut budget, second, 750), "a quarter of the rest");
        assert!(!take(&mut budget, second, 1));
        assert!(take(&mut budget, None, 500), "a Unix socket");
        assert_eq!(budget.held(), 2250);
        budget.give_back(first, 600);
        budget.give_back(first, 400);
        budget.give_back(second, 750);
        budget.give_back(None, 500);
        assert_eq!((budget.held(), budget.callers.len()), (0, 0));
    }

    #[test]
    fn one_caller_cannot_pose_as_many_by_its_own_network() {
        let mut budget = BodyBudget::default();
        assert!(take(&mut budget, address("2001:db8::1"), 1000));
        assert!(!take(&mut budget, address("2001:db8::2"), 1));
        assert!(take(&mut budget, address("2001:db8:0:1::2"), 1));
    }

    #[test]
    fn a_single_body_has_room_up_to_its_limit_and_does_not_shrink_the_room_of_others() {
        let (mut budget, large) = (BodyBudget::default(), 1_000_000);
        assert!(budget.take(address("192.0.2.1"), large, (BUFFERS, large)));
        assert!(!budget.take(address("192.0.2.1"), 1, (BUFFERS, large)));
        // The limit of this one is smaller; it has the same budget.
        assert!(budget.take(address("192.0.2.2"), 6000, (BUFFERS, 6000)));
        let whole = u64::MAX;
        assert!(!budget.take(None, whole, (whole, whole)), "the sum does not overflow");
    }

    proptest! {
        #[test]
        fn nobody_has_more_than_a_quarter_and_a_newcomer_has_room(
            steps in prop::collection::vec((0..8_u8, 0..1500_u64, any::<bool>()), 1..100),
        ) {
            let mut budget = BodyBudget::default();
            let mut bodies: Vec<(Option<IpAddr>, u64)> = Vec::new();
            for (from, bytes, ends) in steps {
                let from = Some(IpAddr::from([192, 0, 2, from]));
                if ends && let Some((from, bytes)) = bodies.pop() {
                    budget.give_back(from, bytes);
                } else if take(&mut budget, from, bytes) {
                    bodies.push((from, bytes));
                }
                prop_assert_eq!(budget.held(), bodies.iter().map(|(_, bytes)| bytes).sum::<u64>());
                prop_assert!(budget.held() <= ALL);
                prop_assert!(budget.callers.values().all(|own| *own <= ALL / 4));
                let newcomer = address("198.51.100.1");
                let room = (ALL - budget.held()) / 4;
                prop_assert!(take(&mut budget, newcomer, room));
                budget.give_back(newcomer, room);
            }
            for (from, bytes) in bodies {
                budget.give_back(from, bytes);
            }
            prop_assert_eq!((budget.held(), budget.callers.len()), (0, 0));
        }
    }
}
