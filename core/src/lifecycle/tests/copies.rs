//! Releases that are held, renewed or revived by their copies, beside the file of their function.

use super::*;
use crate::lifecycle::release::{CanaryRules, HoldKind, NotHeld, ReleaseState, Tried};

#[test]
fn a_release_that_a_person_holds_is_installed_from_its_copy_and_the_file_waits() {
    let mut lifecycle = lifecycle();
    let f = name("f");
    for version in [1, 2] {
        write(&mut lifecycle, version);
        serves(&mut lifecycle, version);
    }
    let change = |lifecycle: &mut Lifecycle, change: ReleaseChange, caller| {
        let change = ReleaseRequest {
            change: &change,
            running: Running::default(),
            now_ms: 5,
            is_spawner_of_0_1: false,
        };
        let mut out = Vec::new();
        let changed = lifecycle.change(&f, change, caller, &mut out);
        lifecycle.take_changed(&mut out);
        (changed, spelled(&out))
    };
    let back = ReleaseChange::Hold(HoldKind::Rollback, None);
    let (one, asked) = (Version([1; 32]), |state| ChangeResult::Asked(Version([1; 32]), state));
    let said = change(&mut lifecycle, back, 7);
    assert_eq!(said, (Ok(asked(ReleaseState::Serving)), "settle".to_owned()));
    assert_eq!(ask(&mut lifecycle), "copy 1");
    assert_eq!(install(&mut lifecycle, 1), "serve 1, store 2, prune");
    assert_eq!(serves(&mut lifecycle, 1), "answer 7 Ok(1)");
    assert_eq!(lifecycle.live(&f), Some(one));
    // The same content again waits; other content ends a rollback.
    assert_eq!(write(&mut lifecycle, 2), "upload Installed, store 2, prune, status");
    assert_eq!(ask(&mut lifecycle), "copy 1");
    assert_eq!(install(&mut lifecycle, 1), "serve 1, store 2, prune");
    // A person who asks for another release meanwhile replaces the one who waits.
    change(
        &mut lifecycle,
        ReleaseChange::Hold(HoldKind::Pin, Some("02".to_owned())),
        8,
    )
    .0
    .unwrap();
    let pin = ReleaseChange::Hold(HoldKind::Pin, Some("01".to_owned()));
    let said = change(&mut lifecycle, pin, 9);
    let replaced = "answer 8 Err(\"another release was asked for meanwhile\")";
    assert_eq!(
        said,
        (
            Ok(ChangeResult::Done(Some(one), ReleaseState::Serving)),
            replaced.to_owned()
        )
    );
    let said = change(&mut lifecycle, ReleaseChange::EndHold, 10);
    let done = ChangeResult::Done(Some(one), ReleaseState::Serving);
    assert_eq!(said, (Ok(done), "settle, status".to_owned()));
    assert_eq!(ask(&mut lifecycle), "f.sh");
    let refused = change(&mut lifecycle, ReleaseChange::EndHold, 11);
    assert_eq!(refused, (Err(NotHeld::NothingHeld), String::new()));
}

#[test]
fn a_caller_whose_release_cannot_come_any_more_is_answered() {
    let mut lifecycle = lifecycle();
    let f = name("f");
    for version in [1, 2] {
        write(&mut lifecycle, version);
        serves(&mut lifecycle, version);
    }
    let change = ReleaseRequest {
        change: &ReleaseChange::Hold(HoldKind::Rollback, None),
        running: Running::default(),
        now_ms: 5,
        is_spawner_of_0_1: false,
    };
    lifecycle.change(&f, change, 7, &mut Vec::new()).unwrap();
    ask(&mut lifecycle);
    write(&mut lifecycle, 3);
    let mut out = Vec::new();
    assert_eq!(lifecycle.take_changed(&mut out).len(), 1);
    let why = "the function's file has changed, or somebody has chosen another release, before it served";
    assert_eq!(spelled(&out), format!("answer 7 Err({why:?})"));
}

#[test]
fn an_answer_about_a_copy_answers_nobody_who_waits_for_the_file() {
    let mut lifecycle = two_versions();
    person(&mut lifecycle, &ReleaseChange::Hold(HoldKind::Pin, None));
    assert!(lifecycle.build_again(&name("f"), false, 7, |_| false));
    assert_eq!(ask(&mut lifecycle), "f.sh");
    answer(&mut lifecycle, needs_build(), 0);
    // The pinned release is installed once more; the file is still being built.
    assert_eq!(ask(&mut lifecycle), "copy 2");
    assert_eq!(install(&mut lifecycle, 2), "serve 2, prune");
    lifecycle.files_changed(vec![candidate("f")]);
    ask(&mut lifecycle);
    assert_eq!(
        install(&mut lifecycle, 3),
        "answer 7 Ok(3), upload Installed, store 3, prune, status"
    );
}

#[test]
fn a_rollback_during_a_build_outlasts_the_build_and_ends_with_the_next_edit() {
    let mut lifecycle = two_versions();
    lifecycle.files_changed(vec![candidate("f")]);
    ask(&mut lifecycle);
    answer(&mut lifecycle, needs_build(), 0);
    let back = ReleaseChange::Hold(HoldKind::Rollback, Some("01".to_owned()));
    person(&mut lifecycle, &back);
    assert_eq!(ask(&mut lifecycle), "copy 1");
    install(&mut lifecycle, 1);
    serves(&mut lifecycle, 1);
    // The build has ended, so the file is installed.
    lifecycle.installer.requeue(candidate("f"));
    ask(&mut lifecycle);
    assert!(install(&mut lifecycle, 3).ends_with("status"), "it waits");
    let held = |lifecycle: &Lifecycle| lifecycle.releases.get(&name("f")).unwrap().hold().is_some();
    assert!(held(&lifecycle));
    assert!(write(&mut lifecycle, 4).contains("serve 4"));
    assert!(!held(&lifecycle));
}

#[test]
fn a_copy_that_the_spawner_cannot_install_now_is_tried_again_while_it_is_needed() {
    let mut lifecycle = two_versions();
    person(&mut lifecycle, &ReleaseChange::Hold(HoldKind::Pin, None));
    write(&mut lifecycle, 3);
    assert_eq!(ask(&mut lifecycle), "copy 2");
    let said = answer(
        &mut lifecycle,
        InstallAnswer::Refused(Box::new(refused(&name("f")))),
        100,
    );
    let error = "release 020202020202, which is to serve, cannot be installed: no room";
    assert_eq!(said, format!("report, serving true, prune, refuse {error}"));
    assert_eq!(lifecycle.next_due(), Some(Duration::from_secs(102)));
    assert!(lifecycle.install_due(Duration::from_secs(102)));
    assert_eq!(ask(&mut lifecycle), "copy 2");
    assert_eq!(install(&mut lifecycle, 2), "serve 2, store 3, prune");
    assert_eq!(lifecycle.next_due(), None);
}

#[test]
fn a_release_follows_a_new_secret_also_beside_a_refused_file() {
    let mut lifecycle = two_versions();
    for secret in [false, true] {
        if secret {
            lifecycle.secrets_changed(&BTreeSet::from(["key".to_owned()]));
        } else {
            lifecycle.files_changed(vec![candidate("f")]);
        }
        assert_eq!(ask(&mut lifecycle), "f.sh");
        answer(&mut lifecycle, InstallAnswer::Refused(Box::new(refused(&name("f")))), 0);
        assert_eq!(ask(&mut lifecycle), if secret { "copy 2" } else { "nothing" });
    }
}

#[test]
fn a_release_follows_a_new_secret_also_if_the_build_of_the_file_fails() {
    let mut lifecycle = two_versions();
    lifecycle.files_changed(vec![candidate("f")]);
    ask(&mut lifecycle);
    answer(&mut lifecycle, InstallAnswer::Refused(Box::new(refused(&name("f")))), 0);
    lifecycle.secrets_changed(&BTreeSet::from(["key".to_owned()]));
    ask(&mut lifecycle);
    answer(&mut lifecycle, needs_build(), 0);
    assert_eq!(
        ask(&mut lifecycle),
        "nothing",
        "it is not known yet whether the file can serve"
    );
    let files = (candidate("f"), &document(&name("f")));
    lifecycle.build_failed(files, "(exit-1): no such package", &[], &mut Vec::new());
    assert_eq!(ask(&mut lifecycle), "copy 2");
}

#[test]
fn a_release_on_its_way_to_serve_is_not_lost_by_another_copy_that_is_installed() {
    let mut lifecycle = two_versions();
    person(&mut lifecycle, &ReleaseChange::Hold(HoldKind::Pin, None));
    write(&mut lifecycle, 3);
    ask(&mut lifecycle);
    answer(
        &mut lifecycle,
        InstallAnswer::Refused(Box::new(refused(&name("f")))),
        100,
    );
    let another = SourceFiles::of_copy(name("f"), Version([3; 32]));
    lifecycle.installer.is_final(&another);
    assert_eq!(lifecycle.next_due(), Some(Duration::from_secs(102)));
}

#[test]
fn after_a_start_the_release_that_served_last_serves_also_if_its_file_cannot_be_installed_now() {
    let mut first = lifecycle();
    write(&mut first, 1);
    serves(&mut first, 1);
    let stored = first.releases.get(&name("f")).unwrap();
    let stored = serde_json::from_str(&serde_json::to_string(stored).unwrap()).unwrap();
    let mut lifecycle = Lifecycle::new(vec![(name("f"), stored)], Versions::default(), str::to_owned);
    lifecycle.files_changed(vec![candidate("f")]);
    assert_eq!(ask(&mut lifecycle), "f.sh");
    lifecycle.failed(1, "no descriptors", Duration::ZERO, &mut Vec::new());
    assert_eq!(ask(&mut lifecycle), "copy 1");
    assert!(install(&mut lifecycle, 1).starts_with("serve 1, refuse error: it could not be installed"));
}

#[test]
fn after_a_start_a_promoted_release_serves_in_place_of_one_that_cannot_be_installed() {
    let [before, promoted] = [1, 2].map(|version| (Version([version; 32]), Version([version; 32])));
    let mut stored = Releases::default();
    stored.file_installed(1, before, ("f.sh", Tried::default()));
    stored.serves(before.0);
    let rules = CanaryRules {
        percent: 10,
        promote_after_ms: None,
        max_failures: 0,
    };
    let as_canary = Tried {
        before: false,
        canary: Some(rules),
    };
    stored.file_installed(2, promoted, ("f.sh", as_canary));
    stored.promote(3).unwrap();
    assert_eq!(stored.promoted_instead_of(before.0), None, "it serves");
    // fnd is killed before the promoted release serves, and the file is refused when it starts again.
    let stored = serde_json::from_str(&serde_json::to_string(&stored).unwrap()).unwrap();
    let mut lifecycle = Lifecycle::new(vec![(name("f"), stored)], Versions::default(), str::to_owned);
    lifecycle.files_changed(vec![candidate("f")]);
    for source in ["f.sh", "copy 1"] {
        assert_eq!(ask(&mut lifecycle), source);
        answer(&mut lifecycle, InstallAnswer::Refused(Box::new(refused(&name("f")))), 0);
    }
    assert_eq!(ask(&mut lifecycle), "copy 2");
    assert!(install(&mut lifecycle, 2).starts_with("serve 2, refuse error: "));
}

/// The content of a refused file is not known, and neither is that of a file whose build has failed: perhaps it is that of the
/// canary. A new content ends a canary.
#[test]
fn a_canary_goes_on_if_the_newer_file_is_refused_and_also_if_its_build_fails() {
    const SHARED: &str = "# /// fnd\n# [release]\n# check = false\n# canary = \"10%\"\n# ///\necho\n";
    let canary = Version([2; 32]);
    for is_built in [false, true] {
        let mut lifecycle = lifecycle();
        write(&mut lifecycle, 1);
        serves(&mut lifecycle, 1);
        lifecycle.files_changed(vec![candidate("f")]);
        assert_eq!(ask(&mut lifecycle), "f.sh");
        let shared = Installed {
            version: canary,
            load_key: canary,
            document: document_of(&name("f"), SHARED),
            ..installed(&name("f"))
        };
        let said = answer(&mut lifecycle, InstallAnswer::Installed(Box::new(shared), None), 0);
        assert!(said.contains("share 2 10"), "{said}");
        lifecycle.files_changed(vec![candidate("f")]);
        assert_eq!(ask(&mut lifecycle), "f.sh");
        if is_built {
            answer(&mut lifecycle, needs_build(), 0);
            let files = (candidate("f"), &document(&name("f")));
            lifecycle.build_failed(files, "(exit-1): no such package", &[], &mut Vec::new());
        } else {
            answer(&mut lifecycle, InstallAnswer::Refused(Box::new(refused(&name("f")))), 0);
        }
        let known = lifecycle.releases.get(&name("f")).and_then(Releases::canary);
        assert_eq!(known.map(|known| known.version), Some(canary), "{is_built}");
        write(&mut lifecycle, 3);
        let known = lifecycle.releases.get(&name("f")).and_then(Releases::canary);
        assert_eq!(known, None);
    }
}
