//! Names of the state, which functions share: scopes, keys, and the patterns of `[access] state`.

use std::fmt;

/// Most bytes of a key.
pub const KEY_MAX: usize = 512;

/// The scope and the key of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateKey {
    scope: Box<str>,
    key: Box<str>,
}

impl StateKey {
    /// Returns the place of a value.
    ///
    /// # Errors
    /// The scope or the key has another form; the text says which form it has to have.
    pub fn new(scope: &str, key: &str) -> Result<Self, &'static str> {
        if !is_scope(scope) {
            return Err(
                "a scope has at most 64 letters, digits, `.`, `_` and `-`, and does not begin with a dot, such as `shop`",
            );
        }
        if !is_key(key) {
            return Err(
                "a key has at most 512 bytes of UTF-8 without control characters, such as `cart/7`, and no segment of it is \
                 empty, `.` or `..`",
            );
        }
        Ok(Self {
            scope: scope.into(),
            key: key.into(),
        })
    }

    /// Returns the place that `SCOPE/KEY` names.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (scope, key) = text
            .split_once('/')
            .ok_or("a value is named by its scope and its key, `SCOPE/KEY` such as `shop/orders`")?;
        Self::new(scope, key)
    }

    /// Returns the scope, the part before the first `/`.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// Returns the key within the scope, the part after the first `/`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.scope, self.key)
    }
}

/// Says whether a text is a scope: scopes have the form of names of secrets.
#[must_use]
pub fn is_scope(text: &str) -> bool {
    fnd_wire::trust::is_secret(text)
}

/// Says whether a text is a key.
fn is_key(text: &str) -> bool {
    // Clients of HTTP remove `.` and `..` from a path (RFC 3986, section 5.2.4), so no request could name such a key.
    let is_segment = |segment: &str| !matches!(segment, "" | "." | "..");
    text.len() <= KEY_MAX && !text.contains(char::is_control) && text.split('/').all(is_segment)
}

/// Says whether a text is a pattern of keys: `SCOPE/KEY`, `SCOPE/BEGINNING*` or `*`.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    let beginning = text.strip_suffix('*');
    let Some((scope, key)) = beginning.unwrap_or(text).split_once('/') else {
        return beginning == Some("");
    };
    // The beginning `cart/` is no key itself, but a key can begin with it. So one more letter is added before the
    // check.
    let key = match beginning {
        Some(_) => format!("{key}x"),
        None => key.to_owned(),
    };
    is_scope(scope) && is_key(&key) && !key.contains('*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_and_keys_have_a_form() {
        for text in [
            "shop/orders",
            "shop/cart/7",
            "a.b_c-D/ü €*",
            "a/..b",
            &format!("{}/{}", "s".repeat(64), "k".repeat(512)),
        ] {
            assert_eq!(StateKey::parse(text).unwrap().to_string(), *text);
        }
        for text in [
            "",
            "shop",
            "shop/",
            "/orders",
            ".shop/orders",
            "sh op/orders",
            "shöp/orders",
            "shop//orders",
            "shop/orders/",
            "shop/./orders",
            "shop/../orders",
            "shop/a\nb",
            "shop/a\u{7f}",
            &format!("{}/k", "s".repeat(65)),
            &format!("s/{}", "k".repeat(513)),
        ] {
            assert!(StateKey::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn patterns_are_keys_beginnings_and_everything() {
        for (text, fits) in [
            ("*", true),
            ("shop/*", true),
            ("shop/cart*", true),
            ("shop/cart/*", true),
            ("shop/orders", true),
            ("shop", false),
            ("shop*", false),
            ("shop/", false),
            ("/*", false),
            ("*/orders", false),
            ("shop/*/x", false),
            ("shop/**", false),
            ("shop/../*", false),
            ("", false),
        ] {
            assert_eq!(is_pattern(text), fits, "{text}");
        }
    }
}
