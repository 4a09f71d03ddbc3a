//! O8: a canary never gets more than its share of the calls. It gets less where it had no free worker.

use super::PromiseCheck;
use crate::simulate::facts::Began;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeMap;

/// The canary of a function, and the share of the calls that it is to get, in percent.
pub(crate) type CanaryShare = Option<(Version, u32)>;

/// The calls of each function with a canary since the canary began.
#[derive(Debug, Default)]
pub(super) struct ShareCounts {
    functions: BTreeMap<FunctionName, CanaryCalls>,
}

#[derive(Debug, Clone)]
struct CanaryCalls {
    canary: (Version, u32),
    all: u64,
    own: u64,
}

impl ShareCounts {
    /// Forgets the calls of the fnd before: each fnd begins to count anew.
    pub(super) fn begin(&mut self) {
        self.functions.clear();
    }

    /// Counts a call. `canary` is the canary of its function at that moment.
    pub(super) fn count(&mut self, began: &Began, canary: CanaryShare) -> PromiseCheck {
        let Some(canary) = canary else {
            self.functions.remove(&began.function);
            return Ok(());
        };
        let fresh = CanaryCalls { canary, all: 0, own: 0 };
        let calls = self
            .functions
            .entry(began.function.clone())
            .or_insert_with(|| fresh.clone());
        if calls.canary != canary {
            *calls = fresh;
        }
        calls.all += 1;
        calls.own += u64::from(began.version == canary.0);
        // One more: the call may have been sent just before the share was changed.
        let most = calls.all * u64::from(canary.1) / 100 + 1;
        if calls.own > most {
            return Err(format!(
                "O8: the canary of `{}` has got {} of {} calls, and its share is {} %",
                began.function, calls.own, calls.all, canary.1
            ));
        }
        Ok(())
    }
}
