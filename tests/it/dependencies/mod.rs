//! Dependencies of functions are installed by real `pip`, `npm` and their like from an index of the test.
//!
//! Files:
//! - `check`: the syntax of scripts, services and programs that serve HTTP
//! - `compiled`: functions in Go, and their modules
//! - `deno`: imports of functions in Deno
//! - `failures`: what happens if the index or an installation fails
//! - `locks`: lock files and hashes, and uv
//! - `room`: a full disk
//! - `settings`: how many installations run at once, their network, packages of the machine

mod check;
mod compiled;
mod deno;
mod failures;
mod locks;
mod room;
mod settings;

use super::secrets::secret;
use fnd_tests::fnd::Setup;
use fnd_tests::programs::repository;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// An index of packages, which ends with the test.
struct Index {
    directory: tempfile::TempDir,
    program: Child,
    port: u16,
    /// The SHA-256 of the only Python package.
    digest: String,
    /// The `integrity` of the package of npm.
    integrity: String,
    /// The SHA-1 of the package of PHP.
    php_digest: String,
}

impl Index {
    fn start() -> Self {
        Self::with(&[])
    }

    /// `gems` among the parts: it has a gem, too.
    fn with(parts: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("mode"), "ok").unwrap();
        let mut program = Command::new("/usr/bin/python3")
            .arg("-I")
            .arg(repository().join("tests/it/dependencies/index.py"))
            .arg(directory.path())
            .args(parts)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let mut line = || lines.next().unwrap().unwrap();
        Self {
            port: line().parse().unwrap(),
            digest: line(),
            integrity: line(),
            php_digest: line(),
            directory,
            program,
        }
    }

    fn mode(&self, mode: &str) {
        let fresh = self.directory.path().join("new-mode");
        fs::write(&fresh, mode).unwrap();
        fs::rename(fresh, self.directory.path().join("mode")).unwrap();
    }

    /// Waits until somebody asks for something.
    fn wait_request(&self) {
        let log = self.directory.path().join("requests");
        wait_until("a request", PATIENCE, || log.exists().then_some(()));
    }

    /// Returns an fnd that installs packages from this index, with more keys of `[build]` and `[build] env`.
    fn setup(&self, keys: &str, env: &str) -> Setup {
        let at = format!("http://127.0.0.1:{}", self.port);
        Setup::default().config(&format!(
            "[build]\n{keys}\n[build.env]\nPIP_INDEX_URL = \"{at}/simple\"\nPIP_RETRIES = \"1\"\n\
             GEM_SOURCE = \"{at}/gem\"\nCOMPOSER_REPOSITORY = \"{at}/php\"\nGOPROXY = \"{at}/go\"\nGOSUMDB = \"off\"\nnpm_config_registry = \"{at}/\"\nNPM_CONFIG_REGISTRY = \"{at}/\"\nJSR_URL = \"{at}/jsr/\"\nnpm_config_fetch_retries = \"0\"\n{env}\n"
        ))
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // It has not ended: nothing but this ends it.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

const PYTHON: &str = "import fndpad\n\ndef handler(event, context):\n    return 'one ' + fndpad.pad(event['data'])\n";

fn with_list(code: &str) -> String {
    format!("# /// fnd\n# dependencies = [\"fndpad\"]\n# ///\n{code}")
}

fn answers(fnd: &Fnd, function: &str, expected: &str) {
    wait_until(expected, PATIENCE, || {
        fnd.invoke(function, "\"Ada\"").text().contains(expected).then_some(())
    });
}

/// Waits until a function has an error with these words.
fn error_with(fnd: &Fnd, function: &str, words: &str) -> String {
    wait_until(words, PATIENCE, || {
        let error = fnd.function(function)?.error?;
        error.to_lowercase().contains(&words.to_lowercase()).then_some(error)
    })
}

/// Returns how many installations there were.
fn builds(fnd: &Fnd) -> usize {
    fnd.history("fnd-build").len()
}

fn trees(fnd: &Fnd) -> Vec<PathBuf> {
    let found = fs::read_dir(fnd.path("state/deps")).unwrap();
    found.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn an_index_is_named_by_a_secret_that_only_functions_of_root_get() {
    require!(root, cgroup);
    let index = Index::start();
    let at = format!("127.0.0.1:{}", index.port);
    let fnd = Fnd::start_with(&Setup::default().config(
        "[build]\nsecrets = [\"npmrc\", \"pip.conf\"]\n[build.env]\nnpm_config_fetch_retries = \"0\"\nPIP_RETRIES = \"0\"\n",
    ));
    let npmrc = format!("registry=http://{at}/\n//{at}/:_authToken=never-to-be-seen\n");
    let _ = secret(&fnd, &["set", "npmrc"], &npmrc).expect_code(0);
    fnd.drop_file("pads.py", &with_list(PYTHON));
    wait_until("the error", PATIENCE, || {
        let error = fnd.function("pads")?.error?;
        error
            .contains("secrets/pip.conf: there is no such secret")
            .then_some(())
    });
    let pip = format!("[global]\nindex-url = http://{at}/simple\n");
    let _ = secret(&fnd, &["set", "pip.conf"], &pip).expect_code(0);
    answers(&fnd, "pads", "one .....Ada");
    fnd.drop_file("web/package.json", r#"{"dependencies": {"fndpad": "^1.0.0"}}"#);
    let code = "const pad = require('fndpad');\nmodule.exports.handler = (event) => 'one ' + pad(event.data);\n";
    fnd.drop_file("web/main.cjs", code);
    fnd.drop_file("web/function.toml", "");
    answers(&fnd, "web", "one .....Ada");
    let logs = fnd.ctl(&["logs", "fnd-build"]).out();
    assert!(!logs.contains("never-to-be-seen"), "{logs}");
    fnd.finish();
}

#[test]
fn a_secret_of_installations_that_is_missing_matters_only_if_packages_are_to_be_installed() {
    require!(root, cgroup);
    let index = Index::start();
    let fnd = Fnd::start_with(&Setup::default().config("[build]\nsecrets = [\"pip.conf\"]\n"));
    let pip = format!("[global]\nindex-url = http://127.0.0.1:{}/simple\n", index.port);
    let _ = secret(&fnd, &["set", "pip.conf"], &pip).expect_code(0);
    fnd.drop_file("pads.py", &with_list(PYTHON));
    answers(&fnd, "pads", "one .....Ada");
    fs::remove_file(fnd.path("secrets/pip.conf")).unwrap();
    fnd.drop_file("pads.py", &with_list(PYTHON).replace("one", "two"));
    answers(&fnd, "pads", "two .....Ada");
    fnd.drop_file("pads.py", &with_list(PYTHON).replace("fndpad\"", "fndpad>=1\""));
    let _ = error_with(&fnd, "pads", "secrets/pip.conf: there is no such secret");
    assert_eq!(fnd.invoke("pads", "\"Ada\"").text(), "two .....Ada");
    fnd.finish();
}

/// The count of installations comes first.
#[test]
fn packages_of_two_languages() {
    require!(root, cgroup);
    let index = Index::start();
    let fnd = Fnd::start_with(&index.setup("", ""));
    functions_in_python_with_the_same_packages_share_one_installation(&fnd, &index);
    functions_in_php_get_packages_by_a_list_or_a_composer_json(&fnd, &index);
    fnd.finish();
}

fn functions_in_python_with_the_same_packages_share_one_installation(fnd: &Fnd, index: &Index) {
    // Metadata of the script (PEP 723), as `uv run` and `pipx run` read it.
    let metadata = format!("# /// script\n# dependencies = [\"fndpad\"]\n# ///\n{PYTHON}");
    fnd.drop_file("script.py", &metadata);
    answers(fnd, "script", "one .....Ada");
    fnd.drop_file("list.py", &with_list(PYTHON));
    answers(fnd, "list", "one .....Ada");
    fnd.drop_file("list.py", &with_list(PYTHON).replace("one", "two"));
    answers(fnd, "list", "two .....Ada");
    assert_eq!(
        (builds(fnd), trees(fnd).len()),
        (1, 1),
        "the same packages, and an edit of the code"
    );
    // A list with hashes.
    fnd.drop_file(
        "locked/requirements.txt",
        &format!("fndpad==1.0 --hash=sha256:{}\n", index.digest),
    );
    fnd.drop_file("locked/main.py", PYTHON);
    fnd.drop_file("locked/function.toml", "");
    answers(fnd, "locked", "one .....Ada");
    assert_eq!((builds(fnd), trees(fnd).len()), (2, 2));
    let shown = fnd.ctl(&["show", "list"]).expect_code(0).out();
    assert!(shown.contains("fndpad 1.0 ("), "{shown}");
    let wide = fnd.ctl(&["status", "-o", "wide"]).expect_code(0).out();
    assert!(wide.contains("packages ") && !wide.contains("packages 0"), "{wide}");
    let listed = fnd.ctl(&["list", "-q"]).expect_code(0).out();
    assert_eq!(listed.lines().count(), 3, "fnd's own function is not listed: {listed}");
    let logs = fnd.ctl(&["logs", "fnd-build"]).expect_code(0).out();
    assert!(logs.contains("installed fndpad 1.0"), "{logs}");
    // The log of its own installation, also of one that another function shares.
    let of = |arguments: &[&str]| fnd.ctl(arguments).expect_code(0).out();
    let locked = of(&["logs", "locked", "--build"]);
    assert!(locked.contains("installed fndpad 1.0"), "{locked}");
    let releases = of(&["releases", "list", "-q"]);
    let first = releases.lines().last().unwrap();
    let logs = of(&["logs", "list", "--build", first]);
    assert!(logs.contains("installed fndpad 1.0") && logs != locked, "{logs}");
    let several = fnd.ctl(&["logs", "list", "--build="]).expect_code(3);
    assert!(several.stderr.contains("several releases of `list`"), "{several}");
    let nothing = fnd.ctl(&["logs", "list", "--build", "ffffffff"]).expect_code(3);
    assert!(nothing.to_string().contains("has no release `ffffffff`"), "{nothing}");
}

#[test]
fn scripts_of_packages_in_node_run_without_rights() {
    require!(root, cgroup);
    let index = Index::start();
    let outside = tempfile::tempdir().unwrap();
    let mark = 1_000_000 + u32::from(index.port);
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let fnd = Fnd::start_with(&index.setup(
        "",
        &format!("OUTSIDE = \"{}\"\nMARK = \"{mark}\"", outside.path().display()),
    ));
    let package =
        r#"{"dependencies": {"fndpad": "^1.0.0", "fndhostile": "1.0.0"}, "allowScripts": {"fndhostile": true}}"#;
    fnd.drop_file("web/package.json", package);
    let code = "const pad = require('fndpad');\nmodule.exports.handler = (event) => 'one ' + pad(event.data);\n";
    fnd.drop_file("web/main.cjs", code);
    fnd.drop_file("web/function.toml", "");
    answers(&fnd, "web", "one .....Ada");
    let [tree] = trees(&fnd).try_into().unwrap();
    let made = tree.join("node_modules/fndhostile/made");
    let meta = fs::metadata(&made).unwrap();
    assert_eq!(
        (meta.uid(), meta.mode() & 0o7777),
        (0, 0o644),
        "nobody but root changes it"
    );
    assert_eq!(
        fs::read_dir(outside.path()).unwrap().count(),
        0,
        "it is hidden from the script"
    );
    let survivor = fs::read_dir("/proc").unwrap().flatten().find(|entry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        command == format!("/bin/sleep\0{mark}\0").as_bytes()
    });
    assert!(
        survivor.is_none(),
        "what a script starts ends with the installation: {survivor:?}"
    );
    // The list form.
    let listed = code.replace("one", "two");
    let listed = format!("// /// fnd\n// dependencies = [\"fndpad@1\"]\n// ///\n{listed}");
    fnd.drop_file("list.cjs", &listed);
    answers(&fnd, "list", "two .....Ada");
    fnd.finish();
}

#[test]
fn functions_in_ruby_get_gems_by_a_list_or_a_gemfile() {
    require!(root, cgroup, ruby, bundler);
    let index = Index::with(&["gems"]);
    let fnd = Fnd::start_with(&index.setup("", ""));
    let code = "require 'fndpad'\ndef handler(event, context)\n  'one ' + Fndpad.pad(event['data'])\nend\n";
    let list = format!("# /// fnd\n# dependencies = [\"fndpad >= 1\"]\n# ///\n{code}");
    fnd.drop_file("list.rb", &list);
    answers(&fnd, "list", "one .....Ada");
    let gemfile = format!("source 'http://127.0.0.1:{}/gem'\ngem 'fndpad', '~> 1.0'\n", index.port);
    fnd.drop_file("project/Gemfile", &gemfile);
    fnd.drop_file("project/main.rb", &code.replace("one", "two"));
    fnd.drop_file("project/function.toml", "");
    answers(&fnd, "project", "two .....Ada");
    for function in ["list", "project"] {
        let shown = fnd.ctl(&["show", function]).expect_code(0).out();
        assert!(shown.contains("fndpad 1.0.0"), "{shown}");
    }
    fnd.finish();
}

fn functions_in_php_get_packages_by_a_list_or_a_composer_json(fnd: &Fnd, index: &Index) {
    require!(php, composer);
    let code = "function handler($event, $context) {\n    return 'one ' . fndpad($event->data);\n}\n";
    let list = format!("<?php\n// /// fnd\n// dependencies = [\"fnd/pad ^1\"]\n// ///\n{code}");
    fnd.drop_file("packs.php", &list);
    answers(fnd, "packs", "one .....Ada");
    let repository = format!(
        r#"{{"type": "composer", "url": "http://127.0.0.1:{}/php"}}"#,
        index.port
    );
    let composer = format!(
        r#"{{"require": {{"fnd/pad": "*"}}, "repositories": [{repository}, {{"packagist.org": false}}], "config": {{"secure-http": false}}}}"#
    );
    fnd.drop_file("composed/composer.json", &composer);
    // As projects do it; the file is found by PHP's include_path.
    let project = format!("<?php\nrequire 'vendor/autoload.php';\n{}", code.replace("one", "two"));
    fnd.drop_file("composed/main.php", &project);
    fnd.drop_file("composed/function.toml", "");
    answers(fnd, "composed", "two .....Ada");
    let script =
        "<?php\n// /// fnd\n// on_load = false\n// dependencies = [\"fnd/pad ^1\"]\n// ///\necho fndpad('script');\n";
    fnd.drop_file("prints.php", script);
    wait_until("the script", PATIENCE, || {
        fnd.invoke("prints", "").text().contains("..script").then_some(())
    });
    let shown = fnd.ctl(&["show", "composed"]).expect_code(0).out();
    assert!(shown.contains("fnd/pad 1.0.0"), "{shown}");
}
