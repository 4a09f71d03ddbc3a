//! Explains keys and codes of diagnostics, for `fndctl explain`. Keys come from the tables of the parser.

use crate::function::Manifest;
use crate::schema::{Key, ValueKind};
use crate::settings::Settings;

/// A key with all information from the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyText {
    /// The file that contains it: `function.toml` or `fnd.toml`.
    pub file: &'static str,
    /// The key with its tables: `limits.memory`.
    pub path: String,
    /// The values that it may have: "a size such as `\"256M\"`".
    pub expected: String,
    /// The default as TOML; empty where there is none.
    pub default: &'static str,
    /// An example as TOML; empty for tables.
    pub example: &'static str,
    /// The comment on the key in the code, which is also its text in the reference.
    pub meaning: &'static str,
    /// Whether the key is refused for now, at least with some values.
    pub not_yet: bool,
}

impl KeyText {
    /// Returns the explanation for people: a few lines, the last without a line end.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![format!("{}: key of {}", self.path, self.file), self.meaning.to_owned()];
        lines.push(format!("value:   {}", self.expected));
        if !self.default.is_empty() {
            lines.push(format!("default: {}", self.default));
        }
        if !self.example.is_empty() {
            let name = self.path.rsplit('.').next().unwrap_or(&self.path);
            lines.push(format!("example: {name} = {}", self.example));
        }
        if self.not_yet {
            lines.push("not supported yet with other values than the default".to_owned());
        }
        lines.join("\n")
    }
}

/// Returns all keys: those of a function's manifest, then those of the configuration, in the order of their tables.
#[must_use]
pub fn keys() -> Vec<KeyText> {
    let mut result = Vec::new();
    collect("function.toml", Manifest::KEYS, ("", false), &mut result);
    collect("fnd.toml", Settings::KEYS, ("", false), &mut result);
    result
}

/// Collects the keys of a table. `prefix` is its path with a dot, and whether it is refused.
fn collect(file: &'static str, keys: &'static [Key], prefix: (&str, bool), result: &mut Vec<KeyText>) {
    for key in keys {
        let path = format!("{}{}", prefix.0, key.name);
        // If a table is refused, all of its keys are refused.
        let not_yet = prefix.1 || key.not_yet.is_some();
        result.push(KeyText {
            file,
            path: path.clone(),
            expected: key.kind.expected(),
            default: key.default,
            example: key.example,
            meaning: key.meaning,
            not_yet,
        });
        // `[defaults]` has the keys of a manifest, which are listed already.
        if !matches!(key.kind, ValueKind::Defaults(_)) {
            collect(file, key.kind.keys(), (&format!("{path}."), not_yet), result);
        }
    }
}

/// Returns the keys that a word may mean: the key with that path, else all keys with that last name.
#[must_use]
pub fn key(word: &str) -> Vec<KeyText> {
    // The list has a key of `[defaults]` once, as a key of a manifest.
    let word = word.strip_prefix("defaults.").unwrap_or(word);
    let (exact, rest): (Vec<KeyText>, Vec<KeyText>) = keys().into_iter().partition(|key| key.path == word);
    if !exact.is_empty() {
        return exact;
    }
    rest.into_iter()
        .filter(|key| key.path.rsplit('.').next() == Some(word))
        .collect()
}

/// Codes of diagnostics and their meanings.
pub const DIAGNOSTICS: &[(&str, &str)] = crate::texts! {
    "syntax": "The file is not valid TOML there, or the interpreter refuses the code. The version before serves.",
    "duplicate-key": "A key appears twice.",
    "unknown-key": "There is no such key. A setting without effect is an error.",
    "wrong-type": "The value has another type than the key expects.",
    "bad-value": "The value has the right type, but not the right form or range.",
    "missing-key": "The table is incomplete without this key.",
    "not-supported-yet":
        "This version of fnd knows the setting but does not support it yet. The setting is refused, not ignored.",
    "impossible": "Each value is valid, but not together with the others.",
    "pointless": "The setting has no effect in this case.",
    "not-utf8": "The file is not UTF-8 text.",
    "too-large": "The file is larger than a manifest may be.",
    "more": "There are more problems in the file than are shown.",
    "inline-block":
        "The `/// fnd` block in the code is incomplete or malformed: for example, its first line is misspelt.",
    "script-metadata":
        "The file has a `# /// script` block of Python (PEP 723), which fnd does not read. The script does not run by \
         itself until it has a manifest.",
    "two-manifests":
        "A function has two manifests: of a `/// fnd` block, a `function.toml` and a manifest beside the code, it may have one.",
    "archive":
        "The archive cannot be unpacked, or has an entry that an archive of a function may not have. The message names the entry.",
    "name-clash": "Several files have the name of one function. The file that already serves keeps serving.",
    "bad-name": "The name of a file or directory is not a valid function name.",
    "no-code": "There is a manifest without code.",
    "other-machine": "The program was built for another processor: build it for this machine.",
    "no-entry": "It is not clear which file of the directory is run.",
    "no-function":
        "The file is not a function by any rule: no runtime claims its suffix, and it is not an executable program.",
    "other-function":
        "An upload makes exactly the function that it is named for, and its file also makes another one. Nothing was changed.",
    "no-runtime": "fnd cannot tell which runtime runs the file.",
    "no-handlers": "The runtime's description has no `[phases.handle]`.",
    "not-called":
        "A function looks like a handler but has other parameters, or is one of Kubeless that no manifest names, and nothing in the \
         file calls it: as a script the file does nothing. It does not run by itself.",
    "code-syntax": "The interpreter cannot read the code: its own check names the place. Nothing of the code was run.",
    "no-interpreter":
        "No interpreter of the runtime is installed that can be used safely, so fnd refuses the function.",
    "insecure-mode":
        "Users other than root and the owner can write to the file or to a directory above it: they could change the code.",
    "link": "A symbolic link may lead only to files in the functions directories.",
    "no-dependencies": "The file that `dependencies` names does not exist.",
    "dependencies": "The packages of the function cannot be installed (docs/dependencies.md).",
    "compile": "The code does not compile: the message says where.",
    "source": "The code cannot be fetched from its source (docs/sources.md).",
    "too-many-files": "The function has more files than are compiled.",
    "no-env-file": "The `env_file` does not exist.",
    "bad-data":
        "A payload in the manifest, or the lack of one, does not match the `schema` of `[input]`: no run with it would be accepted.",
    "no-schema": "The file of `schema` in `[[event]]` or `[input]` does not exist.",
    "bad-schema":
        "The `schema` in `[[event]]` or `[input]` is no JSON Schema, is too large, or refers to another file or host.",
    "not-a-file": "Only regular files, and links to them, can be functions.",
    "not-executable": "The file is a program that is executed, but its mode does not allow that.",
    "unreadable": "The file cannot be read.",
    "unknown-runtime": "There is no runtime with this name.",
    "unknown-holder": "`[[access]]` names a group or user that this machine does not have: it gives nobody a role.",
    "unknown-version":
        "The runtime has no such version. `fndctl runtimes` lists what is installed; `[runtimes]` of fnd.toml adds versions.",
    "unchecked-version":
        "The manifest asks for a version, but the runtime has one interpreter for all: it runs the function.",
    "other-version":
        "The manifest asks for a version, but the interpreter that is installed has another one: it runs the function.",
    "runtime-disabled": "`[runtimes]` of the configuration disables the runtime.",
    "unknown-size": "There is no size with this name in `[sizes]`.",
    "unknown-group":
        "`[groups]` of the configuration has no group with this name. A release that served already goes on, with one attempt of \
         the group at once.",
    "interpreter":
        "The `#!` line names a program that does not run the file. A script does not run by itself until the line or the manifest \
         says what is meant.",
    "two-interpreters": "The `#!` line and the manifest name different interpreters: that of the manifest is used.",
    "permissions":
        "Permissions in the `#!` line have no effect; the manifest grants them. A script does not run by itself until the line or \
         the manifest says what is meant.",
    "each-second":
        "A line of cron with six fields begins with a field of seconds: `*` there is sixty runs in a minute.",
    "not-enforced": "This machine cannot enforce the limit, and `best_effort_limits` accepts that.",
    "home-set-aside":
        "The files of the function belong to another owner than before, so it has another user and an empty home. `fndctl home` lists its homes and hands one over.",
    "no-such-function": "`[hooks]` or `[alert]` names a function that does not exist: nobody is told.",
    "alert-itself": "`[alert] call` names the function itself: nobody is told when it fails.",
    "hook-cycle": "The hooks of functions call each other in a circle. The hooks of this function are off.",
    "python-project":
        "The files of a directory belong together (one imports another, or there is a `pyproject.toml`), but each one is a \
         function of its own. None of them runs by itself. A directory with `function.toml` is one function.",
    "reserved": "fnd uses this name itself: a variable that it sets, or a path that it answers.",
    "not-allowed": "`[users]` of the configuration does not allow this user, group or capability (`capabilities`) for functions.",
    "not-operated":
        "`[hooks]` or `[alert]` names a function that the author of this file (its owner, or who has uploaded it) may not operate. It is not called.",
    "not-trusted": "Only files that belong to root may use this setting, and never uploaded ones.",
    "shadowed":
        "Two functions directories have a function of this name: the file in the first directory is used, the other one is not.",
    "public":
        "Other machines can reach this address, so `[http]` needs `public = true`: nobody opens a port by mistake.",
    "twice": "Two entries of the manifest are for the same requests, files, events or messages.",
    "route-taken":
        "Another function, or `[http] events` of fnd.toml, has the route already and keeps it. `fndctl routes` shows them.",
    "consumer-taken":
        "Another function has an entry of `[[nats]]` with this stream and this consumer already and keeps it: each message would run \
         one of the two functions only, by chance.",
    "yaml": "The file is no valid YAML, or is too large or too deeply nested.",
    "foreign-refused":
        "A field of a file of Keptn, Kubeless, Kyma or Rafay is wrong. The words are mostly those of that system.",
    "foreign-differs": "fnd does nearly the same as the other system; the message says the difference.",
    "foreign-not-here": "The field has no effect on one machine; the message says why.",
    "foreign-unknown": "The other system does not know this field either.",
};

/// Returns the meaning of a diagnostic's code.
#[must_use]
pub fn diagnostic(word: &str) -> Option<&'static str> {
    DIAGNOSTICS
        .iter()
        .find(|(code, _)| *code == word)
        .map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a text, `fndctl explain` could not explain a code that fnd prints.
    #[test]
    fn every_code_of_a_diagnostic_has_a_text() {
        let sources = [
            include_str!("schema/read/mod.rs"),
            include_str!("schema/read/values.rs"),
            include_str!("schema/read/words.rs"),
            include_str!("schema/source.rs"),
            include_str!("resolve/mod.rs"),
            include_str!("resolve/environment.rs"),
            include_str!("resolve/input.rs"),
            include_str!("resolve/nats.rs"),
            include_str!("resolve/secrets.rs"),
            include_str!("resolve/widening.rs"),
            include_str!("function/inline.rs"),
            include_str!("function/near_block.rs"),
            include_str!("function/project.rs"),
            include_str!("function/listing.rs"),
            include_str!("function/env_file.rs"),
            include_str!("judge/mod.rs"),
            include_str!("judge/choose.rs"),
            include_str!("judge/command.rs"),
            include_str!("judge/function.rs"),
            include_str!("judge/dependencies.rs"),
            include_str!("judge/input.rs"),
            include_str!("judge/mode.rs"),
            include_str!("settings/resolve.rs"),
            include_str!("runtime/read.rs"),
            include_str!("check.rs"),
            include_str!("foreign/placed.rs"),
            include_str!("foreign/yaml.rs"),
        ];
        let verdicts = [
            "foreign-refused",
            "foreign-differs",
            "foreign-not-here",
            "foreign-unknown",
        ];
        assert!(verdicts.iter().all(|code| diagnostic(code).is_some()));
        for source in sources {
            for call in ["Diagnostic::error(", "Diagnostic::warning("] {
                for after in source.split(call).skip(1) {
                    let code = after
                        .trim_start()
                        .strip_prefix('"')
                        .and_then(|rest| rest.split('"').next());
                    assert!(code.is_none_or(|code| diagnostic(code).is_some()), "{code:?}");
                }
            }
            for after in source.split("report.error(").skip(1) {
                let call = after.split(';').next().unwrap_or_default();
                // The code is the first text that is an argument as a whole.
                let mut arguments = call.split(',').map(str::trim);
                let code = arguments.find_map(|text| text.strip_prefix('"')?.strip_suffix('"'));
                assert!(code.is_none_or(|code| diagnostic(code).is_some()), "{code:?}");
            }
        }
    }

    #[test]
    fn keys_are_found_by_path_and_by_name() {
        let found = |word: &str| {
            key(word)
                .into_iter()
                .map(|key| format!("{} {}", key.file, key.path))
                .collect::<Vec<_>>()
        };
        assert_eq!(found("limits.memory"), ["function.toml limits.memory"]);
        assert_eq!(found("defaults.limits.memory"), ["function.toml limits.memory"]);
        assert_eq!(found("interval"), ["function.toml retry.interval"]);
        assert_eq!(
            found("history.keep_for"),
            ["function.toml history.keep_for", "fnd.toml history.keep_for"]
        );
        assert_eq!(found("none"), [""; 0]);
        let text = key("limits.timeout").first().map(KeyText::text).unwrap_or_default();
        assert!(
            text.contains("default: \"180s\"") && text.contains("example: timeout = \"30s\""),
            "{text}"
        );
        assert!(key("ui.enabled").first().is_some_and(|key| key.not_yet));
        assert!(keys().len() > 150);
    }
}
