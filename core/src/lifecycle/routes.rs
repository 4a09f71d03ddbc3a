//! The routes of functions: the table of the routes that serve, and the functions that are refused because another function, or
//! `[http] events`, has their route.

use super::SourceFiles;
use crate::access::Author;
use crate::triggers::route::{Conflict, Moved, Owners, RouteOwner, Routes};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::Manifest;
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The routes of all functions.
#[derive(Debug, Default)]
pub(super) struct FunctionRoutes {
    pub(super) owners: Owners,
    /// Functions whose route another function or `[http] events` has.
    pub(super) refused: BTreeMap<FunctionName, SourceFiles>,
    /// The table of the routes that serve; absent: something has changed since it was made.
    pub(super) table: Option<Rc<Routes>>,
}

impl FunctionRoutes {
    /// Returns the problem if one of the routes of a function is taken. The function is installed again when routes become free.
    pub(super) fn conflict(
        &mut self,
        candidate: &SourceFiles,
        author: Author,
        manifest: &Manifest,
    ) -> Option<Diagnostic> {
        let name = &candidate.function;
        self.refused.remove(name);
        let conflict = self.owners.conflict(name, author, &manifest.http)?;
        self.refused.insert(name.clone(), candidate.clone());
        Some(problem(name, &conflict))
    }

    /// Replaces the routes of a function by those of its versions that can serve. Returns the functions to install again: those
    /// that were refused, if routes have become free, and the names of those that lose a route.
    pub(super) fn set<'a>(
        &mut self,
        function: &FunctionName,
        author: Author,
        versions: impl IntoIterator<Item = &'a Manifest>,
    ) -> (Vec<SourceFiles>, BTreeSet<FunctionName>) {
        let versions = versions.into_iter();
        let routes: Vec<_> = versions.flat_map(|manifest| manifest.http.clone()).collect();
        self.changed(function, !routes.is_empty());
        let Moved { freed, displaced } = self.owners.set(function, author, &routes);
        if !freed {
            return (Vec::new(), displaced);
        }
        (std::mem::take(&mut self.refused).into_values().collect(), displaced)
    }

    /// Drops the table if a function has or had routes: the next use makes it anew. Otherwise the table stays, because making one
    /// of ten thousand routes takes some ten milliseconds.
    pub(super) fn changed(&mut self, function: &FunctionName, has_routes: bool) {
        self.table.take_if(|table| has_routes || table.has(function));
    }
}

fn problem(function: &FunctionName, conflict: &Conflict) -> Diagnostic {
    let Conflict {
        method,
        path,
        host,
        owner,
        is_same,
    } = conflict;
    let host = host.as_deref().map(|host| format!(" of {host}")).unwrap_or_default();
    let method = method.as_str();
    let (message, help) = match owner {
        RouteOwner::Function(owner) if !is_same => (
            format!(
                "the route {method} {path}{host} of `{function}` overlaps with one of `{owner}`, a function of somebody else, and would \
                 get or hide requests that are meant for it"
            ),
            "give the route a path that no route of other people can match, or a host of its own; `fndctl routes` shows them",
        ),
        RouteOwner::Function(owner) => (
            format!("`{function}` and `{owner}` both have the route {method} {path}{host}; `{owner}` keeps it"),
            "give one of the two another path, method or host",
        ),
        RouteOwner::Events => (
            format!(
                "the route {method} {path}{host} of `{function}` gets no requests: {path} is the address of `[http] events` in fnd.toml"
            ),
            "give the route another path, or change `path` in `[http] events` and run `fndctl reload`",
        ),
    };
    Diagnostic::error("route-taken", message).with_help(help)
}
