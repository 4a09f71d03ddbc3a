//! Python.

use super::{Case, Send, Want, case, check_all, fails};
use fnd_tests::Fnd;
use std::process::Command;

pub(super) const CASES: &[Case] = &[
    case("crlf-python.py", Want::Text("crlf")),
    case("bom-python.py", Want::Text("bom")),
    case("no-newline-python.py", Want::Text("hi")),
    case("latin1-source.py", Want::Text("café")),
    case("main-guard.py", Want::Text("guarded")),
    fails("exception.py", "exit-1").says("ValueError: boom: über"),
    fails("syntax-error.py", "exit-1").says("SyntaxError"),
    fails("sys-exit-text.py", "exit-1").says("said why"),
    fails("sys-exit-75.py", "transient"),
    fails("abort.py", "signal-ABRT"),
    case("stdin-json.py", Want::Json(r#"{"got": "Grüße"}"#)).sent(Send::Text(r#"{"name": "Grüße"}"#)),
    case("print-end.py", Want::Text("ab")),
    case("thread-left.py", Want::Text("early\nlate")),
    case("fork-child.py", Want::Text("parent")),
    case("result-python.py", Want::Json(r#"{"list": [1, null, "ü"]}"#)),
    case("close-stdout.py", Want::Nothing),
    case("own-name.py", Want::Text("own-name")),
    case("binary-python.py", Want::Bytes(&EVERY_BYTE)),
];

/// Every possible byte, once.
const EVERY_BYTE: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut n: u8 = 0;
    loop {
        bytes[n as usize] = n;
        if n == 255 {
            break bytes;
        }
        n += 1;
    }
};

/// Each of these has functions of its own.
#[test]
fn scripts_in_python() {
    let fnd = Fnd::start();
    python_scripts(&fnd);
    a_virtual_environment_by_its_first_line(&fnd);
    fnd.finish();
}

fn python_scripts(fnd: &Fnd) {
    check_all(fnd, CASES);
}

/// A `#!` line of a virtual environment is honoured: the script finds what is installed there.
fn a_virtual_environment_by_its_first_line(fnd: &Fnd) {
    let venv = fnd.path("venv");
    let made = Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(&venv)
        .status()
        .unwrap();
    assert!(made.success());
    let packages = venv
        .join("lib")
        .read_dir()
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("site-packages");
    std::fs::write(packages.join("only_here.py"), "WORD = 'from the environment'\n").unwrap();
    let script = format!(
        "#!{}/bin/python\n# /// fnd\n# on_load = false\n# ///\nimport only_here\nprint(only_here.WORD)\n",
        venv.display()
    );
    fnd.drop_executable("venv-script.py", script.as_bytes());
    fnd.wait_ready("venv-script");
    let answer = fnd.invoke("venv-script", "");
    assert_eq!(answer.text().trim(), "from the environment", "{answer:?}");
}
