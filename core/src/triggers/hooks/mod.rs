//! `[hooks]`: which functions are called after the final record of an invocation, and with what.
//!
//! Each call is an invocation of its own. The daemon stores the calls and the record in one transaction, so after a
//! kill both are there or neither is. This module does not know whether a called function exists.
//!
//! Files:
//! - `graph`: which functions call which, and the cycles in these calls
//! - `payload`: the payload of a call

pub mod graph;
pub mod payload;

use crate::records::InvocationRecord;
use crate::records::cause::DEPTH_MAX;
use crate::records::outcome::RunState;
use fnd_manifest::function::{HookCall, Hooks, OnHookFailure};
use fnd_wire::ids::FunctionName;

/// A call that follows an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The function to call.
    pub function: FunctionName,
    /// Whether a failure of the called function is marked in the record of the first invocation.
    pub marks: bool,
    /// Number of calls in the chain, this call included.
    pub depth: u8,
    /// Whether the chain is too long, so that the call is only recorded.
    pub too_deep: bool,
}

/// Returns the calls that follow a record. If the record is not final, there are none. `depth` is the number of calls
/// that led to the invocation. A function that is named twice is called once; `marks` is then true if one of the items
/// asks for it.
#[must_use]
pub fn due(hooks: &Hooks, record: &InvocationRecord, depth: u8) -> Vec<Due> {
    let lists: &[&[HookCall]] = match record.state {
        RunState::Succeeded => &[&hooks.on_success, &hooks.on_completion],
        RunState::Failed | RunState::Interrupted => &[&hooks.on_failure, &hooks.on_completion],
        // A person ended the invocation: it has neither succeeded nor failed.
        RunState::Cancelled => &[&hooks.on_completion],
        // A skipped invocation never began. The other states are not final.
        RunState::Skipped | RunState::Queued | RunState::Running | RunState::Waiting | RunState::Polling => &[],
    };
    let mut calls: Vec<Due> = Vec::new();
    for item in lists.iter().copied().flatten() {
        let marks = item.on_failure == OnHookFailure::Fail;
        if let Some(known) = calls.iter_mut().find(|known| known.function == item.call) {
            known.marks |= marks;
            continue;
        }
        calls.push(Due {
            function: item.call.clone(),
            marks,
            depth: depth.saturating_add(1),
            too_deep: depth >= DEPTH_MAX,
        });
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Accepted;
    use crate::records::outcome::{Reason, Trigger};
    use fnd_wire::ids::InvocationId;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    pub(super) fn record(state: RunState) -> InvocationRecord {
        let function = FunctionName::new("f").unwrap();
        InvocationRecord {
            state,
            ended_ms: Some(2),
            attempts: 1,
            reason: Some(Reason::Failed),
            message: "no".into(),
            ..InvocationRecord::of(&Accepted::new(InvocationId(1), function, Trigger::Manual, 1))
        }
    }

    fn call(name: &str, on_failure: OnHookFailure) -> HookCall {
        HookCall {
            call: FunctionName::new(name).unwrap(),
            on_failure,
        }
    }

    fn calls(hooks: &Hooks, state: RunState) -> Vec<(String, bool)> {
        let due = due(hooks, &record(state), 0);
        due.into_iter()
            .map(|due| (due.function.to_string(), due.marks))
            .collect()
    }

    #[test]
    fn each_end_has_its_calls() {
        use OnHookFailure::{Continue, Fail};
        let hooks = Hooks {
            on_success: vec![call("good", Continue), call("both", Continue)],
            on_failure: vec![call("bad", Fail)],
            on_completion: vec![call("always", Continue), call("both", Fail)],
        };
        let named = |names: &[(&str, bool)]| names.iter().map(|(n, m)| ((*n).to_owned(), *m)).collect::<Vec<_>>();
        let good = named(&[("good", false), ("both", true), ("always", false)]);
        let bad = named(&[("bad", true), ("always", false), ("both", true)]);
        for (state, expected) in [
            (RunState::Succeeded, &good),
            (RunState::Failed, &bad),
            (RunState::Interrupted, &bad),
            (RunState::Cancelled, &named(&[("always", false), ("both", true)])),
            (RunState::Skipped, &vec![]),
            (RunState::Running, &vec![]),
            (RunState::Waiting, &vec![]),
        ] {
            assert_eq!(&calls(&hooks, state), expected, "{state:?}");
        }
    }

    #[test]
    fn the_eighth_call_of_a_chain_is_the_last() {
        let hooks = Hooks {
            on_completion: vec![call("next", OnHookFailure::Continue)],
            ..Hooks::default()
        };
        for (depth, expected) in [
            (0, (1, false)),
            (7, (8, false)),
            (8, (9, true)),
            (u8::MAX, (u8::MAX, true)),
        ] {
            let due = due(&hooks, &record(RunState::Failed), depth);
            assert_eq!((due[0].depth, due[0].too_deep), expected, "{depth}");
        }
    }

    proptest! {
        /// A chain of functions that call each other ends after eight calls, however the functions call each other.
        #[test]
        fn every_chain_ends(edges in proptest::collection::vec((0..5_usize, 0..5_usize), 0..12)) {
            let name = |n: usize| FunctionName::new(&format!("f{n}")).unwrap();
            let hooks = |n: usize| Hooks {
                on_completion: edges.iter().filter(|(from, _)| *from == n)
                    .map(|(_, to)| HookCall { call: name(*to), on_failure: OnHookFailure::Continue }).collect(),
                ..Hooks::default()
            };
            // The functions that are called at each depth.
            let mut level = BTreeSet::from([0_usize]);
            for depth in 0..20_u8 {
                let mut next = BTreeSet::new();
                for n in &level {
                    for call in due(&hooks(*n), &record(RunState::Succeeded), depth) {
                        prop_assert_eq!(call.too_deep, depth >= DEPTH_MAX);
                        prop_assert_eq!(call.depth, depth + 1);
                        let to = (0..5).find(|to| name(*to) == call.function).unwrap();
                        prop_assert!(edges.contains(&(*n, to)));
                        if !call.too_deep {
                            next.insert(to);
                        }
                    }
                    let expected: BTreeSet<_> = edges.iter().filter(|(from, _)| from == n).collect();
                    prop_assert_eq!(due(&hooks(*n), &record(RunState::Succeeded), depth).len(), expected.len());
                }
                prop_assert!(depth < DEPTH_MAX || next.is_empty());
                level = next;
            }
        }
    }
}
