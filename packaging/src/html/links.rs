//! Where a link of a document leads in the package.

use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Places in the repository that the package has elsewhere: the link from a page.
const ELSEWHERE: [(&str, &str); 4] = [
    ("config/fnd.toml", "/etc/fnd/fnd.toml"),
    ("config/function.toml", "../examples/function.toml"),
    ("examples/", "../examples/"),
    ("docs/pictures/", "pictures/"),
];

/// Returns the documents of the package, by their places in the repository, each with the name of its page.
pub(super) fn names(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
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

/// Returns where a link of a document leads in the package; nothing if the package does not have it.
pub(super) fn target(document: &str, link: &str, names: &BTreeMap<String, String>) -> Option<String> {
    if link.starts_with('#') || link.contains("://") {
        return Some(link.to_owned());
    }
    let place = place(document, link);
    let part = link.split_once('#').map(|(_, part)| format!("#{part}"));
    if let Some(name) = names.get(&place) {
        return Some(format!("{name}{}", part.unwrap_or_default()));
    }
    let (from, to) = ELSEWHERE.iter().find(|(from, _)| place.starts_with(from))?;
    Some(format!("{to}{}", &place[from.len()..]))
}

/// Returns the place in the repository of a file to which a document has a link.
pub(super) fn place(document: &str, link: &str) -> String {
    let path = link.split('#').next().unwrap_or_default();
    let directory = Path::new(document).parent().unwrap_or(Path::new(""));
    let mut place = PathBuf::new();
    for component in directory.join(path).components() {
        match component {
            Component::ParentDir => {
                place.pop();
            }
            other => place.push(other),
        }
    }
    place.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
