//! Two instances of fnd on one machine never have the same users.

use fnd_tests::users::Users;
use fnd_tests::{Fnd, require};

#[test]
fn an_instance_whose_users_another_one_has_does_not_start() {
    require!(root);
    let mut one = Fnd::start();
    let (first, last) = one.users();
    let pid = one.pid();
    let mut two = Fnd::prepare(&fnd_tests::Setup::default());
    Users::configure(&two.path("fnd.toml"), (last, last + 100));
    let ended = two.try_launch(fnd_tests::wait::PATIENCE);
    assert_eq!(ended.and_then(|status| status.code()), Some(78), "{}", two.log());
    let log = two.log();
    let state = one.path("state");
    for part in [
        format!("another instance of fnd has {first} to {last} (process "),
        format!("state directory `{}`", state.display()),
        "give the two instances different `[users] range`s".to_owned(),
    ] {
        assert!(log.contains(&part), "{part}: {log}");
    }
    // The first instance continues. A restart keeps its users, and after its end they are free.
    assert_eq!(one.pid(), pid);
    one.stop();
    one.launch();
    one.crash();
    two.launch();
    two.finish();
}
