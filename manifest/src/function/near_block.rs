//! Finds comments that look like a manifest in the code but are not read as one: a misspelt first line such as
//! `# // fnd`, and the metadata of a Python script (`# /// script`, PEP 723).
//!
//! An ordinary comment is no error. A first line counts as misspelt only if the comment goes on with a key of a manifest,
//! or with the end of a block.

use super::inline::of_owned;
use super::keys::SCHEMA;
use crate::diagnostic::Diagnostic;
use crate::schema::read::nearest;
use crate::schema::source::Source;
use crate::warning::Warning;
use toml::{Table, Value};

/// How many lines after a first line are compared with keys. This keeps the time linear.
const COMPARED_LINES: usize = 100;

/// The key that both kinds of blocks have.
const IN_BOTH: &str = "dependencies";

const HELP: &str = "write a manifest as `# /// fnd`, then lines of TOML that begin with `# `, then `# ///`, each from \
                    the start of its line; with `//` instead of `#` in TypeScript and JavaScript, `--` in Lua";

/// Returns the error of the first block that its author meant as a manifest, but that is not one.
pub(super) fn near_miss(file: &str, text: &str) -> Option<Diagnostic> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let problem = |at: usize, message: String, help: &str| {
        let line = lines.get(at).copied().unwrap_or_default();
        let number = u32::try_from(at).map_or(u32::MAX, |at| at.saturating_add(1));
        let source = Source::of_line(file, number, line);
        let problem = Diagnostic::error("inline-block", message);
        Some(problem.at(&source, 0..line.len()).with_help(help))
    };
    (0..lines.len()).find_map(|at| {
        let line = lines.get(at)?;
        if *line == SCRIPT {
            let (below, key) = key_of_fnd(script(&lines, at, COMPARED_LINES)?)?;
            let message = format!(
                "`{key}` has no effect in a block `{SCRIPT}` (PEP 723), of which fnd reads only the dependencies"
            );
            let help = "move fnd's keys to a block of their own, from `# /// fnd` to `# ///`";
            return problem(at + 1 + below, message, help);
        }
        let (prefix, slashes, word) = first_line(line)?;
        let mut below = comment(&lines, at, prefix).take(COMPARED_LINES);
        let meant = if word.eq_ignore_ascii_case("fnd") {
            below.any(|line| key(line).is_some() || matches!(line, "//" | "///" | "////"))
        } else {
            // Three slashes belong to a block; with fewer, a word that is similar to `fnd` may be a word of an ordinary
            // comment.
            slashes == 3 && nearest(word, &["fnd"]).is_some() && below.any(|line| key(line).is_some())
        };
        if !meant {
            return None;
        }
        let message = format!("`{line}` does not begin a manifest, so its keys have no effect");
        problem(at, message, HELP)
    })
}

/// Returns the metadata of a Python script, if the file has it.
pub(super) fn metadata(file: &str, text: &str) -> Option<Source> {
    let lines = script_lines(text)?.into_iter();
    let lines: Vec<_> = lines
        .map(|(number, prefix, toml)| (number, prefix, format!("{toml}\n")))
        .collect();
    Some(of_owned(file, &lines))
}

/// Returns the lines of the metadata of a Python script, if the text has it: the number of each, its beginning and its TOML.
fn script_lines(text: &str) -> Option<Vec<(u32, &str, &str)>> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let at = lines.iter().position(|line| *line == SCRIPT)?;
    // Only the first block is read, so the time is linear without a bound.
    let toml = script(&lines, at, usize::MAX)?;
    let below = lines.iter().zip(1..).skip(at + 1).zip(toml);
    let below = below.map(|((line, number), toml)| (number, line.strip_suffix(toml).unwrap_or_default(), toml));
    Some(below.collect())
}

/// Returns the table `[tool.fnd]` of the metadata of a Python script, as the lines of a manifest: PEP 723 leaves tables below `tool`
/// to tools.
pub(super) fn tool_table(file: &str, text: &str) -> Option<Source> {
    let mut is_own = false;
    let mut own: Vec<(u32, &str, String)> = Vec::new();
    for (number, prefix, toml) in script_lines(text)? {
        let table = header(toml.trim());
        if let Some(table) = table {
            is_own = table == "tool.fnd" || table.starts_with("tool.fnd.");
        }
        if is_own {
            // Spaces in place of the name: a problem is shown at its column.
            let below = match table {
                Some("tool.fnd") => String::new(),
                Some(_) => toml.replacen("[tool.fnd.", "[         ", 1),
                None => toml.to_owned(),
            };
            own.push((number, prefix, below + "\n"));
        }
    }
    (!own.is_empty()).then(|| of_owned(file, &own))
}

/// Returns the error of keys below `tool.fnd` that [`tool_table`] does not read, such as `tool.fnd.size = "L"`: they would have no
/// effect.
pub(super) fn unread_table(file: &str, text: &str) -> Option<Diagnostic> {
    let whole: Table = metadata(file, text)?.toml.parse().ok()?;
    let wanted = whole.get("tool")?.get("fnd")?;
    let read = tool_table(file, text).map(|own| own.toml).unwrap_or_default();
    // The reader of the manifest reports a block that is no TOML.
    let is_read = read.parse::<Table>().map_or(true, |read| *wanted == Value::Table(read));
    let message = format!("some keys of `tool.fnd` in the block `{SCRIPT}` have no effect in this form");
    let help = "begin each table with a line of its own, without a comment: `# [tool.fnd]`, `# [tool.fnd.limits]`";
    (!is_read).then(|| Diagnostic::error("inline-block", message).in_file(file).with_help(help))
}

/// Returns the name of the table that a line of TOML begins.
fn header(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('[')?.strip_suffix(']')?;
    let array = inner.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let name = array.unwrap_or(inner);
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.bytes().all(is_part).then_some(name)
}

/// Returns a warning if the file has the metadata of a Python script.
pub(super) fn script_metadata(file: &str, text: &str) -> Option<Diagnostic> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let at = lines.iter().position(|line| *line == SCRIPT)?;
    script(&lines, at, usize::MAX)?;
    let number = u32::try_from(at).map_or(u32::MAX, |at| at.saturating_add(1));
    let source = Source::of_line(file, number, SCRIPT);
    let message = format!("the block `{SCRIPT}` (PEP 723) is for Python: its dependencies are not installed");
    let help = "add fnd's own block, from `# /// fnd` to `# ///`, or a manifest beside the file; until then the script \
                does not run by itself";
    let problem = Diagnostic::warning(Warning::ScriptMetadata, message);
    Some(problem.at(&source, 0..SCRIPT.len()).with_help(help))
}

const SCRIPT: &str = "# /// script";

/// Returns the lines of the script metadata that begins at line `at`, without their `#`; nothing if the block has no end
/// within so many lines.
fn script<'t>(lines: &[&'t str], at: usize, most: usize) -> Option<Vec<&'t str>> {
    let below = lines.iter().skip(at + 1).map_while(|line| line.strip_prefix('#'));
    // The other spaces may be those of a text with several lines.
    let below = below.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let below: Vec<&str> = below.take(most).collect();
    let end = below.iter().position(|line| line.trim() == "///")?;
    Some(below.into_iter().take(end).collect())
}

/// Returns the first key of fnd in script metadata, with the number of its line. Keys below a table such as `[tool.x]`
/// belong to that table.
fn key_of_fnd(lines: Vec<&str>) -> Option<(usize, &str)> {
    let mut foreign = false;
    lines.into_iter().enumerate().find_map(|(number, line)| {
        let line = line.trim_start();
        let key = key(line).filter(|key| *key != IN_BOTH);
        let table = line.starts_with('[');
        foreign |= table && key.is_none();
        key.filter(|_| table || !foreign).map(|key| (number, key))
    })
}

/// Splits a line such as `# // fnd` into the beginning of its comment, the number of slashes and the word after them.
fn first_line(line: &str) -> Option<(&'static str, usize, &str)> {
    let prefix = super::inline::PREFIXES
        .into_iter()
        .find(|prefix| line.starts_with(prefix))?;
    let rest = line.strip_prefix(prefix)?.trim_start_matches(['#', ' ', '\t']);
    let word = rest.trim_start_matches('/');
    let slashes = rest.len() - word.len();
    (slashes > 0).then_some((prefix, slashes, word.trim_start()))
}

/// Returns the lines of a comment after its line `at`, without the prefix.
fn comment<'t>(lines: &[&'t str], at: usize, prefix: &'static str) -> impl Iterator<Item = &'t str> {
    let below = lines.iter().skip(at + 1);
    below.map_while(move |line| line.strip_prefix(prefix)).map(str::trim)
}

/// Returns the top-level key of a manifest that a line sets.
fn key(line: &str) -> Option<&'static str> {
    let name = match line.strip_prefix('[') {
        Some(table) => table.trim_start_matches('[').split_once(']')?.0,
        None => line.split_once('=')?.0,
    };
    let name = name.trim().split('.').next().unwrap_or_default().trim();
    SCHEMA.keys.iter().map(|key| key.name).find(|key| *key == name)
}

#[cfg(test)]
mod tests {
    use super::super::inline::block;
    use super::*;
    use proptest::prelude::*;

    /// Returns the line and the message of the error.
    fn error(text: &str) -> Option<(u32, String)> {
        let problem = block("f", text.as_bytes()).err()?;
        assert!(problem.help.is_some() && problem.code == "inline-block", "{problem:?}");
        Some((problem.place.expect("a place").line, problem.message))
    }

    #[test]
    fn a_misspelt_first_line_is_an_error() {
        for first in [
            "# // fnd",
            "# //// fnd",
            "#/// fnd",
            "# ///fnd",
            "#  /// fnd",
            "## /// fnd",
            "# /// FND",
            "# / fnd",
            "# /// find",
            "# /// fdn",
            "# /// fnd:",
            "/// fnd",
            "//// fnd",
            "///// fnd",
            "// // fnd",
            "///fnd",
            "-- // fnd",
        ] {
            let prefix = super::super::inline::PREFIXES
                .into_iter()
                .find(|prefix| first.starts_with(prefix))
                .unwrap();
            for rest in [
                "on_load = false",
                "[limits]",
                "[[ schedule ]]",
                "limits.timeout = \"1s\"",
            ] {
                let text = format!("x\n{first}\n{prefix} {rest}\n{prefix} ///\n");
                let (line, message) = error(&text).unwrap_or_else(|| panic!("{text}"));
                assert_eq!((line, message.contains(&format!("`{first}`"))), (2, true), "{message}");
            }
        }
        // The key is misspelt, too.
        assert!(error("# // fnd\n# on_laod = false\n# //\n").is_some());
    }

    #[test]
    fn an_ordinary_comment_is_no_error() {
        for text in [
            "# fnd\n# on_load = false\n",
            "// fnd\n// on_load = false\n",
            "# // fnd\n",
            "# // fnd\n\n# on_load = false\n",
            "# // fnd\non_load = false\n# ///\n",
            "  # // fnd\n  # on_load = false\n  # ///\n",
            "# ///////\n# // fnd\n# ///////\n",
            "/// fnd runs this file.\n/// data = 1\n",
            "/// Adds two numbers.\n/// @param data = 1\n",
            "# // and\n# data = 1\n",
            "# see https://fnd\n# env = x\n",
            "#!/usr/bin/fnd\n# env = x\n# ///\n",
            "# /// other\n# data = 1\n# ///\n",
            "# /// fnd\n# ///\n# // fnd\n# on_load = false\n",
        ] {
            assert_eq!(error(text), None, "{text}");
        }
    }

    proptest! {
        /// Neither a first line alone, nor keys and ends without one, make a comment an error.
        #[test]
        fn a_comment_needs_both_parts_to_be_an_error(
            lines in prop::collection::vec("(#|//)[ /#]{0,4}(fnd|FND|find|on_load|data|see|=|\\[limits\\]| ){0,3}", 0..12),
            first in any::<bool>(),
        ) {
            let is_first = |line: &&String| line.to_lowercase().contains("fn") || line.contains("find");
            let goes_on = |line: &&String| line.contains(['=', '[']) || !line.contains(|c: char| c.is_alphabetic());
            let kept: Vec<_> = lines.iter().filter(|line| if first { !goes_on(line) } else { !is_first(line) }).collect();
            let text = kept.into_iter().fold(String::new(), |text, line| text + line + "\n");
            let exact = text.lines().any(|line| matches!(line.trim_end(), "# /// fnd" | "// /// fnd"));
            prop_assert!(exact || error(&text).is_none(), "{text}");
        }
    }

    #[test]
    fn keys_of_fnd_in_script_metadata_are_an_error() {
        for (line, key) in [
            ("on_load = false", "on_load"),
            ("[limits]", "limits"),
            ("env.A = \"1\"", "env"),
        ] {
            let text = format!("# /// script\n# dependencies = []\n# {line}\n# ///\n");
            let (line, message) = error(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((line, message.starts_with(&format!("`{key}`"))), (3, true), "{message}");
        }
        for text in [
            "# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"requests\",\n# ]\n# ///\n",
            "# /// script\n# [tool.uv]\n# env = 1\n# ///\n",
            "# /// script\n# data = 1\nprint()\n",
        ] {
            assert_eq!(error(text), None, "{text}");
        }
    }

    #[test]
    fn a_table_of_fnd_in_script_metadata_is_a_manifest() {
        let text = "import x\n# /// script\n# dependencies = [\"x\"]\n# [tool.fnd]\n# on_load = false\n# [tool.other]\n# a = 1\n\
                    # [tool.fnd.limits]\n# memory = \"1G\"\n# [[tool.fnd.schedule]]\n# every = \"5m\"\n# ///\n";
        let manifest = block("f", text.as_bytes()).unwrap().unwrap();
        assert_eq!(
            manifest.toml,
            "\non_load = false\n[         limits]\nmemory = \"1G\"\n[[         schedule]]\nevery = \"5m\"\n"
        );
        let other = text.replace("tool.fnd", "tool.ruff");
        assert!(block("f", other.as_bytes()).unwrap().is_none());
        let both = format!("# /// fnd\n# ///\n{text}");
        let problem = block("f", both.as_bytes()).unwrap_err();
        assert!(problem.message.contains("[tool.fnd]"), "{problem:?}");
    }

    #[test]
    fn a_text_of_several_lines_keeps_its_spaces() {
        let text = "# /// script\n#   [tool.fnd.env]\n# A = \"\"\"\n#   x\n#\n# y\"\"\"\n# ///\n";
        let manifest = block("f", text.as_bytes()).unwrap().unwrap().toml;
        assert_eq!(manifest, "  [         env]\nA = \"\"\"\n  x\n\ny\"\"\"\n");
    }

    /// No key is left out without a word.
    #[test]
    fn a_table_of_fnd_in_another_form_is_an_error() {
        for lines in [
            "# [tool.fnd] # mine\n# size = \"L\"",
            "# [ tool.fnd ]\n# size = \"L\"",
            "# tool.fnd.size = \"L\"",
            "# [tool]\n# fnd = { size = \"L\" }",
            "# [tool.fnd]\n# size = \"L\"\n# [tool.fnd.limits] # mine\n# memory = \"1G\"",
            "# [tool.fnd]\n# on_load = false\n# [limits]\n# memory = \"1G\"",
            "# on_load = false\n# [tool.fnd]\n# size = \"L\"",
        ] {
            let text = format!("# /// script\n{lines}\n# ///\n");
            let problem = block("f", text.as_bytes()).expect_err(lines);
            assert_eq!(problem.code, "inline-block", "{problem:?}");
            assert!(problem.help.is_some(), "{problem:?}");
        }
        let wrong = "# /// script\n# [tool.fnd]\n# size = \n# ///\n";
        assert!(
            block("f", wrong.as_bytes()).unwrap().is_some(),
            "its reader says what is wrong"
        );
    }

    #[test]
    fn script_metadata_is_a_warning() {
        let warning = script_metadata("f", "\n# /// script\n# dependencies = []\n# ///\n").unwrap();
        assert_eq!((warning.is_error(), warning.place.unwrap().line), (false, 2));
        for text in ["", "# /// script\nx\n", "  # /// script\n# ///\n", "# /// fnd\n# ///\n"] {
            assert_eq!(script_metadata("f", text), None, "{text}");
        }
    }

    /// The lines after each first line are compared up to a limit, so that the time is linear whatever a file contains.
    #[test]
    fn hostile_files_take_no_time() {
        for text in ["# // fnd\n", "# /// script\n", "# /// find\n# x\n"] {
            let _ = block("f", text.repeat(100_000).as_bytes());
            let _ = script_metadata("f", &text.repeat(10_000));
        }
    }
}
