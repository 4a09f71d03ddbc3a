//! The routes of functions: the table of those that serve, and the functions that are refused because another one, or
//! `[http] events`, has their route.

use super::Functions;
use crate::functions::registry::Function;
use fnd_core::access::Author;
use fnd_core::lifecycle::SourceFiles;
use fnd_core::triggers::route::{Conflict, Moved, Owners, RouteOwner, Routes};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::Manifest;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The routes of all functions.
#[derive(Debug, Default)]
pub(crate) struct FunctionRoutes {
    owners: Owners,
    /// Functions whose route another function or `[http] events` has.
    refused: BTreeMap<FunctionName, SourceFiles>,
    /// The table of the routes that serve; absent: something has changed since it was made.
    table: Option<Rc<Routes>>,
}

impl FunctionRoutes {
    /// Returns why a function cannot have its routes, if one of them is taken. It is installed again when
    /// routes are free.
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

    /// Gives a function the routes of the versions that can serve, in place of those that it had. Returns the functions
    /// to install again: those that were refused, because routes have become free, and by name those that lose a route.
    pub(super) fn set<'a>(
        &mut self,
        function: &FunctionName,
        author: Author,
        versions: impl IntoIterator<Item = &'a Manifest>,
    ) -> (Vec<SourceFiles>, BTreeSet<FunctionName>) {
        let routes: Vec<_> = versions
            .into_iter()
            .flat_map(|manifest| manifest.http.clone())
            .collect();
        self.changed(function, !routes.is_empty());
        let Moved { freed, displaced } = self.owners.set(function, author, &routes);
        let free = if freed {
            std::mem::take(&mut self.refused)
        } else {
            BTreeMap::new()
        };
        (free.into_values().collect(), displaced)
    }

    /// Makes the table anew before it is used next, if a function has or had routes: a table of ten thousand routes takes
    /// some ten milliseconds.
    pub(crate) fn changed(&mut self, function: &FunctionName, has_routes: bool) {
        self.table.take_if(|table| has_routes || table.has(function));
    }
}

impl Functions {
    /// Gives a function the routes of its versions, or none if it is gone, and has those installed again for which that
    /// changes something.
    pub(super) fn set_routes(&mut self, function: &FunctionName, author: Author) {
        let known = self.registry.get(function);
        // While the newest version is on trial, the version before it serves with its own routes.
        let versions = known
            .into_iter()
            .flat_map(|known| known.newest.iter().chain(&known.before));
        let manifests = versions.map(|serving| &*serving.manifest);
        let (mut again, displaced) = self.routes.set(function, author, manifests);
        for name in &displaced {
            tracing::warn!("{name}  it loses a route: a function of root, `{function}`, has it now");
            again.extend(self.registry.get(name).map(|known| known.candidate.clone()));
        }
        self.installer.enqueue(again);
    }

    /// Sets the path of `[http] events`, which no function can have. If it has changed, functions that have it, or that
    /// were refused for a route, are installed again.
    pub(crate) fn set_events_path(&mut self, path: Option<&str>) {
        if !self.routes.owners.set_events(path) {
            return;
        }
        self.routes.table = None;
        // The path that `[http] events` had may be the one for which they were refused.
        let mut again: Vec<_> = std::mem::take(&mut self.routes.refused).into_values().collect();
        let has_it = |function: &&Function| {
            let manifest = function.newest.as_ref().map(|newest| &newest.manifest);
            let routes = manifest.map(|manifest| manifest.http.as_slice()).unwrap_or_default();
            routes.iter().any(|route| self.routes.owners.is_of_events(route))
        };
        let functions = self.registry.iter().map(|(_, function)| function);
        again.extend(functions.filter(has_it).map(|function| function.candidate.clone()));
        self.installer.enqueue(again);
    }

    /// Returns the table of routes. `version` gives the version of a function that serves.
    pub(crate) fn route_table(&mut self, version: impl Fn(&FunctionName) -> Option<Version>) -> Rc<Routes> {
        if let Some(table) = &self.routes.table {
            return Rc::clone(table);
        }
        let routes = self.registry.iter().flat_map(|(name, function)| {
            let serving = function.serving(version(name));
            let manifest = serving.map(|serving| &serving.manifest);
            manifest.into_iter().flat_map(|manifest| {
                // A version from before another owner got the route still serves, without it.
                let routes = manifest
                    .http
                    .iter()
                    .filter(|route| self.routes.owners.serves(self.author(name), route));
                routes.map(|route| (name.clone(), route.clone(), manifest.limits.body))
            })
        });
        let table = Rc::new(Routes::new(routes));
        self.routes.table = Some(Rc::clone(&table));
        table
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
