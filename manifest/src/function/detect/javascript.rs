//! Detects handlers in TypeScript and JavaScript: `export default function`, `export function handler` or `main`,
//! `module.exports`, `exports.NAME = ...`.
//!
//! `export` is only valid at the top level, so nesting is not tracked. The word before a `/` decides whether it begins a
//! regular expression.

use super::find;
use super::lexer::{COMMENT, LINE_COMMENT, Lexeme, Lexer, Literal, Syntax};

pub(super) const SYNTAX: Syntax = Syntax {
    literals: &[
        LINE_COMMENT,
        COMMENT,
        string(b"\""),
        string(b"'"),
        Literal {
            embeds: b"${",
            ..Literal::string(b"`")
        },
    ],
    own: Some(own),
};

/// A string ends at the end of its line, even if it is not closed. In blanked code it is a `"`, and a `'` for each further
/// byte.
const fn string(quotes: &'static [u8]) -> Literal<'static> {
    Literal {
        in_line: true,
        is_value: true,
        shown: *b"\"''",
        ..Literal::string(quotes)
    }
}

/// How people write a handler that serves HTTP itself.
pub(super) const FETCH: &str = "export default { fetch }";

pub(super) fn handler(code: &str) -> Option<(usize, &'static str)> {
    let words = words(code);
    let word = |at: usize| words.get(at).map_or("", |(_, word)| *word);
    let assigned = assigned_export(&words);
    let last_fetch = words.iter().rposition(|(_, word)| *word == "fetch");
    for (index, (position, first)) in words.iter().enumerate() {
        let found = |what| Some((*position, what));
        // After a dot the word is the name of a property.
        let alone = index == 0 || word(index - 1) != ".";
        match (*first, word(index + 1)) {
            ("export", "default") if alone => match word(index + 2) {
                "function" | "async" | "(" => return found("export default function"),
                // `export default { fetch }`: `fetch` may be anywhere in the braces.
                "{" if last_fetch.is_some_and(|at| at > index) => {
                    return found(FETCH);
                }
                name if word(index + 3) == "=" && word(index + 4) == ">" && is_name(name) => {
                    return found("export default function");
                }
                _ => {}
            },
            ("export", "function" | "async" | "const" | "let") if alone => {
                let at = (index + 2..index + 4)
                    .find(|at| word(*at) != "function")
                    .unwrap_or(index + 2);
                match word(at) {
                    "handler" => return found("export function handler"),
                    // A value named `main` is no function; `export const main = ...` may be anything.
                    "main" if word(index + 1) != "const" && word(index + 1) != "let" => {
                        return found("export function main");
                    }
                    _ => {}
                }
            }
            ("module", ".") if alone && word(index + 2) == "exports" => return found("module.exports"),
            ("exports", ".") if assigned == Some(index) => return found("exports.NAME"),
            _ => {}
        }
    }
    None
}

pub(super) fn is_commonjs(text: &str) -> bool {
    let code = SYNTAX.blanked(text);
    let words = words(&code);
    let word = |at: usize| words.get(at).map_or("", |(_, word)| *word);
    let assigned = assigned_export(&words);
    (0..words.len()).any(|at| {
        let alone = at == 0 || word(at - 1) != ".";
        // createRequire makes a `require` for ES modules; such code imports it by name first.
        alone
            && ((word(at) == "module" && word(at + 1) == "." && word(at + 2) == "exports")
                || (word(at) == "require" && word(at + 1) == "(")
                || (word(at) == "exports" && assigned == Some(at)))
    }) && !words.iter().any(|(_, word)| *word == "createRequire")
}

/// Returns the place of the first `exports.NAME = ...` outside of all brackets, where `exports` is the one of CommonJS: in
/// brackets it can be a parameter, as in bundles, and a declared one is a variable of the code.
fn assigned_export(words: &[(usize, &str)]) -> Option<usize> {
    let word = |at: usize| words.get(at).map_or("", |(_, word)| *word);
    let mut depth = 0_u32;
    let mut first = None;
    for (at, (_, this)) in words.iter().enumerate() {
        let before = |steps: usize| at.checked_sub(steps).map_or("", word);
        match *this {
            "(" | "[" | "{" => depth = depth.saturating_add(1),
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "exports" if matches!(before(1), "const" | "let" | "var" | "function" | "class") => return None,
            "exports" if depth == 0 && first.is_none() && before(1) != "." => {
                let is_set = word(at + 1) == "." && is_name(word(at + 2)) && word(at + 3) == "=";
                // `==` compares.
                first = (is_set && word(at + 4) != "=").then_some(at);
            }
            _ => {}
        }
    }
    first
}

fn is_name(word: &str) -> bool {
    word.chars().all(in_name) && !word.is_empty()
}

fn in_name(c: char) -> bool {
    c == '_' || c == '$' || c.is_alphanumeric()
}

/// Returns what code imports, without imports of types alone: the texts of `import "x"`, `import a from "x"`,
/// `export * from "x"` and `import("x")`.
pub(super) fn imports(text: &str) -> Vec<&str> {
    let code = SYNTAX.blanked(text);
    let tokens = tokens(&code, text);
    let token = |at: usize| tokens.get(at).map_or("", |(_, token)| *token);
    // Whether the statement that was begun last imports only types.
    let mut types = false;
    let mut found = Vec::new();
    for (at, (_, this)) in tokens.iter().enumerate() {
        let before = |steps: usize| at.checked_sub(steps).map_or("", token);
        if matches!(*this, "import" | "export") && before(1) != "." {
            // `import type from "x"` imports a value with the name `type`.
            types = token(at + 1) == "type" && !matches!(token(at + 2), "from" | ",");
        }
        let is_import = match before(1) {
            "from" => !types,
            "import" => before(2) != ".",
            // `import("a" + b)` imports what only a run knows.
            "(" => before(2) == "import" && before(3) != "." && matches!(token(at + 1), ")" | ","),
            _ => false,
        };
        let inner = this
            .strip_prefix(['"', '\''])
            .and_then(|rest| rest.strip_suffix(['"', '\'']));
        // A text with an escape is not the address that it stands for, and no address needs one.
        found.extend(inner.filter(|inner| is_import && !inner.contains('\\')));
    }
    found
}

/// Returns JSON without the comments and the last commas of lists, which deno.jsonc may have.
#[must_use]
pub fn plain_json(text: &str) -> String {
    let code = SYNTAX.blanked(text);
    let tokens = tokens(&code, text);
    let ends = |at: usize| tokens.get(at).is_some_and(|(_, token)| matches!(*token, "}" | "]"));
    let kept = tokens
        .iter()
        .enumerate()
        .filter(|(at, (_, token))| *token != "," || !ends(at + 1));
    kept.map(|(_, (_, token))| *token).collect()
}

/// Returns the words and signs of blanked code with their positions, without strings.
fn words(code: &str) -> Vec<(usize, &str)> {
    let mut words = tokens(code, code);
    words.retain(|(_, token)| !token.starts_with('"'));
    words
}

/// Returns the words, signs and strings of blanked code with their positions, each as `text` has it.
fn tokens<'a>(code: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let mut result = Vec::new();
    let mut chars = code.char_indices().peekable();
    while let Some((at, first)) = chars.next() {
        let goes_on = |(_, c): &(usize, char)| {
            if first == '"' {
                *c == '\''
            } else {
                in_name(first) && in_name(*c)
            }
        };
        while chars.next_if(goes_on).is_some() {}
        let end = chars.peek().map_or(code.len(), |(at, _)| *at);
        if !first.is_whitespace() {
            result.push((at, text.get(at..end).unwrap_or_default()));
        }
    }
    result
}

/// Finds regular expressions and white space, also white space outside of ASCII.
fn own<'a>(lexer: &mut Lexer<'a>) -> Option<Lexeme<'a>> {
    match lexer.rest() {
        [b'/', b'/' | b'*', ..] => None,
        rest @ [b'/', ..] if lexer.at >= lexer.no_regex && begins_regex(lexer) => {
            let width = regex(rest);
            if width.is_none() {
                lexer.no_regex = lexer.at + find(rest, b"\n").unwrap_or(rest.len());
            }
            // A `/` whose regular expression has no end is a mistake: only the `/` is blanked.
            Some(Lexeme::Blank(width.unwrap_or(1)))
        }
        _ => {
            let next = lexer.text.get(lexer.at..).and_then(|rest| rest.chars().next());
            let blank = next.filter(|c| c.is_whitespace());
            blank.map(|c| Lexeme::Blank(c.len_utf8()))
        }
    }
}

/// Returns the length of a regular expression; nothing if it does not end on its line.
fn regex(rest: &[u8]) -> Option<usize> {
    let mut escaped = false;
    let mut class = false;
    for (at, byte) in rest.iter().enumerate().skip(1) {
        match byte {
            b'\n' => return None,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'[' => class = true,
            b']' => class = false,
            b'/' if !class => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Says whether a `/` begins a regular expression after the last code, not a division.
fn begins_regex(lexer: &Lexer) -> bool {
    // The longest word that counts has 6 letters: a longer one need not be read to its beginning.
    let tail = lexer.code.get(lexer.last.saturating_sub(16)..lexer.last);
    let tail = String::from_utf8_lossy(tail.unwrap_or_default());
    match tail.rsplit(|c| !in_name(c)).next().unwrap_or_default() {
        // A bracket alone does not tell whether a value ends there. It mostly does, so `/` divides.
        "" => !lexer.last_is_literal && !tail.ends_with([')', ']', '}']),
        word => matches!(word, "return" | "typeof" | "case" | "in" | "of" | "await" | "yield"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    fn check(text: &str, expected: Option<(u32, &str)>) {
        expect("deno", expected, text);
    }

    #[test]
    fn handlers_are_found() {
        check("export default function (e) {}", Some((1, "export default function")));
        check(
            "import x from 'y';\nexport default async (e) => e;\n",
            Some((2, "export default function")),
        );
        check("export default e => e", Some((1, "export default function")));
        check(
            "export async function handler(e) {}",
            Some((1, "export function handler")),
        );
        check("export const handler = (e) => e;", Some((1, "export function handler")));
        check("export function main(a, b) {}", Some((1, "export function main")));
        check("module.exports = { foo: function () {} }", Some((1, "module.exports")));
        for text in [
            "exports.main = function (event, context) {}",
            "exports.handler = async (event) => event;",
            "exports.foo = foo",
            "exports\n  .foo\n  = (event) => event",
            "exports.main=exports.handler=f",
            "exports.__esModule = true; const a = `${1}`; exports.b = a;",
        ] {
            check(text, Some((1, "exports.NAME")));
        }
        check(
            "const x = exports;\nif (x) { x.a }\nexports.b = () => 1;",
            Some((3, "exports.NAME")),
        );
        check("module.exports.main = () => 1", Some((1, "module.exports")));
        check(
            "const a = `x ${f({b: `}`})} y`;\nexport default function () {}",
            Some((2, "export default function")),
        );
        check(
            "const r = /[/`'\"]/g;\nexport default function () {}",
            Some((2, "export default function")),
        );
        check(
            "export default {\n async fetch(r) {} }",
            Some((1, "export default { fetch }")),
        );
    }

    #[test]
    fn scripts_are_left_alone() {
        check("", None);
        check("console.log('export default function')", None);
        check("// export default function\n/* export default function */", None);
        check("const t = `\nexport default function () {}\n`", None);
        check("export const config = {}; console.log(1)", None);
        check("export default { a: 1 }", None);
        check("function handler() {}\nhandler();", None);
        check("'it\\'s' /2/ 3; x.module.exports", None);
        check("const s = 'open\nconsole.log(1)", None);
        for text in [
            "// exports.main = f\n/* exports.handler = f */ console.log('exports.main = 1', \"exports.a = 1\", `exports.b = 1`)",
            "console.log(exports.main, exports)",
            "if (exports.main == 1) f(); exports.main === 2; exports.main;",
            "const exports = {};\nexports.main = 1;",
            "exports.main = 1; var exports;",
            "(function (exports) { exports.main = f; })(x)",
            "x.exports.main = f; my_exports.main = f; exports = f; exports.a.b = f",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn the_older_kind_of_modules_is_known() {
        for (text, expected) in [
            ("const fs = require('fs')", true),
            ("module.exports = x", true),
            ("exports.main = () => 1", true),
            ("console.log(exports.main)", false),
            ("const exports = {}; exports.a = 1", false),
            ("import fs from 'fs'", false),
            ("// require('x')\nconsole.log('require(1)')", false),
            (
                "import { createRequire } from 'module'; const require = createRequire(import.meta.url); require('x')",
                false,
            ),
            ("x.require(1)", false),
        ] {
            assert_eq!(is_commonjs(text), expected, "{text}");
        }
    }

    #[test]
    fn imports_are_found_where_code_has_them() {
        for (text, expected) in [
            (
                "import 'a'; import b from \"b\"\nimport { c,\n d } from 'c'",
                &["a", "b", "c"][..],
            ),
            (
                "export * from 'a'; export { b } from 'b'; export * as c from 'c'",
                &["a", "b", "c"],
            ),
            (
                "const a = await import('a'); import('b', c); import('c' + d)",
                &["a", "b"],
            ),
            ("import a from 'a' with { type: 'json' };", &["a"]),
            (
                "// import 'a'\n/* import 'b' */ const c = \"import 'c'\", d = `import 'd'`;",
                &[],
            ),
            (
                "import type { A } from 'a'; import type B from 'b'; export type { C } from 'c'",
                &[],
            ),
            (
                "import type from 'a'; import { type A, b } from 'b'; import type, { c } from 'c'",
                &["a", "b", "c"],
            ),
            (
                "x.import('a'); import(`b`); import('c\\x'); Array.from('d'); f('e'); ' from '; 'g'",
                &[],
            ),
            ("const r = /'/; import 'a'; const s = 'x' / 2; import 'b'", &["a", "b"]),
            ("import", &[]),
        ] {
            assert_eq!(imports(text), expected, "{text}");
        }
    }

    #[test]
    fn json_of_people_becomes_json() {
        let text = "{ // one\n \"a\": [1.5e-3, true, \"// x, ]\",], /* two */ \"b\": {},\n}";
        assert_eq!(plain_json(text), "{\"a\":[1.5e-3,true,\"// x, ]\"],\"b\":{}}");
    }

    /// Every file is read once, so that the time is linear whatever it contains.
    #[test]
    fn hostile_files_take_no_time() {
        for text in ["[/", "export default {", "`${", "/[", "x = '", "/*"] {
            check(&text.repeat(200_000), None);
            assert_eq!(imports(&text.repeat(200_000)), [""; 0]);
        }
    }
}
