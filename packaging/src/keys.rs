//! Writes the keys of a TOML file as sections of its man page, from the table by which the parser reads.

use crate::roff::Page;
use fnd_manifest::explain::{self, KeyText};

/// Writes every key of a file (`fnd.toml`, `function.toml`), one section for each table.
pub(crate) fn write(page: &mut Page, file: &str) {
    let keys: Vec<KeyText> = explain::keys().into_iter().filter(|key| key.file == file).collect();
    page.section("Keys");
    for key in &keys {
        let is_table = keys.iter().any(|other| table_of(&other.path) == Some(&key.path));
        if table_of(&key.path).is_none() && !is_table {
            write_key(page, key);
        }
    }
    for table in keys
        .iter()
        .filter(|table| keys.iter().any(|key| table_of(&key.path) == Some(&table.path)))
    {
        page.part(&format!("[{}]", table.path));
        page.paragraph(table.meaning);
        page.paragraph(&format!("Takes {}{}.", table.expected, remark(table)));
        for key in keys.iter().filter(|key| table_of(&key.path) == Some(&table.path)) {
            write_key(page, key);
        }
    }
}

/// Returns the table of a key; nothing for a key at the top.
fn table_of(path: &str) -> Option<&str> {
    path.rsplit_once('.').map(|(table, _)| table)
}

fn write_key(page: &mut Page, key: &KeyText) {
    let name = key.path.rsplit('.').next().unwrap_or(&key.path);
    page.item(&format!("`{name}`"), key.meaning);
    page.more(&format!("Takes {}{}.", key.expected, remark(key)));
    if !key.default.is_empty() {
        page.more(&format!("Default: `{}`", key.default));
    }
    if !key.example.is_empty() {
        page.more(&format!("Example: `{name} = {}`", key.example));
    }
}

fn remark(key: &KeyText) -> &'static str {
    if key.not_yet {
        "; not supported yet with other values than the default"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table on the first page of the documents.
    #[test]
    fn the_defaults_on_the_first_page_are_those_of_the_parser() {
        let rows = include_str!("../../README.md").lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let key = cells.next()?.strip_suffix('`')?;
            Some((key, cells.next()?.trim_matches('`')))
        });
        let rows: Vec<_> = rows.filter(|(key, _)| key.contains('.')).collect();
        assert!(rows.len() >= 8, "{rows:?}");
        for (key, default) in rows {
            let found = explain::key(key);
            assert_eq!(found.first().map(|found| found.default), Some(default), "{key}");
        }
    }
}
