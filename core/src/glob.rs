//! Patterns in which `*` stands for any text, also for none and with slashes: of names of functions, and of subjects of
//! events.

/// Returns whether a text matches a pattern.
#[must_use]
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    // Without a `*` the pattern has one part, and nothing may follow it.
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        // The leftmost match leaves the longest rest for the parts that follow.
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tries every length for each `*`.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|skipped| naive(rest, &text[skipped..])),
            Some((letter, rest)) => text
                .split_first()
                .is_some_and(|(first, text)| first == letter && naive(rest, text)),
        }
    }

    #[test]
    fn names_and_groups() {
        for (pattern, matching, other) in [
            ("web/*", "web/a", "webs/a"),
            ("hello", "hello", "hello2"),
            ("*", "web/a", ""),
            ("*/backup", "ops/backup", "backup"),
            ("web/*-v2", "web/shop-v2", "web/v2"),
        ] {
            assert!(glob(pattern, matching), "{pattern} {matching}");
            assert!(!glob(pattern, other) || pattern == "*", "{pattern} {other}");
        }
    }

    proptest! {
        #[test]
        fn it_matches_what_a_naive_one_matches(pattern in "[ab*]{0,6}", text in "[ab]{0,8}") {
            prop_assert_eq!(glob(&pattern, &text), naive(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
