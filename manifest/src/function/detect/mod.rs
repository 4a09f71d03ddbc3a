//! Finds out whether a file is a handler (docs/handlers.md). It neither runs nor parses the file.
//!
//! The lexer replaces strings, comments and here-documents with blanks. Each language has a table of these for the lexer, and
//! a function that looks for a handler in the blanked code. In doubt a file is a script.
//!
//! Files:
//! - `go`: handlers in Go
//! - `java`: handlers in Java
//! - `javascript`: handlers in JavaScript and TypeScript
//! - `kubeless`: handlers of Kubeless, which may have any name
//! - `lexer`: code without its strings and comments
//! - `php`: handlers in PHP
//! - `python`: handlers in Python
//! - `ruby`: handlers in Ruby
//! - `shell`: handlers in bash

pub use javascript::plain_json;

use super::project::is_standard;
use lexer::Syntax;

mod go;
mod java;
mod javascript;
mod kubeless;
mod lexer;
mod php;
mod python;
mod ruby;
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

/// Returns the position of the handler in blanked code, and the handler as people write it.
type Detect = fn(&str) -> Option<(usize, &'static str)>;

/// Runtimes whose handlers are detected.
const LANGUAGES: [(&str, Syntax, Detect); 8] = [
    // Shell code is not blanked: `shell::handler` takes a file for a script if it does more than define and assign.
    ("bash", Syntax::of(&[]), shell::handler),
    ("deno", javascript::SYNTAX, javascript::handler),
    ("go", go::SYNTAX, go::handler),
    ("java", java::SYNTAX, java::handler),
    ("node", javascript::SYNTAX, javascript::handler),
    ("php", php::SYNTAX, php::handler),
    ("python", python::SYNTAX, python::handler),
    ("ruby", ruby::SYNTAX, ruby::handler),
];

/// Returns the handler in a file of a runtime; absent if there is none.
#[must_use]
pub fn handler(runtime: &str, code: &[u8]) -> Option<Handler> {
    let text = String::from_utf8_lossy(code);
    // A byte-order mark would hide a handler in the first line, because it would be the beginning of that line.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let (_, syntax, detect) = LANGUAGES.iter().find(|(known, ..)| *known == runtime)?;
    let (position, what) = detect(&syntax.blanked(text))?;
    Some(Handler {
        line: line_of(text, position),
        what,
        http: what == javascript::FETCH,
    })
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

/// Says whether a `.js` file is CommonJS, which node runs and deno does not: it uses `module.exports` or `require(`.
#[must_use]
pub fn is_commonjs(code: &[u8]) -> bool {
    javascript::is_commonjs(&String::from_utf8_lossy(code))
}

/// Most bytes that are read of a list of parameters, so that the time stays linear.
const PARAMETERS_MAX: usize = 4096;

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|bytes| bytes == what)
}

/// Returns the name that code begins with.
fn word(code: &[u8]) -> &[u8] {
    let end = code.iter().position(|byte| !is_word(*byte)).unwrap_or(code.len());
    code.get(..end).unwrap_or_default()
}

/// Returns the names in code, each with its position and the number of braces that are open before it.
fn names(code: &[u8]) -> impl Iterator<Item = (usize, usize, &[u8])> {
    let (mut at, mut depth) = (0, 0_usize);
    std::iter::from_fn(move || {
        loop {
            let rest = code.get(at..)?;
            let (here, name) = (at, word(rest));
            at += name.len().max(1);
            match rest.first()? {
                b'{' => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                _ if !name.is_empty() => return Some((here, depth, name)),
                _ => {}
            }
        }
    })
}

/// Returns the lines of a text with their positions.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut end = 0;
    text.split_inclusive('\n').map(move |line| {
        end += line.len();
        (end - line.len(), line)
    })
}

/// Says whether a character cannot be part of a name.
fn is_other(c: char) -> bool {
    c != '_' && !c.is_alphanumeric()
}

/// Says whether a byte can be part of a name.
fn is_word(byte: u8) -> bool {
    // A letter outside of ASCII consists of bytes from 0x80 on.
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Returns the line of a position, from 1.
fn line_of(text: &str, position: usize) -> u32 {
    let before = text.as_bytes().get(..position).unwrap_or_default();
    u32::try_from(before.iter().filter(|b| **b == b'\n').count()).map_or(u32::MAX, |lines| lines.saturating_add(1))
}

#[cfg(test)]
mod tests {
    /// Compares the detected handler of a text with the expected line and words.
    #[track_caller]
    pub(super) fn expect(runtime: &str, expected: Option<(u32, &str)>, text: &str) {
        let found = super::handler(runtime, text.as_bytes());
        let shown: String = text.chars().take(200).collect();
        assert_eq!(found.map(|found| (found.line, found.what)), expected, "{shown}");
    }
}
