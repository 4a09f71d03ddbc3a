//! Functions that are called because another one has ended: by hooks, after each end, and by alerts, when a function
//! turns bad and when it is well again. Each call comes once, whatever was killed.

use super::check::pages;
use super::findings::{Findings, short};
use super::functions::Journal;
use fnd_core::api::{InvocationList, InvocationView};
use fnd_core::records::cause::AlertCondition;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_tests::Fnd;
use fnd_wire::ids::InvocationId;
use std::collections::BTreeMap;
use std::path::Path;

/// The functions of the load whose ends are followed by a call: scripts and a handler, that succeed and that fail.
const HOOKED: [&str; 3] = ["plain", "dies", "warm"];

/// The lines of their manifests for that.
const HOOKS: &str = "# [hooks]\n# on_completion = [\"followed\"]\n";

/// Is called after each end. A handler, because it is called as often as all of them together.
const FOLLOWED: &str = r#"# /// fnd
# [pool]
# max = 1
# [queue]
# max = 100000
# [history]
# keep = 1000000
# ///
def handler(event, context):
    key = f"followed {context['invocation']} {context['attempt']} {event['data']['record']['id']}"
    with open("GATE/followed", "a") as journal:
        journal.write(f"begin {key}\n")
"#;

/// Fails for four seconds and succeeds for four, by the machine's clock.
const TURNS: &str = "# /// fnd
# [[schedule]]
# every = \"1s\"
# [alert]
# call = \"paged\"
# [history]
# keep = 1000000
# ///
exit $((EPOCHSECONDS / 4 % 2))
";

/// Is called about it.
const PAGED: &str = "# /// fnd
# on_load = false
# [queue]
# max = 1000
# [history]
# keep = 1000000
# ///
:
";

pub(crate) fn files() -> Vec<(&'static str, String)> {
    [("followed.py", FOLLOWED), ("turns.sh", TURNS), ("paged.sh", PAGED)]
        .map(|(file, code)| (file, code.to_owned()))
        .into()
}

/// Returns the lines of a function's manifest that make it call another one.
pub(super) fn hooks(function: &str) -> &'static str {
    if HOOKED.contains(&function) { HOOKS } else { "" }
}

/// Pauses the schedule, so that the function comes to rest.
pub(crate) fn pause(fnd: &Fnd) {
    let _ = fnd.ctl(&["schedules", "pause", "turns"]).expect_code(0);
}

/// Compares the calls with the ends that they follow. `whole`: everything could be stored, so that no call is missing.
pub(crate) fn check(fnd: &Fnd, gate: &Path, whole: bool, found: &mut Findings) {
    let mut all = pages(fnd, "/v1/invocations", |page: InvocationList| {
        (page.invocations, page.next)
    });
    all.sort_by_key(|view| view.id);
    hooks_once(fnd, &all, gate, whole, found);
    alerts_once(fnd, &all, whole, found);
}

/// Checks that each end was followed by one call, which is in the history and ran at most once.
fn hooks_once(fnd: &Fnd, all: &[InvocationView], gate: &Path, whole: bool, found: &mut Findings) {
    let mut calls: BTreeMap<InvocationId, Vec<InvocationId>> = BTreeMap::new();
    for view in all.iter().filter(|view| view.function.as_str() == "followed") {
        let Some(Cause::Hook(after)) = fnd.invocation(view.id).cause else {
            found.wrong.push(format!("it follows nothing: {}", short(view)));
            continue;
        };
        if !view.state.is_final() || view.trigger != Trigger::Hook {
            found.wrong.push(format!("it is no call that is over: {}", short(view)));
        }
        calls.entry(after.invocation).or_default().push(view.id);
    }
    for view in all.iter().filter(|view| HOOKED.contains(&view.function.as_str())) {
        let by = calls.remove(&view.id).unwrap_or_default();
        // A skipped invocation never began, so it has no end to follow.
        let expected = usize::from(view.state != RunState::Skipped);
        if by.len() > expected {
            found.doubled.push(format!("{by:?} all follow {}", short(view)));
        } else if by.len() < expected && whole {
            found.lost.push(format!("no call follows {}", short(view)));
        }
    }
    for (id, by) in calls {
        found
            .wrong
            .push(format!("{by:?} follow {id}, which is not in the history"));
    }
    let journal = Journal::read(gate, ["followed"].into_iter());
    for ((id, attempt), count) in journal.begun.iter().filter(|(_, count)| **count > 1) {
        found
            .doubled
            .push(format!("attempt {attempt} of the call {id} ran {count} times"));
    }
    for (after, ids) in journal.by_tag.iter().filter(|(_, ids)| ids.len() > 1) {
        found
            .doubled
            .push(format!("the end of {after} was followed by {ids:?}"));
    }
}

/// Checks that a call came for each change from well to bad and back, and no other one.
fn alerts_once(fnd: &Fnd, all: &[InvocationView], whole: bool, found: &mut Findings) {
    let mut told = Vec::new();
    for view in all.iter().filter(|view| view.function.as_str() == "paged") {
        match fnd.invocation(view.id).cause {
            Some(Cause::Alert(alert)) => told.push((alert.alert == AlertCondition::Recovered, view)),
            _ => found.wrong.push(format!("it is about nothing: {}", short(view))),
        }
    }
    // Its runs do not overlap, so they ended in the order in which they were accepted.
    let ends = all.iter().filter(|view| view.function.as_str() == "turns");
    let mut changes = Vec::new();
    for view in ends {
        let is_well = match view.state {
            RunState::Succeeded => true,
            RunState::Failed | RunState::Interrupted => false,
            _ => continue,
        };
        // A function is well at first.
        if changes.last().is_none_or(|(before, _)| *before) != is_well {
            changes.push((is_well, view));
        }
    }
    let mut is_well = true;
    for (recovered, view) in &told {
        if *recovered == is_well {
            found.doubled.push(format!("an alert came twice: {}", short(view)));
        }
        is_well = *recovered;
    }
    if whole && told.len() != changes.len() {
        let of = |list: &[(bool, &InvocationView)]| list.iter().map(|(_, view)| short(view)).collect::<Vec<_>>();
        found.lost.push(format!(
            "{} alerts came of {} changes: {:?} of {:?}",
            told.len(),
            changes.len(),
            of(&told),
            of(&changes)
        ));
    }
}
