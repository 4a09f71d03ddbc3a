//! Detects handlers in Java: a method with the parameters `Event` and `Context`, in a file without a `main`.
//!
//! Only methods of a class at the top level count.

use super::lexer::{COMMENT, DOUBLE, LINE_COMMENT, Literal, SINGLE, Syntax};
use super::{PARAMETERS_MAX, names, word};

pub(super) const SYNTAX: Syntax = Syntax::of(&[LINE_COMMENT, COMMENT, Literal::string(b"\"\"\""), DOUBLE, SINGLE]);

/// Words that can stand before a name and `(` where no method is defined: modifiers before a constructor, a record, a call.
const BEFORE_OTHERS: [&[u8]; 6] = [b"public", b"protected", b"private", b"record", b"new", b"return"];

pub(super) fn handler(code: &str) -> Option<(usize, &'static str)> {
    let code = code.as_bytes();
    let mut found = None;
    // The word before the current one, and the end of it.
    let (mut before, mut end): (&[u8], usize) = (b"", 0);
    for (at, depth, word) in names(code) {
        let after = code.get(at + word.len()..).unwrap_or_default();
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
        // Of several methods the shim calls the one with the name `handler`.
        if depth == 1 && typed && takes_event_and_context(after) && (found.is_none() || word == b"handler") {
            found = Some(at);
        }
        (before, end) = (word, at + word.len());
    }
    Some((found?, "method(Event, Context)"))
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

#[cfg(test)]
mod tests {
    use super::super::tests::expect;

    fn check(text: &str, expected: Option<u32>) {
        expect("java", expected.map(|line| (line, "method(Event, Context)")), text);
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
