//! JSON Schemas of payloads, of events (`[[event]] schema`) and of a function's input (`[input] schema`): the judge reads them, fnd
//! checks data with them.
//!
//! A reference to a file or to another host is an error: whatever decides about a payload is in the function's directory.
//! Patterns are regular expressions in linear time, without look-around and back-references.

use jsonschema::{PatternOptions, ValidationError, Validator};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Largest file of an event's schema.
pub const EVENT_MAX: usize = 256 << 10;
/// Largest schema of an input.
pub const INPUT_MAX: usize = 64 << 10;
/// Largest data that is checked. The check runs where fnd answers everybody, so it must be short.
pub const DATA_MAX: u64 = 1 << 20;
/// Most mistakes that are named of one payload.
pub const MISTAKES_MAX: usize = 10;

/// Most checks of one value, with references followed.
const WORK_MAX: u64 = 100_000;
/// Deepest nesting of the text of a schema. The schema is a part of documents, and serde_json reads at most 128 levels of these.
const NESTING_MAX: u32 = 100;
/// Deepest nesting of a schema, with references followed: each level needs room on the stack.
const LEVELS_MAX: u32 = 1000;
/// Most levels of a schema that contains itself, times the levels of the payload: each level of a payload may begin it anew.
const STACK_MAX: u32 = 4000;
/// Most checks of a payload of which all mistakes are looked for. Each mistake needs memory before the first ones are chosen, so of
/// a larger payload only the first mistake is named.
const ALL_MISTAKES_MAX: u64 = 200_000;
/// Most characters of a place or of a sentence: a payload may have long names, and a schema long lists.
const TEXT_MAX: usize = 300;

/// A schema, ready to check data.
#[derive(Debug)]
pub struct PayloadSchema {
    validator: Validator,
    size: SchemaSize,
}

/// A place of a payload that does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PayloadMistake {
    /// JSON pointer to the place (RFC 6901); empty for the whole payload.
    pub pointer: String,
    /// The mistake and the expected form, in one sentence. It has no value of the payload.
    pub expected: String,
}

impl PayloadMistake {
    /// Returns the mistake in words, its place first.
    #[must_use]
    pub fn words(&self) -> String {
        self.words_about("the payload")
    }

    fn words_about(&self, whole: &str) -> String {
        match self.pointer.as_str() {
            "" => format!("{whole}: {}", self.expected),
            pointer => format!("`{pointer}`: {}", self.expected),
        }
    }
}

/// Returns mistakes in words, one after the other.
#[must_use]
pub fn words(mistakes: &[PayloadMistake]) -> String {
    let words: Vec<String> = mistakes.iter().map(PayloadMistake::words).collect();
    words.join("; ")
}

impl PayloadSchema {
    /// Returns the schema, ready to check data; it fetches nothing from the network.
    ///
    /// # Errors
    /// Why it is none, or why fnd cannot use it, in words.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let options = jsonschema::options()
            .offline()
            // A short pattern with nested repetitions could need much memory when it is compiled.
            .with_pattern_options(PatternOptions::regex().size_limit(1 << 20));
        let validator = options
            .build(schema)
            .map_err(|error| match error.instance_path().as_str() {
                "" => error.to_string(),
                place => format!("{error} (at `{place}`)"),
            })?;
        let size = size_of(schema)?;
        Ok(Self { validator, size })
    }

    /// Returns nothing if the data of an event matches the schema. `size` is its size in bytes.
    ///
    /// # Errors
    /// A place that does not match, and what is wrong there. Values of the data are not in the text.
    pub fn check(&self, data: &Value, size: u64) -> Result<(), String> {
        let mistakes = self.mistakes(data, size);
        mistakes
            .first()
            .map_or(Ok(()), |mistake| Err(mistake.words_about("the data")))
    }

    /// Returns the places of a payload that do not match, at most [`MISTAKES_MAX`]; none if it matches. `size` is its size in bytes.
    #[must_use]
    pub fn mistakes(&self, payload: &Value, size: u64) -> Vec<PayloadMistake> {
        let SchemaSize {
            checks,
            levels,
            returns,
        } = self.size;
        let depth = depth(payload);
        if returns > 0 && depth.saturating_mul(levels) > STACK_MAX {
            return whole(format!(
                "it is nested {depth} levels deep, too deep for a schema that contains itself"
            ));
        }
        // Only this remembers what it has checked. What looks for mistakes does not, and would never end where a schema contains
        // itself more than once.
        if self.validator.is_valid(payload) {
            return Vec::new();
        }
        // A value of JSON has at least one byte, and one beside it.
        let values = size / 2 + 1;
        let growth = returns.max(1).saturating_pow(depth);
        if values.saturating_mul(checks).saturating_mul(growth) <= ALL_MISTAKES_MAX {
            let errors = self.validator.iter_errors(payload);
            return errors.take(MISTAKES_MAX).map(|error| mistake(&error)).collect();
        }
        match growth {
            1 => self.validator.validate(payload).err().iter().map(mistake).collect(),
            _ => whole("it does not match the schema, and is nested too deep to look for the place".to_owned()),
        }
    }
}

fn whole(expected: String) -> Vec<PayloadMistake> {
    let pointer = String::new();
    vec![PayloadMistake { pointer, expected }]
}

fn mistake(error: &ValidationError<'_>) -> PayloadMistake {
    let short = |text: &str| text.chars().take(TEXT_MAX).collect();
    PayloadMistake {
        pointer: short(error.instance_path().as_str()),
        expected: short(&error.masked_with("the value").to_string()),
    }
}

/// Returns the levels of a value; serde_json has read at most 128.
fn depth(value: &Value) -> u32 {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(entries) => entries.values().map(depth).max(),
        _ => None,
    };
    below.unwrap_or(0) + 1
}

/// The size of a schema, with references followed.
#[derive(Debug, Clone, Copy, Default)]
struct SchemaSize {
    /// The checks of one value.
    checks: u64,
    /// The levels of its nesting.
    levels: u32,
    /// The places at which it leads back to a part that contains it.
    returns: u64,
}

impl SchemaSize {
    fn add(&mut self, part: Self) {
        self.checks = self.checks.saturating_add(part.checks);
        self.levels = self.levels.max(part.levels);
        self.returns = self.returns.saturating_add(part.returns);
    }
}

fn size_of(schema: &Value) -> Result<SchemaSize, String> {
    let measure = Measure {
        root: schema,
        known: RefCell::default(),
        levels: Cell::new(0),
    };
    let mut size = measure.of(schema)?;
    if size.checks > WORK_MAX {
        return Err(format!(
            "its references lead to more than {WORK_MAX} checks of one value: use fewer references, or `$ref` in fewer places"
        ));
    }
    // Each level of a payload may begin anew what is behind a reference.
    let known = measure.known.into_inner();
    let again = || known.values().flatten();
    size.levels = again().map(|size| size.levels).max().unwrap_or(0);
    size.returns = again().map(|size| size.returns).max().unwrap_or(0);
    Ok(size)
}

/// Measures a schema with references followed. References can double its checks at each step, so that a short schema would
/// never end.
struct Measure<'a> {
    root: &'a Value,
    /// By reference; absent while it is being measured: a cycle ends with the data.
    known: RefCell<HashMap<String, Option<SchemaSize>>>,
    /// The levels above the part that is being measured.
    levels: Cell<u32>,
}

impl Measure<'_> {
    fn of(&self, schema: &Value) -> Result<SchemaSize, String> {
        let mut size = SchemaSize {
            checks: 1,
            ..SchemaSize::default()
        };
        let children: Vec<&Value> = match schema {
            Value::Array(items) => items.iter().collect(),
            Value::Object(entries) => entries.values().collect(),
            _ => return Ok(size),
        };
        if !std::ptr::eq(schema, self.root) && schema.get("$id").is_some_and(Value::is_string) {
            return Err(
                "it has an `$id` below its top, so that references would lead elsewhere than fnd follows them"
                    .to_owned(),
            );
        }
        self.descend(1)?;
        self.levels.set(self.levels.get() + 1);
        // Everything in an object counts as a schema: too high a count is on the safe side.
        for child in children {
            size.add(self.of(child)?);
        }
        for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = schema.get(key).and_then(Value::as_str) {
                size.add(self.behind(reference)?);
            }
        }
        self.levels.set(self.levels.get() - 1);
        size.levels += 1;
        Ok(size)
    }

    /// Refuses a part with so many levels if it lies too deep.
    fn descend(&self, levels: u32) -> Result<(), String> {
        match self.levels.get() + levels > LEVELS_MAX {
            true => Err(format!(
                "its references lead to more than {LEVELS_MAX} levels of nesting"
            )),
            false => Ok(()),
        }
    }

    /// Measures what is behind a reference.
    fn behind(&self, reference: &str) -> Result<SchemaSize, String> {
        let known = self.known.borrow().get(reference).copied();
        match known {
            Some(Some(size)) => return self.descend(size.levels).map(|()| size),
            Some(None) => {
                return Ok(SchemaSize {
                    checks: 1,
                    levels: 0,
                    returns: 1,
                });
            }
            None => {}
        }
        let target = match reference.strip_prefix('#') {
            Some("") => Some(self.root),
            Some(pointer) if pointer.starts_with('/') => self.root.pointer(&decoded(pointer)),
            _ => None,
        };
        let target = target.ok_or_else(|| {
            format!("the reference `{reference}` is not of the form `#/$defs/NAME`, the only one that fnd follows")
        })?;
        self.known.borrow_mut().insert(reference.to_owned(), None);
        let size = self.of(target)?;
        self.known.borrow_mut().insert(reference.to_owned(), Some(size));
        Ok(size)
    }
}

/// Returns a pointer in a reference without its percent-encoding.
fn decoded(pointer: &str) -> String {
    percent_encoding::percent_decode_str(pointer)
        .decode_utf8_lossy()
        .into_owned()
}

/// Reads the text of a schema, which has at most `max` bytes.
///
/// # Errors
/// Why it is no schema, in words.
pub(crate) fn read(bytes: &[u8], max: usize) -> Result<Value, String> {
    if bytes.len() > max {
        return Err(format!("it is larger than {} KiB", max >> 10));
    }
    let schema: Value = serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    if !schema.is_object() {
        return Err("it is not an object".to_owned());
    }
    if depth(&schema) > NESTING_MAX {
        return Err(format!("it is nested more than {NESTING_MAX} levels deep"));
    }
    PayloadSchema::new(&schema)?;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ORDER: &[u8] = br##"{"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}}},
        "$defs": {"line": {"type": "object", "required": ["sku"]}}}"##;

    #[test]
    fn data_that_does_not_match_is_named_by_its_place() {
        let schema = PayloadSchema::new(&read(ORDER, EVENT_MAX).unwrap()).unwrap();
        let check = |data: &Value| schema.check(data, data.to_string().len() as u64);
        assert_eq!(check(&json!({"id": 7, "lines": [{"sku": "a"}]})), Ok(()));
        let wrong = check(&json!({"id": 7, "lines": [{"sku": "a"}, {"secret": "x"}]})).unwrap_err();
        assert!(
            wrong.starts_with("`/lines/1`: ") && wrong.contains("sku") && !wrong.contains("secret"),
            "{wrong}"
        );
        let wrong = check(&json!({"id": "hidden"})).unwrap_err();
        assert!(wrong.starts_with("`/id`: ") && !wrong.contains("hidden"), "{wrong}");
        assert!(check(&json!([])).unwrap_err().starts_with("the data: "));
    }

    #[test]
    fn all_mistakes_are_named_up_to_ten() {
        let schema = PayloadSchema::new(&read(ORDER, EVENT_MAX).unwrap()).unwrap();
        let mistakes = |payload: &Value| {
            let size = payload.to_string().len() as u64;
            schema.mistakes(payload, size)
        };
        assert_eq!(mistakes(&json!({"id": 7})), []);
        let wrong = mistakes(&json!({"id": "hidden", "lines": [{}, {"sku": "a"}]}));
        let mut places: Vec<&str> = wrong.iter().map(|mistake| mistake.pointer.as_str()).collect();
        places.sort_unstable();
        assert_eq!(places, ["/id", "/lines/0"]);
        let text = words(&wrong);
        assert!(text.contains("`/id`: the value is not of type \"integer\""), "{text}");
        assert!(text.contains("sku") && !text.contains("hidden"), "{text}");
        let whole = mistakes(&json!([]));
        assert!(words(&whole).starts_with("the payload: "), "{whole:?}");
        let many = |count: usize| json!({"id": 1, "lines": vec![json!(1); count]});
        assert_eq!(mistakes(&many(100)).len(), MISTAKES_MAX);
        // Too large to look for all of them.
        assert_eq!(mistakes(&many(100_000)).len(), 1);
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for (text, expected) in [
            ("{", "not JSON"),
            ("[]", "not an object"),
            (r#"{"type": "objekt"}"#, "at `/type`"),
            (r#"{"$ref": "file:///etc/passwd"}"#, "file:///etc/passwd"),
            (
                r#"{"$ref": "https://example.com/a.json"}"#,
                "https://example.com/a.json",
            ),
            (r#"{"$ref": "other.json"}"#, "other.json"),
            (r##"{"$ref": "#/$defs/missing"}"##, "missing"),
            (r#"{"pattern": "(a)\\1"}"#, "a"),
            (r#"{"not": {"$id": "urn:other"}}"#, "an `$id` below its top"),
        ] {
            let why = read(text.as_bytes(), INPUT_MAX).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
        for (max, size) in [(EVENT_MAX, "256 KiB"), (INPUT_MAX, "64 KiB")] {
            assert!(read(&vec![b' '; max + 1], max).unwrap_err().contains(size));
        }
        let deep = format!("{}true{}", "{\"not\":".repeat(100), "}".repeat(100));
        let why = read(deep.as_bytes(), INPUT_MAX).unwrap_err();
        assert!(why.contains("more than 100 levels deep"), "{why}");
    }

    #[test]
    fn references_that_double_the_work_at_each_step_are_refused() {
        let steps = |count: usize| {
            let mut defs = serde_json::Map::new();
            for step in 0..count {
                let next = format!("#/$defs/a{}", step + 1);
                defs.insert(format!("a{step}"), json!({"allOf": [{"$ref": next}, {"$ref": next}]}));
            }
            defs.insert(format!("a{count}"), json!({"type": "object"}));
            json!({"$ref": "#/$defs/a0", "$defs": defs}).to_string()
        };
        assert!(read(steps(8).as_bytes(), INPUT_MAX).is_ok());
        let refused = read(steps(40).as_bytes(), INPUT_MAX).unwrap_err();
        assert!(refused.contains("more than 100000 checks"), "{refused}");
        // A schema that contains itself ends with the data.
        let tree = br##"{"type": "object", "properties": {"child": {"$ref": "#"}}}"##;
        assert!(read(tree, INPUT_MAX).is_ok());
        let other = br##"{"$ref": "#name", "$defs": {"x": {"$anchor": "name"}}}"##;
        let refused = read(other, INPUT_MAX).unwrap_err();
        assert!(refused.contains("`#name`"), "{refused}");
    }

    /// A schema whose alternatives all contain the schema itself at the same place.
    fn operations() -> PayloadSchema {
        let one = |op: &str| {
            json!({"properties": {"op": {"const": op}, "of": {"$ref": "#/$defs/any"}}, "required": ["op"],
            "additionalProperties": false})
        };
        let any = json!({"anyOf": [one("not"), one("all"), one("some")]});
        PayloadSchema::new(&json!({"$ref": "#/$defs/any", "$defs": {"any": any}})).unwrap()
    }

    #[test]
    fn a_schema_that_contains_itself_many_times_is_checked_soon() {
        let schema = operations();
        let nested = |depth: usize, leaf: &str| {
            let leaf = json!({"op": leaf});
            (0..depth).fold(leaf, |of, _| json!({"op": "some", "of": of}))
        };
        let mistakes = |payload: &Value| words(&schema.mistakes(payload, payload.to_string().len() as u64));
        // Each level would triple the time.
        assert_eq!(mistakes(&nested(60, "all")), "");
        let deep = mistakes(&nested(60, "hidden"));
        assert!(deep.starts_with("the payload: it does not match the schema"), "{deep}");
        let flat = mistakes(&json!({"op": "hidden"}));
        assert!(flat.contains("'anyOf'") && !flat.contains("hidden"), "{flat}");
    }

    #[test]
    fn the_levels_of_a_schema_and_of_its_payload_are_bounded() {
        let mut defs = serde_json::Map::new();
        for step in 0..300 {
            // The last ones come first, so that the first ones find them measured.
            let next = json!({"not": {"$ref": format!("#/$defs/a{:03}", 299 - step)}});
            defs.insert(format!("a{:03}", 300 - step), json!({"not": {"not": next}}));
        }
        defs.insert("a000".to_owned(), json!(true));
        let deep = json!({"$ref": "#/$defs/a300", "$defs": defs}).to_string();
        let refused = read(deep.as_bytes(), INPUT_MAX).unwrap_err();
        assert!(refused.contains("more than 1000 levels"), "{refused}");
        let wide = (0..20).fold(json!({"$ref": "#"}), |schema, _| json!({"allOf": [schema]}));
        let tree = PayloadSchema::new(&json!({"properties": {"a": wide}})).unwrap();
        let payload = |depth: usize| (0..depth).fold(json!(1), |below, _| json!({"a": below}));
        assert_eq!(tree.mistakes(&payload(5), 30), []);
        let refused = words(&tree.mistakes(&payload(100), 500));
        assert!(refused.contains("nested 101 levels deep"), "{refused}");
    }

    #[test]
    fn a_long_name_does_not_make_a_long_message() {
        let schema = PayloadSchema::new(&json!({"additionalProperties": {"type": "string"}})).unwrap();
        let name = "x".repeat(100_000);
        let mistakes = schema.mistakes(&json!({ name: 1 }), 100_000);
        assert_eq!(mistakes[0].pointer.len(), TEXT_MAX);
    }
}
