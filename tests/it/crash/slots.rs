//! A function that runs every second by schedule, and what its slots must be: each one handled once, whatever was killed.

use super::findings::{Findings, short};
use fnd_core::api::{InvocationList, InvocationView};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::Trigger;
use fnd_tests::Fnd;

pub(crate) const NAME: &str = "ticks";

/// Its file and its code. Slots are caught up for longer than any test lasts.
pub(crate) const FILE: (&str, &str) = (
    "ticks.sh",
    "# /// fnd
# [[schedule]]
# every = \"1s\"
# catch_up = \"1d\"
# overlap = \"queue\"
# [queue]
# max = 100000
# [history]
# keep = 1000000
# ///
:
",
);

/// Pauses the schedule, so that the function comes to rest.
pub(crate) fn pause(fnd: &Fnd) {
    let _ = fnd.ctl(&["schedules", "pause", NAME]).expect_code(0);
}

/// Compares the slots of its runs. Slots count by fnd's clock, which may have been set, but not by more than a day: a mark
/// that is more than a day ahead of the clock counts as wrong, and the schedule begins anew, so that slots come again.
/// `whole`: everything could be stored, so that no slot is missing.
pub(crate) fn check(fnd: &Fnd, whole: bool, found: &mut Findings) {
    let path = format!("/v1/invocations?function={NAME}&trigger=schedule&limit=1000");
    let list: InvocationList = fnd.client().get(&path).json();
    let mut after: Option<(i64, InvocationView)> = None;
    for view in list.invocations.iter().rev() {
        let view = fnd.invocation(view.id);
        assert_eq!(view.trigger, Trigger::Schedule);
        let Some(Cause::Schedule(slots)) = &view.cause else {
            found.wrong.push(format!("it has no slot: {}", short(&view)));
            continue;
        };
        let seconds = |text: &str| text.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second);
        let last = seconds(&slots.scheduled_at);
        let first = slots.first.as_deref().map_or(last, seconds);
        if let Some((before, other)) = &after {
            if first <= *before {
                found
                    .doubled
                    .push(format!("a slot of {} and {}", short(other), short(&view)));
            } else if whole && first > before + 1 {
                found
                    .lost
                    .push(format!("{} slots before {}", first - before - 1, short(&view)));
            }
        }
        after = Some((last, view));
    }
    if after.is_none() {
        found.lost.push("the schedule never ran".to_owned());
    }
}
