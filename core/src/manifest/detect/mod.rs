//! Finds out, without running or parsing a file, whether it is a handler (contract, section 2).
//!
//! Each language has a scanner that knows just enough to tell code from text: strings, comments, here-documents. Where it
//! is in doubt a file is a script.

mod javascript;
mod python;
mod shell;

/// A handler that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handler {
    /// Line, from 1.
    pub line: u32,
    /// As people write it: `def handler`.
    pub what: &'static str,
    /// Whether it serves HTTP itself, `export default { fetch }`.
    pub http: bool,
}

/// Returns the handler in a file of a runtime, if there is one.
#[must_use]
pub fn handler(runtime: &str, code: &[u8]) -> Option<Handler> {
    let text = String::from_utf8_lossy(code);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match runtime {
        "python" => python::handler(text),
        "deno" | "node" => javascript::handler(text),
        "bash" => shell::handler(text),
        _ => None,
    }
}

/// Says whether a `.js` file is of the older kind that is node's, not deno's: it uses `module.exports` or `require(`.
#[must_use]
pub fn is_commonjs(code: &[u8]) -> bool {
    javascript::is_commonjs(&String::from_utf8_lossy(code))
}

/// Returns the line a position is in, from 1.
fn line_of(text: &str, position: usize) -> u32 {
    let before = text.as_bytes().get(..position).unwrap_or_default();
    u32::try_from(before.iter().filter(|b| **b == b'\n').count()).map_or(u32::MAX, |lines| lines.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::Handler;

    /// Compares what was found in a text: line and words.
    #[track_caller]
    pub(super) fn expect(found: Option<Handler>, expected: Option<(u32, &str)>, text: &str) {
        let shown: String = text.chars().take(200).collect();
        assert_eq!(found.map(|found| (found.line, found.what)), expected, "{shown}");
    }
}
