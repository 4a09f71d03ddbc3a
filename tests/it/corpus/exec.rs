//! Programs without a suffix: executable files with a `#!` line, and compiled ones.

use super::{Case, Send, Want, case, check_all};
use fnd_tests::Fnd;

pub(super) const CASES: &[Case] = &[
    case("perl-script", Want::Text("perl")),
    case("env-split", Want::Text("split")),
    case("sh-exec", Want::Text("exec sh")),
    case("awk-exec", Want::Json("6")).sent(Send::Text("1\n2\n3\n")),
    case("cat-exec", Want::Text("#!/bin/cat\nthe file itself")),
];

#[test]
fn programs_with_a_first_line() {
    let fnd = Fnd::start();
    check_all(&fnd, CASES);
    fnd.finish();
}

/// A compiled program is a function like any other.
#[test]
fn compiled_programs() {
    let fnd = Fnd::start();
    for (name, program) in [("elf-printf", "/usr/bin/printf"), ("elf-false", "/usr/bin/false")] {
        fnd.drop_file(
            &format!("{name}.toml"),
            "on_load = false\nargs = [\"hello %s\", \"elf\"]\n",
        );
        fnd.drop_executable(name, &std::fs::read(program).unwrap());
        fnd.wait_ready(name);
    }
    assert_eq!(fnd.invoke("elf-printf", "").text(), "hello elf");
    let (_, view) = fnd.run("elf-false", "");
    assert_eq!(view.reason.unwrap().to_string(), "exit-1");
    fnd.finish();
}
