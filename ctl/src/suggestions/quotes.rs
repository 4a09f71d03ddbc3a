//! Puts quotes back that a shell has taken from JSON: `{name: Ada}` was typed as `{"name": "Ada"}`.

/// Returns JSON whose names and texts have quotes again; nothing if that makes no JSON.
pub(super) fn restored(text: &str) -> Option<String> {
    let is_of_word = |letter: char| letter.is_alphanumeric() || "_-.@/".contains(letter);
    let (mut quoted, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(is_of_word) {
        let (before, from_word) = rest.split_at(start);
        let end = from_word
            .find(|letter: char| !is_of_word(letter))
            .unwrap_or(from_word.len());
        let (word, after) = from_word.split_at(end);
        let is_value = word.parse::<f64>().is_ok() || matches!(word, "true" | "false" | "null");
        quoted.push_str(before);
        let quote = if is_value { "" } else { "\"" };
        quoted.push_str(&format!("{quote}{word}{quote}"));
        rest = after;
    }
    quoted.push_str(rest);
    serde_json::from_str::<serde::de::IgnoredAny>(&quoted).ok()?;
    Some(quoted)
}

#[cfg(test)]
mod tests {
    use super::restored;

    #[test]
    fn names_and_texts_get_their_quotes_back() {
        for (text, expected) in [
            ("{name: Ada}", Some("{\"name\": \"Ada\"}")),
            ("{n: 3, ok: true}", Some("{\"n\": 3, \"ok\": true}")),
            ("[a, b]", Some("[\"a\", \"b\"]")),
            ("{name: Ada Lovelace}", None),
            ("{name: }", None),
        ] {
            assert_eq!(restored(text).as_deref(), expected, "{text}");
        }
    }
}
