//! Lock files and hashes: what they name is installed, and what does not fit them is refused with the tool's reason.

use super::*;
use fnd_tests::programs;

/// Returns uv in a directory that the sandbox of installations shows.
fn uv_for_builds() -> (tempfile::TempDir, String) {
    let directory = tempfile::Builder::new()
        .prefix("fnd-test-uv-")
        .tempdir_in("/var/cache")
        .unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (uv, there) = (programs::uv().unwrap(), directory.path().join("uv"));
    if fs::hard_link(&uv, &there).is_err() {
        fs::copy(&uv, &there).unwrap();
    }
    let path = there.display().to_string();
    (directory, path)
}

/// Makes a function of a directory.
fn drop_directory(fnd: &Fnd, function: &str, files: &[(&str, &str)]) {
    for (path, text) in files.iter().chain(&[("function.toml", "")]) {
        fnd.drop_file(&format!("{function}/{path}"), text);
    }
}

/// Replaces a file of a function that serves; it is refused with these words, and the version before serves.
fn refused(fnd: &Fnd, (function, file): (&str, &str), text: &str, words: &str) {
    let serving = fnd.function(function).unwrap().version;
    fnd.drop_file(&format!("{function}/{file}"), text);
    let error = error_with(fnd, function, words);
    assert!(error.contains("the installation of its dependencies failed"), "{error}");
    assert_eq!(fnd.function(function).unwrap().version, serving);
    assert_eq!(fnd.invoke(function, "\"Ada\"").text(), "one .....Ada");
}

const PROJECT: &str =
    "[project]\nname = \"shop\"\nversion = \"0.1.0\"\nrequires-python = \">=3.9\"\ndependencies = [\"fndpad\"]\n";

fn uv_lock(index: &Index, digest: &str) -> String {
    let at = format!("http://127.0.0.1:{}", index.port);
    format!(
        "version = 1\nrequires-python = \">=3.9\"\n\n[[package]]\nname = \"fndpad\"\nversion = \"1.0\"\n\
         source = {{ registry = \"{at}/simple\" }}\n\
         wheels = [{{ url = \"{at}/wheels/fndpad-1.0-py3-none-any.whl\", hash = \"sha256:{digest}\" }}]\n\n\
         [[package]]\nname = \"shop\"\nversion = \"0.1.0\"\nsource = {{ virtual = \".\" }}\n\
         dependencies = [{{ name = \"fndpad\" }}]\n\n[package.metadata]\nrequires-dist = [{{ name = \"fndpad\" }}]\n"
    )
}

#[test]
fn uv_installs_a_project_and_its_lock() {
    require!(root, cgroup, uv);
    let index = Index::start();
    let (_directory, uv) = uv_for_builds();
    let fnd = Fnd::start_with(&index.setup(
        "",
        &format!(
            "UV = \"{uv}\"\nUV_DEFAULT_INDEX = \"http://127.0.0.1:{}/simple\"",
            index.port
        ),
    ));
    drop_directory(&fnd, "project", &[("main.py", PYTHON), ("pyproject.toml", PROJECT)]);
    answers(&fnd, "project", "one .....Ada");
    let lock = uv_lock(&index, &index.digest);
    drop_directory(
        &fnd,
        "locked",
        &[("main.py", PYTHON), ("pyproject.toml", PROJECT), ("uv.lock", &lock)],
    );
    answers(&fnd, "locked", "one .....Ada");
    let logs = fnd.ctl(&["logs", "fnd-build"]).expect_code(0).out();
    assert!(logs.contains(&format!("+ {uv} export --frozen")), "{logs}");
    assert!(logs.contains("--require-hashes"), "{logs}");
    refused(
        &fnd,
        ("locked", "uv.lock"),
        &uv_lock(&index, &"0".repeat(64)),
        "Hash mismatch",
    );
    let newer = PROJECT.replace(">=3.9", ">=3.99");
    refused(&fnd, ("project", "pyproject.toml"), &newer, "it needs Python >=3.99");
    let absent = PROJECT.replace("fndpad", "fndnone");
    refused(&fnd, ("project", "pyproject.toml"), &absent, "fndnone was not found");
    fnd.finish();
}

/// Each of these has functions of its own.
#[test]
fn locks_of_three_tools() {
    require!(root, cgroup);
    let index = Index::start();
    let fnd = Fnd::start_with(&index.setup("", ""));
    pip_installs_a_project_and_refuses_files_with_other_hashes(&fnd, &index);
    npm_installs_what_a_lock_says_or_nothing(&fnd, &index);
    composer_installs_what_a_lock_says_or_nothing(&fnd, &index);
    fnd.finish();
}

fn pip_installs_a_project_and_refuses_files_with_other_hashes(fnd: &Fnd, index: &Index) {
    drop_directory(fnd, "project", &[("main.py", PYTHON), ("pyproject.toml", PROJECT)]);
    answers(fnd, "project", "one .....Ada");
    let listed = format!("fndpad==1.0 --hash=sha256:{}\n", index.digest);
    drop_directory(fnd, "listed", &[("main.py", PYTHON), ("requirements.txt", &listed)]);
    answers(fnd, "listed", "one .....Ada");
    let other = listed.replace(&index.digest, &"0".repeat(64));
    refused(fnd, ("listed", "requirements.txt"), &other, "DO NOT MATCH THE HASHES");
}

fn npm_installs_what_a_lock_says_or_nothing(fnd: &Fnd, index: &Index) {
    let code = "const pad = require('fndpad');\nmodule.exports.handler = (event) => 'one ' + pad(event.data);\n";
    let package = r#"{"dependencies": {"fndpad": "^1.0.0"}}"#;
    let lock = format!(
        r#"{{"lockfileVersion": 3, "requires": true, "packages": {{"": {{"dependencies": {{"fndpad": "^1.0.0"}}}},
        "node_modules/fndpad": {{"version": "1.0.0", "resolved": "http://127.0.0.1:{}/fndpad/-/fndpad-1.0.0.tgz",
        "integrity": "{}"}}}}}}"#,
        index.port, index.integrity
    );
    let files = [
        ("main.cjs", code),
        ("package.json", package),
        ("package-lock.json", &lock),
    ];
    drop_directory(fnd, "web", &files);
    answers(fnd, "web", "one .....Ada");
    assert!(fnd.ctl(&["logs", "fnd-build"]).out().contains("+ npm ci"));
    let two = r#"{"dependencies": {"fndpad": "^1.0.0", "fndhostile": "1.0.0"}}"#;
    refused(fnd, ("web", "package.json"), two, "package.json and package-lock.json");
    fnd.drop_file("web/package.json", package);
    let other = lock.replace(&index.integrity, &format!("sha512-{}==", "A".repeat(86)));
    refused(fnd, ("web", "package-lock.json"), &other, "integrity checksum failed");
}

#[test]
fn bundler_installs_what_a_lock_says_or_nothing() {
    require!(root, cgroup, ruby, bundler);
    let index = Index::with(&["gems"]);
    let fnd = Fnd::start_with(&index.setup("", ""));
    let at = format!("http://127.0.0.1:{}/gem", index.port);
    let code = "require 'fndpad'\ndef handler(event, context)\n  'one ' + Fndpad.pad(event['data'])\nend\n";
    let gemfile = format!("source '{at}'\ngem 'fndpad', '~> 1.0'\n");
    let lock = format!(
        "GEM\n  remote: {at}/\n  specs:\n    fndpad (1.0.0)\n\nPLATFORMS\n  ruby\n\nDEPENDENCIES\n  fndpad (~> 1.0)\n\n\
         BUNDLED WITH\n   2.3.0\n"
    );
    drop_directory(
        &fnd,
        "pads",
        &[("main.rb", code), ("Gemfile", &gemfile), ("Gemfile.lock", &lock)],
    );
    answers(&fnd, "pads", "one .....Ada");
    let absent = format!("{gemfile}gem 'fndnone'\n");
    refused(&fnd, ("pads", "Gemfile"), &absent, "fndnone");
    fnd.drop_file("pads/Gemfile", &gemfile);
    let gone = lock.replace("1.0.0", "1.0.9");
    refused(&fnd, ("pads", "Gemfile.lock"), &gone, "1.0.9");
    fnd.finish();
}

fn composer_installs_what_a_lock_says_or_nothing(fnd: &Fnd, index: &Index) {
    require!(php, composer);
    let at = format!("http://127.0.0.1:{}/php", index.port);
    let code = "<?php\nfunction handler($event, $context) {\n    return 'one ' . fndpad($event->data);\n}\n";
    let wanted = format!(
        r#"{{"require": {{"fnd/pad": "*"}}, "repositories": [{{"type": "composer", "url": "{at}"}}, {{"packagist.org": false}}],
        "config": {{"secure-http": false}}}}"#
    );
    let lock = format!(
        r#"{{"content-hash": "", "packages": [{{"name": "fnd/pad", "version": "1.0.0", "type": "library",
        "dist": {{"type": "tar", "url": "{at}/pad.tar", "shasum": "{}"}}, "autoload": {{"files": ["pad.php"]}}}}],
        "packages-dev": [], "aliases": [], "minimum-stability": "stable", "stability-flags": [], "prefer-stable": false,
        "prefer-lowest": false, "platform": [], "platform-dev": []}}"#,
        index.php_digest
    );
    drop_directory(
        fnd,
        "wares",
        &[("main.php", code), ("composer.json", &wanted), ("composer.lock", &lock)],
    );
    answers(fnd, "wares", "one .....Ada");
    let absent = wanted.replace(r#""fnd/pad": "*""#, r#""fnd/pad": "*", "fnd/none": "*""#);
    refused(fnd, ("wares", "composer.json"), &absent, "fnd/none");
    fnd.drop_file("wares/composer.json", &wanted);
    let other = lock.replace(&index.php_digest, &"0".repeat(40));
    refused(
        fnd,
        ("wares", "composer.lock"),
        &other,
        "checksum verification of the file failed",
    );
}
