//! Checks that the documents are true: fnd accepts every example in them.

use fnd_tests::ctl::fndctl;
use fnd_tests::programs::{program, promtool, repository};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A fenced block of a document.
struct Block {
    /// The words after its fence: `toml`, `toml fnd.toml`.
    kind: String,
    text: String,
    place: String,
}

fn documents() -> Vec<PathBuf> {
    let mut paths = vec![repository().join("README.md")];
    paths.extend(
        fs::read_dir(repository().join("docs"))
            .unwrap()
            .map(|entry| entry.unwrap().path()),
    );
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == "md"));
    paths.sort();
    paths
}

fn blocks(path: &Path) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
        if let Some(kind) = line.strip_prefix("```") {
            open = !open;
            if open {
                let place = format!("{}:{}", path.file_name().unwrap().to_string_lossy(), number + 1);
                found.push(Block {
                    kind: kind.trim().to_owned(),
                    text: String::new(),
                    place,
                });
            }
        } else if let Some(block) = found.last_mut().filter(|_| open) {
            block.text += line;
            block.text.push('\n');
        }
    }
    found
}

/// A block `toml` is a manifest; `bash`, `python` and `typescript` with a manifest block inside are functions.
#[test]
fn every_example_is_valid() {
    let mut checked = 0;
    for block in documents().iter().flat_map(|path| blocks(path)) {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        match block.kind.as_str() {
            "toml" => {
                // Manifests are checked with a deno script, for which most keys are valid; those with a pool with a
                // python handler.
                fs::write(file("example.toml"), &block.text).unwrap();
                if block.text.lines().any(|line| line == "[pool]") {
                    fs::write(file("example.py"), "def handler(event, context): return 1\n").unwrap();
                } else {
                    fs::write(file("example.ts"), "console.log(1);\n").unwrap();
                }
            }
            "bash" | "python" | "typescript" if block.text.contains("/// fnd") => {
                let suffix = match block.kind.as_str() {
                    "bash" => "sh",
                    "python" => "py",
                    _ => "ts",
                };
                fs::write(file(&format!("example.{suffix}")), &block.text).unwrap();
            }
            _ => continue,
        }
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

/// The functions in these pages are installed (the comment `# file:` names each), their commands run in order, and must
/// print what the page shows, except for lines after `...`.
#[test]
fn what_the_pages_show_is_what_comes_out() {
    for page in ["history.md", "dead-letters.md"] {
        let fnd = fnd_tests::Fnd::start();
        let mut script = String::new();
        let mut expected = Vec::new();
        for block in blocks(&repository().join("docs").join(page)) {
            let named = block.text.lines().find_map(|line| line.strip_prefix("# file: "));
            if let Some(name) = named.filter(|_| block.kind == "bash") {
                fnd.drop_file(name, &block.text);
                let _ = fnd.wait_ready(name.trim_end_matches(".sh"));
            }
            let mut compared = true;
            for line in block.text.lines().filter(|_| block.kind == "console") {
                if let Some(command) = line.strip_prefix("$ ") {
                    script += &format!("{command}\n");
                    compared = true;
                } else {
                    compared &= line != "...";
                    expected.extend(compared.then(|| line.to_owned()));
                }
            }
        }
        assert!(script.lines().count() > 5, "{page}");
        let programs = fnd_tests::programs::program("fndctl");
        let path = format!("{}:/usr/bin:/bin", programs.parent().unwrap().display());
        let output = std::process::Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .env_clear()
            .env("PATH", path)
            .env("FND_SOCKET", fnd.socket())
            .output()
            .unwrap();
        let (out, error) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{page}: {out}{error}");
        // Columns are as wide as their content, so runs of blanks are compared as one.
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut shown = out.lines().map(words);
        for line in &expected {
            let wanted = words(line);
            assert!(
                shown.any(|line| line == wanted),
                "{page}: `{line}` does not follow in\n{out}"
            );
        }
        fnd.finish();
    }
}

#[test]
fn commands_of_the_page_of_events_answer_as_shown() {
    commands_answer_as_shown("events");
}

#[test]
fn commands_of_the_page_of_metrics_answer_as_shown() {
    require!(promtool);
    commands_answer_as_shown("metrics");
}

/// Checks that the commands in a document print the text below them; `...` stands for any text, also for lines.
fn commands_answer_as_shown(name: &str) {
    let address = crate::metrics::free_address().to_string();
    let config = format!("[metrics]\nlisten = \"{address}\"\n");
    let fnd = Fnd::start_with(&Setup::default().config(&config));
    let document = repository().join(format!("docs/{name}.md"));
    // The functions are those of the document of events.
    let functions = blocks(&repository().join("docs/events.md"));
    for (kind, file) in [("python", "hello.py"), ("bash", "flaky.sh")] {
        let block = functions.iter().find(|block| block.kind == kind).unwrap();
        fnd.drop_file(file, &block.text);
        fnd.wait_ready(file.split('.').next().unwrap());
    }
    let programs = [Some(program("fndctl")), promtool()].into_iter().flatten();
    let mut path: String = programs
        .map(|program| format!("{}:", program.parent().unwrap().display()))
        .collect();
    path += "/usr/bin:/bin";
    let run = |command: &str, seconds: u64| {
        let command = command.replace("127.0.0.1:9640", &address);
        let command = command.replace("/run/fnd/control.sock", &fnd.socket().display().to_string());
        let mut bash = Command::new("timeout");
        bash.args([&seconds.to_string(), "bash", "-c", &command]);
        bash.current_dir(repository());
        bash.env("PATH", &path).env("FND_SOCKET", fnd.socket());
        let output = bash.output().unwrap();
        // Commands that follow without end are ended by the test.
        let ended = output.status.code() == Some(124) && command.contains(" -f");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || ended, "$ {command}\n{printed}");
        printed
    };
    let consoles = blocks(&document).into_iter().filter(|block| block.kind == "console");
    let mut commands = 0;
    for block in consoles {
        for example in block.text.split("$ ").skip(1) {
            let (command, expected) = example.split_once('\n').unwrap();
            let missing = |printed: &str| {
                let mut lines = printed.lines();
                let mut wanted = expected.lines();
                wanted.find(|wanted| !lines.any(|line| is_like(line, wanted)))
            };
            // A command that follows does not end by itself; on a busy machine its output takes longer.
            let patience = PATIENCE.as_secs();
            let follows = command.contains(" -f");
            let tries = if follows { vec![2, 10, patience] } else { vec![patience] };
            let mut printed = String::new();
            for seconds in tries {
                printed = run(command, seconds);
                if missing(&printed).is_none() {
                    break;
                }
            }
            if let Some(wanted) = missing(&printed) {
                panic!(
                    "{}: `{wanted}` does not follow in the answer to $ {command}\n{printed}",
                    block.place
                );
            }
            commands += 1;
        }
    }
    assert!(commands >= 4, "{name}: {commands}");
    for block in blocks(&document).iter().filter(|block| block.kind == "toml fnd.toml") {
        fs::write(fnd.path("fnd.toml"), &block.text).unwrap();
        let status = fnd.command().arg("--check").status().unwrap();
        assert!(status.success(), "{}: {}", block.place, fnd.log());
    }
    fnd.finish();
}

/// Returns whether a line fits a pattern in which `...` stands for any text.
fn is_like(line: &str, wanted: &str) -> bool {
    let mut rest = line;
    for (number, part) in wanted.split("...").enumerate() {
        match rest.find(part) {
            Some(at) if number > 0 || at == 0 => rest = rest.get(at + part.len()..).unwrap_or(""),
            _ => return false,
        }
    }
    wanted.ends_with("...") || rest.is_empty()
}

/// Links between documents have a target.
#[test]
fn links_lead_somewhere() {
    let mut paths = documents();
    paths.push(repository().join("ARCHITECTURE.md"));
    for path in paths {
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
    let mut paths = documents();
    paths.push(repository().join("ARCHITECTURE.md"));
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        for named in text
            .split('`')
            .filter(|word| word.ends_with(".rs") && !word.contains(' '))
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
