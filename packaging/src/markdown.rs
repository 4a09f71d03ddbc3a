//! Writes documents of the project as sections of a man page: headings, paragraphs, points, blocks and tables. So a man
//! page says the same as the page of `docs/`. Pictures are left out.

use crate::roff::ManPage;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Appends a document to a page. The document's title, a single `#`, is left out: the page has one.
pub(crate) fn write(page: &mut ManPage, document: &str) {
    let mut writer = MarkdownWriter::new(page);
    for event in Parser::new_ext(document, Options::ENABLE_TABLES) {
        writer.event(event);
    }
    writer.flush();
}

struct MarkdownWriter<'a> {
    page: &'a mut ManPage,
    /// The text of the block that is being read; code is between backticks.
    text: String,
    /// The numbers of the lists around it; none for a list of points.
    lists: Vec<Option<u64>>,
    /// Whether the text begins a point.
    begins_point: bool,
    /// How many pictures are around the text: it is left out.
    pictures: usize,
    /// The heading of each column, then the cells of the row.
    head: Vec<String>,
    row: Vec<String>,
}

impl<'a> MarkdownWriter<'a> {
    fn new(page: &'a mut ManPage) -> Self {
        Self {
            page,
            text: String::new(),
            lists: Vec::new(),
            begins_point: false,
            pictures: 0,
            head: Vec::new(),
            row: Vec::new(),
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.pictures == 0 => self.text += &text,
            // A backtick within code would end it.
            Event::Code(code) => self.text += &format!("`{}`", code.replace('`', "\u{0}")),
            // roff fills the lines of a paragraph itself.
            Event::SoftBreak | Event::HardBreak => self.text.push(' '),
            // The documents have no HTML, no footnotes and no rules.
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::List(first) => {
                self.flush();
                self.lists.push(*first);
            }
            Tag::Item => {
                self.flush();
                self.begins_point = true;
            }
            Tag::Paragraph | Tag::Heading { .. } => self.flush(),
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => self.flush(),
            Tag::Table(_) => {
                self.flush();
                self.head.clear();
            }
            Tag::Image { .. } => self.pictures += 1,
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::Item => self.flush(),
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Heading(level) => {
                let title = std::mem::take(&mut self.text).replace('`', "");
                match level {
                    HeadingLevel::H1 => {}
                    HeadingLevel::H2 => self.page.section(&title),
                    _ => self.page.part(&title),
                }
            }
            TagEnd::CodeBlock => {
                let text = std::mem::take(&mut self.text);
                self.page.verbatim(text.lines());
            }
            TagEnd::TableCell => self.row.push(std::mem::take(&mut self.text)),
            TagEnd::TableHead => self.head = std::mem::take(&mut self.row),
            TagEnd::TableRow => {
                let row = std::mem::take(&mut self.row);
                self.table_row(&row);
            }
            TagEnd::Image => self.pictures -= 1,
            _ => {}
        }
    }

    /// Writes the text that was read, as a paragraph or as a point.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        if text.trim().is_empty() {
            return;
        }
        let begins_point = std::mem::take(&mut self.begins_point);
        match self.lists.last_mut() {
            Some(number) if begins_point => {
                self.page.point(*number, &text);
                *number = number.map(|number| number + 1);
            }
            Some(_) => self.page.point_goes_on(&text),
            None => self.page.paragraph(&text),
        }
    }

    /// Writes a row: the first column has the term, the others its meaning, each with its heading where there are
    /// several.
    fn table_row(&mut self, row: &[String]) {
        let titled = |(meaning, title): (&String, &String)| match row.len() {
            ..=2 => meaning.clone(),
            _ if title.is_empty() => meaning.clone(),
            _ => format!("{title}: {meaning}"),
        };
        let mut meanings = row
            .iter()
            .zip(&self.head)
            .skip(1)
            .filter(|(meaning, _)| !meaning.is_empty())
            .map(titled);
        if let Some(term) = row.first() {
            self.page.item(term, &meanings.next().unwrap_or_default());
        }
        for meaning in meanings {
            self.page.more(&meaning);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: &str, expected: &str) {
        let empty = ManPage::new("x", 5, "2026-01-31", "y").text();
        let mut page = ManPage::new("x", 5, "2026-01-31", "y");
        write(&mut page, document);
        let text = page.text();
        assert_eq!(text.strip_prefix(&empty).expect("the title comes first"), expected);
    }

    #[test]
    fn a_document_becomes_sections() {
        check(
            "# Title\nSee [the `list`](a.md),\nthen **go**.\n\n## Part\n- one\n  more\n- two\n\n| a | b | c |\n|---|---|---|\n| `x` | 1 | 2 |\n\n\
             ```toml\n# a\n```\n",
            ".PP\nSee the \\fBlist\\fR, then go.\n.SH \"PART\"\n.IP \\(bu 2\none more\n.IP \\(bu 2\ntwo\n\
             .TP\n\\fBx\\fR\nb: 1\n.br\nc: 2\n.PP\n.RS 4\n.nf\n# a\n.fi\n.RE\n",
        );
    }

    #[test]
    fn a_sentence_goes_on_at_a_line_that_begins_with_code_or_a_sign() {
        check(
            "It calls\n`fnd` and\n--it ends\n#5.\n",
            ".PP\nIt calls \\fBfnd\\fR and \\-\\-it ends #5.\n",
        );
    }

    #[test]
    fn points_may_have_numbers_paragraphs_and_code_with_backticks() {
        check(
            "1. one\n\n   more\n2. ``a `b` c``\n\n![a picture](x.svg)\n",
            ".IP 1. 4\none\n.IP \"\" 4\nmore\n.IP 2. 4\n\\fBa \\(gab\\(ga c\\fR\n",
        );
    }
}
