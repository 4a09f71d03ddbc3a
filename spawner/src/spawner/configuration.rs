//! Reads the configuration, has the judge check it, and keeps the last one that was good.
//!
//! fnd.service must never fail because of a mistake in a file: systemd would then stop this unit as unneeded, and every
//! function would end with it. So the files of each configuration that is put in force are kept below the state
//! directory. If the configuration is refused and fnd has none yet, it gets the kept one first.

use super::*;

/// Help if another instance has users of the range.
const OTHERS: &str = "give the two instances different `[users] range`s, or stop the other instance";

impl Spawner {
    /// Reads the configuration for the judge; none if the files themselves are refused.
    pub(super) fn read_settings(&mut self, request: u64) -> Option<(Subject, JudgeRequest)> {
        let (args, myself) = (&self.workers.host.args, &self.sources.myself);
        let (settings, problems) = crate::install::settings::read(&args.config, &args.runtimes, myself);
        if problems.is_empty() {
            return Some((Subject::Settings(request, trusted(&settings), None), JudgeRequest::Settings(settings)));
        }
        self.settings_refused(request, Bytes::default(), problems);
        None
    }

    /// Handles the judge's verdict on the configuration. `refused` is the newer configuration that this one replaces.
    pub(super) fn settings_judged(
        &mut self,
        (request, trusted, refused): (u64, bool, Option<SettingsRead>),
        SettingsJudgment { verdict, tls, secrets, profile, age_key }: SettingsJudgment,
    ) {
        let document = verdict.document;
        let mut problems = Vec::new();
        let range = verdict.policy.as_ref().map(|policy| policy.uid_range);
        // The users are locked before the configuration is in force: another instance may have functions with them.
        if let (Some(ranges), Some(range)) = (&self.ranges, range)
            && let Err(why) = ranges.take(range)
        {
            problems.push(problem(&self.workers.host.args.config.display().to_string(), why, OTHERS));
        }
        let Some(mut policy) = verdict.policy.filter(|_| problems.is_empty()) else {
            // The kept configuration is refused, too: by this version of fnd, or because another instance has its users
            // now. fnd gets the problems of the newer one, which people have to correct.
            return match refused {
                Some(refused) => self.reply(request, &Reply::Settings(refused), Vec::new()),
                None => self.settings_refused(request, document, problems),
            };
        };
        // A user who can write the settings may let functions run as other users only if that user is root anyway.
        policy.allow_root &= trusted;
        policy.best_effort_limits |= self.workers.host.args.best_effort;
        policy.allow_users.retain(|_| trusted);
        self.secrets.tls = tls.filter(|_| trusted);
        self.secrets.configured = secrets.into_iter().filter(|_| trusted).collect();
        let age_key = age_key.filter(|_| trusted).map(PathBuf::from);
        self.secrets.vault.age_key = age_key.unwrap_or_else(|| self.workers.host.args.config.with_file_name("age.key"));
        self.bound_memory(&policy);
        self.profile = if trusted { profile } else { Profile::Strict };
        self.policy = Some(policy);
        self.configured = true;
        let problems = self.uids.damaged.clone().into_iter().collect();
        let read = SettingsRead { document, problems, applied: true };
        self.reply(request, &Reply::Settings(read), Vec::new());
        match refused {
            Some(refused) => self.reply(request, &Reply::Settings(refused), Vec::new()),
            None => self.keep_settings(),
        }
    }

    /// Tells fnd that the configuration is refused. If fnd has no configuration yet, it gets the last good one first.
    pub(super) fn settings_refused(&mut self, request: u64, document: Bytes, problems: Vec<Problem>) {
        let refused = SettingsRead { document, problems, applied: false };
        match self.kept_settings().filter(|_| !self.configured) {
            // Before the installs that wait: without a configuration each of them would be refused.
            Some(settings) => self.jobs.push_front(Job::LastGood(request, settings, refused)),
            None => self.reply(request, &Reply::Settings(refused), Vec::new()),
        }
    }

    /// Limits the memory of all functions together: files in shared memory outlive the run whose own limit covered
    /// them.
    fn bound_memory(&self, policy: &Policy) {
        // The first line of the file is `MemTotal: N kB`.
        let kilobytes = |text: String| text.lines().next()?.split_whitespace().nth(1)?.parse::<u64>().ok();
        let machine = fs::read_to_string("/proc/meminfo").ok().and_then(kilobytes).unwrap_or(0) << 10;
        let bytes = policy.memory.unwrap_or(machine.saturating_sub(policy.reserve_memory));
        let bounded = self.workers.host.tree.as_ref().map_or(Ok(()), |tree| tree.bound_memory(bytes));
        if let Err(why) = bounded {
            crate::log!("the limit on the memory of all functions together is not changed: {why}");
        }
    }

    fn kept_at(&self) -> PathBuf {
        self.workers.host.places.state.join(LAST_SETTINGS)
    }

    fn kept_settings(&self) -> Option<JudgeSettings> {
        let path = self.kept_at();
        let why = match places::if_there(fs::read(&path)).map(|kept| Some(JudgeRequest::from_wire(&kept?))) {
            Ok(None) => return None,
            Ok(Some(Ok(JudgeRequest::Settings(settings)))) => return Some(settings),
            Ok(Some(_)) => "it is damaged".to_owned(),
            Err(error) => error.to_string(),
        };
        crate::log!("there is no last good configuration, since `{}` can't be read: {why}", path.display());
        None
    }

    /// Keeps the files of the configuration in force, if they differ from the kept ones.
    fn keep_settings(&self) {
        let (Some(message), path) = (self.judge.settings.as_deref(), self.kept_at()) else { return };
        // To replace the file costs a sync, and most reloads change nothing.
        if fs::read(&path).is_ok_and(|kept| kept == message) {
            return;
        }
        if let Err(error) = places::replace(&path, message) {
            crate::log!("failed to keep the configuration in `{}`: {error}", path.display());
        }
    }
}

/// Returns whether root (or the spawner's user, if the spawner is not root) owns all files of a configuration.
pub(super) fn trusted(settings: &JudgeSettings) -> bool {
    settings.files.iter().all(|file| file.trusted)
}
