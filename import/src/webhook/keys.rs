//! The names of a hook's keys.

use crate::rows::{KeyTexts, unknown_key};
use fnd_manifest::schema::read::nearest;

/// Keys whose value is a text, a number, or `true` or `false`.
pub(super) const SCALARS: &str = "\
    id execute-command command-working-directory response-message incoming-payload-content-type";

/// Keys whose value is a list.
pub(super) const LISTS: &str = "\
    pass-arguments-to-command pass-environment-to-command pass-file-to-command parse-parameters-as-json response-headers";

/// Keys without which webhook does something else than fnd.
pub(super) const ABSENT: KeyTexts = fnd_manifest::texts! {
    "http-methods http.methods": "without it webhook takes every method; the route takes GET and POST",
    "command-working-directory entry":
        "without it the command begins where webhook was started; here it begins in the directory of its code",
    "pass-environment-to-command env": "webhook passes on its own environment; a function gets only `[env]`",
};

/// The rows of keys whose value does not matter.
pub(super) const ROWS: KeyTexts = fnd_manifest::texts! {
    "not-here trigger-rule-mismatch-http-response-code":
        "a condition that does not hold is answered with 204, a missing credential with 401",
    "refused parse-parameters-as-json":
        "fnd does not look into JSON inside a field: let the sender send JSON, or read it in the script",
    "refused pre-hook-command": "fnd runs nothing before the conditions: do it in the script",
    "not-here trigger-signature-soft-failures": "a wrong signature is always answered with 401",
    "not-here keep-file-environment": "`$TMPDIR` is removed after the run",
};

/// The keys that are neither in [`SCALARS`] nor in [`LISTS`].
const OTHERS: &str = "\
    http-methods include-command-output-in-response include-command-output-in-response-on-error \
    keep-file-environment pre-hook-command success-http-response-code trigger-rule \
    trigger-rule-mismatch-http-response-code trigger-signature-soft-failures";

/// Returns the note on a key that webhook does not know, with the one that may be meant.
pub(super) fn unknown(key: &str) -> String {
    unknown_key("a hook has no such key", key, &[], &[SCALARS, LISTS, OTHERS].join(" "))
}

/// Says whether a key that webhook does not know may be meant as the rule.
pub(super) fn may_be_rule(key: &str) -> bool {
    let name = key.to_ascii_lowercase().replace('_', "-");
    nearest(&name, &["trigger-rule"]).is_some() || name.starts_with("trigger") || name.starts_with("rule")
}

#[cfg(test)]
mod tests {
    use super::{ABSENT, KeyTexts, LISTS, OTHERS, ROWS, SCALARS, may_be_rule, unknown};
    use crate::tests::testing::{check_absent, check_rows, keys_of};

    /// Keys that a file may lack without a row, and why.
    const WITHOUT: KeyTexts = fnd_manifest::texts! {
        "id execute-command": "a hook without it is refused",
        "trigger-rule": "a row says that anybody may run it, as before",
        "trigger-rule-mismatch-http-response-code": "the row of the rule tells of the answer",
        "include-command-output-in-response include-command-output-in-response-on-error response-message \
         response-headers success-http-response-code":
            "the answer is that of webhook",
        "incoming-payload-content-type keep-file-environment parse-parameters-as-json pass-arguments-to-command \
         pass-file-to-command pre-hook-command trigger-signature-soft-failures":
            "both have nothing of it",
    };

    #[test]
    fn a_rule_may_be_misspelt() {
        for key in ["trigger-rul", "trigger_rule", "triggerRule", "tigger-rule", "rules"] {
            assert!(may_be_rule(key), "{key}");
        }
    }

    #[test]
    fn a_misspelt_key_is_recognised() {
        for (key, expected) in [
            (
                "include-command-output-in-responce",
                "a hook has no such key; did you mean `include-command-output-in-response`?",
            ),
            (
                "execute_command",
                "a hook has no such key; did you mean `execute-command`?",
            ),
            ("services", "a hook has no such key"),
        ] {
            assert_eq!(unknown(key), expected);
            assert!(!may_be_rule(key), "{key}");
        }
    }

    #[test]
    fn rows_have_verdicts() {
        check_rows(&[ROWS]);
    }

    #[test]
    fn every_key_has_a_verdict_where_it_is_absent() {
        let keys = [SCALARS, LISTS, OTHERS]
            .into_iter()
            .flat_map(str::split_ascii_whitespace)
            .chain(keys_of(ROWS))
            .collect();
        check_absent(keys, ABSENT, WITHOUT);
    }
}
