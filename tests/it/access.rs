//! `[[access]]`: roles of people and groups for some functions, with real users over the real socket.

use fnd_tests::ctl::Run;
use fnd_tests::{Fnd, Setup, require};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = "# /// fnd\n# on_load = false\n# ///\necho \"output of $FND_FUNCTION\"\n";
const FAILS: &str = "# /// fnd\n# on_load = false\n# ///\necho broken >&2\nexit 3\n";

/// Users that every Debian has: `nobody` operates `web/*`; members of `daemon` view everything; `bin` has no role.
const ROLES: &str = "[[access]]\nuser = \"nobody\"\nrole = \"operator\"\nfunctions = [\"web/*\"]\n\
                     [[access]]\nuser = \"nobody\"\nrole = \"viewer\"\nfunctions = [\"seen\"]\n\
                     [[access]]\ngroup = \"daemon\"\nrole = \"viewer\"\n";

struct People {
    fnd: Fnd,
    fndctl: PathBuf,
}

impl People {
    fn start() -> Self {
        let fnd = Fnd::start_with(&Setup::default().config(ROLES));
        for name in ["web/a", "web/b", "ops/secret", "seen"] {
            fnd.drop_file(&format!("{name}.sh"), SCRIPT);
        }
        fnd.drop_file("web/bad.sh", FAILS);
        fnd.drop_file("ops/bad.sh", FAILS);
        for name in ["web/a", "web/b", "web/bad", "ops/secret", "ops/bad", "seen"] {
            fnd.wait_ready(name);
        }
        // systemd sets the mode of the socket. Here everybody may connect, so that only the roles decide.
        std::fs::set_permissions(fnd.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
        // The program is in a build directory, which other users may not enter.
        let fndctl = fnd.path("fndctl");
        std::fs::copy(fnd_tests::programs::program("fndctl"), &fndctl).unwrap();
        Self { fnd, fndctl }
    }

    fn run_as(&self, user: &str, arguments: &[&str]) -> Run {
        let user = nix::unistd::User::from_name(user).unwrap().unwrap();
        let mut command = Command::new(&self.fndctl);
        command.args(arguments).env_clear().env("FND_SOCKET", self.fnd.socket());
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).current_dir("/");
        let output = command.output().unwrap();
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Returns what a verb prints for the user `nobody`.
    #[track_caller]
    fn out(&self, arguments: &[&str]) -> String {
        self.run_as("nobody", arguments).expect_code(0).out()
    }
}

/// The lists of all functions come first, and other roles last.
#[test]
fn roles_events_and_reloads() {
    require!(root);
    let people = People::start();
    a_role_for_some_functions_shows_and_operates_only_these(&people);
    an_event_of_a_limited_sender_reaches_only_its_functions(&people);
    roles_change_with_a_reload(&people);
    people.fnd.finish();
}

fn a_role_for_some_functions_shows_and_operates_only_these(people: &People) {
    let fnd = &people.fnd;
    let (_, hidden) = fnd.run("ops/secret", "");
    let failed = fnd.wait_end(fnd.queue("ops/bad", ""));
    let own_failed = fnd.wait_end(fnd.queue("web/bad", ""));
    assert!(people.out(&["invoke", "web/a"]).contains("output of web/a"));
    // Lists.
    for verb in [
        &["status", "-o", "name"][..],
        &["list", "-o", "name"],
        &["history", "-o", "json"],
        &["dead-letters", "-o", "json"],
        &["logs"],
        &["events", "-o", "json"],
        &["schedules", "-o", "json"],
        &["routes", "-o", "json"],
        &["status", "-o", "json"],
    ] {
        let out = people.out(verb);
        assert!(!out.contains("ops/") && !out.contains("ops."), "{verb:?}: {out}");
        // The same list shows it to others, so the check above means something.
        if !matches!(verb[0], "schedules" | "routes") {
            let all = fnd.ctl(verb).expect_code(0).out();
            assert!(all.contains("ops/"), "{verb:?}: {all}");
        }
    }
    let listed = people.out(&["list", "-o", "name"]);
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        ["seen", "web/a", "web/b", "web/bad"]
    );
    assert!(people.out(&["logs"]).contains("output of web/a"));
    assert!(people.out(&["dead-letters", "-o", "json"]).contains("web/bad"));
    // Pages are whole: the limit counts only what is shown.
    for _ in 0..5 {
        let _ = fnd.run("ops/secret", "");
    }
    let newest = people.out(&["history", "-n", "2", "-o", "json"]);
    assert_eq!(newest.matches("\"function\"").count(), 2, "{newest}");
    // What is hidden does not exist, for every verb.
    let (hidden, failed) = (hidden.id.to_string(), failed.id.to_string());
    for verb in [
        &["show", "ops/secret"][..],
        &["invoke", "ops/secret"],
        &["disable", "ops/secret"],
        &["logs", "ops/secret"],
        &["history", "--id", &hidden],
        &["result", &hidden],
        &["replay", &hidden],
        &["cancel", &hidden],
        &["dead-letters", "show", &failed],
        &["dead-letters", "redrive", &failed],
        &["dead-letters", "drop", &failed],
    ] {
        let run = people.run_as("nobody", verb).expect_code(3);
        assert!(!format!("{run}").contains("ops/bad"), "{run}");
    }
    // What may be viewed only is refused, with the entry that is needed.
    let _ = people.run_as("nobody", &["show", "seen"]).expect_code(0);
    let refused = people.run_as("nobody", &["invoke", "seen"]).expect_code(5);
    assert!(format!("{refused}").contains("functions = [\"seen\"]"), "{refused}");
    let _ = people.run_as("nobody", &["disable", "seen"]).expect_code(5);
    // The node.
    for verb in [&["reload"][..], &["drain"], &["config"], &["sizes"], &["log-level"]] {
        let refused = people.run_as("nobody", verb).expect_code(5);
        assert!(format!("{refused}").contains("without `functions`"), "{refused}");
    }
    // What is its own, it operates.
    let own = own_failed.id.to_string();
    let _ = people.out(&["dead-letters", "redrive", &own]);
    let _ = people.out(&["disable", "web/b"]);
    let _ = people.out(&["enable", "web/b"]);
    // Others are as before.
    for verb in [&["show", "ops/secret"][..], &["history", "--id", &hidden], &["config"]] {
        let _ = people.run_as("daemon", verb).expect_code(0);
    }
    let _ = people.run_as("daemon", &["invoke", "web/a"]).expect_code(5);
    let _ = people.run_as("bin", &["status"]).expect_code(5);
}

/// An event is for the functions that its sender may operate; the same event of another sender is not known by that.
fn an_event_of_a_limited_sender_reaches_only_its_functions(people: &People) {
    let fnd = &people.fnd;
    for name in ["web/order", "ops/order"] {
        let manifest = "# /// fnd\n# on_load = false\n# [[event]]\n# type = \"order\"\n# ///\ncat\n";
        fnd.drop_file(&format!("{name}.sh"), manifest);
        fnd.wait_ready(name);
    }
    let emit = &["emit", "order", "--id", "17", "--source", "shop", "-o", "json"];
    let by_limited = people.out(emit);
    assert!(
        by_limited.contains("web/order") && !by_limited.contains("ops/order"),
        "{by_limited}"
    );
    let by_root = fnd.ctl(emit).expect_code(0).out();
    assert!(
        by_root.contains("web/order") && by_root.contains("ops/order"),
        "{by_root}"
    );
    assert!(!by_root.contains("duplicate"), "{by_root}");
    assert!(people.out(emit).contains("duplicate"));
}

/// A reload puts other roles in force; an entry whose user does not exist gives nobody a role, and fnd says so.
fn roles_change_with_a_reload(people: &People) {
    let _ = people.run_as("nobody", &["invoke", "web/a"]).expect_code(0);
    let config = people.fnd.path("fnd.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let other = text.replace("user = \"nobody\"", "user = \"no-such-user-fnd\"");
    std::fs::write(&config, other).unwrap();
    let _ = people.fnd.ctl(&["reload"]).expect_code(0);
    let _ = people.run_as("nobody", &["invoke", "web/a"]).expect_code(5);
    let both = text.replace("user = \"nobody\"", "user = \"nobody\"\ngroup = \"nogroup\"");
    std::fs::write(&config, both).unwrap();
    let refused = people.fnd.ctl(&["reload"]).expect_code(8);
    assert!(refused.out().contains("names both a group and a user"), "{refused}");
}
