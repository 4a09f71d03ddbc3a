//! The state: versioned values that functions share, over a real fnd.

use fnd_tests::install::with_manifest;
use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fs;

/// Installs a bash function in which `fndctl` is the program under test, and waits until it serves.
fn put(fnd: &Fnd, name: &str, manifest: &str, code: &str) {
    let file = format!("{name}.sh");
    let code = format!("fndctl() {{ '{}' \"$@\"; }}\n{code}", program("fndctl").display());
    let manifest = format!("on_load = false\n{manifest}");
    fnd.drop_file(&file, &with_manifest(&file, &manifest, &code));
    wait_until(&format!("`{name}` to serve"), PATIENCE, || {
        let function = fnd.function(name)?;
        assert_eq!(function.error, None, "{name}");
        function.version.is_some().then_some(())
    });
}

/// Adds one to `shop/count`: a run that finds another version than it has read tries again.
const COUNT: &str = "\
until
  if entry=$(fndctl state get shop/count --jq '\"\\(.value) \\(.version)\"' 2>/dev/null); then
    read -r value version <<<\"$entry\"
    fndctl state set shop/count $((value + 1)) --if-version \"$version\" 2>\"$TMPDIR/why\"
  else
    fndctl state set shop/count 1 --new 2>\"$TMPDIR/why\"
  fi
do
  [ $? = 7 ] || { cat \"$TMPDIR/why\" >&2; exit 1; }
done
";

#[test]
fn concurrent_runs_count_right_and_an_answered_change_outlives_a_kill() {
    require!(root);
    let mut fnd = Fnd::start();
    put(
        &fnd,
        "count",
        "[access]\nstate = [\"shop/*\"]\n[pool]\nmax = 5\n",
        COUNT,
    );
    let runs: Vec<_> = (0..20).map(|_| fnd.queue("count", "")).collect();
    for id in runs {
        let view = fnd.wait_end(id);
        assert_eq!(
            view.state,
            fnd_core::records::outcome::RunState::Succeeded,
            "{}",
            view.message
        );
    }
    let get = |fnd: &Fnd, key: &str| {
        let got = fnd.ctl(&["state", "get", key, "--jq", "[.value, .version]"]);
        got.expect_code(0).out().trim().to_owned()
    };
    assert_eq!(get(&fnd, "shop/count"), "[20,20]");
    let written = fnd.ctl(&["state", "set", "shop/last", "paid", "--new", "-o", "json"]);
    assert_eq!(written.expect_code(0).json()["version"], 1);
    fnd.crash();
    fnd.launch();
    assert_eq!(get(&fnd, "shop/last"), "[\"paid\",1]");
    assert_eq!(get(&fnd, "shop/count"), "[20,20]");
    let listed = fnd.ctl(&["state", "list", "shop", "-o", "name"]).expect_code(0).out();
    assert_eq!(listed.lines().collect::<Vec<_>>(), ["shop/count", "shop/last"]);
    let audit = fnd
        .ctl(&["audit", "--verb", "set-state", "-o", "json"])
        .expect_code(0)
        .json();
    assert!(audit["entries"].as_array().unwrap().len() > 20, "{audit}");
    fnd.finish();
}

#[test]
fn a_function_uses_the_keys_of_its_patterns_and_no_other() {
    require!(root);
    let fnd = Fnd::start();
    put(
        &fnd,
        "ask",
        "[access]\nstate = [\"shop/cart/*\", \"shop/one\"]",
        "for args in 'set shop/cart/1 7' 'set shop/one 7' 'get shop/cart/1' 'list shop/cart/' 'delete shop/one' \\\n\
           'get shop/cart/2' 'set shop/two 7' 'get web/a' 'delete shop/on' 'list shop' 'list'; do\n\
           fndctl state $args -q >/dev/null 2>\"$TMPDIR/err\"; echo \"$args: $?\"; cat \"$TMPDIR/err\" >&2\ndone\n",
    );
    let (answer, view) = fnd.run("ask", "");
    let text = answer.text();
    let codes: Vec<&str> = text.lines().map(|line| line.rsplit_once(": ").unwrap().1).collect();
    assert_eq!(codes, ["0", "0", "0", "0", "0", "3", "5", "5", "5", "5", "5"], "{text}");
    let said: String = fnd.logs(view.id).iter().map(|line| line.text.clone() + "\n").collect();
    for advice in [
        "`state = [\"shop/two\"]` into `[access]`",
        "`state = [\"web/a\"]` into `[access]`",
        "`state = [\"shop/*\"]` into `[access]`",
        "`state = [\"*\"]` into `[access]`",
    ] {
        assert!(said.contains(advice), "{advice}: {said}");
    }
    put(&fnd, "none", "", "echo \"${FND_SOCKET-none}\"\n");
    assert_eq!(fnd.run("none", "").0.text().trim(), "none");
    fnd.finish();
}

#[test]
fn a_damaged_state_is_set_aside_and_a_backup_has_it() {
    require!(root);
    let mut fnd = Fnd::start();
    let _ = fnd.ctl(&["state", "set", "shop/a", "{\"b\": 1}"]).expect_code(0);
    let archive = fnd.path("backup.tar");
    let archive = archive.to_str().unwrap().to_owned();
    let _ = fnd.ctl(&["backup", &archive]).expect_code(0);
    let verified = fnd.ctl(&["backup", "--verify", &archive, "-o", "json"]);
    assert!(verified.out().contains("state.db` is whole: 1 key"), "{verified}");
    fnd.stop();
    let path = fnd.path("state/state/state.db");
    fs::write(
        &path,
        "this is no database, and long enough to be seen as one by its head\n".repeat(100),
    )
    .unwrap();
    fnd.launch();
    let _ = fnd.wait_problem("the state of functions was damaged");
    // Nobody is told that a key has no value before that is confirmed.
    let refused = fnd.ctl(&["state", "get", "shop/a"]).expect_code(7);
    assert!(refused.stderr.contains("fndctl verify --repair"), "{refused}");
    let _ = fnd.ctl(&["verify", "--repair", "--state", fnd.path("state").to_str().unwrap()]);
    let _ = fnd.ctl(&["state", "get", "shop/a"]).expect_code(3);
    let _ = fnd.ctl(&["state", "set", "shop/a", "2"]).expect_code(0);
    // Somebody has seen it.
    for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("state.db.damaged-") {
            fs::remove_file(path).unwrap();
        }
    }
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    wait_until("the problem to be over", PATIENCE, || {
        fnd.status().problems.is_empty().then_some(())
    });
    fnd.stop();
    let state = fnd.path("restored");
    let config = fnd.path("restored-config/fnd.toml");
    let places = ["--state", state.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let functions = fnd.path("restored-functions");
    let restore = [
        &["restore", &archive, "--functions", functions.to_str().unwrap()][..],
        &places,
    ]
    .concat();
    let _ = fnd.ctl(&restore).expect_code(0);
    let restored = fs::read(state.join("state/state.db")).unwrap();
    assert!(restored.windows(8).any(|bytes| bytes == b"{\"b\": 1}"));
    fnd.launch();
    fnd.finish();
}
