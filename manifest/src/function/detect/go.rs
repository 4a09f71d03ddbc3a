//! Detects handlers in Go: a function, not a method, whose parameters have the types `Event` and `Context`, or the types
//! `Context`, `Logger` and `Request` (Rafay's form).

use super::lexer::{COMMENT, DOUBLE, LINE_COMMENT, Literal, SINGLE, Syntax};
use super::{PARAMETERS_MAX, is_word, names, word};

pub(super) const SYNTAX: Syntax = Syntax::of(&[LINE_COMMENT, COMMENT, DOUBLE, SINGLE, Literal::comment(b"`", b"`")]);

/// The types of the parameters of each form, and how people write it.
const FORMS: [(&[&[u8]], &str); 2] = [
    (&[b"Event", b"Context"], "func (Event, Context)"),
    (
        &[b"Context", b"Logger", b"Request"],
        "func Handle(Context, Logger, Request)",
    ),
];

pub(super) fn handler(code: &str) -> Option<(usize, &'static str)> {
    let code = code.as_bytes();
    let mut starts = names(code).filter(|(_, _, name)| *name == b"func");
    // `func(` is a type, or a function without a name.
    starts.find_map(|(at, ..)| Some((at, form(code.get(at..)?.strip_prefix(b"func ")?)?)))
}

/// Returns the form of the handler that the code after `func` defines; absent if it defines none.
fn form(code: &[u8]) -> Option<&'static str> {
    let code = code.trim_ascii_start();
    let name = word(code);
    let rest = code.get(name.len()..).unwrap_or_default().trim_ascii_start();
    // Without a name before the list it is a method, or a function without a name.
    let list = rest.strip_prefix(b"(").filter(|_| !name.is_empty())?;
    let list = list.get(..PARAMETERS_MAX).unwrap_or(list);
    let end = list.iter().position(|byte| *byte == b')')?;
    let list = list.get(..end).unwrap_or_default().trim_ascii_end();
    // Go wants a comma before a `)` on a line of its own.
    let list = list.strip_suffix(b",").unwrap_or(list);
    // A file may import the package under another name, so only the name of the type counts.
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

#[cfg(test)]
mod tests {
    use super::super::tests::expect;

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
            expect("go", Some((line, WHAT)), code);
        }
    }

    #[test]
    fn a_function_of_rafay_is_a_handler() {
        let code = "package function\n\nfunc Handle(ctx context.Context, logger sdk.Logger, req sdk.Request) (sdk.Response, error) {\n";
        expect("go", Some((3, "func Handle(Context, Logger, Request)")), code);
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
            expect("go", None, code);
        }
    }
}
