//! Files appear, change and vanish; the functions that run are those on the disk.

use fnd_core::api::FunctionStatus;
use fnd_tests::ask::word;
use fnd_tests::wait::{PATIENCE, pause};
use fnd_tests::{Fnd, Setup, now, wait_until};
use std::fs;
use std::io::Write as _;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

/// Returns a bash function that prints a word and does not run by itself.
fn says(text: &str) -> String {
    format!("#!/usr/bin/env bash\n# /// fnd\n# on_load = false\n# ///\necho {text}\n")
}

/// Waits until the function serves another version than `before`, and returns it.
#[track_caller]
fn wait_new_version(fnd: &Fnd, name: &str, before: &FunctionStatus) -> FunctionStatus {
    fnd.wait_function(name, "to serve another version", |function| {
        function.version.is_some() && function.version != before.version
    })
}

/// The list of all functions comes first.
#[test]
fn files_come_change_and_go() {
    let fnd = Fnd::start();
    editors_and_package_managers_are_ignored(&fnd);
    a_file_appears_changes_and_vanishes(&fnd);
    a_half_written_file_waits_for_its_end(&fnd);
    a_close_counts_only_for_what_was_written_before_it(&fnd);
    the_same_content_is_the_same_version(&fnd);
    an_invalid_change_leaves_the_last_good_version_serving(&fnd);
    groups_and_the_directory_form(&fnd);
    a_sidecar_is_the_manifest(&fnd);
    a_name_clash_is_an_error_and_the_first_keeps_serving(&fnd);
    fnd.finish();
}

fn a_file_appears_changes_and_vanishes(fnd: &Fnd) {
    fnd.drop_file("hello.sh", &says("one"));
    let first = fnd.wait_ready("hello");
    assert_eq!(fnd.invoke("hello", "").text().trim(), "one");

    fnd.drop_file("hello.sh", &says("two"));
    wait_new_version(fnd, "hello", &first);
    assert_eq!(fnd.invoke("hello", "").text().trim(), "two");

    fnd.remove("hello.sh");
    fnd.wait_gone("hello");
    assert_eq!(fnd.invoke("hello", "").status, 404);
}

#[test]
fn files_that_are_there_at_the_start_are_functions() {
    let fnd = Fnd::start_with(&Setup::default().file("early.sh", &says("early")));
    fnd.wait_ready("early");
    assert_eq!(fnd.invoke("early", "").text().trim(), "early");
    fnd.finish();
}

/// A file counts when it is closed: before that, its first half is no function.
fn a_half_written_file_waits_for_its_end(fnd: &Fnd) {
    fnd.drop_file("marker.sh", &says("marker"));
    fnd.wait_ready("marker");
    let mut file = fs::File::create(fnd.function_path("slow.sh")).unwrap();
    file.write_all(b"#!/usr/bin/env bash\n# /// fnd\n# on_load = fal")
        .unwrap();
    file.sync_all().unwrap();
    file.write_all(b"se\n# ///\necho whole\n").unwrap();
    drop(file);
    fnd.wait_ready("slow");
    assert_eq!(fnd.invoke("slow", "").text().trim(), "whole");
}

/// A second writer begins right behind the close of the first one, and takes its time: no half of what it writes is installed,
/// nor run because its manifest does not exist yet.
fn a_close_counts_only_for_what_was_written_before_it(fnd: &Fnd) {
    let half = "#!/usr/bin/env bash\necho half\n";
    for round in 0..3 {
        let path = fnd.function_path(&format!("twice{round}.sh"));
        fs::write(&path, says("first")).unwrap();
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(half.as_bytes()).unwrap();
        // Longer than the delay before a new script runs, and shorter than the time after which a file counts as
        // complete.
        let start = now();
        while start.elapsed() < Duration::from_millis(1_600) {
            pause();
        }
        file.write_all(b"# /// fnd\n# on_load = false\n# ///\necho whole\n")
            .unwrap();
        drop(file);
    }
    for round in 0..3 {
        let name = format!("twice{round}");
        fnd.wait_ready(&name);
        assert_eq!(fnd.invoke(&name, "").text().trim(), "half\nwhole");
        assert_eq!(fnd.history(&name).len(), 1, "it did not run by itself");
    }
}

/// Content decides: the same bytes are the same version, whatever the time stamps of the file are.
fn the_same_content_is_the_same_version(fnd: &Fnd) {
    fnd.drop_file("same.sh", &says("same"));
    let first = fnd.wait_ready("same");
    fnd.drop_file("same.sh", &says("same"));
    fnd.drop_file("after.sh", &says("after"));
    fnd.wait_ready("after");
    assert_eq!(fnd.wait_ready("same").version, first.version);
}

fn an_invalid_change_leaves_the_last_good_version_serving(fnd: &Fnd) {
    fnd.drop_file("steady.sh", &says("good"));
    let good = fnd.wait_ready("steady");
    fnd.drop_file("steady.sh", &says("bad").replace("on_load = false", "on_laod = false"));
    let bad = fnd.wait_error("steady");
    assert_eq!(bad.version, good.version);
    assert_eq!(word(&bad.state), "ready");
    assert!(
        bad.error.as_deref().unwrap_or_default().contains("on_laod"),
        "{:?}",
        bad.error
    );
    assert_eq!(fnd.invoke("steady", "").text().trim(), "good");

    fnd.drop_file("steady.sh", &says("better"));
    let better = wait_new_version(fnd, "steady", &good);
    assert_eq!(better.error, None);
    assert_eq!(fnd.invoke("steady", "").text().trim(), "better");
}

#[test]
fn a_script_runs_once_per_content() {
    let mut fnd = Fnd::start();
    let script = |text: &str| format!("#!/usr/bin/env bash\necho {text}\n");
    fnd.drop_file("once.sh", &script("first"));
    let view = fnd.wait_run("once");
    assert_eq!(word(&view.trigger), "load");
    let first = fnd.function("once").unwrap();

    fnd.drop_file("once.sh", &script("second"));
    wait_until("the second content to run", PATIENCE, || {
        (fnd.history("once").len() == 2).then_some(())
    });
    let second = wait_new_version(&fnd, "once", &first);

    // Neither a change back to the first content nor a restart makes the script run again.
    fnd.drop_file("once.sh", &script("first"));
    wait_new_version(&fnd, "once", &second);
    wait_until("the second run to end", PATIENCE, || {
        fnd.history("once")
            .iter()
            .all(|view| view.state.is_final())
            .then_some(())
    });
    fnd.stop();
    fnd.launch();
    fnd.wait_ready("once");
    // A file that is added now runs after a quiet second; by then every earlier script has run.
    fnd.drop_file("later.sh", &script("later"));
    fnd.wait_run("later");
    assert_eq!(fnd.history("once").len(), 2);
    fnd.finish();
}

fn editors_and_package_managers_are_ignored(fnd: &Fnd) {
    for name in [
        ".hidden.sh",
        "a.sh~",
        ".a.sh.swp",
        "b.sh.tmp",
        "c.sh.part",
        "d.sh.dpkg-new",
        "e.sh.bak",
        "4913",
        "#f.sh#",
    ] {
        fs::write(fnd.function_path(name), says("never")).unwrap();
    }
    for directory in ["node_modules", "__pycache__"] {
        fs::create_dir(fnd.function_path(directory)).unwrap();
        fs::write(fnd.function_path(directory).join("x.sh"), says("never")).unwrap();
    }
    // vim moves the file away, writes it anew, and removes the old one.
    fnd.drop_file("edited.sh", &says("before"));
    let before = fnd.wait_ready("edited");
    fs::rename(fnd.function_path("edited.sh"), fnd.function_path("edited.sh~")).unwrap();
    fs::write(fnd.function_path("edited.sh"), says("after")).unwrap();
    fs::remove_file(fnd.function_path("edited.sh~")).unwrap();
    wait_new_version(fnd, "edited", &before);
    assert_eq!(fnd.invoke("edited", "").text().trim(), "after");
    let names: Vec<String> = fnd.status().functions.iter().map(|f| f.function.to_string()).collect();
    assert_eq!(names, ["edited"]);
}

fn groups_and_the_directory_form(fnd: &Fnd) {
    fnd.drop_file("ops/check.sh", &says("grouped"));
    fnd.drop_file("site/main.py", "import words\nprint(words.WORD)\n");
    fnd.drop_file("site/words.py", "WORD = \"from beside\"\n");
    fnd.drop_file("site/function.toml", "on_load = false\n");
    fnd.wait_ready("ops/check");
    fnd.wait_ready("site");
    assert_eq!(fnd.invoke("ops/check", "").text().trim(), "grouped");
    assert_eq!(fnd.invoke("site", "").text().trim(), "from beside");

    // A change of a file beside the entry is a change of the function.
    let before = fnd.wait_ready("site");
    fnd.drop_file("site/words.py", "WORD = \"changed\"\n");
    wait_new_version(fnd, "site", &before);
    assert_eq!(fnd.invoke("site", "").text().trim(), "changed");

    fs::remove_dir_all(fnd.function_path("site")).unwrap();
    fnd.wait_gone("site");
}

fn a_sidecar_is_the_manifest(fnd: &Fnd) {
    fnd.drop_file(
        "beside.toml",
        "on_load = false\ndescription = \"first\"\n[env]\nWORD = \"one\"\n",
    );
    fnd.drop_file("beside.sh", "echo \"$WORD\"\n");
    let first = fnd.wait_ready("beside");
    assert_eq!(fnd.invoke("beside", "").text().trim(), "one");
    fnd.drop_file("beside.toml", "on_load = false\n[env]\nWORD = \"two\"\n");
    wait_new_version(fnd, "beside", &first);
    assert_eq!(fnd.invoke("beside", "").text().trim(), "two");
}

/// Two files for one name are an error that names both; the first one keeps serving.
fn a_name_clash_is_an_error_and_the_first_keeps_serving(fnd: &Fnd) {
    fnd.drop_file("twice.sh", &says("the first"));
    fnd.wait_ready("twice");
    fnd.drop_file("twice.py", "print('the second')\n");
    let error = fnd.wait_error("twice").error.unwrap();
    assert!(error.contains("twice.sh") && error.contains("twice.py"), "{error}");
    assert_eq!(fnd.invoke("twice", "").text().trim(), "the first");
    fnd.remove("twice.py");
    wait_until("the problem to be gone", PATIENCE, || {
        fnd.function("twice")?.error.is_none().then_some(())
    });
    assert_eq!(word(&fnd.wait_ready("twice").state), "ready");
}

/// After any sequence of changes the functions are those on the disk.
#[test]
fn it_converges_after_a_burst() {
    let fnd = Fnd::start();
    for round in 0..200 {
        let text = if round % 2 == 0 {
            says(&format!("round{round}"))
        } else {
            "# /// fnd\n# nonsense\n# ///\n".to_owned()
        };
        fs::write(fnd.function_path("storm.sh"), text).unwrap();
        if round % 17 == 0 {
            fs::remove_file(fnd.function_path("storm.sh")).unwrap();
        }
    }
    fs::write(fnd.function_path("storm.sh"), says("calm")).unwrap();
    wait_until("the last content to serve", PATIENCE, || {
        fnd.function("storm")
            .filter(|function| function.version.is_some() && function.error.is_none())?;
        (fnd.invoke("storm", "").text().trim() == "calm").then_some(())
    });
    fnd.finish();
}

#[test]
fn a_removed_and_recreated_directory_is_watched_again() {
    let fnd = Fnd::start();
    fnd.drop_file("before.sh", &says("before"));
    fnd.wait_ready("before");
    fs::remove_dir_all(fnd.path("functions")).unwrap();
    // fnd cannot know whether it was removed or is not mounted: the module `away` tests what follows.
    let _ = fnd.wait_problem("functions");
    fs::create_dir(fnd.path("functions")).unwrap();
    fnd.drop_file("again.sh", &says("again"));
    fnd.wait_ready("again");
    fnd.wait_gone("before");
    fnd.finish();
}

/// When a start is over every function is known, so it waits for a file that may still be written to; but not for one that
/// is written to all the time: that one counts when it is closed.
#[test]
fn a_start_waits_for_young_files_and_not_for_growing_ones() {
    const MANY: usize = 2_000;
    let mut fnd = Fnd::prepare(&Setup::default());
    for n in 0..MANY {
        let path = fnd.function_path(&format!("many-{n}.sh"));
        fs::write(&path, says(&n.to_string())).unwrap();
        // This file is much older than the start.
        let file = fs::File::open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
    let mut file = fs::File::create(fnd.function_path("growing.sh")).unwrap();
    file.write_all(says("grown").as_bytes()).unwrap();
    let (stop, stopped) = mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let (mut written, mut longest) = (now(), Duration::ZERO);
        while matches!(stopped.try_recv(), Err(mpsc::TryRecvError::Empty)) {
            file.write_all(b"# more\n").unwrap();
            longest = longest.max(written.elapsed());
            written = now();
            pause();
        }
        longest
    });
    fs::write(fnd.function_path("young.sh"), says("young")).unwrap();
    fs::write(fnd.function_path("script.sh"), "echo ran\n").unwrap();
    let start = now();
    fnd.launch_within(PATIENCE * 3);
    println!("ready after {:?}", start.elapsed());
    assert_eq!(fnd.invoke("young", "").text().trim(), "young");
    let known = fnd
        .status()
        .functions
        .iter()
        .filter(|function| function.function.as_str() != "growing")
        .count();
    assert_eq!(known, MANY + 2);
    // A new script runs, although there is always some change.
    fnd.wait_run("script");
    let growing = fnd.function("growing").is_none();
    drop(stop);
    // If a writer is held up for two seconds, fnd takes its file for complete.
    let longest = writer.join().unwrap();
    assert!(growing || longest > Duration::from_millis(1500), "{longest:?}");
    fnd.wait_ready("growing");
    assert_eq!(fnd.invoke("growing", "").text().trim(), "grown");
    fnd.finish();
}

#[test]
fn ten_thousand_files_at_once() {
    const FILES: usize = 10_000;
    let fnd = Fnd::start();
    // The files are renamed into the directory, so that events come faster than any queue can hold.
    let stage = fnd.path("stage");
    fs::create_dir(&stage).unwrap();
    for n in 0..FILES {
        fs::write(stage.join(format!("many-{n}.sh")), says(&n.to_string())).unwrap();
    }
    for n in 0..FILES {
        let name = format!("many-{n}.sh");
        fs::rename(stage.join(&name), fnd.function_path(&name)).unwrap();
    }
    let start = now();
    // The promise is 10 s; a busy machine gets more time before the test fails.
    wait_until("10,000 functions to be ready", PATIENCE * 4, || {
        let counts = fnd.status().functions_by_state;
        (counts.get("ready") == Some(&u32::try_from(FILES).unwrap())).then_some(())
    });
    println!("10,000 files were ready after {:?}", start.elapsed());
    assert_eq!(fnd.invoke("many-9999", "").text().trim(), "9999");
    fnd.finish();
}
