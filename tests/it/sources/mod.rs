//! Functions whose code comes from a repository or from a web server (`[source]`), with real `git` and `curl`.
//!
//! Files:
//! - `changes`: repositories whose changes are awkward, or refused
//! - `lone_manifest`: `NAME.toml` without code beside it
//! - `push`: the server of a repository tells of a push
//! - `ssh`: a repository behind a real ssh server

mod changes;
mod lone_manifest;
mod push;
mod ssh;

use super::secrets::secret;
use fnd_core::outcome::State;
use fnd_tests::fnd::Setup;
use fnd_tests::programs::repository;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A repository with one branch, whose functions lie in `functions`.
struct Repository {
    directory: tempfile::TempDir,
}

impl Repository {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Functions have users of their own.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let repository = Self { directory };
        repository.git(&["init", "-q", "-b", "main"]);
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
            .args(arguments)
            .current_dir(self.directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Makes a commit, and returns its hash.
    fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "change"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn path(&self) -> &str {
        self.directory.path().to_str().unwrap()
    }
}

fn says(what: &str) -> String {
    format!("def handler(event, context):\n    return '{what}'\n")
}

fn answers(fnd: &Fnd, function: &str, expected: &str) {
    wait_until(expected, PATIENCE, || {
        fnd.invoke(function, "").text().contains(expected).then_some(())
    });
}

/// Waits until the newest content of a function cannot serve; returns why.
fn error_with(fnd: &Fnd, function: &str, part: &str) -> String {
    wait_until(part, PATIENCE, || {
        fnd.function(function)?.error.filter(|error| error.contains(part))
    })
}

#[test]
fn a_function_comes_from_a_repository_and_follows_its_branch() {
    require!(root, cgroup);
    let repository = Repository::new();
    repository.write("functions/shop/main.py", &says("one"));
    repository.write("functions/other/main.py", "not this one(\n");
    let first = repository.commit();
    let fnd = Fnd::start();
    let manifest = |more: &str| {
        let path = repository.path();
        format!("[source]\ngit = \"{path}\"\nref = \"main\"\ndir = \"functions/shop\"\n{more}")
    };
    fnd.drop_file("shop/function.toml", &manifest(""));
    answers(&fnd, "shop", "one");
    let releases = fnd.ctl(&["releases", "shop", "-o", "json"]).out();
    assert!(releases.contains(&format!("commit {first}")), "{releases}");

    // A new commit serves when a person asks for it.
    repository.write("functions/shop/main.py", &says("two"));
    repository.commit();
    let _ = fnd.ctl(&["build", "shop"]).expect_code(0);
    answers(&fnd, "shop", "two");
    // The same commit again is no new release.
    let _ = fnd.ctl(&["build", "shop"]).expect_code(0);
    let count = |fnd: &Fnd| fnd.ctl(&["releases", "shop", "-q"]).out().lines().count();
    assert_eq!(count(&fnd), 2);
    // A rollback needs no repository, and holds.
    let _ = fnd.ctl(&["rollback", "shop"]).expect_code(0);
    answers(&fnd, "shop", "one");

    // And by itself, with `every`; that is an edit, which ends the rollback.
    fnd.drop_file("shop/function.toml", &manifest("every = \"1s\"\n"));
    answers(&fnd, "shop", "two");
    repository.write("functions/shop/main.py", &says("three"));
    repository.commit();
    answers(&fnd, "shop", "three");
    fnd.finish();
}

#[test]
fn what_cannot_be_fetched_says_why_and_the_version_before_serves_also_after_a_restart() {
    require!(root, cgroup);
    let repository = Repository::new();
    repository.write("main.py", &says("good"));
    repository.commit();
    let mut fnd = Fnd::start();
    let drop = |fnd: &Fnd, more: &str| {
        let path = repository.path();
        fnd.drop_file("shop/function.toml", &format!("[source]\ngit = \"{path}\"\n{more}"));
    };
    drop(&fnd, "");
    answers(&fnd, "shop", "good");
    for (more, why) in [
        ("ref = \"gone\"\n", "no branch, tag or commit `gone`"),
        ("dir = \"gone\"\n", "has no directory `gone`"),
        ("dir = \"main.py\"\n", "`main.py` is no directory"),
    ] {
        drop(&fnd, more);
        let error = error_with(&fnd, "shop", why);
        assert!(error.contains("fetching its code from /"), "{error}");
        assert_eq!(fnd.invoke("shop", "").text(), "good");
    }
    // Content that no function may have.
    std::os::unix::fs::symlink("/etc/passwd", Path::new(repository.path()).join("link")).unwrap();
    repository.commit();
    drop(&fnd, "");
    let _ = fnd.ctl(&["build", "shop"]);
    let error = error_with(&fnd, "shop", "link");
    assert!(!error.contains("root:"), "{error}");
    fs::remove_file(Path::new(repository.path()).join("link")).unwrap();
    repository.write("main.py", "def handler(\n");
    repository.commit();
    let _ = fnd.ctl(&["build", "shop"]);
    let _ = error_with(&fnd, "shop", "main.py");
    // The repository is gone.
    fs::rename(
        repository.directory.path().join(".git"),
        repository.directory.path().join("git"),
    )
    .unwrap();
    let _ = fnd.ctl(&["build", "shop"]);
    let _ = error_with(&fnd, "shop", "fetching its code");
    assert_eq!(fnd.invoke("shop", "").text(), "good");
    let show = fnd.ctl(&["show", "shop"]).out();
    assert!(show.contains("fndctl logs shop --build"), "{show}");
    // After a restart, what was fetched last is tried again.
    fnd.stop();
    fnd.launch();
    let _ = error_with(&fnd, "shop", "main.py");
    answers(&fnd, "shop", "good");
    fnd.remove("shop/function.toml");
    fnd.finish();
}

#[test]
fn a_repository_that_is_away_is_one_problem_until_it_is_back() {
    require!(root, cgroup);
    let repository = Repository::new();
    repository.write("main.py", &says("good"));
    repository.commit();
    let fnd = Fnd::start();
    let path = repository.path();
    fnd.drop_file(
        "shop/function.toml",
        &format!("[source]\ngit = \"{path}\"\nevery = \"1s\"\n"),
    );
    answers(&fnd, "shop", "good");
    let (here, away) = (
        repository.directory.path().join(".git"),
        repository.directory.path().join("git"),
    );
    fs::rename(&here, &away).unwrap();
    let _ = error_with(&fnd, "shop", "fetching its code");
    let failed = || {
        fnd.history("fnd-build")
            .iter()
            .filter(|build| build.state == State::Failed)
            .count()
    };
    let before = failed();
    wait_until("more attempts", PATIENCE, || {
        let shown = fnd.function("shop").unwrap();
        assert!(shown.error.is_some(), "the problem is not over: {shown:?}");
        (failed() >= before + 3).then_some(())
    });
    let reports = fnd.log().matches("shop  was refused").count();
    assert_eq!(reports, 1, "{}", fnd.log());
    // It comes back with a commit more.
    let sources = ["--git-dir", away.to_str().unwrap(), "--work-tree", repository.path()];
    repository.write("main.py", &says("back"));
    for arguments in [&["add", "main.py"][..], &["commit", "-q", "-m", "while away"]] {
        repository.git(&[&sources, arguments].concat());
    }
    fs::rename(&away, &here).unwrap();
    wait_until("the end of the problem", PATIENCE, || {
        fnd.function("shop").unwrap().error.is_none().then_some(())
    });
    answers(&fnd, "shop", "back");
    fnd.finish();
}

/// A web server, which ends with the test.
struct Server {
    directory: tempfile::TempDir,
    program: Child,
    at: String,
}

impl Server {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"];
        let mut program = Command::new("/usr/bin/python3");
        let (program, line) = started(program.args(arguments).arg(directory.path()));
        let at = line.split(['(', ')']).nth(1).unwrap().trim_end_matches('/').to_owned();
        Self { directory, program, at }
    }

    /// Serves a directory by HTTPS to one user, `USER:PASSWORD`.
    fn private(served: &Path, user: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let certificate = directory.path().join("both.pem");
        let path = certificate.to_str().unwrap();
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
            ])
            .args(["-keyout", path, "-out", &format!("{path}.crt")])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let mut both = fs::read(&certificate).unwrap();
        both.extend(fs::read(directory.path().join("both.pem.crt")).unwrap());
        fs::write(&certificate, both).unwrap();
        let script = repository().join("tests/it/sources/server.py");
        let mut program = Command::new("/usr/bin/python3");
        let program = program.arg(script).arg(served).arg(&certificate).arg(user);
        let (program, port) = started(program);
        let at = format!("https://127.0.0.1:{}", port.trim());
        Self { directory, program, at }
    }

    /// Serves a file; returns its SHA-256.
    fn serve(&self, name: &str, content: &[u8]) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, content).unwrap();
        let output = Command::new("sha256sum").arg(path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()[..64].to_owned()
    }
}

/// Starts a server; returns it and the first line that it prints.
fn started(command: &mut Command) -> (Child, String) {
    let mut program = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    (program, line)
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has not ended: nothing but this ends it.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn a_function_comes_from_a_web_server_as_a_file_or_an_archive() {
    require!(root, cgroup);
    let server = Server::start();
    let fnd = Fnd::start();
    let drop = |function: &str, name: &str, sum: &str| {
        let at = &server.at;
        let toml = format!("[source]\nurl = \"{at}/{name}\"\nsha256 = \"{sum}\"\n");
        fnd.drop_file(&format!("{function}/function.toml"), &toml);
    };
    let sum = server.serve("greeting.py", says("a file").as_bytes());
    drop("file", "greeting.py", &sum);
    answers(&fnd, "file", "a file");

    // As web pages of repositories pack them: with one directory at the top.
    let packed = server.directory.path().join("shop-1.0");
    fs::create_dir_all(packed.join("lib")).unwrap();
    fs::write(
        packed.join("main.py"),
        "from lib import words\n\ndef handler(event, context):\n    return words.TEXT\n",
    )
    .unwrap();
    fs::write(packed.join("lib/words.py"), "TEXT = 'an archive'\n").unwrap();
    fs::write(packed.join("function.toml"), "enabled = false\n").unwrap();
    let tar = ["-czf", "shop.tar.gz", "shop-1.0"];
    let status = Command::new("tar")
        .args(tar)
        .current_dir(server.directory.path())
        .status();
    assert!(status.unwrap().success());
    let archive = fs::read(server.directory.path().join("shop.tar.gz")).unwrap();
    let sum = server.serve("shop.tar.gz", &archive);
    drop("archive", "shop.tar.gz", &sum);
    answers(&fnd, "archive", "an archive");

    // The file has changed on the server: it is not used.
    server.serve("greeting.py", says("another").as_bytes());
    let _ = fnd.ctl(&["build", "file"]);
    let error = error_with(&fnd, "file", "the manifest says");
    assert!(error.contains("the SHA-256 of the file is"), "{error}");
    assert_eq!(fnd.invoke("file", "").text(), "a file");
    drop("file", "missing.py", &sum);
    let _ = error_with(&fnd, "file", "404");
    assert_eq!(fnd.invoke("file", "").text(), "a file");
    fnd.finish();
}

#[test]
fn a_private_repository_is_opened_with_a_secret_that_nobody_sees() {
    require!(root, cgroup);
    let repository = Repository::new();
    repository.write("main.py", &says("private"));
    repository.commit();
    repository.git(&["update-server-info"]);
    let server = Server::private(Path::new(repository.path()), "ada:never-to-be-seen-1815");
    // The certificate is one that nobody signed.
    let setup = Setup::default().config("[build.env]\nGIT_SSL_NO_VERIFY = \"1\"\n");
    let fnd = Fnd::start_with(&setup);
    let at = &server.at;
    let manifest = format!("[source]\ngit = \"{at}/.git\"\n");
    fnd.drop_file("shop/function.toml", &manifest);
    let error = error_with(&fnd, "shop", "fetching its code");
    assert!(
        error.contains("(failed): the repository does not let fnd in"),
        "{error}"
    );
    let keyed = format!("{manifest}key = \"deploy\"\n");
    fnd.drop_file("shop/function.toml", &keyed);
    let _ = error_with(&fnd, "shop", "deploy");
    let _ = secret(&fnd, &["set", "deploy"], "ada:never-to-be-seen-1815").expect_code(0);
    answers(&fnd, "shop", "private");
    for arguments in [
        &["logs", "fnd-build"][..],
        &["history", "fnd-build", "-o", "json"],
        &["show", "shop"],
    ] {
        let shown = fnd.ctl(arguments);
        assert!(!shown.out().contains("never-to-be-seen"), "{shown}");
    }
    fnd.finish();
}

#[test]
fn a_manifest_with_a_source_says_its_mistakes_where_they_are() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    fnd.drop_file("one/function.toml", "[source]\nurl = \"http://example.com/x.zip\"\n");
    let error = error_with(&fnd, "one", "sha256");
    assert!(error.contains("one/function.toml:2:7"), "{error}");
    fnd.drop_file("two/function.toml", "[source]\ngit = \"ext::sh -c id\"\n");
    let _ = error_with(&fnd, "two", "no address of a repository");
    fnd.drop_file("three/main.py", "print(1)\n");
    fnd.drop_file("three/function.toml", "[source]\ngit = \"https://example.com/x\"\n");
    let _ = error_with(&fnd, "three", "the directory has a file of its own: `main.py`");
    fnd.drop_file("four.py", "print(1)\n");
    fnd.drop_file("four.toml", "[source]\ngit = \"https://example.com/x\"\n");
    let _ = error_with(&fnd, "four", "only for a manifest without code beside it");
    fnd.finish();
}
