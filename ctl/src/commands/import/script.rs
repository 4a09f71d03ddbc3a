//! The code of an imported function: a shell script of a few lines, and the script that it starts.

use super::places::Places;
use crate::habits::quoted;
use fnd_manifest::foreign::{Made, MadeFile};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The largest script that is copied.
const SCRIPT_MAX: u64 = 1 << 20;

/// Directories of programs that packages bring: they stay where they are.
const PACKAGED: [&str; 8] = [
    "/bin/",
    "/sbin/",
    "/lib/",
    "/usr/bin/",
    "/usr/sbin/",
    "/usr/lib/",
    "/usr/libexec/",
    "/usr/share/",
];

/// How scripts come along.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scripts {
    /// Whether they stay where they are.
    pub(crate) link: bool,
    /// Reads a script, if it is one that can be copied.
    pub(crate) read: fn(&str) -> Option<Vec<u8>>,
}

/// The script of a function.
#[derive(Debug)]
pub(crate) struct Code {
    /// The program that reads it.
    shell: String,
    lines: Vec<String>,
    /// The files beside it.
    files: Vec<MadeFile>,
    /// What it needs to see.
    pub(crate) places: Places,
}

impl Code {
    /// Returns a script without commands for a shell, such as `/bin/sh`.
    pub(crate) fn new(shell: &str) -> Self {
        Self {
            shell: shell.to_owned(),
            lines: Vec::new(),
            files: Vec::new(),
            places: Places::default(),
        }
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Returns the word that starts a program: the path itself, or that of its copy, `"$code/NAME"`.
    pub(crate) fn program(&mut self, path: &str, scripts: Scripts) -> String {
        let copy = if scripts.link { None } else { (scripts.read)(path) };
        let Some(bytes) = copy else {
            self.places.add(path, false);
            return quoted(path);
        };
        let file = path.rsplit('/').next().unwrap_or(path);
        // The entry has one of these names.
        let file = if file == "run" || file == "run.sh" {
            format!("{file}.copy")
        } else {
            file.to_owned()
        };
        if self.files.iter().all(|known| known.path != file) {
            self.files.push(MadeFile {
                path: file.clone(),
                bytes,
                executable: true,
            });
        }
        format!("\"$code\"/{}", quoted(&file))
    }

    /// Says whether a script was copied.
    pub(crate) fn copied(&self) -> bool {
        !self.files.is_empty()
    }

    /// Writes script, entry and places to a function; returns what a note says about the places.
    pub(crate) fn put(self, made: &mut Made) -> String {
        let bash = self.shell.rsplit('/').next() == Some("bash");
        let mut text = if bash {
            "#!/usr/bin/env bash\n".to_owned()
        } else {
            format!("#!{}\n", self.shell)
        };
        if self.copied() {
            text.push_str("code=$PWD\n");
        }
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        let file = if bash { "run.sh" } else { "run" };
        made.manifest.set("entry", file, None);
        if !bash {
            made.manifest.set("runtime", "exec", None);
        }
        made.files.push(MadeFile {
            path: file.to_owned(),
            bytes: text.into_bytes(),
            executable: true,
        });
        made.files.extend(self.files);
        self.places.put(made)
    }
}

/// Reads a script that belongs to nobody's package: a regular file with a `#!` line, of at most 1 MiB.
pub(crate) fn read(path: &str) -> Option<Vec<u8>> {
    if !path.starts_with('/') || PACKAGED.iter().any(|directory| path.starts_with(directory)) {
        return None;
    }
    let path = Path::new(path);
    // Opening a FIFO would wait for a writer.
    let size = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(SCRIPT_MAX + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    (size <= SCRIPT_MAX && bytes.len() as u64 <= SCRIPT_MAX && bytes.starts_with(b"#!")).then_some(bytes)
}

/// Returns the words of a command line, if it is one command without anything that a shell would change: no quotes,
/// variables, patterns, redirections.
pub(crate) fn simple(command: &str) -> Option<Vec<&str>> {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c) || c == ' ' || c == '\t';
    let words: Vec<&str> = command.split_whitespace().collect();
    let assigns = words.first().is_none_or(|word| word.contains('='));
    (command.chars().all(plain) && !assigns).then_some(words)
}
