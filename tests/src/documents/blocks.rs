//! Reads the fenced blocks of the pages, and says what the test does with each.

use crate::programs::repository;
use std::fs;
use std::path::{Path, PathBuf};

/// Reasons why no test of pages can execute the commands of a block, by the second word of its fence.
pub const NEEDS: [(&str, &str); 4] = [
    (
        "needs-login",
        "it needs a person: a login session, an editor, or a second machine",
    ),
    (
        "needs-package",
        "it installs or removes the package: scripts/test-deb.sh",
    ),
    ("needs-checkout", "it builds the project: `.ci/run` does"),
    ("needs-network", "it reaches another machine"),
];

/// The need of commands that the virtual machine executes.
pub const SYSTEMD: &str = "needs-systemd";

/// The word after `console` where lines `...` stand for lines that come and go, or are too many for a page.
const SHORTENED: &str = "shortened";

/// Suffixes of files whose content is a function, by the language of a block.
const LANGUAGES: [(&str, &str); 4] = [
    ("bash", "sh"),
    ("python", "py"),
    ("typescript", "ts"),
    ("javascript", "cjs"),
];

/// A fenced block of a page.
pub struct Block {
    /// The words after its fence: `toml`, `console needs-systemd`.
    pub kind: String,
    /// The lines between its fences.
    pub text: String,
    /// The page and the line of the fence.
    pub place: String,
    /// The line of the page where its text begins, from 0.
    pub begin: usize,
    /// The blanks before each of its lines.
    pub indent: usize,
}

/// New lines of a page.
pub struct Recording {
    /// The first line that goes, from 0.
    pub begin: usize,
    /// How many lines go.
    pub count: usize,
    pub lines: Vec<String>,
}

/// The test's treatment of a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Use {
    /// Runs its commands and compares what they print.
    Execute,
    /// Runs its commands in the virtual machine. Here only checks that the verbs and options of `fndctl` in it exist.
    Systemd,
    /// Only checks that the verbs and options of `fndctl` in it exist; the reason.
    Skip(&'static str),
    /// Saves it as this file of a functions directory.
    Save(String),
    /// Saves it as this unit of systemd.
    Unit(String),
    /// Checks it as an `fnd.toml`; saves it too where it is `applied`.
    Configure {
        /// Whether the commands below need it.
        applied: bool,
    },
    /// Checks it as a function or manifest with this suffix.
    Validate(&'static str),
    /// Nothing: text, a picture, the file of another program; or the conformance suite uses it.
    Show,
}

impl Block {
    /// Returns whether its lines `...` stay when outputs are recorded.
    pub fn is_shortened(&self) -> bool {
        self.kind.ends_with(SHORTENED)
    }

    /// Returns what the test does with the block.
    ///
    /// # Panics
    /// When its fence does not say so.
    pub fn use_of(&self) -> Use {
        let words: Vec<&str> = self.kind.split(' ').collect();
        let known = |language: &str| LANGUAGES.iter().find(|(name, _)| *name == language);
        match words.as_slice() {
            ["console"] | ["console", SHORTENED] => Use::Execute,
            ["console", SYSTEMD] => Use::Systemd,
            ["ini", file] if *file != "before" => Use::Unit((*file).to_owned()),
            [_, need] if let Some((_, why)) = NEEDS.iter().find(|(name, _)| name == need) => Use::Skip(why),
            ["console", need] => panic!("{}: `{need}` is no reason that the test knows", self.place),
            ["toml", "fnd.toml"] => Use::Configure { applied: false },
            ["toml", "fnd.toml", "applied"] => Use::Configure { applied: true },
            // The runtime of docs/new-runtime.md, which tests/conformance tests, and functions for it and .NET.
            ["toml", "runtime.toml"] | ["perl" | "csharp", ..] => Use::Show,
            // A file of another program, or plain text.
            ["text"] | [_, "before"] => {
                assert!(!self.text.contains("\n$ "), "{}: commands are `console`", self.place);
                Use::Show
            }
            ["toml"] => Use::Validate("toml"),
            [language] if let Some((_, suffix)) = known(language) => Use::Validate(suffix),
            [language, file] if known(language).is_some() || file.contains('.') => Use::Save((*file).to_owned()),
            _ => panic!(
                "{}: the test does not know what to do with a block `{}`: {NEEDS:?}, `text`, `LANGUAGE before`, `LANGUAGE FILE`",
                self.place, self.kind
            ),
        }
    }
}

/// Returns every page, README.md of the project among them.
pub fn documents() -> Vec<PathBuf> {
    let mut paths = vec![repository().join("README.md")];
    paths.extend(
        fs::read_dir(repository().join("docs"))
            .expect("the documents")
            .map(|entry| entry.expect("an entry of their directory").path()),
    );
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == "md"));
    paths.sort();
    paths
}

/// Returns the blocks of a page, without the indentation of their fences.
pub fn blocks(path: &Path) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open: Option<usize> = None;
    for (number, line) in fs::read_to_string(path).expect("a page").lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            open = open.is_none().then_some(indent);
            if open.is_some() {
                let page = path.strip_prefix(repository()).unwrap_or(path).display();
                found.push(Block {
                    kind: kind.trim().to_owned(),
                    text: String::new(),
                    place: format!("{page}:{}", number + 1),
                    begin: number + 1,
                    indent,
                });
            }
        } else if let (Some(indent), Some(block)) = (open, found.last_mut()) {
            block.text += line.get(indent..).unwrap_or_default();
            block.text.push('\n');
        }
    }
    found
}

/// Returns a page with the recordings of its blocks, which are in the order of the page.
pub fn rewritten(page: &str, recordings: &[Recording]) -> String {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    // The last one first: the lines before it keep their numbers.
    for recording in recordings.iter().rev() {
        let gone = recording.begin..recording.begin + recording.count;
        drop(lines.splice(gone, recording.lines.iter().cloned()));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_take_the_places_of_lines() {
        let recording = |begin, count, lines: &[&str]| Recording {
            begin,
            count,
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        let recordings = [
            recording(1, 1, &["x", "y"]),
            recording(3, 2, &[]),
            recording(5, 0, &["z"]),
        ];
        assert_eq!(rewritten("a\nb\nc\nd\ne\nf\n", &recordings), "a\nx\ny\nc\nz\nf\n");
    }
}
