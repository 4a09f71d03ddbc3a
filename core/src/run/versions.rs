//! Handles new, changed and deleted functions: the run of a content by itself, and disabling.

use super::Supervisor;
use super::keys::value_of;
use crate::messages::FunctionState;
use crate::messages::action::{Action, Answer, Notice, Rejection};
use crate::messages::event::InstalledVersion;
use crate::messages::submit::Submit;
use crate::messages::{Now, ReplyTo};
use crate::records::outcome::{Skip, Trigger};
use crate::run_state::FunctionKey;
use crate::run_state::function::Presence;
use crate::run_state::invocation::InvocationStage;
use crate::run_state::releases::{ServingRelease, SpareCandidate};
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why the work of a deleted function never starts.
const DELETED: (Skip, &str) = (Skip::Deleted, "the function was deleted while it waited");

impl Supervisor {
    /// Handles an installed version, which serves from now on. The version that serves already changes nothing.
    pub(super) fn installed(&mut self, now: Now, installed: InstalledVersion, out: &mut Vec<Action>) {
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
        for invocation in function.work.take_unreleased() {
            let function = serving.id;
            out.push(Action::Release { function, invocation });
        }
        let known_candidate = self.drop_candidate(now, key, serving.version, out);
        let is_proven = self.functions[key].is_canary(serving.version);
        if is_proven {
            self.promote(now, key, &serving, out);
        } else if self.functions[key]
            .canary
            .as_ref()
            .is_some_and(|canary| !canary.shares_with(&serving))
        {
            self.end_canary(now, key, out);
        }
        let function = &mut self.functions[key];
        if known_candidate || (!known && !is_proven && function.is_worth_a_trial(&serving)) {
            if known_candidate {
                // The same version was installed again: somebody touched its file, or asked for a reload.
                self.try_again(key, true);
            } else {
                function.candidate = Some(Box::new(SpareCandidate::new(serving)));
            }
            let function = &mut self.functions[key];
            if let Some(candidate) = &mut function.candidate {
                candidate.canary = None;
                // The error stays until the version can be loaded.
                function.error.clone_from(&candidate.error);
            }
            self.refuse_trial(now, key);
            out.push(Action::Status(name));
            self.line_up(now, key);
            return;
        }
        self.let_serve(key, Arc::clone(&serving));
        if !known || had_error {
            // The cause may be gone: for example, the interpreter is there again.
            self.forget_start_failures(key);
        }
        if !known {
            self.retire_all(now, key, Some(&serving), out);
        }
        if was_service.is_some_and(|was| was != is_service(&serving)) {
            let why = "while it waited, its function became a service or stopped being one";
            self.flush(now, key, (Skip::Overlap, why), out);
        }
        self.end_service(now, key, (Some(serving.version), "replaced by a newer version"), out);
        // Runs of a content that the ledger has restored get their content key here. The decision about a retry of a
        // lost attempt needs that key, so it comes after this.
        self.supersede_loads(now, key, &serving, out);
        if !had_rules {
            self.bound_pauses(now, key, &serving);
        }
        self.resolve_lost(now, key, &serving, out);
        self.flush_if_disabled(now, key, out);
        // The file may be half of what a person copies, so it runs by itself only after the next `Quiet`.
        self.unsettled.insert(key);
        self.keep_running(key, out);
        self.line_up(now, key);
        if first {
            // The first state of a new function is not a change of state, so no notice is sent for it.
            self.functions[key].announced = self.functions[key].state();
        }
        let announced = self.announce(key, out);
        if (first || had_error || !known) && !announced {
            out.push(Action::Status(name));
        }
        // The ends of workers of an earlier fnd have waited for this version, which decides what follows them.
        self.release_early(now, Some(key), out);
    }

    /// Handles new content whose dependencies are being installed. A version that serves goes on.
    pub(super) fn building(&mut self, function: &FunctionName, out: &mut Vec<Action>) {
        let key = self.functions.find_or_add(function);
        let function = &mut self.functions[key];
        function.error = None;
        if matches!(function.presence, Presence::Absent | Presence::Invalid) {
            function.presence = Presence::Building;
        }
        self.announce(key, out);
        out.push(Action::Status(self.functions[key].name.clone()));
    }

    /// Handles new content that is invalid.
    pub(super) fn refused(&mut self, function: &FunctionName, error: String, out: &mut Vec<Action>) {
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
        out.push(Action::Status(function.name.clone()));
    }

    /// Handles a deleted file: waiting invocations are given up, running ones go on to their end.
    pub(super) fn removed(&mut self, now: Now, function: &FunctionName, out: &mut Vec<Action>) {
        let Some(key) = self.functions.find(function) else {
            return;
        };
        // If the function was absent before, its deletion was handled already.
        if !matches!(self.functions[key].presence, Presence::Absent) {
            self.forget_start_failures(key);
            self.functions[key].presence = Presence::Absent;
            self.give_up_candidate(now, key, out);
            self.functions[key].canary = None;
            self.retire_all(now, key, None, out);
            self.end_service(now, key, (None, "the function was deleted"), out);
            self.flush(now, key, DELETED, out);
            if !self.announce(key, out) {
                // It is shown until its work has ended, or it waited for its first build. If its file comes back before that, it
                // begins to serve once more.
                out.push(Action::Status(function.clone()));
            }
        }
    }

    /// Handles the end of the first scan. If the scan read every directory, an absent function was deleted while fnd
    /// was not running. Otherwise the work of absent functions waits for a complete scan.
    pub(super) fn scanned(&mut self, now: Now, whole: bool, out: &mut Vec<Action>) {
        self.first_scan_done = true;
        if whole {
            self.scanned = true;
            self.retire_deleted(now, out);
            self.release_early(now, None, out);
        }
        self.functions.pack();
        let keys: Vec<_> = self.functions.keys().collect();
        for key in keys {
            let function = &self.functions[key];
            if whole && matches!(function.presence, Presence::Absent) && !function.queue.live().is_empty() {
                self.flush(now, key, DELETED, out);
                self.end_service(now, key, (None, "the function was deleted"), out);
            }
            self.keep_running(key, out);
        }
    }

    /// Runs the contents that were installed since the directories were quiet the last time, except those of functions that
    /// are held.
    pub(super) fn directories_quiet(&mut self, now: Now, held: &BTreeSet<FunctionName>, out: &mut Vec<Action>) {
        for key in std::mem::take(&mut self.unsettled) {
            if held.contains(&self.functions[key].name) {
                self.unsettled.insert(key);
            } else {
                self.load(now, key, out);
            }
        }
    }

    /// Enables or disables a function for a person; the ledger has stored it.
    pub(super) fn set_enabled(
        &mut self,
        now: Now,
        function: FunctionName,
        (enabled, reply): (bool, ReplyTo),
        out: &mut Vec<Action>,
    ) {
        let shown = |key: &FunctionKey| self.functions[*key].is_shown();
        let Some(key) = self.functions.find(&function).filter(shown) else {
            out.push(Action::Reply(reply, Box::new(Answer::NotFound)));
            return;
        };
        if self.functions[key].disabled == enabled {
            self.functions[key].disabled = !enabled;
            out.push(Action::EnabledChanged(function));
            self.flush_if_disabled(now, key, out);
            self.resume(now, key, out);
            self.announce(key, out);
        }
        let answer = if enabled && !self.functions[key].is_enabled() {
            let error = "its manifest says `enabled = false`, or its `nodes` name other machines".to_owned();
            Answer::Rejected(Rejection::Invalid { error })
        } else {
            Answer::Done
        };
        out.push(Action::Reply(reply, Box::new(answer)));
    }

    /// Records whether a function is over its quota. Accepted invocations go on: only what begins by itself waits.
    pub(super) fn set_full(&mut self, now: Now, function: &FunctionName, why: Option<Box<str>>, out: &mut Vec<Action>) {
        let Some(key) = self
            .functions
            .find(function)
            .filter(|key| self.functions[*key].full != why)
        else {
            return;
        };
        let has_room = why.is_none();
        self.functions[key].full = why;
        if has_room {
            self.resume(now, key, out);
        }
        out.push(Action::Status(function.clone()));
    }

    /// Gives up the version that is on trial, unless it is `newest`; says whether it is.
    fn drop_candidate(&mut self, now: Now, key: FunctionKey, newest: Version, out: &mut Vec<Action>) -> bool {
        let candidate = self.functions[key].candidate.as_ref();
        if candidate.is_some_and(|candidate| candidate.serving.version == newest) {
            return true;
        }
        self.give_up_candidate(now, key, out);
        false
    }

    /// Starts what a function has to do, after a time in which it could not.
    pub(super) fn resume(&mut self, now: Now, key: FunctionKey, out: &mut Vec<Action>) {
        self.load(now, key, out);
        self.keep_running(key, out);
        self.line_up(now, key);
    }

    fn flush_if_disabled(&mut self, now: Now, key: FunctionKey, out: &mut Vec<Action>) {
        if !self.functions[key].is_enabled() {
            self.retire_all(now, key, None, out);
            self.end_service(now, key, (None, "the function was disabled"), out);
            self.flush(
                now,
                key,
                (Skip::Disabled, "the function was disabled while it waited"),
                out,
            );
        }
    }

    /// Gives up all invocations of a function that do not run.
    fn flush(&mut self, now: Now, key: FunctionKey, (skip, why): (Skip, &str), out: &mut Vec<Action>) {
        let waiting: Vec<_> = self.functions[key].queue.live().iter().copied().collect();
        for id in waiting {
            if !self.is_running(id) && !self.give_back_message(now, id, out) {
                self.give_up(now, id, (skip, why), out);
            }
        }
    }

    fn is_running(&self, id: InvocationId) -> bool {
        let stage = self.invocations.get(&id).map(|invocation| &invocation.stage);
        matches!(stage, Some(InvocationStage::Running { .. }))
    }

    /// Gives up waiting runs of a content that no longer serves: the run by itself belongs to its content, and the new
    /// content has its own.
    fn supersede_loads(&mut self, now: Now, key: FunctionKey, serving: &ServingRelease, out: &mut Vec<Action>) {
        let live: Vec<_> = self.functions[key].queue.live().iter().copied().collect();
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
                self.give_up(
                    now,
                    id,
                    (Skip::Overlap, "it was replaced by newer content before it started"),
                    out,
                );
            }
        }
    }

    /// Runs a content once by itself, if its rules say so, the directories were quiet since, and it has not run.
    fn load(&mut self, now: Now, key: FunctionKey, out: &mut Vec<Action>) {
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
        self.accept(now, (key, &serving), (submit, load_key, value), out);
    }

    /// Announces a changed state of a function; says whether the state changed. Changes between ready and running are
    /// not announced, since attempts have their own notices.
    pub(super) fn announce(&mut self, key: FunctionKey, out: &mut Vec<Action>) -> bool {
        let function = &mut self.functions[key];
        if !function.is_shown() {
            // A function that waited for its first build is in this state already.
            if function.announced == FunctionState::Building {
                return false;
            }
            // The next function of that name is shown as a new one.
            function.announced = FunctionState::Building;
            function.vanish();
            out.push(Action::Status(function.name.clone()));
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
        out.push(Action::Notice(Notice::StateChanged { function, from, to }));
        out.push(Action::Status(name));
        true
    }
}
