//! Reads the fenced blocks of the pages, and says what the test does with each.

use fnd_tests::programs::repository;
use std::fs;
use std::path::{Path, PathBuf};

/// Reasons why a test of pages cannot execute the commands of a block, by the second word of its fence.
pub(crate) const NEEDS: [(&str, &str); 4] = [
    (
        "needs-systemd",
        "systemd must run fnd: tests/vm and scripts/test-deb.sh do what can be done there",
    ),
    (
        "needs-package",
        "it installs or removes the package: scripts/test-deb.sh",
    ),
    ("needs-checkout", "it builds the project: `.ci/run` does"),
    ("needs-network", "it reaches another machine"),
];

/// Suffixes of files whose content is a function, by the language of a block.
const LANGUAGES: [(&str, &str); 4] = [
    ("bash", "sh"),
    ("python", "py"),
    ("typescript", "ts"),
    ("javascript", "cjs"),
];

/// A fenced block of a page.
pub(crate) struct Block {
    /// The words after its fence: `toml`, `console needs-systemd`.
    pub(crate) kind: String,
    pub(crate) text: String,
    /// The page and the line of the fence.
    pub(crate) place: String,
}

/// What the test does with a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Runs its commands and compares what they print.
    Execute,
    /// Only checks that the verbs and options of `fndctl` in it exist; the reason.
    Skip(&'static str),
    /// Saves it as this file of a functions directory.
    Save(String),
    /// Checks it as an `fnd.toml`; saves it too where it is `applied`.
    Configure { applied: bool },
    /// Checks it as a function or manifest with this suffix.
    Validate(&'static str),
    /// Nothing: text, a picture, the file of another program; or the conformance suite uses it.
    Show,
}

impl Block {
    /// Returns what the test does with the block.
    ///
    /// # Panics
    /// When its fence does not say so.
    pub(crate) fn use_of(&self) -> Use {
        let words: Vec<&str> = self.kind.split(' ').collect();
        let known = |language: &str| LANGUAGES.iter().find(|(name, _)| *name == language);
        match words.as_slice() {
            ["console"] => Use::Execute,
            ["console", need] => match NEEDS.iter().find(|(name, _)| name == need) {
                Some((_, why)) => Use::Skip(why),
                None => panic!("{}: `{need}` is no reason that the test knows", self.place),
            },
            ["toml", "fnd.toml"] => Use::Configure { applied: false },
            ["toml", "fnd.toml", "applied"] => Use::Configure { applied: true },
            // The runtime of docs/new-runtime.md: tests/conformance.
            ["toml", "runtime.toml"] | ["perl", ..] => Use::Show,
            // What another program has, or plain text.
            ["text"] | [_, "before"] => {
                assert!(!self.text.contains("\n$ "), "{}: commands are `console`", self.place);
                Use::Show
            }
            ["toml"] => Use::Validate("toml"),
            [language] if known(language).is_some() => Use::Validate(known(language).unwrap().1),
            [language, file] if known(language).is_some() || file.contains('.') => Use::Save((*file).to_owned()),
            _ => panic!(
                "{}: the test does not know what to do with a block `{}`: {NEEDS:?}, `text`, `LANGUAGE before`, `LANGUAGE FILE`",
                self.place, self.kind
            ),
        }
    }
}

/// Returns every page, README.md of the project among them.
pub(crate) fn documents() -> Vec<PathBuf> {
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

/// Returns the blocks of a page, without the indentation of their fences.
pub(crate) fn blocks(path: &Path) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open: Option<usize> = None;
    for (number, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            open = open.is_none().then_some(indent);
            if open.is_some() {
                let page = path.strip_prefix(repository()).unwrap().display();
                found.push(Block {
                    kind: kind.trim().to_owned(),
                    text: String::new(),
                    place: format!("{page}:{}", number + 1),
                });
            }
        } else if let (Some(indent), Some(block)) = (open, found.last_mut()) {
            block.text += line.get(indent..).unwrap_or_default();
            block.text.push('\n');
        }
    }
    found
}
