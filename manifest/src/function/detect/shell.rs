//! Detects handlers in bash: a function `handler` in a file that only defines and assigns.
//!
//! Lines at the top level are checked one by one. A function's body reaches from its `{` to a `}` at the start of a
//! line; a file in another style is a script.

use super::lines;

pub(super) fn handler(text: &str) -> Option<(usize, &'static str)> {
    let mut found = None;
    let mut lines = lines(text).map(|(here, line)| (here, line.trim_end()));
    while let Some((here, line)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, body)) = definition(line) {
            if name == "handler" {
                found = Some((here, "handler()"));
            }
            let closed = body.starts_with('{') && body.ends_with('}') && body.len() > 1;
            if !closed && !lines.by_ref().any(|(_, line)| line == "}") {
                return None;
            }
        } else if !declares(line) {
            return None;
        }
    }
    found
}

/// Returns the name of the function that a line begins to define, and the part of the body on that line.
fn definition(line: &str) -> Option<(&str, &str)> {
    let (keyword, rest) = match line.strip_prefix("function ") {
        Some(rest) => (true, rest.trim_start()),
        None => (false, line),
    };
    // Unlike a variable, a function of bash may have `-` and `:` in its name.
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == ':'))?;
    let (name, rest) = rest.split_at(end);
    let rest = rest.trim_start();
    let (brackets, rest) = match rest.strip_prefix('(') {
        Some(inner) => (true, inner.trim_start().strip_prefix(')')?.trim_start()),
        None => (false, rest),
    };
    let body = rest.is_empty() || rest.starts_with('{');
    ((keyword || brackets) && body && !name.is_empty()).then_some((name, rest))
}

/// Says whether a line only sets variables and options: no command, and no substitution that runs one.
fn declares(line: &str) -> bool {
    let first = line.split_ascii_whitespace().next().unwrap_or_default();
    if matches!(
        first,
        "set" | "shopt" | "readonly" | "declare" | "typeset" | "export" | "umask" | "alias"
    ) {
        return plain(line);
    }
    let Some((name, value)) = line.split_once('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    // An unquoted blank after an assignment begins a command.
    let quoted = |quote: char| value.len() > 1 && value.starts_with(quote) && value.ends_with(quote);
    named && plain(line) && (!value.contains([' ', '\t']) || quoted('"') || quoted('\''))
}

fn plain(line: &str) -> bool {
    !line.contains("$(") && !line.contains(['`', ';', '|', '&', '<', '>'])
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;

    fn check(text: &str, expected: Option<u32>) {
        expect("bash", expected.map(|line| (line, "handler()")), text);
    }

    #[test]
    fn handlers_are_found() {
        check("#!/bin/bash\nset -euo pipefail\nhandler() {\n  echo hi\n}\n", Some(3));
        check("X=1\nfunction handler {\n  echo hi\n}\nhelper() { :; }\n", Some(2));
        check("handler() { echo hi; }\n", Some(1));
        check("A=\"x y\"\nhandler()\n{\n echo\n}\n", Some(2));
    }

    #[test]
    fn scripts_are_left_alone() {
        check("", None);
        check("echo hi\n", None);
        check("handler() {\n  echo hi\n}\nhandler\n", None);
        check("handler() {\n  echo hi\n}\nhandler \"$@\"\n", None);
        check("cat <<E\nhandler() {\n}\nE\n", None);
        check("X=$(date)\nhandler() {\n  echo hi\n}\n", None);
        check("X=1 run\nhandler() {\n}\n", None);
        check("handler() {\n  echo hi\n", None);
        check("trap handler EXIT\nhandler() {\n echo\n}\n", None);
    }
}
