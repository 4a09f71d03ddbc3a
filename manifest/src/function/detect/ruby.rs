//! Detects handlers in Ruby: a top-level `def handler`, or a top-level `def main` with two parameters.
//!
//! Strings, regular expressions, here-documents and comments are blanked first. Then only lines without indentation
//! count: they open and close classes, modules and blocks. A definition inside one of those is no handler.

use super::ruby_blank::Blank;
use super::{Handler, line_of};

pub(super) fn handler(text: &str) -> Option<Handler> {
    let code = Blank::of(text);
    let mut depth = 0_usize;
    let mut position = 0;
    for line in code.split_inclusive('\n') {
        let here = position;
        position += line.len();
        if line.starts_with([' ', '\t']) {
            continue;
        }
        let line = line.trim_end();
        if depth == 0
            && let Some(what) = definition(line)
        {
            return Some(Handler {
                line: line_of(text, here),
                what,
                http: false,
            });
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
    line.split(|c: char| c != '_' && !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

/// Returns the handler that a line defines.
fn definition(line: &str) -> Option<&'static str> {
    let rest = line.strip_prefix("def ")?.trim_start();
    let end = rest
        .find(|c: char| c != '_' && !c.is_alphanumeric())
        .unwrap_or(rest.len());
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
    if words(line).next_back() == Some("end") && !line.ends_with(':') {
        return false;
    }
    let keywords = [
        "class", "module", "def", "begin", "if", "unless", "case", "while", "until", "for", "BEGIN", "END",
    ];
    let first = words(line).next().unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    fn check(text: &str, expected: Option<(u32, &str)>) {
        expect(handler(text), expected, text);
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
