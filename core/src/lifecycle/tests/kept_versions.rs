//! Versions that stay on the disk, because something may still name them.

use super::*;
use crate::lifecycle::release::HoldKind;

#[test]
fn the_ledger_gets_the_releases_as_they_are_if_a_stored_plan_cannot_be_carried_out() {
    let mut lifecycle = two_versions();
    lifecycle.take_changed(&mut Vec::new());
    lifecycle.releases.store_again(&name("f"));
    let stored = lifecycle.take_changed(&mut Vec::new());
    let now = serde_json::to_string(lifecycle.releases.get(&name("f")).unwrap()).unwrap();
    assert_eq!(stored, [(name("f"), Some(now))]);
}

/// Otherwise a kill on a full disk would bring back a pin whose release is not on the disk any more.
#[test]
fn the_versions_of_a_deleted_function_stay_until_the_ledger_has_forgotten_its_releases() {
    let (mut lifecycle, f) = (lifecycle(), name("f"));
    let stored = |lifecycle: &mut Lifecycle| {
        let mut out = Vec::new();
        lifecycle.releases_stored(&name("f"), &mut out);
        spelled(&out)
    };
    write(&mut lifecycle, 1);
    serves(&mut lifecycle, 1);
    assert_eq!(lifecycle.take_changed(&mut Vec::new()).len(), 1);
    assert_eq!(stored(&mut lifecycle), "");
    person(&mut lifecycle, &ReleaseChange::Hold(HoldKind::Pin, None));
    assert_eq!(lifecycle.take_changed(&mut Vec::new()).len(), 1);
    lifecycle.removed(std::slice::from_ref(&f), &mut Vec::new());
    assert_eq!(lifecycle.prune(&f, Vec::new(), 0), None, "the write has not left");
    assert_eq!(lifecycle.take_changed(&mut Vec::new()), [(f.clone(), None)]);
    assert_eq!(stored(&mut lifecycle), "", "the ledger has the pin");
    assert_eq!(lifecycle.prune(&f, Vec::new(), 0), None);
    assert_eq!(stored(&mut lifecycle), "prune");
    assert_eq!(lifecycle.prune(&f, Vec::new(), 0), Some(Vec::new()));
}

/// The end of a build that an earlier fnd has begun would delete the version that was just lent to its lane.
#[test]
fn the_end_of_a_run_deletes_no_version_of_a_function_of_fnds_own() {
    let mut lifecycle = lifecycle();
    for own in ["fnd-build", "fnd-build-2", "fnd-check"] {
        assert_eq!(lifecycle.prune(&name(own), Vec::new(), 0), None, "{own}");
    }
    assert_eq!(lifecycle.prune(&name("f"), Vec::new(), 0), Some(Vec::new()));
}

/// The spawner may have made the version that builds the tree of `g`, and fnd has not heard of it.
#[test]
fn no_version_that_builds_is_deleted_while_an_installation_is_under_way() {
    for is_asking in [false, true] {
        let mut lifecycle = two_versions();
        lifecycle.files_changed(vec![candidate("f")]);
        assert_eq!(ask(&mut lifecycle), "f.sh");
        answer(&mut lifecycle, needs_build(), 0);
        if is_asking {
            lifecycle.files_changed(vec![candidate("g")]);
            assert_eq!(ask(&mut lifecycle), "g.sh");
        }
        let (first, number, id, mut out) = (name("fnd-build"), 1, InvocationId(5), Vec::new());
        let lane = Lane { first, number };
        lifecycle.sealed(&lane, Ok(()), node(0), &mut out);
        lifecycle.builds.started(&lane, id, true);
        lifecycle.build_ended(BuildEnd::not_started(id, "fnd drains"), node(0), &mut out);
        let is_prune = |order: &Order| matches!(order, Order::Request(fnd_wire::frame::Request::Prune(_)));
        assert_eq!(out.iter().any(is_prune), !is_asking);
    }
}
