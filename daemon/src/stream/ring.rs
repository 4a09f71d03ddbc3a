//! The last happenings, numbered. The oldest are dropped for new ones.

use super::happening::Happening;
use fnd_core::api::stream::Seq;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::Notify;

/// Most happenings that are kept. A busy node makes some thousand a second: a reader that reconnects within a second
/// misses none.
const KEPT_MAX: usize = 8192;
/// Most bytes of texts that are kept: diagnostics of thousands of bad manifests at once would be more.
const BYTES_MAX: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct Ring {
    epoch: u64,
    inner: RefCell<InnerRing>,
    /// Wakes readers that have read everything.
    pub(super) more: Notify,
}

#[derive(Debug, Default)]
struct InnerRing {
    kept: VecDeque<Rc<Happening>>,
    bytes: usize,
    /// Number of the newest.
    last: u64,
}

/// The happenings that a reader gets at once.
#[derive(Debug)]
pub(crate) struct HappeningBatch {
    /// The first number that is still kept, if some after the reader's number are not.
    pub(super) oldest: Option<u64>,
    pub(crate) happenings: Vec<(u64, Rc<Happening>)>,
}

impl Ring {
    /// Returns an empty ring. `epoch` distinguishes it from that of an earlier fnd.
    pub(crate) fn new(epoch: u64) -> Self {
        Self {
            epoch,
            inner: RefCell::default(),
            more: Notify::new(),
        }
    }

    pub(crate) fn push(&self, happening: Happening) {
        let mut inner = self.inner.borrow_mut();
        inner.last += 1;
        inner.bytes += happening.size();
        inner.kept.push_back(Rc::new(happening));
        while inner.kept.len() > KEPT_MAX || inner.bytes > BYTES_MAX {
            let Some(oldest) = inner.kept.pop_front() else { break };
            inner.bytes -= oldest.size();
        }
        drop(inner);
        // All of them, since each reader has a number of its own.
        self.more.notify_waiters();
    }

    pub(super) fn seq(&self, number: u64) -> Seq {
        Seq {
            epoch: self.epoch,
            number,
        }
    }

    /// Returns the number of the newest; 0 before the first.
    pub(crate) fn last(&self) -> u64 {
        self.inner.borrow().last
    }

    /// Returns the number before the oldest that is kept.
    pub(super) fn before_oldest(&self) -> u64 {
        let inner = self.inner.borrow();
        inner.last - inner.kept.len() as u64
    }

    /// Returns at most `most` happenings after a number.
    pub(super) fn take(&self, after: u64, most: usize) -> HappeningBatch {
        let before_oldest = self.before_oldest();
        let from = after.max(before_oldest);
        let inner = self.inner.borrow();
        let skip = usize::try_from(from - before_oldest).unwrap_or(usize::MAX);
        let happenings = inner.kept.iter().skip(skip).take(most).cloned();
        HappeningBatch {
            oldest: (after < before_oldest).then_some(before_oldest + 1),
            happenings: (from + 1..).zip(happenings).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::happening::EventKind;
    use super::*;
    use fnd_wire::ids::FunctionName;

    fn removed(name: &str) -> Happening {
        Happening {
            unix_ms: 0,
            function: FunctionName::new(name).ok(),
            what: EventKind::Removed,
        }
    }

    fn numbers(taken: &HappeningBatch) -> Vec<u64> {
        taken.happenings.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn the_newest_stay_and_a_reader_that_is_behind_learns_where_they_begin() {
        let ring = Ring::new(7);
        assert_eq!((ring.last(), ring.before_oldest()), (0, 0));
        assert!(ring.take(0, 10).happenings.is_empty());
        for _ in 0..KEPT_MAX + 3 {
            ring.push(removed("f"));
        }
        let first = ring.take(0, 2);
        assert_eq!((first.oldest, numbers(&first)), (Some(4), vec![4, 5]));
        let next = ring.take(5, 1);
        assert_eq!((next.oldest, numbers(&next)), (None, vec![6]));
        let end = ring.take(ring.last(), 10);
        assert_eq!((end.oldest, numbers(&end)), (None, vec![]));
        assert_eq!(ring.take(3, 1).oldest, None, "it has read all that is gone");
        assert_eq!(ring.seq(9).to_string(), "7-9");
    }

    #[test]
    fn texts_are_bounded_too() {
        let ring = Ring::new(7);
        for _ in 0..20 {
            ring.push(Happening {
                what: EventKind::Refused("x".repeat(1 << 20).into(), Box::default()),
                ..removed("f")
            });
        }
        assert_eq!(ring.take(0, 100).happenings.len(), 3);
        for _ in 0..4 {
            ring.push(removed("f"));
        }
        assert_eq!(ring.inner.borrow().bytes, 3 * (1 << 20) + 7);
    }
}
