//! The value of `[queue] key` of each invocation. It is read from the payload when the invocation is accepted, and again when a
//! release with another key serves; so it need not be stored, and a restart finds it again.
//!
//! An invocation without a value is in no lane: it waits for no other one, and none waits for it.

use super::Supervisor;
use super::acceptance::filled_in;
use crate::messages::rules::{Overlap, Rules};
use crate::records::Payload;
use crate::run_state::function::Presence;
use crate::run_state::invocation::InvocationStage;
use crate::run_state::releases::ServingRelease;
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::InvocationId;
use std::sync::Arc;

/// Where a new invocation finds no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// All processes of the function are busy.
    Function,
    /// As many with the same value run as may.
    Key,
}

impl Supervisor {
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

    /// Returns the oldest other invocation with the value of `newest` that is not being ended already.
    pub(super) fn oldest_with_its_key(&self, key: FunctionKey, newest: InvocationId) -> Option<InvocationId> {
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
        others.find(|id| is_older(id) && goes_on(id))
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
