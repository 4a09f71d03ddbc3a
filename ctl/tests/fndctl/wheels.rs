//! `fndctl runtimes install uv`: a program out of a wheel, from an index of its own in the form of PyPI.

use super::interpreters::{Place, Registry, says};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const MACHINE: &str = if cfg!(target_arch = "aarch64") {
    "aarch64"
} else {
    "x86_64"
};

/// Returns a wheel whose program is at `path`, made by Python's own zipfile.
fn wheel(place: &Path, path: &str, program: &str) -> Vec<u8> {
    let script = "import sys, zipfile\n\
        with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:\n    \
            z.writestr('uv/__init__.py', '')\n    z.writestr(sys.argv[2], sys.argv[3])\n";
    let file = place.join("made.whl");
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", script]).arg(&file).args([path, program]);
    assert!(command.status().unwrap().success());
    std::fs::read(file).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns an index that has these versions, with the checksums of `published`.
fn index(wheels: &[(&str, &[u8], &[u8])]) -> Registry {
    let mut answers = BTreeMap::new();
    let mut files = Vec::new();
    for (version, wheel, published) in wheels {
        let name = format!("uv-{version}-py3-none-manylinux_2_17_{MACHINE}.whl");
        answers.insert(format!("/files/{name}"), wheel.to_vec());
        files.push(
            serde_json::json!({"filename": name, "url": format!("../../files/{name}#x"), "yanked": false,
            "hashes": {"sha256": hex(&Sha256::digest(published))}}),
        );
    }
    let list = serde_json::json!({"name": "uv", "files": files});
    answers.insert("/npm/uv/".to_owned(), list.to_string().into_bytes());
    Registry::start(answers)
}

fn uv(place: &Place, version: &str) -> Vec<u8> {
    let program = format!("#!/bin/sh\necho uv {version}\n");
    wheel(&place.path(""), &format!("uv-{version}.data/scripts/uv"), &program)
}

#[test]
fn the_newest_wheel_is_installed_and_its_program_runs() {
    let place = Place::new();
    let (older, newer) = (uv(&place, "0.9.9"), uv(&place, "0.13.0"));
    let index = index(&[("0.13.0", &newer, &newer), ("0.9.9", &older, &older)]);
    let (code, out, error) = place.runs("", &["install", "uv", "--registry", &index.url]);
    assert!(code == 0 && out.contains("uv 0.13.0 is installed"), "{out}{error}");
    let program = place.path("into/uv/current/bin/uv");
    assert_eq!(says(&program), "uv 0.13.0\n");
    assert_eq!(place.runs("", &["install", "uv", "0.9", "--registry", &index.url]).0, 0);
    assert_eq!(says(&program), "uv 0.9.9\n");
}

#[test]
fn a_wheel_that_is_changed_damaged_or_another_one_is_not_installed() {
    let place = Place::new();
    let good = uv(&place, "0.9.9");
    let cut = &good[..good.len() - 9];
    let other = wheel(&place.path(""), "else-1.0.data/scripts/uv", "#!/bin/sh\n");
    for (wheel, published, text) in [
        (good.as_slice(), b"something else".as_slice(), "the checksum of"),
        (cut, cut, "failed to read the package"),
        (&other, &other, "has no `uv-VERSION.data/scripts/uv`"),
    ] {
        let index = index(&[("0.9.9", wheel, published)]);
        let (code, out, error) = place.runs("", &["install", "uv", "--registry", &index.url]);
        assert!(code == 1 && error.contains(text), "{text}: {out}{error}");
        assert_eq!(std::fs::read_dir(place.path("into/uv")).unwrap().count(), 0, "{text}");
    }
}
