//! A call right after a file was saved gets the new code, or the words that it is being checked.

use fnd_tests::fnd::Setup;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fs;

/// Returns what `fndctl invoke` prints right after a file was saved as `cp` and editors save it.
fn saved(fnd: &Fnd, file: &str, text: &str) -> String {
    let name = file.split('.').next().unwrap();
    fs::write(fnd.function_path(file), text).unwrap();
    fnd.ctl(&["invoke", name]).to_string()
}

fn script(word: &str) -> String {
    format!("# /// fnd\n# on_load = false\n# ///\necho {word}\n")
}

fn handler(word: &str) -> String {
    format!("def handler(event, context):\n    return '{word}'\n")
}

#[test]
fn a_file_that_was_just_copied_or_edited_answers_with_its_new_code() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    for number in 0..20 {
        let word = format!("new{number}");
        let printed = saved(&fnd, &format!("copy{number}.sh"), &script(&word));
        assert!(printed.contains(&word), "{printed}");
    }
    for number in 0..20 {
        let word = format!("edit{number}");
        let printed = saved(&fnd, "copy0.sh", &script(&word));
        assert!(printed.contains(&word), "{printed}");
        let printed = saved(&fnd, "hello.py", &handler(&word));
        assert!(printed.contains(&word), "{printed}");
    }
    // Programs that call by a name of which fnd knows nothing get the same.
    fs::write(fnd.function_path("last.sh"), script("last")).unwrap();
    assert!(fnd.invoke("last", "").text().contains("last"));
    let unknown = fnd.invoke("typo", "");
    assert_eq!(
        (unknown.status.as_u16(), unknown.problem().code.as_str()),
        (404, "not-found")
    );
    fnd.finish();
}

#[test]
fn a_check_that_takes_longer_is_named_and_other_callers_do_not_wait_for_it() {
    require!(root, cgroup);
    let own = tempfile::tempdir().unwrap();
    fs::create_dir_all(own.path().join("slow")).unwrap();
    let description = "id = \"slow\"\nsuffixes = [\".slow\"]\ninterpreters = [\"/bin/sh\"]\nnames = [\"sh\"]\n\
                       [phases.run]\ncommand = [\"{interpreter}\", \"{entry}\"]\n\
                       [phases.check]\ncommand = [\"{interpreter}\", \"-c\", \"read -r line </dev/zero\"]\n";
    fs::write(own.path().join("slow/runtime.toml"), description).unwrap();
    let mut setup = Setup::default().config("[build]\ntimeout = \"4s\"\n");
    setup.arguments = vec!["--runtimes".to_owned(), own.path().display().to_string()];
    let fnd = Fnd::start_with(&setup);
    let first = saved(&fnd, "job.slow", &script("one"));
    assert!(first.contains("one"), "{first}");
    let printed = saved(&fnd, "job.slow", &script("two"));
    assert!(
        printed.contains("`job` was just saved and is being checked"),
        "{printed}"
    );
    assert!(
        fnd.invoke("job", "").text().contains("one"),
        "the release before serves"
    );
    wait_until("the edit", PATIENCE, || {
        fnd.invoke("job", "").text().contains("two").then_some(())
    });
    fnd.finish();
}
