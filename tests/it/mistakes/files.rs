//! Mistakes in names, modes and content of files.

use super::{Files, Mistake, Words};

const ECHO: &str = "# /// fnd\n# on_load = false\n# ///\necho hello\n";

/// A mistake that is seen after the file was saved.
const fn saved(what: &'static str, files: Files, fix: Words) -> Mistake {
    Mistake::new(what, files, &["reload", "status"], fix)
}

pub(super) const ALL: &[Mistake] = &[
    saved(
        "a suffix that no runtime has",
        &[("report.tcl", "puts 1\n", 0o644)],
        &["report.tcl", "chmod +x"],
    ),
    saved(
        "no suffix, and not executable",
        &[("backup", "#!/bin/bash\necho 1\n", 0o644)],
        &["backup", "chmod +x"],
    ),
    saved(
        "an executable file without `#!`",
        &[("tool", "echo 1\n", 0o755)],
        &["`#!` line"],
    ),
    saved(
        "a name with capitals and spaces",
        &[("My Script.sh", ECHO, 0o644)],
        &["My Script.sh", "a-z"],
    ),
    saved(
        "a file that all may write",
        &[("open.sh", ECHO, 0o666)],
        &["chmod", "open.sh"],
    ),
    saved(
        "a file that its group may write",
        &[("team.sh", ECHO, 0o664)],
        &["chmod", "team.sh"],
    ),
    saved(
        "two files for one name",
        &[("twice.sh", ECHO, 0o644), ("twice.py", "print(1)\n", 0o644)],
        &["twice.sh", "twice.py"],
    ),
    saved(
        "a manifest without code",
        &[("lonely.toml", "on_load = false\n", 0o644)],
        &["lonely.toml"],
    ),
    saved(
        "a damaged archive",
        &[("site.zip", "PK", 0o644)],
        &["site.zip", "build the archive again"],
    ),
    saved("a group in a group", &[("web/shop/pay.sh", ECHO, 0o644)], &["web/shop"]),
    saved(
        "a Python handler with one parameter",
        &[("one.py", "def main(args):\n    return 1\n", 0o644)],
        &["main(event, context)"],
    ),
    saved(
        "packages for a language whose packages fnd does not install",
        &[(
            "deps.pl",
            "# /// fnd\n# dependencies = [\"Mojolicious\"]\n# ///\nuse Mojolicious;\n",
            0o644,
        )],
        &["fnd installs no dependencies for runtime `perl`", "remove the key"],
    ),
    saved(
        "a Python project that was copied",
        &[("app.py", "import helper\n", 0o644), ("helper.py", "x = 1\n", 0o644)],
        &["function.toml"],
    ),
];
