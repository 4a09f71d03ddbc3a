//! The hooks of functions: which functions call which, and which functions are refused because they would close a cycle.

use super::SourceFiles;
use super::order::Order;
use crate::report::FunctionNews;
use crate::triggers::hooks::graph::{Graph, spelled};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::Manifest;
use fnd_manifest::warning::Warning;
use fnd_wire::ids::FunctionName;
use std::collections::BTreeMap;

/// The hooks of all functions.
#[derive(Debug, Default)]
pub(super) struct FunctionHooks {
    pub(super) graph: Graph,
    /// Functions whose newest version would close a cycle.
    refused: BTreeMap<FunctionName, SourceFiles>,
}

impl FunctionHooks {
    /// Returns the problem if the hooks of a function would close a cycle. The function is installed again when another function
    /// loses a call. `has_earlier` says that an earlier version of the function is installed, which goes on.
    pub(super) fn conflict(
        &mut self,
        candidate: &SourceFiles,
        manifest: &Manifest,
        has_earlier: bool,
    ) -> Option<Diagnostic> {
        let name = &candidate.function;
        self.refused.remove(name);
        // Without an earlier version, or if the earlier version is on a cycle as well, the function is accepted, and the hooks of
        // all functions on the cycle are off.
        if !has_earlier || self.graph.is_off(name) {
            return None;
        }
        let cycle = self.graph.closes(name, calls(manifest))?;
        self.refused.insert(name.clone(), candidate.clone());
        let message = format!("its hooks would close a cycle: {}", spelled(&cycle));
        Some(Diagnostic::error("hook-cycle", message).with_help("remove one of the calls from `[hooks]`"))
    }

    /// Replaces the calls of a function by those of its versions that can serve. If a call is gone, returns the functions that
    /// were refused for a cycle, to install them again.
    pub(super) fn set<'a>(
        &mut self,
        function: &FunctionName,
        versions: impl IntoIterator<Item = &'a Manifest>,
        out: &mut Vec<Order>,
    ) -> Vec<SourceFiles> {
        let was_off = self.graph.is_off(function);
        if self.graph.set(function, versions.into_iter().flat_map(calls)) {
            return std::mem::take(&mut self.refused).into_values().collect();
        }
        // People are told once, and not at each installation of a function of the cycle.
        if !was_off && let Some(problem) = self.problem(function) {
            let warning = FunctionNews::Warning(problem.text());
            out.push(Order::News(function.clone(), warning));
        }
        Vec::new()
    }

    /// Returns why the hooks of a function are off, if they are.
    pub(super) fn problem(&self, function: &FunctionName) -> Option<Diagnostic> {
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

fn calls(manifest: &Manifest) -> impl Iterator<Item = &FunctionName> {
    manifest.hooks.all().map(|item| &item.call)
}
