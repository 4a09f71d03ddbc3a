//! The table of the subscriptions of the functions that serve (`[[event]]`). Schemas are compiled when the table is made.

use super::Functions;
use crate::functions::registry::ServingVersion;
use fnd_core::triggers::event::subscription::Subscriptions;
use fnd_wire::ids::{FunctionName, Version};
use std::rc::Rc;

impl Functions {
    /// Returns the table of subscriptions. `version` gives the version of a function that serves.
    pub(crate) fn subscriptions(&mut self, version: impl Fn(&FunctionName) -> Option<Version>) -> Rc<Subscriptions> {
        if let Some(table) = &self.subscriptions {
            return Rc::clone(table);
        }
        let functions = self.registry.iter().filter_map(|(name, function)| {
            let manifest = &function.serving(version(name))?.manifest;
            let entries = manifest.event.as_slice();
            (!entries.is_empty()).then(|| (name.clone(), entries, manifest.limits.body))
        });
        let table = Rc::new(Subscriptions::new(functions));
        self.subscriptions = Some(Rc::clone(&table));
        table
    }

    /// Makes the tables of routes and subscriptions anew before they are used next: another version of a function serves.
    pub(crate) fn serves_another(&mut self, function: &FunctionName) {
        let has_routes = self.versions(function).any(|serving| !serving.manifest.http.is_empty());
        self.routes.changed(function, has_routes);
        self.subscriptions_changed(function);
    }

    /// Makes the table anew before it is used next, if a version of a function has subscriptions: to make it compiles the
    /// schemas of all functions.
    pub(super) fn subscriptions_changed(&mut self, function: &FunctionName) {
        if self
            .versions(function)
            .any(|serving| !serving.manifest.event.is_empty())
        {
            self.subscriptions = None;
        }
    }

    fn versions(&self, function: &FunctionName) -> impl Iterator<Item = &ServingVersion> {
        let known = self.registry.get(function).into_iter();
        known.flat_map(|known| known.newest.iter().chain(&known.before).map(|serving| &**serving))
    }
}
