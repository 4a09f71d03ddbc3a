//! Writes the pages of `docs/`, and those of the runtimes, as HTML for `/usr/share/doc/fnd/html`, with links between them.

use anyhow::Context as _;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The style of every page: readable lines, light and dark as the browser is set.
const STYLE: &str = "\
:root { color-scheme: light dark; --line: #8886; --code: #8882 }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 1rem auto 4rem; padding: 0 1rem }
h1, h2, h3 { line-height: 1.2; margin-top: 2rem } h1 { margin-top: 1rem }
code, pre { font: 14px/1.4 ui-monospace, monospace; background: var(--code); border-radius: 4px }
code { padding: 0 .25em } pre { padding: .75rem; overflow-x: auto } pre code { padding: 0; background: none }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top }
img { max-width: 100% } nav { border-bottom: 1px solid var(--line); padding-bottom: .5rem }";

/// Places in the repository that the package has elsewhere: the link from a page.
const ELSEWHERE: [(&str, &str); 4] = [
    ("config/fnd.toml", "/etc/fnd/fnd.toml"),
    ("config/function.toml", "../examples/function.toml"),
    ("examples/", "../examples/"),
    ("docs/pictures/", "pictures/"),
];

/// Returns the pages: name of the file and content.
///
/// # Errors
/// A document cannot be read.
pub(crate) fn pages() -> anyhow::Result<Vec<(String, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = names(&root)?;
    let mut pages = Vec::new();
    for (document, name) in &names {
        let text = fs::read_to_string(root.join(document)).with_context(|| document.clone())?;
        pages.push((name.clone(), page(document, &text, &names)));
    }
    Ok(pages)
}

/// Returns the documents of the package, by their places in the repository, each with the name of its page.
fn names(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut names = BTreeMap::from([("runtimes/PROTOCOL.md".to_owned(), "worker-protocol.html".to_owned())]);
    for entry in fs::read_dir(root.join("docs")).context("docs")? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        if let Some(name) = file.strip_suffix(".md") {
            // Browsers and web servers show `index.html` for its directory.
            let name = if name == "README" { "index" } else { name };
            names.insert(format!("docs/{file}"), format!("{name}.html"));
        }
    }
    for entry in fs::read_dir(root.join("runtimes")).context("runtimes")? {
        let id = entry?.file_name().to_string_lossy().into_owned();
        let document = format!("runtimes/{id}/README.md");
        if root.join(&document).exists() {
            names.insert(document, format!("runtime-{id}.html"));
        }
    }
    Ok(names)
}

fn page(document: &str, text: &str, names: &BTreeMap<String, String>) -> String {
    let options = Options::ENABLE_TABLES;
    let mut events: Vec<Event<'_>> = Parser::new_ext(text, options).collect();
    name_headings(&mut events);
    let mut dropped = false;
    let events = events.into_iter().filter_map(|event| match event {
        Event::Start(Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        }) => {
            let target = target(document, &dest_url, names);
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
        other => Some(other),
    });
    let mut body = String::new();
    html::push_html(&mut body, events);
    let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title} - fnd</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<nav><a href=\"index.html\">fnd: all documents</a></nav>\n\
         {body}</body>\n</html>\n"
    )
}

/// Gives each heading the name by which links refer to it, as the forges do.
fn name_headings(events: &mut [Event<'_>]) {
    for at in 0..events.len() {
        if !matches!(events.get(at), Some(Event::Start(Tag::Heading { .. }))) {
            continue;
        }
        let mut text = String::new();
        for event in events.iter().skip(at) {
            match event {
                Event::Text(part) | Event::Code(part) => text += part,
                Event::End(TagEnd::Heading(_)) => break,
                _ => {}
            }
        }
        if let Some(Event::Start(Tag::Heading { id, .. })) = events.get_mut(at) {
            *id = Some(CowStr::from(anchor(&text)));
        }
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns where a link of a document leads in the package; nothing if the package does not have it.
fn target(document: &str, link: &str, names: &BTreeMap<String, String>) -> Option<String> {
    if link.starts_with('#') || link.contains("://") {
        return Some(link.to_owned());
    }
    let (path, part) = link
        .split_once('#')
        .map_or((link, None), |(path, part)| (path, Some(part)));
    let directory = Path::new(document).parent().unwrap_or(Path::new(""));
    let mut place = PathBuf::new();
    for component in directory.join(path).components() {
        match component {
            std::path::Component::ParentDir => {
                place.pop();
            }
            other => place.push(other),
        }
    }
    let place = place.to_string_lossy();
    let part = part.map(|part| format!("#{part}")).unwrap_or_default();
    if let Some(name) = names.get(&*place) {
        return Some(format!("{name}{part}"));
    }
    let (from, to) = ELSEWHERE.iter().find(|(from, _)| place.starts_with(from))?;
    Some(format!("{to}{}", &place[from.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_leads_to_a_page_and_a_heading() {
        let pages: BTreeMap<String, String> = pages().expect("the documents can be read").into_iter().collect();
        assert!(pages.len() > 30, "{}", pages.len());
        let mut links = 0;
        for (name, text) in &pages {
            for link in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
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
        assert!(links > 140, "{links}");
    }

    /// The page with the list names every page of `docs/`.
    #[test]
    fn the_list_of_pages_is_complete() {
        let names = names(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the documents are there");
        let list = include_str!("../../docs/README.md");
        for document in names.keys().filter_map(|document| document.strip_prefix("docs/")) {
            assert!(
                document == "README.md" || list.contains(&format!("({document})")),
                "{document}"
            );
        }
    }

    #[test]
    fn links_lead_to_where_the_package_has_the_file() {
        let names = BTreeMap::from([("docs/a.md".to_owned(), "a.html".to_owned())]);
        let check = |link: &str, expected: Option<&str>| {
            assert_eq!(target("docs/b.md", link, &names).as_deref(), expected, "{link}");
        };
        check("a.md#part", Some("a.html#part"));
        check("../config/function.toml", Some("../examples/function.toml"));
        check("../examples/functions/x.sh", Some("../examples/functions/x.sh"));
        check("pictures/x.svg", Some("pictures/x.svg"));
        check("https://example.com/", Some("https://example.com/"));
        check("../CONTRIBUTING.md#tests", None);
        assert_eq!(
            anchor("What `handler(event)` receives, and why"),
            "what-handlerevent-receives-and-why"
        );
    }
}
