//! Handles new, changed and deleted functions: the run of a content by itself, and disabling.

use super::Supervisor;
use super::flow::value_of;
use crate::messages::FunctionState;
use crate::messages::ReplyTo;
use crate::messages::action::{Action, Answer, Notice, Rejection};
use crate::messages::event::InstalledVersion;
use crate::messages::submit::Submit;
use crate::records::outcome::{Skip, Trigger};
use crate::run_state::FunctionKey;
use crate::run_state::function::Presence;
use crate::run_state::releases::{ServingRelease, SpareCandidate, shares_calls};
use fnd_wire::ids::{FunctionName, InvocationId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why waiting work never starts: its function is deleted or disabled, or its content has no run any more.
pub(super) const DELETED: (Skip, &str) = (Skip::Deleted, "the function was deleted while it waited");
pub(super) const DISABLED: (Skip, &str) = (Skip::Disabled, "the function was disabled while it waited");
pub(super) const SUPERSEDED: (Skip, &str) = (Skip::Overlap, "it was replaced by newer content before it started");

impl Supervisor {
    /// Handles an installed version, which serves from now on. The version that serves already changes nothing.
    pub(super) fn installed(&mut self, installed: InstalledVersion) {
        let key = self.functions.find_or_add(&installed.function);
        let function = &mut self.functions[key];
        let first = matches!(function.presence, Presence::Absent | Presence::Building);
        // An invalid file has had no rules, either.
        let had_rules = function.serving().is_some();
        let known = function.serving().map(|serving| serving.version) == Some(installed.version);
        let is_service = |serving: &ServingRelease| serving.rules.kind.is_service();
        let was_service = function.serving().map(|serving| is_service(serving));
        let had_error = function.error.take().is_some();
        let name = installed.function.clone();
        let serving = Arc::new(ServingRelease::of(installed));
        function.id = Some(serving.id);
        // Temporary files are released by the function's number, which was not known when these invocations ended.
        let work = function.work.allocated().into_iter();
        for invocation in work.flat_map(|work| std::mem::take(&mut work.unreleased)) {
            let function = serving.id;
            self.out.push(Action::Release { function, invocation });
        }
        let candidate = self.functions[key].candidate.as_ref();
        let known_candidate = candidate.is_some_and(|candidate| candidate.serving.version == serving.version);
        if !known_candidate {
            self.give_up_candidate(key);
        }
        let is_proven = self.functions[key].is_canary(serving.version);
        let canary = self.functions[key].canary.as_ref();
        if is_proven {
            self.promote(key, &serving);
        } else if canary.is_some_and(|canary| !shares_calls(&serving.rules, &canary.serving.rules)) {
            self.end_canary(key);
        }
        let function = &mut self.functions[key];
        if known_candidate || (!known && !is_proven && function.is_worth_a_trial(&serving)) {
            if known_candidate {
                // The same version was installed again: somebody touched its file, or asked for a reload.
                self.try_again(key, true);
            } else {
                function.candidate = Some(Box::new(SpareCandidate::new(serving, None)));
            }
            let function = &mut self.functions[key];
            if let Some(candidate) = &mut function.candidate {
                candidate.canary = None;
                // The error stays until the version can be loaded.
                function.error.clone_from(&candidate.error);
            }
            self.refuse_trial(key);
            self.out.push(Action::Status(name));
            self.line_up(key);
            return;
        }
        self.let_serve(key, Arc::clone(&serving));
        if !known || had_error {
            // The cause may be gone: for example, the interpreter is there again.
            self.forget_start_failures(key);
        }
        if !known {
            self.retire_all(key, Some(serving.version));
        }
        if was_service.is_some_and(|was| was != is_service(&serving)) {
            let why = "while it waited, its function became a service or stopped being one";
            self.flush(key, (Skip::Overlap, why));
        }
        self.end_service(key, Some(serving.version), "replaced by a newer version");
        // A load run that was restored from the ledger gets its `load_key` here. `resolve_lost` needs that key to
        // decide about a retry, so it comes later.
        self.supersede_loads(key, &serving);
        if !had_rules {
            self.bound_pauses(key, &serving);
        }
        self.resolve_lost(key, &serving);
        self.flush_if_disabled(key);
        // The file may be half of what a person copies, so it runs by itself only after the next `Quiet`.
        self.unsettled.insert(key);
        self.keep_running(key);
        self.line_up(key);
        if first {
            // The first state of a new function is not a change of state, so no notice is sent for it.
            self.functions[key].announced = self.functions[key].state();
        }
        let announced = self.announce(key);
        if (first || had_error || !known) && !announced {
            self.out.push(Action::Status(name));
        }
        // The ends of workers of an earlier fnd have waited for this version, which decides what follows them.
        self.release_early(Some(key));
    }

    /// Handles new content whose dependencies are being installed. A version that serves goes on.
    pub(super) fn building(&mut self, function: &FunctionName) {
        let key = self.functions.find_or_add(function);
        let function = &mut self.functions[key];
        function.error = None;
        if matches!(function.presence, Presence::Absent | Presence::Invalid) {
            function.presence = Presence::Building;
        }
        self.announce(key);
        self.out.push(Action::Status(self.functions[key].name.clone()));
    }

    /// Handles new content that is invalid.
    pub(super) fn refused(&mut self, function: &FunctionName, error: String) {
        let key = self.functions.find_or_add(function);
        let function = &mut self.functions[key];
        if matches!(function.presence, Presence::Absent | Presence::Building) {
            function.presence = Presence::Invalid;
            // The first state of a new function is not a change of state, so no notice is sent for it.
            function.announced = FunctionState::Invalid;
        } else if function.error.as_deref() == Some(error.as_str()) {
            return;
        }
        function.error = Some(error.into());
        self.out.push(Action::Status(function.name.clone()));
    }

    /// Handles a deleted file: waiting invocations are given up, running ones go on to their end.
    pub(super) fn removed(&mut self, function: &FunctionName) {
        let Some(key) = self.functions.find(function) else {
            return;
        };
        // If the function was absent before, its deletion was handled already.
        if !matches!(self.functions[key].presence, Presence::Absent) {
            self.forget_start_failures(key);
            self.functions[key].presence = Presence::Absent;
            self.give_up_candidate(key);
            self.functions[key].canary = None;
            self.retire_all(key, None);
            self.end_service(key, None, "the function was deleted");
            self.flush(key, DELETED);
            if !self.announce(key) {
                // It is shown until its work has ended, or it waited for its first build. If its file comes back before that, it
                // begins to serve once more.
                self.out.push(Action::Status(function.clone()));
            }
        }
    }

    /// Handles the end of the first scan. If the scan read every directory, an absent function was deleted while fnd
    /// was not running. Otherwise the work of absent functions waits for a complete scan.
    pub(super) fn scanned(&mut self, whole: bool) {
        self.first_scan_done = true;
        let keys: Vec<_> = self.functions.keys().collect();
        if whole {
            self.scanned = true;
            for key in &keys {
                if matches!(self.functions[*key].presence, Presence::Absent) {
                    self.retire_all(*key, None);
                }
            }
            self.release_early(None);
        }
        self.functions.pack();
        for key in keys {
            let function = &self.functions[key];
            if whole && matches!(function.presence, Presence::Absent) && !function.work.queue.live().is_empty() {
                self.flush(key, DELETED);
                self.end_service(key, None, "the function was deleted");
            }
            self.keep_running(key);
        }
    }

    /// Runs the contents that were installed since the directories were quiet the last time, except those of functions that
    /// are held.
    pub(super) fn directories_quiet(&mut self, held: &BTreeSet<FunctionName>) {
        for key in std::mem::take(&mut self.unsettled) {
            if held.contains(&self.functions[key].name) {
                self.unsettled.insert(key);
            } else {
                self.load(key);
            }
        }
    }

    /// Enables or disables a function for a person; the ledger has stored it.
    pub(super) fn set_enabled(&mut self, function: FunctionName, enabled: bool, reply: ReplyTo) {
        let shown = |key: &FunctionKey| self.functions[*key].is_shown();
        let Some(key) = self.functions.find(&function).filter(shown) else {
            return self.answer(reply, Answer::NotFound);
        };
        if self.functions[key].disabled == enabled {
            self.functions[key].disabled = !enabled;
            if enabled {
                // A person wants it to run now, and not after the pause of an earlier failure.
                self.forget_start_failures(key);
            }
            self.out.push(Action::EnabledChanged(function));
            self.flush_if_disabled(key);
            self.resume(key);
            self.announce(key);
        } else if enabled && self.functions[key].is_held() {
            // A person wants it to run now. Its failures still count, as at a restart.
            self.hold_over(key);
        }
        let answer = if enabled && !self.functions[key].is_enabled() {
            let error = "its manifest says `enabled = false`, or its `nodes` name other machines".to_owned();
            Answer::Rejected(Rejection::Invalid { error })
        } else {
            Answer::Done
        };
        self.answer(reply, answer);
    }

    /// Replaces the processes of a function for a person, also if failures keep it from starting some now. These failures still
    /// count: otherwise an alert would say that the function has recovered.
    pub(super) fn restart(&mut self, function: &FunctionName) {
        let Some(key) = self.functions.find(function) else {
            return;
        };
        self.end_service(key, None, "the function was restarted");
        self.end_hold(key);
        self.view_changed(function);
        self.keep_running(key);
    }

    /// Records whether a function is over its quota. Accepted invocations go on: only what begins by itself waits.
    pub(super) fn set_full(&mut self, function: &FunctionName, why: Option<Box<str>>) {
        let key = self.functions.find(function);
        let Some(key) = key.filter(|key| self.functions[*key].full != why) else {
            return;
        };
        let has_room = why.is_none();
        self.functions[key].full = why;
        if has_room {
            self.resume(key);
        }
        self.out.push(Action::Status(function.clone()));
    }

    /// Starts what a function has to do, after a time in which it could not.
    pub(super) fn resume(&mut self, key: FunctionKey) {
        self.load(key);
        self.keep_running(key);
        self.line_up(key);
    }

    fn flush_if_disabled(&mut self, key: FunctionKey) {
        if !self.functions[key].is_enabled() {
            self.retire_all(key, None);
            self.end_service(key, None, "the function was disabled");
            self.flush(key, DISABLED);
        }
    }

    /// Gives up all invocations of a function that do not run.
    fn flush(&mut self, key: FunctionKey, (skip, why): (Skip, &str)) {
        let waiting: Vec<_> = self.functions[key].work.queue.live().iter().copied().collect();
        for id in waiting {
            if !self.is_running(id) && !self.give_back_message(id) {
                self.give_up(id, (skip, why));
            }
        }
    }

    fn is_running(&self, id: InvocationId) -> bool {
        let invocation = self.invocations.get(&id);
        invocation.is_some_and(|invocation| invocation.stage.worker().is_some())
    }

    /// Gives up waiting runs of a content that no longer serves: the run by itself belongs to its content, and the new
    /// content has its own.
    fn supersede_loads(&mut self, key: FunctionKey, serving: &ServingRelease) {
        let live: Vec<_> = self.functions[key].work.queue.live().iter().copied().collect();
        let has_run = self.functions[key].loaded.contains(&serving.load_key);
        for id in live {
            let Some(invocation) = self.invocations.get_mut(&id) else {
                continue;
            };
            if invocation.trigger != Trigger::Load || serving.rules.kind.is_service() {
                continue;
            }
            // Runs restored from the ledger come without their content key. If the serving content has run, they count
            // as its runs.
            if invocation.load_key.is_none() && has_run {
                invocation.load_key = Some(serving.load_key);
            }
            if invocation.load_key != Some(serving.load_key) && !self.is_running(id) {
                self.give_up(id, SUPERSEDED);
            }
        }
    }

    /// Runs a content once by itself, if its rules say so, the directories were quiet since, and it has not run.
    fn load(&mut self, key: FunctionKey) {
        let function = &self.functions[key];
        if self.unsettled.contains(&key) {
            return;
        }
        let Some(serving) = function.serving().filter(|serving| serving.rules.run_on_load).cloned() else {
            return;
        };
        let taken = self.invocations.contains_key(&serving.load_id);
        let possible =
            self.phase.is_serving() && self.node.refusal(&serving.rules).is_none() && function.full.is_none();
        if taken || !possible || !function.is_enabled() || function.loaded.contains(&serving.load_key) {
            return;
        }
        // The content counts as run at once, so that no second event runs it. If it cannot be stored, `store_failed`
        // takes that back.
        self.functions[key].loaded.push(serving.load_key);
        let function = self.functions[key].name.clone();
        let submit = Submit::new(serving.load_id, function, Trigger::Load);
        let load_key = Some(serving.load_key);
        let value = value_of(&submit.payload, &serving.rules);
        self.accept((key, &serving), (submit, load_key, value));
    }

    /// Announces a changed state of a function; says whether the state changed. Changes between ready and running are
    /// not announced, since attempts have their own notices.
    pub(super) fn announce(&mut self, key: FunctionKey) -> bool {
        let function = &mut self.functions[key];
        if !function.is_shown() {
            // A function that waited for its first build is in this state already.
            if function.announced == FunctionState::Building {
                return false;
            }
            // The next function of that name is shown as a new one.
            function.announced = FunctionState::Building;
            function.vanish();
            self.out.push(Action::Status(function.name.clone()));
            return true;
        }
        let (from, to) = (function.announced, function.state());
        function.announced = to;
        let busy = |state| matches!(state, FunctionState::Ready | FunctionState::Running);
        if from == to || (busy(from) && busy(to)) {
            return false;
        }
        let name = function.name.clone();
        let function = name.clone();
        self.out
            .push(Action::Notice(Notice::StateChanged { function, from, to }));
        self.out.push(Action::Status(name));
        true
    }
}
