//! The answers of the ledger, the spawner and the workers.

use super::*;

impl World {
    pub(super) fn stored(&mut self, id: InvocationId, fine: bool) {
        if fine {
            let entry = self.ledger.get_mut(&id).unwrap();
            entry.stored = true;
            if let Some(content) = entry.accepted.load_key {
                let new = self.loaded.insert((entry.accepted.function.clone(), content));
                assert!(new, "a content ran twice by itself");
            }
            self.handle(Event::Stored(id));
        } else {
            self.not_stored(id, false);
            self.handle(Event::StoreFailed(id));
        }
    }

    /// An acceptance is not on the disk. `durable`: one that was stored before is durable now.
    pub(super) fn not_stored(&mut self, id: InvocationId, durable: bool) {
        match self.ledger.get_mut(&id) {
            Some(entry) if entry.stored => entry.accepted.durable = durable,
            _ => drop(self.ledger.remove(&id)),
        }
    }

    /// The ledger has stored the shares of events in one transaction, or not.
    pub(super) fn published(&mut self, shares: &Shares, fine: bool) {
        let number = shares.number;
        let mut earlier = Vec::new();
        for event in &shares.events {
            let known = self.events.get(&event.key).cloned().filter(|_| fine);
            for accepted in &event.accepted {
                if fine && known.is_none() {
                    self.ledger.get_mut(&accepted.id).unwrap().stored = true;
                } else {
                    self.ledger.remove(&accepted.id);
                }
            }
            if fine && known.is_none() && !event.accepted.is_empty() {
                self.events.insert(event.key.clone(), event.delivered.clone());
            }
            earlier.push(known);
        }
        self.handle(match fine {
            true => Event::Published { number, earlier },
            false => Event::PublishFailed(number),
        });
    }

    /// The ledger answers all claims, and the register does not refuse any.
    pub(super) fn answer_claims(&mut self, fine: bool) {
        let ids = std::mem::take(&mut self.to_claim);
        for id in &ids {
            self.ledger.get_mut(id).unwrap().claim_over(fine);
        }
        if !ids.is_empty() {
            self.handle(if fine {
                Event::Claimed(ids)
            } else {
                Event::ClaimFailed(ids)
            });
        }
    }

    /// The register does not take a claim, or the lease is over. The ledger has stored the claim, or has not.
    pub(super) fn put_off(&mut self, which: u8, fine: bool, pause: Duration) {
        let Some(at) = choose(which, self.to_claim.len()) else {
            return;
        };
        let id = self.to_claim.remove(at);
        self.ledger.get_mut(&id).unwrap().claim_over(fine);
        self.handle(Event::ClaimPutOff { id, pause });
    }

    /// Another node has the work of an invocation (`has_it`), or may have it.
    pub(super) fn other_node(&mut self, which: u8, has_it: bool) {
        let shared: Vec<InvocationId> = self
            .ledger
            .iter()
            .filter(|(_, entry)| entry.is_shared())
            .map(|(id, _)| *id)
            .collect();
        let Some(at) = choose(which, shared.len()) else {
            return;
        };
        let id = shared[at];
        self.handle(match has_it {
            true => Event::Superseded { id, node: "vm2".into() },
            false => Event::Withdraw(id),
        });
    }

    pub(super) fn answer_spawn(&mut self, which: u8, fine: bool) {
        let starting: Vec<WorkerId> = self.some_processes(|process| !process.started);
        let Some(at) = choose(which, starting.len()) else {
            return;
        };
        let worker = starting[at];
        if fine {
            self.processes.get_mut(&worker).unwrap().started = true;
            self.handle(Event::Spawned(worker));
        } else {
            self.processes.remove(&worker);
            let message = "no".to_owned();
            self.handle(Event::SpawnFailed { worker, message });
        }
    }

    pub(super) fn no_room(&mut self, which: u8) {
        let starting = self.some_processes(|process| !process.started);
        let Some(at) = choose(which, starting.len()) else {
            return;
        };
        let worker = starting[at];
        self.processes.remove(&worker);
        let message = "no room".to_owned();
        let before = self.log.len();
        self.handle(Event::NodeCannotStart { worker, message });
        // Where nothing waits for a start any more, people are told at once that all is well again.
        let over = self.log[before..].contains("StartsChanged");
        assert!(self.s.cannot_start().is_some() || over);
    }

    pub(super) fn exit(&mut self, which: u8, code: u8, (oom, result): (bool, bool)) {
        // A healthy worker of a handler rarely ends by itself.
        let ends = |process: &Process| process.started && (process.is_to_end() || which % 16 == 15);
        let running: Vec<WorkerId> = self.some_processes(ends);
        let Some(at) = choose(which, running.len()) else { return };
        let worker = running[at];
        self.processes.remove(&worker);
        let status = match code {
            9 => ExitStatus::Signal(9),
            code => ExitStatus::Code(code),
        };
        self.handle(Event::Exited(Box::new(Exited {
            oom_kills: oom.into(),
            result: result.then(|| text("result")),
            ..exit(worker.0, status)
        })));
    }

    pub(super) fn ready(&mut self, which: u8, fine: bool) {
        let loading = self.some_processes(|process| {
            process.is_pooled() && process.started && process.ready.is_none() && !process.broken
        });
        let Some(at) = choose(which, loading.len()) else { return };
        let worker = loading[at];
        let process = self.processes.get_mut(&worker).unwrap();
        if fine {
            let concurrency = 1 + u32::from(which % 3);
            let most = process.order.rules.kind.pool().unwrap().concurrency;
            process.ready = Some(concurrency.min(most).try_into().unwrap());
            let cancels = which.is_multiple_of(2);
            self.handle(Event::WorkerReady {
                worker,
                concurrency,
                cancels,
            });
        } else {
            process.broken = true;
            let message = "no such module".to_owned();
            self.handle(Event::LoadFailed { worker, message });
        }
    }

    pub(super) fn answer(&mut self, which: u8, reason: Reason) {
        let calls = self
            .processes
            .iter()
            .flat_map(|(worker, process)| process.calls.keys().map(|call| (*worker, *call)));
        let calls: Vec<_> = calls.collect();
        let Some(at) = choose(which, calls.len()) else { return };
        let (worker, call) = calls[at];
        let process = self.processes.get_mut(&worker).unwrap();
        process.calls.remove(&call);
        process.cancelled.remove(&call);
        self.handle(answered(worker, call, reason));
    }
}
