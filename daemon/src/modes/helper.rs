//! `fnd-helper` in place of this program. fnd-spawner 0.1.0 starts `fnd --judge`, and runs on after an upgrade; a unit of one's own
//! may name `fnd` with `--fnd`; and `fndctl secret` finds `fnd`, which knows where the helper is.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tasks of `fnd-helper`.
const TASKS: [&str; 8] = [
    "--judge",
    "--unpack",
    "--decrypt",
    "--find-secret",
    "--encrypt",
    "--keygen",
    "--watch",
    "--measure",
];
const INSTALLED: &str = "/usr/libexec/fnd/fnd-helper";

/// Becomes `fnd-helper` if the arguments, given without the program's name, name a task of it.
///
/// # Errors
/// Why that failed; absent if they name none.
#[must_use]
pub fn replace(arguments: &[OsString]) -> Option<String> {
    is_task(arguments.first()?).then(|| {
        let own = std::env::current_exe().unwrap_or_default();
        let program = helper(&own);
        // By exec(2) and not as a child: process id, parent and descriptors stay, and the spawner waits for this
        // process.
        let error = Command::new(&program).args(arguments).exec();
        let program = program.display();
        format!("failed to start `{program}`: {error} (fnd looks for `fnd-helper` in its own directory first)")
    })
}

fn is_task(argument: &OsString) -> bool {
    let word = argument.to_str().and_then(|word| word.split('=').next());
    word.is_some_and(|word| TASKS.contains(&word))
}

/// Returns the helper beside a program, else the installed one.
fn helper(own: &Path) -> PathBuf {
    let beside = own.with_file_name("fnd-helper");
    if beside.is_file() { beside } else { INSTALLED.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_of_the_helper_are_its_own() {
        for task in ["--judge", "--unpack=.tar", "--measure", "--watch"] {
            assert!(is_task(&task.into()), "{task}");
        }
        for other in [
            "--check",
            "--examine",
            "--user",
            "judge",
            "",
            "--judges",
            "--check=--judge",
        ] {
            assert!(!is_task(&other.into()), "{other}");
        }
    }

    #[test]
    fn the_helper_beside_a_program_wins_over_the_installed_one() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("fnd");
        assert_eq!(helper(&own), Path::new(INSTALLED));
        std::fs::write(directory.path().join("fnd-helper"), "").unwrap();
        assert_eq!(helper(&own), directory.path().join("fnd-helper"));
    }
}
