//! Secrets of routes: fnd gets those that root's files name, nobody else sees them, and a reload rotates them.

use fnd_core::records::outcome::RunState;
use fnd_tests::ctl::Run;
use fnd_tests::{Fnd, require};
use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;

/// Values that no other process and no file contains by chance.
const CANARY: &str = "canary-5d1c0f7e-never-to-be-seen";
const ROTATED: &str = "rotated-93ab44d2-never-to-be-seen";
const CODE: &str = "echo served\n";

fn route(auth: &str) -> String {
    format!("on_load = false\n[[http]]\npath = \"/hello\"\nauth = {auth}\n")
}

/// Runs `fndctl secret` for the private root.
pub(super) fn secret(fnd: &Fnd, arguments: &[&str], input: &str) -> Run {
    let config = fnd.path("fnd.toml").display().to_string();
    let all = [&["secret", "--config", &config], arguments].concat();
    fnd.ctl_with(&all, input.as_bytes())
}

/// A page without content.
const EMPTY: [u8; 4096] = [0; 4096];

/// Returns how often a text is in the writable memory of a process.
pub(super) fn in_memory(pid: u32, text: &str) -> usize {
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let ranges = maps.lines().filter(|line| line.contains(" rw")).filter_map(|line| {
        let (begin, end) = line.split_whitespace().next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some((number(begin)?, number(end)?))
    });
    let found = ranges.map(|(begin, end)| {
        let mut bytes = vec![0; usize::try_from(end - begin).unwrap()];
        // Ranges that were unmapped meanwhile, or that the kernel does not let anybody read.
        let read = memory.read_at(&mut bytes, begin).unwrap_or(0);
        // Most pages are empty; a comparison of whole pages is fast in a debug build, too.
        let pages: Vec<&[u8]> = bytes[..read].chunks(EMPTY.len()).collect();
        let used = pages.split(|page| **page == EMPTY);
        used.map(|run| count(&run.concat(), text)).sum::<usize>()
    });
    found.sum()
}

fn count(bytes: &[u8], text: &str) -> usize {
    bytes
        .windows(text.len())
        .filter(|window| *window == text.as_bytes())
        .count()
}

/// Returns the files below a directory that contain a text.
pub(super) fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(files_with(&path, text));
        } else if kind.is_file() && fs::read(&path).is_ok_and(|bytes| count(&bytes, text) > 0) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Returns the processes with a text in their arguments or environment.
pub(super) fn processes_with(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        for name in ["cmdline", "environ"] {
            let path = entry.path().join(name);
            if fs::read(&path).is_ok_and(|bytes| count(&bytes, text) > 0) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

pub(super) fn child_of(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

/// Each of these has secrets of its own.
#[test]
fn values_of_secrets() {
    require!(root);
    let fnd = Fnd::start();
    fnd_has_the_secret_and_nobody_else_has(&fnd);
    a_value_is_not_replaced_by_accident_and_passwords_are_stored_as_hashes(&fnd);
    fnd.finish();
}

fn fnd_has_the_secret_and_nobody_else_has(fnd: &Fnd) {
    require!(cgroup);
    let _ = secret(fnd, &["set", "hook"], CANARY).expect_code(0);
    let file = fnd.path("secrets/hook");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o400);
    fnd.drop_file("hello.toml", &route("\"token:hook\""));
    fnd.drop_file("hello.sh", CODE);
    let spy = format!(
        "# /// fnd\n# on_load = false\n# ///\ncat {0} {1}/* 2>&1\ncat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'\nls -l /proc/self/fd\n",
        file.display(),
        fnd.path("secrets").display()
    );
    fnd.drop_file("spy.sh", &spy);
    let _ = fnd.wait_ready("hello");
    let _ = fnd.wait_ready("spy");
    // The reload ends when the secrets are read.
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    assert!(in_memory(fnd.pid(), CANARY) > 0, "the search finds what is there");
    assert_eq!(
        in_memory(child_of(fnd.pid()), CANARY),
        0,
        "the spawner has it in its memory"
    );

    let seen = fnd.invoke("spy", "null").text();
    assert!(seen.contains("Permission denied") && !seen.contains(CANARY), "{seen}");
    assert_eq!(fnd.invoke("hello", "null").text().trim(), "served");
    for path in [
        "/v1/functions/hello",
        "/v1/functions",
        "/v1/config",
        "/v1/status",
        "/metrics",
    ] {
        assert!(!fnd.client().get(path).text().contains(CANARY), "{path}");
    }
    for arguments in [&["list"][..], &["list", "-o", "json"], &["list", "-o", "wide"]] {
        let run = secret(fnd, arguments, "").expect_code(0);
        assert!(
            run.out().contains("hook") && run.out().contains("hello") && !run.out().contains(CANARY),
            "{run}"
        );
    }
    assert!(!fnd.log().contains(CANARY));
    assert_eq!(processes_with(CANARY), Vec::<String>::new());
    for directory in ["state", "run", "log", "functions"] {
        assert_eq!(files_with(&fnd.path(directory), CANARY), Vec::<String>::new());
    }

    // A rotation: fnd reads both values. Its own copies of a value that is gone are overwritten; what a hash leaves on
    // the stack may stay.
    let rotated = secret(fnd, &["set", "hook", "--rotate"], ROTATED).expect_code(0);
    assert!(rotated.out().contains("used by hello"), "{rotated}");
    assert!(in_memory(fnd.pid(), ROTATED) > 0);
    assert_eq!(in_memory(child_of(fnd.pid()), ROTATED), 0);
    let _ = secret(fnd, &["set", "hook", "--force"], ROTATED).expect_code(0);
    fnd.remove("hello.toml");
    fnd.remove("hello.sh");
    fnd.wait_gone("hello");
    let _ = fnd.ctl(&["reload"]).expect_code(0);
}

#[test]
fn a_function_whose_secret_is_missing_is_refused_until_it_is_there() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    fnd.drop_file("hello.toml", &route("[\"token:none\", \"github:hook\"]"));
    fnd.drop_file("hello.sh", CODE);
    let refused = fnd.wait_error("hello");
    let error = refused.error.unwrap_or_default();
    assert!(
        error.contains("secrets/hook") && error.contains("there is no such secret"),
        "{error}"
    );
    let list = secret(&fnd, &["list"], "").expect_code(0);
    assert_eq!(
        list.out().lines().count(),
        1,
        "a refused function names nothing: {list}"
    );

    for name in ["hook", "none"] {
        let made = secret(&fnd, &["new", name], "").expect_code(0);
        let value = made.out().lines().next().unwrap().to_owned();
        assert_eq!(fs::read_to_string(fnd.path("secrets").join(name)).unwrap(), value);
    }
    let _ = fnd.wait_ready("hello");
    assert_eq!(fnd.invoke("hello", "null").text().trim(), "served");

    // Without it the next reload refuses the files; what serves goes on, but the secret admits nobody.
    let removed = secret(&fnd, &["rm", "hook"], "").expect_code(0);
    assert!(removed.out().contains("it is missing now for"), "{removed}");
    let problem = fnd.wait_problem("secrets/hook");
    assert!(problem.contains("the secret `hook` is not read"), "{problem}");
    assert_eq!(fnd.invoke("hello", "null").text().trim(), "served");
    let list = secret(&fnd, &["list"], "").expect_code(0);
    assert!(list.out().contains("missing"), "{list}");
    assert_eq!(fnd.run("hello", "null").1.state, RunState::Succeeded);
    fnd.finish();
}

fn a_value_is_not_replaced_by_accident_and_passwords_are_stored_as_hashes(fnd: &Fnd) {
    let first = secret(fnd, &["new", "page", "--for", "github"], "").expect_code(0);
    assert!(
        first.out().contains("Settings > Webhooks") && first.out().contains("auth = \"github:page\""),
        "{first}"
    );
    let again = secret(fnd, &["new", "page"], "").expect_code(2);
    assert!(again.stderr.contains("--rotate"), "{again}");
    let value = first.out().lines().next().unwrap().to_owned();
    let rotated = secret(fnd, &["new", "page", "--rotate", "-q"], "").expect_code(0);
    let text = fs::read_to_string(fnd.path("secrets/page")).unwrap();
    assert_eq!(text, format!("{}{value}\n", rotated.out()));
    let _ = secret(fnd, &["new", "page", "--for", "stripe", "--force"], "").expect_code(2);
    let _ = secret(fnd, &["new", "../page"], "").expect_code(2);
    let _ = secret(fnd, &["set", "page", "--force"], "\n").expect_code(2);
    let _ = secret(fnd, &["rm", "other"], "").expect_code(3);

    let ada = secret(fnd, &["new", "staff", "--basic", "ada", "-o", "json"], "").expect_code(0);
    let password = ada.json()["value"].as_str().unwrap().to_owned();
    let text = fs::read_to_string(fnd.path("secrets/staff")).unwrap();
    assert!(
        text.starts_with("ada:$argon2id$v=19$m=19456,t=2,p=1$") && !text.contains(&password),
        "{text}"
    );
    let bob = secret(
        fnd,
        &["new", "staff", "--basic", "bob", "--password-file", "-"],
        "secret\n",
    )
    .expect_code(0);
    assert!(!bob.out().contains("secret\n"), "{bob}");
    assert_eq!(
        fs::read_to_string(fnd.path("secrets/staff")).unwrap().lines().count(),
        2
    );
}
