//! Carries out requests. Most are answered at once; the judge and the helpers answer when the seed chooses.

use super::fnd_link::FndRequest;
use super::*;
use fnd_wire::frame::{
    AdoptionRecord, PROTOCOL_0_1, Problem, Prune, RECORD_MAX, Release, SealTree, SpawnFailed, Sweep, Swept,
};
use fnd_wire::plan::is_own;

impl SpawnerModel {
    /// Carries out the oldest request that has come.
    pub(super) fn carry_out(&mut self, turn: &mut SpawnerTurn<'_>) {
        let Some(incoming) = self.link.requests.pop_front() else {
            return;
        };
        let FndRequest {
            number,
            request,
            descriptors,
        } = incoming;
        turn.facts.push(Fact::Requested(number, request.clone()));
        let id = RequestId {
            connection: self.connection,
            number,
        };
        if self.protocol == PROTOCOL_0_1 && is_of_4(&request) {
            // That spawner cannot read the request, and ends the connection.
            turn.defect(format!("the spawner of fnd 0.1 gets {request:?}"));
            return self.link.close();
        }
        if !self.is_welcomed && !matches!(request, Request::Hello(_)) {
            turn.defect(format!("{request:?} comes before Hello"));
        }
        match request {
            Request::Hello(hello) => return self.hello(number, &hello, turn),
            Request::Reload => return self.judge_queue.push_back(JudgeWork::Reload(id)),
            // No content has a source, so there is nothing to fetch.
            Request::Install(install) | Request::Fetch(install) => {
                return self.judge_later(id, install, InstallPurpose::Install);
            }
            Request::Check(install) => return self.judge_later(id, install, InstallPurpose::Check),
            Request::Rebuild(install) => return self.judge_later(id, install, InstallPurpose::Rebuild),
            Request::Files(install) => return self.judge_later(id, install, InstallPurpose::Files),
            Request::Spawn(spawn) => return self.order(id, spawn, &descriptors, turn),
            Request::Watch(spawn) | Request::Measure(spawn) => {
                self.next_worker = WorkerId(spawn.worker.0 + 1);
                let (worker, message) = (spawn.worker, "programs of fnd itself are not simulated".to_owned());
                return self.reply(id, &Reply::SpawnFailed(SpawnFailed { worker, message }), Vec::new());
            }
            Request::Release(release) => return self.release(id, &release, turn),
            Request::Prune(prune) => return self.prune(id, &prune, turn),
            Request::Sweep(sweep) => return self.sweep(id, &sweep),
            Request::Seal(seal) => return self.seal(id, seal),
            Request::PruneTrees(_) => return self.helpers.push((id, HelperWork::PruneTrees)),
            Request::Acknowledge(worker) => return self.acknowledge(worker, turn),
            Request::Secret(asked) => {
                let refused = Problem {
                    file: "/etc/fnd/secrets".to_owned(),
                    message: format!("there is no secret `{}`", asked.name),
                    help: String::new(),
                };
                return self.reply(id, &Reply::SecretRefused(refused), Vec::new());
            }
            Request::AdoptionRecord(record) => self.set_record(record, turn),
            Request::Lease(lease) => self.lease(lease, turn),
            Request::Term(worker) => self.terminate(worker, TermCause::Asked, turn),
            Request::Kill(worker) => self.kill(worker, turn),
            // Launchers are not simulated: each start sees the version as it is.
            Request::Remove(_) | Request::Retire(_) | Request::Ping => {}
        }
        self.reply(id, &Reply::Done, Vec::new());
    }

    /// Leaves an installation to the judge.
    fn judge_later(&mut self, id: RequestId, install: Install, purpose: InstallPurpose) {
        self.judge_queue.push_back(JudgeWork::Install(id, install, purpose));
    }

    fn set_record(&mut self, AdoptionRecord { worker, record }: AdoptionRecord, turn: &mut SpawnerTurn<'_>) {
        if worker >= self.next_worker || record.0.len() > RECORD_MAX {
            turn.defect(format!("the adoption record of {worker} cannot be kept"));
        }
        if let Some(process) = self.processes.get_mut(&worker) {
            process.record = record;
        }
    }

    fn release(&mut self, id: RequestId, release: &Release, turn: &mut SpawnerTurn<'_>) {
        let Release { function, invocation } = *release;
        let is_used = |process: &ProcessRecord| process.id == function && process.invocation == invocation;
        if self
            .processes
            .values()
            .any(|process| is_used(process) && !process.is_over())
        {
            turn.defect(format!("the files of {invocation} are removed while it runs"));
        }
        if self.name(function).is_none() {
            let why = "no function has this number".to_owned();
            return self.reply(id, &Reply::Failed(why), Vec::new());
        }
        self.helpers.push((id, HelperWork::Release(function, invocation)));
    }

    /// Decides now which versions go, and has a helper remove them.
    fn prune(&mut self, id: RequestId, prune: &Prune, turn: &mut SpawnerTurn<'_>) {
        let Prune { function, keep } = prune;
        self.homes.keep(function, keep);
        let goes = |(of, version): &&(FunctionName, Version)| of == function && !keep.contains(version);
        let all: Vec<_> = self.disk.stored.iter().filter(goes).cloned().collect();
        // A process that runs may still read its code.
        let (runs, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(|(of, version)| self.uses(of, *version));
        if !runs.is_empty() && !is_own(function.as_str()) {
            turn.defect(format!("versions of {function} go although they run: {runs:?}"));
        }
        self.helpers.push((id, HelperWork::Prune(gone)));
    }

    /// Returns whether a process of a version runs or begins.
    pub(super) fn uses(&self, function: &FunctionName, version: Version) -> bool {
        let is_it = |process: &ProcessRecord| process.function == *function && process.version == version;
        self.processes
            .values()
            .any(|process| is_it(process) && !process.is_over())
    }

    /// Removes the files of invocations that neither fnd nor the spawner knows.
    fn sweep(&mut self, id: RequestId, sweep: &Sweep) {
        let held: BTreeSet<_> = self.processes.values().map(|process| process.invocation).collect();
        self.disk
            .tmp
            .retain(|(_, invocation)| held.contains(invocation) || sweep.invocations.contains(invocation));
        // No function here has a home, so a function that is gone leaves nothing.
        let swept = Swept {
            names: Vec::new(),
            count: 0,
        };
        self.reply(id, &Reply::Swept(swept), Vec::new());
    }

    fn seal(&mut self, id: RequestId, SealTree { function, tree }: SealTree) {
        let is_idle = !self
            .processes
            .values()
            .any(|process| process.function == function && !process.is_over());
        let Some(tree) = tree else {
            self.homes.clearing(&function, is_idle);
            return self.helpers.push((id, HelperWork::Clear(function)));
        };
        match self.homes.seals(&function, tree, is_idle) {
            Ok(()) => self.helpers.push((id, HelperWork::Seal(function, tree))),
            Err(why) => self.reply(id, &Reply::Sealed(Some(why)), Vec::new()),
        }
    }

    /// Ends the work of a helper, and answers.
    pub(super) fn finish_helper(&mut self, id: RequestId, work: HelperWork) {
        let disk = &mut self.disk;
        let reply = match work {
            HelperWork::Release(function, invocation) => {
                disk.tmp.remove(&(function, invocation));
                Reply::Done
            }
            HelperWork::Prune(gone) => {
                disk.stored.retain(|version| !gone.contains(version));
                Reply::Done
            }
            HelperWork::PruneTrees => Reply::Done,
            HelperWork::Seal(function, tree) => {
                disk.trees.insert(tree);
                disk.build_homes.remove(&function);
                self.homes.sealed(&function);
                Reply::Sealed(None)
            }
            HelperWork::Clear(function) => {
                disk.build_homes.remove(&function);
                self.homes.cleared(&function);
                Reply::Sealed(None)
            }
        };
        self.reply(id, &reply, Vec::new());
    }
}

/// Returns whether a request belongs to protocol 4.
fn is_of_4(request: &Request) -> bool {
    match request {
        Request::Secret(_)
        | Request::Watch(_)
        | Request::Measure(_)
        | Request::Files(_)
        | Request::PruneTrees(_)
        | Request::Fetch(_)
        | Request::Check(_)
        | Request::Seal(_)
        | Request::Rebuild(_)
        | Request::Retire(_)
        | Request::Lease(_) => true,
        Request::Hello(_)
        | Request::Reload
        | Request::Install(_)
        | Request::Remove(_)
        | Request::Spawn(_)
        | Request::Term(_)
        | Request::Kill(_)
        | Request::Release(_)
        | Request::Acknowledge(_)
        | Request::Prune(_)
        | Request::AdoptionRecord(_)
        | Request::Sweep(_)
        | Request::Ping => false,
    }
}
