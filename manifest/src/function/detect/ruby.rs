//! Detects handlers in Ruby: a top-level `def handler`, or a top-level `def main` with two parameters.
//!
//! Only lines without indentation count: they open and close classes, modules and blocks. A definition inside one of those is no handler.

use super::lexer::{Lexeme, Lexer, Literal, Syntax};
use super::{find, is_other, is_word, lines};

/// Words after which a value begins.
const BEFORE_VALUES: [&[u8]; 10] = [
    b"if", b"unless", b"when", b"and", b"or", b"not", b"return", b"while", b"until", b"in",
];

pub(super) const SYNTAX: Syntax = Syntax {
    literals: &[
        Literal::line(b"#"),
        literal(b"\"", b"\"", true),
        literal(b"`", b"`", true),
        literal(b"'", b"'", false),
    ],
    own: Some(own),
};

const fn literal<'a>(open: &'a [u8], close: &'a [u8], embeds: bool) -> Literal<'a> {
    Literal {
        embeds: if embeds { b"#{" } else { b"" },
        // In `%w(a (b))` brackets nest. Quotes never do, because the lexer looks for the end before it looks for a
        // beginning.
        nests: true,
        is_value: true,
        close,
        ..Literal::string(open)
    }
}

pub(super) fn handler(code: &str) -> Option<(usize, &'static str)> {
    let mut depth = 0_usize;
    for (here, line) in lines(code) {
        if line.starts_with([' ', '\t']) {
            continue;
        }
        let line = line.trim_end();
        if depth == 0
            && let Some(what) = definition(line)
        {
            return Some((here, what));
        }
        depth = if opens(line) {
            depth + 1
        } else if matches!(words(line).next(), Some("end")) || line.starts_with('}') {
            depth.saturating_sub(1)
        } else {
            depth
        };
    }
    None
}

fn words(line: &str) -> impl DoubleEndedIterator<Item = &str> {
    line.split(is_other).filter(|word| !word.is_empty())
}

/// Returns the handler that a line defines.
fn definition(line: &str) -> Option<&'static str> {
    let rest = line.strip_prefix("def ")?.trim_start();
    let end = rest.find(is_other).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    // `def handler.x`, `def handler?`, `def handler=(x)`
    if rest.starts_with(['.', '?', '!', '=']) {
        return None;
    }
    let list = rest.trim_start().trim_start_matches('(');
    let list = list.split([')', ';']).next().unwrap_or_default();
    let two = list.split(',').filter(|parameter| !parameter.trim().is_empty()).count() == 2;
    match name {
        "handler" => Some("def handler"),
        "main" if two => Some("def main"),
        _ => None,
    }
}

/// Says whether a line begins what a later line without indentation ends.
fn opens(line: &str) -> bool {
    // `f(x, end:` passes an argument with the name `end`.
    if words(line).next_back() == Some("end") && !line.ends_with(':') {
        return false;
    }
    let keywords = [
        "class", "module", "def", "begin", "if", "unless", "case", "while", "until", "for", "BEGIN", "END",
    ];
    let first = words(line).next().unwrap_or_default();
    // In Ruby `if`, `case` and `begin` have values: `x = if y` goes on up to its `end`.
    let value = line.split_once("= ").map_or("", |(_, value)| value.trim_start());
    let begins = (line.starts_with(first) && keywords.contains(&first)) && !is_endless(line);
    let assigned = words(value)
        .next()
        .is_some_and(|word| value.starts_with(word) && keywords[3..8].contains(&word));
    // `each do`, `each do |x, y|`, `each { |x|`
    let block = line
        .strip_suffix('|')
        .and_then(|line| line.rsplit_once('|'))
        .map_or(line, |(before, _)| before);
    let block = block.trim_end();
    begins || assigned || words(block).next_back() == Some("do") && block.ends_with("do") || block.ends_with('{')
}

/// Says whether a method has its body on the same line: `def twice(x) = 2 * x`.
fn is_endless(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("def ") else {
        return false;
    };
    let after = rest.find(')').and_then(|end| rest.get(end + 1..)).unwrap_or_else(|| {
        let end = rest.find(' ').unwrap_or(rest.len());
        rest.get(end..).unwrap_or_default()
    });
    after.trim_start().starts_with("= ")
}

/// Finds literals that depend on the code before them (regular expressions, `%w[]`, characters such as `?"`, here-documents),
/// and `=begin` and `__END__` at the beginning of a line.
fn own<'a>(lexer: &mut Lexer<'a>) -> Option<Lexeme<'a>> {
    let rest = lexer.rest();
    let begins_line = lexer.at == 0 || lexer.text.as_bytes().get(lexer.at - 1) == Some(&b'\n');
    if begins_line && rest.starts_with(b"=begin") {
        return Some(Lexeme::Blank(find(rest, b"\n=end").map_or(rest.len(), |at| at + 5)));
    }
    if begins_line && is_line(rest, b"__END__") {
        return Some(Lexeme::Blank(rest.len()));
    }
    match rest {
        [b'\n', after @ ..] => {
            let names = std::mem::take(&mut lexer.documents);
            let width = |at, name: &[u8]| at + document(after.get(at..).unwrap_or_default(), name);
            Some(Lexeme::Blank(1 + names.into_iter().fold(0, width)))
        }
        [b'<', b'<', ..] => Some(heredoc(lexer)),
        [b'?', b'"' | b'\'' | b'`' | b'/' | b'#', ..] if !follows_value(lexer) => Some(Lexeme::Value(2)),
        [b'/', ..] if !follows_value(lexer) => Some(Lexeme::Literal(1, literal(b"/", b"/", true))),
        [b'%', ..] if !follows_value(lexer) => percent_literal(rest),
        _ => None,
    }
}

/// Says whether the code before this position ends with a value: then `/` divides and `%` is an operator. After a word and a
/// blank, a `/` or `%` without a blank behind it begins a literal: `puts /x/`.
fn follows_value(lexer: &Lexer) -> bool {
    let text = lexer.text.as_bytes();
    let gap = text.get(lexer.last..lexer.at).unwrap_or_default();
    if lexer.last == 0 || gap.contains(&b'\n') {
        return false;
    }
    if lexer.last_is_literal {
        return true;
    }
    let before = text.get(..lexer.last).unwrap_or_default();
    let word = before.rsplit(|byte| !is_word(*byte)).next().unwrap_or_default();
    let Some(first) = word.first() else {
        return before.ends_with(b")") || before.ends_with(b"]") || before.ends_with(b"}");
    };
    let is_operator = matches!(lexer.rest().get(1), Some(b' ' | b'=' | b'\n') | None);
    let argument = !gap.is_empty() && !first.is_ascii_digit() && !is_operator;
    !argument && !BEFORE_VALUES.contains(&word)
}

/// Returns the beginning of a literal such as `%w[a b]`, `%q(text)` or `%(text)`.
fn percent_literal(rest: &[u8]) -> Option<Lexeme<'_>> {
    let (kind, at) = match rest.get(1) {
        Some(kind) if b"wWiIqQrsx".contains(kind) => (*kind, 2),
        _ => (b'Q', 1),
    };
    let open = rest.get(at..=at)?;
    let close: &[u8] = match open {
        b"(" => b")",
        b"[" => b"]",
        b"{" => b"}",
        b"<" => b">",
        // Without a letter behind it, `%` before another sign is mostly the operator.
        [other] if other.is_ascii_punctuation() && (at == 2 || b"|!/".contains(other)) => open,
        _ => return None,
    };
    Some(Lexeme::Literal(at + 1, literal(open, close, !b"wiqs".contains(&kind))))
}

/// Returns the name of a here-document (`<<~NAME`, `<<-"NAME"`, `<<NAME`), whose text begins in the next line, or the operator
/// `<<`.
fn heredoc<'a>(lexer: &mut Lexer<'a>) -> Lexeme<'a> {
    let rest = lexer.rest().get(2..).unwrap_or_default();
    let (indented, name) = match rest {
        [b'~' | b'-', name @ ..] => (true, name),
        _ => (false, rest),
    };
    let (quoted, name) = match name {
        [b'"' | b'\'' | b'`', name @ ..] => (true, name),
        _ => (false, name),
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = name.split(|byte| !is_name(byte)).next().unwrap_or_default();
    // `list <<name` may append to a list.
    let plain = indented || quoted || name.first().is_some_and(u8::is_ascii_uppercase);
    if name.is_empty() || !plain || (!indented && follows_value(lexer)) {
        return Lexeme::Code(2);
    }
    lexer.documents.push(name);
    Lexeme::Value(2 + usize::from(indented) + 2 * usize::from(quoted) + name.len())
}

/// Returns the length of a here-document, up to the line that has only its name. Without such a line the rest is text.
fn document(text: &[u8], name: &[u8]) -> usize {
    let mut length = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        length += line.len();
        if line.trim_ascii() == name {
            break;
        }
    }
    length
}

fn is_line(text: &[u8], line: &[u8]) -> bool {
    text.strip_prefix(line)
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'\n' | b'\r')))
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;

    fn check(text: &str, expected: Option<(u32, &str)>) {
        expect("ruby", expected, text);
    }

    #[test]
    fn handlers_are_found() {
        for (before, line) in [
            ("", 1),
            ("require \"json\"\n\n", 3),
            ("def helper(x)\n  x\nend\n", 4),
            ("def twice(x) = 2 * x\ndef now = Time.now\n", 3),
            ("class Gone < StandardError; end\n", 2),
            ("class A\n  def handler(a, b)\n  end\nend\n", 5),
            ("class A\ndef x(a)\nend\nend\n", 5),
            ("X = if ENV[\"A\"]\n  1\nelse\n  2\nend\n", 6),
            ("LIST.each do |a, b|\n  p a\nend\nLIST.map { |x|\n  x\n}\n", 7),
            ("X = <<~A + <<-'B'\n  class X\nA\n  it's\n  B\n", 6),
            ("X = \"a #{h[\"}\"]} b\"\nY = 'it''s'\n", 3),
            ("X = %w[\nclass def if\n]\nY = %q(a (b) c)\n", 5),
            ("X = a / b\nY = c / d\n", 3),
            ("X = y =~ /[\"']/\nputs /'/\n", 3),
            ("X = 5 % 3\nX << Y\nZ = \"a\" / 2 / 1\n", 4),
            ("# it's\n=begin\nclass X\n=end\n", 5),
            ("puts 1 if true\nfoo unless x\n", 3),
            ("X = ?\"\n", 2),
            ("class << self\n  def handler(a, b) end\nend\n", 4),
        ] {
            let text = format!("{before}def handler(event, context)\n  1\nend\n");
            check(&text, Some((line, "def handler")));
        }
        check("def handler\n  1\nend\n", Some((1, "def handler")));
        check("def handler event, context\nend\n", Some((1, "def handler")));
        check("def main(event, context)\nend\n", Some((1, "def main")));
        check("def main(event, context = {}) = 1\n", Some((1, "def main")));
    }

    #[test]
    fn scripts_are_left_alone() {
        for text in [
            "",
            "puts 1\n",
            "def main\nend\nmain\n",
            "def main(argv)\nend\n",
            "class A\n  def handler(a, b)\n  end\nend\n",
            "class A\ndef handler(a, b)\nend\nend\n",
            "module A; class B\ndef handler(a, b)\nend\nend; end\n",
            "def x\n  def handler(a, b)\n  end\nend\n",
            "x = \"\ndef handler(a, b)\n\"\n",
            "x = '\ndef handler(a, b)\n'\n",
            "x = %q{\ndef handler(a, b)\n}\n",
            "x = <<A\ndef handler(a, b)\nA\n",
            "x = <<~'A'\ndef handler(a, b)\nA\n",
            "x = foo(<<~A, 1)\ndef handler(a, b)\nA\n",
            "x = %r{\ndef handler(a, b)\n}x\n",
            "=begin\ndef handler(a, b)\n=end\n",
            "# def handler(a, b)\n",
            "puts 1\n__END__\ndef handler(a, b)\nend\n",
            "def handler_of(a, b)\nend\n",
            "def handler?(a, b)\nend\n",
            "def handler=(a)\nend\n",
            "def handler.x(a)\nend\n",
            "define_method(:handler) do |a, b|\nend\n",
            "Class.new do\ndef handler(a, b)\nend\nend\n",
            "x = \"#{<<A}\ndef handler(a, b)\nA\n\"\n",
        ] {
            check(text, None);
        }
    }

    /// Every file is read once, so that the time is linear whatever it contains.
    #[test]
    fn hostile_files_take_no_time() {
        for text in [
            "\"#{", "%q(", "<<A\n", "=begin\n", "def x(\n", "/", "?\"", "x / ", "{", "#{",
        ] {
            check(&text.repeat(100_000), None);
        }
    }
}
