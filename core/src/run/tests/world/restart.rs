//! fnd ends and comes back.

use super::*;

impl World {
    /// fnd goes down, by a crash or a hand-over, and comes back; its callers' connections are gone.
    pub(super) fn restart(&mut self, in_order: bool, workers_survive: bool, exits: u8) {
        if self.draining {
            return;
        }
        if in_order {
            self.handle(Event::HandOver);
            while !self.to_store.is_empty() || !self.to_publish.is_empty() {
                self.step(&Step::Store { which: 0, fine: true });
            }
            // These claims come too late: nothing begins any more.
            self.step(&Step::Claim { fine: exits > 0 });
            if !self.drained {
                // The time for requests whose connections end with fnd is over.
                self.handle(Event::HandOver);
            }
            assert!(std::mem::take(&mut self.drained), "the hand-over does not end");
            assert!(self.owed.is_empty(), "nobody answered {:?}", self.owed);
        }
        if !workers_survive {
            self.processes.clear();
        }
        self.calls = 0;
        let members = if in_order { self.handed_over() } else { Vec::new() };
        // The state of the other connections is unknown, so those workers are killed.
        self.processes
            .retain(|id, process| !process.is_pooled() || members.iter().any(|member| member.worker == *id));
        self.owed.clear();
        for id in std::mem::take(&mut self.to_store) {
            self.not_stored(id, exits > 0);
        }
        for shares in std::mem::take(&mut self.to_publish) {
            for accepted in shares.events.iter().flat_map(|event| &event.accepted) {
                self.ledger.remove(&accepted.id);
            }
        }
        for id in std::mem::take(&mut self.to_claim) {
            // The claim may be on disk although fnd has not heard of it.
            self.ledger.get_mut(&id).unwrap().claim_over(exits > 0);
        }
        if workers_survive {
            // The table of begun attempts survived, so claimed invocations that have not begun wait again. A power cut
            // would destroy it.
            self.ledger.values_mut().for_each(Entry::unclaim);
        }
        let unfinished = self.ledger.values().filter_map(Entry::unfinished).collect();
        self.s = Supervisor::new(2, self.budget, WorkerId(self.next_worker));
        self.s.set_groups(self.groups.clone());
        self.spawner = true;
        self.silent = false;
        let scripts = self.processes.iter_mut().filter(|(_, process)| !process.is_pooled());
        let adopted = scripts.map(|(worker, process)| {
            // The spawner lists its workers only when no start is under way.
            process.started = true;
            process.killed = false;
            Adopted {
                worker: *worker,
                record: serde_json::from_str(&process.record).unwrap(),
                age: self.now.mono - process.since,
                ended: false,
                termed: process.term.map(|at| (self.now.mono - at, TermCause::Asked)),
            }
        });
        let adopted: Vec<Adopted> = adopted.collect();
        let calls = members.iter().flat_map(|member| &member.record.calls);
        let recorded = calls.map(|call| (call.run.invocation, call.run.attempt));
        let recorded = recorded.chain(
            adopted
                .iter()
                .map(|adopted| (adopted.record.run.invocation, adopted.record.run.attempt)),
        );
        let ended = recorded.filter(|(id, attempt)| self.ledger.get(id).is_some_and(|entry| entry.has_end(*attempt)));
        let ended = ended.collect();
        self.handle(Event::Restored(Box::new(Restored {
            unfinished,
            adopted,
            members,
            ended,
            loaded: self.loaded.iter().cloned().collect(),
            disabled: self.disabled.iter().cloned().collect(),
            ..Restored::default()
        })));
        for n in 0..exits {
            self.exit(n, n, (false, false));
        }
        self.canaries.clear();
        for (function, (version, rules)) in self.installed.clone() {
            self.unsettled.insert(function.clone());
            let load_id = self.id();
            self.handle(Event::Installed(Box::new(InstalledVersion {
                function,
                id: FunctionId(1),
                version,
                load_key: version,
                load_id,
                rules: rules.into(),
            })));
        }
        for function in self.refused.clone() {
            let error = "bad".to_owned();
            self.handle(Event::Refused { function, error });
        }
        self.handle(Event::Scanned { whole: true });
    }

    /// Returns the adoption records of the handlers' workers.
    fn handed_over(&self) -> Vec<AdoptedMember> {
        let started = self
            .processes
            .iter()
            .filter(|(_, process)| process.is_pooled() && process.started && !process.broken);
        let member = |(worker, process): (&WorkerId, &Process)| {
            let record = serde_json::to_string(&self.s.member_record(*worker)?).unwrap();
            Some(AdoptedMember {
                worker: *worker,
                record: serde_json::from_str(&record).unwrap(),
                age: self.now.mono - process.since,
                ended: false,
                is_fenced: false,
            })
        };
        started.filter_map(member).collect()
    }
}
