//! A function that was made of something foreign: its manifest, with the origin of every key, and its files.

use super::report::{ConversionReport, Field};
use fnd_unpack::WholeFile;
use std::collections::BTreeSet;
use toml::Value;

/// The file with what became of the fields, beside `function.toml`.
pub const ORIGINS: &str = ".fnd-import.json";

/// A function made of foreign files. It has the directory form: `NAME/function.toml`, and the files beside it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MadeManifest {
    /// The name of the function, and of its directory.
    pub name: String,
    /// The content of `function.toml`, with the origin of every key.
    pub manifest: Manifest,
    /// Its other files, by path relative to its directory.
    pub files: Vec<WholeFile>,
    /// Secrets that come with it: name and value.
    pub secrets: Vec<(String, Vec<u8>)>,
}

/// The keys of a manifest, each with its origin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    tables: Vec<MadeTable>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct MadeTable {
    /// `limits`; empty for the keys before the first table.
    name: String,
    /// Whether it is one of an array of tables.
    repeated: bool,
    keys: Vec<MadeKey>,
}

impl MadeTable {
    /// Says whether it is the table of this name, and not one of an array.
    fn is(&self, name: &str) -> bool {
        self.name == name && !self.repeated
    }
}

#[derive(Debug, Clone, PartialEq)]
struct MadeKey {
    name: String,
    value: Value,
    origin: Option<Field>,
}

/// Returns the secret that a key of a table names.
fn secret_of<'a>(table: &str, key: &'a MadeKey) -> Option<&'a str> {
    match (table, key.name.as_str()) {
        ("secrets", _) => key.value.get("secret").unwrap_or(&key.value).as_str(),
        ("http", "auth") => key.value.as_str()?.strip_prefix("token:"),
        _ => None,
    }
}

impl MadeManifest {
    /// Returns a function without keys and files.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Sets a key (`limits.timeout`) to what a field says, and reports the field as working.
    pub fn works(&mut self, report: &mut ConversionReport, key: &str, value: impl Into<Value>, field: &Field) {
        report.works(field, key);
        self.manifest.set(key, value, Some(field));
    }

    /// Sets a key to what comes close to a field, and reports the difference.
    pub fn differs(
        &mut self,
        report: &mut ConversionReport,
        (key, value): (&str, impl Into<Value>),
        field: &Field,
        note: &str,
    ) {
        report.differs(field, key, note);
        self.manifest.set(key, value, Some(field));
    }

    /// Adds a file that is not executable.
    pub fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.add(WholeFile::new(path, bytes));
    }

    /// Adds a file, in place of one of the same path. Manifests come from fields only.
    pub fn add(&mut self, file: WholeFile) {
        self.files.retain(|known| known.path != file.path);
        // An archive in a document may have such a file. It would decide in place of the fields that the report is
        // about.
        if file.path != "function.toml" && file.path != ORIGINS {
            self.files.push(file);
        }
    }
}

impl Manifest {
    /// Sets a key, such as `limits.timeout`; the last part of the path is the key. A key that is set already is replaced.
    pub fn set(&mut self, path: &str, value: impl Into<Value>, origin: Option<&Field>) {
        let (table, name) = path.rsplit_once('.').unwrap_or(("", path));
        self.set_in(table, name, value, origin);
    }

    /// Sets a key of a table; for names that contain a dot.
    pub fn set_in(&mut self, table: &str, name: &str, value: impl Into<Value>, origin: Option<&Field>) {
        let entry = MadeKey {
            name: name.to_owned(),
            value: value.into(),
            origin: origin.cloned(),
        };
        let found = self.tables.iter().position(|known| known.is(table));
        let index = found.unwrap_or_else(|| {
            self.tables.push(MadeTable {
                name: table.to_owned(),
                ..MadeTable::default()
            });
            self.tables.len() - 1
        });
        let Some(table) = self.tables.get_mut(index) else {
            return;
        };
        match table.keys.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = entry,
            None => table.keys.push(entry),
        }
    }

    /// Adds a table to an array of tables, such as `[[schedule]]`.
    pub fn push<'a>(&mut self, table: &str, keys: impl IntoIterator<Item = (&'a str, Value, Option<Field>)>) {
        let entry = |(name, value, origin): (&str, Value, Option<Field>)| MadeKey {
            name: name.to_owned(),
            value,
            origin,
        };
        self.tables.push(MadeTable {
            name: table.to_owned(),
            repeated: true,
            keys: keys.into_iter().map(entry).collect(),
        });
    }

    /// Returns the value of a key, such as `limits.timeout`.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        let (table, name) = path.rsplit_once('.').unwrap_or(("", path));
        let key = self.keys_of(table).find(|key| key.name == name);
        key.map(|key| &key.value)
    }

    fn keys_of(&self, table: &str) -> impl Iterator<Item = &MadeKey> {
        let found = self.tables.iter().find(|known| known.is(table));
        found.into_iter().flat_map(|table| &table.keys)
    }

    /// Returns the names of the keys of a table.
    pub fn keys<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a str> {
        self.keys_of(table).map(|key| key.name.as_str())
    }

    /// Returns the names of the secrets that the function needs, sorted.
    #[must_use]
    pub fn secret_names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for table in &self.tables {
            names.extend(table.keys.iter().filter_map(|key| secret_of(&table.name, key)));
        }
        names
    }

    /// Returns the manifest as TOML, with a comment that names the origin of each key; `head` is the first comment. With
    /// it, the origin of each line.
    #[must_use]
    pub fn render(&self, head: &str) -> (String, Vec<Option<Field>>) {
        let mut text = String::new();
        let mut origins = Vec::new();
        for line in head.lines() {
            text.push_str(&format!("# {line}\n"));
            origins.push(None);
        }
        // Keys without a table come first, and an array of tables after the tables: TOML gives keys to the last header.
        let mut tables: Vec<&MadeTable> = self.tables.iter().collect();
        tables.sort_by_key(|table| (!table.name.is_empty(), table.repeated));
        for table in tables {
            if !table.name.is_empty() {
                let (open, close) = if table.repeated { ("[[", "]]") } else { ("[", "]") };
                text.push_str(&format!("\n{open}{}{close}\n", table.name));
                origins.extend([None, None]);
            }
            for key in &table.keys {
                let comment = key
                    .origin
                    .as_ref()
                    .map(|field| format!("  # {}", one_line(&field.origin())));
                let line = format!("{} = {}", name(&key.name), key.value);
                // A text of several lines has its comment before it.
                if let Some(comment) = comment.as_deref().filter(|_| line.contains('\n')) {
                    text.push_str(&format!("{}\n", comment.trim_start()));
                    origins.push(key.origin.clone());
                }
                origins.extend(line.lines().map(|_| key.origin.clone()));
                text.push_str(&line);
                text.push_str(comment.as_deref().filter(|_| !line.contains('\n')).unwrap_or_default());
                text.push('\n');
            }
        }
        (text, origins)
    }
}

/// Returns the name of a key, in quotes if TOML needs them.
fn name(name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.bytes().all(bare) {
        name.to_owned()
    } else {
        Value::String(name.to_owned()).to_string()
    }
}

fn one_line(text: &str) -> String {
    // The end of a line in the name of a field would end the comment, and the rest of the name would be read as keys.
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, line: u32) -> Field {
        Field {
            file: "dir/hello.yaml".to_owned(),
            name: name.to_owned(),
            line,
            column: 3,
            excerpt: "  timeout: 180".to_owned(),
        }
    }

    #[test]
    fn a_manifest_is_toml_with_the_origin_of_each_key() {
        let mut made = MadeManifest::new("hello");
        let mut report = ConversionReport::default();
        made.works(&mut report, "limits.timeout", "180s", &field("spec.timeout", 12));
        made.works(&mut report, "handler", "hello.foo", &field("spec.handler", 4));
        made.manifest.set_in("env", "a.b", "x\ny", Some(&field("spec.env", 7)));
        made.manifest.push("schedule", [("cron", Value::from("@daily"), None)]);
        made.manifest.set("limits.memory", "64M", None);
        let (text, origins) = made.manifest.render("made of hello.yaml");
        assert_eq!(
            text,
            "# made of hello.yaml\nhandler = \"hello.foo\"  # spec.handler, hello.yaml:4\n\n[limits]\n\
             timeout = \"180s\"  # spec.timeout, hello.yaml:12\nmemory = \"64M\"\n\n[env]\n# spec.env, hello.yaml:7\n\
             \"a.b\" = \"\"\"\nx\ny\"\"\"\n\n[[schedule]]\ncron = \"@daily\"\n"
        );
        assert_eq!(origins.len(), text.lines().count());
        assert_eq!(origins[1].as_ref().unwrap().line, 4);
        assert_eq!(origins[4].as_ref().unwrap().line, 12);
        assert!(toml::from_str::<toml::Table>(&text).is_ok());
    }
}
