//! The rights of a caller of the control socket: roles for functions, and a role for the node.
//!
//! An entry of `[[access]]` without `functions` gives its role for the node and for every function; one with `functions`
//! only for the functions whose names match. The greatest role counts. A function that a caller may not view is for
//! this caller a function that does not exist.

use crate::glob::glob;
use fnd_manifest::settings::Role;
use fnd_wire::ids::FunctionName;
use std::sync::Arc;

/// The person who is responsible for what a manifest asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Author {
    /// Root owns all files of the function, or has uploaded them; in development, the person who runs fnd.
    Root,
    /// The owner of the files, or who has uploaded them.
    User(u32),
    /// The author is unknown: the files were uploaded by an fnd that did not remember uploaders.
    Unknown,
}

/// The roles of one caller. The default is a caller without any role, so code that forgets the caller shows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Permissions {
    /// The role for the node and for every function.
    everywhere: Option<Role>,
    /// Further roles, each for the functions of its patterns.
    further: Arc<[(Role, Vec<String>)]>,
}

impl Permissions {
    /// Returns the roles that entries give: each with the patterns of its functions, or without for all.
    #[must_use]
    pub fn of<'a>(entries: impl IntoIterator<Item = (Role, Option<&'a [String]>)>) -> Self {
        let mut reach = Self::default();
        let mut further = Vec::new();
        for (role, functions) in entries {
            match functions {
                None => reach.everywhere = reach.everywhere.max(Some(role)),
                Some(patterns) => further.push((role, patterns.to_vec())),
            }
        }
        // An entry that adds nothing makes no caller a limited one.
        further.retain(|(role, patterns)| Some(*role) > reach.everywhere && !patterns.is_empty());
        if !further.is_empty() {
            reach.further = further.into();
        }
        reach
    }

    /// Returns the reach of a role for the node and for every function.
    #[must_use]
    pub fn everywhere(role: Role) -> Self {
        Self::of([(role, None)])
    }

    /// Returns the reach of fnd itself.
    #[must_use]
    pub fn own() -> Self {
        Self::everywhere(Role::Admin)
    }

    /// Returns the role for the node.
    #[must_use]
    pub fn node(&self) -> Option<Role> {
        self.everywhere
    }

    /// Returns the role for a function.
    #[must_use]
    pub fn function(&self, name: &FunctionName) -> Option<Role> {
        let matching = |(role, patterns): &(Role, Vec<String>)| {
            let matches = patterns.iter().any(|pattern| glob(pattern, name.as_str()));
            matches.then_some(*role)
        };
        self.further.iter().filter_map(matching).max().max(self.everywhere)
    }

    /// Returns the further roles, each with the patterns of its functions.
    pub fn further(&self) -> impl Iterator<Item = (Role, &[String])> {
        self.further.iter().map(|(role, patterns)| (*role, patterns.as_slice()))
    }

    /// Returns the greatest role for anything.
    #[must_use]
    pub fn greatest(&self) -> Option<Role> {
        let further = self.further.iter().map(|(role, _)| *role).max();
        further.max(self.everywhere)
    }

    /// Returns whether the caller may view a function.
    #[must_use]
    pub fn views(&self, name: &FunctionName) -> bool {
        self.everywhere.is_some() || self.function(name).is_some()
    }

    /// Returns whether the caller may view a function, or, where no function is named, the node.
    #[must_use]
    pub fn views_any(&self, name: Option<&FunctionName>) -> bool {
        name.map_or(self.everywhere.is_some(), |name| self.views(name))
    }

    /// Returns whether the caller may run a function, and stop, enable and disable it.
    #[must_use]
    pub fn operates(&self, name: &FunctionName) -> bool {
        // `None`, which is no role, is less than every role.
        self.function(name) >= Some(Role::Operator)
    }

    /// Returns a text that is the same for callers that operate the same functions; nothing for one that operates all.
    #[must_use]
    pub fn limit_of_operation(&self) -> Option<String> {
        if self.everywhere >= Some(Role::Operator) {
            return None;
        }
        let operator = self.further.iter().filter(|(role, _)| *role >= Role::Operator);
        let mut patterns: Vec<&str> = operator
            .flat_map(|(_, patterns)| patterns)
            .map(String::as_str)
            .collect();
        patterns.sort_unstable();
        patterns.dedup();
        Some(patterns.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> FunctionName {
        FunctionName::new(text).unwrap()
    }

    fn reach(entries: &[(Role, Option<&[&str]>)]) -> Permissions {
        let owned: Vec<(Role, Option<Vec<String>>)> = entries
            .iter()
            .map(|(role, patterns)| {
                (
                    *role,
                    patterns.map(|all| all.iter().map(|&one| one.to_owned()).collect()),
                )
            })
            .collect();
        Permissions::of(owned.iter().map(|(role, patterns)| (*role, patterns.as_deref())))
    }

    #[test]
    fn an_entry_with_functions_gives_its_role_for_these_only() {
        let of = reach(&[
            (Role::Operator, Some(&["web/*", "hello"])),
            (Role::Admin, Some(&["web/a"])),
        ]);
        for (function, expected) in [
            ("web/a", Some(Role::Admin)),
            ("web/b", Some(Role::Operator)),
            ("hello", Some(Role::Operator)),
            ("ops/backup", None),
            ("webs", None),
        ] {
            assert_eq!(of.function(&name(function)), expected, "{function}");
            assert_eq!(of.views(&name(function)), expected.is_some(), "{function}");
        }
        assert_eq!((of.node(), of.greatest()), (None, Some(Role::Admin)));
        assert!(!of.views_any(None) && of.views_any(Some(&name("hello"))));
    }

    #[test]
    fn the_greatest_role_counts() {
        let of = reach(&[(Role::Viewer, None), (Role::Operator, Some(&["web/*"]))]);
        assert_eq!(of.node(), Some(Role::Viewer));
        assert_eq!(of.function(&name("hello")), Some(Role::Viewer));
        assert_eq!(of.function(&name("web/a")), Some(Role::Operator));
        assert!(of.operates(&name("web/a")) && !of.operates(&name("hello")));
        // The role for everything is the greater one.
        let of = reach(&[(Role::Viewer, Some(&["web/*"])), (Role::Operator, None)]);
        assert_eq!(of, Permissions::everywhere(Role::Operator));
    }

    #[test]
    fn no_entry_and_no_pattern_is_no_role() {
        for of in [Permissions::default(), reach(&[]), reach(&[(Role::Admin, Some(&[]))])] {
            assert_eq!(
                (of.node(), of.greatest(), of.views(&name("hello"))),
                (None, None, false)
            );
        }
    }

    #[test]
    fn those_who_operate_the_same_functions_share_a_limit() {
        let limit = |entries: &[(Role, Option<&[&str]>)]| reach(entries).limit_of_operation();
        assert_eq!(limit(&[(Role::Operator, None)]), None);
        assert_eq!(limit(&[]).as_deref(), Some(""));
        let one = limit(&[(Role::Operator, Some(&["b", "a/*"])), (Role::Viewer, None)]);
        let other = limit(&[(Role::Admin, Some(&["a/*"])), (Role::Operator, Some(&["b", "b"]))]);
        assert_eq!((one.as_deref(), other.as_deref()), (Some("a/* b"), Some("a/* b")));
    }

    proptest! {
        /// The role for a function is the greatest of the entries that apply, whatever their order.
        #[test]
        fn roles_are_those_of_a_naive_search(
            entries in prop::collection::vec((0..3_usize, prop::option::of(prop::collection::vec("[ab/*]{1,4}", 0..3))), 0..5),
            function in "[ab](/[ab])?",
        ) {
            let roles = [Role::Viewer, Role::Operator, Role::Admin];
            let of = Permissions::of(entries.iter().map(|(role, patterns)| (roles[*role], patterns.as_deref())));
            let applies = |patterns: &Option<Vec<String>>| {
                patterns.as_ref().is_none_or(|all| all.iter().any(|pattern| glob(pattern, &function)))
            };
            let expected = entries.iter().filter(|(_, patterns)| applies(patterns)).map(|(role, _)| roles[*role]).max();
            prop_assert_eq!(of.function(&name(&function)), expected);
            prop_assert_eq!(of.views(&name(&function)), expected.is_some());
            let node = entries.iter().filter(|(_, patterns)| patterns.is_none()).map(|(role, _)| roles[*role]).max();
            prop_assert_eq!(of.node(), node);
            prop_assert!(of.greatest() >= of.function(&name(&function)));
        }
    }
}
