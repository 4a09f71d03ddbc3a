//! Two instances on one machine never have the same users.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, Users, root};
use fnd_wire::frame::{Reply, Request, SettingsRead};

fn with(range: (u32, u32)) -> Options {
    Options { range: Some(range), ..Options::default() }
}

fn reload(harness: &mut Harness) -> SettingsRead {
    let number = harness.send(&Request::Reload, Vec::new());
    let (Reply::Settings(read), _) = harness.answer(number) else { panic!() };
    read
}

/// Checks that a range was refused because of another instance, with a message that names it.
fn refused(read: &SettingsRead, by: &Harness) {
    let [problem] = read.problems.as_slice() else { panic!("{read:?}") };
    assert!(!read.applied && problem.file.ends_with("etc/fnd.toml"), "{read:?}");
    let state = by.path("state");
    let (first, last) = by.users.range();
    for part in [format!("has {first} to {last} (process {}, ", by.child.id()), format!("`{}`", state.display())] {
        assert!(problem.message.contains(&part), "{part}: {problem:?}");
    }
    assert!(problem.help.contains("`[users] range`"), "{problem:?}");
}

#[test]
fn two_instances_that_share_a_user_do_not_run_together() {
    if !root() {
        return;
    }
    let mut one = Harness::start();
    let (first, last) = one.users.range();
    // The whole range, only its first user, only its last, and a larger range.
    for range in [(first, last), (first - 5, first), (last, last + 5), (first - 5, last + 5)] {
        let (mut two, read) = Harness::try_with(&with(range));
        refused(&read, &one);
        // It keeps refusing while the first instance runs, and installs nothing.
        refused(&reload(&mut two), &one);
        two.write("f.sh", "id -u");
        let message = two.refusal("f.sh", None);
        assert!(message.contains("the configuration has not been read yet"), "{message}");
        two.stop();
    }
    // The first instance keeps its users, also after a reload.
    assert!(reload(&mut one).applied);
    let (mut two, read) = Harness::try_with(&with((first, last)));
    refused(&read, &one);
    // A killed instance leaves no lock.
    one.child.kill().unwrap();
    one.child.wait().unwrap();
    let read = reload(&mut two);
    assert!(read.applied, "{read:?}");
}

#[test]
fn a_range_is_changed_to_one_that_nobody_has_and_the_old_one_stays_taken() {
    if !root() {
        return;
    }
    let (mut one, two) = (Harness::start(), Harness::start());
    let (first, last) = one.users.range();
    let etc = one.path("etc");
    Users::configure(&etc, two.users.range());
    refused(&reload(&mut one), &two);
    let installed = one.install("f.sh", "id -u", "");
    assert_eq!(installed.uid, first, "the configuration before is in force");

    let middle = first + (last - first) / 2;
    Users::configure(&etc, (first, middle));
    assert!(reload(&mut one).applied);
    // Functions may still run as users of the old range.
    let (_, read) = Harness::try_with(&with((middle + 1, last)));
    refused(&read, &one);
}
