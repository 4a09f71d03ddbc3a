//! Judges one function.

use super::choose::Choice;
use super::source::push_route;
use super::{Judge, Verdict, command};
use crate::diagnostic::Diagnostic;
use crate::foreign::placed::{ORIGINS, Origins};
use crate::function::detect::{self, Handler, Uncalled};
use crate::function::keys::SCHEMA;
use crate::function::resolve::{Report, Subject, manifest};
use crate::function::{Listen, Manifest, Mode, env_file, event_schema, inline};
use crate::runtime::Phase;
use crate::schema::read::{list, read};
use crate::schema::source::Source;
use crate::schema::tree::{Node, Table, Value, find};
use crate::settings::resolve::unknown_size;
use fnd_wire::plan::{Build, Form, JudgeFunction, JudgedFile, Limits, Plan, RunMode, Text, User};
use fnd_wire::units::counted;
use std::collections::BTreeMap;
use std::time::Duration;

/// The manifest in a directory or an archive.
pub(super) const MANIFEST: &str = "function.toml";

/// The result of judging a function.
#[derive(Debug)]
pub struct Judged {
    /// The plan for the spawner; absent if the function is refused.
    pub plan: Option<Plan>,
    /// The verdict for fnd and people.
    pub verdict: Verdict,
    /// How its dependencies are installed; absent if there are none.
    pub build: Option<Build>,
}

impl Judge {
    /// Judges a function.
    #[must_use]
    pub fn function(&self, function: &JudgeFunction) -> Judged {
        let found = function.files.iter().position(|file| file.path == ORIGINS);
        match found.filter(|_| matches!(function.form, Form::Foreign(_) | Form::Source)) {
            Some(index) => self.foreign(function, index),
            None => self.own(function),
        }
    }

    /// Judges a function that was made of a foreign file; its problems are at the fields of that file.
    fn foreign(&self, function: &JudgeFunction, origins: usize) -> Judged {
        let mut function = function.clone();
        let origins = Origins::read(&function.files.remove(origins).bytes.0);
        if matches!(function.form, Form::Foreign(_)) {
            function.form = Form::Directory;
        }
        let mut judged = self.own(&function);
        if origins.is_refused() {
            (judged.plan, judged.build, judged.verdict.manifest) = (None, None, None);
            judged.verdict.diagnostics.clear(); // without a manifest there are only problems of that
        }
        judged.verdict.diagnostics = origins.place(judged.verdict.diagnostics);
        judged
    }

    /// Judges a function with a manifest of fnd's own.
    fn own(&self, function: &JudgeFunction) -> Judged {
        let mut early: Vec<Diagnostic> = two_manifests(function).into_iter().collect();
        let sidecar = function
            .manifest
            .as_ref()
            .and_then(|file| keep(Source::whole(&file.path, &file.bytes.0), &mut early));
        let number = self.configuration.sources.len();
        // The entry is needed to find the inline block, and the manifest may name the entry.
        let (own, problems) = sidecar
            .as_ref()
            .map(|source| read(source, number, SCHEMA))
            .unwrap_or_default();
        early.extend(problems);
        // The code of a source is not there before it is fetched.
        let is_here = !own.contains_key("source") || function.form == Form::Source;
        let entry = is_here
            .then(|| self.entry(function, &own, sidecar.as_ref(), &mut early))
            .flatten();
        let block = entry.and_then(|file| {
            keep(
                inline::block(&shown(function, file), &file.bytes.0).map(Option::into_iter),
                &mut early,
            )
        });
        let block = block.and_then(|mut block| block.next());
        let (own, source) = match (block, sidecar) {
            (Some(block), Some(sidecar)) => {
                let problem = Diagnostic::error(
                    "two-manifests",
                    format!("the file has a `/// fnd` block, but there is also `{}`", sidecar.file),
                );
                early.push(problem.in_file(&block.file).with_help("remove one of the two"));
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
        let mut report = Report {
            sources: &sources,
            problems: early,
        };
        let source = self.source(function, &own, &mut report);
        let push = push_route(function, &own, super::is_trusted(function), &mut report);
        let (origin, fetched) = source.map_or((None, None), |(origin, build)| (Some(origin), build));
        let decided = entry.and_then(|entry| self.decide(function, entry, &own, &mut report));
        if let Form::Archive(archive) = &function.form {
            for problem in &mut report.problems {
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
                says_on_load: own.contains_key("on_load"),
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
        let (own, mut problems) = read(&source, 0, SCHEMA);
        let sizes = &self.configuration.sizes;
        if let Some(size) = own.get("size").filter(|size| !sizes.contains_key(&size.value.text())) {
            problems.push(unknown_size(&size.value.text(), sizes).at(&source, size.at.value.clone()));
        }
        problems
    }

    fn decide(
        &self,
        function: &JudgeFunction,
        entry: &JudgedFile,
        own: &Table,
        report: &mut Report<'_>,
    ) -> Option<Decided> {
        // The file's path is the one that people know.
        let file = JudgedFile {
            path: shown(function, entry),
            ..entry.clone()
        };
        let env_file = self.env_file(function, own, report);
        let mut choice = self.choose(own, &file, report)?;
        if choice.runtime.build().is_none() && own.is_empty() && function.manifest.is_none() {
            report
                .problems
                .extend(inline::script_metadata(&file.path, &file.bytes.0));
        }
        let dependencies = self.dependencies(function, (&file, choice.runtime), own, report);
        let (mode, mode_reason, phase) = self.mode(own, &choice, &file, report)?;
        let serves = mode == Mode::Http && choice.runtime.serve.as_ref() == Some(phase);
        choice.only(&phase.names, &file, report);
        let name = if function.form.is_tree() {
            entry.path.clone()
        } else {
            base_name(&entry.path).to_owned()
        };
        let subject = Subject {
            mode,
            serves,
            runtime: choice.runtime,
            path: &file.path,
            entry: name,
            env_file,
            trusted: super::is_trusted(function),
        };
        let mut manifest = manifest(own, &self.configuration, subject, report);
        read_schemas(&mut manifest, function, own, report);
        if let Some(name) = manifest.build.secrets.first().filter(|_| !super::is_trusted(function)) {
            let message = format!("only functions whose code and manifest belong to root may name a secret (`{name}`)");
            let at = find(own, "build.secrets").map(|node| &node.at);
            let help = "let root own the files (`chown root:root`)";
            report.add(at, Diagnostic::error("not-trusted", message).with_help(help));
        }
        let dependencies = match choice.runtime.compile {
            Some(_) => Some(
                dependencies
                    .unwrap_or_default()
                    .with_program(function, &manifest, report),
            ),
            None => dependencies,
        };
        let phase = &command::with_dependencies(phase, choice.runtime, dependencies.as_ref());
        let argv = command::arguments(&choice, phase, &manifest, &file.path, report);
        let environment = command::environment(&choice, phase, &manifest, dependencies.is_some());
        let mut plan = plan(function, &choice, &manifest, (argv, environment));
        let commands = [
            (
                "http_server.command",
                manifest.http_server.as_ref().map(|server| &server.command),
            ),
            (
                "service.command",
                manifest.service.as_ref().map(|service| &service.command),
            ),
        ];
        for (path, command) in commands {
            if let (Some(node), Some(command)) = (find(own, path), command) {
                command::replace(&mut plan, (path, command), function, (node, report));
            }
        }
        let build = dependencies.and_then(|mut dependencies| {
            dependencies.system_packages = manifest.build.system_packages;
            self.dependencies_build(
                &dependencies,
                (choice.runtime, &manifest.build, super::is_trusted(function)),
                &plan,
            )
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

    /// Returns the file that runs.
    fn entry<'f>(
        &self,
        function: &'f JudgeFunction,
        own: &Table,
        source: Option<&Source>,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<&'f JudgedFile> {
        let at = |problem: Diagnostic, path: &str| match (own.get(path), source) {
            (Some(node), Some(source)) => problem.at(source, node.at.value.clone()),
            _ => problem,
        };
        if !function.form.is_tree() {
            if own.contains_key("entry") {
                let message = "`entry` is only for the directory form (`NAME/function.toml`)";
                problems.push(at(
                    Diagnostic::error("impossible", message).with_help("remove it"),
                    "entry",
                ));
            }
            return function.files.first();
        }
        if let Some(node) = own.get("entry") {
            let name = node.value.text();
            let holder = function.form.word();
            let found = function.files.iter().find(|file| file.path == name);
            if found.is_none() {
                let names: Vec<&str> = function.files.iter().map(|file| file.path.as_str()).take(20).collect();
                let problem = Diagnostic::error("no-entry", format!("the entry `{name}` is not in the {holder}"));
                problems.push(at(
                    problem.with_help(format!("the {holder} has: {}", list(&names))),
                    "entry",
                ));
            }
            return found;
        }
        let fetched = || function.files.iter().filter(|file| file.path != MANIFEST);
        if function.form == Form::Source && fetched().count() == 1 {
            return fetched().next(); // one file of a web server, whatever its name is
        }
        let claims = crate::function::forms::Claims::of(self.runtimes.iter().map(|runtime| &runtime.summary));
        // The module of `handler` names the file, as in Kubeless.
        let handler = own.get("handler").map(|node| node.value.text());
        let module = handler.as_deref().and_then(handler_parts).map(|(module, _)| module);
        let candidates: Vec<&JudgedFile> = function
            .files
            .iter()
            .filter(|file| {
                is_candidate(&file.path, module) && (claims.split(&file.path).is_some() || file.mode & 0o111 != 0)
            })
            .collect();
        match candidates.as_slice() {
            [one] => Some(one),
            [] => {
                let expected = match module {
                    Some(module) => format!("`{module}.*`, the module of `handler`,"),
                    None => "one of `main.*`, `handler.*`, `index.*`".to_owned(),
                };
                let message = format!("no file to run: expected {expected} with a known suffix, or an executable file");
                let problem = Diagnostic::error("no-entry", message).with_help("name the file with `entry = \"...\"`");
                problems.push(match source {
                    Some(source) => problem.in_file(&source.file),
                    None => problem,
                });
                None
            }
            several => {
                let names: Vec<&str> = several.iter().map(|file| file.path.as_str()).collect();
                let problem =
                    Diagnostic::error("no-entry", format!("more than one file could be run: {}", list(&names)));
                let problem = problem.with_help(format!(
                    "name the file with `entry = \"{}\"`",
                    names.first().copied().unwrap_or_default()
                ));
                problems.push(match source {
                    Some(source) => problem.in_file(&source.file),
                    None => problem,
                });
                None
            }
        }
    }

    /// Returns the variables of the `env_file`. Only the directory form has one: a file beside a single-file function
    /// is neither watched nor part of its version.
    fn env_file(&self, function: &JudgeFunction, own: &Table, report: &mut Report<'_>) -> BTreeMap<String, String> {
        let Some(node) = own
            .get("env_file")
            .or_else(|| self.configuration.defaults.get("env_file"))
        else {
            return BTreeMap::new();
        };
        let name = node.value.text();
        if !function.form.is_tree() {
            let problem = Diagnostic::error(
                "impossible",
                "`env_file` is only for the directory form (`NAME/function.toml`)",
            );
            report.add(
                Some(&node.at),
                problem.with_help("move the variables to `[env]`, or make the function a directory"),
            );
            return BTreeMap::new();
        }
        let Some(file) = function.files.iter().find(|file| file.path == name) else {
            let problem = Diagnostic::error(
                "no-env-file",
                format!("`env_file`: there is no file `{name}` in the {}", function.form.word()),
            );
            report.add(Some(&node.at), problem);
            return BTreeMap::new();
        };
        env_file::read(&shown(function, file), &file.bytes.0).unwrap_or_else(|problems| {
            report.problems.extend(problems);
            BTreeMap::new()
        })
    }

    /// Returns the mode of a function, the reason for it and the phase that starts it; nothing where that mode is
    /// impossible.
    fn mode<'c>(
        &self,
        own: &Table,
        choice: &Choice<'c>,
        file: &JudgedFile,
        report: &mut Report<'_>,
    ) -> Option<Mods<'c>> {
        let run = &choice.runtime.run;
        let written = |key: &str| own.get(key).or_else(|| self.configuration.defaults.get(key));
        let mode = written("mode").filter(|node| node.value.text() != "auto");
        let named = written("handler");
        if let Some(node) = named.filter(|node| handler_parts(&node.value.text()).is_none()) {
            let message = format!("`handler`: expected module.function, found `{}`", node.value.text());
            let help =
                "write the file's name without its suffix, a dot, and the name of the function in it: `main.handler`";
            report.add(Some(&node.at), Diagnostic::error("bad-value", message).with_help(help));
        }
        if let Some(mode) = mode {
            let says_so = "the manifest says so".to_owned();
            if mode.value.text() == "handler" {
                let place = |problem| report.add(Some(&mode.at), problem);
                return self.handler(choice, says_so, place);
            }
            let word = mode.value.text();
            if let Some(node) = named {
                let message = format!("`handler` has no effect with `mode = \"{word}\"`, which runs the whole file");
                let help = "remove one of the two";
                report.add(Some(&node.at), Diagnostic::error("impossible", message).with_help(help));
            }
            if word == "http" {
                return Some(served(choice, file, own, says_so));
            }
            let mode = if word == "service" { Mode::Service } else { Mode::Script };
            return Some((mode, says_so, run));
        }
        for table in ["http_server", "service"] {
            let Some(node) = own.get(table) else { continue };
            if named.is_some() {
                let message = format!("`handler` and `[{table}]` exclude each other");
                let help = "remove one of the two";
                report.add(Some(&node.at), Diagnostic::error("impossible", message).with_help(help));
            }
            let reason = format!("the manifest has `[{table}]`");
            return Some(match table {
                "http_server" => served(choice, file, own, reason),
                _ => (Mode::Service, reason, run),
            });
        }
        if let Some(node) = named {
            let reason = format!("the manifest names `{}`", node.value.text());
            return self.handler(choice, reason, |problem| report.add(Some(&node.at), problem));
        }
        let Some(Handler { line, what, http }) = detect::handler(&choice.runtime.summary.id, &file.bytes.0) else {
            if let Some(found) = detect::uncalled(&choice.runtime.summary.id, &file.bytes.0) {
                let problem = not_called(&found, &file.path);
                report.problems.push(at_line(problem, file, found.line));
            }
            return Some((Mode::Script, "no handler found in the code".to_owned(), run));
        };
        if http {
            let Some(serve) = &choice.runtime.serve else {
                let id = &choice.runtime.summary.id;
                let message = format!("runtime `{id}` cannot serve `{what}` (line {line})");
                let help = format!(
                    "let the code listen on `$PORT` and add an `[http_server]` table to the manifest; or {AS_SCRIPT}"
                );
                let problem = Diagnostic::error("no-handlers", message).with_help(help);
                report.problems.push(at_line(problem, file, line));
                return None;
            };
            return Some((Mode::Http, format!("`{what}` at line {line}"), serve));
        }
        self.handler(choice, format!("`{what}` at line {line}"), |problem| {
            report.problems.push(at_line(problem, file, line));
        })
    }

    /// Returns handler mode with its reason, or reports that the runtime has no handlers.
    fn handler<'c>(&self, choice: &Choice<'c>, reason: String, place: impl FnOnce(Diagnostic)) -> Option<Mods<'c>> {
        if let Some(handle) = &choice.runtime.handle {
            return Some((Mode::Handler, reason, handle));
        }
        let id = &choice.runtime.summary.id;
        let able = self.runtimes.iter().filter(|runtime| runtime.handle.is_some());
        let able: Vec<&str> = able.map(|runtime| runtime.summary.id.as_str()).collect();
        let known = if able.is_empty() {
            "no runtime of this machine has handlers".to_owned()
        } else {
            format!("runtimes with handlers: {}", list(&able))
        };
        let message = format!("runtime `{id}` has no handlers ({reason})");
        place(Diagnostic::error("no-handlers", message).with_help(format!("{known}; {AS_SCRIPT}")));
        None
    }
}

/// The mode of a function, the reason for it, and the phase that starts it.
type Mods<'c> = (Mode, String, &'c Phase);

/// Returns HTTP mode: for a program that serves HTTP itself, or for a module that its runtime serves.
fn served<'c>(choice: &Choice<'c>, file: &JudgedFile, own: &Table, reason: String) -> Mods<'c> {
    let runtime = choice.runtime;
    let module = detect::handler(&runtime.summary.id, &file.bytes.0).is_some_and(|found| found.http);
    let own_command = find(own, "http_server.command").is_some();
    match &runtime.serve {
        Some(serve) if module && !own_command => (Mode::Http, reason, serve),
        _ => (Mode::Http, reason, &runtime.run),
    }
}

const AS_SCRIPT: &str = "set `mode = \"script\"` to run it as a script";

/// Returns the warning about a function that looks like a handler.
fn not_called(found: &Uncalled, path: &str) -> Diagnostic {
    let Uncalled { what, name, .. } = found;
    let file = path.rsplit('/').next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let named = format!("write `handler = \"{stem}.{name}\"` into the manifest");
    if found.kubeless {
        let message = format!("`{what}(event, context)` looks like a handler of Kubeless, but nothing names it");
        let help = format!("{named}. Until then the file does not run by itself");
        return Diagnostic::warning("not-called", message).with_help(help);
    }
    let takes = counted(found.parameters, "parameter", "parameters");
    let form = match (name.as_str(), found.parameters) {
        ("main", 0) => format!("if it is Kyma's `main()`, {named}; else "),
        ("main", 1) => "`main(args)` of OpenWhisk is not supported; ".to_owned(),
        ("handle", 1) => "`handle(request)` of OpenFaaS is not supported; ".to_owned(),
        _ => String::new(),
    };
    let message = format!("`{what}` takes {takes}, so it is no handler, and nothing in the file calls it");
    let help = format!(
        "{form}a handler is `def main(event, context)`, `def handler(event, context)` or `def handle(logger, request)`; a \
         script calls its function itself. Until then the file does not run by itself"
    );
    Diagnostic::warning("not-called", message).with_help(help)
}

/// Places a problem at a line of the code.
fn at_line(problem: Diagnostic, file: &JudgedFile, line: u32) -> Diagnostic {
    let text = String::from_utf8_lossy(&file.bytes.0);
    let lines = || text.split_inclusive('\n');
    let source = Source::of_lines(&file.path, lines().zip(1..).map(|(line, number)| (number, "", line)));
    let before = usize::try_from(line.saturating_sub(1)).unwrap_or(0);
    let start: usize = lines().take(before).map(str::len).sum();
    let end = start + source.line_text(start).trim_end().len();
    problem.at(&source, start..end)
}

struct Decided {
    mode_reason: String,
    /// Whether its build compiles it.
    compiled: bool,
    /// The version that is asked for, and the one that cannot be checked.
    versions: (Option<String>, Option<String>),
    manifest: Manifest,
    plan: Plan,
    build: Option<Build>,
}

/// Says whether a file can be the entry without being named: the module's file, else `main.*`, `handler.*` or
/// `index.*`, at the top of the directory.
fn is_candidate(path: &str, module: Option<&str>) -> bool {
    let stem = path.split('.').next().unwrap_or_default();
    module.map_or_else(|| ["main", "handler", "index"].contains(&stem), |module| module == stem)
}

/// Returns module and function of `handler = "module.function"`; nothing for other forms.
fn handler_parts(handler: &str) -> Option<(&str, &str)> {
    let name = |text: &str, more: &[u8]| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || more.contains(&b))
    };
    let (module, function) = handler.split_once('.')?;
    (name(module, b"-") && name(function, b"$")).then_some((module, function))
}

pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a file's path as people know it; in directory form it is beside the manifest.
fn shown(function: &JudgeFunction, file: &JudgedFile) -> String {
    let manifest = function.manifest.as_ref();
    match (
        &function.form,
        manifest.and_then(|manifest| manifest.path.rsplit_once('/')),
    ) {
        (Form::Archive(archive) | Form::Foreign(archive), _) => format!("{archive}/{}", file.path),
        (Form::Directory, Some((directory, _))) => format!("{directory}/{}", file.path),
        (Form::Directory | Form::File | Form::Source, _) => file.path.clone(),
    }
}

/// Returns the problem that an archive has a manifest, and that there is one beside it.
fn two_manifests(function: &JudgeFunction) -> Option<Diagnostic> {
    let Form::Archive(archive) = &function.form else {
        return None;
    };
    let sidecar = function.manifest.as_ref()?;
    let inside = function.files.iter().find(|file| file.path == MANIFEST)?;
    if sidecar.path == shown(function, inside) {
        return None;
    }
    let message = format!("the archive has a `{MANIFEST}`, but there is also `{}`", sidecar.path);
    Some(
        Diagnostic::error("two-manifests", message)
            .in_file(archive)
            .with_help("remove one of the two"),
    )
}

/// Reads the JSON Schemas of events. Only the directory form has them, as with `env_file`.
fn read_schemas(manifest: &mut Manifest, function: &JudgeFunction, own: &Table, report: &mut Report<'_>) {
    let entries: &[Node] = match own.get("event").map(|node| &node.value) {
        Some(Value::List(entries)) => entries,
        _ => &[],
    };
    for (number, subscription) in manifest.event.iter_mut().enumerate() {
        let Some(name) = &subscription.schema else { continue };
        let at = match entries.get(number).map(|node| &node.value) {
            Some(Value::Table(keys)) => keys.get("schema").map(|node| &node.at),
            _ => None,
        };
        if !function.form.is_tree() {
            let message = "`schema` is only for the directory form (`NAME/function.toml`)";
            let help = "make the function a directory, with the schema beside its code";
            report.add(at, Diagnostic::error("impossible", message).with_help(help));
            continue;
        }
        let Some(file) = function.files.iter().find(|file| file.path == *name) else {
            let message = format!("`schema`: there is no file `{name}` in the {}", function.form.word());
            report.add(at, Diagnostic::error("no-schema", message));
            continue;
        };
        match event_schema::read(&file.bytes.0) {
            Ok(schema) => subscription.json_schema = Some(schema),
            Err(why) => {
                let message = format!("`{name}` is no JSON Schema that fnd can use: {why}");
                report.add(at, Diagnostic::error("bad-schema", message));
            }
        }
    }
}

fn keep<T>(found: Result<T, Box<Diagnostic>>, problems: &mut Vec<Diagnostic>) -> Option<T> {
    found.map_err(|problem| problems.push(*problem)).ok()
}

/// Command line and environment.
type Lines = (Vec<Text>, Vec<(String, Text)>);

fn plan(function: &JudgeFunction, choice: &Choice<'_>, manifest: &Manifest, (argv, environment): Lines) -> Plan {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let limits = &manifest.limits;
    // The watcher of its files is a process beside its own.
    let watchers = u32::from(!manifest.file.is_empty());
    Plan {
        function: function.name.clone(),
        mode: match manifest.mode {
            Mode::Script | Mode::Service => RunMode::Script,
            Mode::Handler => RunMode::Handler(choice.runtime.shim.clone().unwrap_or_default()),
            Mode::Http => match &manifest.http_server {
                // The program reports its port on descriptor 3.
                Some(server) if server.listen == Listen::Told => {
                    RunMode::Handler(choice.runtime.shim.clone().unwrap_or_default())
                }
                _ => RunMode::Script,
            },
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
        groups: manifest.sandbox.groups.clone(),
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
