//! One lexer for all languages: it puts blanks in place of strings and comments, so that every byte of code keeps its
//! position. Code inside of a string (`"#{...}"`) stays code.
//!
//! A language has a table of its literals. It may also have a function, which finds what no table can say: for example, a `/`
//! begins a regular expression only after some words.

/// A string, a comment or another text that is no code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Literal<'a> {
    pub(super) open: &'a [u8],
    pub(super) close: &'a [u8],
    /// Whether `\` takes the meaning from the byte after it.
    pub(super) escapes: bool,
    /// Whether `\` at the end of a line takes the meaning from that end.
    pub(super) escapes_line: bool,
    /// Whether the end of the line ends the literal, too. The end of the line stays in the code.
    pub(super) in_line: bool,
    /// The text that begins code inside of the literal, up to the matching `}`; empty if there can be no code.
    pub(super) embeds: &'a [u8],
    /// Whether each `open` inside needs a `close` of its own.
    pub(super) nests: bool,
    /// Whether the literal is a value: a `/` after a value divides.
    pub(super) is_value: bool,
    /// The bytes that replace each byte of the beginning, of the inside and of the end in the blanked code.
    pub(super) shown: [u8; 3],
}

impl<'a> Literal<'a> {
    pub(super) const fn comment(open: &'a [u8], close: &'a [u8]) -> Self {
        Self {
            open,
            close,
            escapes: false,
            escapes_line: false,
            in_line: false,
            embeds: b"",
            nests: false,
            is_value: false,
            shown: *b"   ",
        }
    }

    /// A comment up to the end of its line.
    pub(super) const fn line(open: &'a [u8]) -> Self {
        Self {
            in_line: true,
            ..Self::comment(open, b"\n")
        }
    }

    pub(super) const fn string(quotes: &'a [u8]) -> Self {
        Self {
            escapes: true,
            escapes_line: true,
            ..Self::comment(quotes, quotes)
        }
    }
}

/// A find of a language's own function, with its length in bytes.
pub(super) enum Lexeme<'a> {
    /// Code.
    Code(usize),
    /// A text that is no code and no value.
    Blank(usize),
    /// A text that is no code, but a value.
    Value(usize),
    /// The beginning of a literal.
    Literal(usize, Literal<'a>),
}

/// The literals of a language.
pub(super) struct Syntax {
    /// The lexer takes the first literal whose beginning fits, so longer beginnings come first.
    pub(super) literals: &'static [Literal<'static>],
    /// The function of the language. The lexer asks it at each byte of code, before it looks into the table.
    pub(super) own: Option<for<'a> fn(&mut Lexer<'a>) -> Option<Lexeme<'a>>>,
}

impl Syntax {
    pub(super) const fn of(literals: &'static [Literal<'static>]) -> Self {
        Self { literals, own: None }
    }

    /// Returns a text with blanks in place of what is no code. Ends of lines stay.
    pub(super) fn blanked(&self, text: &str) -> String {
        let mut lexer = Lexer {
            text,
            at: 0,
            code: Vec::with_capacity(text.len()),
            last: 0,
            last_is_literal: false,
            documents: Vec::new(),
            no_regex: 0,
            open: Vec::new(),
        };
        while let Some(byte) = lexer.rest().first() {
            match lexer.open.last() {
                Some(Layer::Text(literal)) => lexer.literal(*byte, *literal),
                _ => lexer.code(*byte, self),
            }
        }
        // Nothing is lost: of each character, all bytes are code or all are blanked.
        String::from_utf8_lossy(&lexer.code).into_owned()
    }
}

/// The constructs that are open around a byte.
enum Layer<'a> {
    Text(Literal<'a>),
    /// Code inside of a literal, with the number of its open braces.
    Code(u32),
}

pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// The text before `at`, blanked.
    pub(super) code: Vec<u8>,
    /// The end of the last code or value before `at`.
    pub(super) last: usize,
    /// Whether a value ends there; otherwise code does.
    pub(super) last_is_literal: bool,
    /// Names of Ruby's here-documents whose text begins after this line.
    pub(super) documents: Vec<&'a [u8]>,
    /// End of a line in which a regular expression of JavaScript had no end. The lexer searches for no further one in that
    /// line, so that a long line takes linear time.
    pub(super) no_regex: usize,
    open: Vec<Layer<'a>>,
}

impl<'a> Lexer<'a> {
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn code(&mut self, byte: u8, syntax: &Syntax) {
        match self.open.last_mut() {
            Some(Layer::Code(braces)) if byte == b'{' => *braces += 1,
            Some(Layer::Code(0)) if byte == b'}' => {
                self.open.pop();
                return self.skip(1, b' ');
            }
            Some(Layer::Code(braces)) if byte == b'}' => *braces -= 1,
            _ => {}
        }
        let rest = self.rest();
        let in_table = || {
            let literal = syntax.literals.iter().find(|literal| rest.starts_with(literal.open))?;
            Some(Lexeme::Literal(literal.open.len(), *literal))
        };
        match syntax.own.and_then(|own| own(self)).or_else(in_table) {
            None => self.keep(1),
            Some(Lexeme::Code(count)) => self.keep(count),
            Some(Lexeme::Blank(count)) => self.skip(count, b' '),
            Some(Lexeme::Value(count)) => self.skip_value(count, b' '),
            Some(Lexeme::Literal(count, literal)) => {
                self.skip(count, literal.shown[0]);
                self.open.push(Layer::Text(literal));
            }
        }
    }

    fn literal(&mut self, byte: u8, literal: Literal<'a>) {
        let rest = self.rest();
        let ends_line = rest.get(1) == Some(&b'\n');
        if byte == b'\n' && literal.in_line {
            self.close(0, literal);
        // An escaped beginning of code, such as `\#{`, begins none. Therefore the lexer looks for `\` first.
        } else if byte == b'\\'
            && (if ends_line {
                literal.escapes_line
            } else {
                literal.escapes
            })
        {
            self.skip(2, literal.shown[1]);
        } else if !literal.embeds.is_empty() && rest.starts_with(literal.embeds) {
            self.open.push(Layer::Code(0));
            self.skip(literal.embeds.len(), b' ');
        } else if rest.starts_with(literal.close) {
            self.close(literal.close.len(), literal);
        } else {
            if literal.nests && rest.starts_with(literal.open) {
                self.open.push(Layer::Text(literal));
            }
            self.skip(1, literal.shown[1]);
        }
    }

    fn close(&mut self, count: usize, literal: Literal) {
        self.open.pop();
        // The end of a nested literal is no end of a value: the literal around it goes on.
        if literal.is_value && !matches!(self.open.last(), Some(Layer::Text(_))) {
            self.skip_value(count, literal.shown[2]);
        } else {
            self.skip(count, literal.shown[2]);
        }
    }

    fn skip_value(&mut self, count: usize, shown: u8) {
        self.skip(count, shown);
        (self.last, self.last_is_literal) = (self.at, true);
    }

    fn keep(&mut self, count: usize) {
        let rest = self.rest();
        let kept = rest.get(..count).unwrap_or(rest);
        self.code.extend_from_slice(kept);
        self.at += kept.len();
        // Blanks do not count: whether a `/` divides depends on the last code before them.
        if !kept.trim_ascii().is_empty() {
            (self.last, self.last_is_literal) = (self.at, false);
        }
    }

    fn skip(&mut self, count: usize, shown: u8) {
        let rest = self.rest();
        let skipped = rest.get(..count).unwrap_or(rest);
        // A string of JavaScript goes on behind a `\` at the end of its line. An end of a line in place of its mark
        // would make two strings of it.
        let stays = |byte: &u8| *byte == b'\n' && shown == b' ';
        let blank = |byte: &u8| if stays(byte) { b'\n' } else { shown };
        self.code.extend(skipped.iter().map(blank));
        self.at += skipped.len();
    }
}

pub(super) const LINE_COMMENT: Literal = Literal::line(b"//");
pub(super) const COMMENT: Literal = Literal::comment(b"/*", b"*/");
pub(super) const DOUBLE: Literal = Literal::string(b"\"");
pub(super) const SINGLE: Literal = Literal::string(b"'");

#[cfg(test)]
mod tests {
    use super::super::{go, javascript, php, python, ruby};

    #[test]
    fn what_is_no_code_is_blanked_and_keeps_its_length() {
        for (syntax, text, expected) in [
            (
                go::SYNTAX,
                "a /* b\n */ \"\\\"c\" // d\n'e",
                "a.....\n..............\n..",
            ),
            (python::SYNTAX, "a '''b\n''' 'c\nd # e", "a.....\n\"\"\"...\nd...."),
            (
                javascript::SYNTAX,
                "`a ${b({})} c` \"é\" = /[/]/g",
                ".....b({}).....\"'''.=......g",
            ),
            // The end of a comment is no part of its beginning.
            (javascript::SYNTAX, "/*/ a */ b", ".........b"),
            (
                ruby::SYNTAX,
                "\"#{a %(c (d) e)}\" <<~F\n  g\n F\nh",
                "...a..................\n...\n..\nh",
            ),
            (php::SYNTAX, "a<?php b ?> c <?= d", "....hp.b..........d"),
        ] {
            assert_eq!(syntax.blanked(text).replace(' ', "."), expected, "{text}");
        }
    }
}
