//! Builds that another process disturbs: a run of an earlier fnd in the same lane, or one of which only the spawner knows.

use super::*;
use fnd_wire::frame::NOT_ALONE;

const EARLIER: InvocationId = InvocationId(4);
const OWN: InvocationId = InvocationId(5);

/// Returns a machine in which the file of `f` is being installed, and the lane in which its dependencies are built.
fn asked() -> (Lifecycle, Lane) {
    let mut lifecycle = two_versions();
    lifecycle.files_changed(vec![candidate("f")]);
    assert_eq!(ask(&mut lifecycle), "f.sh");
    let (first, number) = (name("fnd-build"), 1);
    (lifecycle, Lane { first, number })
}

fn end(id: InvocationId) -> BuildEnd {
    let (outcome, last) = (Ok(()), String::new());
    BuildEnd { id, outcome, last }
}

fn clears(orders: &[Order]) -> usize {
    let is_clear = |order: &&Order| matches!(order, Order::Seal(_, None));
    orders.iter().filter(is_clear).count()
}

/// The run could leave files behind the helper that empties the home, so the spawner would make no tree of the next build.
#[test]
fn a_home_is_emptied_again_if_a_run_of_an_earlier_fnd_has_ended_there_meanwhile() {
    for is_busy in [false, true] {
        let is_live = |function: &FunctionName| is_busy && function.as_str() == "fnd-build";
        let busy = NodeFacts {
            is_live: &is_live,
            ..node(0)
        };
        let ((mut lifecycle, lane), mut out) = (asked(), Vec::new());
        lifecycle.judged(1, needs_build(), busy, &mut out);
        lifecycle.confirmed(1, true, busy, &mut out);
        // The end comes before the lane is empty: no build of the lane is known yet.
        lifecycle.build_ended(end(EARLIER), node(0), &mut out);
        lifecycle.sealed(&lane, Ok(()), node(0), &mut out);
        assert!(matches!(out.last(), Some(Order::Build(_))));
        assert_eq!(clears(&out), 1);
        assert_eq!(lifecycle.is_empty_lane(&lane, node(0), &mut out), !is_busy);
        if is_busy {
            assert_eq!(clears(&out), 2);
            lifecycle.sealed(&lane, Ok(()), node(0), &mut out);
            assert!(matches!(out.last(), Some(Order::Build(_))));
            assert!(lifecycle.is_empty_lane(&lane, node(0), &mut out));
        }
    }
}

#[test]
fn a_file_whose_build_did_not_run_alone_is_tried_again() {
    for (why, next) in [(NOT_ALONE, Some(102)), ("the link `x` leads out of it", None)] {
        let ((mut lifecycle, lane), mut out) = (asked(), Vec::new());
        answer(&mut lifecycle, needs_build(), 100);
        lifecycle.sealed(&lane, Ok(()), node(100), &mut out);
        lifecycle.builds.started(&lane, OWN, true);
        lifecycle.build_ended(end(OWN), node(100), &mut out);
        lifecycle.sealed(&lane, Err(why.to_owned()), node(100), &mut out);
        assert_eq!(lifecycle.next_due(), next.map(Duration::from_secs), "{why}");
        let tree = Version([1; 32]);
        let is_remembered = lifecycle.builds.failure(&name("f"), tree).is_some();
        assert_eq!(is_remembered, next.is_none(), "{why}");
        write(&mut lifecycle, 4);
        assert_eq!(lifecycle.builds.failure(&name("f"), tree), None, "it is installed");
    }
}
