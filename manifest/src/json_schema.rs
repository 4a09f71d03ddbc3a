//! JSON Schemas of the files that people write, for editors: made from the tables of keys.
//!
//! A schema knows types, ranges of numbers, words and the form of a text. Rules that need more than one value (`cron` or
//! `every`), and ranges of durations and sizes that are written with a unit, are left to the judge.

use crate::schema::{Key, NAME_PART, PERMISSIONS, TextKind, ValueKind, Zero};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The files that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaFile {
    /// A function's manifest: `NAME.toml`, `function.toml`.
    Manifest,
    /// `fnd.toml`.
    Configuration,
}

/// Returns the schema of a file (JSON Schema, draft 2020-12).
#[must_use]
pub fn schema(file: SchemaFile) -> Value {
    let (title, keys) = match file {
        SchemaFile::Manifest => ("Manifest of a function of fnd", crate::function::Manifest::KEYS),
        SchemaFile::Configuration => ("Configuration of fnd", crate::settings::Settings::KEYS),
    };
    let mut schema = table(keys);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = title.into();
    if file == SchemaFile::Configuration {
        schema["$defs"] = json!({ MANIFEST: table(crate::function::Manifest::KEYS) });
    }
    schema
}

/// Name of the schema of `[defaults]` among the definitions.
const MANIFEST: &str = "manifest";

fn table(keys: &[Key]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    // fnd refuses an unknown key as well, so an editor can mark it while a person types.
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = kind(&key.kind);
    let mut meaning = key.meaning.to_owned();
    if let Some(accepted) = key.not_yet {
        meaning.push_str(match accepted {
            [] => " Not supported yet.",
            _ => " Not supported yet with other values than the default.",
        });
    }
    schema["description"] = meaning.into();
    if !key.default.is_empty() {
        schema["default"] = value(key.default);
    }
    if !key.example.is_empty() {
        schema["examples"] = json!([value(key.example)]);
    }
    schema
}

/// Returns the JSON of a default or an example, which are TOML. A test reads all of them.
fn value(text: &str) -> Value {
    let parsed = toml::from_str::<BTreeMap<String, Value>>(&format!("x = {text}"));
    parsed.ok().and_then(|mut table| table.remove("x")).unwrap_or_default()
}

fn kind(kind: &ValueKind) -> Value {
    let or_none = |schema: Value| json!({ "anyOf": [schema, { "const": "none" }] });
    match kind {
        ValueKind::Bool => json!({ "type": "boolean" }),
        ValueKind::Text(TextKind::Any) => json!({ "type": "string" }),
        ValueKind::Text(form) => json!({ "type": "string", "pattern": pattern(*form) }),
        ValueKind::Word(words) => json!({ "enum": words }),
        ValueKind::Duration(zero) => duration(*zero),
        ValueKind::DurationOrNone(zero) => or_none(duration(*zero)),
        ValueKind::Size(range) => size(*range.start(), *range.end()),
        ValueKind::SizeOrNone(range) => or_none(size(*range.start(), *range.end())),
        // JSON Schema applies `pattern` to texts only, and the bounds to numbers only.
        ValueKind::Cpu => json!({
            "type": ["string", "number"],
            "pattern": "^[0-9]+(\\.[0-9]{1,3})?[m%]?$",
            "exclusiveMinimum": 0,
            "maximum": 10_000,
        }),
        ValueKind::ByteRate => json!({ "type": "string", "pattern": "^[0-9]+(\\.[0-9]{1,6})?([KMGT]i?)?/s$" }),
        ValueKind::Rate => json!({ "type": "string", "pattern": "^[1-9][0-9]*/[smhd]$" }),
        ValueKind::Mode => json!({ "type": "string", "pattern": "^[0-7]{3,4}$" }),
        // A pattern cannot bound the number.
        ValueKind::Micros(_) => json!({ "type": "string", "pattern": "^(0|[0-9]+us)$" }),
        ValueKind::Whole(range) => json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() }),
        ValueKind::Real(range) => json!({ "type": "number", "minimum": range.start(), "maximum": range.end() }),
        ValueKind::Json => json!({}),
        ValueKind::JsonTable => json!({ "type": "object" }),
        ValueKind::List(item) => json!({ "type": "array", "items": self::kind(item) }),
        ValueKind::Map(form, item) => json!({
            "type": "object",
            "propertyNames": { "pattern": pattern(*form) },
            "additionalProperties": self::kind(item),
        }),
        ValueKind::Table(keys) => table(keys),
        ValueKind::Tables(keys) => json!({ "type": "array", "items": table(keys) }),
        ValueKind::Defaults(_) => json!({ "$ref": format!("#/$defs/{MANIFEST}") }),
        ValueKind::Either(first, second) => json!({ "anyOf": [self::kind(first), self::kind(second)] }),
    }
}

fn duration(zero: Zero) -> Value {
    let pattern = match zero {
        Zero::Fine => "^(0|([0-9]+(d|h|m|s|ms))+)$",
        // `0s` is refused too.
        Zero::Refused => "^(0+(d|h|m|s|ms))*0*[1-9][0-9]*(d|h|m|s|ms)([0-9]+(d|h|m|s|ms))*$",
    };
    json!({ "type": "string", "pattern": pattern })
}

fn size(least: u64, most: u64) -> Value {
    // JSON Schema applies the bounds to numbers only, so the size of a text such as `256M` is left to the judge.
    json!({
        "type": ["string", "integer"],
        "pattern": "^[0-9]+(\\.[0-9]{1,6})?([KMGT]i?)?$",
        "minimum": least,
        "maximum": most,
    })
}

/// Returns the pattern of a text; where a form has rules that a pattern would make unreadable, it accepts more.
fn pattern(form: TextKind) -> String {
    const NAME: &str = "[A-Za-z0-9._/-]+";
    match form {
        TextKind::Any => String::new(),
        TextKind::Some => "^[^\\u0000]+$".to_owned(),
        TextKind::Name => format!("^{NAME}$"),
        TextKind::Variable => "^[A-Za-z_][A-Za-z0-9_]*$".to_owned(),
        TextKind::Function => format!("^({NAME_PART}/)?{NAME_PART}$"),
        TextKind::EventTypes => "^([^*]+\\*?|\\*)$".to_owned(),
        TextKind::StateKeys => "^(\\*|[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}/([^*]+\\*?|\\*))$".to_owned(),
        TextKind::Absolute | TextKind::UrlPath => "^/".to_owned(),
        TextKind::Below => "^/[^/]".to_owned(),
        TextKind::Device => "^/dev/[^/]".to_owned(),
        TextKind::Relative => "^[^/]".to_owned(),
        TextKind::Socket => "^.+:[0-9]{1,5}$".to_owned(),
        TextKind::Host => "^[a-z0-9.-]+$".to_owned(),
        // An empty pattern fits every text.
        TextKind::Regex => String::new(),
        TextKind::Functions => "^[a-z0-9_/*-]{1,127}$".to_owned(),
        TextKind::Listen => "^(unix:/.+|.+:[0-9]{1,5})$".to_owned(),
        TextKind::Network => "^(unix|[0-9a-fA-F.:]+(/[0-9]{1,3})?)$".to_owned(),
        TextKind::Percent => "^0{0,2}[1-9][0-9]?%$|^0?[1-9][0-9]%$|^100%$".to_owned(),
        TextKind::Permission => format!("^(keptn|({})(=.+)?)$", PERMISSIONS.join("|")),
        TextKind::Grammar(grammar) => (grammar.pattern)(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonschema::Validator;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn validator(file: SchemaFile) -> Validator {
        jsonschema::draft202012::new(&schema(file)).unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn read(text: &str) -> Value {
        toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[track_caller]
    fn check_valid(validator: &Validator, what: &str, text: &str) {
        let errors: Vec<String> = validator
            .iter_errors(&read(text))
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(errors, [""; 0], "{what}");
    }

    fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files_below(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn the_shipped_files_are_valid() {
        use crate::judge::tests::shipped::{FND, FUNCTION, with_examples};
        for (file, text) in [(SchemaFile::Manifest, FUNCTION), (SchemaFile::Configuration, FND)] {
            let validator = validator(file);
            check_valid(&validator, "as shipped", text);
            check_valid(&validator, "with its examples", &with_examples(text));
        }
    }

    #[test]
    fn the_manifests_of_the_examples_are_valid() {
        let validator = validator(SchemaFile::Manifest);
        let mut files = Vec::new();
        files_below(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/functions"),
            &mut files,
        );
        let mut checked = 0;
        for path in files {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let what = path.display().to_string();
            if path.extension().is_some_and(|extension| extension == "toml") {
                check_valid(&validator, &what, &text);
                checked += 1;
            } else if let Some(block) = block(&text) {
                check_valid(&validator, &what, &block);
                checked += 1;
            }
        }
        assert!(checked > 10, "{checked}");
    }

    /// Returns the TOML of a `/// fnd` block.
    fn block(text: &str) -> Option<String> {
        let mut lines = text
            .lines()
            .skip_while(|line| !line.ends_with(" /// fnd"))
            .skip(1)
            .take_while(|line| !line.ends_with(" ///"))
            .map(|line| line.trim_start_matches(['#', '/', '-']).trim_start())
            .peekable();
        lines.peek()?;
        Some(lines.collect::<Vec<_>>().join("\n"))
    }

    /// The schema refuses every file that the judge refuses because of one value.
    #[test]
    fn wrong_files_are_refused() {
        let manifest = validator(SchemaFile::Manifest);
        for wrong in [
            "enable = true",
            "enabled = 1",
            "mode = \"job\"",
            "timeout = \"30s\"",
            "limits.timeout = 30",
            "limits.timeout = \"30\"",
            "limits.timeout = \"0s\"",
            "limits.memory = \"256MB\"",
            "limits.memory = 1",
            "limits.cpu = 0",
            "limits.cpu = \"half\"",
            "limits.pids = 0",
            "retry.factor = \"2\"",
            "retry.on = [\"always\"]",
            "queue.rate = \"10\"",
            "env = { \"1A\" = \"x\" }",
            "env = { A = 1 }",
            "hooks = { on_failure = [{ on_failure = \"retry\" }] }",
            "hooks = { on_failure = [\"Not A Name\"] }",
            "permissions = [\"all\"]",
            "[http]\npath = \"/x\"\nauth = \"none\"",
            "[[http]]\npath = \"/x\"",
            "[[http]]\npath = \"x\"\nauth = \"none\"",
            "[[schedule]]\ncorn = \"* * * * *\"",
        ] {
            assert!(!manifest.is_valid(&read(wrong)), "{wrong}");
        }
        let configuration = validator(SchemaFile::Configuration);
        for wrong in [
            "function_dirs = []",
            "functions_dirs = [\"relative\"]",
            "keep_versions = 0",
            "[defaults.limits]\nmemmory = \"1G\"",
            "[sizes.M]\ntimeout = 5",
            "[[access]]\ngroup = \"adm\"",
            "[[access]]\ngroup = \"adm\"\nrole = \"boss\"",
            "[runtimes.python]\nenable = false",
        ] {
            assert!(!configuration.is_valid(&read(wrong)), "{wrong}");
        }
        assert!(configuration.is_valid(&read("[defaults.limits]\nmemory = \"1G\"")));
        assert!(manifest.is_valid(&read(
            "limits = { timeout = \"1h30m\", deadline = \"none\", memory = \"1.5Gi\" }"
        )));
    }

    #[test]
    fn a_key_has_its_meaning_default_and_example() {
        let schema = schema(SchemaFile::Manifest);
        let timeout = &schema["properties"]["limits"]["properties"]["timeout"];
        assert_eq!(timeout["default"], "180s");
        assert_eq!(timeout["examples"], json!(["30s"]));
        let meaning = timeout["description"].as_str().unwrap();
        assert!(meaning.starts_with("Longest time of one attempt"), "{meaning}");
        let settings = self::schema(SchemaFile::Configuration);
        let ui = settings["properties"]["ui"]["properties"]["enabled"]["description"]
            .as_str()
            .unwrap();
        assert!(
            ui.ends_with("Not supported yet with other values than the default."),
            "{ui}"
        );
        let tmp = schema["properties"]["limits"]["properties"]["tmp"]["description"]
            .as_str()
            .unwrap();
        assert!(!tmp.contains("Not supported"), "{tmp}");
    }
}
