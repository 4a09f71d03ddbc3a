//! The tables of routes, subscriptions and calls of the functions that serve. A change only drops a table, and the next use makes
//! it anew: a table of ten thousand routes takes some ten milliseconds, and one of subscriptions compiles the schemas of all
//! functions.

use super::function::Function;
use super::installed_version::ServingVersion;
use super::order::Order;
use super::{Lifecycle, SourceFiles};
use crate::access::Author;
use crate::report::FunctionNews;
use crate::triggers::event::subscription::Subscriptions;
use crate::triggers::route::Routes;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::{Manifest, calls};
use fnd_manifest::judge::Verdict;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeSet;
use std::rc::Rc;

impl Lifecycle {
    /// Returns the problem if another function has a route or a consumer of this function, or if its hooks would close a cycle.
    pub(super) fn conflict(&mut self, files: &SourceFiles, author: Author, verdict: &Verdict) -> Option<Diagnostic> {
        let manifest = verdict.manifest.as_ref()?;
        let known = self.registry.get(&files.function);
        let has_earlier = known.is_some_and(|known| known.newest.is_some());
        // Each of the three remembers a function with a conflict, so the next one is asked only if the one before has none.
        self.routes
            .conflict(files, author, manifest)
            .or_else(|| self.consumers.conflict(files, manifest))
            .or_else(|| self.hooks.conflict(files, manifest, has_earlier))
    }

    /// Replaces the routes and consumers of a function by those of its versions, or by none if it is gone. Queues the functions for
    /// which that changes something.
    pub(super) fn set_routes(&mut self, function: &FunctionName, author: Author, out: &mut Vec<Order>) {
        let (mut again, displaced) = self.set_owned(function, author, None);
        for name in &displaced {
            let text = format!("it loses a route: a function of root, `{function}`, has it now");
            out.push(Order::News(name.clone(), FunctionNews::Warning(text)));
            again.extend(self.registry.get(name).map(|known| known.candidate.clone()));
        }
        self.installer.enqueue(again);
    }

    /// Frees the routes and consumers of the earlier version, because this version serves now. Functions that lose a route to this
    /// one were told when it was installed.
    pub(super) fn routes_of_serving(&mut self, function: &FunctionName, version: Version) {
        let (free, _) = self.set_owned(function, self.author(function), Some(version));
        self.installer.enqueue(free);
    }

    /// Replaces the routes and consumers of a function by those of its versions; without the earlier version once `serving` serves.
    /// Returns the functions to install again, and the names of those that lose a route.
    fn set_owned(
        &mut self,
        function: &FunctionName,
        author: Author,
        serving: Option<Version>,
    ) -> (Vec<SourceFiles>, BTreeSet<FunctionName>) {
        let known = self.registry.get(function).into_iter();
        let versions = known.flat_map(|known| manifests_of(known, serving));
        let (mut free, displaced) = self.routes.set(function, author, versions.clone());
        free.extend(self.consumers.set(function, versions));
        (free, displaced)
    }

    /// Sets the path of `[http] events`, which no function can have. If it has changed, functions that have it, or that
    /// were refused for a route, are installed again.
    pub fn set_events_path(&mut self, path: Option<&str>) {
        if !self.routes.owners.set_events(path) {
            return;
        }
        self.routes.table = None;
        // They may have been refused because of the old path of `[http] events`.
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

    /// Returns the table of routes.
    pub fn route_table(&mut self) -> Rc<Routes> {
        if let Some(table) = &self.routes.table {
            return Rc::clone(table);
        }
        let routes = self.each_serving().flat_map(|(name, serving)| {
            let manifest = &serving.manifest;
            // A function of root, or `[http] events`, may have got a route of a version that serves. That version goes on without
            // the route.
            let routes = manifest.http.iter();
            let routes = routes.filter(|route| self.routes.owners.serves(self.author(name), route));
            routes.map(|route| (name.clone(), route.clone(), manifest.limits.body))
        });
        let table = Rc::new(Routes::new(routes));
        self.routes.table = Some(Rc::clone(&table));
        table
    }

    /// Returns the table of subscriptions.
    pub fn subscriptions(&mut self) -> Rc<Subscriptions> {
        if let Some(table) = &self.subscriptions {
            return Rc::clone(table);
        }
        let functions = self.each_serving().filter_map(|(name, serving)| {
            let entries = serving.manifest.event.as_slice();
            (!entries.is_empty()).then(|| (name.clone(), entries, serving.manifest.limits.body))
        });
        let table = Rc::new(Subscriptions::new(functions));
        self.subscriptions = Some(Rc::clone(&table));
        table
    }

    fn each_serving(&self) -> impl Iterator<Item = (&FunctionName, &ServingVersion)> {
        let names = self.registry.iter().map(|(name, _)| name);
        names.filter_map(|name| Some((name, self.serving(name)?)))
    }

    /// Drops the tables of routes and subscriptions, because another version of a function serves.
    pub(super) fn serves_another(&mut self, function: &FunctionName) {
        let has_routes = self.has(function, |manifest| !manifest.http.is_empty());
        self.routes.changed(function, has_routes);
        self.subscriptions_changed(function);
    }

    /// Drops the table of subscriptions, if a version of a function has some.
    pub(super) fn subscriptions_changed(&mut self, function: &FunctionName) {
        if self.has(function, |manifest| !manifest.event.is_empty()) {
            self.subscriptions = None;
        }
    }

    fn has(&self, function: &FunctionName, has: impl Fn(&Manifest) -> bool) -> bool {
        let known = self.registry.get(function);
        known.is_some_and(|known| manifests_of(known, None).any(has))
    }

    /// Replaces the calls of a function by those of its versions, or by none if it is gone; without the earlier version once `serving`
    /// serves. Functions that were refused for calls that are gone now are installed again.
    pub(super) fn set_hooks(&mut self, function: &FunctionName, serving: Option<Version>, out: &mut Vec<Order>) {
        let known = self.registry.get(function).into_iter();
        let calls = known.flat_map(|known| manifests_of(known, serving));
        let free = self.hooks.set(function, calls, out);
        self.installer.enqueue(free);
    }

    /// Says whether the hooks of a function are off.
    #[must_use]
    pub fn are_hooks_off(&self, function: &FunctionName) -> bool {
        self.hooks.graph.is_off(function)
    }

    /// Returns the warnings about what a function calls: hooks that are off, and functions that do not exist.
    #[must_use]
    pub fn call_warnings(&self, function: &FunctionName, manifest: &Manifest) -> Vec<Diagnostic> {
        let exists = |name: &FunctionName| self.registry.get(name).is_some();
        let off = self.hooks.problem(function).into_iter();
        off.chain(calls::to_nobody(function, manifest, exists)).collect()
    }

    /// Finds the functions with [warnings about their calls](Self::call_warnings): to be called when a manifest has changed, or a
    /// function came or went.
    pub fn find_calls(&mut self) {
        let newest = |(name, function): (&FunctionName, &Function)| {
            let warnings = self.call_warnings(name, &function.newest.as_ref()?.manifest);
            (!warnings.is_empty()).then(|| (name.clone(), warnings))
        };
        self.to_nobody = self.registry.iter().filter_map(newest).collect();
    }

    /// Returns the warnings about the calls of a function, as they were [found](Self::find_calls) last.
    #[must_use]
    pub fn calls_to_nobody(&self, function: &FunctionName) -> &[Diagnostic] {
        self.to_nobody.get(function).map_or(&[], Vec::as_slice)
    }

    /// Returns all functions with warnings about their calls.
    pub fn all_calls_to_nobody(&self) -> impl Iterator<Item = (&FunctionName, &Diagnostic)> {
        let all = self.to_nobody.iter();
        all.flat_map(|(name, warnings)| warnings.iter().map(move |one| (name, one)))
    }
}

/// Returns the manifests whose routes and calls belong to a function. While the newest version is on trial, the version before it serves
/// with its own; once `serving` serves, another version before it has none. A canary has none until it serves: root's function would
/// take a route from another one that nobody then serves.
fn manifests_of(function: &Function, serving: Option<Version>) -> impl Iterator<Item = &Manifest> + Clone {
    let before = function.before.iter();
    let before = before.filter(move |before| serving.is_none_or(|serving| before.version == serving));
    let versions = function.newest.iter().chain(before);
    versions.map(|version| &*version.manifest)
}
