//! The mistakes that people make, and what fnd says then. Each message has the fix in it.
//!
//! `said.txt` is what a person sees, at 80 columns, and at 200 where that differs. `UPDATE_SNAPSHOTS=1` writes it anew.
//!
//! Files:
//! - `commands`: mistakes on the command line
//! - `files`: mistakes in names, modes and content of files
//! - `keys`: mistakes in manifests
//! - `runs`: functions that fail
//! - `terminal`: runs `fndctl` on a terminal

mod commands;
mod files;
mod keys;
mod runs;
mod terminal;

use fnd_tests::ctl::{Run, fndctl};
use fnd_tests::programs::repository;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fmt::Write as _;
use std::path::Path;

type Words = &'static [&'static str];

/// Files in the functions directory: path, content and mode.
type Files = &'static [(&'static str, &'static str, u32)];

struct Mistake {
    /// The mistake in words.
    what: &'static str,
    /// The files that the person saves.
    files: Files,
    /// The commands that the person tries; `DIR` is the functions directory.
    tries: Words,
    /// The words that tell how to mend it.
    fix: Words,
}

impl Mistake {
    const fn new(what: &'static str, files: Files, tries: Words, fix: Words) -> Self {
        Self {
            what,
            files,
            tries,
            fix,
        }
    }
}

#[test]
fn the_message_of_each_mistake_has_the_fix_in_it() {
    require!(deno, root, cgroup);
    let fnd = Fnd::start();
    fnd.drop_file(
        "hello.py",
        "def handler(event, context):\n    return {\"hello\": event[\"data\"]}\n",
    );
    fnd.wait_ready("hello");
    let all = [commands::ALL, files::ALL, keys::ALL, runs::ALL];
    let (mut said, mut faults) = (String::new(), String::new());
    for (number, mistake) in all.into_iter().flatten().enumerate() {
        one(&fnd, number + 1, mistake, &mut said, &mut faults);
    }
    let path = repository().join("tests/it/mistakes/said.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &said).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (now, before)) in said.split("\n## ").zip(kept.split("\n## ")).enumerate() {
        if now != before {
            writeln!(
                faults,
                "mistake {number} is answered differently: {now}\n--- before: {before}"
            )
            .unwrap();
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert_eq!(said.len(), kept.len(), "there are more or fewer mistakes than before");
    fnd.finish();
}

/// Makes one mistake and undoes it.
fn one(fnd: &Fnd, number: usize, mistake: &Mistake, said: &mut String, faults: &mut String) {
    let directory = fnd.path("functions").display().to_string();
    for (path, content, mode) in mistake.files {
        fnd.drop_bytes(path, content.as_bytes(), *mode);
    }
    writeln!(said, "\n## {number}. {}", mistake.what).unwrap();
    for (path, content, mode) in mistake.files {
        let mode = if *mode == 0o644 {
            String::new()
        } else {
            format!(" (mode {mode:o})")
        };
        writeln!(said, "{path}{mode}: {:?}", content.get(..60).unwrap_or(content)).unwrap();
    }
    let mut all = String::new();
    for line in mistake.tries {
        let words = words(&line.replace("DIR", &directory));
        let mut narrow = shown(fnd, &run(fnd, &words, "80"));
        if line == &"reload" {
            // On a busy machine fnd has seen the file by itself, and nothing is left to apply.
            let kept: Vec<_> = narrow.lines().filter(|line| !line.ends_with(": applied")).collect();
            narrow = kept.join("\n");
        }
        writeln!(said, "$ fndctl {line}\n{narrow}").unwrap();
        all += &narrow;
        all += "\n";
        // A second reload names only what changed since the first.
        if line != &"reload" {
            widths(fnd, &words, &narrow, said, faults);
        }
    }
    let joined = all.split_whitespace().collect::<Vec<_>>().join(" ");
    for needle in mistake.fix {
        if !joined.contains(needle) {
            writeln!(faults, "{number}. {}: no {needle:?} in:\n{all}", mistake.what).unwrap();
        }
    }
    if !mistake.files.is_empty() {
        for (path, ..) in mistake.files {
            fnd.remove(path);
        }
        for (path, ..) in mistake.files {
            if let Some((directory, _)) = path.split_once('/') {
                let _ = std::fs::remove_dir_all(fnd.path("functions").join(directory));
            }
        }
        wait_until(mistake.what, PATIENCE, || {
            let gone = fnd.ctl(&["reload"]).code == 0 && fnd.ctl(&["status", "-o", "name"]).out() == "hello\n";
            gone.then_some(())
        });
    }
}

/// Shows a command at 200 columns if that differs, and checks that colours change nothing else.
fn widths(fnd: &Fnd, words: &[String], narrow: &str, said: &mut String, faults: &mut String) {
    let wide = shown(fnd, &run(fnd, words, "200"));
    if wide != narrow {
        writeln!(said, "(at 200 columns)\n{wide}").unwrap();
    }
    let plain = terminal::text(fnd, words, true);
    let coloured = terminal::text(fnd, words, false);
    if plain.contains("\x1b[") {
        writeln!(faults, "{words:?}: there are colours in spite of NO_COLOR: {plain:?}").unwrap();
    }
    if shown_text(fnd, &terminal::without_colours(&coloured)) != shown_text(fnd, &plain) {
        writeln!(faults, "{words:?}: with colours the text differs: {coloured:?}").unwrap();
    }
}

fn run(fnd: &Fnd, words: &[String], columns: &str) -> Run {
    let socket = fnd.socket();
    let environment = [("FND_SOCKET", socket.as_path()), ("COLUMNS", Path::new(columns))];
    fndctl(words, b"", &environment)
}

/// Splits a command line at its spaces; single quotes hold a word together.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let split = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    split.collect()
}

/// Returns what a person sees of a run, without what differs from run to run.
fn shown(fnd: &Fnd, run: &Run) -> String {
    let mut text = run.out() + &run.stderr;
    if run.code != 0 {
        write!(text, "(exit {})", run.code).unwrap();
    }
    shown_text(fnd, &text)
}

/// Replaces the private directory and ids. Lines of progress are left out: a busy machine alone shows them, and on a terminal only.
fn shown_text(fnd: &Fnd, text: &str) -> String {
    let root = fnd.path("").display().to_string();
    let root = root.trim_end_matches('/');
    let text = text
        .replace(&format!("{root}/functions"), "/etc/fnd/functions")
        .replace(root, "/fnd");
    let kept = text.lines().filter(|line| !is_progress(line));
    let lines = kept.map(|line| {
        let words = line.split(' ').map(|word| if is_id(word) { "ID" } else { word });
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn is_progress(line: &str) -> bool {
    let runs = line.starts_with("running ") && line.ends_with(" ...");
    let waits = line.starts_with("waiting for its turn: ") && line.ends_with(" queued");
    runs || waits
}

fn is_id(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    word.len() == 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4
}
