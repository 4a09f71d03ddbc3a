//! O14: every request to the spawner is legal: numbers of workers grow, and each request about a worker names one that was
//! asked for and is not forgotten.

use super::{Oracle, PromiseCheck};
use crate::simulate::facts::{Death, Fact};
use fnd_core::run::Now;
use fnd_wire::frame::{Request, Spawn};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::collections::BTreeMap;

/// The workers that fnd has asked for and has not acknowledged.
#[derive(Debug, Default)]
pub(super) struct FramesOracle {
    /// The number of the last worker that was asked for.
    last: u64,
    known: BTreeMap<WorkerId, KnownWorker>,
}

#[derive(Debug)]
struct KnownWorker {
    /// The invocation that names its temporary files.
    invocation: InvocationId,
    runs: bool,
}

impl Oracle for FramesOracle {
    fn see(&mut self, _: Now, fact: &Fact) -> PromiseCheck {
        match fact {
            Fact::Requested(_, request) => self.requested(request),
            Fact::Started(started) => {
                if let Some(known) = self.known.get_mut(&started.worker) {
                    known.runs = true;
                }
                Ok(())
            }
            Fact::Gone(worker) => {
                if let Some(known) = self.known.get_mut(worker) {
                    known.runs = false;
                }
                Ok(())
            }
            // Another spawner begins with the first number. It may know workers that have ended, if the one before was stopped.
            Fact::SpawnerEnded | Fact::Death(Death::Both | Death::PowerCut) => {
                self.last = 0;
                Ok(())
            }
            Fact::Violation(why) => Err(format!("O14: {why}")),
            _ => Ok(()),
        }
    }
}

impl FramesOracle {
    fn requested(&mut self, request: &Request) -> PromiseCheck {
        match request {
            Request::Spawn(spawn) | Request::Watch(spawn) | Request::Measure(spawn) => self.spawn(spawn),
            Request::Term(worker) => self.known(*worker, "be ended"),
            Request::Kill(worker) => self.known(*worker, "be killed"),
            Request::AdoptionRecord(replaced) => self.known(replaced.worker, "get a record"),
            Request::Lease(lease) => self.known(lease.worker, "get a lease"),
            Request::Acknowledge(worker) => match self.known.remove(worker) {
                Some(known) if known.runs => Err(format!("O14: fnd acknowledges the end of {worker}, which runs")),
                // The end of a worker can be acknowledged twice: by an fnd and by the next one.
                _ => Ok(()),
            },
            Request::Release(release) => {
                let is_used = |known: &&KnownWorker| known.runs && known.invocation == release.invocation;
                match self.known.values().find(is_used) {
                    Some(known) => Err(format!(
                        "O14: fnd removes the temporary files of {}, which a worker still uses",
                        known.invocation
                    )),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn spawn(&mut self, spawn: &Spawn) -> PromiseCheck {
        let worker = spawn.worker;
        if worker.0 <= self.last {
            return Err(format!(
                "O14: fnd asks for {worker}, and has asked for {} before",
                WorkerId(self.last)
            ));
        }
        self.last = worker.0;
        let known = KnownWorker {
            invocation: spawn.invocation,
            runs: false,
        };
        self.known.insert(worker, known);
        Ok(())
    }

    fn known(&self, worker: WorkerId, is_to: &str) -> PromiseCheck {
        match self.known.contains_key(&worker) {
            true => Ok(()),
            false => Err(format!("O14: {worker} is to {is_to}, and there is no such worker")),
        }
    }
}
