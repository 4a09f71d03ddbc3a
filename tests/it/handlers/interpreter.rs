//! An interpreter is replaced while functions run: by a package upgrade, by a link to another version, or it is missing
//! for a while.

use super::ask;
use fnd_tests::{Fnd, Setup};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// A directory with two copies of python and a link that functions are run by.
struct Pythons(TempDir);

impl Pythons {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let closed_to_nobody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.path(), closed_to_nobody).unwrap();
        let pythons = Self(root);
        for version in ["one", "two"] {
            std::fs::create_dir(pythons.at(version)).unwrap();
            pythons.copy(&pythons.program(version));
        }
        pythons.link("one");
        pythons
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, version: &str) -> PathBuf {
        self.at(version).join("python3")
    }

    fn copy(&self, to: &Path) {
        let new = self.at("new");
        std::fs::copy("/usr/bin/python3", &new).unwrap();
        std::fs::rename(new, to).unwrap();
    }

    /// Replaces the link as a package manager does: it exists at every moment.
    fn link(&self, version: &str) {
        symlink(self.program(version), self.at("next")).unwrap();
        std::fs::rename(self.at("next"), self.at("python")).unwrap();
    }

    fn setup(&self) -> Setup {
        let path = self.at("python");
        Setup::default().config(&format!(
            "[runtimes.python]\ninterpreters = {{ default = {0:?}, \"3.99\" = {0:?} }}\n",
            path.display().to_string()
        ))
    }

    /// The answer of a handler about the program that it runs in.
    fn says(&self, version: &str) -> String {
        let link = std::fs::canonicalize(self.program(version)).unwrap();
        link.display().to_string()
    }
}

/// Answers with the program that it runs in, as the kernel knows it, even if the path has another file now.
const WHO: &str = "import os, time\nEXE = os.readlink('/proc/self/exe')\n\
                   def handler(event, context):\n    time.sleep(0.005)\n    return {'exe': EXE}\n";

fn exe_in(answer: &Value) -> String {
    answer["exe"].as_str().unwrap().to_owned()
}

#[track_caller]
fn exe(fnd: &Fnd, name: &str) -> String {
    exe_in(&ask(fnd, name, ""))
}

#[test]
fn a_link_set_to_another_version_under_load_fails_no_call() {
    let pythons = Pythons::new();
    let fnd = Fnd::start_with(&pythons.setup());
    fnd.drop_file("who.py", WHO);
    let before = fnd.wait_ready("who");
    assert_eq!(exe(&fnd, "who"), pythons.says("one"));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = || {
            let mut seen: Vec<String> = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let answer = fnd.invoke("who", "");
                assert_eq!(answer.status, 200, "after {} calls: {}", seen.len(), answer.text());
                seen.push(exe_in(&answer.json()));
            }
            seen
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(client)).collect();
        pythons.link("two");
        let _ = fnd.wait_function("who", "to be served by the other python", |function| {
            function.version != before.version && function.error.is_none()
        });
        over.store(true, Ordering::Relaxed);
        let seen: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        println!("{} calls", seen.iter().map(Vec::len).sum::<usize>());
    });
    // The workers of the old interpreter have ended: no call goes to them any more.
    assert_eq!(exe(&fnd, "who"), pythons.says("two"));
    fnd.wait_log("was replaced by");
    // By the path that is started.
    let shown = fnd.ctl(&["show", "who"]).expect_code(0);
    let link = pythons.at("python").display().to_string();
    assert!(shown.out().contains(&link), "{shown}");
    fnd.finish();
}

#[test]
fn a_file_put_in_the_place_of_another_is_another_interpreter() {
    let pythons = Pythons::new();
    let fnd = Fnd::start_with(&pythons.setup());
    // A worker that is kept: without an end of its own it would go on in the old file for ever.
    fnd.install("kept.py", "[pool]\nmin = 1\n", WHO);
    let before = fnd.function("kept").unwrap();
    assert_eq!(exe(&fnd, "kept"), pythons.says("one"));
    pythons.copy(&pythons.program("one"));
    let _ = fnd.wait_function("kept", "to be prepared again", |function| {
        function.version != before.version && function.error.is_none()
    });
    // The kernel appends `(deleted)` to the path of the old file.
    assert_eq!(exe(&fnd, "kept"), pythons.says("one"));
    fnd.finish();
}

#[test]
fn one_that_is_gone_for_a_while_stops_nothing_that_runs() {
    let pythons = Pythons::new();
    let fnd = Fnd::start_with(&pythons.setup());
    // No other installed interpreter may be used instead.
    let manifest = "runtime = \"python3.99\"\n[pool]\nmin = 1\nmax = 1\n";
    fnd.install("steady.py", manifest, WHO);
    assert_eq!(exe(&fnd, "steady"), pythons.says("one"));
    let away = pythons.at("away");
    std::fs::rename(pythons.at("python"), &away).unwrap();
    let gone = fnd.wait_function("steady", "to say what is missing", |function| {
        function
            .error
            .as_deref()
            .is_some_and(|error| error.contains("does not exist"))
    });
    assert_eq!(gone.state.as_str(), "ready");
    let shown = fnd.ctl(&["show", "steady"]).expect_code(0);
    assert!(shown.out().contains("help:"), "{shown}");
    assert_eq!(exe(&fnd, "steady"), pythons.says("one"), "its worker goes on");
    // Without it a function that comes now cannot run, and can once it is there.
    let late = fnd_tests::install::with_manifest("late.py", manifest, WHO);
    fnd.drop_file("late.py", &late);
    let _ = fnd.wait_function("late", "to be refused", |function| function.state.as_str() == "invalid");
    std::fs::rename(&away, pythons.at("python")).unwrap();
    for name in ["steady", "late"] {
        let _ = fnd.wait_function(name, "to be as before", |function| {
            function.error.is_none() && function.state.as_str() == "ready"
        });
        assert_eq!(exe(&fnd, name), pythons.says("one"));
    }
    fnd.finish();
}
