//! Settings and functions as the judge sees them, and installing what it lets through.

use super::*;

/// What to do about a limit that can't be enforced.
const GO_ON: &str =
    "remove it from the manifest, or set `best_effort_limits = true` in fnd.toml (`--best-effort-limits`)";

impl Spawner {
    pub(super) fn reload(&mut self, request: u32) {
        let myself = &self.workers.host().myself;
        let (settings, problems) = crate::settings::read(&self.args.config, &self.args.runtimes, myself);
        let mut reload = (request, problems, settings.files.iter().all(|file| file.trusted));
        let request_body = JudgeRequest::Settings(settings);
        if let Err(why) = self.judge.ask(Ticket::Settings, &request_body, crate::clock::now(), &self.poller) {
            reload.1.push(problem("fnd", why, "check --fnd and that fnd is installed"));
            return self.settings_read(reload, None);
        }
        self.reloads.push_back(reload);
    }

    fn settings_read(&mut self, (request, mut problems, trusted): Reload, reply: Option<JudgeReply>) {
        let (policy, document) = if let Some(JudgeReply::Settings(verdict)) = reply {
            (verdict.policy, verdict.document.0)
        } else {
            if problems.is_empty() {
                let config = self.args.config.display().to_string();
                problems.push(problem(
                    &config,
                    "the judge ended while reading the settings",
                    "report it, with the file",
                ));
            }
            (None, Vec::new())
        };
        let applied = policy.is_some() && problems.is_empty();
        if let Some(mut policy) = policy.filter(|_| applied) {
            // Who can write the settings may not let functions be other users unless that is root anyway.
            policy.allow_root &= trusted;
            policy.allow_users.retain(|_| trusted);
            self.policy = Some(policy);
        }
        let settings = SettingsRead { document: Document::Inline(Bytes(document)), problems, applied };
        self.settings = Some(settings.clone());
        self.send_settings(request, settings);
    }

    pub(super) fn send_settings(&mut self, request: u32, settings: SettingsRead) {
        let SettingsRead { document: Document::Inline(Bytes(document)), problems, applied } = settings else {
            return;
        };
        self.reply_document(request, document, |document| {
            Reply::Settings(SettingsRead { document, problems, applied })
        });
    }

    pub(super) fn talk_to_judge(&mut self, now: Duration) {
        for (ticket, reply) in self.judge.work(now, &self.poller) {
            match ticket {
                Ticket::Settings => {
                    if let Some(reload) = self.reloads.pop_front() {
                        self.settings_read(reload, reply);
                    }
                }
                Ticket::Function(number) => {
                    if let Some(snapshot) = self.installer.judging.remove(&number) {
                        self.judged(&snapshot, reply);
                        snapshot.discard();
                    }
                }
            }
        }
    }

    pub(super) fn install_some(&mut self, now: Duration) {
        // Without a policy installs wait; with too many verdicts outstanding they do, too.
        for _ in 0..16 {
            if self.policy.is_none() || self.judge.in_flight() >= IN_FLIGHT_MAX {
                return;
            }
            match self.installer.turn(&self.sources, &self.workers.host().places) {
                Turn::Idle | Turn::Busy => return,
                Turn::Refused(request, problem) => self.refuse(request.0, request.1.function, vec![problem], None),
                Turn::Judge(number, function) => {
                    let request = JudgeRequest::Function(function);
                    let asked = self.judge.ask(Ticket::Function(number), &request, now, &self.poller);
                    if let Err(why) = asked
                        && let Some(snapshot) = self.installer.judging.remove(&number)
                    {
                        self.refuse_source(&snapshot, &why, "check the log of fnd-spawner");
                        snapshot.discard();
                    }
                }
            }
        }
    }

    fn refuse_source(&mut self, snapshot: &Snapshot, why: &str, help: &str) {
        let (request, install) = &snapshot.request;
        self.refuse(*request, install.function.clone(), vec![problem(&snapshot.shown, why, help)], None);
    }

    fn refuse(&mut self, request: u32, function: FunctionName, problems: Vec<Problem>, document: Option<Vec<u8>>) {
        let Some(document) = document else {
            return self.reply(request, &Reply::Refused(Refused { function, problems, document: None }), Vec::new());
        };
        self.reply_document(request, document, |document| {
            Reply::Refused(Refused { function, problems, document: Some(document) })
        });
    }

    fn judged(&mut self, snapshot: &Snapshot, reply: Option<JudgeReply>) {
        let Some(JudgeReply::Function(verdict)) = reply else {
            let help = "simplify the file; if that does not help, report it with the file";
            return self.refuse_source(snapshot, "the judge ended while reading this file", help);
        };
        let (request, install) = snapshot.request.clone();
        let document = verdict.document.0;
        let Some(plan) = verdict.plan else {
            return self.refuse(request, install.function, Vec::new(), Some(document));
        };
        match self.install(snapshot, &install, plan) {
            Err(problems) => self.refuse(request, install.function, problems, Some(document)),
            Ok(installed) => {
                self.reply_document(request, document, |document| {
                    Reply::Installed(Installed { document, ..installed })
                });
            }
        }
    }

    fn install(&mut self, snapshot: &Snapshot, install: &Install, mut plan: Plan) -> Result<Installed, Vec<Problem>> {
        let shown = &snapshot.shown;
        let one = |message: String, help: &str| vec![problem(shown, message, help)];
        let unread = || one("the configuration has not been read yet".to_owned(), "try again");
        let policy = self.policy.as_ref().ok_or_else(unread)?;
        let host = self.workers.host();
        if let Some(why) = policy::insane(&plan, &install.function, &snapshot.names()) {
            return Err(one(why, "correct the manifest"));
        }
        let (interpreter, mut warnings) =
            policy::interpreter(&plan, shown, snapshot.owner, &host.myself).map_err(|problem| vec![problem])?;
        for (limit, why) in host.missing().iter().filter(|(limit, _)| plan.limits.asked.contains(limit)) {
            let message = format!("the limit `{limit}` can't be enforced here: {why}");
            if !self.args.best_effort && !policy.best_effort_limits {
                return Err(one(message, GO_ON));
            }
            warnings.push(problem(shown, message, "it is not in force"));
        }
        let range = host.myself.root().then_some(policy.uid_range);
        let assigned = self.uids.assign(&install.function, range, host.myself.uid);
        let (id, uid) = assigned.map_err(|error| one(chain(&error), "see [users] in fnd.toml"))?;
        let granted = policy::identity(&plan, uid, policy, snapshot.trusted, &host.myself);
        let (identity, _) =
            granted.map_err(|why| one(why, "remove `user` and `groups` from the manifest, or allow them"))?;
        let (version, load_key) = snapshot.versions(&plan.runtime, &interpreter.real);
        // What is stored is what was decided: the interpreter chosen, as it is to be executed.
        plan.interpreters = Some(interpreter.given).filter(|given| !given.is_empty()).into_iter().collect();
        plan.asked_interpreters = 0;
        let stored = snapshot.store(&plan, &version, &host.places, identity.as_ref().map(|identity| identity.gid));
        let help = "check the state directory and the room on its disk";
        let written = stored.failed("install it").map_err(|why| one(why, help))?;
        if written && self.sync_at.is_none() {
            self.sync_at = Some(crate::clock::now() + SYNC_AFTER);
        }
        self.workers.retire(id, Some(version));
        Ok(Installed {
            function: install.function.clone(),
            id,
            version,
            load_key,
            interpreter: interpreter.real,
            uid: identity.map_or(self.workers.host().myself.uid, |identity| identity.uid),
            warnings,
            document: Document::Descriptor,
        })
    }
}
