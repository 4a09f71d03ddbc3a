//! Builds that are asked for while a cancelled one ends.

use super::*;
use crate::lifecycle::builds::BuildFailure;

const CANCELLED: InvocationId = InvocationId(5);
const NEXT: InvocationId = InvocationId(6);

/// Has the build begin that is ordered in the first lane, as this invocation. Returns the lane.
fn begin(lifecycle: &mut Lifecycle, id: InvocationId) -> Lane {
    let (first, number) = (name("fnd-build"), 1);
    let lane = Lane { first, number };
    lifecycle.sealed(&lane, Ok(()), node(0), &mut Vec::new());
    lifecycle.builds.started(&lane, id, true);
    lane
}

#[test]
fn a_build_that_is_asked_for_after_a_cancellation_begins_when_the_cancelled_one_has_ended() {
    let is_cancelled = |id: InvocationId| id == CANCELLED;
    let facts = NodeFacts {
        is_cancelled: &is_cancelled,
        ..node(0)
    };
    let mut lifecycle = two_versions();
    assert!(lifecycle.build_again(&name("f"), false, 7, |_| false));
    assert_eq!(ask(&mut lifecycle), "f.sh");
    answer(&mut lifecycle, needs_build(), 0);
    begin(&mut lifecycle, CANCELLED);
    // The third caller comes after the second one, and both come after the cancellation.
    for caller in [8, 9] {
        assert!(lifecycle.build_again(&name("f"), false, caller, is_cancelled));
    }
    assert_eq!(ask(&mut lifecycle), "f.sh");
    let mut out = Vec::new();
    lifecycle.judged(1, needs_build(), facts, &mut out);
    lifecycle.confirmed(1, true, facts, &mut out);
    out.clear();
    let why = "(cancelled): cancelled on request\nCollecting requests".to_owned();
    let (outcome, last) = (Err(BuildFailure::Failed(why)), String::new());
    let (id, own) = (
        CANCELLED,
        "answer 7 Err(\"its build failed (cancelled): cancelled on request\")",
    );
    lifecycle.build_ended(BuildEnd { id, outcome, last }, node(0), &mut out);
    assert_eq!(spelled(&out), own, "only the first caller has asked for it");
    let lane = begin(&mut lifecycle, NEXT);
    let (id, outcome, last) = (NEXT, Ok(()), String::new());
    lifecycle.build_ended(BuildEnd { id, outcome, last }, node(0), &mut out);
    lifecycle.sealed(&lane, Ok(()), node(0), &mut out);
    assert_eq!(ask(&mut lifecycle), "f.sh");
    let said = install(&mut lifecycle, 3);
    assert!(
        said.starts_with("answer 8 Ok(3), answer 9 Ok(3), upload Installed"),
        "{said}"
    );
}
