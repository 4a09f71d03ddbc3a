//! Finds a manifest inside the code: a comment block `# /// fnd` ... `# ///`, or with `//` or `--`, in the form of Python's PEP
//! 723; or `[tool.fnd]` in the metadata of a Python script, `# /// script`.
//!
//! The markers begin at the start of a line. They also count inside a string or here-document, because no language is
//! parsed here.

use super::near_block;
use crate::diagnostic::Diagnostic;
use crate::schema::source::Source;

/// How many bytes of a file are searched for the block.
pub const SEARCHED_BYTES: usize = 64 << 10;

/// Returns the block in a file's first bytes, if it has one.
///
/// # Errors
/// A diagnostic where the block has no end, where one of its lines is no comment, where it is not UTF-8, where there are
/// two blocks, or where a comment was meant as a block but is misspelt.
pub fn block(file: &str, bytes: &[u8]) -> Result<Option<Source>, Box<Diagnostic>> {
    let bytes = without_mark(bytes);
    // A program in machine code has no comments, but its bytes may look like a marker.
    if bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let mut found: Option<Vec<(u32, &'static str, String)>> = None;
    let mut open: Option<OpenBlock> = None;
    for (number, line) in (1..).zip(head(bytes).split_inclusive(|b| *b == b'\n')) {
        let line = trimmed(line);
        let Some(block) = &mut open else {
            if let Some(prefix) = PREFIXES.into_iter().find(|prefix| is_marker(line, prefix, " /// fnd")) {
                let opening = Source::of_line(file, number, &lossy(line));
                if found.is_some() {
                    let problem = Diagnostic::error("inline-block", "a second `/// fnd` block");
                    let problem = problem.at(&opening, 0..line.len());
                    return Err(Box::new(problem.with_help("write the whole manifest in one block")));
                }
                open = Some(OpenBlock {
                    prefix,
                    opening,
                    lines: Vec::new(),
                });
            }
            continue;
        };
        if is_marker(line, block.prefix, " ///") {
            found = open.take().map(|block| block.lines);
            continue;
        }
        let here = Source::of_line(file, number, &lossy(line));
        let Some(rest) = line.strip_prefix(block.prefix.as_bytes()) else {
            let mut problem = unterminated(block).with_note(format!("line {number} is not a comment"));
            let prefix = block.prefix;
            if line.is_empty() {
                problem = problem.with_help(format!(
                    "write `{prefix}` on the empty line {number}, or end the block above it with `{prefix} ///`"
                ));
            }
            return Err(Box::new(problem));
        };
        let (gap, rest) = match rest {
            [b' ' | b'\t', rest @ ..] => (1, rest),
            [] => (0, rest),
            _ => {
                let problem = Diagnostic::error("inline-block", format!("expected a space after `{}`", block.prefix));
                return Err(Box::new(problem.at(&here, 0..block.prefix.len())));
            }
        };
        let Ok(text) = std::str::from_utf8(rest) else {
            let problem = Diagnostic::error("not-utf8", "the line is not UTF-8 text");
            return Err(Box::new(problem.at(&here, 0..line.len())));
        };
        let prefix = match (block.prefix, gap) {
            ("#", 1) => "# ",
            ("//", 1) => "// ",
            ("--", 1) => "-- ",
            (prefix, _) => prefix,
        };
        block.lines.push((number, prefix, format!("{text}\n")));
    }
    if let Some(block) = open {
        return Err(Box::new(unterminated(&block)));
    }
    let text = lossy(head(bytes));
    if let Some(problem) = near_block::unread_table(file, &text) {
        return Err(Box::new(problem));
    }
    let table = near_block::tool_table(file, &text);
    let Some(lines) = &found else {
        return near_block::near_miss(file, &text).map_or(Ok(table), |problem| Err(Box::new(problem)));
    };
    if table.is_some() {
        let message = "the file has a block `# /// fnd`, and `[tool.fnd]` in its block `# /// script`";
        let problem = Diagnostic::error("inline-block", message).in_file(file);
        return Err(Box::new(problem.with_help("write all keys in one of the two")));
    }
    Ok(Some(of_owned(file, lines)))
}

/// Returns the source of lines that were made for it.
pub(super) fn of_owned(file: &str, lines: &[(u32, &str, String)]) -> Source {
    let lines = lines.iter();
    Source::of_lines(
        file,
        lines.map(|(number, prefix, line)| (*number, *prefix, line.as_str())),
    )
}

/// Returns a warning if the file has the metadata of a Python script, which is no manifest.
#[must_use]
pub fn script_metadata(file: &str, bytes: &[u8]) -> Option<Diagnostic> {
    near_block::script_metadata(file, &lossy(head(without_mark(bytes))))
}

/// Returns the metadata of a Python script (PEP 723), if the file has it.
#[must_use]
pub fn metadata_of_script(file: &str, bytes: &[u8]) -> Option<Source> {
    near_block::metadata(file, &lossy(head(without_mark(bytes))))
}

/// Beginnings of comments in all known runtimes: TypeScript has `//`, the shells have `#`, Lua has `--`.
pub const PREFIXES: [&str; 3] = ["#", "//", "--"];

struct OpenBlock {
    prefix: &'static str,
    opening: Source,
    lines: Vec<(u32, &'static str, String)>,
}

fn unterminated(block: &OpenBlock) -> Diagnostic {
    let message = format!("the block `{} /// fnd` has no end", block.prefix);
    let help = format!(
        "end it with a line `{} ///` within the first {} KiB of the file",
        block.prefix,
        SEARCHED_BYTES >> 10
    );
    Diagnostic::error("inline-block", message)
        .at(&block.opening, 0..block.opening.toml.len())
        .with_help(help)
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn head(bytes: &[u8]) -> &[u8] {
    bytes.get(..SEARCHED_BYTES).unwrap_or(bytes)
}

fn trimmed(line: &[u8]) -> &[u8] {
    // A carriage return, and a blank that nobody sees, are no part of a marker.
    line.trim_ascii_end()
}

fn is_marker(line: &[u8], prefix: &str, marker: &str) -> bool {
    line.strip_prefix(prefix.as_bytes()) == Some(marker.as_bytes())
}

fn lossy(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Option<String> {
        block("f", text.as_bytes()).expect(text).map(|source| source.toml)
    }

    fn error(text: &[u8]) -> (u32, String) {
        let problem = block("f", text).expect_err("an error");
        (problem.place.expect("a place").line, problem.message)
    }

    #[test]
    fn a_block_is_found_with_either_comment() {
        assert_eq!(
            lines("#!/bin/sh\n# /// fnd\n# a = 1\n#\n# b = 2\n# ///\necho\n").as_deref(),
            Some("a = 1\n\nb = 2\n")
        );
        assert_eq!(lines("// /// fnd\n// a = 1\n// ///").as_deref(), Some("a = 1\n"));
        assert_eq!(lines("-- /// fnd\n-- a = 1\n-- ///").as_deref(), Some("a = 1\n"));
        assert_eq!(
            lines("\u{feff}# /// fnd\r\n# a = 1\r\n# ///\r\n").as_deref(),
            Some("a = 1\n")
        );
        assert_eq!(lines("# /// fnd\n# ///\n").as_deref(), Some(""));
    }

    #[test]
    fn what_is_no_block_is_left_alone() {
        for text in [
            "",
            "# /// script\n# x\n# ///\n",
            "  # /// fnd\n",
            "#/// fnd\n",
            "echo '# /// fnd'\n",
            "\u{7f}ELF\n# /// fnd\n",
        ] {
            assert_eq!(lines(text), None, "{text:?}");
        }
        let late = format!("{}# /// fnd\n", " \n".repeat(SEARCHED_BYTES / 2));
        assert_eq!(lines(&late), None);
    }

    #[test]
    fn positions_are_those_of_the_file() {
        let text = "x\n# /// fnd\n# ü = 1\n# ///\n";
        let source = block("f", text.as_bytes()).unwrap().unwrap();
        let place = source.place(&(5..6));
        assert_eq!((place.line, place.column, place.excerpt.as_str()), (3, 7, "# ü = 1"));
    }

    #[test]
    fn a_block_that_is_not_whole_is_an_error() {
        assert_eq!(
            error(b"\n# /// fnd\n# a = 1\necho\n"),
            (2, "the block `# /// fnd` has no end".into())
        );
        assert_eq!(
            error(b"# /// fnd\n# a = 1\n"),
            (1, "the block `# /// fnd` has no end".into())
        );
        assert_eq!(
            error(b"# /// fnd\n#a = 1\n# ///\n"),
            (2, "expected a space after `#`".into())
        );
        assert_eq!(
            error(b"# /// fnd\n# ///\n# /// fnd\n# ///\n"),
            (3, "a second `/// fnd` block".into())
        );
        assert_eq!(
            error(b"# /// fnd\n# a = '\xff'\n# ///\n"),
            (2, "the line is not UTF-8 text".into())
        );
    }
}
