//! The documents are true: fnd accepts every example in them, their commands print what they show, their links lead
//! somewhere.
//!
//! A page is read here and nowhere else in the tests of documents; trycmd and its like were considered, but they run one
//! program for each line, without a shell, without files that are saved on the way and without a daemon that needs a
//! moment.
//!
//! Files:
//! - `session`: one page, executed against an fnd of its own
#![expect(clippy::print_stdout, reason = "the test says how much it executed")]

mod session;

use fnd_tests::ctl::fndctl;
use fnd_tests::documents::blocks::{NEEDS, Use, blocks, documents};
use fnd_tests::documents::commands;
use fnd_tests::programs::repository;
use fnd_tests::{Fnd, require};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Every block with a manifest or a function is accepted, whether a page executes it or not.
#[test]
fn every_example_is_valid() {
    let mut checked = 0;
    for block in documents().iter().flat_map(|path| blocks(path)) {
        let (suffix, file) = match block.use_of() {
            Use::Validate(suffix) => (suffix, format!("example.{suffix}")),
            _ => continue,
        };
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        if suffix == "toml" {
            // Manifests are checked with a deno script, for which most keys are valid; those with a pool with a python
            // handler.
            if block.text.lines().any(|line| line == "[pool]") {
                write("example.py", "def handler(event, context): return 1\n");
            } else {
                write("example.ts", "console.log(1);\n");
            }
        }
        write(&file, &block.text);
        let run = fndctl(
            &[Path::new("validate"), Path::new("--content"), directory.path()],
            b"",
            &[],
        );
        assert_eq!(run.code, 0, "{}: {run}\n{}", block.place, block.text);
        checked += 1;
    }
    assert!(checked >= 10, "only {checked} examples were found");
}

/// Executes each page that has commands; a test for each, so that they run beside each other.
macro_rules! pages {
    ($($test:ident: $page:literal),+ $(,)?) => {
        const PAGES: &[&str] = &[$($page),+];
        mod commands_answer_as_shown {
            $(#[test]
            fn $test() {
                super::answer_as_shown($page);
            })+
        }
    };
}

pages! {
    readme: "README.md",
    alerts: "docs/alerts.md",
    audit: "docs/audit.md",
    calling_functions: "docs/calling-functions.md",
    cloudevents: "docs/cloudevents.md",
    cookbook: "docs/cookbook.md",
    dead_letters: "docs/dead-letters.md",
    dependencies: "docs/dependencies.md",
    events: "docs/events.md",
    files: "docs/files.md",
    first_steps: "docs/first-steps.md",
    handlers: "docs/handlers.md",
    history: "docs/history.md",
    http_functions: "docs/http-functions.md",
    inputs: "docs/inputs.md",
    instead_of_a_unit_file: "docs/instead-of-a-unit-file.md",
    instead_of_a_webhook_program: "docs/instead-of-a-webhook-program.md",
    instead_of_aws_lambda: "docs/instead-of-aws-lambda.md",
    instead_of_cron: "docs/instead-of-cron.md",
    instead_of_pm2: "docs/instead-of-pm2.md",
    kubeless: "docs/kubeless.md",
    many_machines: "docs/many-machines.md",
    metrics: "docs/metrics.md",
    moving_in: "docs/moving-in.md",
    order_and_groups: "docs/order-and-groups.md",
    other_systems: "docs/other-systems.md",
    releases: "docs/releases.md",
    requests: "docs/requests.md",
    sandbox: "docs/sandbox.md",
    schedules: "docs/schedules.md",
    secrets: "docs/secrets.md",
    senders: "docs/senders.md",
    services: "docs/services.md",
    state: "docs/state.md",
    team: "docs/team.md",
    tools_for_agents: "docs/tools-for-agents.md",
    troubleshooting: "docs/troubleshooting.md",
    webhooks: "docs/webhooks.md",
    writing_functions: "docs/writing-functions.md",
}

#[track_caller]
fn answer_as_shown(page: &str) {
    require!(deno, promtool);
    let commands = session::execute(page);
    assert!(commands > 0, "{page} has no commands");
    println!("{page}: {commands} commands");
}

/// Every page with commands is executed; what cannot be executed here is listed with its reason, and its command lines
/// are checked at least.
#[test]
fn no_command_is_left_out_silently() {
    let mut executed = 0;
    let mut skipped: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for path in documents() {
        let page = path.strip_prefix(repository()).unwrap().display().to_string();
        for block in blocks(&path) {
            match block.use_of() {
                Use::Execute => {
                    executed += commands::examples(&block.text).len();
                    assert!(PAGES.contains(&page.as_str()), "{page} is not executed");
                }
                Use::Skip(why) => {
                    let need = NEEDS.iter().find(|(name, _)| block.kind.ends_with(name)).unwrap().0;
                    skipped
                        .entry((need.trim_start_matches("needs-"), why))
                        .or_default()
                        .push(block.place);
                }
                _ => {}
            }
        }
    }
    assert!(executed >= 100, "only {executed} commands of the pages are executed");
    println!("{executed} commands are executed");
    for ((need, why), places) in skipped {
        require::skip(
            need,
            &format!(
                "{} blocks of the documents are not executed: {why}: {}",
                places.len(),
                places.join(" ")
            ),
        );
    }
}

/// Readers see what commands print: where a line `...` stands for lines that are left out, the fence says so.
#[test]
fn only_shortened_blocks_leave_lines_out() {
    for block in documents().iter().flat_map(|path| blocks(path)) {
        if !matches!(block.use_of(), Use::Execute | Use::Systemd) {
            continue;
        }
        let leaves_out = commands::examples(&block.text)
            .iter()
            .any(commands::Example::leaves_out);
        assert_eq!(
            leaves_out,
            block.is_shortened(),
            "{}: a block with a line `...` is `console shortened`; UPDATE_DOCUMENTS=1 records the output of others",
            block.place
        );
    }
}

/// Returns the help of a verb and of all verbs below it, such as `dead-letters list`.
fn help(verbs: &[&str]) -> String {
    let mut help = fndctl(&[verbs, &["--help"]].concat(), b"", &[]).out();
    let (_, below) = help.split_once("\nCommands:\n").unwrap_or_default();
    let below: Vec<String> = below
        .lines()
        .take_while(|line| !line.is_empty())
        // The rest of a long description is further to the right.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| *word != "help")
        .map(str::to_owned)
        .collect();
    for word in below {
        help += &self::help(&[verbs, &[&word]].concat());
    }
    help
}

/// Every verb and long option of fndctl that a page names is one.
#[test]
fn verbs_and_options_in_the_pages_exist() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split('`').skip(1).step_by(2).map(str::to_owned);
        for (verb, options) in code.flat_map(|code| commands::verbs(&code)) {
            let help = helps.entry(verb.clone()).or_insert_with(|| help(&[&verb]));
            assert!(help.contains("Usage:"), "{}: `fndctl {verb}`", path.display());
            for option in options {
                assert!(help.contains(&option), "{}: `fndctl {verb} {option}`", path.display());
            }
        }
    }
    assert!(helps.len() > 20, "{helps:?}");
}

/// Returns the pages for people who change fnd: they are not in the list of pages, the man pages and the HTML.
fn pages_for_contributors() -> Vec<PathBuf> {
    let design = fs::read_dir(repository().join("docs/design")).unwrap();
    let mut paths: Vec<PathBuf> = design.map(|entry| entry.unwrap().path()).collect();
    paths.extend(["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| repository().join(page)));
    paths
}

/// Links between documents have a target.
#[test]
fn links_lead_somewhere() {
    for path in documents().into_iter().chain(pages_for_contributors()) {
        let text = fs::read_to_string(&path).unwrap();
        for part in text.split("](").skip(1) {
            let Some(target) = part
                .split([')', '#'])
                .next()
                .filter(|t| !t.is_empty() && !t.contains("://"))
            else {
                continue;
            };
            assert!(
                path.parent().unwrap().join(target).exists(),
                "{}: {target}",
                path.display()
            );
        }
    }
}

/// A new page takes its room from others, or nobody reads them all.
#[test]
fn the_documents_have_at_most_60_000_words() {
    let pages = documents();
    let words = |path: &PathBuf| fs::read_to_string(path).unwrap().split_whitespace().count();
    let count: usize = pages.iter().map(words).sum();
    assert!(count <= 60_000, "the pages together have {count} words");
}

/// Nobody has to read more to begin.
#[test]
fn the_first_week_is_seven_pages_of_at_most_6_000_words() {
    let list = fs::read_to_string(repository().join("docs/README.md")).unwrap();
    let (_, week) = list.split_once("## Begin: the first week\n").unwrap();
    let (week, _) = week.split_once("\n## ").unwrap();
    let pages: Vec<&str> = week
        .split("](")
        .skip(1)
        .filter_map(|part| part.split(')').next())
        .collect();
    assert_eq!(pages.len(), 7, "{pages:?}");
    let text = |page: &&str| fs::read_to_string(repository().join("docs").join(page)).unwrap();
    let count: usize = pages.iter().map(|page| text(page).split_whitespace().count()).sum();
    assert!(count <= 6_000, "the pages of the first week have {count} words");
}

/// A reader who saves the functions of one page after the other has no two files with one name.
#[test]
fn functions_of_the_first_pages_do_not_collide() {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for page in [
        "first-steps",
        "writing-functions",
        "handlers",
        "schedules",
        "webhooks",
        "senders",
        "secrets",
        "releases",
    ] {
        let path = repository().join(format!("docs/{page}.md"));
        for block in blocks(&path) {
            let Use::Save(file) = block.use_of() else { continue };
            let (name, _) = file.split_once('.').unwrap_or((file.as_str(), ""));
            let before = files.entry(name.to_owned()).or_insert_with(|| file.clone());
            assert_eq!(*before, file, "{}", block.place);
        }
    }
    assert!(files.len() > 10, "{files:?}");
}

/// A page says what there is. The list of all keys is made of their table, and marks keys of later versions.
#[test]
fn pages_promise_nothing() {
    for path in documents().iter().filter(|path| !path.ends_with("docs/reference.md")) {
        let text = fs::read_to_string(path).unwrap().to_lowercase();
        for words in ["not yet", "not built"] {
            assert!(!text.contains(words), "{}: {words}", path.display());
        }
    }
}

/// Adds the paths of all code below a directory.
fn code_files(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && name != "target" {
                code_files(&entry.path(), found);
            }
        } else if name.ends_with(".rs") {
            found.push(entry.path().display().to_string());
        }
    }
}

#[test]
fn files_of_code_that_pages_name_are_there() {
    let mut files = Vec::new();
    code_files(&repository(), &mut files);
    for path in documents().into_iter().chain(pages_for_contributors()) {
        let text = fs::read_to_string(&path).unwrap();
        for named in text
            .split('`')
            // `VERB.rs` stands for any file: the reader puts a name in the place of `VERB`.
            .filter(|word| {
                word.ends_with(".rs") && !word.contains(|letter: char| letter == ' ' || letter.is_uppercase())
            })
        {
            let end = format!("/{named}");
            assert!(
                files.iter().any(|file| file.ends_with(&end)),
                "{}: {named}",
                path.display()
            );
        }
    }
}

/// Each row of "what happens when" names tests that exist: `module::test`, for the virtual machine
/// `vm/module::scenario`, for the daemon alone `unit/file::test`.
#[test]
fn every_row_of_what_happens_names_its_tests() {
    let text = fs::read_to_string(repository().join("docs/restarts.md")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert!(rows.len() >= 15, "only {} rows were found", rows.len());
    for row in rows {
        let shown_by = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let tests: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "nothing shows: {row}");
        for test in tests {
            let (module, function) = test.rsplit_once("::").unwrap();
            let file = match module.split_once('/') {
                Some(("vm", scenarios)) => format!("tests/vm/scenarios/{scenarios}.rs"),
                Some(("unit", module)) => format!("daemon/src/{module}.rs"),
                _ => {
                    let file = format!("tests/it/{}.rs", module.replace("::", "/"));
                    let directory = file.replace(".rs", "/mod.rs");
                    let is_file = repository().join(&file).exists();
                    if is_file { file } else { directory }
                }
            };
            let source = fs::read_to_string(repository().join(&file)).unwrap_or_default();
            assert!(
                source.contains(&format!("fn {function}(")),
                "{file} has no {function}: {row}"
            );
        }
    }
}

/// The picture on the first page shows the columns that `fndctl status` has today, of functions that have run, failed and
/// are kept running; `scripts/pictures.sh` draws it.
#[test]
fn the_picture_shows_the_columns_of_today() {
    let svg = fs::read_to_string(repository().join("docs/pictures/status.svg")).unwrap();
    let mut text = String::new();
    for part in svg.split('<').skip(1) {
        text += part.split_once('>').map_or("", |(_, text)| text);
    }
    let drawn = text.lines().find(|line| line.contains("FUNCTION")).unwrap();
    let fnd = Fnd::start();
    let example = |name: &str| fs::read_to_string(repository().join("examples/functions").join(name)).unwrap();
    fnd.drop_file("ops/watch-root.sh", &example("ops/watch-root.sh"));
    let _ = fnd.wait_function("ops/watch-root", "to run", |function| function.running == 1);
    fnd.drop_file("disk-space.sh", &example("disk-space.sh"));
    let _ = fnd.wait_run("disk-space");
    // As wide as the picture.
    let environment: [(&str, &Path); 2] = [("FND_SOCKET", &fnd.socket()), ("COLUMNS", Path::new("100"))];
    let printed = fndctl(&["status"], b"", &environment).expect_code(0).out();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let today = words(printed.lines().next().unwrap());
    assert_eq!(words(drawn), today, "scripts/pictures.sh draws it anew");
    fnd.finish();
}
