//! Mistakes on the command line.

use super::{Mistake, Words};

const OFF: &str = "# /// fnd\n# on_load = false\n# enabled = false\n# ///\necho never\n";
const ONCE: &str = "# /// fnd\n# on_load = false\n# ///\necho once\n";
const SERVICE: &str = "# /// fnd\n# [service]\n# ///\nexec sleep 1000\n";

const fn only(what: &'static str, tries: Words, fix: Words) -> Mistake {
    Mistake::new(what, &[], tries, fix)
}

pub(super) const ALL: &[Mistake] = &[
    only("a verb that is misspelt", &["staus"], &["status"]),
    Mistake::new(
        "a restart of a script",
        &[("once.sh", ONCE, 0o644)],
        &["reload", "restart once"],
        &["each run of a script is a new process"],
    ),
    only(
        "a command of shell without --",
        &["shell hello ls -l"],
        &["sudo fndctl shell F -- ls -l"],
    ),
    only("a stop of a handler", &["stop hello"], &["fndctl disable hello"]),
    only("a verb of docker: rm", &["rm hello"], &["sudo rm "]),
    only(
        "a function that is misspelt",
        &["invoke helo"],
        &["did you mean `hello`"],
    ),
    only(
        "a payload without -d",
        &["invoke hello '{\"name\": \"Ada\"}'"],
        &["fndctl invoke hello -d '{\"name\": \"Ada\"}'"],
    ),
    only(
        "a payload that is broken JSON",
        &["invoke hello -d '{\"name\": Ada}'"],
        &["line 1", "--text"],
    ),
    only(
        "a payload from a file that is not there",
        &["invoke hello -d @data.json"],
        &["data.json"],
    ),
    only("a timeout without a unit", &["invoke hello --timeout 5"], &["`30s`"]),
    only("an id that does not exist", &["result 1234abcd"], &["fndctl history"]),
    only("a state that is misspelt", &["history --state faild"], &["failed"]),
    only(
        "a time that is no time",
        &["history --since soon"],
        &["`1h`", "`yesterday`"],
    ),
    only(
        "a pattern that matches nothing",
        &["disable 'web/*'"],
        &["web/*", "fndctl list"],
    ),
    only("a key that is misspelt", &["explain memroy"], &["limits.memory"]),
    only("a level that does not exist", &["log-level loud"], &["debug"]),
    only(
        "a state of another tool",
        &["history hello --state success"],
        &["failed"],
    ),
    Mistake::new(
        "a function that is disabled",
        &[("off.sh", OFF, 0o644)],
        &["reload", "invoke off"],
        &["fndctl enable off"],
    ),
    Mistake::new(
        "a service that is invoked",
        &[("sleeper.sh", SERVICE, 0o644)],
        &["reload", "invoke sleeper"],
        &["service"],
    ),
    only(
        "a socket that is not there",
        &["--socket /run/nobody.sock status"],
        &["systemctl status fnd"],
    ),
];
