//! Releases that get a share of the calls, until they are promoted or stopped.

use super::*;

#[test]
fn a_canary_that_comes_back_is_the_content_of_the_file() {
    let mut world = after(&[0, 1]);
    world.step(Step::Pin(None));
    world.step(Step::Edit(2));
    world.step(Step::Canary);
    let (loading, canary) = (version(0, 0), version(2, 0));
    world.releases.hold_release(world.now, HoldKind::Pin, (loading, false));
    let mut refused = world.releases.clone();
    refused.file_refused();
    assert!(refused.needed().contains(&canary), "it may come back");
    refused.failed(loading, "no such module");
    assert_eq!(refused.canary().map(|canary| canary.version), Some(canary));
    let mut edited = world.releases;
    edited.file_installed(9, (version(3, 0), key(3)), ("f.py", Tried::default()));
    edited.failed(loading, "no such module");
    assert_eq!(edited.canary(), None);
    assert_eq!(
        (edited.hold().unwrap().version, edited.waiting()),
        (version(1, 0), Some(version(3, 0)))
    );
}

#[test]
fn a_new_content_is_a_canary_until_it_is_promoted() {
    let mut world = after(&[0]);
    world.step(Step::Share(true));
    world.step(Step::Edit(1));
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(1, 0))));
    let canary = world.releases.canary().unwrap();
    assert_eq!(canary.promote_at_ms(), canary.since_ms.map(|since| since + 1000));
    let states = |world: &World| {
        let list = world.releases.list().iter();
        list.map(|release| world.releases.state(release, None))
            .collect::<Vec<_>>()
    };
    assert_eq!(states(&world), [ReleaseState::Serving, ReleaseState::Canary]);
    for step in [Step::Reload, Step::Restart, Step::Interpreter] {
        world.step(step);
        world.check();
        assert_eq!(world.canary, Some(version(1, world.interpreter)), "{step:?}");
    }
    world.step(Step::Edit(INVALID));
    world.step(Step::Restart);
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(1, 1))));
    world.step(Step::Promote);
    assert_eq!((served(&world), world.canary), (Some(1), None));
    assert_eq!(world.releases.promote(world.now), Err(NoRelease::NoCanary));
    // An earlier release needs no canary.
    world.step(Step::Edit(0));
    assert_eq!((served(&world), world.canary), (Some(0), None));
}

#[test]
fn a_canary_with_too_many_failures_is_rolled_back_until_the_next_edit() {
    let mut world = after(&[0]);
    world.step(Step::Share(true));
    world.step(Step::Edit(1));
    world.step(Step::CanaryFails);
    world.step(Step::Restart);
    assert_eq!(world.canary, Some(version(1, 0)));
    world.step(Step::CanaryFails);
    assert_eq!((served(&world), world.canary), (Some(0), None));
    let failed = world.releases.get(version(1, 0)).unwrap();
    assert_eq!(
        failed.error.as_deref(),
        Some("as a canary, 2 runs failed; `max_failures` is 1")
    );
    let hold = world.releases.hold().unwrap();
    assert_eq!(
        (hold.kind, hold.version, hold.established),
        (HoldKind::Rollback, version(0, 0), true)
    );
    for step in [Step::Reload, Step::Restart] {
        world.step(step);
        assert_eq!((served(&world), world.canary), (Some(0), None));
    }
    world.step(Step::Edit(2));
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(2, 0))));
    world.step(Step::Rollback(None));
    assert_eq!((served(&world), world.canary), (Some(0), None));
    // A person ends the hold: the file is tried again.
    world.step(Step::Unpin);
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(2, 0))));
    world.step(Step::StopCanary);
    let stopped = world.releases.get(version(2, 0)).unwrap();
    assert_eq!(world.releases.state(stopped, None), ReleaseState::Waiting);
}

#[test]
fn a_release_that_waits_behind_a_pin_gets_a_share_and_ends_the_pin_when_it_is_promoted() {
    let mut world = after(&[0]);
    assert_eq!(world.releases.try_canary(RULES), Err(NoRelease::NoneWaits));
    world.step(Step::Pin(None));
    world.step(Step::Edit(1));
    world.step(Step::Canary);
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(1, 0))));
    world.step(Step::Restart);
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(1, 0))));
    world.step(Step::StopCanary);
    assert_eq!(world.releases.hold().unwrap().kind, HoldKind::Pin);
    world.step(Step::Canary);
    // Another content waits now.
    world.step(Step::Edit(2));
    assert_eq!(world.canary, None);
    world.step(Step::Canary);
    world.step(Step::Promote);
    assert_eq!((served(&world), world.releases.hold()), (Some(2), None));
}

#[test]
fn a_promotion_that_fails_leaves_the_canary_and_the_pin_as_they_were() {
    let mut world = after(&[0]);
    world.step(Step::Pin(None));
    world.step(Step::Edit(1));
    world.step(Step::Canary);
    let (canary, before) = (version(1, 0), world.releases.clone());
    assert_eq!(world.releases.promote(world.now), Ok(canary));
    assert!(!world.releases.copy_refused(canary), "no hold has ended");
    assert_eq!(world.releases, before);
    // Another release is chosen, the canary is stopped or the file changes before the canary serves.
    let restarted = |releases: &Releases| -> Releases {
        let stored = serde_json::to_string(releases).unwrap();
        serde_json::from_str(&stored).unwrap()
    };
    let pinned = |releases: &Releases| releases.hold().map(|hold| (hold.kind, hold.version));
    let pin = Some((HoldKind::Pin, version(0, 0)));
    world.releases.promote(world.now).unwrap();
    let mut stopped = restarted(&world.releases);
    assert_eq!((stopped.end_canary(9, None), pinned(&stopped)), (Ok(canary), pin));
    let mut edited = restarted(&world.releases);
    edited.file_installed(9, (version(2, 0), key(2)), ("f.py", Tried::default()));
    assert_eq!((edited.canary(), pinned(&edited)), (None, pin));
    let mut held = world.releases.clone();
    held.hold_release(9, HoldKind::Rollback, (canary, false));
    assert!(held.copy_refused(canary));
    assert_eq!((held.canary(), pinned(&held)), (before.canary(), pin));
    assert!(!world.releases.copy_refused(canary));
    // A promotion that was due is not tried again at once.
    world.releases.promote(1_000_000).unwrap();
    world.releases.copy_refused(canary);
    assert_eq!(world.releases.canary().unwrap().promote_at_ms(), None);
    // The same if it cannot be loaded.
    world.step(Step::Edit(BROKEN));
    world.step(Step::Canary);
    let before = world.releases.clone();
    world.step(Step::Promote);
    assert_eq!(served(&world), Some(0));
    assert_eq!(
        (world.releases.hold(), world.releases.canary()),
        (before.hold(), before.canary())
    );
}

#[test]
fn a_promotion_goes_on_after_a_restart_although_the_file_is_refused() {
    let mut world = after(&[0, 1]);
    world.step(Step::Rollback(None));
    world.step(Step::Canary);
    world.step(Step::Edit(INVALID));
    // The canary is another version now, which is loaded before it serves.
    world.step(Step::Interpreter);
    world.step(Step::CutShort);
    world.step(Step::Promote);
    assert_eq!((served(&world), world.releases.canary()), (Some(1), None));
    world.check();
}

#[test]
fn a_promotion_goes_on_if_the_file_that_waited_before_it_is_refused() {
    let mut world = after(&[0]);
    world.step(Step::Share(true));
    world.step(Step::Edit(1));
    let canary = version(1, 0);
    assert_eq!(world.releases.promote(world.now), Ok(canary));
    // Its copy was dropped, because the file was to be judged first.
    assert_eq!(world.releases.file_refused(), Some(canary));
    assert_eq!(world.releases.copy_installed(canary, canary), Copied::Serves);
    world.releases.serves(canary);
    assert_eq!(world.releases.file_refused(), None, "it serves");
}

#[test]
fn no_release_gets_a_share_until_the_held_one_has_served() {
    let mut world = after(&[0, 1]);
    world.step(Step::Pin(None));
    world.step(Step::Edit(2));
    let (held, waiting) = (version(0, 0), version(2, 0));
    world
        .releases
        .hold_release(world.now, HoldKind::Rollback, (held, false));
    // The supervisor tries it, and gives up that trial for a canary.
    assert_eq!(world.releases.copy_installed(held, held), Copied::Serves);
    assert_eq!(world.releases.try_canary(RULES), Err(NoRelease::HeldIsTried(held)));
    let stored = serde_json::to_string(&world.releases).unwrap();
    let mut restarted: Releases = serde_json::from_str(&stored).unwrap();
    assert_eq!(restarted.try_canary(RULES), Err(NoRelease::HeldIsTried(held)));
    world.releases.serves(held);
    assert_eq!(world.releases.try_canary(RULES), Ok(waiting));
}
