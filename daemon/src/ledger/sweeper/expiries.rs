//! When the next records become too old, for short age limits.

use fnd_wire::ids::FunctionName;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

/// Age limits below this one are checked when records reach them, not once an hour.
pub(super) const SHORT: Duration = Duration::from_secs(36_000);

/// When the next records become too old, for short age limits.
#[derive(Debug, Default)]
pub(super) struct Expiries {
    /// Unix milliseconds and the function; no function means all functions.
    pub(super) next: BTreeSet<(u64, Option<FunctionName>)>,
    /// The functions that have an entry in `next`; `None` stands for all functions.
    noted: HashSet<Option<FunctionName>>,
}

impl Expiries {
    /// Notes when an invocation of this time becomes too old, unless an entry is noted or the age limit is long. The check may
    /// come up to a tenth of the age limit later, so that it also covers invocations that follow soon after.
    pub(super) fn add(
        &mut self,
        whose: Option<&FunctionName>,
        keep_for: Duration,
        accepted_ms: u64,
        now_ms: impl FnOnce() -> u64,
    ) {
        if keep_for >= SHORT || !self.noted.insert(whose.cloned()) {
            return;
        }
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let slack = (keep_for / 10).max(Duration::from_secs(1));
        let due = accepted_ms.saturating_add(ms(keep_for) + 1);
        let due = due.max(now_ms().saturating_add(ms(slack)));
        self.next.insert((due, whose.cloned()));
    }

    /// Removes and returns an entry whose time has come.
    pub(super) fn reached(&mut self, now_ms: u64) -> Option<Option<FunctionName>> {
        if self.next.first()?.0 > now_ms {
            return None;
        }
        let (_, whose) = self.next.pop_first()?;
        self.noted.remove(&whose);
        Some(whose)
    }
}
