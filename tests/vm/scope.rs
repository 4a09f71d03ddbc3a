//! Which scenarios a run without names has: all of them if something they depend on has changed since all of them
//! passed, else the core ones. The tracked file `tests/vm/PASSED` names the commit at which all of them passed.

use std::path::Path;
use std::process::Command;

/// The virtual machine alone tests these paths: a change in one of them makes all scenarios run. They are relative to the
/// root of the repository; the file that names the commit does not count.
const PATHS: &[&str] = &[
    "systemd",
    "packaging",
    "spawner/Cargo.toml",
    "spawner/src",
    "wire/src",
    "scripts/deb.sh",
    "scripts/repo.sh",
    "scripts/test-vm.sh",
    "scripts/vm-image.sh",
    "helpers/src/confine.rs",
    "daemon/src/modes/helper.rs",
    "daemon/src/start",
    "daemon/src/workers/adoption.rs",
    "tests/vm",
    ":(exclude)tests/vm/PASSED",
    // The machine does not test these.
    ":(exclude)packaging/ansible",
    ":(exclude)packaging/cloud-init",
    ":(exclude)packaging/litestream",
    ":(exclude)packaging/rpm",
];
const PASSED: &str = "tests/vm/PASSED";

/// The scenarios to run, and why, as text for people.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All(String),
    Core(String),
}

/// Returns the scenarios that the repository at `root` needs.
pub(crate) fn of(root: &Path) -> Scope {
    let Ok(commit) = std::fs::read_to_string(root.join(PASSED)) else {
        return Scope::All(format!("{PASSED} is missing"));
    };
    let commit = commit.trim();
    if !is_commit(commit) || git(root, &["merge-base", "--is-ancestor", commit, "HEAD"]).is_none() {
        return Scope::All(format!("{PASSED} names no ancestor of this commit"));
    }
    let changed = git(root, &[&["diff", "--name-only", commit, "--"], PATHS].concat());
    let Some(changed) = changed else {
        return Scope::All("git cannot compare".to_owned());
    };
    match changed.lines().next() {
        Some(first) => Scope::All(format!("{first} has changed since {commit}")),
        None => Scope::Core(format!(
            "nothing that needs all of them has changed since {commit}, where all passed"
        )),
    }
}

/// Records that all scenarios have passed. Returns what remains to be done, as text for people.
pub(crate) fn passed(root: &Path) -> Option<String> {
    let head = git(root, &["rev-parse", "HEAD"])?;
    if !git(root, &["status", "--porcelain"])?.is_empty() {
        return Some(format!(
            "{PASSED} stays as it is: there are changes that are not committed"
        ));
    }
    match std::fs::write(root.join(PASSED), &head) {
        Ok(()) => Some(format!("{PASSED} names this commit now: commit the file")),
        Err(error) => Some(format!("failed to write {PASSED}: {error}")),
    }
}

/// Whether it can be nothing but a commit's name for git: options and ranges are no names.
fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the output of git; nothing if it fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Repository(tempfile::TempDir);

    impl Repository {
        fn new() -> Self {
            let repository = Self(tempfile::tempdir().unwrap());
            repository.git(&["init", "--quiet"]);
            repository.commit("tests/vm/main.rs");
            repository
        }

        fn root(&self) -> &Path {
            self.0.path()
        }

        fn git(&self, arguments: &[&str]) -> String {
            git(self.root(), arguments).unwrap()
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Adds a file; returns the commit's name.
        fn commit(&self, path: &str) -> String {
            self.write(path, path);
            self.git(&["add", "--all"]);
            let name = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
            self.git(&[&name[..], &["commit", "--quiet", "--message", path]].concat());
            self.git(&["rev-parse", "HEAD"])
        }

        fn all(&self, why: &str) {
            let scope = of(self.root());
            assert!(matches!(&scope, Scope::All(text) if text.contains(why)), "{scope:?}");
        }

        fn core(&self) {
            let scope = of(self.root());
            assert!(matches!(scope, Scope::Core(_)), "{scope:?}");
        }
    }

    #[test]
    fn all_scenarios_run_until_all_have_passed_once() {
        let repository = Repository::new();
        repository.all("is missing");
        assert_eq!(
            passed(repository.root()).as_deref(),
            Some("tests/vm/PASSED names this commit now: commit the file")
        );
        repository.core();
        repository.commit("docs/history.md");
        repository.core();
    }

    #[test]
    fn a_change_of_what_they_depend_on_makes_all_of_them_run() {
        let repository = Repository::new();
        passed(repository.root()).unwrap();
        repository.commit("packaging/ansible/site.yml");
        repository.core();
        repository.commit("tests/vm/scenarios/new.rs");
        repository.all("tests/vm/scenarios/new.rs has changed");
        repository.write(PASSED, &repository.git(&["rev-parse", "HEAD"]));
        repository.core();
        // A change that is not committed is one too, if git knows the file.
        repository.write("tests/vm/scenarios/new.rs", "changed");
        repository.all("tests/vm/scenarios/new.rs has changed");
        assert!(passed(repository.root()).unwrap().contains("not committed"));
    }

    #[test]
    fn only_an_ancestor_counts() {
        let repository = Repository::new();
        for text in ["", "HEAD", "--help", &"0".repeat(40), "main..HEAD"] {
            repository.write(PASSED, text);
            repository.all("no ancestor");
        }
        let later = repository.commit("README.txt");
        repository.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
        repository.write(PASSED, &later);
        repository.all("no ancestor");
    }
}
