//! Settings and functions as the judge sees them, and installing what it lets through.

use super::*;

/// What to do about a limit that can't be enforced.
const GO_ON: &str =
    "remove it from the manifest, or set `best_effort_limits = true` in fnd.toml (`--best-effort-limits`)";

/// What is read and judged, with the request's number, in order.
pub(super) enum Job {
    Reload(u32),
    /// The last good configuration, in place of a newer one that is refused.
    LastGood(u32, JudgeSettings, SettingsRead),
    Install(u32, Install),
}

/// What the judge is asked about.
pub(super) enum Subject {
    /// Settings: for which request, whether the files are all root's, and the newer ones in whose place they are judged.
    Settings(u32, bool, Option<SettingsRead>),
    Function(Box<Snapshot>),
}

impl Job {
    pub(super) fn request(&mut self) -> &mut u32 {
        let (Self::Reload(request) | Self::LastGood(request, ..) | Self::Install(request, _)) = self;
        request
    }
}

impl Subject {
    pub(super) fn request(&mut self) -> &mut u32 {
        match self {
            Self::Settings(request, ..) => request,
            Self::Function(snapshot) => &mut snapshot.request,
        }
    }
}

impl Spawner {
    /// Nobody waits any more for what was asked: numbers of requests begin anew with the next fnd.
    pub(super) fn disown(&mut self) {
        let subjects = self.judging.iter_mut().chain(self.next.iter_mut().map(|(subject, _)| subject));
        let reading = self.reading.iter_mut().map(|snapshot| &mut snapshot.request);
        let jobs = self.jobs.iter_mut().map(Job::request);
        let helpers = self.helpers.values_mut().map(|(_, (request, _))| request);
        let tasks = self.tasks.iter_mut().map(|task| &mut task.request);
        let judged = subjects.map(Subject::request).chain(reading).chain(jobs);
        judged.chain(helpers).chain(tasks).for_each(|request| *request = 0);
    }

    /// Takes the judge's answer, if it came; sees its end too.
    pub(super) fn judge_answered(&mut self) {
        if let Some(reply) = self.judge.answer()
            && let Some(subject) = self.judging.take()
        {
            self.judged(subject, reply);
        }
    }

    /// Takes the answer to what was asked, asks the judge what was read, and reads a little of what is to be asked next.
    pub(super) fn judge_some(&mut self) {
        if self.judge.deadline().is_some() {
            self.judge_answered();
        }
        if self.next.is_none() {
            self.next = self.read_some();
        }
        if self.judge.deadline().is_none()
            && let Some((subject, question)) = self.next.take()
        {
            match self.judge.ask(&question, &self.poller) {
                Ok(()) => self.judging = Some(subject),
                Err(why) => self.unjudged(subject, &why, "check --fnd, and the log of fnd-spawner"),
            }
        }
    }

    /// Says whether [`judge_some`](Self::judge_some) has something to do now.
    pub(super) fn can_read(&self) -> bool {
        self.next.is_none() && (self.reading.is_some() || !self.jobs.is_empty())
    }

    fn read_some(&mut self) -> Option<(Subject, JudgeRequest)> {
        let mut snapshot = match self.reading.take() {
            Some(snapshot) => snapshot,
            None => match self.jobs.pop_front()? {
                Job::Reload(request) => return self.read_settings(request),
                Job::LastGood(request, settings, refused) => {
                    let subject = Subject::Settings(request, configuration::trusted(&settings), Some(refused));
                    return Some((subject, JudgeRequest::Settings(settings)));
                }
                Job::Install(request, install) => {
                    self.snapshots += 1;
                    let staging = self.workers.host().places.state.join(format!("versions/.new-{}", self.snapshots));
                    match Snapshot::new(request, &install, &self.sources, staging) {
                        Ok(snapshot) => snapshot,
                        Err(problem) => {
                            self.refuse(request, install.function, vec![problem], None);
                            return None;
                        }
                    }
                }
            },
        };
        match snapshot.read(&self.sources) {
            Err(problem) => self.refuse(snapshot.request, snapshot.install.function.clone(), vec![problem], None),
            Ok(false) => self.reading = Some(snapshot),
            Ok(true) => {
                let question = snapshot.question();
                return Some((Subject::Function(Box::new(snapshot)), question));
            }
        }
        None
    }

    fn judged(&mut self, subject: Subject, reply: Option<JudgeReply>) {
        match (subject, reply) {
            (Subject::Settings(request, trusted, refused), Some(JudgeReply::Settings(verdict))) => {
                self.settings_judged((request, trusted, refused), verdict);
            }
            (Subject::Function(snapshot), Some(JudgeReply::Function(verdict))) => {
                let result = match verdict.plan {
                    Some(plan) => self.install(&snapshot, plan),
                    None => Err(Vec::new()),
                };
                match result {
                    Ok(installed) => {
                        let installed = Installed { document: verdict.document, ..installed };
                        self.reply(snapshot.request, &Reply::Installed(installed), Vec::new());
                    }
                    Err(problems) => {
                        let function = snapshot.install.function.clone();
                        self.refuse(snapshot.request, function, problems, Some(verdict.document));
                    }
                }
            }
            (subject, _) => {
                let help = "simplify the file; if that does not help, report it with the file";
                self.unjudged(subject, "the judge ended while reading this file", help);
            }
        }
    }

    fn unjudged(&mut self, subject: Subject, why: &str, help: &str) {
        match subject {
            Subject::Settings(request, _, Some(refused)) => self.reply(request, &Reply::Settings(refused), Vec::new()),
            Subject::Settings(request, _, None) => {
                let problems = vec![problem(&self.args.config.display().to_string(), why, help)];
                let read = SettingsRead { document: Bytes::default(), problems, applied: false };
                self.settings_refused(request, read);
            }
            Subject::Function(snapshot) => {
                let problems = vec![problem(&snapshot.shown, why, help)];
                self.refuse(snapshot.request, snapshot.install.function.clone(), problems, None);
            }
        }
    }

    fn refuse(&mut self, request: u32, function: FunctionName, problems: Vec<Problem>, document: Option<Bytes>) {
        self.reply(request, &Reply::Refused(Refused { function, problems, document }), Vec::new());
    }

    fn install(&mut self, snapshot: &Snapshot, mut plan: Plan) -> Result<Installed, Vec<Problem>> {
        let shown = &snapshot.shown;
        let one = |message: String, help: &str| vec![problem(shown, message, help)];
        let unread = || one("the configuration has not been read yet".to_owned(), "try again");
        let policy = self.policy.as_ref().ok_or_else(unread)?;
        let host = self.workers.host();
        let function = &snapshot.install.function;
        if let Some(why) = policy::insane(&plan, function, snapshot.holds(&plan.entry)) {
            return Err(one(why, "correct the manifest"));
        }
        let (interpreter, mut warnings) =
            policy::interpreter(&plan, shown, snapshot.owner, &host.myself).map_err(|problem| vec![problem])?;
        policy::shim(&plan, &host.myself).map_err(|problem| vec![problem])?;
        for (limit, why) in host.missing().iter().filter(|(limit, _)| plan.limits.asked.contains(limit)) {
            let message = format!("the limit `{limit}` can't be enforced here: {why}");
            if !self.args.best_effort && !policy.best_effort_limits {
                return Err(one(message, GO_ON));
            }
            warnings.push(problem(shown, message, "it is not in force"));
        }
        let range = host.myself.root().then_some(policy.uid_range);
        let assigned = self.uids.assign(function, range, host.myself.uid);
        let (id, uid) = assigned.map_err(|why| one(why, "see [users] in fnd.toml"))?;
        let granted = policy::identity(&plan, uid, policy, snapshot.trusted, &host.myself);
        let (identity, _) =
            granted.map_err(|why| one(why, "remove `user` and `groups` from the manifest, or allow them"))?;
        let (version, load_key) = snapshot.versions(&plan.runtime, &interpreter);
        // What is stored is what was decided: the interpreter chosen, as it is to be executed.
        plan.interpreters = Some(interpreter.given).filter(|given| !given.is_empty()).into_iter().collect();
        plan.asked_interpreters = 0;
        let stored = snapshot.store(&plan, &version, &host.places, identity.as_ref().map(|identity| identity.gid));
        let help = "check the state directory and the room on its disk";
        let written = stored.failed("install it").map_err(|why| one(why, help))?;
        if written && self.sync_at.is_none() {
            self.sync_at = Some(now() + SYNC_AFTER);
        }
        // A plan may change without the version: by the configuration, or by a runtime's description.
        self.workers.retire(id, (!written).then_some(version));
        Ok(Installed {
            function: function.clone(),
            id,
            version,
            load_key,
            interpreter: interpreter.real,
            uid: identity.map_or(self.sources.myself.uid, |identity| identity.uid),
            warnings,
            document: Bytes::default(),
        })
    }
}
