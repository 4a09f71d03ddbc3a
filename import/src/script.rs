//! The code of an imported function: a shell script of a few lines, and the script that it starts.

use super::places::ShownPlaces;
use fnd_manifest::foreign::{MadeManifest, WholeFile};
use fnd_manifest::regular_file;
use std::io::Read as _;
use std::path::Path;

/// Returns a word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The largest script that is copied.
const SCRIPT_MAX: u64 = 1 << 20;

/// Directories of programs that packages bring: they stay where they are.
const PACKAGED: &str = "/bin/ /sbin/ /lib/ /usr/bin/ /usr/sbin/ /usr/lib/ /usr/libexec/ /usr/share/";

/// Returns the bytes of a script that is copied; nothing for a program that stays where it is.
pub(crate) type ReadScript = fn(&str) -> Option<Vec<u8>>;

/// Every program stays where it is.
pub(crate) const LINK: ReadScript = |_| None;

/// Returns how scripts come along: by links, or as copies.
pub(crate) fn reader(link: bool) -> ReadScript {
    if link { LINK } else { read }
}

/// The script of a function.
#[derive(Debug)]
pub(crate) struct ScriptCode {
    /// The program that reads it.
    shell: String,
    lines: Vec<String>,
    /// The files beside it.
    files: Vec<WholeFile>,
    /// The paths that the script needs to see.
    pub(crate) places: ShownPlaces,
}

impl ScriptCode {
    /// Returns a script without commands for a shell, such as `/bin/sh`.
    pub(crate) fn new(shell: &str) -> Self {
        Self {
            shell: shell.to_owned(),
            lines: Vec::new(),
            files: Vec::new(),
            places: ShownPlaces::default(),
        }
    }

    pub(crate) fn line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Makes the script begin in a directory.
    pub(crate) fn begin_in(&mut self, directory: &str) {
        self.places.add(directory, false);
        self.line(format!("cd {} || exit", quoted(directory)));
    }

    /// Ends the script with a program, which replaces the shell: so it gets the signals itself.
    pub(crate) fn exec(&mut self, words: &[String]) {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        self.line(format!("exec {}", words.join(" ")));
    }

    /// Returns the word that starts a program: its path or name, or the path of its copy, `"$code/NAME"`.
    pub(crate) fn program(&mut self, path: &str, read: ReadScript) -> String {
        let Some(bytes) = read(path) else {
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
        self.beside(&file, bytes)
    }

    /// Adds an executable file; returns the word that names it. The first one of a name stays.
    pub(crate) fn beside(&mut self, file: &str, bytes: Vec<u8>) -> String {
        if self.files.iter().all(|known| known.path != file) {
            self.files.push(WholeFile::program(file, bytes));
        }
        format!("\"$code\"/{}", quoted(file))
    }

    /// Writes script, entry and places to a function; returns a note with `what` it becomes, and the places.
    pub(crate) fn put_noted(self, made: &mut MadeManifest, what: &str) -> String {
        let is_alone = self.files.is_empty();
        let copied = if is_alone { "" } else { "the script was copied; " };
        let places = self.put(made);
        format!("{copied}{what}{places}")
    }

    /// Writes script, entry and places to a function; returns what a note says about the places.
    pub(crate) fn put(self, made: &mut MadeManifest) -> String {
        let bash = self.shell.rsplit('/').next() == Some("bash");
        let shell = if bash { "/usr/bin/env bash" } else { &self.shell };
        let mut text = format!("#!{shell}\n");
        if !self.files.is_empty() {
            // The lines below leave the directory of the code, so its path is kept first.
            text.push_str("code=$PWD\n");
        }
        text.extend(self.lines.iter().flat_map(|line| [line.as_str(), "\n"]));
        let file = if bash { "run.sh" } else { "run" };
        made.manifest.set("entry", file, None);
        // Of the shells only bash is a runtime; another one is started by the `#!` line.
        if !bash {
            made.manifest.set("runtime", "exec", None);
        }
        made.files.push(WholeFile::program(file, text));
        made.files.extend(self.files);
        self.places.put(made)
    }
}

/// Reads a script that belongs to nobody's package: a regular file with a `#!` line, of at most 1 MiB.
fn read(path: &str) -> Option<Vec<u8>> {
    if !path.starts_with('/') || PACKAGED.split(' ').any(|directory| path.starts_with(directory)) {
        return None;
    }
    let path = Path::new(path);
    // A FIFO, or a lease on the file, must not make the import wait.
    let opened = regular_file::open(path).ok()?;
    let size = opened.metadata().ok()?.len();
    let mut bytes = Vec::new();
    // The file may grow while it is read, so the bytes are bounded, too.
    opened.take(SCRIPT_MAX + 1).read_to_end(&mut bytes).ok()?;
    (size <= SCRIPT_MAX && bytes.len() as u64 <= SCRIPT_MAX && bytes.starts_with(b"#!")).then_some(bytes)
}

/// Says whether a text is a mask of file modes, such as `022`.
pub(crate) fn is_mask(text: &str) -> bool {
    !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| (b'0'..=b'7').contains(&b))
}

/// Returns the words of a command line, if it is one command without anything that a shell would change: no quotes,
/// variables, patterns, redirections.
pub(crate) fn simple(command: &str) -> Option<Vec<&str>> {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c) || c == ' ' || c == '\t';
    let words: Vec<&str> = command.split_whitespace().collect();
    // `A=b x` sets a variable, but behind `exec` it would name a program.
    let is_program = |word: &&str| !word.contains('=') && !BUILTINS.contains(word);
    (command.chars().all(plain) && words.first().is_some_and(is_program)).then_some(words)
}

/// Commands of a shell for which there is no program, so that `exec` would find none.
const BUILTINS: [&str; 8] = [".", ":", "command", "eval", "exec", "source", "trap", "wait"];

/// Splits a command line as a shell does, but without variables, patterns and redirections; nothing if a quote is open.
pub(crate) fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', Some('"')) => {
                let next = chars.next()?;
                let text = word.get_or_insert_default();
                // Between double quotes a backslash stays, unless it protects a quote or another backslash.
                if next != '"' && next != '\\' {
                    text.push('\\');
                }
                text.push(next);
            }
            ('\\', None) => word.get_or_insert_default().push(chars.next()?),
            ('"' | '\'', None) => {
                quote = Some(c);
                // A pair of quotes with nothing between is a word, too.
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        let words = split(r#"a 'b c' "d \"e\" \n" f\ g "" "#).unwrap();
        assert_eq!(words, ["a", "b c", "d \"e\" \\n", "f g", ""]);
        assert!(split("'a").is_none() && split("a\\").is_none());
    }

    #[test]
    fn only_one_command_without_anything_special_is_simple() {
        assert_eq!(simple("/opt/x.sh --all a=b"), Some(vec!["/opt/x.sh", "--all", "a=b"]));
        for command in ["a | b", "a > b", "a *", "A=b c", "a $b", "'a'", "exec a", ". /a", ""] {
            assert_eq!(simple(command), None, "{command}");
        }
    }

    #[test]
    fn scripts_of_packages_and_other_things_than_scripts_are_not_copied() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(path("a.sh"), "#!/bin/sh\n").unwrap();
        std::fs::write(path("text"), "hello\n").unwrap();
        assert!(read(&path("a.sh")).is_some());
        for other in [
            path("text"),
            path("none"),
            path(""),
            "a.sh".to_owned(),
            "/usr/bin/ldd".to_owned(),
        ] {
            assert!(read(&other).is_none(), "{other}");
        }
    }
}
