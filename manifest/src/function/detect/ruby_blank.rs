//! Blanks what is no code in Ruby: strings, regular expressions, here-documents, comments.
//!
//! Code inside of a string (`"#{...}"`) stays code. Whether `/`, `%` and `?` begin a literal depends on what is before them.

/// Words after which a value begins.
const BEFORE_VALUES: [&[u8]; 10] = [
    b"if", b"unless", b"when", b"and", b"or", b"not", b"return", b"while", b"until", b"in",
];

/// The end of the text that is blanked.
struct Literal {
    open: u8,
    close: u8,
    /// Brackets of the same kind that are open inside.
    depth: u32,
    /// Whether `#{` begins code.
    embeds: bool,
}

/// Replaces all text that is no code by blanks, so that every line and byte keeps its position.
pub(super) struct Blank<'a> {
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
    pub(super) fn of(text: &'a str) -> String {
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
