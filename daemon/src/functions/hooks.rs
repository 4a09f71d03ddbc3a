//! The hooks of functions: which functions call which, and the functions that are refused because they would close a
//! cycle.

use super::Functions;
use super::registry::Function;
use crate::report::problems::ReportedProblem;
use fnd_core::lifecycle::SourceFiles;
use fnd_core::triggers::hooks::graph::{Graph, spelled};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::{Manifest, calls as called};
use fnd_manifest::warning::Warning;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeMap;

/// The hooks of all functions.
#[derive(Debug, Default)]
pub(crate) struct FunctionHooks {
    graph: Graph,
    /// Functions whose newest version would close a cycle.
    refused: BTreeMap<FunctionName, SourceFiles>,
}

impl FunctionHooks {
    /// Returns why the hooks of a function cannot be, if they would close a cycle. It is installed again when a call of
    /// another function is gone. `has_earlier` says that a version of it serves, which then goes on.
    pub(super) fn conflict(
        &mut self,
        candidate: &SourceFiles,
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
    ) -> Vec<SourceFiles> {
        let was_off = self.graph.is_off(function);
        if self.graph.set(function, versions.into_iter().flat_map(calls)) {
            return std::mem::take(&mut self.refused).into_values().collect();
        }
        // People are told once, and not at each installation of a function of the cycle.
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
            "the hooks of `{function}` are off, because they are part of a cycle: {}",
            spelled(&cycle)
        );
        Some(Diagnostic::warning(Warning::HookCycle, message).with_help("remove one of the calls from `[hooks]`"))
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
        self.installer.enqueue(free);
    }

    /// Returns the warnings about what a function calls: hooks that are off, and functions that do not exist.
    pub(crate) fn call_warnings(&self, function: &FunctionName, manifest: &Manifest) -> Vec<Diagnostic> {
        let exists = |name: &FunctionName| self.registry.get(name).is_some();
        let off = self.hooks.problem(function).into_iter();
        off.chain(called::to_nobody(function, manifest, exists)).collect()
    }

    /// Finds the functions whose calls reach nobody: to be called when a manifest has changed, or a function came or went.
    pub(crate) fn find_calls(&mut self) {
        let newest = |(name, function): (&FunctionName, &Function)| {
            let warnings = self.call_warnings(name, &function.newest.as_ref()?.manifest);
            (!warnings.is_empty()).then(|| (name.clone(), warnings))
        };
        self.to_nobody = self.registry.iter().filter_map(newest).collect();
    }

    /// Returns the problems of calls that reach nobody. `node` is the function that `[alert]` of fnd.toml calls.
    pub(crate) fn call_problems(&self, node: Option<&FunctionName>) -> impl Iterator<Item = ReportedProblem> {
        let missing = node.filter(|name| self.registry.get(name).is_none());
        let of_node = missing.map(|name| (String::new(), called::node_to_nobody(name)));
        let each = self.to_nobody.iter();
        let each = each.flat_map(|(name, warnings)| warnings.iter().map(|one| (name.to_string(), one.clone())));
        of_node.into_iter().chain(each).filter_map(|(about, warning)| {
            let code = warning.kind()?.as_str();
            Some(ReportedProblem::about(
                code,
                format!("{about} {}", warning.message),
                warning.text(),
            ))
        })
    }
}

fn calls(manifest: &Manifest) -> impl Iterator<Item = &FunctionName> {
    manifest.hooks.all().map(|item| &item.call)
}
