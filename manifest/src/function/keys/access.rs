//! Keys of `[access]`: the rights of a function at fnd itself.

use crate::schema::keys::keys;
use crate::schema::{NAME_PART, TextGrammar};
use crate::state_key::StateKey;
use fnd_wire::ids::FunctionName;
use serde::{Deserialize, Serialize};

/// Functions that may be called: a name, `GROUP/*`, or `*`.
const CALLEES: TextGrammar = TextGrammar {
    name: "Callees",
    expected: "the name of a function, `GROUP/*` for all of a group, or `*` for all",
    holds: names_functions,
    pattern: || format!("^(\\*|{NAME_PART}/\\*|({NAME_PART}/)?{NAME_PART})$"),
};

keys! {
    /// `[access]`: the rights of the function at the socket in `FND_SOCKET`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AccessRule {
        /// Functions that it may call: names, `GROUP/*` for all of a group, or `*` for all. Only if root owns the files.
        invoke: Vec<String> = List(&Text(TextKind::Grammar(&CALLEES))), example ["other", "group/*"];
        /// Types of the events that it may send; a `*` at the end matches any rest. Only if root owns the files.
        emit: Vec<String> = List(&Text(TextKind::EventTypes)), example ["order.*"];
        /// Keys of the state that it may use: `SCOPE/KEY`, `SCOPE/BEGINNING*`, or `*` for all. Only if root owns the files.
        state: Vec<String> = List(&Text(TextKind::StateKeys)), example ["shop/*"];
    }
}

impl AccessRule {
    /// Says whether it may do nothing: then there is no socket.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.invoke.is_empty() && self.emit.is_empty() && self.state.is_empty()
    }

    /// Says whether it may call a function.
    #[must_use]
    pub fn may_invoke(&self, function: &FunctionName) -> bool {
        self.invoke.iter().any(|pattern| matches(pattern, function.as_str()))
    }

    /// Says whether it may send events of a type.
    #[must_use]
    pub fn may_emit(&self, kind: &str) -> bool {
        self.emit.iter().any(|pattern| matches(pattern, kind))
    }

    /// Says whether it may read, set and delete a key of the state.
    #[must_use]
    pub fn may_use(&self, key: &StateKey) -> bool {
        let key = key.to_string();
        self.state.iter().any(|pattern| matches(pattern, &key))
    }

    /// Says whether it may list the keys that begin like this, with their scope; the empty text is the list of scopes.
    #[must_use]
    pub fn may_list(&self, beginning: &str) -> bool {
        // A pattern without `*` allows a single key, and a list would name others.
        let covers = |pattern: &String| matches(pattern, beginning) && pattern.ends_with('*');
        self.state.iter().any(covers)
    }
}

/// Says whether a text is the pattern, or begins with what the pattern has before its `*`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => pattern == text,
    }
}

/// Says whether a text names functions: one, all of a group, or all.
fn names_functions(text: &str) -> bool {
    let group = text.strip_suffix("/*").unwrap_or(text);
    let is_group = group.len() < text.len() && !group.contains('/');
    text == "*" || FunctionName::new(group).is_ok() && (is_group || group == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(invoke: &[&str], emit: &[&str]) -> AccessRule {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        AccessRule {
            invoke: texts(invoke),
            emit: texts(emit),
            state: Vec::new(),
        }
    }

    #[test]
    fn a_function_may_do_what_is_listed_and_nothing_else() {
        let some = access(&["other", "shop/*"], &["order.*", "paid"]);
        for (function, may) in [
            ("other", true),
            ("others", false),
            ("shop/cart", true),
            ("shop", false),
            ("shopping/cart", false),
            ("a/other", false),
        ] {
            assert_eq!(
                some.may_invoke(&FunctionName::new(function).unwrap()),
                may,
                "{function}"
            );
        }
        for (kind, may) in [
            ("order.created", true),
            ("order.", true),
            ("order", false),
            ("reorder.created", false),
            ("paid", true),
            ("paid.twice", false),
        ] {
            assert_eq!(some.may_emit(kind), may, "{kind}");
        }
        let all = access(&["*"], &["*"]);
        assert!(all.may_invoke(&FunctionName::new("any/thing").unwrap()) && all.may_emit("x"));
        let none = AccessRule::default();
        assert!(none.is_empty() && !none.may_invoke(&FunctionName::new("other").unwrap()) && !none.may_emit(""));
    }

    #[test]
    fn keys_of_the_state_are_used_and_listed_where_a_pattern_says_so() {
        let of = |state: &[&str]| AccessRule {
            state: state.iter().map(|text| (*text).to_owned()).collect(),
            ..AccessRule::default()
        };
        let some = of(&["shop/orders", "shop/cart/*", "web/*"]);
        assert!(!some.is_empty());
        for (key, may) in [
            ("shop/orders", true),
            ("shop/orders2", false),
            ("shop/cart/7", true),
            ("shop/cart", false),
            ("web/a/b", true),
            ("webs/a", false),
        ] {
            assert_eq!(some.may_use(&StateKey::parse(key).unwrap()), may, "{key}");
        }
        for (beginning, may) in [
            ("", false),
            ("shop/", false),
            ("shop/orders", false),
            ("shop/cart/", true),
            ("shop/cart/7", true),
            ("web/", true),
            ("web", false),
        ] {
            assert_eq!(some.may_list(beginning), may, "{beginning}");
        }
        let all = of(&["*"]);
        assert!(all.may_list("") && all.may_list("shop/") && all.may_use(&StateKey::parse("a/b").unwrap()));
    }

    #[test]
    fn names_and_groups_are_accepted_and_other_patterns_are_not() {
        for (text, fits) in [
            ("other", true),
            ("shop/cart", true),
            ("shop/*", true),
            ("*", true),
            ("o*", false),
            ("shop/c*", false),
            ("*/cart", false),
            ("shop/cart/*", false),
            ("/*", false),
            ("**", false),
            ("Shop/*", false),
            ("", false),
        ] {
            assert_eq!(names_functions(text), fits, "{text}");
        }
    }
}
