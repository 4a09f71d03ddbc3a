//! Explains keys, reasons and codes of diagnostics, for `fndctl explain`.
//!
//! Keys come from the tables of the parser, and reasons are matched by their type, so that none can be forgotten.
//! [`crate::api::problem`] explains the error codes of the control API.

use crate::manifest::Manifest;
use crate::outcome::{Reason, Skip};
use crate::schema::read::nearest;
use crate::schema::{Key, Kind};
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
    /// The meaning.
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
            lines.push("not supported yet, at least with other values than the default".to_owned());
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
        if !matches!(key.kind, Kind::Defaults) {
            collect(file, key.kind.keys(), (&format!("{path}."), not_yet), result);
        }
    }
}

/// Returns the keys that a word may mean: the key with that path, else all keys with that last name.
#[must_use]
pub fn key(word: &str) -> Vec<KeyText> {
    let word = word.strip_prefix("defaults.").unwrap_or(word);
    let (exact, rest): (Vec<KeyText>, Vec<KeyText>) = keys().into_iter().partition(|key| key.path == word);
    if !exact.is_empty() {
        return exact;
    }
    rest.into_iter()
        .filter(|key| key.path.rsplit('.').next() == Some(word))
        .collect()
}

/// Returns the meaning of a reason or of a class of ends (contract, section 4), for people.
#[must_use]
pub fn reason(word: &str) -> Option<&'static str> {
    match word {
        "exit-N" => Some(of(Reason::Exit(1))),
        "signal-NAME" | "signal" => Some(of(Reason::Signal(15))),
        "skipped" => Some(
            "It was never started; the rest of the word says why: overlap, queue-full, rate, expired, disabled, deleted, missed.",
        ),
        "success" => Some(of(Reason::Ok)),
        _ => Reason::parse(word).map(of),
    }
}

/// Returns the meaning of a reason.
fn of(reason: Reason) -> &'static str {
    match reason {
        Reason::Ok => "It exited with 0, or its handler returned.",
        Reason::Transient => {
            "It exited with 75 (or raised TransientException): try again. Retried where `retry.on` names `transient` and `retry.retries` is not used up."
        }
        Reason::ExecuteAgain => {
            "It exited with 99 and has a `[poll]` table: it is executed again every `poll.repeat` until `poll.until`, which is not counted as a retry. What it wrote to `$FND_RESULT` is given to the next attempt in the file `$FND_PREVIOUS`."
        }
        Reason::Failed => "It exited with 65 (or raised FailedException): trying again is useless. Never retried.",
        Reason::Exit(_) => {
            "It exited with that code, which has no meaning of its own. Class `error`: retried where `retry.on` names it and `retry.not_on_exit` does not name the code. Exit 99 without a `[poll]` table is one of these."
        }
        Reason::Error => "Its handler raised an exception. Class `error`.",
        Reason::Timeout => {
            "The attempt was still running at `limits.timeout`: SIGTERM, and after `limits.grace` everything in its cgroup was killed. Class `timeout`."
        }
        Reason::Oom => {
            "The kernel killed it because all its processes together reached `limits.memory`. Taken from the kernel's counters. Class `oom`."
        }
        Reason::Signal(_) => {
            "A signal ended it that fnd did not send, such as SEGV for a fault in its memory. Class `signal`."
        }
        Reason::Spawn => {
            "It could not be started: no interpreter, no permission, no resources. The message has the cause. Class `spawn`."
        }
        Reason::Load => "Its code could not be loaded. Class `error`.",
        Reason::BadAnswer => "It answered with something that is no valid answer. Class `error`.",
        Reason::ResultTooLarge => "Its result is larger than `limits.result`. Class `error`.",
        Reason::Pids => {
            "It failed, and the kernel had refused it a process or thread because of `limits.pids`. Class `error`."
        }
        Reason::Interrupted => {
            "fnd's spawner, or the machine, went down while it was running. It is run again only where `retry.on` names `interrupted`."
        }
        Reason::Cancelled => "Somebody asked for its end: `fndctl cancel`, or overlap policy `replace`.",
        Reason::Deadline => "The invocation's `limits.deadline` was over: queue, attempts, retries and polls together.",
        Reason::Skipped(Skip::Overlap) => {
            "Never started: another one was running and `queue.overlap` is `skip`, or a newer one took its place (`replace`)."
        }
        Reason::Skipped(Skip::QueueFull) => "Never started: `queue.max` invocations were waiting.",
        Reason::Skipped(Skip::Rate) => "Never started: more than `queue.rate` were asked for.",
        Reason::Skipped(Skip::Expired) => "Never started: it waited past the time it was good for.",
        Reason::Skipped(Skip::Disabled) => "Never started: the function is disabled.",
        Reason::Skipped(Skip::Deleted) => "Never started: the function was removed while it waited.",
        Reason::Skipped(Skip::Missed) => "Never started: its time passed while fnd was not running.",
    }
}

/// Codes of diagnostics and their meanings.
pub const DIAGNOSTICS: &[(&str, &str)] = &[
    ("syntax", "The file is not valid TOML there."),
    ("duplicate-key", "A key is there twice."),
    (
        "unknown-key",
        "Nothing has this key; a setting that would do nothing is an error.",
    ),
    ("wrong-type", "The value is of another type than the key takes."),
    (
        "bad-value",
        "The value is of the right type, but not of the right form or range.",
    ),
    ("missing-key", "The table is incomplete without this key."),
    (
        "not-supported-yet",
        "This version of fnd understands it and cannot do it yet; it is refused, not ignored.",
    ),
    ("impossible", "Values that are fine by themselves cannot be together."),
    ("pointless", "The setting has no effect as things are."),
    ("not-utf8", "The file has bytes that are no UTF-8 text."),
    ("too-large", "The file is larger than a manifest may be."),
    ("more", "There are more problems in the file than are shown."),
    ("inline-block", "The `/// fnd` block in the code is not whole."),
    (
        "two-manifests",
        "A function has a `/// fnd` block and a manifest beside it.",
    ),
    (
        "name-clash",
        "Several files are one function. The one already serving keeps serving.",
    ),
    ("bad-name", "A file or directory cannot be a function by its name."),
    ("no-code", "There is a manifest without code."),
    ("no-entry", "It is not clear which file of the directory is run."),
    ("no-function", "No rule makes the file a function."),
    ("no-runtime", "Nothing says which runtime runs the file."),
    ("no-handlers", "The runtime's description has no `[phases.handle]`."),
    ("no-env-file", "The `env_file` is not there."),
    ("not-a-file", "Only regular files, and links to them, can be functions."),
    (
        "not-executable",
        "The file is executed itself, and its mode does not allow that.",
    ),
    ("unreadable", "The file cannot be read."),
    ("unknown-runtime", "There is no runtime of that name."),
    ("unknown-version", "The runtime has no such version."),
    (
        "runtime-disabled",
        "`[runtimes]` of the configuration switches the runtime off.",
    ),
    ("unknown-size", "There is no size of that name in `[sizes]`."),
    ("interpreter", "The `#!` line is not used as it stands."),
    (
        "permissions",
        "Permissions in the `#!` line grant nothing; the manifest does.",
    ),
    ("reserved", "fnd sets this variable itself."),
    (
        "not-allowed",
        "`[users]` of the configuration does not allow this user or group for functions.",
    ),
    ("not-trusted", "Only files that belong to root may ask for this."),
];

/// Returns the meaning of a diagnostic's code.
#[must_use]
pub fn diagnostic(word: &str) -> Option<&'static str> {
    DIAGNOSTICS
        .iter()
        .find(|(code, _)| *code == word)
        .map(|(_, text)| *text)
}

/// Words of reasons that [`reason`] knows.
pub const REASONS: &[&str] = &[
    "ok",
    "transient",
    "execute-again",
    "failed",
    "exit-N",
    "error",
    "timeout",
    "oom",
    "signal-NAME",
    "spawn",
    "load",
    "bad-answer",
    "result-too-large",
    "pids",
    "interrupted",
    "cancelled",
    "deadline",
    "skipped-overlap",
    "skipped-queue-full",
    "skipped-rate",
    "skipped-expired",
    "skipped-disabled",
    "skipped-deleted",
    "skipped-missed",
];

/// Returns the explained word that is most similar to an unknown one.
#[must_use]
pub fn near(word: &str) -> Option<String> {
    let keys = keys();
    let words: Vec<&str> = keys
        .iter()
        .map(|key| key.path.as_str())
        .chain(REASONS.iter().copied())
        .chain(DIAGNOSTICS.iter().map(|(code, _)| *code))
        .collect();
    nearest(word, &words).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_text() {
        for word in REASONS.iter().chain(&["exit-3", "signal-SEGV", "signal", "skipped"]) {
            assert!(reason(word).is_some(), "{word}");
        }
        assert_eq!(reason("nonsense"), None);
        for word in Reason::words() {
            let listed = match word {
                "exit" => "exit-N",
                "signal" => "signal-NAME",
                word => word,
            };
            assert!(REASONS.contains(&listed), "{word} is not listed");
        }
        for word in crate::manifest::RetryOn::WORDS {
            assert!(reason(word).is_some(), "{word}");
        }
    }

    /// Without a text, `fndctl explain` could not explain a code that fnd prints.
    #[test]
    fn every_code_of_a_diagnostic_has_a_text() {
        let sources = [
            include_str!("schema/read/mod.rs"),
            include_str!("schema/read/values.rs"),
            include_str!("schema/read/words.rs"),
            include_str!("schema/source.rs"),
            include_str!("manifest/resolve.rs"),
            include_str!("manifest/inline.rs"),
            include_str!("manifest/listing.rs"),
            include_str!("manifest/env_file.rs"),
            include_str!("judge/mod.rs"),
            include_str!("judge/choose.rs"),
            include_str!("judge/command.rs"),
            include_str!("judge/function.rs"),
            include_str!("settings/resolve.rs"),
            include_str!("runtime/read.rs"),
            include_str!("check.rs"),
        ];
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
        assert!(key("schedule.cron").first().is_some_and(|key| key.not_yet));
        assert_eq!(near("limits.memori").as_deref(), Some("limits.memory"));
        assert!(keys().len() > 150);
    }
}
