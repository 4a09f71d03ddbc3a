//! Writes documents of the project as sections of a man page: headings, paragraphs, points, blocks and tables. So a man
//! page says the same about functions and configuration as `docs/`.

use crate::roff::Page;

/// Appends a document to a page. The document's title, a single `#`, is left out: the page has one.
pub(crate) fn write(page: &mut Page, document: &str) {
    let mut lines = document.lines().peekable();
    while let Some(text) = lines.next() {
        if text.starts_with("```") {
            page.verbatim(lines.by_ref().take_while(|text| !text.starts_with("```")));
        } else if let Some(title) = text.strip_prefix("### ") {
            page.part(&plain(title));
        } else if let Some(title) = text.strip_prefix("## ") {
            page.section(&plain(title));
        } else if text.starts_with('|') {
            let mut rows = vec![text];
            while let Some(row) = lines.next_if(|next| next.starts_with('|')) {
                rows.push(row);
            }
            table(page, &rows);
        } else if !text.is_empty() && !text.starts_with("# ") {
            let mut paragraph = text.to_owned();
            let continues = |next: &&str| !next.is_empty() && !next.starts_with(['#', '|', '-', '`']);
            while let Some(next) = lines.next_if(continues) {
                paragraph.push(' ');
                paragraph += next;
            }
            match paragraph.strip_prefix("- ") {
                Some(point) => page.point(&plain(point)),
                None => page.paragraph(&plain(&paragraph)),
            }
        }
    }
}

/// Writes a table: the first column has the terms, the others their meanings, each with its heading where there are
/// several.
fn table(page: &mut Page, rows: &[&str]) {
    let cells = |row: &str| -> Vec<String> {
        // `\|` is a character within a cell.
        let row = row.trim().trim_matches('|').replace("\\|", "\u{0}");
        row.split('|')
            .map(|cell| plain(cell.trim()).replace('\u{0}', "|"))
            .collect()
    };
    let head = rows.first().map(|row| cells(row)).unwrap_or_default();
    for row in rows.iter().skip(2) {
        let row = cells(row);
        let titled = |(meaning, title): (&String, &String)| match row.len() {
            ..=2 => meaning.clone(),
            _ => format!("{title}: {meaning}"),
        };
        let mut meanings = row
            .iter()
            .zip(&head)
            .skip(1)
            .filter(|(meaning, _)| !meaning.is_empty())
            .map(titled);
        if let Some(term) = row.first() {
            page.item(term, &meanings.next().unwrap_or_default());
        }
        for meaning in meanings {
            page.more(&meaning);
        }
    }
}

/// Returns text without marks of emphasis, and with the text of each link in its place.
fn plain(text: &str) -> String {
    let text = text.replace("**", "");
    let mut result = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        let (lead, label) = before.rsplit_once('[').unwrap_or((before, ""));
        result += lead;
        result += label;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_becomes_sections() {
        let mut page = Page::new("x", 5, "2026-01-31", "y");
        let empty = Page::new("x", 5, "2026-01-31", "y").text();
        write(
            &mut page,
            "# Title\nSee [the `list`](a.md),\nthen **go**.\n\n## Part\n- one\n  more\n- two\n\n| a | b | c |\n|---|---|---|\n| `x` | 1 | 2 |\n\n\
             ```toml\n# a\n```\n",
        );
        let text = page.text();
        let text = text.strip_prefix(&empty).expect("the title comes first");
        assert_eq!(
            text,
            ".PP\nSee the \\fBlist\\fR, then go.\n.SH \"PART\"\n.IP \\(bu 2\none more\n.IP \\(bu 2\ntwo\n\
             .TP\n\\fBx\\fR\nb: 1\n.br\nc: 2\n.PP\n.RS 4\n.nf\n# a\n.fi\n.RE\n"
        );
    }
}
