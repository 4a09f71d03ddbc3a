//! Reads files of `KEY=VALUE` lines (`env_file`). Blank lines and lines that begin with `#` are ignored. A value may be
//! in single or double quotes; nothing in it is expanded.

use crate::diagnostic::Diagnostic;
use crate::schema::TextKind;
use crate::schema::read::at_most;
use crate::schema::source::Source;
use std::collections::BTreeMap;

/// Returns the variables of a file; the last line with a name counts.
///
/// # Errors
/// A diagnostic for every invalid line, up to the number that people read.
pub fn read(file: &str, bytes: &[u8]) -> Result<BTreeMap<String, String>, Vec<Diagnostic>> {
    let source = Source::whole(file, bytes).map_err(|problem| vec![*problem])?;
    let mut variables = BTreeMap::new();
    let mut problems = Vec::new();
    let mut position = 0;
    for line in source.toml.split_inclusive('\n') {
        let start = position;
        position += line.len();
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        // Files that a shell reads as well have this word.
        let text = text.strip_prefix("export ").unwrap_or(text);
        let pair = text
            .split_once('=')
            .filter(|(name, value)| TextKind::Variable.holds(name) && TextKind::Any.holds(value));
        match pair.and_then(|(name, value)| Some((name, unquoted(value)?))) {
            Some((name, value)) => {
                variables.insert(name.to_owned(), value.to_owned());
            }
            None => {
                let span = start..start + line.trim_end().len();
                let problem = Diagnostic::error("bad-value", "expected `KEY=VALUE`, a comment or an empty line");
                problems.push(problem.at(&source, span));
            }
        }
    }
    if problems.is_empty() {
        Ok(variables)
    } else {
        // The report must fit into an answer of the judge.
        Err(at_most(problems, file))
    }
}

/// Returns a value without its quotes; nothing where they are not closed.
fn unquoted(value: &str) -> Option<&str> {
    let value = value.trim();
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value
            .strip_prefix(quote)?
            .strip_suffix(quote)
            .filter(|inner| !inner.contains(quote)),
        _ => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::read::PROBLEMS_MAX;

    #[test]
    fn lines_are_variables() {
        let found = read("x.env", b"# c\n\nA=1\r\nexport B='x y'\nC=\"#\"\nD=\nA=a=b\n").unwrap();
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(found, [("A", "a=b"), ("B", "x y"), ("C", "#"), ("D", "")]);
    }

    #[test]
    fn every_bad_line_is_reported() {
        let problems = read("x.env", b"A=1\n1A=2\nB\nC='x\nD=\"a\"b\"\n").unwrap_err();
        let lines: Vec<u32> = problems
            .iter()
            .map(|problem| problem.place.as_ref().unwrap().line)
            .collect();
        assert_eq!(lines, [2, 3, 4, 5]);
        assert!(read("x.env", b"A=\xff\n").is_err());
    }

    /// The report must fit into a message of the judge.
    #[test]
    fn a_file_of_nothing_else_is_not_reported_line_by_line() {
        let problems = read("x.env", "x\n".repeat(100_000).as_bytes()).unwrap_err();
        assert_eq!(problems.len(), PROBLEMS_MAX + 1);
        assert_eq!(problems[PROBLEMS_MAX].code, "more");
    }
}
