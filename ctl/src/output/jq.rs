//! `--jq`: an expression of the jq language, applied to a JSON document. It runs in this process: jq need not be
//! installed.

use crate::exit::CommandFailure;
use jaq_core::data::JustLut;
use jaq_core::load::{self, Arena, Error, File, Loader, span};
use jaq_core::{Compiler, Ctx, Filter, Vars, unwrap_valr};
use jaq_json::{Val, read};
use std::fmt;

/// The formats that jq has and jaq's library lacks.
const FORMATS: &str = r#"
def @csv: map(if type == "string" then "\"" + gsub("\""; "\"\"") + "\"" elif . == null then "" else tostring end) | join(",");
def @tsv: map(if type == "string" then gsub("\\\\"; "\\\\") | gsub("\t"; "\\t") | gsub("\n"; "\\n") | gsub("\r"; "\\r")
  elif . == null then "" else tostring end) | join("\t");
"#;

pub(crate) struct Jq {
    filter: Filter<JustLut<Val>>,
}

impl fmt::Debug for Jq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jq").finish_non_exhaustive()
    }
}

impl Jq {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is no expression of jq; the message names the place.
    pub(crate) fn new(code: &str) -> Result<Self, CommandFailure> {
        // The text is a constant, and a test uses each of its definitions.
        let formats = load::parse(FORMATS, |parser| parser.defs()).unwrap_or_default();
        let definitions = jaq_core::defs()
            .chain(jaq_std::defs())
            .chain(jaq_json::defs())
            // `FORMATS` comes last, since its definitions use `gsub` and `join` of the library.
            .chain(formats);
        let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
        let arena = Arena::default();
        let modules = Loader::new(definitions).load(&arena, File { code, path: () });
        let modules = modules.map_err(|errors| {
            let first = errors.first().map(|(_, error)| match error {
                Error::Lex(errors) => errors.first().map(|(expected, at)| (expected.as_str(), *at)),
                Error::Parse(errors) => errors.first().map(|(expected, at)| (expected.as_str(), *at)),
                Error::Io(errors) => errors
                    .first()
                    .map(|(module, _)| ("no `import`: there are no modules here", *module)),
            });
            match first.flatten() {
                Some((expected, at)) => wrong(code, at, &format!("expected {expected}")),
                None => wrong(code, "", "it cannot be read"),
            }
        })?;
        let filter = Compiler::default().with_funs(functions).compile(modules);
        let filter = filter.map_err(|errors| {
            let first = errors.first().and_then(|(_, undefined)| undefined.first());
            match first {
                Some((name, what)) => wrong(code, name, &format!("there is no {} `{name}`", what.as_str())),
                None => wrong(code, "", "it cannot be compiled"),
            }
        })?;
        Ok(Self { filter })
    }

    /// Returns the values of the expression for a document, each in a line: texts as they are, other values as JSON.
    ///
    /// # Errors
    /// The document is not JSON, or the expression does not fit it.
    pub(super) fn apply(&self, document: &[u8]) -> Result<Vec<String>, CommandFailure> {
        let document = read::parse_single(document)
            .map_err(|error| CommandFailure::usage(format!("`--jq` needs JSON, and this is none: {error}")))?;
        let context = Ctx::<JustLut<Val>>::new(&self.filter.lut, Vars::new([]));
        let values = self.filter.id.run((context, document)).map(unwrap_valr);
        let line = |value| match value {
            Ok(Val::TStr(text)) => Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(value) => Ok(value.to_string()),
            Err(error) => Err(CommandFailure::usage(format!(
                "the expression of `--jq` does not fit this document: {error}"
            ))
            .help("`-o json` without `--jq` prints the document")),
        };
        values.map(line).collect()
    }
}

/// Returns the failure of an expression that is wrong at a part of it, with a mark below the place.
fn wrong(code: &str, part: &str, why: &str) -> CommandFailure {
    // Parts of the expression lie in it; the end of it is an empty text somewhere else.
    let place = if part.is_empty() {
        code.len()
    } else {
        span(code, part).start
    };
    let before = code.get(..place).unwrap_or(code);
    let column = before.chars().rev().take_while(|c| *c != '\n').count();
    let line = before.matches('\n').count();
    let text = code.lines().nth(line).unwrap_or_default();
    CommandFailure::usage(format!(
        "the expression of `--jq` is wrong at {}:{}: {why}\n    {text}\n    {:column$}^",
        line + 1,
        column + 1,
        ""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_lines_and_texts_are_raw() {
        let document =
            br#"{"functions": [{"function": "hello", "runs": 2, "cpu_ms": 1.50}, {"function": "a\nb", "runs": 1}]}"#;
        for (code, expected) in [
            (".functions[].function", &["hello", "a\nb"][..]),
            (".functions | length", &["2"]),
            (".functions[0].cpu_ms", &["1.50"]),
            (
                "[.functions[] | select(.runs > 1)]",
                &[r#"[{"function":"hello","runs":2,"cpu_ms":1.50}]"#],
            ),
            (
                ".functions[] | \"\\(.function | @json) \\(.runs)\"",
                &["\"hello\" 2", "\"a\\nb\" 1"],
            ),
            (".nothing", &["null"]),
            ("empty", &[]),
            ("\"2026-11-21T08:00:00Z\" | fromdate", &["1795248000"]),
            (
                ".functions[] | [.function, .runs, .cpu_ms, (.runs > 1)] | @csv",
                &["\"hello\",2,1.50,true", "\"a\nb\",1,,false"],
            ),
            (
                ".functions[] | [.function, .runs, null] | @tsv",
                &["hello\t2\t", "a\\nb\t1\t"],
            ),
            ("[\"a\\\\b\", \"c\\td\"] | @tsv", &["a\\\\b\tc\\td"]),
            ("[.functions[].function | test(\"^h\")]", &["[true,false]"]),
        ] {
            assert_eq!(Jq::new(code).unwrap().apply(document).unwrap(), expected, "{code}");
        }
    }

    #[test]
    fn a_wrong_expression_is_refused_with_its_place() {
        for (code, expected) in [
            (".functions[", "1:12: expected closing bracket\n"),
            (". | foo", "1:5: there is no filter `foo`\n    . | foo\n        ^"),
            (".a |\n | .b", "2:2: expected term\n     | .b\n     ^"),
            ("", "1:1: expected term\n    \n    ^"),
            ("$x", "1:1: there is no variable `$x`\n    $x\n    ^"),
            ("if .a", "1:6: expected then\n    if .a\n         ^"),
            ("import \"a\" as a; 1", "expected no `import`"),
            (".\u{e9} | \u{1f40e}", "1:"),
        ] {
            let Err(failure) = Jq::new(code) else {
                panic!("{code} is accepted")
            };
            assert_eq!(failure.exit, crate::exit::Exit::Usage);
            assert!(failure.message.contains(expected), "{code}: {}", failure.message);
        }
        let failure = Jq::new(".a.b").unwrap().apply(b"{\"a\": [1]}").unwrap_err();
        assert!(failure.message.contains("does not fit"), "{}", failure.message);
        let failure = Jq::new(".").unwrap().apply(b"hello").unwrap_err();
        assert!(failure.message.contains("needs JSON"), "{}", failure.message);
    }
}
