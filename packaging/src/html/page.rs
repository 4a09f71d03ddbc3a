//! The page around a document.

use super::sections::Section;
use super::{Document, OPTIONS, links};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Parser, Tag, TagEnd, html};
use std::collections::BTreeMap;

/// The style of every page: readable lines, light and dark as the browser is set.
const STYLE: &str = include_str!("../../assets/documents.css");

/// Returns the page of a document, between the pages that are read before and after it.
pub(super) fn render(
    document: &Document,
    names: &BTreeMap<String, String>,
    [previous, next]: [Option<&Document>; 2],
) -> String {
    let title = escaped(document.title());
    let end = "</h1>\n";
    let body = body(document, names).replacen(end, &format!("{end}{}", contents(&document.sections)), 1);
    let previous = neighbour("prev", "Previous", previous);
    let next = neighbour("next", "Next", next);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title} - fnd</title>\n<style>\n{STYLE}</style>\n<script src=\"search.js\" defer></script>\n</head>\n<body>\n\
         <header>\n<a href=\"index.html\">fnd: all documents</a>\n\
         <form role=\"search\" hidden>\n<input type=\"search\" placeholder=\"Search: press /\" aria-label=\"Search in all documents\" \
         autocomplete=\"off\">\n<ol></ol>\n</form>\n</header>\n\
         <main>\n{body}</main>\n\
         <nav class=\"pages\" aria-label=\"Previous and next page\">\n{previous}{next}</nav>\n</body>\n</html>\n"
    )
}

/// Returns the text of a document as HTML.
fn body(document: &Document, names: &BTreeMap<String, String>) -> String {
    let mut anchors = document.sections.iter().map(|section| section.anchor.as_str());
    let mut dropped = false;
    let events = Parser::new_ext(&document.text, OPTIONS).filter_map(|event| match event {
        Event::Start(Tag::Heading {
            level, classes, attrs, ..
        }) => {
            let id = anchors.next().map(CowStr::from);
            Some(Event::Start(Tag::Heading {
                level,
                id,
                classes,
                attrs,
            }))
        }
        Event::Start(Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        }) => {
            let target = links::target(&document.place, &dest_url, names);
            dropped = target.is_none();
            let dest_url = CowStr::from(target?);
            Some(Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }))
        }
        // A link to a file that the package does not have becomes plain text.
        Event::End(TagEnd::Link) if std::mem::take(&mut dropped) => None,
        // A tag in a document, such as `<NAME>` that lacks its backticks, is shown as it is written.
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        other => Some(other),
    });
    let mut body = String::new();
    html::push_html(&mut body, events);
    body
}

/// Returns the list of the headings below the title; nothing if a reader sees them all at once.
fn contents(sections: &[Section]) -> String {
    let below: Vec<String> = sections
        .iter()
        .filter(|section| section.level != HeadingLevel::H1)
        .map(|section| {
            let heading = escaped(&section.heading);
            format!(
                "<li class=\"{}\"><a href=\"#{}\">{heading}</a></li>\n",
                section.level, section.anchor
            )
        })
        .collect();
    if below.len() < 2 {
        return String::new();
    }
    let items = below.concat();
    format!("<nav class=\"contents\" aria-label=\"On this page\">\n<ul>\n{items}</ul>\n</nav>\n")
}

/// Returns the link to a page before or after this one; an empty place where there is none.
fn neighbour(relation: &str, word: &str, document: Option<&Document>) -> String {
    let Some(document) = document else {
        return "<span></span>\n".to_owned();
    };
    let title = escaped(document.title());
    format!("<a rel=\"{relation}\" href=\"{}\">{word}: {title}</a>\n", document.page)
}

/// Returns a text in which no character begins a tag.
fn escaped(text: &str) -> String {
    let mut html = String::new();
    html::push_html(&mut html, std::iter::once(Event::Text(CowStr::from(text))));
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_document_never_becomes_a_tag() {
        let text = "# Use `<F>` & <b>\nSee <i>this</i>.\n\n<script>\nx\n</script>\n\n## <One>\n## Two";
        let document = Document {
            place: "docs/a.md".to_owned(),
            page: "a.html".to_owned(),
            text: text.to_owned(),
            sections: super::super::sections::of(text),
        };
        let page = render(&document, &BTreeMap::new(), [None, Some(&document)]);
        let has = |part: &str| assert!(page.contains(part), "{part} is not in\n{page}");
        has("<title>Use &lt;F&gt; &amp; &lt;b&gt; - fnd</title>");
        has("See &lt;i&gt;this&lt;/i&gt;.");
        has("&lt;script&gt;\nx\n&lt;/script&gt;");
        has("<li class=\"h2\"><a href=\"#one\">&lt;One&gt;</a></li>");
        has("<a rel=\"next\" href=\"a.html\">Next: Use &lt;F&gt; &amp; &lt;b&gt;</a>");
        assert!(!page.contains("rel=\"prev\""), "{page}");
    }
}
