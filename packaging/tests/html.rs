//! The documents as HTML: the files that the program writes.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// Returns the files that the program writes for `/usr/share/doc/fnd/html`, by name.
fn files() -> BTreeMap<String, String> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let status = Command::new(env!("CARGO_BIN_EXE_fnd-packaging"))
        .arg(directory.path())
        .env("SOURCE_DATE_EPOCH", "1767225600")
        .status();
    assert!(status.expect("the program starts").success());
    let entries = fs::read_dir(directory.path().join("html")).expect("the program makes it");
    let read = |path| fs::read_to_string(path).expect("a text");
    entries
        .map(|entry| entry.expect("an entry"))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(entry.path())))
        .collect()
}

fn pages() -> BTreeMap<String, String> {
    let mut pages = files();
    pages.retain(|name, _| name.ends_with(".html"));
    assert!(pages.len() > 60, "{:?}", pages.keys());
    pages
}

/// Returns the values of an attribute, in their order.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    let values = page.split(start.as_str()).skip(1);
    values.filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns the tags of a page, without their signs: `p`, `/p`, `a href="x"`.
fn tags(page: &str) -> impl Iterator<Item = &str> {
    page.split('<').skip(1).filter_map(|rest| rest.split('>').next())
}

/// Returns the words that a reader sees in a page, without those that have other signs than letters.
fn words(page: &str) -> BTreeSet<String> {
    let (_, main) = page.split_once("<main>").expect("each page has one");
    let (main, _) = main.split_once("</main>").expect("it ends");
    let parts = main.split('<').filter_map(|part| part.split_once('>'));
    let text = parts.map(|(_, text)| text).collect::<Vec<_>>().join(" ");
    let words = text.split_whitespace();
    let letters = |word: &&str| word.chars().all(|character| character.is_ascii_alphabetic());
    words.filter(letters).map(str::to_lowercase).collect()
}

/// Returns the rows of the index: page, title, and sections with anchor, heading and words.
fn index(files: &BTreeMap<String, String>) -> Vec<Value> {
    let script = &files["search-index.js"];
    let json = script.strip_prefix("var documentIndex = ");
    let json = json.and_then(|rest| rest.strip_suffix(";\n"));
    serde_json::from_str(json.expect("one assignment")).expect("the value is JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// The longest word of each page is in a row of that page.
#[test]
fn the_index_finds_a_word_of_each_page() {
    let files = files();
    let index = index(&files);
    let pages: Vec<&String> = files.keys().filter(|name| name.ends_with(".html")).collect();
    assert_eq!(index.len(), pages.len());
    for row in &index {
        let page = text(&row[0]);
        let seen = words(&files[page]);
        let longest = seen.iter().max_by_key(|word| word.len()).expect("a page has words");
        let sections = row[2].as_array().expect("a list");
        let has = |section: &Value| {
            let words = format!("{} {}", text(&section[1]), text(&section[2])).to_lowercase();
            words.split(' ').any(|word| word == longest)
        };
        assert!(sections.iter().any(has), "{page}: {longest}");
    }
}

#[test]
fn results_of_the_search_lead_to_headings() {
    let files = files();
    let mut results = 0;
    for row in index(&files) {
        let page = text(&row[0]);
        let ids: BTreeSet<&str> = values(&files[page], "id").into_iter().collect();
        for section in row[2].as_array().expect("a list") {
            let anchor = text(&section[0]);
            assert!(ids.contains(anchor), "{page}#{anchor}");
            results += 1;
        }
    }
    assert!(results > 300, "{results}");
}

/// Returns the page before or after one, by its link.
fn neighbour<'a>(pages: &'a BTreeMap<String, String>, page: &str, relation: &str) -> Option<&'a str> {
    let start = format!("<a rel=\"{relation}\" href=\"");
    let (_, rest) = pages[page].split_once(start.as_str())?;
    rest.split('"').next()
}

/// The order is that of the list of pages: it begins with the first week.
#[test]
fn next_and_previous_are_one_chain_through_all_pages() {
    let pages = pages();
    assert_eq!(neighbour(&pages, "index.html", "prev"), None);
    let mut chain = vec!["index.html"];
    while let Some(next) = chain.last().copied().and_then(|page| neighbour(&pages, page, "next")) {
        assert_eq!(neighbour(&pages, next, "prev"), chain.last().copied(), "{next}");
        assert!(!chain.contains(&next), "{next} is there twice");
        chain.push(next);
    }
    assert_eq!(chain.len(), pages.len());
    let week = "what-is-fnd install first-steps writing-functions handlers schedules webhooks";
    let week: Vec<String> = week.split(' ').map(|name| format!("{name}.html")).collect();
    assert_eq!(chain[1..=week.len()], week);
}

/// Without a script the field is not shown; every element is closed, and no name is there twice.
#[test]
fn a_page_is_valid_without_its_script() {
    const VOID: [&str; 5] = ["meta", "input", "img", "br", "hr"];
    for (name, page) in pages() {
        assert!(page.contains("<form role=\"search\" hidden>"), "{name}");
        assert_eq!(page.matches("<script").count(), 1, "{name}");
        assert!(page.contains("<script src=\"search.js\" defer></script>"), "{name}");
        let ids = values(&page, "id");
        let different: BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{name}: {ids:?}");
        let mut open = Vec::new();
        for tag in tags(&page).filter(|tag| *tag != "!DOCTYPE html") {
            let element = tag.split([' ', '\n']).next().unwrap_or_default();
            match element.strip_prefix('/') {
                Some(ended) => assert_eq!(open.pop(), Some(ended), "{name}"),
                None if VOID.contains(&element) => {}
                None => open.push(element),
            }
        }
        assert!(open.is_empty(), "{name}: {open:?}");
    }
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let pages = pages();
    let mut links = 0;
    for (name, text) in &pages {
        for link in values(text, "href") {
            if link.contains("://") || link.starts_with("../") || link.starts_with('/') {
                continue;
            }
            let (page, part) = link.split_once('#').unwrap_or((link, ""));
            let page = if page.is_empty() { name } else { page };
            let target = pages.get(page).unwrap_or_else(|| panic!("{name}: {link}"));
            assert!(
                part.is_empty() || target.contains(&format!("id=\"{part}\"")),
                "{name}: {link}: no such heading"
            );
            links += 1;
        }
    }
    assert!(links > 600, "{links}");
}
