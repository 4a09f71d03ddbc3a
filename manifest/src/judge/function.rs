//! Judges one function.

use super::choose::Choice;
use super::entry::{is_bootstrap, path_in, shown, two_manifests};
use super::input::read_input;
use super::sibling_files::read_schemas;
use super::source::push_route;
use super::{Judge, Verdict, command, is_trusted};
use crate::diagnostic::Diagnostic;
use crate::function::keys::SCHEMA;
use crate::function::{Listen, Manifest, Mode, detect, inline};
use crate::resolve::{FunctionProblems, ResolvedSubject, manifest, without_runtime};
use crate::schema::read::read;
use crate::schema::source::Source;
use crate::schema::tree::{TomlTable, find};
use fnd_wire::plan::{
    CodeLayout, JudgeFunction, JudgedFile, Limits, Plan, PlanText, PlannedBuild, RunMode, User, with_capabilities,
};
use std::time::Duration;

/// The result of judging a function.
#[derive(Debug)]
pub struct Judged {
    /// The plan for the spawner; absent if the function is refused.
    pub plan: Option<Plan>,
    /// The verdict for fnd and people.
    pub verdict: Verdict,
    /// How its dependencies are installed; absent if there are none.
    pub build: Option<PlannedBuild>,
}

impl Judge {
    /// Judges a function with a manifest of fnd's own.
    pub(super) fn own(&self, function: &JudgeFunction, is_stored: bool) -> Judged {
        let mut early: Vec<Diagnostic> = two_manifests(function).into_iter().collect();
        let sidecar = function
            .manifest
            .as_ref()
            .and_then(|file| keep(Source::whole(&file.path, &file.bytes.0), &mut early));
        // In `sources` below, the manifest follows the files of the configuration.
        let number = self.configuration.sources.len();
        // The entry is needed to find the inline block, and the manifest may name the entry.
        let (own, problems) = sidecar
            .as_ref()
            .map(|source| read(source, number, SCHEMA))
            .unwrap_or_default();
        early.extend(problems);
        // The code of a source is not there before it is fetched.
        let is_here = !own.contains_key("source") || function.form == CodeLayout::Source;
        let entry = is_here
            .then(|| self.entry(function, &own, sidecar.as_ref(), &mut early))
            .flatten();
        let block = entry.and_then(|file| keep(inline::block(&shown(function, file), &file.bytes.0), &mut early)?);
        let (own, source) = match (block, sidecar) {
            (Some(block), Some(sidecar)) => {
                let message = format!("the file has a `/// fnd` block, but there is also `{}`", sidecar.file);
                let problem = Diagnostic::error("two-manifests", message).in_file(&block.file);
                early.push(problem.with_help("remove one of the two"));
                (own, Some(sidecar))
            }
            (Some(block), None) => {
                let (own, problems) = read(&block, number, SCHEMA);
                early.extend(problems);
                (own, Some(block))
            }
            (None, sidecar) => (own, sidecar),
        };
        let sources: Vec<&Source> = self.configuration.sources.iter().chain(&source).collect();
        let mut report = FunctionProblems {
            sources: &sources,
            problems: early,
            is_stored,
        };
        let source = self.source(function, &own, &mut report);
        let trusted = is_trusted(function);
        let push = push_route(function, &own, trusted, &mut report);
        let (origin, fetched) = source.map_or((None, None), |(origin, build)| (Some(origin), build));
        let decided = entry.and_then(|entry| self.decide(function, entry, &own, &mut report));
        if decided.is_none() {
            without_runtime(&own, &self.configuration, &mut report);
        }
        if let CodeLayout::Archive(archive) = &function.form {
            for problem in &mut report.problems {
                // A problem of the whole function names no file; people know only the archive.
                problem.file.get_or_insert_with(|| archive.clone());
            }
        }
        let refused = report.refused();
        let compiled = decided.as_ref().is_some_and(|decided| decided.compiled);
        let (mode_reason, versions, manifest, plan, build) = match decided {
            Some(mut decided) => {
                decided.manifest.http.extend(push);
                let (plan, manifest) = (Some(decided.plan), Some(decided.manifest));
                (decided.mode_reason, decided.versions, manifest, plan, decided.build)
            }
            None => (String::new(), (None, None), None, None, None),
        };
        let id = manifest.as_ref().map(|manifest: &Manifest| manifest.runtime.as_str());
        // In a directory with a manifest the files belong together. Only files that are functions of their own can be
        // the parts of a project that somebody copied.
        let code = entry.filter(|_| !function.form.is_tree()).zip(id);
        let imports = code.map(|(file, runtime)| detect::imports(runtime, &file.bytes.0));
        let interpreters = plan.as_ref().map(|plan| plan.interpreters.clone());
        let checkable = manifest
            .as_ref()
            .is_some_and(|manifest| self.to_check(function, manifest).is_some());
        Judged {
            plan: plan.filter(|_| !refused),
            build: build.or(fetched).filter(|_| !refused),
            verdict: Verdict {
                function: function.name.clone(),
                manifest: manifest.filter(|_| !refused),
                mode_reason,
                runtime_version: versions.0,
                unchecked_version: versions.1,
                interpreters: interpreters.unwrap_or_default(),
                imports: imports.unwrap_or_default(),
                source: origin,
                compiled,
                checkable,
                checked: None,
                says_on_load: own.contains_key("on_load"),
                trusted,
                diagnostics: report.problems,
            },
        }
    }

    /// Checks a manifest whose code is not known. Problems that depend on the runtime are not reported.
    #[must_use]
    pub fn manifest(&self, file: &str, bytes: &[u8]) -> Vec<Diagnostic> {
        let source = match Source::whole(file, bytes) {
            Ok(source) => source,
            Err(problem) => return vec![*problem],
        };
        let (own, problems) = read(&source, self.configuration.sources.len(), SCHEMA);
        let sources: Vec<&Source> = self.configuration.sources.iter().chain([&source]).collect();
        let mut report = FunctionProblems {
            sources: &sources,
            problems,
            is_stored: false,
        };
        without_runtime(&own, &self.configuration, &mut report);
        report.problems
    }

    fn decide(
        &self,
        function: &JudgeFunction,
        entry: &JudgedFile,
        own: &TomlTable,
        report: &mut FunctionProblems<'_>,
    ) -> Option<Decided> {
        // The file's path is the one that people know.
        let file = JudgedFile {
            path: shown(function, entry),
            ..entry.clone()
        };
        // Before the first `?`, so that its problems are reported together with those that end the function here.
        let trusted = is_trusted(function);
        let env_file = self.env_file(function, own, report);
        let mut choice = self.choose(own, (&file, is_bootstrap(function, entry)), report)?;
        report.problems.extend(self.looks_like_a_group(function));
        // Where the runtime installs packages, the block of PEP 723 is read as their list.
        if choice.runtime.build().is_none() && own.is_empty() && function.manifest.is_none() {
            let warning = inline::script_metadata(&file.path, &file.bytes.0);
            report.problems.extend(warning);
        }
        let dependencies = self.dependencies(function, (&file, choice.runtime), own, report);
        let (mode, mode_reason, phase) = self.mode(own, &choice, &file, report)?;
        let serves = mode == Mode::Http && choice.runtime.serve.as_ref() == Some(phase);
        choice.only(&phase.names, &file, report);
        command::refuse_permissions(&mut choice, own, &file.path, report);
        let subject = ResolvedSubject {
            mode,
            serves,
            runtime: choice.runtime,
            path: &file.path,
            entry: path_in(function, entry).to_owned(),
            env_file,
            trusted,
        };
        let mut manifest = manifest(own, &self.configuration, subject, report);
        read_schemas(&mut manifest, function, own, report);
        read_input(&mut manifest, function, (own, &self.configuration.defaults), report);
        if let Some(name) = manifest.build.secrets.first().filter(|_| !trusted) {
            let message = format!("only functions whose code and manifest belong to root may name a secret (`{name}`)");
            let at = find(own, "build.secrets").map(|node| &node.at);
            report.error(
                at,
                "not-trusted",
                message,
                "let root own the files (`chown root:root`; for an upload, ask root)",
            );
        }
        let dependencies = match choice.runtime.compile {
            Some(_) => {
                let packages = dependencies.unwrap_or_default();
                Some(packages.with_program(function, &manifest, report))
            }
            None => dependencies,
        };
        let phase = &command::with_dependencies(phase, choice.runtime, dependencies.as_ref());
        let argv = command::arguments(&choice, phase, &manifest);
        let environment = command::environment(&choice, phase, &manifest, dependencies.is_some());
        let mut plan = plan(function, &choice, &manifest, (argv, environment));
        for (path, command) in manifest.commands() {
            if let (Some(node), Some(command)) = (find(own, path), command) {
                command::replace(&mut plan, (path, command), function, (node, report));
            }
        }
        let build = dependencies.and_then(|mut dependencies| {
            // Known only now: the key may come from `[defaults]`, which the manifest has resolved.
            dependencies.system_packages = manifest.build.system_packages;
            self.dependencies_build(&dependencies, (choice.runtime, &manifest.build, trusted), &plan)
        });
        Some(Decided {
            mode_reason,
            compiled: choice.runtime.compile.is_some(),
            versions: (choice.version, choice.unchecked),
            manifest,
            plan,
            build,
        })
    }
}

struct Decided {
    mode_reason: String,
    /// Whether its build compiles it.
    compiled: bool,
    /// The version that is asked for, and the one that cannot be checked.
    versions: (Option<String>, Option<String>),
    manifest: Manifest,
    plan: Plan,
    build: Option<PlannedBuild>,
}

fn keep<T>(found: Result<T, Box<Diagnostic>>, problems: &mut Vec<Diagnostic>) -> Option<T> {
    found.map_err(|problem| problems.push(*problem)).ok()
}

/// Command line and environment.
type Lines = (Vec<PlanText>, Vec<(String, PlanText)>);

fn plan(function: &JudgeFunction, choice: &Choice<'_>, manifest: &Manifest, (argv, environment): Lines) -> Plan {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let limits = &manifest.limits;
    // The watcher of its files is a process beside its own.
    let watchers = u32::from(!manifest.file.is_empty());
    // Such a program reports its port on descriptor 3.
    let is_told = manifest
        .http_server
        .as_ref()
        .is_some_and(|server| server.listen == Listen::Told);
    Plan {
        function: function.name.clone(),
        mode: match manifest.mode {
            Mode::Handler => RunMode::Handler(choice.runtime.shim.clone().unwrap_or_default()),
            Mode::Http if is_told => RunMode::Handler(choice.runtime.shim.clone().unwrap_or_default()),
            Mode::Script | Mode::Service | Mode::Http => RunMode::Script,
        },
        runtime: manifest.runtime.clone(),
        interpreters: choice.interpreters.clone(),
        asked_interpreters: u32::try_from(choice.asked).unwrap_or(u32::MAX),
        interpreter_help: command::interpreter_help(choice),
        argv,
        environment,
        entry: manifest.entry.clone(),
        unix_text: choice.unix_text,
        user: manifest.sandbox.user.clone().map_or(User::Own, User::Named),
        groups: with_capabilities(&manifest.sandbox.groups, &manifest.sandbox.capabilities),
        limits: Limits {
            timeout_ms: limits.timeout.map(ms),
            grace_ms: ms(limits.grace),
            memory: limits.memory,
            memory_high: limits.memory_high,
            swap: limits.swap,
            cpu_milli: limits.cpu,
            cpu_weight: limits.cpu_weight,
            pids: limits.pids.saturating_add(watchers),
            open_files: limits.open_files,
            file_size: limits.file_size,
            io_weight: limits.io_weight,
            io_read: limits.io_read,
            io_write: limits.io_write,
            result: limits.result,
            asked: limits.asked.clone(),
        },
    }
}
