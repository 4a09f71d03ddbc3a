//! The list of functions as it changes.

use fnd_core::api::FunctionChange;
use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A running `fndctl status --watch`, and what it prints.
struct Watch(Child, Receiver<String>);

impl Watch {
    fn start(fnd: &Fnd, arguments: &[&str]) -> Self {
        let mut command = Command::new(program("fndctl"));
        command
            .env_clear()
            .env("FND_SOCKET", fnd.socket())
            .args(["status", "--watch"]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, receiver) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        Self(child, receiver)
    }

    /// Returns the first change that satisfies a condition.
    fn wait(&self, what: &str, is: impl Fn(&FunctionChange) -> bool) -> FunctionChange {
        loop {
            let line = self
                .1
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("no change where {what}"));
            let change: FunctionChange = serde_json::from_str(&line).unwrap();
            if is(&change) {
                return change;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The watch of all functions comes first.
#[test]
fn changes_are_watched() {
    let fnd = Fnd::start();
    each_change_is_a_line(&fnd);
    a_pause_of_schedules_is_a_change(&fnd);
    a_person_sees_the_table_again(&fnd);
    fnd.finish();
}

fn each_change_is_a_line(fnd: &Fnd) {
    let script = |word| format!("# /// fnd\n# on_load = false\n# [labels]\n# team = \"ops\"\n# ///\necho {word}\n");
    fnd.drop_file("seen.sh", &script("old"));
    fnd.drop_file("other.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    let first = fnd.wait_ready("seen").version;
    fnd.wait_ready("other");
    let all = Watch::start(fnd, &["-o", "json"]);
    let one = Watch::start(fnd, &["seen", "-o", "json"]);
    all.wait("the other is there", |change| change.function.as_str() == "other");
    for watch in [&all, &one] {
        let change = watch.wait("it is there", |change| change.function.as_str() == "seen");
        assert_eq!(change.now.unwrap().version, first);
    }
    let _ = fnd.run("other", "");
    let _ = fnd.run("seen", "");
    let ran = |change: &FunctionChange| change.now.as_ref().is_some_and(|now| now.runs == 1);
    for watch in [&all, &one] {
        watch.wait("it ran", |change| change.function.as_str() == "seen" && ran(change));
    }
    fnd.drop_file("seen.sh", &script("new"));
    let other = |change: &FunctionChange| change.now.as_ref().is_some_and(|now| now.version != first);
    one.wait("it changed", |change| {
        change.function.as_str() == "seen" && other(change)
    });
    fnd.remove("seen.sh");
    for watch in [&all, &one] {
        watch.wait("it is gone", |change| {
            change.function.as_str() == "seen" && change.now.is_none()
        });
    }
    // Changes of another function are not shown for this one.
    let _ = fnd.run("other", "");
    all.wait("the other ran again", |change| {
        change.now.as_ref().is_some_and(|now| now.runs == 2)
    });
    assert!(one.1.try_iter().all(|line| line.contains("\"seen\"")));
}

/// Long lists are made in pieces.
#[test]
fn lists_of_many_functions_have_each_once() {
    const MANY: usize = 200;
    let name = |n: usize| format!("many-{n:03}");
    let script = "# /// fnd\n# on_load = false\n# [labels]\n# team = \"ops\"\n# [[schedule]]\n# cron = \"0 4 1 1 *\"\n# ///\n:\n";
    let mut setup = Setup::default();
    for n in 0..MANY {
        setup = setup.file(&format!("{}.sh", name(n)), script);
    }
    let fnd = Fnd::start_with(&setup);
    let names: Vec<String> = (0..MANY).map(name).collect();
    let get = |path: &str| -> serde_json::Value { fnd.client().get(path).json() };
    wait_until("all functions to be ready", PATIENCE, || {
        (get("/v1/status?functions=0")["functions_by_state"] == json!({"ready": MANY})).then_some(())
    });
    for (path, list) in [
        ("/v1/status", "functions"),
        ("/v1/functions", "functions"),
        ("/v1/functions?label=team=ops", "functions"),
        ("/v1/usage", "functions"),
        ("/v1/schedules", "schedules"),
    ] {
        let answer = get(path);
        let listed = answer[list].as_array().unwrap();
        let listed: Vec<&str> = listed.iter().map(|one| one["function"].as_str().unwrap()).collect();
        assert_eq!(listed, names, "{path}");
    }
    assert_eq!(get("/v1/functions?label=team=web")["functions"], json!([]));
    assert_eq!(get("/v1/status?functions=0")["functions"], json!([]));
    let metrics = fnd.client().get("/metrics").text();
    let line = format!("fnd_functions{{state=\"ready\"}} {MANY}.0");
    assert!(metrics.contains(&line), "{metrics}");
    assert_eq!(metrics.matches("\nfnd_queue_depth{").count(), MANY);
    let watch = Watch::start(&fnd, &["-o", "json"]);
    let seen = RefCell::new(BTreeSet::new());
    watch.wait("all were seen", |change| {
        seen.borrow_mut().insert(change.function.to_string());
        seen.borrow().len() == MANY
    });
    assert!(seen.borrow().iter().eq(&names));
    fnd.finish();
}

/// No event of the stream tells of such a change.
fn a_pause_of_schedules_is_a_change(fnd: &Fnd) {
    let script = "# /// fnd\n# on_load = false\n# [[schedule]]\n# cron = \"0 4 1 1 *\"\n# ///\n:\n";
    fnd.drop_file("yearly.sh", script);
    fnd.wait_ready("yearly");
    let watch = Watch::start(fnd, &["yearly", "-o", "json"]);
    let is_due = |change: &FunctionChange| change.now.as_ref().is_some_and(|now| now.next_run_at.is_some());
    watch.wait("it is due", is_due);
    let ask = |verb| fnd.client().post(&format!("/v1/functions/yearly/schedules/{verb}"), "");
    assert_eq!(ask("pause").status, 200);
    watch.wait("it is paused", |change| !is_due(change));
    assert_eq!(ask("resume").status, 200);
    watch.wait("it is due again", is_due);
}

fn a_person_sees_the_table_again(fnd: &Fnd) {
    fnd.drop_file("table.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    fnd.wait_ready("table");
    let watch = Watch::start(fnd, &[]);
    let row = |ran: &str| {
        wait_until("a row of the table", PATIENCE, || {
            let line = watch.1.recv_timeout(PATIENCE).unwrap();
            (line.starts_with("table ") && line.contains(ran)).then_some(())
        });
    };
    row(" ready ");
    let _ = fnd.run("table", "");
    row("s ago");
    drop(watch);
}
