//! Checks the interpreters of a runtime: which of them exist, whether they are real ones, and which one functions get.

use super::finding::Finding;
use super::permissions::insecure_above;
use super::program;
use fnd_manifest::judge::package;
use fnd_manifest::runtime::Runtime;
use fnd_manifest::runtime::shebang::PATH;
use fnd_manifest::settings::RuntimeSettings;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

const CHECK: &str = "runtimes";

/// A runtime and the interpreters it may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuntimeFacts {
    id: String,
    enabled: bool,
    /// The least version that the runtime needs.
    min_version: Option<String>,
    /// The paths that are tried, in order.
    candidates: Vec<InterpreterCandidate>,
    /// The program that `#!/usr/bin/env NAME` starts, for each of its names.
    on_path: Vec<InterpreterCandidate>,
}

/// A path where an interpreter may be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InterpreterCandidate {
    path: String,
    /// `[runtimes]` of fnd.toml names it.
    configured: bool,
    is: Is,
}

/// The file at a candidate's path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Is {
    Absent,
    /// A program of a version manager, which searches for the interpreter at each start.
    Shim,
    /// Another user can change it, or the directory above it that is named here.
    Insecure(PathBuf),
    /// Its real path, and the version it reports, or why it does not.
    Interpreter {
        real: PathBuf,
        version: Result<String, String>,
    },
}

/// Returns the facts of a runtime. `owner` is the uid of the spawner: a program is run for its version only if the
/// spawner would run it.
pub(crate) async fn inspect(runtime: &Runtime, settings: Option<&RuntimeSettings>, owner: u32) -> RuntimeFacts {
    let mut candidates = Vec::new();
    for path in runtime.candidates(None) {
        let configured = settings.is_some_and(|settings| settings.interpreters.values().any(|named| *named == path));
        candidates.push(InterpreterCandidate {
            is: examine(&path, &runtime.summary.probe, owner).await,
            path,
            configured,
        });
    }
    let found = |name: &String| {
        let places = PATH.iter().map(|directory| format!("{directory}/{name}"));
        places.into_iter().find(|path| Path::new(path).exists())
    };
    let mut on_path = Vec::new();
    for path in runtime.names.iter().filter_map(found) {
        if candidates.iter().all(|known| known.path != path) {
            // Functions do not use these programs, so they are not run for their version.
            let is = examine(&path, &[], owner).await;
            on_path.push(InterpreterCandidate {
                path,
                configured: false,
                is,
            });
        }
    }
    RuntimeFacts {
        id: runtime.summary.id.clone(),
        enabled: runtime.summary.enabled,
        min_version: runtime.min_version.clone(),
        candidates,
        on_path,
    }
}

/// Returns what is at a path. An interpreter is run with `probe` for its version, if `probe` is not empty and the path
/// is secure.
async fn examine(path: &str, probe: &[String], owner: u32) -> Is {
    let given = Path::new(path);
    let Ok(real) = fs::canonicalize(given) else {
        return Is::Absent;
    };
    let executable = fs::metadata(&real).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if !executable {
        return Is::Absent;
    }
    if is_shim(given) || is_shim(&real) || is_script(&real) {
        return Is::Shim;
    }
    let given_in = given.parent().and_then(|parent| fs::canonicalize(parent).ok());
    // Another user who can write to the directory of a link can make the link name another program.
    let both = [Some(real.clone()), given_in];
    if let Some(insecure) = both.iter().flatten().find_map(|path| insecure_above(path, &[0, owner])) {
        return Is::Insecure(insecure);
    }
    let command: Vec<String> = probe.iter().map(|word| word.replace("{interpreter}", path)).collect();
    let version = match command.split_first() {
        Some((program, arguments)) => program::output(program, arguments).await,
        None => Ok(String::new()),
    };
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    Is::Interpreter {
        real,
        version: version.map(first),
    }
}

/// Version managers keep their programs in a directory named `shims`.
pub(super) fn is_shim(path: &Path) -> bool {
    path.components()
        .any(|part| part == Component::Normal("shims".as_ref()))
}

/// An interpreter is no script; a script starts the interpreter.
fn is_script(path: &Path) -> bool {
    let mut head = [0; 2];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"#!"
}

pub(crate) fn judge(facts: &RuntimeFacts) -> Vec<Finding> {
    // A runtime without candidates starts the file itself.
    if !facts.enabled || facts.candidates.is_empty() {
        return Vec::new();
    }
    let id = &facts.id;
    // Without a number, no version is older.
    let least = facts.min_version.as_deref().unwrap_or_default();
    let mut findings = Vec::new();
    // Nothing is there, and fnd.toml does not say that something is.
    let is_simply_absent = |candidate: &InterpreterCandidate| candidate.is == Is::Absent && !candidate.configured;
    let installable = crate::interpreters::ids().contains(&id.as_str());
    let usable = facts.candidates.iter().find_map(|candidate| match &candidate.is {
        Is::Interpreter { real, version } => Some((candidate, real, version)),
        Is::Absent | Is::Shim | Is::Insecure(_) => None,
    });
    findings.push(match usable {
        Some((_, real, Ok(version))) if is_older(version, least) => {
            let newer = if installable {
                format!("sudo fndctl runtimes install {id}")
            } else {
                format!("install {id} {least} or newer")
            };
            let what = format!("{id}: {version} is older than {least}, which its functions need");
            Finding::warning(CHECK, what).at(real.display().to_string()).fix(newer)
        }
        Some((_, real, Ok(version))) => {
            let version = if version.is_empty() { "there" } else { version };
            Finding::ok(CHECK, format!("{id}: {version}")).at(real.display().to_string())
        }
        Some((candidate, _, Err(why))) => {
            let what = format!("{id}: its interpreter does not report its version: {why}");
            Finding::warning(CHECK, what)
                .at(&candidate.path)
                .fix(format!("reinstall {id}"))
        }
        // A machine need not have every language. A function that needs one that is missing is an error of its own.
        None if !installable && facts.candidates.iter().all(is_simply_absent) => {
            Finding::ok(CHECK, format!("{id}: not installed (sudo apt install {})", package(id)))
        }
        None => {
            let what = format!("{id}: there is no interpreter, so its functions are refused");
            let install = if installable {
                format!("sudo fndctl runtimes install {id}")
            } else {
                let path = facts.candidates.first().map_or("", |candidate| candidate.path.as_str());
                format!("install it as {path}")
            };
            Finding::warning(CHECK, what).fix(format!(
                "{install}, or switch the runtime off in fnd.toml: [runtimes] {id} = {{ enabled = false }}"
            ))
        }
    });
    for candidate in facts.candidates.iter().chain(&facts.on_path) {
        findings.extend(wrong(candidate, id).map(|finding| finding.at(&candidate.path)));
    }
    findings
}

/// Says whether the first number in what an interpreter prints is less than another version. Without a number nothing is known.
fn is_older(printed: &str, least: &str) -> bool {
    let parts = |text: &str| -> Vec<u32> { text.split('.').map_while(|part| part.parse().ok()).collect() };
    // A part that is not written is zero: `3.13` is not older than `3.13.0`.
    let least = least.trim_end_matches(".0");
    let starts = |word: &&str| {
        word.trim_start_matches('v')
            .starts_with(|first: char| first.is_ascii_digit())
    };
    let words = printed.split(|letter: char| letter.is_whitespace() || "(),-+".contains(letter));
    let number = words.map(str::trim).find(starts);
    number.is_some_and(|number| parts(number.trim_start_matches('v')) < parts(least))
}

/// Returns the problem of a candidate, whether it is used or not.
fn wrong(candidate: &InterpreterCandidate, id: &str) -> Option<Finding> {
    match &candidate.is {
        Is::Absent if candidate.configured => {
            let what = format!("{id}: fnd.toml names this interpreter, but it does not exist");
            Some(Finding::warning(CHECK, what).fix("correct it in `[runtimes]` of fnd.toml, or install it"))
        }
        Is::Shim => {
            let what = format!("{id}: this is a version manager's shim or another script, not an interpreter");
            let fix = format!(
                "name the real interpreter in fnd.toml: [runtimes] {id} = {{ interpreters = {{ \"default\" = \"/PATH/TO/IT\" }} }}"
            );
            Some(Finding::warning(CHECK, what).fix(fix))
        }
        Is::Insecure(path) => {
            let shown = path.display();
            let what = format!("{id}: it is not used, since users other than root can change {shown}");
            Some(Finding::warning(CHECK, what).fix(format!("sudo chown root {shown} && sudo chmod go-w {shown}")))
        }
        Is::Absent | Is::Interpreter { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::brief;
    use super::*;

    fn at(path: &str, is: Is) -> InterpreterCandidate {
        InterpreterCandidate {
            path: path.into(),
            configured: false,
            is,
        }
    }

    fn there(version: Result<&str, &str>) -> Is {
        Is::Interpreter {
            real: "/usr/bin/x3.11".into(),
            version: version.map(str::to_owned).map_err(str::to_owned),
        }
    }

    #[test]
    fn interpreters_and_what_follows() {
        let missing = "warning x: there is no interpreter, so its functions are refused";
        let shim = "warning x: this is a version manager's shim or another script, not an interpreter";
        let mut configured = at("/opt/x", Is::Absent);
        configured.configured = true;
        for (candidates, expected) in [
            (vec![], vec![]),
            (vec![at("/usr/bin/x", there(Ok("X 3.11")))], vec!["ok x: X 3.11"]),
            (
                vec![at("/usr/bin/x", Is::Absent), at("/bin/x", there(Ok("X 3")))],
                vec!["ok x: X 3"],
            ),
            (
                vec![at("/usr/bin/x", Is::Absent)],
                vec!["ok x: not installed (sudo apt install x)"],
            ),
            (
                vec![at("/usr/bin/x", there(Err("why")))],
                vec!["warning x: its interpreter does not report its version: why"],
            ),
            (vec![at("/root/.pyenv/shims/x", Is::Shim)], vec![missing, shim]),
            (
                vec![at("/usr/bin/x", Is::Insecure("/usr".into()))],
                vec![
                    missing,
                    "warning x: it is not used, since users other than root can change /usr",
                ],
            ),
            (
                vec![configured, at("/usr/bin/x", there(Ok("X 3")))],
                vec![
                    "ok x: X 3",
                    "warning x: fnd.toml names this interpreter, but it does not exist",
                ],
            ),
        ] {
            let facts = RuntimeFacts {
                id: "x".into(),
                enabled: true,
                min_version: None,
                candidates,
                on_path: vec![],
            };
            assert_eq!(brief(&judge(&facts)), expected);
        }
    }

    #[test]
    fn an_interpreter_that_is_too_old_is_a_warning() {
        let facts = RuntimeFacts {
            id: "x".into(),
            enabled: true,
            min_version: Some("2.9".into()),
            candidates: vec![at("/usr/bin/x", there(Ok("x 1.46.3 (stable)")))],
            on_path: vec![],
        };
        let expected = "warning x: x 1.46.3 (stable) is older than 2.9, which its functions need";
        assert_eq!(brief(&judge(&facts)), [expected]);
        for (printed, older) in [
            ("deno 2.9.0 (stable, release, x86_64-unknown-linux-gnu)", false),
            ("deno 2.10.1", false),
            ("deno 2.8.9", true),
            ("v1.2", true),
            ("go version go1.26.1", false),
            ("", false),
        ] {
            assert_eq!(is_older(printed, "2.9"), older, "{printed}");
        }
        assert!(
            !is_older("x 3.13", "3.13.0") && !is_older("x 3.13.0rc1", "3.13.0.0") && is_older("x 3.12.9", "3.13.0")
        );
    }

    #[test]
    fn a_disabled_runtime_needs_no_interpreter() {
        let mut facts = RuntimeFacts {
            id: "x".into(),
            enabled: false,
            min_version: None,
            candidates: vec![at("/usr/bin/x", Is::Absent)],
            on_path: vec![],
        };
        assert_eq!(judge(&facts), []);
        facts.enabled = true;
        facts.on_path = vec![at("/usr/local/bin/x", Is::Shim)];
        assert_eq!(judge(&facts)[1].place.as_deref(), Some("/usr/local/bin/x"));
    }

    #[tokio::test]
    async fn scripts_and_shims_are_no_interpreters() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("python3");
        fs::write(&script, "#!/bin/sh\nexec python3.11 \"$@\"\n").unwrap();
        let path = script.display().to_string();
        assert_eq!(examine(&path, &[], 0).await, Is::Absent, "it is not executable");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(examine(&path, &[], 0).await, Is::Shim);
        let shims = directory.path().join("shims");
        fs::create_dir(&shims).unwrap();
        std::os::unix::fs::symlink("/bin/sh", shims.join("sh")).unwrap();
        assert_eq!(examine(&shims.join("sh").display().to_string(), &[], 0).await, Is::Shim);
        let probe = ["{interpreter}", "-c", "echo 'version 1'; echo more"].map(str::to_owned);
        let Is::Interpreter { version, .. } = examine("/bin/sh", &probe, 0).await else {
            panic!("/bin/sh is an interpreter");
        };
        assert_eq!(version.as_deref(), Ok("version 1"));
    }
}
