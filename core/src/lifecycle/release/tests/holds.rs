//! Rollbacks and pins: how long they hold, and what comes back if their release cannot serve.

use super::*;

#[test]
fn a_rollback_ends_with_the_next_edit_and_a_pin_does_not() {
    let mut world = after(&[0, 1]);
    world.step(Step::Rollback(None));
    assert_eq!(served(&world), Some(0));
    for step in [Step::Reload, Step::Restart, Step::Interpreter, Step::Edit(1)] {
        world.step(step);
        assert_eq!(served(&world), Some(0), "the file is as it was");
    }
    world.step(Step::Edit(2));
    assert_eq!((served(&world), world.releases.hold()), (Some(2), None));
    world.step(Step::Pin(None));
    world.step(Step::Edit(3));
    assert_eq!(served(&world), Some(2));
    assert_eq!(world.releases.waiting(), Some(version(3, 1)));
    world.step(Step::Restart);
    assert_eq!(served(&world), Some(2));
    world.step(Step::Unpin);
    assert_eq!((served(&world), world.releases.waiting()), (Some(3), None));
}

#[test]
fn going_back_twice_goes_back_two_releases() {
    let mut world = after(&[0, 1, 2]);
    world.step(Step::Rollback(None));
    assert_eq!(served(&world), Some(1));
    world.step(Step::Rollback(None));
    assert_eq!(served(&world), Some(0));
    assert_eq!(world.releases.one_before(), Err(NoRelease::NoneBefore(version(0, 0))));
    let whys: Vec<_> = world
        .releases
        .list()
        .iter()
        .map(|release| release.why.clone())
        .collect();
    let back = |content| Some(format!("rolled back to {}", short(version(content, 0))).into());
    assert_eq!(whys, [None, back(0), back(1)]);
}

#[test]
fn going_back_from_an_edit_that_cannot_be_loaded_ends_its_trials() {
    let mut world = after(&[0, 1, BROKEN]);
    world.step(Step::Rollback(None));
    let hold = world.releases.hold().unwrap();
    assert_eq!((hold.version, hold.established), (version(1, 0), true));
    world.step(Step::Edit(INVALID));
    assert_eq!(served(&world), Some(1));
    world.step(Step::Edit(2));
    assert_eq!((served(&world), world.releases.hold()), (Some(2), None));
}

#[test]
fn a_rollback_beside_wrong_code_outlasts_a_restart() {
    let mut releases = Releases::default();
    for content in [1, 2] {
        releases.file_installed(1, (version(content, 0), key(content)), ("f.sh", Tried::default()));
        releases.serves(version(content, 0));
    }
    releases.file_installed(1, (version(3, 0), key(3)), ("f.sh", Tried::default()));
    assert_eq!(
        releases.file_is_wrong((version(3, 0), key(3))),
        None,
        "what serves goes on"
    );
    releases.hold_release(2, HoldKind::Rollback, (version(1, 0), false));
    releases.serves(version(1, 0));
    let mut after: Releases = serde_json::from_str(&serde_json::to_string(&releases).unwrap()).unwrap();
    let next = after.file_installed(3, (version(3, 0), key(3)), ("f.sh", Tried::default()));
    assert_eq!(next, AfterInstall::Waits(version(1, 0)));
    assert_eq!(after.hold().map(|hold| hold.version), Some(version(1, 0)));
}

#[test]
fn a_release_that_could_not_be_loaded_is_no_place_to_go_back_to() {
    let world = after(&[0, BROKEN, 1]);
    assert_eq!(
        world.releases.one_before().map(|release| release.version),
        Ok(version(0, 0))
    );
    let failed = world.releases.get(version(BROKEN, 0)).unwrap();
    assert_eq!(world.releases.state(failed, None), ReleaseState::Failed);
    assert_eq!(failed.error.as_deref(), Some("no such module"));
}

#[test]
fn after_a_restart_the_last_good_release_serves_beside_a_file_that_is_refused_or_cannot_be_loaded() {
    for bad in [INVALID, BROKEN] {
        let mut world = after(&[0, bad]);
        world.step(Step::Restart);
        assert_eq!(served(&world), Some(0));
        world.step(Step::Edit(1));
        assert_eq!(served(&world), Some(1));
    }
}

#[test]
fn a_hold_whose_release_cannot_be_loaded_gives_way_to_the_one_before() {
    let mut world = after(&[0, BROKEN, 1]);
    world.step(Step::Pin(None));
    world.step(Step::Rollback(Some(BROKEN)));
    assert_eq!(served(&world), Some(1));
    let hold = world.releases.hold().unwrap();
    assert_eq!((hold.kind, hold.version), (HoldKind::Pin, version(1, 0)));
    assert!(
        !world.releases.copy_refused(version(1, 0)),
        "a hold that is in force stays"
    );
}

#[test]
fn what_a_hold_has_replaced_comes_back_also_if_another_hold_comes_before_its_release_serves() {
    let mut world = after(&[0, BROKEN, 1]);
    world.step(Step::Pin(None));
    world.step(Step::Edit(2));
    world.step(Step::Canary);
    let before = world.releases.clone();
    let loading = version(0, 0);
    world
        .releases
        .hold_release(world.now, HoldKind::Rollback, (loading, false));
    world.step(Step::Rollback(Some(BROKEN)));
    assert_eq!(served(&world), Some(1));
    assert_eq!(
        (world.releases.hold(), world.releases.canary()),
        (before.hold(), before.canary())
    );
    world.check();
}

#[test]
fn a_hold_that_comes_back_holds_the_version_that_serves_by_then() {
    let mut world = after(&[0, BROKEN, 1]);
    world.step(Step::Pin(None));
    let broken = version(BROKEN, 0);
    world
        .releases
        .hold_release(world.now, HoldKind::Rollback, (broken, false));
    world.store();
    // A secret has changed when fnd starts again.
    world.interpreter = 1;
    world.restart();
    assert_eq!(world.serves, Some(version(1, 1)));
    let hold = world.releases.hold().unwrap();
    assert_eq!((hold.kind, hold.version), (HoldKind::Pin, version(1, 1)));
}
