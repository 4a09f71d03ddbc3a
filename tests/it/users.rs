//! The users of functions, and their capabilities. Two instances of fnd on one machine never have the same users.

use fnd_tests::install::with_manifest;
use fnd_tests::users::Users;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use std::fs;

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

/// What an author has planted in a home does not run with root's rights after `chown root`, and root decides who gets it.
#[test]
fn a_file_of_another_owner_has_an_empty_home_until_root_hands_the_one_before_over() {
    require!(root);
    let fnd = Fnd::start();
    let file = fnd.path("functions/keys.sh");
    let code =
        "# /// fnd\n# on_load = false\n# ///\nls -A $HOME; touch $HOME/planted; id -u >&2; echo $PYTHONNOUSERSITE\n";
    fnd.drop_file("keys.sh", code);
    std::os::unix::fs::lchown(&file, Some(12_001), None).unwrap();
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    let uid = || fnd.ctl(&["show", "keys", "-o", "json"]).expect_code(0).json()["uid"].as_u64();
    fnd.wait_ready("keys");
    assert_eq!(fnd.run("keys", "").0.text().trim(), "1");
    assert_eq!(fnd.run("keys", "").0.text().trim(), "planted\n1");
    let author = uid().unwrap();
    let problem = || {
        fnd.status()
            .problems
            .into_iter()
            .find(|problem| problem.contains("is set aside"))
    };
    assert_eq!(problem(), None);
    std::os::unix::fs::lchown(&file, Some(0), None).unwrap();
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    wait_until("root's version to serve", PATIENCE, || {
        (uid() != Some(author)).then_some(())
    });
    assert_eq!(
        fnd.run("keys", "").0.text().trim(),
        "1",
        "root's code finds nothing of the author's"
    );
    let said = problem().expect("status says so");
    assert!(said.contains(&format!("fndctl home keys --take {author}")), "{said}");
    let homes = fnd.ctl(&["home", "keys", "-o", "json"]).expect_code(0).json();
    let owners: Vec<_> = homes["homes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|home| home["owner"].clone())
        .collect();
    assert_eq!(owners, ["12001", "root"]);
    let take = ["home", "keys", "--take", &author.to_string()];
    let refused = fnd.ctl(&take).expect_code(1);
    assert!(
        refused.stderr.contains("both homes have `planted`"),
        "{}",
        refused.stderr
    );
    fs::rename(
        fnd.path("state/home/keys/planted"),
        fnd.path("state/home/keys/looked-at"),
    )
    .unwrap();
    let _ = fnd.ctl(&take).expect_code(0);
    assert_eq!(fnd.run("keys", "").0.text().trim(), "looked-at\nplanted\n1");
    fnd.finish();
}

/// A function of root gives files away as far as `[users] capabilities` allows, until root takes that back.
#[test]
fn a_function_of_root_gives_files_away_until_root_takes_the_capability_back() {
    require!(root);
    let fnd = Fnd::start_with(&Setup::default().config("[users]\nallow_root = true\ncapabilities = [\"chown\"]\n"));
    let code = "given=$(mktemp -p $HOME)\nchown 12345:12346 $given && stat -c %u:%g $given\n";
    let manifest = |name: &str| format!("on_load = false\n[sandbox]\ncapabilities = [\"{name}\"]\n");
    fnd.install("give.sh", &manifest("chown"), code);
    assert_eq!(fnd.run("give", "").0.text().trim(), "12345:12346");
    let shown = fnd.ctl(&["show", "give", "-o", "json"]).expect_code(0).json();
    assert_eq!(
        shown["manifest"]["sandbox"]["capabilities"],
        serde_json::json!(["chown"])
    );

    for (name, said) in [("fowner", "is not allowed"), ("sys_admin", "is never given")] {
        fnd.drop_file("more.sh", &with_manifest("more.sh", &manifest(name), code));
        let _ = fnd.wait_function("more", said, |it| {
            it.error.as_ref().is_some_and(|error| error.contains(said))
        });
    }
    fnd.drop_file("theirs.sh", &with_manifest("theirs.sh", &manifest("chown"), code));
    std::os::unix::fs::lchown(fnd.path("functions/theirs.sh"), Some(12_001), None).unwrap();
    let _ = fnd.ctl(&["reload"]).expect_code(8);
    let said = "only for functions whose code and manifest belong to root";
    let _ = fnd.wait_function("theirs", said, |it| {
        it.error.as_ref().is_some_and(|error| error.contains(said))
    });

    let path = fnd.path("fnd.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("capabilities = [\"chown\"]", "capabilities = []")).unwrap();
    let _ = fnd.ctl(&["reload"]).expect_code(8);
    let _ = fnd.wait_error("give");
    let (answer, _) = fnd.run("give", "");
    assert!(
        !answer.status.is_success() && !answer.text().contains("12345"),
        "{}",
        answer.text()
    );
    fnd.finish();
}
