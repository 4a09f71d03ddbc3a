//! Detects handlers in Go: a function with two parameters of the types `Event` and `Context`, which no receiver has.
//!
//! Strings and comments are blanked first.

use super::{Handler, blanked, is_word, line_comment, line_of, skip_literal};

/// Longest list of parameters in bytes, so that the time is linear.
const PARAMETERS_MAX: usize = 4096;

pub(super) fn handler(text: &str) -> Option<Handler> {
    let code = blank(text);
    let starts = code.windows(5).enumerate().filter(|(_, word)| word == b"func ");
    let (at, _) = starts
        .filter(|(at, _)| {
            !at.checked_sub(1)
                .and_then(|before| code.get(before))
                .is_some_and(|byte| is_word(*byte))
        })
        .find(|(at, _)| is_definition(code.get(at + 5..).unwrap_or_default()))?;
    Some(Handler {
        line: line_of(text, at),
        what: "func (Event, Context)",
        http: false,
    })
}

/// Says whether the code after `func` defines a handler.
fn is_definition(code: &[u8]) -> bool {
    let code = code.trim_ascii_start();
    let name = code.iter().position(|byte| !is_word(*byte)).unwrap_or(code.len());
    let rest = code.get(name..).unwrap_or_default().trim_ascii_start();
    let Some(list) = rest.strip_prefix(b"(").filter(|_| name > 0) else {
        return false; // a method, or a function without a name
    };
    let list = list.get(..PARAMETERS_MAX).unwrap_or(list);
    let Some(end) = list.iter().position(|byte| *byte == b')') else {
        return false;
    };
    let list = list.get(..end).unwrap_or_default().trim_ascii_end();
    let list = list.strip_suffix(b",").unwrap_or(list);
    let types: Vec<_> = list.split(|byte| *byte == b',').map(last_word).collect();
    types == [b"Event".as_slice(), b"Context"]
}

/// Returns the last name of a parameter: `Event` of `event functions.Event`.
fn last_word(parameter: &[u8]) -> &[u8] {
    let parameter = parameter.trim_ascii();
    let start = parameter
        .iter()
        .rposition(|byte| !is_word(*byte))
        .map_or(0, |at| at + 1);
    parameter.get(start..).unwrap_or_default()
}

/// Replaces strings and comments by blanks.
fn blank(text: &str) -> Vec<u8> {
    blanked(text, |code| match code {
        [b'/', b'/', ..] => line_comment(code),
        [b'`', raw @ ..] => raw
            .iter()
            .position(|byte| *byte == b'`')
            .map_or(code.len(), |end| end + 2),
        _ => skip_literal(code, b"\"'"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::handler;

    const WHAT: &str = "func (Event, Context)";

    #[test]
    fn a_function_with_event_and_context_is_a_handler() {
        for (code, line) in [
            (
                "package kubeless\n\nfunc Hello(event functions.Event, context functions.Context) (string, error) {\n",
                3,
            ),
            (
                "func Handler(\n\te functions.Event,\n\tc functions.Context,\n) (any, error) {",
                1,
            ),
            (
                "func handler(_ Event, _ Context) ([]byte, error) { return nil, nil }",
                1,
            ),
            (
                "// func A(event functions.Event, context functions.Context)\nfunc B(functions.Event, functions.Context) (string, error) {",
                2,
            ),
        ] {
            expect(handler(code), Some((line, WHAT)), code);
        }
    }

    #[test]
    fn other_functions_strings_and_comments_are_none() {
        for code in [
            "",
            "package main\n\nfunc main() {\n}\n",
            "func (s Shop) Handler(event functions.Event, context functions.Context) (string, error) {",
            "func Handler(event functions.Event) (string, error) {",
            "var text = `func Handler(event functions.Event, context functions.Context)`",
            "/* func Handler(event functions.Event, context functions.Context) */",
            "type F func (event functions.Event, context functions.Context) (string, error)",
            "func Handler(event functions.Event, context functions.Context",
        ] {
            expect(handler(code), None, code);
        }
    }
}
