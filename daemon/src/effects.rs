//! The moment from which on nothing leaves this fnd any more, as after a kill. Only the simulation chooses such a moment:
//! it lets a handler of the driver run to its end, and fnd dies between any two of the things that the handler sends.
//!
//! Each place where something leaves fnd at once asks [`leaves`] first: frames to the spawner, messages and kills to
//! workers, answers to callers, slots of attempts. Commands to the ledger need no such question, because they wait in
//! memory and are lost with fnd.

/// Returns whether something leaves fnd. In production it always does.
#[cfg(not(any(test, feature = "simulate")))]
pub(crate) const fn leaves() -> bool {
    true
}

#[cfg(any(test, feature = "simulate"))]
pub(crate) use fuse::leaves;

/// The fuse of the simulated fnd that runs in this thread.
#[cfg(any(test, feature = "simulate"))]
pub(crate) mod fuse {
    use std::cell::Cell;

    thread_local! {
        /// How many things still leave fnd; absent: all do.
        static REST: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Returns whether something leaves fnd, and counts it.
    pub(crate) fn leaves() -> bool {
        let Some(rest) = REST.get() else { return true };
        REST.set(Some(rest.saturating_sub(1)));
        rest > 0
    }

    /// From now on only so many things leave fnd. Absent: all do again.
    pub(crate) fn set(things: Option<u32>) {
        REST.set(things);
    }

    /// Returns how many things still leave fnd; absent: all do.
    pub(crate) fn rest() -> Option<u32> {
        REST.get()
    }

    /// Returns whether nothing leaves fnd any more.
    pub(crate) fn has_burnt() -> bool {
        REST.get() == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_a_dying_fnd_after_its_last_thing() {
        assert!(leaves() && !fuse::has_burnt());
        fuse::set(Some(2));
        assert_eq!(
            [leaves(), fuse::has_burnt(), leaves(), leaves()],
            [true, false, true, false]
        );
        assert!(fuse::has_burnt());
        fuse::set(None);
        assert!(leaves() && !fuse::has_burnt());
    }
}
