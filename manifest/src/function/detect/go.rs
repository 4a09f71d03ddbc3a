//! Detects handlers in Go: a function, not a method, whose parameters have the types `Event` and `Context`, or the types
//! `Context`, `Logger` and `Request` (Rafay's form).
//!
//! Strings and comments are blanked first.

use super::{Handler, blanked, is_word, line_comment, line_of, skip_literal};

/// Longest list of parameters in bytes, so that the time is linear.
const PARAMETERS_MAX: usize = 4096;

/// The types of the parameters of each form, and how people write it.
const FORMS: [(&[&[u8]], &str); 2] = [
    (&[b"Event", b"Context"], "func (Event, Context)"),
    (
        &[b"Context", b"Logger", b"Request"],
        "func Handle(Context, Logger, Request)",
    ),
];

pub(super) fn handler(text: &str) -> Option<Handler> {
    let code = blank(text);
    let starts = code.windows(5).enumerate().filter(|(_, word)| word == b"func ");
    let (at, what) = starts
        .filter(|(at, _)| {
            !at.checked_sub(1)
                .and_then(|before| code.get(before))
                .is_some_and(|byte| is_word(*byte))
        })
        .find_map(|(at, _)| Some((at, form(code.get(at + 5..).unwrap_or_default())?)))?;
    Some(Handler {
        line: line_of(text, at),
        what,
        http: false,
    })
}

/// Returns the form of the handler that the code after `func` defines; absent if it defines none.
fn form(code: &[u8]) -> Option<&'static str> {
    let code = code.trim_ascii_start();
    let name = code.iter().position(|byte| !is_word(*byte)).unwrap_or(code.len());
    let rest = code.get(name..).unwrap_or_default().trim_ascii_start();
    // Without a name before the list it is a method, or a function without a name.
    let list = rest.strip_prefix(b"(").filter(|_| name > 0)?;
    let list = list.get(..PARAMETERS_MAX).unwrap_or(list);
    let end = list.iter().position(|byte| *byte == b')')?;
    let list = list.get(..end).unwrap_or_default().trim_ascii_end();
    let list = list.strip_suffix(b",").unwrap_or(list);
    let types: Vec<_> = list.split(|byte| *byte == b',').map(last_word).collect();
    FORMS.iter().find(|(form, _)| types == *form).map(|(_, what)| *what)
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
    fn a_function_of_rafay_is_a_handler() {
        let code = "package function\n\nfunc Handle(ctx context.Context, logger sdk.Logger, req sdk.Request) (sdk.Response, error) {\n";
        expect(handler(code), Some((3, "func Handle(Context, Logger, Request)")), code);
    }

    #[test]
    fn other_functions_strings_and_comments_are_none() {
        for code in [
            "",
            "package main\n\nfunc main() {\n}\n",
            "func (s Shop) Handler(event functions.Event, context functions.Context) (string, error) {",
            "func Handler(event functions.Event) (string, error) {",
            "func Handle(ctx context.Context, logger sdk.Logger) (sdk.Response, error) {",
            "func Handle(logger sdk.Logger, ctx context.Context, req sdk.Request) (sdk.Response, error) {",
            "var text = `func Handler(event functions.Event, context functions.Context)`",
            "/* func Handler(event functions.Event, context functions.Context) */",
            "type F func (event functions.Event, context functions.Context) (string, error)",
            "func Handler(event functions.Event, context functions.Context",
        ] {
            expect(handler(code), None, code);
        }
    }
}
