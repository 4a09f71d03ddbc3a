//! Makes the plan that checks the syntax of a function's code: that of a script of fnd's own, [`CHECK`](fnd_wire::plan::CHECK).
//! The code of handlers is not checked: it is loaded before it serves.

use super::build::Task;
use super::entry::base_name;
use super::{Judge, Judged};
use crate::function::BuildNetwork;
use crate::function::{Manifest, Mode};
use crate::runtime::{Phase, Runtime};
use crate::settings::keys::Build as Settings;
use fnd_wire::plan::{Build, CODE_MAX, INPUTS_MAX, JudgeFunction, JudgedFile};
use fnd_wire::units::{print_duration, print_size};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time of a check. An interpreter takes some milliseconds, but the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Memory of a check.
const MEMORY: u64 = 256 << 20;

/// The check of a function.
pub(super) struct ToCheck<'a> {
    runtime: &'a Runtime,
    phase: &'a Phase,
    entry: &'a JudgedFile,
}

impl Judge {
    /// Returns what there is to check of a function; nothing if its code cannot be checked without running it.
    pub(super) fn to_check<'a>(&'a self, function: &'a JudgeFunction, manifest: &Manifest) -> Option<ToCheck<'a>> {
        let runtime = self
            .runtimes
            .iter()
            .find(|runtime| runtime.summary.id == manifest.runtime)?;
        let phase = runtime.check.as_ref()?;
        // With a command of its own, another program may read the file.
        let has_command = manifest
            .service
            .as_ref()
            .is_some_and(|service| !service.command.is_empty())
            || manifest
                .http_server
                .as_ref()
                .is_some_and(|server| !server.command.is_empty());
        if !manifest.release.check || manifest.mode == Mode::Handler || has_command {
            return None;
        }
        let is_entry = |file: &&JudgedFile| match function.form.is_tree() {
            true => file.path == manifest.entry,
            false => base_name(&file.path) == manifest.entry,
        };
        let entry = function.files.iter().find(is_entry)?;
        let bytes = &entry.bytes.0;
        // A larger file is here only in part. A shell reads line by line, so data may follow after `exit`.
        let is_whole = !bytes.is_empty() && bytes.len() < CODE_MAX;
        let has_data = runtime.unix_text && bytes.contains(&0);
        (is_whole && !has_data).then_some(ToCheck { runtime, phase, entry })
    }

    /// Returns the build that checks a function's code; nothing if there is nothing to check.
    pub(super) fn check(&self, function: &JudgeFunction, judged: &Judged) -> Option<Build> {
        let (manifest, plan) = judged.verdict.manifest.as_ref().zip(judged.plan.as_ref())?;
        let ToCheck { runtime, phase, entry } = self.to_check(function, manifest)?;
        // Node reads a file by what `package.json` says.
        let lists = &runtime.dependencies.files;
        let is_input = |file: &&JudgedFile| lists.iter().any(|list| list == base_name(&file.path));
        let inputs = function
            .files
            .iter()
            .filter(|_| function.form.is_tree())
            .filter(is_input);
        let task = Task {
            description: "Checks the syntax of functions",
            made: entry.bytes.0.clone(),
            inputs: inputs.take(INPUTS_MAX).map(|file| file.path.clone()).collect(),
            phase,
            arguments: Vec::new(),
            secrets: Vec::new(),
            env: BTreeMap::new(),
            network: BuildNetwork::None,
            shown: None,
            fresh_for: None,
            is_check: true,
        };
        let mut build = self.build(task, runtime, Some(plan))?;
        build.made.0.clone_from(&manifest.entry);
        build.plan.entry.clone_from(&manifest.entry);
        Some(build)
    }
}

/// Returns the manifest of a check whose file has this name.
pub(super) fn manifest(description: &str, made: &str, runtime: &Runtime, settings: &Settings) -> String {
    format!(
        "description = \"{description}\"\nruntime = \"{}\"\nmode = \"script\"\non_load = false\nentry = \"{made}\"\n\
         [limits]\ntimeout = \"{}\"\nmemory = \"{}\"\nhome = \"none\"\ncache = \"none\"\n\
         [retry]\nretries = 0\n[pool]\nmax = 1\n[sandbox]\nprofile = \"strict\"\n",
        runtime.summary.id,
        print_duration(settings.timeout.min(TIMEOUT)),
        print_size(settings.memory.min(MEMORY).max(runtime.memory_floor)),
    )
}
