//! YAML documents as a tree in which every value knows its place. serde-saphyr parses; its budgets bound what a hostile file
//! can cost.

use crate::diagnostic::{Diagnostic, Place};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::{Location, Spanned, Tagged};
use std::fmt;
use std::rc::Rc;

/// Largest file, in bytes. Kubernetes accepts objects of 1.5 MiB.
pub const FILE_MAX: usize = 2 << 20;
/// Deepest nesting of maps and lists.
const DEPTH_MAX: usize = 32;
/// The same where tags are entries: each level needs more of the stack.
const TAGGED_DEPTH_MAX: usize = 24;
/// Most values of a file, with those that aliases repeat.
const NODES_MAX: usize = 200_000;
/// Most entries of a map: some of what reads them takes a time that grows with the square of their number.
const ENTRIES_MAX: usize = 1_000;
/// Most documents in a file.
const DOCUMENTS_MAX: usize = 1_000;
/// Most aliases in a file.
const ALIASES_MAX: usize = 1_000;

/// Line and column in characters, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct YamlPosition(pub u32, pub u32);

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct YamlNode {
    /// The place of its key, or of the value where it has none.
    pub at: YamlPosition,
    /// The value, after aliases were replaced.
    pub value: Value,
}

/// A YAML value, which may have others in it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value, such as `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number or a floating-point number.
    Number(Number),
    /// Text, quoted or not.
    Text(String),
    /// A list, in the order of the file.
    List(Vec<YamlNode>),
    /// A map, in the order of the file.
    Map(Vec<(String, YamlNode)>),
}

impl Value {
    /// Returns a text, number or truth value as text.
    #[must_use]
    pub fn scalar(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Number(number) => Some(number.to_string()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Returns the name and the value of an entry of a map; absent if there is none, or if it is no map.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<(&str, &YamlNode)> {
        let Self::Map(entries) = self else { return None };
        let (name, node) = entries.iter().find(|(name, _)| name == key)?;
        Some((name, node))
    }
}

/// A document of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The file, for people.
    pub file: Rc<str>,
    /// The lines of the file.
    pub lines: Rc<[String]>,
    /// The document's value.
    pub root: YamlNode,
}

/// Reads all documents of a file; empty ones are left out. Tags are ignored.
///
/// # Errors
/// The mistake, with its place.
pub fn documents(file: &str, bytes: &[u8]) -> Result<Vec<Document>, Box<Diagnostic>> {
    read::<false>(file, bytes)
}

/// Reads all documents of a file; a value with a tag of its own, such as `!Ref a`, is a map with one entry, whose name is the tag.
///
/// # Errors
/// The mistake, with its place.
pub fn tagged_documents(file: &str, bytes: &[u8]) -> Result<Vec<Document>, Box<Diagnostic>> {
    read::<true>(file, bytes)
}

fn read<const TAGS: bool>(file: &str, bytes: &[u8]) -> Result<Vec<Document>, Box<Diagnostic>> {
    let refuse = |message: String| Box::new(Diagnostic::error("yaml", message).in_file(file));
    if bytes.len() > FILE_MAX {
        return Err(refuse(format!("the file is larger than {} MiB", FILE_MAX >> 20)));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| refuse("the file is not UTF-8 text".to_owned()))?;
    let mut options = serde_saphyr::Options::default();
    // The diagnostic has an excerpt of its own.
    options.with_snippet = false;
    options.budget = serde_saphyr::budget! {
        max_depth: if TAGS { TAGGED_DEPTH_MAX } else { DEPTH_MAX },
        max_nodes: NODES_MAX,
        max_events: 4 * NODES_MAX,
        max_documents: DOCUMENTS_MAX,
        max_aliases: ALIASES_MAX,
    };
    let found: Vec<Spanned<Any<TAGS>>> = serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let lines = error.to_string();
        let mut problem = refuse(lines.lines().next().unwrap_or_default().to_owned());
        problem.place = error.location().map(at).map(|YamlPosition(line, column)| Place {
            line,
            column,
            length: 1,
            excerpt: excerpt(text, line),
        });
        problem
    })?;
    let (file, lines): (Rc<str>, Rc<[String]>) = (file.into(), text.lines().map(str::to_owned).collect());
    let document = |found: Spanned<Any<TAGS>>| Document {
        file: Rc::clone(&file),
        lines: Rc::clone(&lines),
        root: found.into(),
    };
    let documents = found.into_iter().map(document);
    Ok(documents
        .filter(|document| document.root.value != Value::Null)
        .collect())
}

fn excerpt(text: &str, line: u32) -> String {
    let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = text.lines().nth(index).unwrap_or_default();
    line.chars().take(crate::diagnostic::EXCERPT_MAX).collect()
}

fn at(location: Location) -> YamlPosition {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).max(1);
    YamlPosition(number(location.line()), number(location.column()))
}

impl<const TAGS: bool> From<Spanned<Any<TAGS>>> for YamlNode {
    fn from(found: Spanned<Any<TAGS>>) -> Self {
        Self {
            // Of an alias, this is the place where it is used, and not the place of its anchor.
            at: at(found.referenced),
            value: found.value.0,
        }
    }
}

/// A value of any type; with `TAGS`, tags are entries.
struct Any<const TAGS: bool>(Value);

impl<'de, const TAGS: bool> Deserialize<'de> for Any<TAGS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !TAGS {
            return Untagged::<TAGS>::deserialize(deserializer).map(|Untagged(value)| Self(value));
        }
        let Spanned { value, referenced, .. } = Spanned::<Tagged<Untagged<TAGS>>>::deserialize(deserializer)?;
        let Tagged(Untagged(value), tag) = value;
        // Tags of YAML itself, such as `!!str`, have said how the value is read.
        Ok(Self(match tag.filter(|tag| tag.starts_with('!') && tag.len() > 1) {
            Some(tag) => Value::Map(vec![(
                tag,
                YamlNode {
                    at: at(referenced),
                    value,
                },
            )]),
            None => value,
        }))
    }
}

/// A value of any type, whose own tag is ignored.
struct Untagged<const TAGS: bool>(Value);

impl<'de, const TAGS: bool> Deserialize<'de> for Untagged<TAGS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor::<TAGS>)
    }
}

struct AnyVisitor<const TAGS: bool>;

impl<'de, const TAGS: bool> Visitor<'de> for AnyVisitor<TAGS> {
    type Value = Untagged<TAGS>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Untagged<TAGS>, E> {
        Ok(Untagged(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Untagged<TAGS>, E> {
        Ok(Untagged(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Untagged<TAGS>, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Untagged<TAGS>, E> {
        Ok(Untagged(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Untagged<TAGS>, E> {
        Ok(Untagged(Value::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Untagged<TAGS>, E> {
        Ok(Untagged(Value::Number(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Untagged<TAGS>, E> {
        // JSON has no infinity; a text says what was written.
        Ok(Untagged(
            Number::from_f64(value).map_or_else(|| Value::Text(value.to_string()), Value::Number),
        ))
    }

    fn visit_str<E>(self, value: &str) -> Result<Untagged<TAGS>, E> {
        Ok(Untagged(Value::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Untagged<TAGS>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element::<Spanned<Any<TAGS>>>()? {
            items.push(item.into());
        }
        Ok(Untagged(Value::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Untagged<TAGS>, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<YamlKey>, Spanned<Any<TAGS>>>()? {
            if entries.len() >= ENTRIES_MAX {
                return Err(serde::de::Error::custom(format_args!(
                    "a map has more than {ENTRIES_MAX} entries"
                )));
            }
            // The place of an entry is its key: a text of several lines begins far from its name.
            let (at, value) = (at(key.referenced), value.value.0);
            entries.push((key.value.0, YamlNode { at, value }));
        }
        Ok(Untagged(Value::Map(entries)))
    }
}

/// The name of an entry of a map. YAML allows any value; other scalars are taken as text.
struct YamlKey(String);

impl<'de> Deserialize<'de> for YamlKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Untagged::<false>::deserialize(deserializer)?.0 {
            Value::Text(text) => text,
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => number.to_string(),
            Value::List(_) | Value::Map(_) => {
                return Err(serde::de::Error::custom("the name of an entry must be a text"));
            }
        };
        Ok(Self(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(node: &YamlNode) -> &[(String, YamlNode)] {
        match &node.value {
            Value::Map(entries) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_have_their_types_and_places() {
        let text = "# c\na: 1\nb: '1'\nc:\n- true\n- x: |\n    two\n    lines\n---\n---\nd: 0.5\ne: null\n1: y\n";
        let found = documents("f.yaml", text.as_bytes()).unwrap();
        assert_eq!(found.len(), 2);
        let first = map(&found[0].root);
        assert_eq!(
            (first[0].1.at, &first[0].1.value),
            (YamlPosition(2, 1), &Value::Number(1.into()))
        );
        assert_eq!(
            (first[1].1.at, &first[1].1.value),
            (YamlPosition(3, 1), &Value::Text("1".to_owned()))
        );
        let Value::List(items) = &first[2].1.value else {
            panic!()
        };
        assert_eq!((items[0].at, &items[0].value), (YamlPosition(5, 3), &Value::Bool(true)));
        let inner = map(&items[1]);
        assert_eq!(
            (inner[0].1.at, &inner[0].1.value),
            (YamlPosition(6, 3), &Value::Text("two\nlines\n".to_owned()))
        );
        let second = map(&found[1].root);
        assert_eq!(second[0].1.at, YamlPosition(11, 1));
        assert_eq!(second[1].1.value, Value::Null);
        assert_eq!(second[2].0, "1");
    }

    #[test]
    fn tags_of_a_file_are_entries_and_those_of_yaml_are_not() {
        let text = b"a: !Ref b\nc: !Join ['', [!GetAtt d.e, f]]\ng: !!str 1\nh:\n  - !Sub\n    - '${x}'\n    - x: 1\n";
        let found = tagged_documents("f.yaml", text).unwrap();
        let root = map(&found[0].root);
        assert_eq!(
            (map(&root[0].1)[0].0.as_str(), &map(&root[0].1)[0].1.value),
            ("!Ref", &Value::Text("b".to_owned()))
        );
        let join = &map(&root[1].1)[0];
        let Value::List(parts) = &join.1.value else { panic!() };
        let Value::List(texts) = &parts[1].value else { panic!() };
        assert_eq!((join.0.as_str(), map(&texts[0])[0].0.as_str()), ("!Join", "!GetAtt"));
        assert_eq!(root[2].1.value, Value::Text("1".to_owned()));
        let Value::List(items) = &root[3].1.value else { panic!() };
        assert_eq!((map(&items[0])[0].0.as_str(), items[0].at.0), ("!Sub", 6));
        let plain = documents("f.yaml", text).unwrap();
        assert_eq!(map(&plain[0].root)[0].1.value, Value::Text("b".to_owned()));
    }

    #[test]
    fn mistakes_have_their_place() {
        let problem = documents("f.yaml", b"a: 1\nb: [1, 2\nc: 3\n").unwrap_err();
        assert!(
            problem.place.as_ref().is_some_and(|place| place.line >= 2),
            "{problem:?}"
        );
        let twice = documents("f.yaml", b"a: 1\na: 2\n").unwrap_err();
        assert_eq!(twice.place.as_ref().unwrap().line, 2, "{twice:?}");
        assert!(documents("f.yaml", b"\xff").unwrap_err().message.contains("UTF-8"));
    }

    #[test]
    fn a_bomb_costs_little() {
        let mut aliases = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for (one, two) in ["a", "b", "c", "d", "e", "f", "g", "h"]
            .iter()
            .zip(["b", "c", "d", "e", "f", "g", "h", "i"])
        {
            aliases.push_str(&format!("{two}: &{two} [{}]\n", vec![format!("*{one}"); 10].join(",")));
        }
        assert!(documents("f.yaml", aliases.as_bytes()).is_err());
        let entries = |count: usize| (0..count).map(|n| format!("k{n}: 1\n")).collect::<String>();
        assert!(documents("f.yaml", entries(ENTRIES_MAX).as_bytes()).is_ok());
        let many = documents("f.yaml", entries(ENTRIES_MAX + 1).as_bytes()).unwrap_err();
        assert!(many.message.contains("more than 1000 entries"), "{many:?}");
        let deep = "[".repeat(100_000);
        assert!(documents("f.yaml", deep.as_bytes()).is_err());
        let deep: String = (0..1000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
        assert!(documents("f.yaml", deep.as_bytes()).is_err());
        assert!(documents("f.yaml", &vec![b'a'; FILE_MAX + 1]).is_err());
        // The deepest nesting that is allowed fits on the stack of a thread.
        let most = |depth: usize| -> String {
            (0..depth - 1)
                .map(|level| format!("{}a:\n", " ".repeat(level)))
                .collect()
        };
        assert!(documents("f.yaml", most(DEPTH_MAX).as_bytes()).is_ok());
        assert!(tagged_documents("f.yaml", most(TAGGED_DEPTH_MAX).as_bytes()).is_ok());
        let levels = TAGGED_DEPTH_MAX - 1;
        let tags = format!("{}a{}", "!Sub [".repeat(levels), "]".repeat(levels));
        assert!(tagged_documents("f.yaml", tags.as_bytes()).is_ok());
        assert!(tagged_documents("f.yaml", "!Sub [".repeat(100_000).as_bytes()).is_err());
        assert!(tagged_documents("f.yaml", aliases.as_bytes()).is_err());
    }
}
