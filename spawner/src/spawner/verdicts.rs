//! Sends settings and functions to the judge, and installs the functions that it accepts.

use super::*;
use crate::grants::Rights;
use crate::install::{Planned, Purpose};
use crate::secrets::credentials::Gathered;
use crate::uids::{Assigned, UidOwner};
use fnd_wire::frame::{InstalledWithTree, SET_ASIDE};
use fnd_wire::plan::{FunctionJudgment, Plan, is_builder};
use std::rc::Rc;

/// Help for a limit that can't be enforced.
const GO_ON: &str =
    "remove it from the manifest, or set `best_effort_limits = true` in fnd.toml (`--best-effort-limits`)";

/// Help for a stored version whose rights were withdrawn.
const WITHDRAWN: &str = "choose another release, or correct the file of the function";

/// Largest number of functions with a large file being copied, since the files of each that were read are held in
/// memory.
const COPIES_MAX: usize = 4;

/// How many jobs are searched for one of the same owner, and how often the first job may be skipped.
const BATCH: usize = 64;

/// The work that is read and judged, each with its request's number, in order.
pub(super) enum Job {
    Reload(u64),
    /// The last good configuration, in place of a newer one that was refused.
    LastGood(u64, JudgeSettings, SettingsRead),
    Install(u64, Install, Purpose),
}

/// A function that the judge has judged.
pub(super) struct Judged {
    pub(super) snapshot: Snapshot,
    pub(super) function: Box<FunctionJudgment>,
}

/// The subject of a question to the judge.
pub(super) enum Subject {
    /// Settings: the request, whether root owns all files, and the refused newer settings that these replace.
    Settings(u64, bool, Option<SettingsRead>),
    Function(Box<Snapshot>),
}

impl Spawner {
    /// Handles the judge's answers that came, and the judge's end.
    pub(super) fn judge_answered(&mut self) {
        while let Some(reply) = self.judge.answer(&self.poller) {
            if let Some(subject) = self.judging.pop_front() {
                self.judged(subject, reply);
            }
        }
    }

    /// Reads files for one turn, and sends them to the judge; handles the end of a judge that is silent.
    pub(super) fn judge_some(&mut self) {
        if self.judge.deadline().is_some_and(|deadline| now() >= deadline) {
            self.judge_answered();
        }
        let until = now() + install::TURN.2;
        while now() < until {
            if self.next.is_none() {
                self.next = self.read_some();
            }
            let Some((subject, question)) = self.next.take() else { if self.can_read() { continue } else { break } };
            let owner = match &subject {
                // A judge that has read files of other people must not judge the settings.
                Subject::Settings(..) => self.sources.myself.uid,
                Subject::Function(snapshot) => snapshot.owner,
            };
            // Functions are judged by the settings that are in force when they are installed.
            let is_settings = |subject: &Subject| matches!(subject, Subject::Settings(..));
            let waits = |last| is_settings(last) || is_settings(&subject);
            if self.judging.back().is_some_and(waits) || !self.judge.has_room(owner) {
                self.next = Some((subject, question));
                break;
            }
            match self.judge.ask(&question, owner, &self.poller) {
                Ok(()) => self.judging.push_back(subject),
                Err(why) => self.unjudged(subject, &why, "check the option --fnd and the log of fnd-spawner"),
            }
        }
        if !self.can_read() && self.judging.is_empty() {
            // An idle spawner keeps no directory open, so that it keeps no file system mounted.
            self.sources.facts = StatCache::default();
        }
    }

    /// Returns whether [`judge_some`](Self::judge_some) has something to do now.
    pub(super) fn can_read(&self) -> bool {
        let jobs = !self.jobs.is_empty() && self.helpers.copying() < COPIES_MAX;
        self.next.is_none() && (self.reading.is_some() || !self.copied.is_empty() || jobs)
    }

    fn read_some(&mut self) -> Option<(Subject, JudgeRequest)> {
        if !self.can_read() {
            return None;
        }
        let mut snapshot = match self.reading.take().or_else(|| self.copied.pop_front()) {
            Some(snapshot) => snapshot,
            None => match self.next_job()? {
                Job::Reload(request) => return self.read_settings(request),
                Job::LastGood(request, settings, refused) => {
                    let subject = Subject::Settings(request, configuration::trusted(&settings), Some(refused));
                    return Some((subject, JudgeRequest::Settings(settings)));
                }
                Job::Install(request, install, purpose) => {
                    self.snapshots += 1;
                    let staging = self.workers.host.places.state.join(format!("versions/.new-{}", self.snapshots));
                    match Snapshot::new(request, &install, &self.sources, staging) {
                        Ok(mut snapshot) => {
                            snapshot.purpose = purpose;
                            snapshot
                        }
                        Err(problem) => {
                            self.claim_unread(&install);
                            let (function, problems) = (install.function, vec![problem]);
                            self.refuse(request, Refused { function, problems, document: None });
                            return None;
                        }
                    }
                }
            },
        };
        match snapshot.read(&self.sources, install::TURN) {
            Err(problem) => self.refuse_unread(snapshot, problem),
            Ok(InstallProgress::More) => self.reading = Some(snapshot),
            Ok(InstallProgress::Copy) => self.copy(snapshot),
            Ok(InstallProgress::Read) if snapshot.purpose == Purpose::Files => {
                self.reply(snapshot.request, &Reply::Files(snapshot.stored_files()), Vec::new());
                self.put_away(snapshot);
            }
            Ok(InstallProgress::Read) if is_builder(snapshot.install.function.as_str()) => self.lend(snapshot),
            Ok(InstallProgress::Read) => {
                let question = snapshot.question();
                return Some((Subject::Function(Box::new(snapshot)), question));
            }
        }
        None
    }

    /// Has a helper copy the large file, or unpack the archive.
    pub(super) fn copy(&mut self, snapshot: Snapshot) {
        let host = &self.workers.host;
        match snapshot.copier(&host.helper, host.myself.root()) {
            Ok((is_archive, body)) => {
                let lane = if is_archive { Lane::Unpack } else { Lane::Write };
                self.helpers.add_with(lane, After::Copied(Box::new(snapshot)), body);
            }
            Err(error) => {
                let problem = problem(&snapshot.shown, format!("failed to copy it: {error}"), "try again");
                self.refuse_unread(snapshot, problem);
            }
        }
    }

    /// Returns the next job. Each other owner's files need a new judge, so among the first jobs one is preferred whose
    /// owner the judge has read files of. Such a job can't skip the first one for ever, nor overtake a job of the same
    /// function or of the configuration.
    fn next_job(&mut self) -> Option<Job> {
        let mut before = Vec::new();
        let mut taken = 0;
        for (index, job) in self.jobs.iter().enumerate().take(BATCH - self.passed_over) {
            // No file overtakes a configuration, since functions are judged by the settings in force.
            let Job::Install(_, install, _) = job else { break };
            let dir = self.sources.dirs.get(usize::from(install.directory));
            // This owner is only a hint for the order. The owner that counts is read from the open file.
            let meta = dir.and_then(|dir| fs::metadata(dir.join(&install.source)).ok());
            if !before.contains(&&install.function) && meta.is_some_and(|meta| Some(meta.uid()) == self.judge.owner) {
                taken = index;
                break;
            }
            before.push(&install.function);
        }
        self.passed_over = if taken > 0 { self.passed_over + 1 } else { 0 };
        self.jobs.remove(taken)
    }

    /// Refuses a function because of a problem that was found before the judge read it.
    pub(super) fn refuse_unread(&mut self, snapshot: Snapshot, problem: Problem) {
        self.claim_unread(&snapshot.install);
        self.refuse_snapshot(snapshot, vec![problem], None);
    }

    pub(super) fn refuse_snapshot(&mut self, snapshot: Snapshot, problems: Vec<Problem>, document: Option<Bytes>) {
        self.refuse(snapshot.request, Refused { function: snapshot.install.function.clone(), problems, document });
        self.put_away(snapshot);
    }

    /// Records that files claim the name of a function although they can't be used as they are: this withdraws nothing, so the version that
    /// served last may come back.
    fn claim_unread(&mut self, install: &Install) {
        let Some(dir) = self.sources.dirs.get(usize::from(install.directory)) else { return };
        let place = dir.join(&install.source);
        // fnd chooses the form; with the wrong one it could have any file refused here.
        let meta = fs::metadata(&place).ok().filter(|meta| meta.is_dir() == install.directory_form);
        if let Some(meta) = meta.filter(|_| self.sources.claim(install).is_ok()) {
            let trusted = [0, self.sources.myself.uid].contains(&meta.uid()) && *dir != self.sources.uploads;
            let trust = self.sources.trust(trusted, meta.uid(), &place.display().to_string(), &install.function);
            self.grants.claimed(&install.function, &trust, &place, None);
        }
    }

    fn judged(&mut self, subject: Subject, reply: Option<JudgeReply>) {
        match (subject, reply) {
            (Subject::Settings(request, trusted, refused), Some(JudgeReply::Settings(settings))) => {
                self.settings_judged((request, trusted, refused), settings);
            }
            (Subject::Function(mut snapshot), Some(JudgeReply::Function(mut function))) => {
                snapshot.build = function.build.take();
                let plan = function.verdict.plan.as_ref();
                let is_fetched = plan.is_none() && snapshot.source.is_none() && snapshot.build.is_some();
                // A stored version asks for nothing: only the files may let a function have more.
                let rights = Rights::of(&function, snapshot.build.as_ref());
                let (name, trust) = (&snapshot.install.function, snapshot.trust(&self.sources));
                if snapshot.is_stored_version() {
                    if let Err(why) = self.grants.stands(name, &trust, &rights.unwrap_or_default()) {
                        let problem = problem(&snapshot.shown, why, WITHDRAWN);
                        return self.refuse_judged(Judged { snapshot: *snapshot, function }, vec![problem]);
                    }
                } else if snapshot.purpose != Purpose::Check {
                    // Code that has not been fetched yet has no plan, so nobody knows which user it asks for.
                    if !is_fetched {
                        self.grants.judged(name, plan, snapshot.stamps.clone());
                    }
                    self.grants.claimed(name, &trust, snapshot.shown.as_ref(), rights);
                }
                let credentials = plan.map(|_| std::mem::take(&mut function.credentials)).unwrap_or_default();
                let of_build = snapshot.build.as_ref().map(|build| build.credentials.clone()).unwrap_or_default();
                let judged = Judged { snapshot: *snapshot, function };
                let is_one = of_build.is_empty();
                self.gather(judged, if is_one { (credentials, None) } else { (of_build, Some(credentials)) });
            }
            (subject, _) => {
                let help = "simplify the file; if that does not help, report the error together with the file";
                self.unjudged(subject, "the judge ended while reading this file", help);
            }
        }
    }

    /// Decides about a function whose secrets and service bindings, if it gets any, were gathered.
    pub(super) fn decide(&mut self, judged: Judged, gathered: Option<Gathered>) {
        let Judged { mut snapshot, function } = judged;
        if function.verdict.plan.is_none()
            && snapshot.source.is_none()
            && let Some(build) = snapshot.build.take()
        {
            return self.fetch(snapshot, function, build);
        }
        let FunctionJudgment { verdict, secrets, sandbox, .. } = *function;
        let digest = gathered.as_ref().map(|gathered| gathered.head.digest);
        let build = snapshot.build.take().filter(|_| verdict.plan.is_some());
        let tree = match build.map(|build| self.tree(&mut snapshot, build, false)).transpose() {
            Ok(Some(Err(build))) => return self.needs_build(snapshot, verdict.document, *build),
            Ok(tree) => Ok(tree.and_then(Result::ok)),
            Err(problems) => Err(problems),
        };
        let result = tree.and_then(|tree| {
            snapshot.tree = tree;
            let plan = verdict.plan.zip(sandbox).ok_or_else(Vec::new)?;
            let asks = (!secrets.is_empty()).then_some("its routes name secrets");
            snapshot.may_ask(asks, "").map_err(|problem| vec![problem])?;
            self.secrets.check(&secrets)?;
            self.install(&snapshot, plan, [digest, tree]).map_err(|problem| vec![problem])
        });
        self.secrets.judged(&snapshot.install.function, result.is_ok().then_some(secrets), snapshot.stamps.clone());
        match result {
            Ok((plan, installed, group)) => {
                self.workers.give(installed.id, installed.version, gathered);
                self.store(snapshot, plan, Installed { document: verdict.document, ..installed }, group);
            }
            Err(problems) => self.refuse_snapshot(snapshot, problems, Some(verdict.document)),
        }
    }

    fn unjudged(&mut self, subject: Subject, why: &str, help: &str) {
        match subject {
            Subject::Settings(request, _, Some(refused)) => self.reply(request, &Reply::Settings(refused), Vec::new()),
            Subject::Settings(request, _, None) => {
                let problems = vec![problem(&self.workers.host.args.config.display().to_string(), why, help)];
                self.settings_refused(request, Bytes::default(), problems);
            }
            Subject::Function(snapshot) => {
                let problems = vec![problem(&snapshot.shown, why, help)];
                self.refuse_snapshot(*snapshot, problems, None);
            }
        }
    }

    pub(super) fn refuse(&mut self, request: u64, refused: Refused) {
        self.reply(request, &Reply::Refused(refused), Vec::new());
    }

    /// Decides how a function is installed, with the digests of its secrets and dependencies; returns the plan, the answer, and the group that gets the files.
    pub(super) fn install(
        &mut self,
        snapshot: &Snapshot,
        (mut plan, sandbox): (Plan, fnd_wire::sandbox::Sandbox),
        [secrets, tree]: [Option<Version>; 2],
    ) -> Result<(Planned, Installed, Option<u32>), Problem> {
        let shown = &snapshot.shown;
        let unread = || problem(shown, "the configuration has not been read yet", "try again");
        let policy = self.policy.as_ref().ok_or_else(unread)?;
        let (host, facts) = (&self.workers.host, &self.sources.facts);
        let function = &snapshot.install.function;
        // A file may have taken over the judge, so nothing in the plan is believed.
        if let Some(why) = plan.flaw(function, snapshot.holds(&plan.entry)).or_else(|| sandbox.flaw()) {
            return Err(problem(shown, why, "correct the manifest"));
        }
        if snapshot.is_stored_version() {
            let help = "write the user into the manifest, or choose another release";
            self.grants.check(&plan).map_err(|why| problem(shown, why, help))?;
        }
        let interpreter = policy::interpreter(&plan, shown, [snapshot.owner, host.myself.uid], facts)?;
        let mut warnings = Vec::new();
        policy::shim(&plan, &host.myself, facts)?;
        // A limit that the manifest names is a refusal. A default that can't be enforced is only shown by `status`.
        for (limit, why) in host.missing().iter().filter(|(limit, _)| plan.limits.asked.contains(limit)) {
            let message = format!("the limit `{limit}` can't be enforced here: {why}");
            if !policy.best_effort_limits && limit != TMP {
                return Err(problem(shown, message, GO_ON));
            }
            warnings.push(problem(shown, message, "the limit is not in force"));
        }
        let widens = |key: &str| format!("`sandbox.{key}` gives it more than other functions");
        snapshot.may_ask(sandbox.widens(self.profile).map(widens), ", or remove the setting")?;
        snapshot.may_ask(plan.calls().then_some("it wants to call fnd"), ", or remove `[access]`")?;
        let lacking = host.lacking.0.iter().find(|(layer, _)| sandbox.asked.iter().any(|asked| asked == layer));
        if let Some((layer, why)) = lacking {
            let message = format!("its sandbox needs `{layer}`, which this machine can't give: {why}");
            let help = "remove the setting from `[sandbox]` of the manifest, or use another machine";
            return Err(problem(shown, message, help));
        }
        let tools = host.tools(facts).map_err(|error| problem(shown, error.to_string(), "try again"))?;
        let code: Vec<_> = host.args.functions.iter().filter_map(|dir| facts.real(dir).ok()).collect();
        policy::visible((&sandbox, [&tools, &code], facts), shown, &interpreter)?;
        let range = host.myself.root().then_some(policy.uid_range);
        let owner = snapshot.owner(&self.sources);
        let again =
            snapshot.is_stored_version().then(|| self.uids.again(function, snapshot.apart.get(), range)).flatten();
        let assigned = again.map_or_else(|| self.uids.assign(function, owner.as_ref(), range, host.myself.uid), Ok);
        let Assigned { id, uid, apart } = assigned.map_err(|why| problem(shown, why, "check `[users]` in fnd.toml"))?;
        snapshot.apart.set(apart.then_some(uid));
        let dirs = host.places.of(&function.file_form()).of_user(snapshot.apart.get());
        if range.is_some() {
            warnings.extend(self.set_aside((function, uid), owner.as_ref(), shown));
            host.forget_names(function, self.uids.users(function, Some(uid)).map(|(other, ..)| other));
        }
        let help = "remove `user`, `groups` and `capabilities` from the manifest, or allow them";
        let granted = policy::identity(&plan, uid, policy, snapshot.trusted, &host.myself);
        let (identity, _) = granted.map_err(|why| problem(shown, why, help))?;
        drop(host.name(&plan, uid, &dirs.home)); // so that people can use it before the first start
        let (version, load_key) = snapshot.versions(&plan.runtime, &interpreter, [secrets, tree]);
        // The stored plan holds only the chosen interpreter, by the path that is executed.
        plan.interpreters = Some(interpreter.given.clone()).filter(|given| !given.is_empty()).into_iter().collect();
        plan.asked_interpreters = 0;
        let group = identity.as_ref().map(|identity| identity.gid);
        if plan.calls() {
            let made = host.places.prepare_api(id, group.map(|gid| (self.workers.fnd.0, gid)));
            made.failed("make its socket's directory").map_err(|why| problem(shown, why, "check the run directory"))?;
        }
        let uid = identity.map_or(self.sources.myself.uid, |identity| identity.uid);
        let (function, interpreter, document) = (function.clone(), interpreter.given, Bytes::default());
        let installed = Installed { function, id, version, load_key, interpreter, uid, warnings, document };
        Ok(((plan, (sandbox, secrets.is_some())), installed, group))
    }

    /// Returns a warning for each home that has files and belongs to another user of the function: its files belong to another
    /// owner than before.
    fn set_aside(&self, (function, uid): (&FunctionName, u32), owner: Option<&UidOwner>, shown: &str) -> Vec<Problem> {
        let warning = |(other, before, apart): (u32, Option<&UidOwner>, bool)| {
            let home = self.workers.host.places.of(&function.file_form()).of_user(apart.then_some(other)).home;
            // Only root can rename what is in the directory of all homes, so this is that user's own directory.
            let home = Some(home).filter(|home| !places::is_empty(home))?;
            let of = |owner: Option<&UidOwner>| owner.map_or_else(|| "somebody else".to_owned(), ToString::to_string);
            let (now, before, home) = (of(owner), of(before), home.display());
            let message = format!(
                "its files belong to {now} and belonged to {before} before, so it has a home of its own (user {uid}); {SET_ASIDE}: `{home}`"
            );
            let help = format!(
                "run `fndctl home {function} --take {other}` if it may have these files, otherwise remove them"
            );
            Some(problem(shown, message, help))
        };
        self.uids.users(function, Some(uid)).filter_map(warning).collect()
    }

    /// Copies a function to its place; if it is large, a helper does it.
    pub(super) fn store(&mut self, snapshot: Snapshot, plan: Planned, installed: Installed, group: Option<u32>) {
        let (snapshot, places) = (Rc::new(snapshot), self.workers.host.places.clone());
        if !snapshot.is_staged() {
            let written = snapshot.store(&plan, &installed.version, &places, group);
            return self.stored(&snapshot, installed, written.map_err(|error| error.to_string()));
        }
        let (copy, version) = (Rc::clone(&snapshot), installed.version);
        let body = move || install::write_report(&copy.report(), copy.store(&plan, &version, &places, group));
        self.helpers.add(Lane::Write, After::Stored(snapshot, Box::new(installed)), Box::new(body));
    }

    /// Handles the result of copying a function to its place.
    pub(super) fn stored(&mut self, snapshot: &Snapshot, installed: Installed, written: Result<bool, String>) {
        let written = match written {
            Ok(written) => written,
            Err(why) => {
                let help = "check the state directory and the free space on its disk";
                let problems = vec![problem(&snapshot.shown, format!("failed to install it: {why}"), help)];
                let Installed { function, document, .. } = installed;
                return self.refuse(snapshot.request, Refused { function, problems, document: Some(document) });
            }
        };
        if written && self.sync_at.is_none() {
            self.sync_at = Some(now() + SYNC_AFTER);
        }
        // The plan may change while the version stays the same: by the configuration, or by a runtime's description.
        self.workers.retire(installed.id, (!written).then_some(installed.version));
        let reply = match snapshot.tree {
            Some(tree) => Reply::InstalledWithTree(InstalledWithTree { installed, tree }),
            None => Reply::Installed(installed),
        };
        self.reply(snapshot.request, &reply, Vec::new());
    }
}
