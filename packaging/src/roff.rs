//! Writes a man page: roff requests and escaped text. It knows nothing of the content.

/// A page that is written from its title on.
#[derive(Debug)]
pub(crate) struct ManPage {
    text: String,
    /// Whether a heading was written last: a paragraph begins there without a request.
    at_heading: bool,
}

impl ManPage {
    /// Returns a page with its title: `fnd`, `8`, a date, and a short description (its NAME section).
    pub(crate) fn new(name: &str, section: u8, date: &str, about: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let title = quoted(&name.to_uppercase());
        let mut page = Self {
            // No hyphenation and no stretched lines: half of the text is names.
            text: format!(".TH {title} {section} {date} \"fnd {version}\" \"fnd\"\n.nh\n.ad l\n"),
            at_heading: false,
        };
        page.section("NAME");
        // whatis(1) and apropos(1) read this line: no markup in it.
        page.text += &format!("{} \\- {}\n", escaped(name), escaped(about));
        page.at_heading = false;
        page
    }

    pub(crate) fn section(&mut self, title: &str) {
        self.text += &format!(".SH {}\n", quoted(&title.to_uppercase()));
        self.at_heading = true;
    }

    /// Begins a subsection.
    pub(crate) fn part(&mut self, title: &str) {
        self.text += &format!(".SS {}\n", quoted(title));
        self.at_heading = true;
    }

    /// Writes a paragraph; text between backticks is bold.
    pub(crate) fn paragraph(&mut self, text: &str) {
        self.begin();
        self.text += &format!("{}\n", line(text));
    }

    /// Writes a term and its meaning.
    pub(crate) fn item(&mut self, term: &str, meaning: &str) {
        self.at_heading = false;
        self.text += &format!(".TP\n{}\n{}\n", line(term), line(meaning));
    }

    /// Adds a line of its own below the meaning of an item.
    pub(crate) fn more(&mut self, text: &str) {
        self.text += &format!(".br\n{}\n", line(text));
    }

    /// Writes a point of a list, or of a numbered one.
    pub(crate) fn point(&mut self, number: Option<u64>, text: &str) {
        self.at_heading = false;
        let mark = number.map_or_else(|| "\\(bu 2".to_owned(), |number| format!("{number}. 4"));
        self.text += &format!(".IP {mark}\n{}\n", line(text));
    }

    /// Writes another paragraph of a point.
    pub(crate) fn point_goes_on(&mut self, text: &str) {
        self.text += &format!(".IP \"\" 4\n{}\n", line(text));
    }

    /// Writes lines unchanged, each on its own.
    pub(crate) fn verbatim<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.begin();
        self.text += ".RS 4\n.nf\n";
        for text in lines {
            self.text += &started(&escaped(text));
            self.text.push('\n');
        }
        self.text += ".fi\n.RE\n";
    }

    fn begin(&mut self) {
        if !std::mem::take(&mut self.at_heading) {
            self.text += ".PP\n";
        }
    }

    /// Returns the page as text.
    pub(crate) fn text(self) -> String {
        self.text
    }
}

/// Returns text for roff: every character stands for itself, and a hyphen is the one that works when pasted into a
/// terminal.
fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => result += "\\e",
            '-' => result += "\\-",
            '\'' => result += "\\(aq",
            // Within code, a backtick comes as a NUL: backticks mark code.
            '`' | '\u{0}' => result += "\\(ga",
            '^' => result += "\\(ha",
            '~' => result += "\\(ti",
            // roff would move to its own tab stops.
            '\t' => result += "    ",
            other => result.push(other),
        }
    }
    result
}

/// Returns a line of text that roff does not take for a request, as it would if it began with a period.
fn started(text: &str) -> String {
    // A `'` at the beginning would be a request, too, but `escaped` leaves none.
    if text.starts_with('.') {
        format!("\\&{text}")
    } else {
        text.to_owned()
    }
}

/// Returns an argument of a request.
fn quoted(text: &str) -> String {
    // A quotation mark would end the argument.
    format!("\"{}\"", escaped(text).replace('"', "\\(dq"))
}

/// Returns a paragraph on one line, with text between backticks bold.
fn line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut result = String::new();
    for (number, part) in text.split('`').enumerate() {
        match number % 2 {
            1 => result += &format!("\\fB{}\\fR", escaped(part)),
            _ => result += &escaped(part),
        }
    }
    if result.is_empty() {
        // An empty line would be a gap on the page, and `.TP` takes the next line for its term, whatever that is.
        "\\&".to_owned()
    } else {
        started(&result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_a_request_or_an_escape() {
        assert_eq!(line(".fi of `a-b`\n  it's"), "\\&.fi of \\fBa\\-b\\fR it\\(aqs");
        assert_eq!(line("C:\\n"), "C:\\en");
        assert_eq!(line(""), "\\&");
        assert_eq!(quoted("say \"x\""), "\"say \\(dqx\\(dq\"");
        let mut page = ManPage::new("x", 1, "2026-01-31", "y");
        page.verbatim([".fi", "'x"]);
        assert!(page.text().ends_with(".nf\n\\&.fi\n\\(aqx\n.fi\n.RE\n"));
    }
}
