//! Detects handlers in TypeScript and JavaScript: `export default function`, `export function handler` or `main`,
//! `module.exports`, `exports.NAME = ...`.
//!
//! `export` is only valid at the top level, so nesting is not tracked. Strings, templates, comments and regular
//! expressions are skipped; the word before a `/` decides whether it begins a regular expression.

use super::{Handler, line_of};

pub(super) fn handler(text: &str) -> Option<Handler> {
    let words = words(text);
    let word = |at: usize| words.get(at).map_or("", |(_, word)| *word);
    let assigned = assigned_export(&words);
    let last_fetch = words.iter().rposition(|(_, word)| *word == "fetch");
    for (index, (position, first)) in words.iter().enumerate() {
        let found = |what, http| {
            Some(Handler {
                line: line_of(text, *position),
                what,
                http,
            })
        };
        let alone = index == 0 || word(index - 1) != ".";
        match (*first, word(index + 1)) {
            ("export", "default") if alone => match word(index + 2) {
                "function" | "async" | "(" => return found("export default function", false),
                // `export default { fetch }`: `fetch` may be anywhere in the braces.
                "{" if last_fetch.is_some_and(|at| at > index) => {
                    return found("export default { fetch }", true);
                }
                name if word(index + 3) == "=" && word(index + 4) == ">" && is_name(name) => {
                    return found("export default function", false);
                }
                _ => {}
            },
            ("export", "function" | "async" | "const" | "let") if alone => {
                let at = (index + 2..index + 4)
                    .find(|at| word(*at) != "function")
                    .unwrap_or(index + 2);
                match word(at) {
                    "handler" => return found("export function handler", false),
                    // A value named `main` is no function; `export const main = ...` may be anything.
                    "main" if word(index + 1) != "const" && word(index + 1) != "let" => {
                        return found("export function main", false);
                    }
                    _ => {}
                }
            }
            ("module", ".") if alone && word(index + 2) == "exports" => return found("module.exports", false),
            ("exports", ".") if assigned == Some(index) => return found("exports.NAME", false),
            _ => {}
        }
    }
    None
}

pub(super) fn is_commonjs(text: &str) -> bool {
    let words = words(text);
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
    word.chars().all(|c| c == '_' || c == '$' || c.is_alphanumeric()) && !word.is_empty()
}

/// Returns what code imports, without imports of types alone: the texts of `import "x"`, `import a from "x"`,
/// `export * from "x"` and `import("x")`.
pub(super) fn imports(text: &str) -> Vec<&str> {
    let tokens = tokens(text);
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
        found.extend(inner.filter(|inner| is_import && !inner.contains('\\')));
    }
    found
}

/// Returns JSON without the comments and the last commas of lists, which deno.jsonc may have.
pub(super) fn plain_json(text: &str) -> String {
    let tokens = tokens(text);
    let ends = |at: usize| tokens.get(at).is_some_and(|(_, token)| matches!(*token, "}" | "]"));
    let kept = tokens
        .iter()
        .enumerate()
        .filter(|(at, (_, token))| *token != "," || !ends(at + 1));
    kept.map(|(_, (_, token))| *token).collect()
}

/// Returns the words and signs of code with their positions, without strings and comments.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = tokens(text);
    words.retain(|(_, token)| !token.starts_with(['"', '\'']));
    words
}

/// Returns the words, signs and strings of code with their positions, without templates and comments.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let mut result: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    // For each open template: the brace depth at which its text continues.
    let mut templates: Vec<u32> = Vec::new();
    let mut depth = 0_u32;
    // End of a line in which a regular expression had no end. Up to there none is searched again, so that a long line
    // takes linear time.
    let mut no_regex = 0;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        let width = match c {
            '/' if rest.starts_with("//") => until(rest, "\n"),
            '/' if rest.starts_with("/*") => until(rest, "*/") + 2,
            '/' if at >= no_regex && begins_regex(result.last().map(|(_, word)| *word)) => match regex(rest) {
                Some(width) => width,
                None => {
                    no_regex = at + until(rest, "\n");
                    1
                }
            },
            '"' | '\'' => {
                let end = string(rest, c);
                result.push((at, rest.get(..end).unwrap_or_default()));
                end
            }
            '`' => template(rest, 1, &mut templates, depth),
            '}' if templates.last() == Some(&depth) => {
                templates.pop();
                template(rest, 1, &mut templates, depth)
            }
            c if c == '_' || c == '$' || c.is_alphanumeric() => {
                let end = rest
                    .find(|c: char| c != '_' && c != '$' && !c.is_alphanumeric())
                    .unwrap_or(rest.len());
                result.push((at, rest.get(..end).unwrap_or_default()));
                end
            }
            c if c.is_whitespace() => c.len_utf8(),
            c => {
                match c {
                    '{' => depth = depth.saturating_add(1),
                    '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                result.push((at, rest.get(..c.len_utf8()).unwrap_or_default()));
                c.len_utf8()
            }
        };
        at += width.max(1);
        while at < text.len() && !text.is_char_boundary(at) {
            at += 1;
        }
    }
    result
}

/// Returns the length of a template's text, up to its end or to embedded code. For embedded code the depth is pushed to
/// `templates`, so that the text continues after it.
fn template(rest: &str, from: usize, templates: &mut Vec<u32>, depth: u32) -> usize {
    let bytes = rest.as_bytes();
    let mut at = from;
    while let Some(b) = bytes.get(at) {
        match b {
            b'\\' => at += 2,
            b'`' => return at + 1,
            b'$' if bytes.get(at + 1) == Some(&b'{') => {
                templates.push(depth);
                return at + 2;
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn string(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            // A string ends at the end of its line, even if it is not closed.
            '\n' if !escaped => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of a regular expression; nothing if it does not end on its line.
fn regex(rest: &str) -> Option<usize> {
    let mut escaped = false;
    let mut class = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => class = true,
            ']' => class = false,
            '/' if !class => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Says whether a `/` after this word begins a regular expression, not a division.
fn begins_regex(before: Option<&str>) -> bool {
    match before {
        None | Some("return" | "typeof" | "case" | "in" | "of" | "await" | "yield") => true,
        Some(word) => !is_name(word) && !matches!(word, ")" | "]" | "}") && !word.starts_with(['"', '\'']),
    }
}

fn until(rest: &str, end: &str) -> usize {
    rest.find(end).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    fn check(text: &str, expected: Option<(u32, &str)>) {
        expect(handler(text), expected, text);
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
