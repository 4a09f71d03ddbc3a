//! The configuration: reading it, having it judged, and keeping the last one that was good.
//!
//! fnd.service must never fail for a mistake in a file: this unit would be unneeded then, and every function would end with
//! it. So the files of each configuration that is put in force are kept below the state directory, and an fnd that meets a
//! configuration which is refused gets the kept one first.

use super::*;

/// What to do where another instance has users of the range.
const OTHERS: &str =
    "set `[users] range` of one of the two to users that the other does not have, or stop the other one";

impl Spawner {
    /// Reads the configuration for the judge; none where the files themselves are refused.
    pub(super) fn read_settings(&mut self, request: u32) -> Option<(Subject, JudgeRequest)> {
        let (args, myself) = (&self.args, &self.sources.myself);
        let (settings, problems) = crate::settings::read(&args.config, &args.runtimes, myself);
        if problems.is_empty() {
            return Some((Subject::Settings(request, trusted(&settings), None), JudgeRequest::Settings(settings)));
        }
        self.settings_refused(request, SettingsRead { document: Bytes::default(), problems, applied: false });
        None
    }

    /// Takes the judge's verdict on the configuration. `refused` is the newer one in whose place this one was judged.
    pub(super) fn settings_judged(
        &mut self,
        (request, trusted, refused): (u32, bool, Option<SettingsRead>),
        verdict: SettingsVerdict,
    ) {
        let document = verdict.document;
        let mut problems = Vec::new();
        let range = verdict.policy.as_ref().map(|policy| policy.uid_range);
        if let (Some(ranges), Some(range)) = (&self.ranges, range)
            && let Err(why) = ranges.take(range)
        {
            problems.push(problem(&self.args.config.display().to_string(), why, OTHERS));
        }
        let Some(mut policy) = verdict.policy.filter(|_| problems.is_empty()) else {
            let read = SettingsRead { document, problems, applied: false };
            // The kept one is not good for this version of fnd, or its users are another's now: the newer one is what people have to mend.
            return match refused {
                Some(refused) => self.reply(request, &Reply::Settings(refused), Vec::new()),
                None => self.settings_refused(request, read),
            };
        };
        // Who can write the settings may not let functions be other users unless that is root anyway.
        policy.allow_root &= trusted;
        policy.allow_users.retain(|_| trusted);
        self.bound_memory(&policy);
        self.policy = Some(policy);
        self.configured = true;
        let read = SettingsRead { document, problems: Vec::new(), applied: true };
        self.reply(request, &Reply::Settings(read), Vec::new());
        match refused {
            Some(refused) => self.reply(request, &Reply::Settings(refused), Vec::new()),
            None => self.keep_settings(),
        }
    }

    /// Tells fnd that the configuration is refused. One that has none yet gets the last good one first.
    pub(super) fn settings_refused(&mut self, request: u32, refused: SettingsRead) {
        match self.kept_settings().filter(|_| !self.configured) {
            Some(settings) => self.jobs.push_front(Job::LastGood(request, settings, refused)),
            None => self.reply(request, &Reply::Settings(refused), Vec::new()),
        }
    }

    /// Bounds what all functions use together: files in shared memory outlive the run that its own limit was for.
    fn bound_memory(&self, policy: &Policy) {
        let kilobytes = |text: String| text.lines().next()?.split_whitespace().nth(1)?.parse::<u64>().ok();
        let machine = fs::read_to_string("/proc/meminfo").ok().and_then(kilobytes).unwrap_or(0) << 10;
        let bytes = policy.memory.unwrap_or(machine.saturating_sub(policy.reserve_memory));
        let bounded = self.workers.host().tree.as_ref().map_or(Ok(()), |tree| tree.bound_memory(bytes));
        if let Err(why) = bounded {
            crate::log!("the memory of all functions together is not limited anew: {why}");
        }
    }

    fn kept_at(&self) -> PathBuf {
        self.workers.host().places.state.join(LAST_SETTINGS)
    }

    fn kept_settings(&self) -> Option<JudgeSettings> {
        let path = self.kept_at();
        let bytes = fs::read(&path).ok()?;
        match JudgeRequest::from_wire(&bytes) {
            Ok(JudgeRequest::Settings(settings)) => Some(settings),
            _ => {
                crate::log!("`{}` is damaged: there is no last good configuration", path.display());
                None
            }
        }
    }

    /// Keeps the files of the configuration in force, where they are other files than before.
    fn keep_settings(&self) {
        let (Some(message), path) = (self.judge.settings(), self.kept_at()) else { return };
        if fs::read(&path).is_ok_and(|kept| kept == message) {
            return;
        }
        if let Err(error) = places::replace(&path, message) {
            crate::log!("failed to keep the configuration in `{}`: {error}", path.display());
        }
    }
}

/// Says whether all files of a configuration are root's (or the spawner's own user's).
pub(super) fn trusted(settings: &JudgeSettings) -> bool {
    settings.files.iter().all(|file| file.trusted)
}
