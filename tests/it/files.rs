//! Files that run functions, with a real fnd, real watchers and real directories: each content once, over kills, restarts,
//! renames and full queues; and what happens to the files afterwards.

use fnd_core::api::InvocationView;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_tests::mount::Mount;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, install, require, wait_until};
use fnd_wire::ids::InvocationId;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Writes the name of each file to a journal, one line for each run.
const KEEP_BOOKS: &str = "printf '%s\\n' \"${FND_FILE##*/}\" >>\"$STATE_DIRECTORY/journal\"\n";

/// Returns the entry of a manifest.
fn entry(path: &Path, more: &str) -> String {
    format!("[[file]]\npath = \"{}\"\ndebounce = \"20ms\"\n{more}", path.display())
}

/// Drops a bash function with an entry; it need not be ready, since it waits for files.
fn drop_function(fnd: &Fnd, name: &str, manifest: &str, code: &str) {
    let file = format!("{name}.sh");
    fnd.drop_file(&file, &install::with_manifest(&file, manifest, code));
}

/// Writes a file as most programs do: under another name, and then moved.
fn put(directory: &Path, name: &str, content: &str) {
    fs::write(directory.join(name), content).unwrap();
}

fn journal(fnd: &Fnd, function: &str) -> Vec<String> {
    let text = fs::read_to_string(fnd.path("state/home").join(function).join("journal")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[track_caller]
fn wait_journal(fnd: &Fnd, function: &str, expected: &[String]) {
    wait_until(&format!("{} runs of {function}", expected.len()), PATIENCE, || {
        (journal(fnd, function).len() >= expected.len()).then_some(())
    });
    wait_quiet(fnd, function);
    assert_eq!(journal(fnd, function), expected);
}

/// Waits until nothing of a function runs or waits.
fn wait_quiet(fnd: &Fnd, function: &str) {
    drop(fnd.wait_function(function, "quiet", |status| status.running == 0 && status.queued == 0));
}

fn runs(fnd: &Fnd, function: &str) -> Vec<InvocationView> {
    let mut runs = fnd.history(function);
    runs.retain(|run| run.trigger == Trigger::File && run.state.is_final());
    runs
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let mut names: Vec<String> = files
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Each of these has a directory of its own.
#[test]
fn watched_directories() {
    let fnd = Fnd::start();
    a_file_runs_the_function_with_its_exact_path(&fnd);
    files_go_where_the_manifest_says(&fnd);
    a_directory_may_come_later_go_and_be_replaced(&fnd);
    only_new_files_count_if_the_manifest_says_so(&fnd);
    a_disabled_function_leaves_its_files_and_a_deleted_one_is_forgotten(&fnd);
    a_watcher_has_the_rights_of_its_function_and_comes_back(&fnd);
    a_full_queue_leaves_files_in_their_directory(&fnd);
    mistakes_name_their_place(&fnd);
    watchers_and_runs_of_many_functions_start_side_by_side(&fnd);
    fnd.finish();
}

fn a_file_runs_the_function_with_its_exact_path(fnd: &Fnd) {
    let directory = fnd.shared_directory("in");
    let code = "printf '%s\\n' \"$(cat)\" >>\"$STATE_DIRECTORY/payloads\"
printf '%s\\n' \"$(printf '%s' \"$FND_FILE\" | od -An -v -tx1 | tr -d ' \\n')\" >>\"$STATE_DIRECTORY/journal\"\n";
    put(&directory, "before.csv", "there already");
    drop_function(fnd, "take", &entry(&directory, "pattern = \"*.csv\""), code);
    let longest = format!("{}.csv", "n".repeat(251));
    for name in [
        b"two\nlines.csv".as_slice(),
        b"no\xfftext.csv",
        longest.as_bytes(),
        b"other.txt",
        b".hidden.csv",
    ] {
        fs::write(directory.join(OsStr::from_bytes(name)), "x").unwrap();
    }
    let hex = |name: &[u8]| {
        let path = [directory.as_os_str().as_bytes(), b"/", name].concat();
        path.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let mut expected = [
        b"before.csv".as_slice(),
        b"two\nlines.csv",
        b"no\xfftext.csv",
        longest.as_bytes(),
    ]
    .map(hex)
    .to_vec();
    expected.sort();
    wait_journal(fnd, "take", &expected);
    let payloads = fs::read_to_string(fnd.path("state/home/take/payloads")).unwrap();
    let values: Vec<serde_json::Value> = payloads
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(values.len(), 4, "{payloads}");
    let before = values
        .iter()
        .find(|value| value["path"].as_str().unwrap().ends_with("before.csv"))
        .unwrap();
    assert_eq!(
        (before["event"].as_str(), before["size"].as_u64()),
        (Some("created"), Some(13))
    );
    assert!(before["mtime"].as_str().unwrap().ends_with('Z'), "{before}");
    let exact = values.iter().filter(|value| value["path_base64"].is_string()).count();
    assert_eq!(exact, 1, "{payloads}");

    put(&directory, "before.csv", "changed");
    let modified = wait_until("the changed file", PATIENCE, || {
        let ids = runs(fnd, "take").into_iter().map(|run| run.id);
        let mut causes = ids.map(|id| fnd.invocation(id).cause);
        causes.find(|cause| matches!(cause, Some(Cause::File(file)) if file.event.as_str() == "modified"))
    });
    assert!(matches!(modified, Some(Cause::File(file)) if file.path.ends_with("in/before.csv")));
    let newest = runs(fnd, "take")[0].id.to_string();
    let shown = fnd.ctl(&["history", "--id", &newest]).expect_code(0).out();
    assert!(shown.contains("in/before.csv (modified)"), "{shown}");
}

#[test]
fn each_content_runs_once_over_kills_restarts_and_renames() {
    require!(root, cgroup);
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    let directory = fnd.shared_directory("in");
    drop_function(&fnd, "once", &entry(&directory, "[queue]\nmax = 20"), KEEP_BOOKS);
    let mut expected = Vec::new();
    for round in 0..4 {
        for number in 0..60 {
            let name = format!("{round}-{number:02}");
            put(&directory, &name, &name);
            expected.push(name);
        }
        wait_until("some runs", PATIENCE, || {
            (journal(&fnd, "once").len() > round * 60).then_some(())
        });
        match round {
            0 | 2 => {
                fnd.leave(nix::sys::signal::Signal::SIGKILL);
                // While no fnd runs: a new name for a handled content, and a new file.
                fs::rename(
                    directory.join(format!("{round}-00")),
                    directory.join(format!("{round}-renamed")),
                )
                .unwrap();
                put(&directory, &format!("{round}-meanwhile"), "new");
                expected.push(format!("{round}-meanwhile"));
                fnd.launch();
            }
            _ => fnd.replace(nix::sys::signal::Signal::SIGTERM),
        }
    }
    expected.sort();
    let interrupted = || {
        let history = fnd.history("once").into_iter();
        history.filter(|run| run.state == RunState::Interrupted).count()
    };
    // An attempt that a kill interrupts is recorded as such and does not run again, so it may be missing in the journal.
    wait_until("all runs", PATIENCE, || {
        let ended = journal(&fnd, "once").len();
        (ended >= expected.len() || ended + interrupted() >= expected.len()).then_some(())
    });
    wait_quiet(&fnd, "once");
    let mut seen = journal(&fnd, "once");
    // The first file of a round may have been renamed before its run began; its content ran once under either name.
    for name in &mut seen {
        if let Some(round) = name.strip_suffix("-renamed") {
            *name = format!("{round}-00");
        }
    }
    seen.sort();
    let interrupted = interrupted();
    let twice: Vec<_> = seen.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(
        seen.len() + interrupted >= expected.len(),
        "{} and {interrupted} of {}",
        seen.len(),
        expected.len()
    );
    assert!(
        fnd.history("once").iter().all(|run| run.state != RunState::Skipped),
        "none is refused"
    );
    fnd.finish();
}

fn files_go_where_the_manifest_says(fnd: &Fnd) {
    let directory = fnd.shared_directory("sorted");
    let actions = "then = \"move:done\"\nfailed = \"move:../failed\"\n[retry]\nretries = 0";
    drop(fnd.shared_directory("failed"));
    drop_function(fnd, "sort", &entry(&directory, actions), "[[ $FND_FILE != *bad* ]]\n");
    for name in ["good-1", "bad-1", "good-2"] {
        put(&directory, name, name);
    }
    let done = directory.join("done");
    wait_until("the files are sorted", PATIENCE, || {
        names(&directory).is_empty().then_some(())
    });
    assert_eq!(
        (names(&done), names(&fnd.path("failed"))),
        (vec!["good-1".into(), "good-2".into()], vec!["bad-1".to_owned()])
    );
    // A name that is taken stays whole.
    put(&directory, "good-1", "another content");
    wait_until("the second file of that name", PATIENCE, || {
        names(&directory).is_empty().then_some(())
    });
    assert_eq!(names(&done), ["good-1", "good-1.1", "good-2"]);
    assert_eq!(fs::read_to_string(done.join("good-1")).unwrap(), "good-1");
    assert_eq!(runs(fnd, "sort").len(), 4);

    let other = fnd.shared_directory("other");
    drop_function(
        fnd,
        "drain",
        &entry(&other, "then = \"delete\"\nbatch = 10"),
        "cat >>\"$STATE_DIRECTORY/journal\"\n",
    );
    for number in 0..25 {
        put(&other, &format!("{number}"), "x");
    }
    wait_until("the files are deleted", PATIENCE, || {
        names(&other).is_empty().then_some(())
    });
    wait_quiet(fnd, "drain");
    let lists: Vec<serde_json::Value> = serde_json::Deserializer::from_str(&journal(fnd, "drain").join(""))
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let counts: Vec<usize> = lists.iter().map(|list| list.as_array().unwrap().len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 25, "{counts:?}");
    assert!(counts.iter().all(|count| *count <= 10), "{counts:?}");
}

#[test]
fn what_was_to_be_done_after_a_run_is_done_by_the_next_fnd() {
    require!(root, cgroup);
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    let directory = fnd.shared_directory("in");
    let gate = fnd.shared_directory("gate");
    let code = format!("until [[ -e {}/go ]]; do sleep 0.02; done\n", gate.display());
    drop_function(&fnd, "slow", &entry(&directory, "then = \"delete\""), &code);
    put(&directory, "a", "a");
    drop(fnd.wait_function("slow", "running", |status| status.running == 1));
    fnd.leave(nix::sys::signal::Signal::SIGKILL);
    fs::write(gate.join("go"), "").unwrap();
    fnd.launch();
    wait_until("the file is deleted", PATIENCE, || {
        names(&directory).is_empty().then_some(())
    });
    assert_eq!(runs(&fnd, "slow").len(), 1);
    fnd.finish();
}

#[test]
fn what_is_done_with_a_file_follows_a_redrive_and_a_replay_too() {
    require!(root, cgroup);
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    let directory = fnd.shared_directory("in");
    let gate = fnd.shared_directory("gate");
    let actions = "then = \"move:done\"\n[retry]\nretries = 0";
    let code = format!("[[ -e {}/go ]]\n", gate.display());
    drop_function(&fnd, "mend", &entry(&directory, actions), &code);
    let failed = |name: &str, content: &str| {
        put(&directory, name, content);
        wait_until("the failed run", PATIENCE, || {
            let newest = runs(&fnd, "mend").into_iter().next()?;
            let is_its =
                matches!(fnd.invocation(newest.id).cause, Some(Cause::File(file)) if file.path.ends_with(name));
            (is_its && fs::read_to_string(directory.join(name)).unwrap() == content).then_some(newest.id)
        })
    };
    let (one, two) = (failed("one", "1"), failed("two", "2"));
    let first = failed("changed", "3");
    put(&directory, "changed", "another");
    let changed = wait_until("the run of the other content", PATIENCE, || {
        let newest = runs(&fnd, "mend").into_iter().next()?;
        (newest.id != first).then_some(newest.id)
    });
    fs::write(gate.join("go"), "").unwrap();
    let repeat = |fnd: &Fnd, command: &[&str], id: InvocationId| {
        let id = id.to_string();
        let output = fnd.ctl(&[command, &[id.as_str()]].concat()).expect_code(0).out();
        let new = InvocationId::parse(output.trim().rsplit(' ').next().unwrap()).unwrap();
        assert_eq!(fnd.wait_end(new).state, RunState::Succeeded);
    };
    repeat(&fnd, &["dead-letters", "redrive"], one);
    wait_until("the file is moved", PATIENCE, || {
        (names(&directory) == ["changed", "two"]).then_some(())
    });
    fnd.leave(nix::sys::signal::Signal::SIGKILL);
    fnd.launch();
    fnd.wait_ready("mend");
    repeat(&fnd, &["replay"], two);
    wait_until("the file is moved", PATIENCE, || {
        (names(&directory) == ["changed"]).then_some(())
    });
    repeat(&fnd, &["dead-letters", "redrive"], first);
    fnd.wait_log("repeats a run for files that have changed since, or are gone");
    assert_eq!(names(&directory), ["changed"]);
    repeat(&fnd, &["dead-letters", "redrive"], changed);
    wait_until("the file is moved", PATIENCE, || {
        names(&directory).is_empty().then_some(())
    });
    assert_eq!(names(&directory.join("done")), ["changed", "one", "two"]);
    fnd.finish();
}

fn a_directory_may_come_later_go_and_be_replaced(fnd: &Fnd) {
    let around = fnd.shared_directory("around");
    let directory = around.join("in");
    drop_function(fnd, "later", &entry(&directory, ""), KEEP_BOOKS);
    let status = fnd.wait_function("later", "warned", |status| status.warning.is_some());
    assert!(status.warning.as_ref().unwrap().contains("around/in"), "{status:?}");
    drop(fnd.wait_problem("around/in"));
    fs::create_dir(&directory).unwrap();
    put(&directory, "first", "1");
    wait_journal(fnd, "later", &["first".to_owned()]);
    drop(fnd.wait_function("later", "without a warning", |status| status.warning.is_none()));
    fs::remove_dir_all(&directory).unwrap();
    drop(fnd.wait_function("later", "warned", |status| status.warning.is_some()));
    let made = around.join("made");
    fs::create_dir(&made).unwrap();
    put(&made, "second", "2");
    fs::rename(&made, &directory).unwrap();
    wait_journal(fnd, "later", &["first".to_owned(), "second".to_owned()]);
}

/// A function has a view of its own, made when its launcher or its warm worker started, in which nobody mounts later.
#[test]
fn what_is_mounted_over_a_watched_directory_is_what_the_function_sees() {
    require!(root, cgroup);
    let fnd = Fnd::start_with(&Setup::default().config("[sandbox]\nprofile = \"strict\"\n"));
    let directory = fnd.shared_directory("in");
    let below = directory.join("below");
    fs::create_dir(&below).unwrap();
    let script = "echo \"${FND_FILE##*/} $(<\"$FND_FILE\")\" >>\"$STATE_DIRECTORY/journal\"\n";
    let handler = "import os\n\ndef handler(event, context):\n    path = event['data']['path']\n    \
        with open(os.environ['STATE_DIRECTORY'] + '/journal', 'a') as journal:\n        \
        journal.write(os.path.basename(path) + ' ' + open(path).read() + '\\n')\n";
    let watched = entry(&directory, "recursive = true");
    drop_function(&fnd, "script", &watched, script);
    let warm = format!("{watched}\n[pool]\nmin = 1");
    fnd.drop_file("warm.py", &install::with_manifest("warm.py", &warm, handler));
    let mut expected = Vec::new();
    let mut step = |directory: &Path, name: &str, content: &str| {
        put(directory, name, content);
        expected.push(format!("{name} {content}"));
        for function in ["script", "warm"] {
            wait_journal(&fnd, function, &expected);
        }
    };
    step(&directory, "a", "on the disk");
    for (place, names) in [(&directory, ["b", "c"]), (&below, ["d", "e"])] {
        let mount = Mount::over(place, "1m");
        step(place, names[0], "in memory");
        drop(mount);
        step(place, names[1], "on the disk again");
    }
    for function in ["script", "warm"] {
        let failed = runs(&fnd, function)
            .into_iter()
            .filter(|run| run.state != RunState::Succeeded);
        assert_eq!(failed.count(), 0);
    }
    fnd.finish();
}

fn only_new_files_count_if_the_manifest_says_so(fnd: &Fnd) {
    let directory = fnd.shared_directory("new");
    put(&directory, "old", "1");
    // Shorter than the pause between two tries below: each try begins the quiet time anew.
    let manifest = entry(&directory, "existing = false").replace("20ms", "1ms");
    drop_function(fnd, "fresh", &manifest, KEEP_BOOKS);
    wait_until("the watch", PATIENCE, || {
        put(&directory, "new", "2");
        (!journal(fnd, "fresh").is_empty()).then_some(())
    });
    wait_quiet(fnd, "fresh");
    let seen = journal(fnd, "fresh");
    assert!(seen.iter().all(|name| name == "new"), "{seen:?}");
    put(&directory, "old", "changed");
    wait_until("the changed old file", PATIENCE, || {
        journal(fnd, "fresh").contains(&"old".to_owned()).then_some(())
    });
}

fn a_disabled_function_leaves_its_files_and_a_deleted_one_is_forgotten(fnd: &Fnd) {
    let directory = fnd.shared_directory("taken");
    let manifest = entry(&directory, "");
    drop_function(fnd, "taker", &manifest, KEEP_BOOKS);
    put(&directory, "a", "a");
    wait_journal(fnd, "taker", &["a".to_owned()]);
    drop(fnd.ctl(&["disable", "taker"]).expect_code(0));
    put(&directory, "b", "b");
    drop(fnd.ctl(&["enable", "taker"]).expect_code(0));
    wait_journal(fnd, "taker", &["a".to_owned(), "b".to_owned()]);
    // A new version goes on where the old one was.
    drop_function(fnd, "taker", &manifest, &format!("true\n{KEEP_BOOKS}"));
    put(&directory, "c", "c");
    wait_journal(fnd, "taker", &["a".to_owned(), "b".to_owned(), "c".to_owned()]);
    fnd.remove("taker.sh");
    fnd.wait_gone("taker");
    drop_function(fnd, "taker", &manifest, KEEP_BOOKS);
    let all = ["a", "a", "b", "b", "c", "c"].map(str::to_owned);
    wait_journal(fnd, "taker", &all);
}

fn a_watcher_has_the_rights_of_its_function_and_comes_back(fnd: &Fnd) {
    require!(root, cgroup);
    let secret = fnd.path("secret");
    fs::create_dir(&secret).unwrap();
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    put(&secret, "a", "a");
    drop_function(fnd, "nosy", &entry(&secret, ""), KEEP_BOOKS);
    let status = fnd.wait_function("nosy", "warned", |status| status.warning.is_some());
    assert!(status.warning.as_ref().unwrap().contains("ermission"), "{status:?}");
    assert!(journal(fnd, "nosy").is_empty());

    let directory = fnd.shared_directory("killed");
    // It kills its own watcher, which is of the same user.
    drop_function(
        fnd,
        "killer",
        &entry(&directory, ""),
        &format!("{KEEP_BOOKS}pkill -KILL -u \"$(id -u)\" -f -- --watch || true\n"),
    );
    put(&directory, "a", "a");
    wait_journal(fnd, "killer", &["a".to_owned()]);
    put(&directory, "b", "b");
    wait_journal(fnd, "killer", &["a".to_owned(), "b".to_owned()]);
}

fn watchers_and_runs_of_many_functions_start_side_by_side(fnd: &Fnd) {
    let directory = fnd.shared_directory("many");
    for number in 0..24 {
        put(&directory, &number.to_string(), "content");
        let manifest = format!("on_load = true\n{}pattern = \"{number}\"", entry(&directory, ""));
        drop_function(fnd, &format!("f{number}"), &manifest, "true\n");
    }
    let all = wait_until("a run of each by being there and by its file", PATIENCE, || {
        let runs = (0..24).flat_map(|number| fnd.history(&format!("f{number}")));
        let runs: Vec<_> = runs.filter(|run| run.state.is_final()).collect();
        (runs.len() >= 48).then_some(runs)
    });
    let failed: Vec<_> = all.iter().filter(|run| run.state != RunState::Succeeded).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

fn a_full_queue_leaves_files_in_their_directory(fnd: &Fnd) {
    let directory = fnd.shared_directory("narrow");
    let gate = fnd.shared_directory("gate");
    let manifest = format!("{}[pool]\nmax = 1\n[queue]\nmax = 1", entry(&directory, ""));
    let code = format!(
        "until [[ -e {}/go ]]; do sleep 0.02; done\n{KEEP_BOOKS}",
        gate.display()
    );
    drop_function(fnd, "narrow", &manifest, &code);
    let mut expected = Vec::new();
    for number in 10..40 {
        put(&directory, &number.to_string(), "content");
        expected.push(number.to_string());
    }
    drop(fnd.wait_function("narrow", "busy", |status| status.running == 1 && status.queued == 1));
    let metrics = || fnd.client().get("/metrics").text();
    wait_until("the number of files that wait", PATIENCE, || {
        metrics()
            .contains("fnd_files_waiting{function=\"narrow\"} 28")
            .then_some(())
    });
    fs::write(gate.join("go"), "").unwrap();
    wait_journal(fnd, "narrow", &expected);
    assert!(
        fnd.history("narrow").iter().all(|run| run.state == RunState::Succeeded),
        "none is refused"
    );
    let metrics = metrics();
    let dropped = metrics
        .lines()
        .find(|line| line.contains("queue") && line.contains("narrow") && line.contains("rejected"));
    assert_eq!(dropped, None, "{metrics}");
}

fn mistakes_name_their_place(fnd: &Fnd) {
    let functions: PathBuf = fnd.path("functions");
    drop_function(fnd, "itself", &entry(&functions, ""), "true\n");
    let error = fnd.wait_error("itself").error.unwrap();
    assert!(
        error.contains("itself.sh:3") && error.contains("contains the function itself"),
        "{error}"
    );
}
