//! Reads the `#!` line of a file.
//!
//! The kernel splits the line into an interpreter and one argument, `env -S` into more arguments. A carriage return at
//! the end is not part of the result, although the kernel would treat it as part of the interpreter's name.

/// A parsed `#!` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shebang {
    /// The interpreter: an absolute path, or a bare name if it was `env`'s argument.
    pub interpreter: String,
    /// Whether the interpreter was an argument of `env`.
    pub by_env: bool,
    /// The arguments of the interpreter, without those of `env`.
    pub arguments: Vec<String>,
    /// Whether the line ends in a carriage return.
    pub carriage_return: bool,
}

/// Longest line that is read; the kernel's own limit is 256.
const LINE_MAX: usize = 1024;

/// Directories in which a name after `env` is searched: the `PATH` of functions.
pub const PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

impl Shebang {
    /// Returns the `#!` line in a file's first bytes; a byte-order mark before it is skipped. Absent where there is no
    /// such line, or no interpreter in it.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let rest = bytes.strip_prefix(b"#!")?;
        let line = rest.get(..rest.len().min(LINE_MAX))?.split(|b| *b == b'\n').next()?;
        let line = std::str::from_utf8(line).ok()?;
        let carriage_return = line.ends_with('\r');
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        let interpreter = words.next()?;
        let mut arguments: Vec<String> = words.collect();
        if base_name(&interpreter) != "env" {
            return Some(Self {
                interpreter,
                by_env: false,
                arguments,
                carriage_return,
            });
        }
        // `env -S name args`, `env --split-string=name args`, `env name`. Variables that `env` would set (`env A=1
        // name`) are not read: the first word counts as the interpreter, and `A=1` is none.
        if let Some(first) = arguments.first_mut() {
            let split = first
                .strip_prefix("--split-string=")
                .or_else(|| first.strip_prefix("-S"));
            if let Some(rest) = split.map(str::to_owned) {
                *first = rest;
            }
        }
        // In `-S name` the option is a word of its own, of which nothing is left.
        arguments.retain(|argument| !argument.is_empty());
        if arguments.is_empty() {
            return None;
        }
        let interpreter = arguments.remove(0);
        Some(Self {
            interpreter,
            by_env: true,
            arguments,
            carriage_return,
        })
    }

    /// Returns the last component of the interpreter.
    #[must_use]
    pub fn base_name(&self) -> &str {
        base_name(&self.interpreter)
    }

    /// Returns the possible absolute paths of the interpreter, in order; empty if it is a relative path.
    #[must_use]
    pub fn places(&self) -> Vec<String> {
        if self.interpreter.starts_with('/') {
            vec![self.interpreter.clone()]
        } else if self.by_env && !self.interpreter.contains('/') {
            PATH.iter()
                .map(|directory| format!("{directory}/{}", self.interpreter))
                .collect()
        } else {
            Vec::new()
        }
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Says whether a program is a script of bash whose `#!` line names `sh`.
#[must_use]
pub fn is_bash_for_sh(program: &[u8]) -> bool {
    // A compiled program can be large.
    if !program.starts_with(b"#!") {
        return false;
    }
    let text = String::from_utf8_lossy(program);
    let mut lines = text.lines();
    let mut interpreter = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("#!")
        .split_whitespace();
    let is_of_bash = |line: &str| line.starts_with("source ") || line.contains("[[ ") || line.contains("pipefail");
    interpreter.any(|word| word == "sh" || word.ends_with("/sh"))
        && lines
            .map(str::trim_start)
            .any(|line| !line.starts_with('#') && is_of_bash(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_as_the_kernel_and_env_do() {
        let check = |line: &str, interpreter: &str, by_env: bool, arguments: &[&str]| {
            let found = Shebang::of(line.as_bytes()).expect(line);
            assert_eq!(
                (found.interpreter.as_str(), found.by_env),
                (interpreter, by_env),
                "{line}"
            );
            assert_eq!(found.arguments, arguments, "{line}");
        };
        check("#!/bin/bash\n", "/bin/bash", false, &[]);
        check("#! /bin/bash -e\nx", "/bin/bash", false, &["-e"]);
        check("#!/bin/bash -e\r\nx", "/bin/bash", false, &["-e"]);
        check("\u{feff}#!/bin/sh", "/bin/sh", false, &[]);
        check("#!/usr/bin/env bash\n", "bash", true, &[]);
        check(
            "#!/usr/bin/env -S deno run --allow-net\n",
            "deno",
            true,
            &["run", "--allow-net"],
        );
        check("#!/usr/bin/env -Sdeno run\n", "deno", true, &["run"]);
        check("#!/srv/app/venv/bin/python\n", "/srv/app/venv/bin/python", false, &[]);
    }

    #[test]
    fn what_names_no_interpreter_is_none() {
        for text in ["", "#", "#!", "#! \n", "# !/bin/sh", "#!/usr/bin/env\n", "#!\u{0}\n\n"] {
            assert!(
                Shebang::of(text.as_bytes()).is_none_or(|s| s.places().is_empty()),
                "{text:?}"
            );
        }
        assert_eq!(Shebang::of(b"#!\xff/bin/sh\n"), None);
    }

    #[test]
    fn a_script_of_bash_that_names_sh_is_recognised() {
        for (script, expected) in [
            ("#!/bin/sh\nset -euo pipefail\n", true),
            ("#!/bin/sh -e\n  source ./lib.sh\n", true),
            ("#!/usr/bin/env sh\nif [[ -n $A ]]; then\n", true),
            ("#!/bin/bash\nset -euo pipefail\n", false),
            ("#!/bin/sh\n# pipefail is of bash\nset -eu\n", false),
            ("\x7fELF pipefail", false),
        ] {
            assert_eq!(is_bash_for_sh(script.as_bytes()), expected, "{script}");
        }
    }
}
