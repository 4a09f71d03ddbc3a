//! Finds out whether a file is a handler (docs/handlers.md). It neither runs nor parses the file.
//!
//! Each language has a scanner that knows just enough to separate code from strings, comments and here-documents. In
//! doubt a file is a script.
//!
//! Files:
//! - `go`: handlers in Go
//! - `java`: handlers in Java
//! - `javascript`: handlers in JavaScript and TypeScript
//! - `kubeless`: handlers of Kubeless, which may have any name
//! - `php`: handlers in PHP
//! - `python`: handlers in Python
//! - `ruby`: handlers in Ruby
//! - `ruby_blank`: Ruby without its strings and comments
//! - `shell`: handlers in bash

use super::project::is_standard;

mod go;
mod java;
mod javascript;
mod kubeless;
mod php;
mod python;
mod ruby;
mod ruby_blank;
mod shell;

/// A handler in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handler {
    /// Line of the handler, from 1.
    pub line: u32,
    /// The handler as people write it: `def handler`.
    pub what: &'static str,
    /// Whether the file serves HTTP itself: `export default { fetch }`.
    pub http: bool,
}

/// Returns the handler in a file of a runtime; absent if there is none.
#[must_use]
pub fn handler(runtime: &str, code: &[u8]) -> Option<Handler> {
    let text = String::from_utf8_lossy(code);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match runtime {
        "python" => python::handler(text),
        "deno" | "node" => javascript::handler(text),
        "go" => go::handler(text),
        "java" => java::handler(text),
        "php" => php::handler(text),
        "ruby" => ruby::handler(text),
        "bash" => shell::handler(text),
        _ => None,
    }
}

/// A function that looks like a handler, but is none because of its parameters or its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncalled {
    /// Its line, from 1.
    pub line: u32,
    /// The function as people write it: `def main`.
    pub what: String,
    /// The name of the function, without the words around it.
    pub name: String,
    /// The number of its parameters.
    pub parameters: usize,
    /// Whether its parameters are those of Kubeless, so that only its name is missing in the manifest.
    pub kubeless: bool,
}

/// Returns a function that looks like a handler, but is none; absent if anything in the file may call it.
#[must_use]
pub fn uncalled(runtime: &str, code: &[u8]) -> Option<Uncalled> {
    let text = String::from_utf8_lossy(code);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match runtime {
        "python" => python::uncalled(text),
        "php" => kubeless::uncalled(text, "function ", "$"),
        "ruby" => kubeless::uncalled(text, "def ", ""),
        _ => None,
    }
}

/// Returns the modules that a Python file imports and that do not belong to Python.
#[must_use]
pub fn imports(runtime: &str, code: &[u8]) -> Vec<String> {
    if runtime != "python" {
        return Vec::new();
    }
    let mut modules = python::imports(&String::from_utf8_lossy(code));
    modules.retain(|module| !is_standard(module));
    modules
}

/// Returns what a file in JavaScript or TypeScript imports, without imports of types alone.
#[must_use]
pub fn script_imports(code: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(code);
    javascript::imports(&text).into_iter().map(str::to_owned).collect()
}

/// Returns JSON without the comments and the last commas of lists.
#[must_use]
pub fn plain_json(text: &str) -> String {
    javascript::plain_json(text)
}

/// Says whether a `.js` file is CommonJS, which node runs and deno does not: it uses `module.exports` or `require(`.
#[must_use]
pub fn is_commonjs(code: &[u8]) -> bool {
    javascript::is_commonjs(&String::from_utf8_lossy(code))
}

/// Returns a text with blanks in place of what is no code, so that every byte keeps its position. `skip` returns how many of
/// the bytes that it gets are none: 0 for code.
fn blanked(text: &str, mut skip: impl FnMut(&[u8]) -> usize) -> Vec<u8> {
    let text = text.as_bytes();
    let mut result = Vec::with_capacity(text.len());
    while let Some(byte) = text.get(result.len()) {
        let skipped = skip(text.get(result.len()..).unwrap_or_default());
        if skipped == 0 {
            result.push(*byte);
        }
        result.resize((result.len() + skipped).min(text.len()), b' ');
    }
    result
}

/// Returns the length of a comment from `//` to the end of its line.
fn line_comment(code: &[u8]) -> usize {
    code.iter().position(|byte| *byte == b'\n').unwrap_or(code.len())
}

/// Returns the length of the string or the `/* */` comment that code begins with, 0 if it begins with neither.
fn skip_literal(code: &[u8], quotes: &[u8]) -> usize {
    if code.starts_with(b"/*") {
        let end = code.windows(2).skip(2).position(|bytes| bytes == b"*/");
        return end.map_or(code.len(), |end| end + 4);
    }
    let Some(quote) = code.first().filter(|byte| quotes.contains(byte)) else {
        return 0;
    };
    let mut escaped = false;
    let end = code.iter().skip(1).position(|byte| {
        let ends = !escaped && byte == quote;
        escaped = !escaped && *byte == b'\\';
        ends
    });
    end.map_or(code.len(), |end| end + 2)
}

/// Says whether a byte can be part of a name.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Returns the line of a position, from 1.
fn line_of(text: &str, position: usize) -> u32 {
    let before = text.as_bytes().get(..position).unwrap_or_default();
    u32::try_from(before.iter().filter(|b| **b == b'\n').count()).map_or(u32::MAX, |lines| lines.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::Handler;

    /// Compares a detected handler with the expected line and words.
    #[track_caller]
    pub(super) fn expect(found: Option<Handler>, expected: Option<(u32, &str)>, text: &str) {
        let shown: String = text.chars().take(200).collect();
        assert_eq!(found.map(|found| (found.line, found.what)), expected, "{shown}");
    }
}
