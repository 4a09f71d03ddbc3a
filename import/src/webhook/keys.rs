//! The names of a hook's keys.

use super::{LISTS, SCALARS};
use fnd_manifest::schema::read::nearest;

/// The keys that are neither in [`SCALARS`] nor in [`LISTS`].
const OTHERS: &str = "\
    http-methods include-command-output-in-response include-command-output-in-response-on-error \
    keep-file-environment pre-hook-command success-http-response-code trigger-rule \
    trigger-rule-mismatch-http-response-code trigger-signature-soft-failures";

/// Returns the note on a key that webhook does not know, with the one that may be meant.
pub(super) fn unknown(key: &str) -> String {
    let others = OTHERS.split_ascii_whitespace();
    let names: Vec<&str> = SCALARS.into_iter().chain(LISTS).chain(others).collect();
    let near = nearest(key, &names).map(|near| format!("; did you mean `{near}`?"));
    format!("a hook has no such key{}", near.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::unknown;

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
        }
    }
}
