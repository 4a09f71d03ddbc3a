//! Detects handlers in Java: a method with the parameters `Event` and `Context`, in a file without a `main`.
//!
//! Strings and comments are blanked first. Only methods directly in a class that is not inside of another one count.

use super::{Handler, blanked, is_word, line_comment, line_of, skip_literal};

/// Longest list of parameters in bytes, so that the time is linear.
const PARAMETERS_MAX: usize = 4096;

/// Words that can stand before a name and `(` where no method is defined: modifiers before a constructor, a record, a call.
const BEFORE_OTHERS: [&[u8]; 6] = [b"public", b"protected", b"private", b"record", b"new", b"return"];

pub(super) fn handler(text: &str) -> Option<Handler> {
    let code = blank(text);
    let mut found: Option<usize> = None;
    let (mut depth, mut at) = (0_usize, 0);
    // The word before the current one, and the end of it.
    let (mut before, mut end): (&[u8], usize) = (b"", 0);
    while let Some(byte) = code.get(at) {
        let rest = code.get(at..).unwrap_or_default();
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ if is_word(*byte) => {
                let word = word(rest);
                let after = rest.get(word.len()..).unwrap_or_default();
                let gap = code.get(end..at).unwrap_or_default().trim_ascii();
                // Depth 0 counts, too: a `main` outside of a class starts a program (JEP 512).
                if depth <= 1 && word == b"main" && before == b"void" && starts_program(after) {
                    return None;
                }
                // A type stands before the name of a method: `String`, `List<String>`, `byte[]`.
                let typed = match gap.last() {
                    None => !before.is_empty() && !BEFORE_OTHERS.contains(&before),
                    Some(last) => b">]".contains(last),
                };
                if depth == 1 && typed && takes_event_and_context(after) && (found.is_none() || word == b"handler") {
                    found = Some(at);
                }
                at += word.len();
                (before, end) = (word, at);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found.map(|at| Handler {
        line: line_of(text, at),
        what: "method(Event, Context)",
        http: false,
    })
}

/// Says whether these are the parameters of a `main` that starts a program: none, or an array of strings.
fn starts_program(code: &[u8]) -> bool {
    let Some(list) = code.trim_ascii_start().strip_prefix(b"(") else {
        return false;
    };
    let list = list.trim_ascii_start();
    let list = list.strip_prefix(b"final ").unwrap_or(list).trim_ascii_start();
    let list = list.strip_prefix(b"java.lang.").unwrap_or(list);
    list.starts_with(b")") || word(list) == b"String"
}

/// Says whether the code after a name is `(Event event, Context context)` and a body.
fn takes_event_and_context(code: &[u8]) -> bool {
    let Some(list) = code.trim_ascii_start().strip_prefix(b"(") else {
        return false;
    };
    let list = list.get(..PARAMETERS_MAX).unwrap_or(list);
    let Some(end) = list.iter().position(|byte| b"){}".contains(byte)) else {
        return false;
    };
    let (list, after) = list.split_at(end);
    let after = after.strip_prefix(b")").unwrap_or_default().trim_ascii_start();
    let mut parameters = list.split(|byte| *byte == b',').map(type_of);
    let both =
        parameters.next() == Some(b"Event") && parameters.next() == Some(b"Context") && parameters.next().is_none();
    both && (after.starts_with(b"{") || word(after) == b"throws")
}

/// Returns the type of a parameter without the package of Kubeless; empty if it has another form.
fn type_of(parameter: &[u8]) -> &[u8] {
    let words = parameter.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut words = words.filter(|word| *word != b"final" && !word.starts_with(b"@"));
    let (Some(found), Some(_), None) = (words.next(), words.next(), words.next()) else {
        return b"";
    };
    found.strip_prefix(b"io.kubeless.").unwrap_or(found)
}

fn word(code: &[u8]) -> &[u8] {
    let end = code.iter().position(|byte| !is_word(*byte)).unwrap_or(code.len());
    code.get(..end).unwrap_or_default()
}

/// Replaces strings and comments by blanks.
fn blank(text: &str) -> Vec<u8> {
    blanked(text, |code| match code {
        [b'/', b'/', ..] => line_comment(code),
        [b'"', b'"', b'"', ..] => text_block(code),
        _ => skip_literal(code, b"\"'"),
    })
}

/// Returns the length of `"""text"""`.
fn text_block(code: &[u8]) -> usize {
    let mut at = 3;
    while let Some(byte) = code.get(at) {
        if code.get(at..).is_some_and(|rest| rest.starts_with(br#"""""#)) {
            return at + 3;
        }
        at += if *byte == b'\\' { 2 } else { 1 };
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    fn check(text: &str, expected: Option<u32>) {
        expect(
            handler(text),
            expected.map(|line| (line, "method(Event, Context)")),
            text,
        );
    }

    #[test]
    fn handlers_are_found() {
        for method in [
            "public String foo(Event event, Context context) {",
            "public String foo(io.kubeless.Event event, io.kubeless.Context context) {",
            "public static Object handler(final Event event, @Given Context context) throws Exception {",
            "Map<String, Object> foo (Event e,\n Context c)\n{",
            "byte[] foo(Event e, Context c) {",
            "void foo(Event e, Context c) {",
            "String main(Event e, Context c) {",
        ] {
            let text = format!(
                "package io.kubeless;\nimport io.kubeless.Event;\npublic class Foo {{\n    {method}\n    }}\n}}\n"
            );
            check(&text, Some(4));
        }
        for (before, line) in [
            ("class A {\n", 2),
            ("class B { void f() { if (x) { } } }\nclass A {\n", 3),
            ("class A { char c = '{'; String s = \"{\\\"{\";\n", 2),
            ("class A { /* { */ // {\n", 2),
            ("class A { String s = \"\"\"\n { \\\"\"\" \"{ \"\"\";\n", 3),
        ] {
            check(
                &format!("{before}String foo(Event e, Context c) {{ }}\n}}\n"),
                Some(line),
            );
        }
        check(
            "class A {\nint a(Event e, Context c) { }\nint handler(Event e, Context c) { }\n}\n",
            Some(3),
        );
    }

    #[test]
    fn scripts_are_left_alone() {
        let foo = "String foo(Event e, Context c) { return \"\"; }";
        for text in [
            "",
            foo,
            &format!("class A {{ {foo}\npublic static void main(String[] arguments) {{ }} }}"),
            &format!("class A {{ public static void main(final String... arguments) {{ }} }}\nclass B {{ {foo} }}"),
            &format!("void main() {{ }}\nclass A {{ {foo} }}"),
            &format!("class A {{ class B {{ {foo} }} }}"),
            &format!("class A {{ void f() {{ {foo} }} }}"),
            &format!("class A {{ /* {foo} */\n// {foo}\nString s = \"{foo}\";\n }}"),
            "class A { A(Event e, Context c) { } }",
            "class A { public A(Event e, Context c) { } }",
            "class A { record B(Event e, Context c) { } }",
            "interface A { String foo(Event e, Context c); }",
            "class A { String foo(Event e) { } String bar(Event e, Context c, int i) { } }",
            "class A { String foo(MyEvent e, Context c) { } }",
            "class A { String foo(Context c, Event e) { } }",
            "class A { Object o = foo(Event, Context); }",
        ] {
            check(text, None);
        }
    }

    /// Every file is read once, so that the time is linear whatever it contains.
    #[test]
    fn hostile_files_take_no_time() {
        for text in [
            "\"\"\"",
            "\"",
            "/*",
            "{",
            "a(",
            "class A { a b(",
            "int foo(Event e,",
            "x ",
        ] {
            check(&text.repeat(100_000), None);
        }
    }
}
