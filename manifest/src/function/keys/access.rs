//! Keys of `[access]`: what a function may do at fnd itself.

use super::TEXTS;
use crate::schema::keys::keys;
use fnd_wire::ids::FunctionName;
use serde::{Deserialize, Serialize};

keys! {
    /// `[access]`: what the function may do at the socket in `FND_SOCKET`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Access {
        /// Functions that it may call: names, `GROUP/*` for all of a group, or `*` for all. Only if root owns the files.
        invoke: Vec<String> = List(&Text(Form::Callees)), example ["other", "group/*"];
        /// Types of the events that it may send; a `*` at the end matches any rest. Only if root owns the files.
        emit: Vec<String> = List(&Text(Form::EventTypes)), example ["order.*"];
        /// Keys of the state that it may use.
        state = TEXTS, example ["shop/*"], not_yet [[]];
    }
}

impl Access {
    /// Says whether it may do nothing: then there is no socket.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.invoke.is_empty() && self.emit.is_empty()
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
}

/// Says whether a text is the pattern, or begins with what the pattern has before its `*`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => pattern == text,
    }
}

/// Says whether a text names functions: one, all of a group, or all.
pub fn names_functions(text: &str) -> bool {
    let group = text.strip_suffix("/*").unwrap_or(text);
    let is_group = group.len() < text.len() && !group.contains('/');
    text == "*" || FunctionName::new(group).is_ok() && (is_group || group == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(invoke: &[&str], emit: &[&str]) -> Access {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        Access {
            invoke: texts(invoke),
            emit: texts(emit),
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
        let none = Access::default();
        assert!(none.is_empty() && !none.may_invoke(&FunctionName::new("other").unwrap()) && !none.may_emit(""));
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
