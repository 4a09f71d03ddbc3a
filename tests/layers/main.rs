//! Which part of the code does not know which other part: "What does not happen" of ARCHITECTURE.md, as far as imports show it.
//!
//! Files:
//! - `circles`: folders that import each other
//! - `walks`: the walks of docs/design/walks.md

#![expect(clippy::unwrap_used, reason = "a test's unwrap is an expectation")]

mod circles;
mod walks;

use fnd_tests::programs::repository;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that the code below a path must not contain.
struct Rule {
    path: &'static str,
    /// Separated by spaces.
    names: &'static str,
    /// Ends of the paths of files that may.
    except: &'static [&'static str],
    why: &'static str,
}

const fn rule(path: &'static str, names: &'static str, why: &'static str) -> Rule {
    let except = &[];
    Rule {
        path,
        names,
        except,
        why,
    }
}

impl Rule {
    const fn except(self, except: &'static [&'static str]) -> Self {
        Self { except, ..self }
    }
}

/// The driver, and the rooms above it, through which callers reach it.
const ABOVE: &str =
    "crate::backend crate::control crate::driver crate::exposition crate::public crate::simulate crate::start";
const ABOVE_WHY: &str = "a part hands inputs to the driver's inbox, and sees neither the driver nor what is above it";
const ONE_WAY: &str = "`Driver::report` is the one way of news";
const MACHINE: &str = "libc nix rustix tokio tracing std::env std::process std::thread Instant SystemTime TcpListener TcpStream UdpSocket UnixListener UnixStream";
const MACHINE_WHY: &str = "decisions need no machine: time, choices and content are arguments";
const VERBS: &str = "crate::commands crate::suggestions";
const VERBS_WHY: &str = "what verbs share knows no verb";

const SOCKETS: &str = "tokio rustix libc hyper::client std::env std::net";
const SOCKETS_WHY: &str = "a page asks fnd through `api`, and nothing else";

const RULES: &[Rule] = &[
    // wire: everything that the root program sees.
    rule(
        "wire/src",
        "serde toml:: std::env std::fs std::net std::process Instant SystemTime unsafe",
        "the root program links it: no parser, no I/O, no unsafe code",
    ),
    // manifest: judges.
    rule("manifest/src", MACHINE, MACHINE_WHY).except(&["regular_file.rs"]), // open(2) with its flags
    rule(
        "manifest/src",
        "fnd_core",
        "the judge is a process without a supervisor",
    ),
    rule("manifest/src", "std::fs", "the judge has no files").except(&["check/disk.rs", "regular_file.rs"]),
    rule(
        "manifest/src/check/disk.rs",
        "fs::write fs::create_dir fs::remove_file File::create",
        "it reads, nothing else",
    ),
    rule(
        "manifest/src/schema",
        "crate::function crate::judge crate::resolve crate::runtime crate::settings",
        "it knows what a table of keys is, and no key",
    ),
    rule(
        "manifest/src/function",
        "crate::foreign crate::judge crate::resolve crate::runtime crate::settings",
        "what a manifest says needs neither the configuration nor a runtime",
    ),
    // core: decides.
    rule("core/src", MACHINE, MACHINE_WHY),
    rule("core/src", "std::fs fnd_manifest::check", "it opens no files"),
    rule(
        "core/src/records",
        "crate::api crate::run crate::triggers",
        "the parts that decide, start and report stand on it",
    ),
    rule(
        "core/src/messages",
        "crate::api crate::lifecycle crate::run_state crate::triggers",
        "it is what the machine of runs takes and says; it knows no machine",
    ),
    rule(
        "core/src/run_state",
        "crate::api crate::lifecycle crate::run crate::triggers serde_json",
        "the machine of runs changes it and decides; it decides nothing about others",
    ),
    rule(
        "core/src/run",
        "crate::api crate::triggers fnd_manifest::diagnostic fnd_manifest::judge fnd_manifest::schema fnd_manifest::settings serde_json",
        "it decides about what was judged, whatever started it; it reads and writes no text",
    ),
    // spawner: the only root code.
    rule(
        "spawner/src",
        "serde serde_json toml:: tokio hyper thread::spawn",
        "no parser, no runtime and no threads in the root program",
    ),
    rule("spawner/src", "waitid waitpid wait4", "one place reaps").except(&["reap.rs"]),
    rule(
        "spawner/src/process",
        "crate::cgroup crate::install crate::places crate::policy crate::sandbox crate::secrets crate::workers",
        "it makes processes, and knows nothing of functions",
    ),
    rule(
        "spawner/src/sandbox",
        "crate::cgroup crate::install crate::places crate::policy crate::secrets crate::workers",
        "it builds what it is told, and knows neither files of people nor secrets",
    ),
    rule(
        "spawner/src/secrets",
        "crate::install crate::sandbox crate::workers",
        "it reads secrets, and puts none in its place",
    ),
    rule(
        "spawner/src",
        "execve",
        "one place replaces a process, right after `clone3`",
    )
    .except(&["clone.rs"]),
    // helpers: one task a process.
    rule(
        "helpers/src",
        "clap tokio tracing:: Command::new TcpStream UdpSocket UnixStream",
        "it reads the bytes of others or runs as a function's user: it has nothing of fnd but the messages",
    )
    // A worker of the function, which serves its own processes.
    .except(&[
        "lambda/answer.rs",
        "lambda/child.rs",
        "lambda/mod.rs",
        "lambda/server.rs",
        "lambda/state.rs",
        "lambda/worker.rs",
    ]),
    rule(
        "helpers/src/judge.rs",
        "fnd_core",
        "the judge is a process without a supervisor",
    ),
    // daemon: the driver.
    rule("daemon/src", "supervisor.handle", "one caller of the supervisor").except(&["perform.rs", "fuzzing.rs"]),
    rule(
        "daemon/src",
        "spawn_local JoinSet",
        "one set owns the tasks, so that none ends without notice",
    )
    // A server waits for its connections, and the body of a streamed answer owns the task that settles it. The simulation has the
    // tasks of a whole fnd, which a kill ends at once.
    .except(&[
        "input/tasks.rs",
        "http/live_answer.rs",
        "http/server.rs",
        "server/http2.rs",
        "simulate/tasks.rs",
    ]),
    rule("daemon/src", "Command::new", "fnd has one child at most, its spawner")
        .except(&["spawner_process.rs", "modes/helper.rs"]), // the helper takes the place of this process
    rule(
        "daemon/src/driver",
        "crate::backend crate::control crate::exposition crate::public crate::start",
        "callers ask the driver; it does not know them",
    ),
    rule("daemon/src", "reporter.report reporter.metrics", ONE_WAY)
        .except(&["driver/follow_ups.rs", "exposition/sample.rs"]),
    rule("daemon/src/driver", "tracing", ONE_WAY),
    // daemon: the ground floor.
    rule(
        "daemon/src/input",
        "crate::backend crate::control crate::driver crate::functions crate::http crate::ledger crate::output crate::triggers crate::workers",
        "every part uses it, so it uses none",
    ),
    // daemon: the parts.
    rule("daemon/src/callers", ABOVE, ABOVE_WHY),
    rule("daemon/src/follow_ups", ABOVE, ABOVE_WHY),
    rule(
        "daemon/src/follow_ups",
        "crate::functions crate::output crate::report crate::triggers crate::views crate::workers",
        "parts do not call each other",
    ),
    rule("daemon/src/functions", ABOVE, ABOVE_WHY),
    rule(
        "daemon/src/functions/catalog",
        "crate::ledger crate::output crate::workers",
        "parts do not call each other",
    ),
    rule("daemon/src/ledger", ABOVE, ABOVE_WHY),
    rule(
        "daemon/src/ledger",
        "crate::functions crate::output crate::stream crate::workers",
        "parts do not call each other",
    ),
    rule("daemon/src/metrics", ABOVE, ABOVE_WHY),
    rule("daemon/src/output", ABOVE, ABOVE_WHY),
    rule("daemon/src/report", ABOVE, ABOVE_WHY),
    rule("daemon/src/stores", ABOVE, ABOVE_WHY),
    rule("daemon/src/stream", ABOVE, ABOVE_WHY),
    rule("daemon/src/triggers", ABOVE, ABOVE_WHY),
    rule("daemon/src/views", ABOVE, ABOVE_WHY),
    rule("daemon/src/workers", ABOVE, ABOVE_WHY),
    rule(
        "daemon/src/workers",
        "crate::functions crate::ledger crate::stream",
        "parts do not call each other",
    ),
    // daemon: what serves callers.
    rule(
        "daemon/src/http",
        "crate::backend crate::control crate::driver crate::functions crate::ledger crate::metrics crate::output crate::workers",
        "it knows HTTP, but no role, no route and no function's state",
    ),
    rule(
        "daemon/src/control",
        "crate::driver crate::functions crate::ledger crate::workers",
        "it asks `Backend`",
    )
    // The sockets that the driver opens for functions, and as many readers of the ledger as callers.
    .except(&["function_sockets.rs", "control/limits.rs"]),
    // daemon: the simulation.
    rule(
        "daemon/src/simulate",
        "std::env std::thread Instant SystemTime HashMap HashSet RandomState",
        "one seed decides everything",
    )
    .except(&["program.rs", "shorten.rs"]), // which seeds are tried, and how long
    // import: data in, data out.
    rule(
        "import/src",
        "clap tokio hyper fnd_core println eprintln",
        "it parses no command line, asks no daemon and prints nothing",
    ),
    rule(
        "client/src",
        "clap println eprintln",
        "it parses no command line and prints nothing",
    ),
    // web: the page has no rights of its own, and a function's name or output must not become a path.
    rule(
        "web/src",
        "std::fs std::process::Command",
        "the page opens no file and starts no process",
    )
    .except(&["listen.rs"]), // the directory of its socket, before it is confined
    rule("web/src/pages", SOCKETS, SOCKETS_WHY),
    rule("web/src/parts", SOCKETS, SOCKETS_WHY),
    // ctl: the command line knows the verbs, a verb knows the ground rooms, and nothing knows more.
    rule(
        "ctl/src",
        "crate::cli cli::",
        "only the root of fndctl puts the command line together",
    )
    .except(&["src/lib.rs", "suggestions.rs"]), // it parses a corrected line again
    rule(
        "ctl/src/commands",
        "crate::suggestions",
        "a verb does not know the command line that calls it",
    ),
    rule("ctl/src/common", VERBS, VERBS_WHY),
    rule("ctl/src/health", VERBS, VERBS_WHY),
    rule("ctl/src/hosts", VERBS, VERBS_WHY),
    rule("ctl/src/secrets", VERBS, VERBS_WHY),
    rule("ctl/src/upload", VERBS, VERBS_WHY),
    rule("ctl/src/interpreters", VERBS, VERBS_WHY),
    rule("ctl/src/output", VERBS, VERBS_WHY),
    rule("ctl/src/output.rs", VERBS, VERBS_WHY),
    rule("ctl/src/client.rs", VERBS, VERBS_WHY),
    rule("ctl/src/context.rs", VERBS, VERBS_WHY),
    rule("ctl/src/exit.rs", VERBS, VERBS_WHY),
    rule("ctl/src/lazy.rs", VERBS, VERBS_WHY),
    rule("ctl/src/local.rs", VERBS, VERBS_WHY),
    rule("ctl/src/text.rs", VERBS, VERBS_WHY),
];

/// Calls `see` with the path of each file of code below a path, except files of tests.
fn files(path: &Path, see: &mut impl FnMut(&Path)) {
    let name = path.file_stem().unwrap();
    if name == "tests" {
        return;
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            files(&entry.unwrap().path(), see);
        }
    } else if path.extension().is_some_and(|suffix| suffix == "rs") {
        see(path);
    }
}

/// Calls `see` with the number and the text of each line of code, except comments and what only tests have.
fn code(text: &str, mut see: impl FnMut(usize, &str)) {
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim_start() == "#[cfg(test)]" {
            // The item below is one line, or ends with a brace in the same column.
            let end = line.replace("#[cfg(test)]", "}");
            if lines.next().is_some_and(|(_, line)| !line.ends_with(';')) {
                let _ = lines.find(|(_, line)| *line == end);
            }
        } else if !line.trim_start().starts_with("//") {
            see(number + 1, line);
        }
    }
}

/// Says whether a line names something: not as part of a longer word.
fn names(line: &str, name: &str) -> bool {
    let inside = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        !before.ends_with(inside) && (name.ends_with(':') || !after.starts_with(inside))
    })
}

#[test]
fn only_code_outside_of_tests_is_read() {
    let text = "//! tokio\nuse tokio::net;\n#[cfg(test)]\nmod tests;\nlet a = b;\n#[cfg(test)]\nmod tests {\n    use tokio;\n}\nfn c() {}\n";
    let mut seen = Vec::new();
    code(text, |number, line| seen.push((number, names(line, "tokio"))));
    assert_eq!(seen, [(2, true), (5, false), (10, false)]);
    assert!(names("a(std::fs)", "std::fs") && !names("std::fs_more(my_std::fs2)", "std::fs"));
}

#[test]
fn no_part_names_what_it_must_not_know() {
    let mut broken = Vec::new();
    for rule in RULES {
        let path = repository().join(rule.path);
        let mut seen = 0;
        files(&path, &mut |file| {
            seen += 1;
            let file_name = file.display().to_string();
            if rule.except.iter().any(|end| file_name.ends_with(end)) {
                return;
            }
            code(&fs::read_to_string(file).unwrap(), |number, line| {
                for name in rule.names.split(' ').filter(|name| names(line, name)) {
                    broken.push(format!("{file_name}:{number} names `{name}`: {}", rule.why));
                }
            });
        });
        assert!(seen > 0, "{} has no code: its rule needs the new path", rule.path);
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The exceptions of a rule are files that break it: others would hide what is added later.
#[test]
fn every_exception_is_needed() {
    for rule in RULES {
        for end in rule.except {
            let mut needed = false;
            files(&repository().join(rule.path), &mut |file| {
                if file.display().to_string().ends_with(end) {
                    code(&fs::read_to_string(file).unwrap(), |_, line| {
                        needed |= rule.names.split(' ').any(|name| names(line, name));
                    });
                }
            });
            assert!(needed, "{}: no {end} names any of {}", rule.path, rule.names);
        }
    }
}

/// A verb names no other verb: neither by its path from the root, nor by a path that leads up to the folder of verbs.
#[test]
fn no_verb_names_another() {
    let root = repository().join("ctl/src/commands");
    let mut broken = Vec::new();
    files(&root, &mut |file| {
        let inside = file.strip_prefix(&root).unwrap();
        let parts: Vec<_> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        let verb = parts[0].trim_end_matches(".rs");
        // A file `a/b.rs` reaches the folder of verbs with two steps up, `a.rs` and `a/mod.rs` with one.
        let steps = parts.len() - usize::from(inside.ends_with("mod.rs"));
        let up = vec!["super"; steps].join("::");
        code(&fs::read_to_string(file).unwrap(), |number, line| {
            let mut after = line.split("crate::commands::").skip(1);
            let by_root = after.any(|rest| !rest.starts_with(verb)) && inside != Path::new("mod.rs");
            if by_root || verb != "mod" && names(line, &format!("{up}::")) {
                broken.push(format!("{}:{number}: {}", file.display(), line.trim()));
            }
        });
    });
    assert!(
        broken.is_empty(),
        "a verb shares ground rooms with others, nothing else:\n{}",
        broken.join("\n")
    );
}

/// Returns the file with the header of a folder: `mod.rs` and the like, or the file of the same name beside it.
fn header_of(folder: &Path) -> Option<PathBuf> {
    // The `main.rs` beside a `lib.rs` is only a program.
    let inside = ["lib.rs", "mod.rs", "main.rs"].map(|name| folder.join(name));
    let mut all = inside.into_iter().chain([folder.with_extension("rs")]);
    all.find(|path| path.exists())
}

/// Calls `see` with each folder of code below one, and with the names of its modules.
fn folders(folder: &Path, see: &mut impl FnMut(&Path, BTreeSet<String>)) {
    let mut modules = BTreeSet::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "snapshots" {
            folders(&path, see);
        }
        let is_module = path.is_dir() || path.extension().is_some_and(|suffix| suffix == "rs");
        if is_module && !["lib", "main", "mod", "snapshots", "tests"].contains(&name.as_str()) {
            modules.insert(name);
        }
    }
    see(folder, modules);
}

/// The header of a folder says what each of its files does.
#[test]
fn the_map_of_a_folder_names_its_files() {
    let mut wrong = Vec::new();
    for root in [
        "client/src",
        "core/src",
        "ctl/src",
        "daemon/src",
        "helpers/src",
        "import/src",
        "manifest/src",
        "spawner/src",
        "tests/it",
        "tests/src",
        "tests/vm",
        "web/src",
        "wire/src",
    ] {
        folders(&repository().join(root), &mut |folder, modules| {
            let text = header_of(folder)
                .map(|path| fs::read_to_string(path).unwrap())
                .unwrap_or_default();
            let map = text
                .lines()
                .filter_map(|line| line.strip_prefix("//! - ")?.split_once(": "));
            let named: BTreeSet<String> = map
                .flat_map(|(files, _)| files.split(", ").map(|file| file.replace('`', "")))
                .collect();
            if named != modules && modules.len() > 1 {
                let missing: Vec<_> = modules.difference(&named).collect();
                let gone: Vec<_> = named.difference(&modules).collect();
                wrong.push(format!("{}: missing {missing:?}, not there {gone:?}", folder.display()));
            }
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the crates of ours that a crate links, from the part `[dependencies]` of its Cargo.toml.
fn ours(directory: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join(directory).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let dependencies = manifest["dependencies"].as_table().unwrap();
    let names = dependencies.keys().filter_map(|name| name.strip_prefix("fnd-"));
    names.map(str::to_owned).collect()
}

/// The table "Crates" of ARCHITECTURE.md: fndctl knows fnd only by its API, and fnd knows the spawner only by its frames.
#[test]
fn crates_link_what_the_table_says() {
    for (directory, expected) in [
        ("wire", &[][..]),
        ("unpack", &["wire"]),
        ("manifest", &["unpack", "wire"]),
        ("core", &["manifest", "wire"]),
        ("helpers", &["core", "manifest", "unpack", "wire"]),
        ("daemon", &["core", "manifest", "wire"]),
        ("spawner", &["wire"]),
        ("import", &["manifest", "unpack", "wire"]),
        ("client", &["core"]),
        ("ctl", &["client", "core", "import", "manifest", "unpack", "wire"]),
        ("web", &["client", "core", "manifest", "wire"]),
        // Besides the programs `fnd` and `fndctl`, whose crates have no prefix.
        ("packaging", &["manifest", "spawner", "wire"]),
        ("tests", &["core", "manifest", "wire"]),
    ] {
        assert_eq!(ours(directory), expected, "{directory}");
    }
    let wire = fs::read_to_string(repository().join("wire/src/lib.rs")).unwrap();
    assert!(wire.contains("#![forbid(unsafe_code)]"));
}
