//! All functions by name, and counts of functions and attempts. Each change of a function changes the counts, so that
//! the node's status need not walk over all functions.
//!
//! Every change of a function goes through [`SupervisedFunctions`]'s `IndexMut`, which notes the function. At the end of each event
//! [`SupervisedFunctions::count`] compares each noted function with what the counts have of it. So no code that changes a function
//! has to think of the counts.

use super::FunctionKey;
use super::function::{CountedFunction, SupervisedFunction};
use crate::interned::packed;
use crate::messages::FunctionState;
use fnd_wire::ids::FunctionName;
use std::collections::BTreeMap;
use std::ops::{Bound, Index, IndexMut};

/// The numbers of all functions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Shown functions in each state, in the order of [`FunctionState::ALL`]; not fnd's own.
    pub(crate) by_state: [usize; FunctionState::ALL.len()],
    /// Attempts that run or are being started; also those of fnd's own functions.
    pub(crate) running: usize,
}

impl Counts {
    /// Replaces what the counts have of a function.
    pub(crate) fn replace(&mut self, before: CountedFunction, after: CountedFunction) {
        if let Some(state) = before.state {
            let number = &mut self.by_state[state as usize];
            *number = number.saturating_sub(1);
        }
        if let Some(state) = after.state {
            self.by_state[state as usize] += 1;
        }
        self.running = self.running.saturating_sub(before.running) + after.running;
    }
}

/// All functions that were ever known, by key and by name.
#[derive(Debug, Default)]
pub(crate) struct SupervisedFunctions {
    table: Vec<SupervisedFunction>,
    names: BTreeMap<FunctionName, FunctionKey>,
    counts: Counts,
    /// Functions that may have changed since they were counted.
    changed: Vec<FunctionKey>,
}

impl SupervisedFunctions {
    /// Returns the key of a name.
    pub(crate) fn find(&self, name: &FunctionName) -> Option<FunctionKey> {
        self.names.get(name).copied()
    }

    /// Returns the key of a name; adds the function if there is none.
    pub(crate) fn find_or_add(&mut self, name: &FunctionName) -> FunctionKey {
        if let Some(key) = self.find(name) {
            return key;
        }
        let key = FunctionKey(self.table.len());
        self.table.push(SupervisedFunction::new(name.clone()));
        self.names.insert(name.clone(), key);
        key
    }

    /// Returns the function of a name; adds it if there is none.
    pub(crate) fn get_or_add(&mut self, name: &FunctionName) -> &mut SupervisedFunction {
        let key = self.find_or_add(name);
        &mut self[key]
    }

    /// Returns the function of a name.
    pub(crate) fn get(&self, name: &FunctionName) -> Option<&SupervisedFunction> {
        self.find(name).map(|key| &self[key])
    }

    /// Gives back the room for more functions. To be called when all functions of a scan are here.
    pub(crate) fn pack(&mut self) {
        self.names = packed(std::mem::take(&mut self.names));
        self.changed.shrink_to_fit();
    }

    /// Returns every key, by name.
    pub(crate) fn keys(&self) -> impl Iterator<Item = FunctionKey> {
        self.names.values().copied()
    }

    /// Returns the keys of the names after this one, by name; all keys without one.
    pub(crate) fn keys_after(&self, name: Option<&FunctionName>) -> impl Iterator<Item = FunctionKey> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.names
            .range::<FunctionName, _>((from, Bound::Unbounded))
            .map(|(_, key)| *key)
    }

    /// Returns the counts, as of the last call of [`Self::count`].
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Brings the counts up to date.
    pub(crate) fn count(&mut self) {
        while let Some(key) = self.changed.pop() {
            let function = &mut self.table[key.0];
            let now = CountedFunction::of(function);
            self.counts.replace(function.counted, now);
            (function.counted, function.changed) = (now, false);
        }
    }
}

impl Index<FunctionKey> for SupervisedFunctions {
    type Output = SupervisedFunction;
    fn index(&self, key: FunctionKey) -> &SupervisedFunction {
        // Only `find_or_add` makes keys, and the table never shrinks.
        &self.table[key.0]
    }
}

impl IndexMut<FunctionKey> for SupervisedFunctions {
    fn index_mut(&mut self, key: FunctionKey) -> &mut SupervisedFunction {
        let function = &mut self.table[key.0];
        // It is not known whether the caller changes anything, so the function counts as changed.
        if !function.changed {
            function.changed = true;
            self.changed.push(key);
        }
        function
    }
}
