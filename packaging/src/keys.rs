//! Writes the keys of a TOML file as sections of its man page, from the table by which the parser reads.

use crate::roff::ManPage;
use fnd_manifest::explain::{self, KeyText};

/// Writes every key of a file (`fnd.toml`, `function.toml`), one section for each table.
pub(crate) fn write(page: &mut ManPage, file: &str) {
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

fn write_key(page: &mut ManPage, key: &KeyText) {
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
