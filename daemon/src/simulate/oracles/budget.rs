//! O9: the node never has more workers than it may have, never more memory in use by its functions than there is, and no
//! script has more processes than its pool.

use super::{Oracle, PromiseCheck};
use crate::simulate::facts::{Fact, StartedWorker};
use crate::simulate::spawner::contents::{Manner, SourceContent};
use fnd_core::run::Now;
use fnd_wire::ids::WorkerId;
use fnd_wire::plan;
use std::collections::BTreeMap;

/// The limits in the configuration of every simulated node (`spawner/verdicts.rs`).
const WORKERS_MAX: usize = 12;
const MEMORY_MAX: u64 = 4 << 30;

/// The workers that run.
#[derive(Debug, Default)]
pub(super) struct BudgetOracle {
    workers: BTreeMap<WorkerId, StartedWorker>,
}

impl Oracle for BudgetOracle {
    fn see(&mut self, _: Now, fact: &Fact) -> PromiseCheck {
        match fact {
            // The builds and checks of fnd have a share of their own.
            Fact::Started(started) if !plan::is_own(started.function.as_str()) => {
                self.workers.insert(started.worker, started.clone());
                self.is_within(started)
            }
            Fact::Gone(worker) => {
                self.workers.remove(worker);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl BudgetOracle {
    fn is_within(&self, newest: &StartedWorker) -> PromiseCheck {
        let (worker, function) = (newest.worker, &newest.function);
        if self.workers.len() > WORKERS_MAX {
            return Err(format!("O9: {worker} is one worker too many"));
        }
        // The limits are for all workers of a function together; the larger ones count while two versions have workers.
        let mut memory = BTreeMap::new();
        for started in self.workers.values() {
            let most = memory.entry(&started.function).or_insert(0);
            *most = memory_of(SourceContent::of(started.version)).max(*most);
        }
        let sum: u64 = memory.values().sum();
        if sum > MEMORY_MAX {
            return Err(format!(
                "O9: with {worker} of `{function}` the functions may use {sum} bytes of memory"
            ));
        }
        // A handler's worker may still be ending while the next one starts; an attempt of a script ends with its process.
        let same = |started: &&StartedWorker| started.function == *function && started.version == newest.version;
        let (count, most) = (
            self.workers.values().filter(same).count(),
            scripts_of(SourceContent::of(newest.version)),
        );
        if most.is_some_and(|most| count > most) {
            return Err(format!("O9: `{function}` has {count} workers with {worker}"));
        }
        Ok(())
    }
}

/// Returns `limits.memory` of a content: as in its manifest (`spawner/contents.rs`), or the default of fnd.
fn memory_of(content: SourceContent) -> u64 {
    match content.manner() {
        Manner::Large => 2 << 30,
        _ => 256 << 20,
    }
}

/// Returns `pool.max` of a script, where its manifest has one.
fn scripts_of(content: SourceContent) -> Option<usize> {
    let is_bounded = matches!(content.manner(), Manner::Single | Manner::Replacing);
    (is_bounded && !content.is_handler()).then_some(1)
}
