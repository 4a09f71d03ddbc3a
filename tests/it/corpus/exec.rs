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

/// Each of these has functions of its own.
#[test]
fn programs_without_a_suffix() {
    let fnd = Fnd::start();
    programs_with_a_first_line(&fnd);
    compiled_programs(&fnd);
    fnd.finish();
}

fn programs_with_a_first_line(fnd: &Fnd) {
    check_all(fnd, CASES);
}

/// A compiled program is a function like any other.
fn compiled_programs(fnd: &Fnd) {
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
}
