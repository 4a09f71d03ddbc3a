//! The state of each function apart from its runs: its newest content as judged, and the version that serves.

use crate::functions::rules::rules;
use fnd_core::interned::{Recent, packed};
use fnd_core::lifecycle::SourceFiles;
use fnd_core::supervisor::Rules;
use fnd_manifest::diagnostic::{Diagnostic, Severity};
use fnd_manifest::function::Manifest;
use fnd_manifest::judge::{SourceOrigin, Verdict};
use fnd_manifest::warning::{Warning, WarningPlaces};
use fnd_wire::frame::{Installed, Problem, Refused, SET_ASIDE};
use fnd_wire::ids::{FunctionId, FunctionName, Version};
use fnd_wire::plan::{is_builder, is_own};
use fnd_wire::units;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

/// The code of the problem that a function's code could not be fetched.
pub(super) const UNFETCHED: &str = "source";

#[derive(Debug, Clone)]
pub struct ServingVersion {
    /// The spawner's number for it.
    pub id: FunctionId,
    pub version: Version,
    /// The key that decides "once per content".
    pub load_key: Version,
    /// Its manifest without `entry`, so that functions whose manifests are otherwise the same share one.
    pub manifest: Arc<Manifest>,
    /// `entry` of its manifest.
    entry: Box<str>,
    pub how: Arc<How>,
    /// The uid it runs as.
    pub uid: u32,
    /// The tree of its dependencies, if it has one.
    pub tree: Option<Box<Version>>,
}

/// How a version runs, for people. Most functions of a runtime run alike.
#[derive(Debug, PartialEq, Eq)]
pub struct How {
    /// Why it runs in its mode.
    pub mode_reason: String,
    /// The runtime: `python 3.11`.
    pub runtime: String,
    /// The path of the interpreter, as it is started; empty where the entry is executed itself.
    pub interpreter: String,
}

impl ServingVersion {
    /// Returns an installed version as it was judged; nothing if it was judged without a manifest. Parts that many
    /// functions have alike are in `alike`.
    #[must_use]
    fn of(installed: &Installed, verdict: &Verdict, alike: &mut SharedParts) -> Option<Self> {
        let mut manifest = verdict.manifest.clone()?;
        let entry = std::mem::take(&mut manifest.entry).into();
        let version = verdict.runtime_version.clone();
        // The name of the real file, such as `python3.11`, tells the version without starting the interpreter.
        let version = version.or_else(|| version_in(alike.real(&installed.interpreter)));
        let runtime = match version {
            Some(version) => format!("{} {version}", manifest.runtime),
            None => manifest.runtime.clone(),
        };
        Some(Self {
            id: installed.id,
            version: installed.version,
            load_key: installed.load_key,
            manifest: alike.manifests.share(manifest),
            entry,
            how: alike.how.share(How {
                mode_reason: verdict.mode_reason.clone(),
                runtime,
                interpreter: installed.interpreter.clone(),
            }),
            uid: installed.uid,
            tree: None,
        })
    }

    /// Returns its manifest as it was judged.
    #[must_use]
    pub fn whole_manifest(&self) -> Manifest {
        Manifest {
            entry: self.entry.to_string(),
            ..Manifest::clone(&self.manifest)
        }
    }
}

/// The values that many functions have alike, stored once: of ten thousand functions most have the same rules.
#[derive(Debug, Default)]
struct SharedParts {
    manifests: Recent<Manifest>,
    how: Recent<How>,
    interpreters: Recent<[String]>,
    rules: Recent<Rules>,
    /// The real paths of interpreters, until these are looked at again: ten thousand functions have a handful.
    real_paths: BTreeMap<String, String>,
}

impl SharedParts {
    /// Returns the real path of an interpreter.
    fn real(&mut self, interpreter: &str) -> &str {
        let known = self.real_paths.entry(interpreter.to_owned());
        known.or_insert_with(|| real(interpreter))
    }
}

#[derive(Debug, Clone)]
pub struct Function {
    /// Its place in the functions directories.
    pub candidate: SourceFiles,
    /// The newest version that was installed, if any. It serves, unless it is on trial first.
    pub newest: Option<Box<ServingVersion>>,
    /// The version that served before the newest one; it still serves while the newest one is on trial.
    pub before: Option<Box<ServingVersion>>,
    /// The version that gets a share of the calls.
    pub canary: Option<Box<ServingVersion>>,
    /// The interpreters that can run the newest content, in order of choice.
    pub interpreters: Arc<[String]>,
    /// Whether its own manifest says whether it runs by itself.
    pub says_on_load: bool,
    /// The other findings about the newest content.
    pub findings: BoxedFindings,
}

/// The findings about a function's newest content, besides its manifest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The modules that it imports, if it is a Python file.
    pub imports: Vec<String>,
    /// Where it comes from, if its manifest has a source.
    pub source: Option<SourceOrigin>,
    /// Its problems and warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// Why it does not serve, in one line.
    pub error: Option<String>,
}

/// [`Findings`] that take no memory where there are none, as is so for most functions.
#[derive(Debug, Clone, Default)]
pub struct BoxedFindings(Option<Box<Findings>>);

impl From<Findings> for BoxedFindings {
    fn from(findings: Findings) -> Self {
        Self((findings != Findings::default()).then(|| Box::new(findings)))
    }
}

impl Deref for BoxedFindings {
    type Target = Findings;

    fn deref(&self) -> &Findings {
        static NOTHING: Findings = Findings {
            imports: Vec::new(),
            source: None,
            diagnostics: Vec::new(),
            error: None,
        };
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl Function {
    /// Says whether its newest content does not serve because it could not be fetched.
    #[must_use]
    pub fn is_unfetched(&self) -> bool {
        self.findings
            .diagnostics
            .first()
            .is_some_and(|problem| problem.code == UNFETCHED)
    }

    /// Returns the version that serves; `version` is the one that the supervisor names.
    #[must_use]
    pub fn serving(&self, version: Option<Version>) -> Option<&ServingVersion> {
        let older = self.before.iter().chain(&self.canary);
        let mut serving = older.filter(|older| Some(older.version) == version);
        serving.next().or(self.newest.as_ref()).map(|serving| &**serving)
    }

    /// Returns what an edit of the code leaves as it is.
    fn lasting(&self) -> Lasting {
        let manifests = self.versions().map(|version| Arc::clone(&version.manifest));
        let mut manifests: Vec<_> = manifests.collect();
        // The version before often has the same one.
        manifests.dedup();
        (manifests, Arc::clone(&self.interpreters))
    }

    /// Returns the versions that run or may run: the newest first.
    pub fn versions(&self) -> impl Iterator<Item = &ServingVersion> {
        let versions = self.newest.iter().chain(&self.before).chain(&self.canary);
        versions.map(|serving| &**serving)
    }

    /// Returns the warnings of the newest content, as its status shows them: some in full, of others their number.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let shown = |wanted| {
            let is_wanted = move |one: &&Diagnostic| one.kind().is_some_and(|kind| kind.shown() == wanted);
            self.findings.diagnostics.iter().filter(is_wanted)
        };
        let counted = Some(shown(WarningPlaces::Counted).count()).filter(|count| *count > 0);
        let counted = counted.map(|count| {
            let settings = units::counted(count, "setting has", "settings have");
            let name = &self.candidate.function;
            format!("{settings} another meaning here, or none (`fndctl show {name}` says which)")
        });
        shown(WarningPlaces::Function).map(Diagnostic::line).chain(counted)
    }
}

/// The parts of a function that decide about more than itself: retention, secrets, interpreters to watch.
type Lasting = (Vec<Arc<Manifest>>, Arc<[String]>);

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
    alike: SharedParts,
}

impl Registry {
    #[must_use]
    pub fn get(&self, name: &FunctionName) -> Option<&Function> {
        self.all.get(name).map(|function| &**function)
    }

    /// Gives back the room for more functions. To be called when all functions of a scan are here.
    pub fn pack(&mut self) {
        self.all = packed(std::mem::take(&mut self.all));
    }

    /// Returns whether a function came or went, or a manifest or the interpreters of one have changed, since the last call.
    /// As long as not, what follows from all manifests together is as before: most changes are only of code.
    pub fn take_manifests_changed(&mut self) -> bool {
        std::mem::take(&mut self.manifests_changed)
    }

    /// Stores a function in place of one that had this.
    fn put(&mut self, before: Option<Lasting>, function: Function) {
        self.changed = true;
        self.manifests_changed |= before.is_none_or(|before| before != function.lasting());
        self.all.insert(function.candidate.function.clone(), Box::new(function));
    }

    /// Returns an installed version as it was judged; nothing if it was judged without a manifest.
    pub(super) fn version(&mut self, installed: &Installed, verdict: &Verdict) -> Option<ServingVersion> {
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

    /// Returns the functions that get one of these secrets; also those that are refused: perhaps for the lack of it.
    #[must_use]
    pub fn with_secrets(&self, names: &BTreeSet<String>) -> Vec<SourceFiles> {
        let gets = |serving: &ServingVersion| serving.manifest.secrets.values().any(|one| names.contains(&one.secret));
        let functions = self.iter().map(|(_, function)| function);
        let affected = functions
            .filter(|function| function.findings.error.is_some() || function.newest.as_deref().is_some_and(gets));
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

    pub fn remove(&mut self, name: &FunctionName) {
        self.changed = true;
        self.manifests_changed = true;
        self.all.remove(name);
    }

    /// Stores an installed version; `serves` is the version that served until now.
    pub fn installed(
        &mut self,
        candidate: SourceFiles,
        installed: &Installed,
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
        let serving = Box::new(self.version(installed, &verdict)?);
        let name = candidate.function.clone();
        let known = self.all.remove(&name);
        let lasting = known.as_deref().map(Function::lasting);
        let (known, canary) = known
            .map(|function| ([function.newest, function.before], function.canary))
            .unwrap_or_default();
        // A canary that is promoted is the newest version from now on.
        let canary = canary.filter(|canary| canary.version != serving.version);
        let mut known = known.into_iter().flatten();
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
                    error: None,
                }
                .into(),
            },
        );
        self.all.get(&name).and_then(|function| function.newest.as_deref())
    }

    /// Stores the tree of a version of a function.
    pub fn has_tree(&mut self, name: &FunctionName, version: Version, tree: Option<Version>) {
        let function = self.all.get_mut(name);
        let versions = function.map(|function| [&mut function.newest, &mut function.canary]);
        let mut versions = versions.into_iter().flatten().flatten();
        if let Some(serving) = versions.find(|serving| serving.version == version) {
            serving.tree = tree.map(Box::new);
        }
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

    /// Stores a version that was installed from its copy. What is known of the file stays: it has its own problems.
    pub fn installed_copy(
        &mut self,
        name: &FunctionName,
        installed: &Installed,
        verdict: Verdict,
        serves: Option<Version>,
    ) {
        // The findings about the file are copied first, because `installed` replaces them by those of the copy.
        let Some(file) = self.all.get(name).cloned() else {
            return;
        };
        self.installed(file.candidate.clone(), installed, verdict, serves);
        if let Some(function) = self.all.get_mut(name) {
            // Of both: a change of either makes a new version.
            let known = &function.interpreters;
            let others = file.interpreters.iter().filter(|other| !known.contains(other));
            function.interpreters = known.iter().chain(others).cloned().collect();
            (function.says_on_load, function.findings) = (file.says_on_load, file.findings);
        }
    }

    /// Stores why a copy that is to serve cannot be installed. Returns the error in one line, if there is no other one.
    pub fn copy_refused(&mut self, name: &FunctionName, error: String) -> Option<String> {
        let function = self.all.get_mut(name)?;
        let mut findings = Findings::clone(&function.findings);
        if findings.error.is_some() {
            return None;
        }
        findings.error = Some(error.clone());
        function.findings = findings.into();
        self.changed = true;
        Some(error)
    }

    /// Stores the file of a function whose version may not serve now; the serving version goes on. Why its code could not be
    /// fetched stays until it is fetched: it is tried again and again, which is no news.
    pub fn waits(&mut self, candidate: SourceFiles, verdict: Verdict) {
        let is_fetched = verdict.to_fetch().is_some();
        self.waits_with(candidate, verdict, |known| is_fetched && known.is_unfetched());
    }

    /// The same for code that is fetched again only because it was time: every error stays until that is over.
    pub fn waits_as_before(&mut self, candidate: SourceFiles, verdict: Verdict) {
        self.waits_with(candidate, verdict, |known| known.findings.error.is_some());
    }

    fn waits_with(
        &mut self,
        candidate: SourceFiles,
        mut verdict: Verdict,
        keeps_error: impl FnOnce(&Function) -> bool,
    ) {
        let interpreters = self.alike.interpreters.share(std::mem::take(&mut verdict.interpreters));
        let known = self.all.remove(&candidate.function);
        let lasting = known.as_deref().map(Function::lasting);
        let failed = known.as_ref().filter(|known| keeps_error(known));
        let error = failed.and_then(|known| {
            // The diagnostics explain the error, so both of them stay together.
            verdict.diagnostics.clone_from(&known.findings.diagnostics);
            known.findings.error.clone()
        });
        let (newest, before, canary) = known
            .map(|known| (known.newest, known.before, known.canary))
            .unwrap_or_default();
        self.put(
            lasting,
            Function {
                candidate,
                newest,
                before,
                canary,
                interpreters,
                says_on_load: verdict.says_on_load,
                findings: Findings {
                    imports: verdict.imports,
                    source: verdict.source,
                    diagnostics: verdict.diagnostics,
                    error,
                }
                .into(),
            },
        );
    }

    /// Stores a refusal; the serving version goes on. Returns the error in one line.
    pub fn refused(&mut self, candidate: SourceFiles, refused: Refused, verdict: Option<Verdict>) -> String {
        let (judged, interpreters) = verdict
            .map(|verdict| (verdict.diagnostics, verdict.interpreters))
            .unwrap_or_default();
        let found = refused.problems.into_iter().map(diagnostic);
        self.unusable(candidate, interpreters, found.chain(judged).collect())
    }

    /// Stores why a function's newest content cannot serve; the serving version goes on. Returns the error in one line.
    pub fn unusable(
        &mut self,
        candidate: SourceFiles,
        interpreters: Vec<String>,
        diagnostics: Vec<Diagnostic>,
    ) -> String {
        let first = diagnostics.iter().find(|diagnostic| diagnostic.is_error());
        let error = first.map_or_else(|| "it was refused without a reason".to_owned(), Diagnostic::line);
        let known = self.all.remove(&candidate.function);
        let lasting = known.as_deref().map(Function::lasting);
        // Its code is asked for again: another commit may be good.
        let source = known.as_ref().and_then(|known| known.findings.source.clone());
        let (newest, before, canary) = known
            .map(|known| (known.newest, known.before, known.canary))
            .unwrap_or_default();
        let error_line = Some(error.clone());
        let interpreters = self.alike.interpreters.share(interpreters);
        self.put(
            lasting,
            Function {
                candidate,
                newest,
                before,
                canary,
                interpreters,
                says_on_load: false,
                findings: Findings {
                    diagnostics,
                    error: error_line,
                    source,
                    ..Findings::default()
                }
                .into(),
            },
        );
        error
    }
}

/// Converts a problem of the spawner to a diagnostic like the judge's.
pub(crate) fn diagnostic(problem: Problem) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        code: "file".into(),
        file: Some(problem.file),
        place: None,
        message: problem.message,
        help: Some(problem.help).filter(|help| !help.is_empty()),
        notes: Vec::new(),
    }
}

/// Returns the real path of an interpreter. Where fnd may not see the interpreter, the given path has to do.
fn real(interpreter: &str) -> String {
    std::fs::canonicalize(interpreter).map_or_else(|_| interpreter.to_owned(), |path| path.display().to_string())
}

/// Returns the version in the name of an interpreter's real file: `3.11` of `/usr/bin/python3.11`.
fn version_in(interpreter: &str) -> Option<String> {
    let name = interpreter.rsplit('/').next()?;
    let version = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let is_version = version.contains('.') && version.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_version.then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_shows_its_version_by_its_name() {
        assert_eq!(version_in("/usr/bin/python3.11").as_deref(), Some("3.11"));
        assert_eq!(version_in("/usr/bin/bash"), None);
        assert_eq!(version_in("/usr/bin/python3"), None);
        assert_eq!(version_in(""), None);
    }
}
