//! Detects handlers in PHP: a function `handler`, or a function `main` with two parameters, outside of all braces.

use super::lexer::{COMMENT, DOUBLE, Lexeme, Lexer, Literal, SINGLE, Syntax};
use super::{PARAMETERS_MAX, find, is_word, names, word};

pub(super) const SYNTAX: Syntax = Syntax {
    literals: &[COMMENT, DOUBLE, SINGLE, Literal::string(b"`")],
    own: Some(own),
};

pub(super) fn handler(code: &str) -> Option<(usize, &'static str)> {
    let code = code.as_bytes();
    // Upper and lower case make no difference in PHP's keywords and names of functions.
    let mut starts = names(code).filter(|(_, depth, name)| *depth == 0 && name.eq_ignore_ascii_case(b"function"));
    starts.find_map(|(at, _, name)| Some((at, definition(code.get(at + name.len()..)?)?)))
}

/// Returns the handler that the code after `function` defines.
fn definition(code: &[u8]) -> Option<&'static str> {
    let code = code.trim_ascii_start();
    // `function &handler` returns a reference.
    let code = code.strip_prefix(b"&").unwrap_or(code).trim_ascii_start();
    let name = word(code);
    let list = code.get(name.len()..)?.trim_ascii_start().strip_prefix(b"(")?;
    // The default of a parameter is constant, so each `$` is a parameter.
    let list = list.get(..PARAMETERS_MAX).unwrap_or(list);
    let end = list.iter().position(|byte| b"{;".contains(byte)).unwrap_or(list.len());
    let parameters = list.iter().take(end).filter(|byte| **byte == b'$').count();
    match name.to_ascii_lowercase().as_slice() {
        b"handler" => Some("function handler"),
        b"main" if parameters == 2 => Some("function main"),
        _ => None,
    }
}

/// Finds text outside of `<?php ... ?>`, here-documents and comments of one line.
fn own<'a>(lexer: &mut Lexer<'a>) -> Option<Lexeme<'a>> {
    let rest = lexer.rest();
    if lexer.at == 0 || rest.starts_with(b"?>") {
        let from = if lexer.at == 0 { 0 } else { 2 };
        let opens = |bytes: &[u8]| bytes.starts_with(b"<?php") || bytes.starts_with(b"<?=");
        let end = (from..rest.len()).find(|at| rest.get(*at..).is_some_and(opens));
        // `<?=` has 3 bytes. Of `<?php` the letters `hp` stay in the code: they are no keyword.
        return Some(Lexeme::Blank(end.map_or(rest.len(), |end| end + 3)));
    }
    let count = if rest.starts_with(b"<<<") {
        document(rest)
    // `#[` begins an attribute, which is code.
    } else if rest.starts_with(b"//") || (rest.starts_with(b"#") && !rest.starts_with(b"#[")) {
        // `?>` ends the comment, too.
        let line = find(rest, b"\n").unwrap_or(rest.len());
        find(rest.get(..line).unwrap_or_default(), b"?>").unwrap_or(line)
    } else {
        0
    };
    Some(Lexeme::Blank(count)).filter(|_| count > 0)
}

/// Returns the length of a here-document up to the end of its name, 0 if it is none.
fn document(code: &[u8]) -> usize {
    let begin = code.get(3..).unwrap_or_default().trim_ascii_start();
    let name = word(
        begin
            .strip_prefix(b"\"")
            .or_else(|| begin.strip_prefix(b"'"))
            .unwrap_or(begin),
    );
    if name.is_empty() {
        return 0;
    }
    let first = find(code, b"\n").unwrap_or(code.len());
    let mut at = first;
    for line in code
        .get(first..)
        .unwrap_or_default()
        .split_inclusive(|byte| *byte == b'\n')
    {
        // Since PHP 7.3 the name at the end may be indented, and code may follow it.
        let text = line.trim_ascii_start();
        let indent = line.len() - text.len();
        if text
            .strip_prefix(name)
            .is_some_and(|rest| !rest.first().is_some_and(|byte| is_word(*byte)))
        {
            return at + indent + name.len();
        }
        at += line.len();
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;

    fn check(text: &str, expected: Option<(u32, &str)>) {
        expect("php", expected, text);
    }

    #[test]
    fn handlers_are_found() {
        for (before, line) in [
            ("<?php\n", 2),
            ("#!/usr/bin/php\n<?php\nnamespace Shop;\nuse function X\\handler;\n", 5),
            ("<?php\nclass A { function handler($a, $b) {} }\n", 3),
            ("<?php\n$x = \"{$y['}']} {\"; $z = '{';\n", 3),
            ("<?php\n$x = <<<A\n  {\n  A . '';\n", 5),
            ("<?php\n$x = <<<'A'\nAB {\nA;\n", 5),
            ("<p>{</p>\n<?php // { ?>\n{<?php\n", 4),
            ("<?php\n/* { */ # {\n#[Attribute]\n", 4),
        ] {
            let text = format!("{before}function handler($event, $context)\n{{\n}}\n");
            check(&text, Some((line, "function handler")));
        }
        check("<?php FUNCTION &Handler() {}", Some((1, "function handler")));
        check(
            "<?php\nfunction main(object $event, array $context = ['a' => [1, 2]]): array {}",
            Some((2, "function main")),
        );
    }

    #[test]
    fn scripts_are_left_alone() {
        for text in [
            "",
            "<?php\necho 1;\n",
            "function handler($a, $b) {}\n",
            "<?php\necho 1;\n?>\nfunction handler($a, $b) {}\n",
            "<?php\nfunction main($argv) {}\nmain($argv);\n",
            "<?php\nclass A {\nfunction handler($a, $b) {}\n}\n",
            "<?php\nif (1) {\nfunction handler($a, $b) {}\n}\n",
            "<?php\n$x = '\nfunction handler($a, $b) {}\n';\n",
            "<?php\n$x = \"\\\"\nfunction handler($a, $b) {}\n\";\n",
            "<?php\n$x = <<<A\nfunction handler($a, $b) {}\nA;\n",
            "<?php\n// function handler($a, $b) {}\n# function handler()\n/*\nfunction handler($a, $b) {}\n*/\n",
            "<?php\nfunction handlers($a, $b) {}\n",
            "<?php\nuse function A\\handler;\n",
            "<?php\n$handler = function ($a, $b) {};\n",
        ] {
            check(text, None);
        }
    }

    /// Every file is read once, so that the time is linear whatever it contains.
    #[test]
    fn hostile_files_take_no_time() {
        for text in [
            "<?php",
            "?>",
            "<<<A\n",
            "<<<",
            "function main(",
            "'",
            "/*",
            "#",
            "{",
            "$x function ",
        ] {
            check(&format!("<?php {}", text.repeat(100_000)), None);
        }
    }
}
