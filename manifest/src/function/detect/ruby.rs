//! Detects handlers in Ruby: a top-level `def handler`, or a top-level `def main` with two parameters.
//!
//! Strings, regular expressions, here-documents and comments are blanked first. Then only lines without indentation
//! count: they open and close classes, modules and blocks. A definition inside one of those is no handler.

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

/// Words after which a value begins.
const BEFORE_VALUES: [&[u8]; 10] = [
    b"if", b"unless", b"when", b"and", b"or", b"not", b"return", b"while", b"until", b"in",
];

/// What closes the text that is blanked.
struct Literal {
    open: u8,
    close: u8,
    /// Brackets of the same kind that are open inside.
    depth: u32,
    /// Whether `#{` begins code.
    embeds: bool,
}

/// Replaces all text that is no code by blanks, so that every line and byte keeps its position.
struct Blank<'a> {
    text: &'a [u8],
    at: usize,
    result: Vec<u8>,
    /// End of the last code or literal, and which of them it was.
    last: usize,
    last_is_literal: bool,
    /// Literals that are open, with the number of braces that are open in the code inside of each.
    literals: Vec<(Literal, u32)>,
    in_code: bool,
    /// Here-documents that begin after this line.
    documents: Vec<&'a [u8]>,
}

impl<'a> Blank<'a> {
    fn of(text: &'a str) -> String {
        let mut blank = Self {
            text: text.as_bytes(),
            at: 0,
            result: Vec::with_capacity(text.len()),
            last: 0,
            last_is_literal: false,
            literals: Vec::new(),
            in_code: true,
            documents: Vec::new(),
        };
        while let Some(byte) = blank.text.get(blank.at) {
            if blank.in_code {
                blank.code(*byte);
            } else {
                blank.literal(*byte);
            }
        }
        String::from_utf8_lossy(&blank.result).into_owned()
    }

    /// Blanks the next bytes.
    fn skip(&mut self, count: usize) {
        let end = (self.at + count).min(self.text.len());
        let skipped = self.text.get(self.at..end).unwrap_or_default();
        let blank = |byte: &u8| if *byte == b'\n' { b'\n' } else { b' ' };
        self.result.extend(skipped.iter().map(blank));
        self.at = end;
    }

    fn keep(&mut self, count: usize) {
        let end = (self.at + count).min(self.text.len());
        let kept = self.text.get(self.at..end).unwrap_or_default();
        if !kept.trim_ascii().is_empty() {
            (self.last, self.last_is_literal) = (end, false);
        }
        self.result.extend_from_slice(kept);
        self.at = end;
    }

    /// Blanks the end of a literal.
    fn close(&mut self, count: usize) {
        self.skip(count);
        (self.last, self.last_is_literal) = (self.at, true);
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn code(&mut self, byte: u8) {
        let begins_line = self.at == 0 || self.text[self.at - 1] == b'\n';
        if begins_line && self.rest().starts_with(b"=begin") {
            let end = find(self.rest(), b"\n=end").map_or(usize::MAX, |at| at + 5);
            return self.skip(end.min(self.text.len()));
        }
        if begins_line && is_line(self.rest(), b"__END__") {
            return self.skip(self.text.len());
        }
        match byte {
            b'\n' => {
                self.keep(1);
                for name in std::mem::take(&mut self.documents) {
                    self.document(name);
                }
            }
            b'#' => self.skip(find(self.rest(), b"\n").unwrap_or(self.text.len())),
            b'<' if self.rest().starts_with(b"<<") => self.heredoc(),
            b'?' if !self.follows_value() && matches!(self.rest().get(1), Some(b'"' | b'\'' | b'`' | b'/' | b'#')) => {
                self.close(2);
            }
            b'"' | b'`' => self.open(1, byte, byte, true),
            b'\'' => self.open(1, byte, byte, false),
            b'/' if !self.follows_value() => self.open(1, byte, byte, true),
            b'%' if !self.follows_value() => self.percent(),
            b'{' | b'}' => self.brace(byte),
            _ => self.keep(1),
        }
    }

    fn brace(&mut self, byte: u8) {
        if let Some((_, braces)) = self.literals.last_mut() {
            if byte == b'{' {
                *braces += 1;
            } else if *braces == 0 {
                self.in_code = false;
                return self.skip(1);
            } else {
                *braces -= 1;
            }
        }
        self.keep(1);
    }

    /// Says whether a value ends just before, so that `/` divides and `%` is an operator. After a word and a blank it
    /// begins a literal if no blank follows: `puts /x/`.
    fn follows_value(&self) -> bool {
        let gap = self.text.get(self.last..self.at).unwrap_or_default();
        if self.last == 0 || gap.contains(&b'\n') {
            return false;
        }
        if self.last_is_literal {
            return true;
        }
        let before = self.text.get(..self.last).unwrap_or_default();
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let word = before.rsplit(|byte| !is_word(byte)).next().unwrap_or_default();
        let Some(first) = word.first() else {
            return before.ends_with(b")") || before.ends_with(b"]") || before.ends_with(b"}");
        };
        let is_operator = matches!(self.rest().get(1), Some(b' ' | b'=' | b'\n') | None);
        let argument = !gap.is_empty() && !first.is_ascii_digit() && !is_operator;
        !argument && !BEFORE_VALUES.contains(&word)
    }

    /// `%w[a b]`, `%q(text)`, `%(text)`.
    fn percent(&mut self) {
        let rest = self.rest();
        let (kind, at) = match rest.get(1) {
            Some(kind) if b"wWiIqQrsx".contains(kind) => (*kind, 2),
            _ => (b'Q', 1),
        };
        match rest.get(at) {
            Some(open) if open.is_ascii_punctuation() && (at == 2 || b"([{<|!/".contains(open)) => {
                let close = match open {
                    b'(' => b')',
                    b'[' => b']',
                    b'{' => b'}',
                    b'<' => b'>',
                    other => *other,
                };
                self.open(at + 1, *open, close, !b"wiqs".contains(&kind));
            }
            _ => self.keep(1),
        }
    }

    fn open(&mut self, width: usize, open: u8, close: u8, embeds: bool) {
        self.skip(width);
        let literal = Literal {
            open,
            close,
            depth: 0,
            embeds,
        };
        self.literals.push((literal, 0));
        self.in_code = false;
    }

    fn literal(&mut self, byte: u8) {
        let Some((literal, _)) = self.literals.last_mut() else {
            self.in_code = true;
            return;
        };
        if byte == b'\\' {
            return self.skip(2);
        }
        if literal.embeds && byte == b'#' && self.text.get(self.at + 1) == Some(&b'{') {
            self.in_code = true;
            return self.skip(2);
        }
        if byte == literal.close && literal.depth == 0 {
            self.literals.pop();
            // Inside of `#{` the code of the outer literal goes on.
            self.in_code = true;
            return self.close(1);
        } else if byte == literal.close {
            literal.depth -= 1;
        } else if byte == literal.open {
            literal.depth += 1;
        }
        self.skip(1);
    }

    /// `<<~NAME`, `<<-"NAME"`, `<<NAME`. The text begins in the next line.
    fn heredoc(&mut self) {
        let rest = &self.rest()[2..];
        let (indented, name) = match rest {
            [b'~' | b'-', name @ ..] => (true, name),
            _ => (false, rest),
        };
        let quote = name.first().copied().filter(|byte| b"\"'`".contains(byte));
        let name = &name[usize::from(quote.is_some())..];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let end = name.iter().position(|byte| !is_name(byte)).unwrap_or(name.len());
        let name = &name[..end];
        let plain = indented || quote.is_some() || name.first().is_some_and(u8::is_ascii_uppercase);
        if name.is_empty() || !plain || (!indented && self.follows_value()) {
            return self.keep(2);
        }
        self.documents.push(name);
        self.close(2 + usize::from(indented) + 2 * usize::from(quote.is_some()) + name.len());
    }

    /// Blanks lines up to the one that has only a name. Without such a line the rest is text.
    fn document(&mut self, name: &[u8]) {
        while self.at < self.text.len() {
            let line = self.rest().split(|byte| *byte == b'\n').next().unwrap_or_default();
            let ends = line.trim_ascii() == name;
            self.skip(line.len() + 1);
            if ends {
                return;
            }
        }
    }
}

fn is_line(text: &[u8], line: &[u8]) -> bool {
    text.strip_prefix(line)
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'\n' | b'\r')))
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|bytes| bytes == what)
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
