//! The state of each function apart from its runs: its newest content as judged, and its versions.

use super::SourceFiles;
use super::function::{Findings, Function, Lasting};
use super::installed_version::{ServingVersion, SharedParts};
use super::manifest_rules::rules;
use crate::interned::packed;
use crate::run::Rules;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::Manifest;
use fnd_manifest::judge::Verdict;
use fnd_manifest::warning::Warning;
use fnd_wire::frame::{Installed, SET_ASIDE};
use fnd_wire::ids::{FunctionName, Version};
use fnd_wire::plan::{is_builder, is_own};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Every function by name.
#[derive(Debug, Default)]
pub struct Registry {
    /// Boxed, because the nodes of the map have room for twice as many values as there are.
    all: BTreeMap<FunctionName, Box<Function>>,
    /// Whether something has changed since [`Registry::take_changed`].
    changed: bool,
    /// Whether a function came or went, or a manifest or the interpreters of one have changed, since
    /// [`Registry::take_manifests_changed`].
    manifests_changed: bool,
    /// The functions whose old home was set aside. The status of the node names them, and must not walk over all functions.
    homes_set_aside: BTreeSet<FunctionName>,
    alike: SharedParts,
}

impl Registry {
    /// Returns a registry without functions; `real` finds the real path of an interpreter, or returns the path as it is.
    #[must_use]
    pub fn new(real: fn(&str) -> String) -> Self {
        Self {
            alike: SharedParts::new(real),
            ..Self::default()
        }
    }

    /// Returns a function; absent: its file was never judged, or is gone.
    #[must_use]
    pub fn get(&self, name: &FunctionName) -> Option<&Function> {
        self.all.get(name).map(|function| &**function)
    }

    /// Gives back the unused memory of the map. To be called when all functions of a scan are here.
    pub fn pack(&mut self) {
        self.all = packed(std::mem::take(&mut self.all));
    }

    /// Returns whether a function came or went, or a manifest or the interpreters of one have changed, since the last call. If
    /// not, the rules that follow from all manifests together are still valid: most changes are of code only.
    pub fn take_manifests_changed(&mut self) -> bool {
        std::mem::take(&mut self.manifests_changed)
    }

    /// Takes a function out to store it anew. Returns its manifests and interpreters, if it is known, and its versions: the newest
    /// one, the one before, and the canary.
    fn take(&mut self, name: &FunctionName) -> (Option<Lasting>, [Option<Box<ServingVersion>>; 3]) {
        let known = self.all.remove(name);
        let parts = known.map(|known| (Some(known.lasting()), [known.newest, known.before, known.canary]));
        parts.unwrap_or_default()
    }

    /// Stores a function. `before` are the manifests and interpreters of the function that it replaces; absent: it is new.
    fn put(&mut self, before: Option<Lasting>, function: Function) {
        self.changed = true;
        self.manifests_changed |= before.is_none_or(|before| before != function.lasting());
        let name = function.candidate.function.clone();
        self.all.insert(name.clone(), Box::new(function));
        self.find_set_aside(&name);
    }

    fn find_set_aside(&mut self, name: &FunctionName) {
        let warnings = self.get(name).map(|function| function.findings.diagnostics.as_slice());
        let mut warnings = warnings.unwrap_or_default().iter();
        if warnings.any(|warning| warning.kind() == Some(Warning::HomeSetAside)) {
            self.homes_set_aside.insert(name.clone());
        } else {
            self.homes_set_aside.remove(name);
        }
    }

    /// Returns the functions whose old home was set aside.
    pub fn homes_set_aside(&self) -> impl Iterator<Item = (&FunctionName, &Function)> {
        let all = self.homes_set_aside.iter();
        all.filter_map(|name| Some((name, self.get(name)?)))
    }

    /// Returns an installed version as it was judged; nothing if it was judged without a manifest.
    pub(super) fn version(
        &mut self,
        installed: (&Installed, Option<Version>),
        verdict: &Verdict,
    ) -> Option<ServingVersion> {
        ServingVersion::of(installed, verdict, &mut self.alike)
    }

    /// Returns the rules of a manifest on the node `host`.
    pub(super) fn rules(&mut self, manifest: &Manifest, host: &str) -> Arc<Rules> {
        self.alike.rules.share(rules(manifest, host))
    }

    /// Forgets the real paths of interpreters, which may have changed.
    pub fn forget_interpreters(&mut self) {
        self.alike.real_paths.clear();
    }

    /// Returns all functions, by name; not fnd's own.
    pub fn iter(&self) -> impl Iterator<Item = (&FunctionName, &Function)> {
        let all = self.all.iter().map(|(name, function)| (name, &**function));
        all.filter(|(name, _)| !is_own(name.as_str()))
    }

    /// Returns the functions of fnd's own that build, each with its newest version.
    pub fn builders(&self) -> Vec<(FunctionName, Option<Version>)> {
        let builders = self.all.iter().filter(|(name, _)| is_builder(name.as_str()));
        builders
            .map(|(name, function)| (name.clone(), function.newest.as_ref().map(|newest| newest.version)))
            .collect()
    }

    /// Returns the files of the functions that get one of these secrets, and of all refused functions: the lack of a secret may
    /// be why they are refused.
    #[must_use]
    pub fn with_secrets(&self, names: &BTreeSet<String>) -> Vec<SourceFiles> {
        let gets = |serving: &ServingVersion| serving.manifest.secrets.values().any(|one| names.contains(&one.secret));
        let functions = self.iter().map(|(_, function)| function);
        let affected = functions.filter(|function| function.findings.error.is_some() || function.versions().any(gets));
        affected.map(|function| function.candidate.clone()).collect()
    }

    /// Returns the interpreters that can run any of the functions.
    #[must_use]
    pub fn interpreters(&self) -> BTreeSet<&str> {
        let all = self.all.values().flat_map(|function| &*function.interpreters);
        all.map(String::as_str).collect()
    }

    /// Returns whether something has changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Forgets a function that is gone.
    pub fn remove(&mut self, name: &FunctionName) {
        self.changed = true;
        self.manifests_changed = true;
        self.all.remove(name);
        self.homes_set_aside.remove(name);
    }

    /// Stores an installed version with the tree of its dependencies; `serves` is the version that served until now.
    pub fn installed(
        &mut self,
        candidate: SourceFiles,
        (installed, tree): (&Installed, Option<Version>),
        verdict: Verdict,
        serves: Option<Version>,
    ) -> Option<&ServingVersion> {
        let interpreters = self.alike.interpreters.share(verdict.interpreters.clone());
        let mut diagnostics = verdict.diagnostics.clone();
        // The spawner warns of homes and of limits only.
        let warnings = installed.warnings.iter().cloned();
        diagnostics.extend(warnings.map(|problem| {
            let is_home = problem.message.contains(SET_ASIDE);
            let kind = if is_home {
                Warning::HomeSetAside
            } else {
                Warning::NotEnforced
            };
            let warning = Diagnostic::warning(kind, problem.message);
            warning.in_file(&problem.file).with_help(problem.help)
        }));
        let serving = Box::new(self.version((installed, tree), &verdict)?);
        let name = candidate.function.clone();
        let (lasting, [newest, before, canary]) = self.take(&name);
        // A canary that is promoted is the newest version from now on.
        let canary = canary.filter(|canary| canary.version != serving.version);
        let mut known = newest.into_iter().chain(before);
        // Of the earlier versions only the one that serves is kept: it goes on while the newest one is on trial.
        let before = known.find(|known| Some(known.version) == serves && known.version != serving.version);
        self.put(
            lasting,
            Function {
                candidate,
                newest: Some(serving),
                before,
                canary,
                interpreters,
                says_on_load: verdict.says_on_load,
                findings: Findings {
                    imports: verdict.imports,
                    source: verdict.source,
                    diagnostics,
                    ..Findings::default()
                }
                .into(),
            },
        );
        self.all.get(&name).and_then(|function| function.newest.as_deref())
    }

    /// Stores the version that gets a share of the calls, or that none does.
    pub fn set_canary(&mut self, name: &FunctionName, canary: Option<ServingVersion>) {
        if let Some(function) = self.all.get_mut(name) {
            self.changed = true;
            // A canary counts among the versions that run, so its secrets have to be read.
            self.manifests_changed = true;
            function.canary = canary.map(Box::new);
        }
    }

    /// Stores a version that was installed from its copy. The findings about the file stay: it has its own problems.
    pub fn installed_copy(
        &mut self,
        name: &FunctionName,
        installed: (&Installed, Option<Version>),
        verdict: Verdict,
        serves: Option<Version>,
    ) {
        // The findings about the file are copied first, because `installed` replaces them by those of the copy.
        let Some(file) = self.all.get(name).cloned() else {
            return;
        };
        self.installed(file.candidate.clone(), installed, verdict, serves);
        if let Some(function) = self.all.get_mut(name) {
            // The interpreters of the copy and of the file are kept: a change of any of them makes a new version.
            function.interpreters = both(&function.interpreters, &file.interpreters).into();
            let mut findings = Findings::clone(&file.findings);
            // An earlier copy could not be installed, and this one is.
            if std::mem::take(&mut findings.is_of_copy) {
                findings.error = None;
            }
            (function.says_on_load, function.findings) = (file.says_on_load, findings.into());
        }
        self.find_set_aside(name);
    }

    /// Stores why a copy that is to serve cannot be installed. Returns the error in one line; nothing if the function has another
    /// error, which stays.
    pub fn copy_refused(&mut self, name: &FunctionName, error: String) -> Option<String> {
        let function = self.all.get_mut(name)?;
        let mut findings = Findings::clone(&function.findings);
        if findings.error.is_some() {
            return None;
        }
        (findings.error, findings.is_of_copy) = (Some(error.clone()), true);
        function.findings = findings.into();
        self.changed = true;
        Some(error)
    }

    /// Stores the judged file of a function that may not serve now; the version that serves goes on. If the code could not be
    /// fetched, that error stays until the code is fetched: fnd tries again and again, and each try is no news. With `keeps_error`
    /// every error stays.
    pub fn waits(&mut self, candidate: SourceFiles, mut verdict: Verdict, keeps_error: bool) {
        let needs_fetch = verdict.to_fetch().is_some();
        let known = self.all.get(&candidate.function);
        let failed = known.filter(|known| {
            if keeps_error {
                known.findings.error.is_some()
            } else {
                needs_fetch && known.is_unfetched()
            }
        });
        let is_of_copy = failed.is_some_and(|known| known.findings.is_of_copy);
        let error = failed.and_then(|known| {
            // The diagnostics explain the error, so both of them stay together.
            verdict.diagnostics.clone_from(&known.findings.diagnostics);
            known.findings.error.clone()
        });
        let findings = Findings {
            imports: verdict.imports,
            source: verdict.source,
            diagnostics: verdict.diagnostics,
            error,
            is_of_copy,
        };
        self.put_file(candidate, &verdict.interpreters, verdict.says_on_load, findings);
    }

    /// Stores what is known of a file that does not serve; the versions of the function stay.
    fn put_file(&mut self, candidate: SourceFiles, interpreters: &[String], says_on_load: bool, findings: Findings) {
        let interpreters = self.with_running(interpreters, &candidate.function);
        let (lasting, [newest, before, canary]) = self.take(&candidate.function);
        self.put(
            lasting,
            Function {
                candidate,
                newest,
                before,
                canary,
                interpreters,
                says_on_load,
                findings: findings.into(),
            },
        );
    }

    /// Adds to the interpreters of a file that does not serve those by which the versions run: these follow theirs.
    fn with_running(&mut self, interpreters: &[String], name: &FunctionName) -> Arc<[String]> {
        let running = self.get(name).into_iter().flat_map(Function::versions);
        let running = running.map(|version| version.how.interpreter.clone());
        let running: Vec<_> = running.filter(|interpreter| !interpreter.is_empty()).collect();
        self.alike.interpreters.share(both(interpreters, &running))
    }

    /// Stores why a function's newest content cannot serve; the serving version goes on. Returns the error in one line.
    pub fn unusable(
        &mut self,
        candidate: SourceFiles,
        interpreters: &[String],
        diagnostics: Vec<Diagnostic>,
    ) -> String {
        let first = diagnostics.iter().find(|diagnostic| diagnostic.is_error());
        let error = first.map_or_else(|| "it was refused without a reason".to_owned(), Diagnostic::line);
        // The source is kept, so that its code is fetched again: another commit may be good.
        let known = self.all.get(&candidate.function);
        let findings = Findings {
            diagnostics,
            error: Some(error.clone()),
            source: known.and_then(|known| known.findings.source.clone()),
            ..Findings::default()
        };
        self.put_file(candidate, interpreters, false, findings);
        error
    }
}

/// Returns the interpreters of two contents; those of the first content come first.
fn both(first: &[String], second: &[String]) -> Vec<String> {
    let mut all = first.to_vec();
    second.iter().for_each(|other| {
        if !all.contains(other) {
            all.push(other.clone());
        }
    });
    all
}
