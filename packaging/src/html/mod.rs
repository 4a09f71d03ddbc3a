//! Writes the pages of `docs/`, and those of the runtimes, as HTML for `/usr/share/doc/fnd/html`: with links between them, a
//! list of the headings, the next and the previous page, and a search. They need no server, and but for the search no script.
//!
//! Files:
//! - `links`: where a link of a document leads in the package
//! - `page`: the page around a document
//! - `sections`: the headings of a document, and the text below each

mod links;
mod page;
mod sections;

use anyhow::{Context as _, ensure};
use pulldown_cmark::{Event, Options, Parser, Tag};
use sections::Section;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The page with the list of all pages; its order is the order in which they are read.
const LIST: &str = "docs/README.md";
const OPTIONS: Options = Options::ENABLE_TABLES;

struct Document {
    /// Its place in the repository.
    place: String,
    /// The name of its page.
    page: String,
    text: String,
    /// The first one has the title.
    sections: Vec<Section>,
}

impl Document {
    fn title(&self) -> &str {
        self.sections
            .first()
            .map_or(self.page.as_str(), |first| first.heading.as_str())
    }
}

/// Returns the files of the directory: name and content.
///
/// # Errors
/// A document cannot be read, or the list does not name it.
pub(crate) fn files() -> anyhow::Result<Vec<(String, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = links::names(&root)?;
    let documents = documents(&root, &names)?;
    let script = include_str!("../../assets/search.js");
    let mut files = vec![
        ("search.js".to_owned(), script.to_owned()),
        ("search-index.js".to_owned(), index(&documents)?),
    ];
    for (at, document) in documents.iter().enumerate() {
        let previous = at.checked_sub(1).and_then(|at| documents.get(at));
        let text = page::render(document, &names, [previous, documents.get(at + 1)]);
        files.push((document.page.clone(), text));
    }
    Ok(files)
}

/// Reads all documents, in the order of the list.
fn documents(root: &Path, names: &BTreeMap<String, String>) -> anyhow::Result<Vec<Document>> {
    let read = |place: &str| fs::read_to_string(root.join(place)).with_context(|| place.to_owned());
    let mut documents = Vec::new();
    for (place, page) in reading_order(&read(LIST)?, names)? {
        let text = read(&place)?;
        let sections = sections::of(&text);
        documents.push(Document {
            place,
            page,
            text,
            sections,
        });
    }
    Ok(documents)
}

/// Returns the list itself and the documents that it names, each at its first link: place and name of the page.
fn reading_order(list: &str, names: &BTreeMap<String, String>) -> anyhow::Result<Vec<(String, String)>> {
    let mut rest = names.clone();
    let mut order: Vec<(String, String)> = rest.remove_entry(LIST).into_iter().collect();
    for event in Parser::new_ext(list, OPTIONS) {
        if let Event::Start(Tag::Link { dest_url, .. }) = event {
            order.extend(rest.remove_entry(&links::place(LIST, &dest_url)));
        }
    }
    let missing: Vec<&str> = rest.keys().map(String::as_str).collect();
    ensure!(missing.is_empty(), "{LIST} does not name {}", missing.join(", "));
    Ok(order)
}

/// Returns the index of the search, as a script: a page that was opened as a file can load a script, but no data.
fn index(documents: &[Document]) -> anyhow::Result<String> {
    let pages: Vec<_> = documents
        .iter()
        .map(|document| (&document.page, document.title(), rows(&document.sections)))
        .collect();
    let pages = serde_json::to_string(&pages)?;
    Ok(format!("var documentIndex = {pages};\n"))
}

/// Returns anchor, heading and words of each section.
fn rows(sections: &[Section]) -> Vec<(&str, &str, String)> {
    sections
        .iter()
        .map(|section| (section.anchor.as_str(), section.heading.as_str(), section.words()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_in_the_order_of_the_list() {
        let names = ["docs/README.md", "docs/a.md", "docs/b.md", "runtimes/x/README.md"];
        let names: BTreeMap<String, String> = names.map(|place| (place.to_owned(), format!("{place}.html"))).into();
        let order = |list: &str| -> anyhow::Result<Vec<String>> {
            let order = reading_order(list, &names)?;
            Ok(order.into_iter().map(|(place, _)| place).collect())
        };
        let list = "[B](b.md) [other](https://example.com) [A](a.md#part) [B](b.md) [X](../runtimes/x/README.md)";
        let expected = ["docs/README.md", "docs/b.md", "docs/a.md", "runtimes/x/README.md"];
        assert_eq!(order(list).expect("all are named"), expected);
        let error = order("[A](a.md)").expect_err("two are missing").to_string();
        assert_eq!(error, "docs/README.md does not name docs/b.md, runtimes/x/README.md");
    }
}
