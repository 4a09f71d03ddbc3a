//! Which functions call which by `[hooks]`, and the cycles in these calls.
//!
//! If a version would close a cycle and an earlier version of its function serves, the new version is refused. If there
//! is no earlier version, the function is accepted, and the hooks of all functions of the cycle are off until the cycle
//! ends.

use fnd_wire::ids::FunctionName;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The calls of all functions.
#[derive(Debug, Default)]
pub struct Graph {
    calls: BTreeMap<FunctionName, BTreeSet<FunctionName>>,
    /// The functions on a cycle.
    cyclic: BTreeSet<FunctionName>,
}

impl Graph {
    /// Returns the cycle that these calls of a function would close: the functions on it in the order in which they
    /// call each other, beginning and ending with the function.
    #[must_use]
    pub fn closes<'a>(
        &self,
        function: &FunctionName,
        calls: impl IntoIterator<Item = &'a FunctionName>,
    ) -> Option<Vec<FunctionName>> {
        // The search is breadth-first, so it finds the shortest cycle.
        let mut came_from: BTreeMap<&FunctionName, &FunctionName> = BTreeMap::new();
        let mut waiting: VecDeque<(&FunctionName, &FunctionName)> =
            calls.into_iter().map(|call| (function, call)).collect();
        while let Some((from, at)) = waiting.pop_front() {
            if at == function {
                return Some(path(&came_from, function, from));
            }
            if let Entry::Vacant(new) = came_from.entry(at) {
                new.insert(from);
                waiting.extend(self.calls.get(at).into_iter().flatten().map(|call| (at, call)));
            }
        }
        None
    }

    /// Replaces the calls of a function. Returns whether a call is gone: then a function that was refused may be
    /// accepted now.
    pub fn set<'a>(&mut self, function: &FunctionName, calls: impl IntoIterator<Item = &'a FunctionName>) -> bool {
        let calls: BTreeSet<_> = calls.into_iter().cloned().collect();
        let before = self.calls.remove(function).unwrap_or_default();
        // Most installations change no call, and then no graph is searched.
        if calls == before {
            if !before.is_empty() {
                self.calls.insert(function.clone(), before);
            }
            return false;
        }
        let is_gone = !before.is_subset(&calls);
        if !calls.is_empty() {
            self.calls.insert(function.clone(), calls);
        }
        if self.cyclic.is_empty() && self.cycle(function).is_none() {
            // Only the new calls could have closed a cycle.
            return is_gone;
        }
        let on_a_cycle = |name: &&FunctionName| self.cycle(name).is_some();
        self.cyclic = self.calls.keys().filter(on_a_cycle).cloned().collect();
        is_gone
    }

    /// Says whether the hooks of a function are off, because it is on a cycle.
    #[must_use]
    pub fn is_off(&self, function: &FunctionName) -> bool {
        self.cyclic.contains(function)
    }

    /// Returns the cycle that a function is on.
    #[must_use]
    pub fn cycle(&self, function: &FunctionName) -> Option<Vec<FunctionName>> {
        self.closes(function, self.calls.get(function)?)
    }
}

/// Returns the path from a function by its calls to `last`, and back to the function.
fn path(
    came_from: &BTreeMap<&FunctionName, &FunctionName>,
    function: &FunctionName,
    last: &FunctionName,
) -> Vec<FunctionName> {
    let mut path = vec![function.clone()];
    let mut at = last;
    while at != function {
        path.push(at.clone());
        match came_from.get(at) {
            Some(before) => at = before,
            None => break,
        }
    }
    path.push(function.clone());
    path.reverse();
    path
}

/// Returns a cycle as text: `a -> b -> a`.
#[must_use]
pub fn spelled(cycle: &[FunctionName]) -> String {
    let names: Vec<&str> = cycle.iter().map(FunctionName::as_str).collect();
    names.join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> FunctionName {
        FunctionName::new(text).unwrap()
    }

    fn closes(graph: &Graph, function: &str, calls: &[&str]) -> Option<String> {
        let calls: Vec<_> = calls.iter().map(|call| name(call)).collect();
        graph.closes(&name(function), &calls).map(|cycle| spelled(&cycle))
    }

    fn set(graph: &mut Graph, function: &str, calls: &[&str]) -> bool {
        let calls: Vec<_> = calls.iter().map(|call| name(call)).collect();
        graph.set(&name(function), &calls)
    }

    #[test]
    fn a_cycle_is_named_with_its_path() {
        let mut graph = Graph::default();
        assert_eq!(closes(&graph, "a", &["a"]).as_deref(), Some("a -> a"));
        set(&mut graph, "a", &["b"]);
        set(&mut graph, "b", &["c", "d"]);
        assert_eq!(closes(&graph, "d", &["e"]), None);
        assert_eq!(closes(&graph, "d", &["a"]).as_deref(), Some("d -> a -> b -> d"));
        assert_eq!(closes(&graph, "c", &["x", "b"]).as_deref(), Some("c -> b -> c"));
    }

    #[test]
    fn hooks_are_off_as_long_as_there_is_a_cycle() {
        let mut graph = Graph::default();
        set(&mut graph, "a", &["b"]);
        set(&mut graph, "other", &["a"]);
        set(&mut graph, "b", &["a"]);
        let off = |graph: &Graph| ["a", "b", "other"].map(|function| graph.is_off(&name(function)));
        assert_eq!(off(&graph), [true, true, false]);
        assert!(set(&mut graph, "b", &[]), "a call is gone");
        assert_eq!(off(&graph), [false; 3]);
        assert!(!set(&mut graph, "b", &["c"]));
    }

    proptest! {
        /// Against the transitive closure of the calls.
        #[test]
        fn cycles_are_found(steps in proptest::collection::vec((0..6_usize, proptest::collection::btree_set(0..6_usize, 0..4)), 0..20)) {
            let name = |n: usize| name(&format!("f{n}"));
            let mut graph = Graph::default();
            let mut calls = vec![BTreeSet::new(); 6];
            for (from, to) in steps {
                let mut with = calls.clone();
                with[from] = to.clone();
                let mut reach = with.clone();
                for _ in 0..6 {
                    for n in 0..6 {
                        let further: BTreeSet<usize> = reach[n].iter().flat_map(|m| reach[*m].clone()).collect();
                        reach[n].extend(further);
                    }
                }
                let names: Vec<_> = to.iter().map(|n| name(*n)).collect();
                let cycle = graph.closes(&name(from), &names);
                prop_assert_eq!(cycle.is_some(), reach[from].contains(&from));
                if let Some(cycle) = cycle {
                    // Each function of the path calls the next one.
                    let number = |function: &FunctionName| (0..6).find(|n| name(*n) == *function).unwrap();
                    prop_assert!(cycle.len() >= 2 && cycle[0] == name(from) && cycle[cycle.len() - 1] == name(from));
                    for pair in cycle.windows(2) {
                        prop_assert!(with[number(&pair[0])].contains(&number(&pair[1])));
                    }
                }
                let gone = !calls[from].is_subset(&to);
                prop_assert_eq!(graph.set(&name(from), &names), gone);
                calls = with;
                for (n, reached) in reach.iter().enumerate() {
                    prop_assert_eq!(graph.is_off(&name(n)), reached.contains(&n));
                }
            }
        }
    }
}
