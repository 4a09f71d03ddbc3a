//! How many attempts may run at once: `[groups]` and `[queue] key`.
//!
//! The functions of a group have together only so many attempts at once, because they share something that bears no more: a database,
//! a licence.
//!
//! An attempt counts in the group of the release that it runs, whichever release serves. A claim of a function with a group counts
//! while it is being stored, because it is about to begin.
//!
//! The functions that a group holds up wait in its own line, not in the line for the budget, where they would hold up others. A
//! function may begin if more places are free than functions wait before it. After a start it goes to the end: the functions
//! of a group take turns. While nothing can be started, those with a free worker pass the others, which keep their turns.
//!
//! The value of `[queue] key` of an invocation is read from the payload when the invocation is accepted, and again when a
//! release with another key serves; so it need not be stored, and a restart finds it again.
//!
//! An invocation without a value is in no lane: it waits for no other one, and none waits for it.

use super::Supervisor;
use super::acceptance::filled_in;
use crate::messages::rules::{FunctionKind, Overlap, Rules};
use crate::records::Payload;
use crate::run_state::function::Presence;
use crate::run_state::invocation::InvocationStage;
use crate::run_state::releases::ServingRelease;
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Where a new invocation finds no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// All processes of the function are busy.
    Function,
    /// As many with the same value run as may.
    Key,
}

/// The limit of a group that the configuration has no more, while a release of a function still names it. Nothing stops, and
/// nothing is overloaded.
const UNKNOWN_MAX: u32 = 1;

/// All groups of which the configuration or a function knows.
#[derive(Debug, Default)]
pub(super) struct Groups {
    table: BTreeMap<Arc<str>, Group>,
}

#[derive(Debug, Default)]
struct Group {
    /// Absent: the configuration does not have it.
    max: Option<u32>,
    /// Attempts, and claims that are being stored.
    used: usize,
    /// The line of the functions that wait.
    waiting: VecDeque<FunctionKey>,
}

impl Group {
    fn max(&self) -> usize {
        to_usize(self.max.unwrap_or(UNKNOWN_MAX))
    }

    fn free(&self) -> usize {
        self.max().saturating_sub(self.used)
    }

    fn forget(&mut self, key: FunctionKey) {
        self.waiting.retain(|waiting| *waiting != key);
    }
}

impl Groups {
    fn group(&mut self, name: &str) -> &mut Group {
        if !self.table.contains_key(name) {
            self.table.insert(name.into(), Group::default());
        }
        self.table.get_mut(name).unwrap_or_else(|| unreachable!("it was added"))
    }

    /// Returns how many attempts of a function may begin now, as far as its group decides. Of the functions that wait, only those
    /// count that can begin.
    fn room(&self, name: Option<&str>, key: FunctionKey, can_begin: impl Fn(FunctionKey) -> bool) -> usize {
        let Some(name) = name else { return usize::MAX };
        let Some(group) = self.table.get(name) else {
            return to_usize(UNKNOWN_MAX);
        };
        let before = group.waiting.iter().take_while(|other| **other != key);
        let before = before.filter(|other| can_begin(**other)).take(group.free()).count();
        group.free().saturating_sub(before)
    }

    /// Counts an attempt or a claim of a function, which loses its place in the line.
    pub(super) fn take(&mut self, name: Option<&str>, key: FunctionKey) {
        let Some(name) = name else { return };
        let group = self.group(name);
        group.used += 1;
        group.forget(key);
    }

    /// Counts attempts that an earlier fnd began.
    pub(super) fn take_over(&mut self, name: Option<&str>, attempts: usize) {
        if let Some(name) = name {
            self.group(name).used += attempts;
        }
    }

    /// Takes an attempt or a claim out of the count.
    pub(super) fn give_back(&mut self, name: Option<&str>) {
        if let Some(name) = name {
            let group = self.group(name);
            group.used = group.used.saturating_sub(1);
        }
    }

    /// Puts a function to the front of the line: its claim is stored, and its place is the one that was just given back.
    pub(super) fn wait_first(&mut self, name: &str, key: FunctionKey) {
        let group = self.group(name);
        group.forget(key);
        group.waiting.push_front(key);
    }

    /// Puts a function to the end of the line. One that waits already keeps its turn.
    fn wait(&mut self, name: &str, key: FunctionKey) {
        let group = self.group(name);
        if !group.waiting.contains(&key) {
            group.waiting.push_back(key);
        }
    }

    fn is_waiting(&self, name: &str, key: FunctionKey) -> bool {
        self.table.get(name).is_some_and(|group| group.waiting.contains(&key))
    }

    /// Returns the functions that may begin now, each with its group.
    fn in_turn(&self, can_begin: impl Fn(FunctionKey) -> bool) -> Vec<(Arc<str>, FunctionKey)> {
        let of = |(name, group): (&Arc<str>, &Group)| {
            let first = group.waiting.iter().filter(|key| can_begin(**key));
            let first = first.take(group.free());
            first.map(|key| (Arc::clone(name), *key)).collect::<Vec<_>>()
        };
        self.table.iter().flat_map(of).collect()
    }

    /// Returns how many attempts and claims each group has, but for groups without any.
    pub(super) fn used(&self) -> BTreeMap<&str, usize> {
        let used = self.table.iter().map(|(name, group)| (&**name, group.used));
        used.filter(|(_, used)| *used > 0).collect()
    }
}

impl Supervisor {
    /// Replaces `[groups]`: names and numbers of attempts. Running work goes on; the next event (a `Tick` is enough) starts the
    /// work that now fits.
    pub fn set_groups<'a>(&mut self, groups: impl IntoIterator<Item = (&'a str, u32)>) {
        for group in self.groups.table.values_mut() {
            group.max = None;
        }
        for (name, max) in groups {
            self.groups.group(name).max = Some(max);
        }
        let is_of_use = |group: &Group| group.max.is_some() || group.used > 0 || !group.waiting.is_empty();
        self.groups.table.retain(|_, group| is_of_use(group));
    }

    /// Returns how many attempts of a function a group lets begin now.
    pub(super) fn group_room(&self, group: Option<&str>, key: FunctionKey) -> usize {
        self.groups.room(group, key, |other| self.can_begin(other))
    }

    /// Returns the group that holds up a function, how many attempts it has, and how many it allows.
    pub(super) fn held_up_by(&self, key: FunctionKey) -> Option<(&str, usize, usize)> {
        let name = self.group_of_next(key)?;
        let group = self.groups.table.get(name)?;
        let is_held_up = group.waiting.contains(&key) && self.group_room(Some(name), key) == 0;
        is_held_up.then(|| (name, group.used, group.max()))
    }

    /// Says whether a function needs no start now, or the node can start something.
    fn can_begin(&self, key: FunctionKey) -> bool {
        self.starts.may_start() || self.functions[key].all_free().next().is_some()
    }

    /// Returns the group of the release that the next attempt of a function runs.
    pub(super) fn group_of_next(&self, key: FunctionKey) -> Option<&str> {
        let serving = self.functions[key].serving()?;
        let release = match serving.rules.kind.pool() {
            None => self.next_version(key)?,
            Some(_) => {
                let worker = self.next_free(key).and_then(|id| self.workers.get(&id));
                worker.map_or(serving, |worker| &worker.serving)
            }
        };
        release.group()
    }

    /// Says whether the group of a function's next release lets an attempt begin.
    pub(super) fn group_has_room(&self, key: FunctionKey) -> bool {
        self.group_room(self.group_of_next(key), key) > 0
    }

    /// Returns the group of which a function needs a place now; absent if it has none, or if nothing of it could begin anyway.
    fn group_needed(&self, key: FunctionKey) -> Option<&str> {
        let group = self.group_of_next(key)?;
        let function = &self.functions[key];
        let serving = function.serving()?;
        let may_claim = self.claim_rate.may_claim();
        let could_begin = match serving.rules.kind {
            FunctionKind::Script => function.can_start(may_claim),
            FunctionKind::Handler(_) | FunctionKind::Http(..) => {
                let waits = function.work.queue.has_first(may_claim);
                // One whose worker is still coming comes into the line when the worker is ready, and keeps no place meanwhile.
                let can_start = || {
                    let members = self.members(key, serving);
                    members.coming == 0 && self.may_have_more(key, serving, members)
                };
                let has_worker = self.next_free(key).is_some() || (!function.is_held() && can_start());
                let has_place = function.work.busy < to_usize(serving.rules.places());
                waits && has_worker && has_place && function.is_enabled()
            }
            FunctionKind::Service(_) => false,
        };
        could_begin.then_some(group)
    }

    /// Puts a function into the line of its group, if the group holds it up.
    pub(super) fn wait_for_group(&mut self, key: FunctionKey) {
        let held_up_by = self
            .group_needed(key)
            .filter(|group| self.group_room(Some(group), key) == 0);
        if let Some(group) = held_up_by.map(str::to_owned) {
            self.groups.wait(&group, key);
        }
    }

    /// Lets the functions begin whose turn it is in their group. One that needs no place any more loses its own.
    pub(super) fn call_groups(&mut self) {
        loop {
            let mut has_forgotten = false;
            for (name, key) in self.groups.in_turn(|key| self.can_begin(key)) {
                if self.group_needed(key) == Some(&*name) {
                    self.line_up(key);
                } else {
                    self.groups.group(&name).forget(key);
                    has_forgotten = true;
                }
            }
            // Another one may have come into its place.
            if !has_forgotten {
                return;
            }
        }
    }

    /// Says whether a function waits for its group, so that a ready worker of it is soon called.
    pub(super) fn is_held_up(&self, key: FunctionKey) -> bool {
        self.group_of_next(key)
            .is_some_and(|group| self.groups.is_waiting(group, key))
    }

    /// Lets a release serve. Where its key is another one, all invocations of the function get their values anew.
    pub(super) fn let_serve(&mut self, key: FunctionKey, serving: Arc<ServingRelease>) {
        let function = &mut self.functions[key];
        let rule = serving.rules.queue.key.clone();
        let before = function.serving().map(|before| before.rules.queue.key.clone());
        function.presence = Presence::Serving(serving);
        if before == Some(rule.clone()) || (before.is_none() && rule.is_none() && function.work.queue.live().is_empty())
        {
            return;
        }
        let live: Vec<_> = function.work.queue.live().iter().copied().collect();
        // A payload can be large, and lie on the disk. If only `per_key` is another one, the values stay.
        let is_same_place = matches!((&before, &rule), (Some(Some((before, _))), Some((place, _))) if before == place);
        let mut values = Vec::new();
        for id in live {
            let Some(invocation) = self.invocations.get_mut(&id) else {
                continue;
            };
            let payload = &invocation.payload;
            let value = match &rule {
                Some(_) if is_same_place => invocation.queue_key.clone(),
                // Only the record of its attempt tells of it, and that has the value, not the payload.
                Some(_) if invocation.caller_gone && payload.data.is_none() && payload.request.is_none() => {
                    invocation.queue_key.clone()
                }
                Some((place, _)) => payload.key(place),
                None => None,
            };
            self.functions[key].work.queue.set_key(invocation, None);
            values.push((id, value));
        }
        let width = rule.map_or(1, |(_, per_key)| to_usize(per_key));
        if self.functions[key].work.queue.per_key() != width {
            self.functions[key].work.queue.set_per_key(width);
        }
        for (id, value) in values {
            if let Some(invocation) = self.invocations.get_mut(&id).filter(|_| value.is_some()) {
                self.functions[key].work.queue.set_key(invocation, value);
            }
        }
    }

    /// Returns why an invocation would not find a place at once, apart from the node's budget and the function's group. `value`
    /// is that of its key.
    pub(super) fn no_place(
        &self,
        key: FunctionKey,
        serving: &ServingRelease,
        value: Option<&Arc<str>>,
        overlap: Overlap,
    ) -> Option<NoPlace> {
        if value.is_some_and(|value| !self.functions[key].work.queue.has_place_for(value)) {
            return Some(NoPlace::Key);
        }
        // A run with a value replaces only runs with the same value. Where there is none, it waits for a process.
        let counts = value.is_none() || overlap != Overlap::Replace;
        (counts && !self.has_place(key, serving)).then_some(NoPlace::Function)
    }

    /// Returns the oldest other invocation with the value of `newest` that is not being ended already, and its worker if it runs.
    pub(super) fn oldest_with_its_key(
        &self,
        key: FunctionKey,
        newest: InvocationId,
    ) -> Option<(InvocationId, Option<WorkerId>)> {
        let invocation = self.invocations.get(&newest)?;
        let value = invocation.queue_key.as_ref()?;
        let mut others = self.functions[key].work.queue.with_queue_key(value);
        // A stored event replaces another one only once it is on the disk itself. Newer ones may have come since.
        let is_older = |id: &InvocationId| {
            let other = self.invocations.get(id);
            other.is_some_and(|other| other.number < invocation.number)
        };
        let goes_on = |id: &InvocationId| match self.invocations.get(id).map(|other| &other.stage) {
            Some(InvocationStage::Running { .. }) => self.attempt_of(*id).is_some_and(|(_, run)| run.ending.is_none()),
            None | Some(InvocationStage::Storing { end: Some(_), .. }) => false,
            Some(_) => true,
        };
        let oldest = others.find(|id| is_older(id) && goes_on(id))?;
        Some((oldest, self.invocations.get(&oldest)?.stage.worker()))
    }
}

/// Returns the value of a request's payload.
pub(super) fn value_of(payload: &Payload, rules: &Rules) -> Option<Arc<str>> {
    let (place, _) = rules.queue.key.as_ref()?;
    match payload.data {
        Some(_) => payload.key(place),
        None => filled_in(payload.clone(), rules).key(place),
    }
}
