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

/// Returns the meaning of a reason or of a class of ends (docs/errors-and-reasons.md), for people.
#[must_use]
pub fn reason(word: &str) -> Option<&'static str> {
    match word {
        "exit-N" => Some(of(Reason::Exit(1))),
        "signal-NAME" | "signal" => Some(of(Reason::Signal(15))),
        "skipped" => Some(
            "The invocation never started; the rest of the word says why: overlap, queue-full, rate, expired, disabled, deleted, missed.",
        ),
        "success" => Some(of(Reason::Ok)),
        _ => Reason::parse(word).map(of),
    }
}

/// Returns the meaning of a reason.
fn of(reason: Reason) -> &'static str {
    match reason {
        Reason::Ok => "The attempt exited with 0, or the handler returned.",
        Reason::Transient => {
            "The attempt exited with 75 or raised TransientException, which asks for a retry. Class `transient`: retried if `retry.on` names it and `retry.retries` is not exhausted."
        }
        Reason::ExecuteAgain => {
            "The attempt exited with 99 and the function has a `[poll]` table: it is executed again every `poll.repeat` until `poll.until`; this does not count as a retry. The next attempt finds what this one wrote to `$FND_RESULT` in the file `$FND_PREVIOUS`."
        }
        Reason::Failed => {
            "The attempt exited with 65 or raised FailedException: a retry would be useless. Never retried."
        }
        Reason::Exit(_) => {
            "The attempt exited with this code, which has no special meaning. Class `error`: retried if `retry.on` names it and `retry.not_on_exit` does not name the code. Exit 99 without a `[poll]` table is such a code."
        }
        Reason::Error => "The handler raised an exception. Class `error`.",
        Reason::Timeout => {
            "The attempt was still running after `limits.timeout`. It got SIGTERM, and after `limits.grace` every process in its cgroup was killed. Class `timeout`."
        }
        Reason::Oom => {
            "The kernel killed the attempt because all processes of the function together reached `limits.memory`, as the kernel's counters show. Class `oom`."
        }
        Reason::Signal(_) => {
            "A signal that fnd did not send ended the attempt, such as SEGV for an invalid memory access. Class `signal`."
        }
        Reason::Spawn => {
            "The attempt could not be started: no interpreter, no permission, no resources. The message says the cause. Class `spawn`."
        }
        Reason::Load => "The code of the function could not be loaded. Class `error`.",
        Reason::BadAnswer => "The function gave no valid answer. Class `error`.",
        Reason::ResultTooLarge => "The result is larger than `limits.result`. Class `error`.",
        Reason::Pids => {
            "The attempt failed, and before that the kernel refused it a process or thread because of `limits.pids`. Class `error`."
        }
        Reason::Interrupted => {
            "fnd, its spawner or the machine went down during the attempt. Class `interrupted`: retried only if `retry.on` names it."
        }
        Reason::Cancelled => "The invocation was cancelled, by `fndctl cancel` or by the overlap policy `replace`.",
        Reason::Deadline => {
            "The invocation took longer than `limits.deadline`: queue, attempts, retries and polls together."
        }
        Reason::Skipped(Skip::Overlap) => {
            "Never started: another invocation was running and `queue.overlap` is `skip`, or a newer one replaced it (`replace`)."
        }
        Reason::Skipped(Skip::QueueFull) => "Never started: the queue was full (`queue.max`).",
        Reason::Skipped(Skip::Rate) => "Never started: more invocations were requested than `queue.rate` allows.",
        Reason::Skipped(Skip::Expired) => "Never started: it expired while it waited (`Fnd-Expires`).",
        Reason::Skipped(Skip::Disabled) => "Never started: the function is disabled.",
        Reason::Skipped(Skip::Deleted) => "Never started: the function was removed while it waited.",
        Reason::Skipped(Skip::Missed) => "Never started: its time passed while fnd was not running.",
    }
}

/// Codes of diagnostics and their meanings.
pub const DIAGNOSTICS: &[(&str, &str)] = &[
    ("syntax", "The file is not valid TOML there."),
    ("duplicate-key", "A key appears twice."),
    (
        "unknown-key",
        "There is no such key. A setting without effect is an error.",
    ),
    ("wrong-type", "The value has another type than the key expects."),
    (
        "bad-value",
        "The value has the right type, but not the right form or range.",
    ),
    ("missing-key", "The table is incomplete without this key."),
    (
        "not-supported-yet",
        "This version of fnd knows the setting but does not support it yet. The setting is refused, not ignored.",
    ),
    ("impossible", "Each value is valid, but not together with the others."),
    ("pointless", "The setting has no effect in this case."),
    ("not-utf8", "The file is not UTF-8 text."),
    ("too-large", "The file is larger than a manifest may be."),
    ("more", "There are more problems in the file than are shown."),
    (
        "inline-block",
        "The `/// fnd` block in the code is incomplete or malformed.",
    ),
    (
        "two-manifests",
        "A function has a `/// fnd` block and a manifest beside it.",
    ),
    (
        "name-clash",
        "Several files have the name of one function. The file that already serves keeps serving.",
    ),
    (
        "bad-name",
        "The name of a file or directory is not a valid function name.",
    ),
    ("no-code", "There is a manifest without code."),
    ("no-entry", "It is not clear which file of the directory is run."),
    (
        "no-function",
        "The file is not a function by any rule: no runtime claims its suffix, and it is not an executable program.",
    ),
    ("no-runtime", "fnd cannot tell which runtime runs the file."),
    ("no-handlers", "The runtime's description has no `[phases.handle]`."),
    ("no-env-file", "The `env_file` does not exist."),
    ("not-a-file", "Only regular files, and links to them, can be functions."),
    (
        "not-executable",
        "The file is a program that is executed, but its mode does not allow that.",
    ),
    ("unreadable", "The file cannot be read."),
    ("unknown-runtime", "There is no runtime with this name."),
    ("unknown-version", "The runtime has no such version."),
    (
        "runtime-disabled",
        "`[runtimes]` of the configuration disables the runtime.",
    ),
    ("unknown-size", "There is no size with this name in `[sizes]`."),
    ("interpreter", "The `#!` line is not used, or not completely."),
    (
        "permissions",
        "Permissions in the `#!` line have no effect; the manifest grants them.",
    ),
    ("reserved", "fnd sets this variable itself."),
    (
        "not-allowed",
        "`[users]` of the configuration does not allow this user or group for functions.",
    ),
    ("not-trusted", "Only files that belong to root may use this setting."),
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
