//! The table of the subscriptions of the functions that serve (`[[event]]`). Schemas are compiled when the table is made.

use super::Functions;
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
    pub(crate) fn serves_another(&mut self) {
        self.routes.changed();
        self.subscriptions = None;
    }
}
