//! Code from web servers: files, archives, private repositories.

use super::{Repository, answers, error_with, says};
use crate::secrets::secret;
use fnd_tests::fnd::Setup;
use fnd_tests::programs::repository;
use fnd_tests::{Fnd, require};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A web server, which ends with the test.
pub(super) struct Server {
    directory: tempfile::TempDir,
    program: Child,
    pub(super) at: String,
}

impl Server {
    pub(super) fn start() -> Self {
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

    /// Returns the path of a file that it serves.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Serves a file; returns its SHA-256.
    pub(super) fn serve(&self, name: &str, content: &[u8]) -> String {
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
