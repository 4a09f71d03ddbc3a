//! Decides how a function runs: as a script, as a handler, as a service, or as a program that serves HTTP.

use super::Judge;
use super::choose::Choice;
use super::entry::handler_parts;
use crate::diagnostic::Diagnostic;
use crate::function::Mode;
use crate::function::detect::{self, Handler, Uncalled};
use crate::resolve::FunctionProblems;
use crate::runtime::RuntimePhase;
use crate::schema::read::list;
use crate::schema::source::Source;
use crate::schema::tree::{TomlNode, TomlTable, find};
use crate::warning::Warning;
use fnd_wire::plan::JudgedFile;
use fnd_wire::units::counted;

impl Judge {
    /// Returns the mode of a function, the reason for it and the phase that starts it; nothing where that mode is
    /// impossible.
    pub(super) fn mode<'c>(
        &self,
        own: &TomlTable,
        choice: &Choice<'c>,
        file: &JudgedFile,
        report: &mut FunctionProblems<'_>,
    ) -> Option<Mods<'c>> {
        let written = |key: &str| own.get(key).or_else(|| self.configuration.defaults.get(key));
        let mode = written("mode").filter(|node| node.value.text() != "auto");
        let named = written("handler");
        // To a runtime of AWS Lambda it is any text, `_HANDLER`.
        let is_wrong = |node: &&TomlNode| !choice.runtime.is_helped() && handler_parts(&node.value.text()).is_none();
        if let Some(node) = named.filter(is_wrong) {
            let message = format!("`handler`: expected module.function, found `{}`", node.value.text());
            let help =
                "write the file's name without its suffix, a dot, and the name of the function in it: `main.handler`";
            report.error(Some(&node.at), "bad-value", message, help);
        }
        let Some(run) = &choice.runtime.run else {
            return only_handlers(choice, own, report);
        };
        if let Some(mode) = mode {
            let says_so = "the manifest says so".to_owned();
            if mode.value.text() == "handler" {
                let place = |problem| report.add(Some(&mode.at), problem);
                return self.handler(choice, says_so, place);
            }
            let word = mode.value.text();
            if let Some(node) = named {
                let message = format!("`handler` has no effect with `mode = \"{word}\"`, which runs the whole file");
                report.impossible(Some(&node.at), message, "remove one of the two");
            }
            if word == "http" {
                return Some(served((choice, run), file, own, says_so));
            }
            let mode = if word == "service" { Mode::Service } else { Mode::Script };
            return Some((mode, says_so, run));
        }
        for table in ["http_server", "service"] {
            let Some(node) = own.get(table) else { continue };
            if named.is_some() {
                let message = format!("`handler` and `[{table}]` exclude each other");
                report.impossible(Some(&node.at), message, "remove one of the two");
            }
            let reason = format!("the manifest has `[{table}]`");
            return Some(match table {
                "http_server" => served((choice, run), file, own, reason),
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
            // As a script such a module would end at once, without an error.
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
type Mods<'c> = (Mode, String, &'c RuntimePhase);

/// Returns HTTP mode: for a program that serves HTTP itself, or for a module that its runtime serves.
fn served<'c>(
    (choice, run): (&Choice<'c>, &'c RuntimePhase),
    file: &JudgedFile,
    own: &TomlTable,
    reason: String,
) -> Mods<'c> {
    let runtime = choice.runtime;
    let module = detect::handler(&runtime.summary.id, &file.bytes.0).is_some_and(|found| found.http);
    // With a command of its own, another program serves, and the runtime has no module to load.
    let own_command = find(own, "http_server.command").is_some();
    match &runtime.serve {
        Some(serve) if module && !own_command => (Mode::Http, reason, serve),
        _ => (Mode::Http, reason, run),
    }
}

/// Returns handler mode of a runtime that has no other one, or reports what asks for another.
fn only_handlers<'c>(choice: &Choice<'c>, own: &TomlTable, report: &mut FunctionProblems<'_>) -> Option<Mods<'c>> {
    let id = &choice.runtime.summary.id;
    let is_other = |mode: &&TomlNode| !["auto", "handler"].contains(&mode.value.text().as_str());
    let table = || ["http_server", "service"].into_iter().find_map(|table| own.get(table));
    if let Some(node) = own.get("mode").filter(is_other).or_else(table) {
        let message = format!("runtime `{id}` has only handlers");
        let help = "remove it, or write `runtime = \"exec\"` to execute the file itself";
        report.impossible(Some(&node.at), message, help);
        return None;
    }
    let handle = choice.runtime.handle.as_ref()?;
    Some((Mode::Handler, format!("runtime `{id}` has only handlers"), handle))
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
        return Diagnostic::warning(Warning::NotCalled, message).with_help(help);
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
    Diagnostic::warning(Warning::NotCalled, message).with_help(help)
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
