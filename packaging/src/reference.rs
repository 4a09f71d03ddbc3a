//! Writes docs/reference.md: every key of manifests and of `fnd.toml`, from the table by which the parser reads.

use fnd_manifest::explain::{self, KeyText};

const HEAD: &str = "\
# Every key

This page is made from the table of keys by which fnd reads its files: `function.toml` is every manifest, in whatever form, and
`fnd.toml` the configuration. `fndctl explain KEY` prints the same. A key that is marked *not yet* is refused with `not supported
yet`, unless it has its default: no key is ignored.
";

pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for (file, title) in [
        ("function.toml", "The manifest of a function"),
        ("fnd.toml", "The configuration, fnd.toml"),
    ] {
        page += &format!("\n## {title}\n");
        let keys: Vec<KeyText> = explain::keys().into_iter().filter(|key| key.file == file).collect();
        let is_table = |key: &KeyText| keys.iter().any(|other| table_of(other) == key.path);
        let top: Vec<&KeyText> = keys
            .iter()
            .filter(|key| table_of(key).is_empty() && !is_table(key))
            .collect();
        page += &rows(&top);
        for table in keys.iter().filter(|key| is_table(key)) {
            let inside: Vec<&KeyText> = keys.iter().filter(|key| table_of(key) == table.path).collect();
            // The text of a key has no kind, only the words for it.
            let array = table.expected.contains("array of tables");
            let (open, close) = if array { ("[[", "]]") } else { ("[", "]") };
            let not_yet = if table.not_yet { " *Not yet.*" } else { "" };
            page += &format!("\n### {open}{}{close}\n{}{not_yet}\n", table.path, table.meaning);
            page += &rows(&inside);
        }
    }
    page
}

fn table_of(key: &KeyText) -> &str {
    key.path.rsplit_once('.').map_or("", |(table, _)| table)
}

fn rows(keys: &[&KeyText]) -> String {
    let mut rows = String::from("\n| key | takes | default | what it does |\n|---|---|---|---|\n");
    for key in keys {
        let name = key.path.rsplit('.').next().unwrap_or(&key.path);
        let code = |text: &str| {
            if text.is_empty() {
                String::new()
            } else {
                format!("`{text}`")
            }
        };
        let example = match key.example {
            "" => String::new(),
            example => format!("; example: `{name} = {example}`"),
        };
        let not_yet = if key.not_yet { " *Not yet.*" } else { "" };
        let cells = [
            code(name),
            format!("{}{example}", key.expected),
            code(key.default),
            format!("{}{not_yet}", key.meaning),
        ];
        // A `|` in a cell would begin the next one.
        rows += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_all_keys_is_that_of_the_parser() {
        assert!(
            include_str!("../../docs/reference.md") == page(),
            "docs/reference.md is not the table of keys: `cargo run -p fnd-packaging -- --reference >docs/reference.md`"
        );
    }

    /// The defaults on the pages that show them.
    #[test]
    fn the_defaults_in_the_documents_are_those_of_the_parser() {
        let rows = include_str!("../../docs/defaults.md").lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let key = cells.next()?.strip_suffix('`')?;
            Some((key, cells.next()?.trim_matches('`')))
        });
        let rows: Vec<_> = rows.filter(|(key, _)| key.contains('.')).collect();
        assert!(rows.len() >= 20, "{rows:?}");
        for (key, default) in rows {
            let found = explain::key(key);
            assert_eq!(found.first().map(|found| found.default), Some(default), "{key}");
        }
        let first = include_str!("../../README.md")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        for shown in ["180 seconds", "256 MiB", "64 processes"] {
            assert!(first.contains(shown), "{shown}");
        }
        for (key, default) in [
            ("limits.timeout", "\"180s\""),
            ("limits.memory", "\"256M\""),
            ("limits.pids", "64"),
        ] {
            assert_eq!(explain::key(key).first().map(|key| key.default), Some(default), "{key}");
        }
    }
}
