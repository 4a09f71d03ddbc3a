//! The hooks of functions: which functions call which, and the functions that are refused because they would close a
//! cycle.

use super::Functions;
use crate::functions::catalog::Candidate;
use fnd_core::triggers::hooks::graph::{Graph, spelled};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::Manifest;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeMap;

/// The hooks of all functions.
#[derive(Debug, Default)]
pub(crate) struct FunctionHooks {
    graph: Graph,
    /// Functions whose newest version would close a cycle.
    refused: BTreeMap<FunctionName, Candidate>,
}

impl FunctionHooks {
    /// Returns why the hooks of a function cannot be, if they would close a cycle. It is installed again when a call of
    /// another function is gone. `has_earlier` says that a version of it serves, which then goes on.
    pub(super) fn conflict(
        &mut self,
        candidate: &Candidate,
        manifest: &Manifest,
        has_earlier: bool,
    ) -> Option<Diagnostic> {
        let name = &candidate.function;
        self.refused.remove(name);
        // Without an earlier version, or if that is on a cycle as well, the hooks of the cycle are off.
        if !has_earlier || self.graph.is_off(name) {
            return None;
        }
        let cycle = self.graph.closes(name, calls(manifest))?;
        self.refused.insert(name.clone(), candidate.clone());
        let message = format!("its hooks would close a cycle: {}", spelled(&cycle));
        Some(Diagnostic::error("hook-cycle", message).with_help("remove one of the calls from `[hooks]`"))
    }

    /// Gives a function the calls of the versions that can serve, in place of those that it had. Returns the functions
    /// to install again, because calls are gone.
    pub(super) fn set<'a>(
        &mut self,
        function: &FunctionName,
        versions: impl IntoIterator<Item = &'a Manifest>,
    ) -> Vec<Candidate> {
        let was_off = self.graph.is_off(function);
        if self.graph.set(function, versions.into_iter().flat_map(calls)) {
            return std::mem::take(&mut self.refused).into_values().collect();
        }
        if !was_off && let Some(problem) = self.problem(function) {
            tracing::warn!("{function}  {}", problem.text());
        }
        Vec::new()
    }

    /// Says whether the hooks of a function are off.
    pub(crate) fn is_off(&self, function: &FunctionName) -> bool {
        self.graph.is_off(function)
    }

    /// Returns why the hooks of a function are off, if they are.
    fn problem(&self, function: &FunctionName) -> Option<Diagnostic> {
        if !self.graph.is_off(function) {
            return None;
        }
        let cycle = self.graph.cycle(function)?;
        let message = format!(
            "its hooks are off, because they are part of a cycle: {}",
            spelled(&cycle)
        );
        Some(Diagnostic::warning("hook-cycle", message).with_help("remove one of the calls from `[hooks]`"))
    }
}

impl Functions {
    /// Forgets the calls of the version before the one that serves now. Functions that were refused for them are
    /// installed again.
    pub(crate) fn calls_of_serving(&mut self, function: &FunctionName, version: Version) {
        let Some(known) = self.registry.get(function) else {
            return;
        };
        let before = known.before.iter().filter(|before| before.version == version);
        let versions = known.newest.iter().chain(before);
        let free = self.hooks.set(function, versions.map(|serving| &*serving.manifest));
        self.installer.want(free);
    }

    /// Returns the warnings about what a function calls: hooks that are off, and functions that do not exist.
    pub(crate) fn call_warnings(&self, function: &FunctionName, manifest: &Manifest) -> Vec<Diagnostic> {
        let mut warnings: Vec<_> = self.hooks.problem(function).into_iter().collect();
        let alert = manifest.alert.as_ref().and_then(|alert| alert.call.as_ref());
        if alert == Some(function) {
            let message = "`alert.call` names the function itself, so nobody is told";
            warnings.push(Diagnostic::warning("alert-itself", message).with_help("name another function"));
        }
        let mut missing: Vec<_> = calls(manifest).chain(alert).collect();
        missing.sort_unstable();
        missing.dedup();
        for name in missing {
            if self.registry.get(name).is_none() {
                let message = format!("it calls `{name}`, and there is no such function");
                let help = "add the function, or correct `[hooks]` or `[alert]`; until then each call is recorded as `skipped-unknown`";
                warnings.push(Diagnostic::warning("no-such-function", message).with_help(help));
            }
        }
        warnings
    }
}

fn calls(manifest: &Manifest) -> impl Iterator<Item = &FunctionName> {
    manifest.hooks.all().map(|item| &item.call)
}
