//! Chooses the runtime of a file and the order of its interpreters.
//!
//! A `#!` line counts whether or not the file is executable: its author wrote it to say how the file is run, and a file that
//! ran with other options, or by another version, would end differently without a word.

use super::Judge;
use super::entry::base_name;
use crate::diagnostic::Diagnostic;
use crate::function::detect;
use crate::function::forms::is_program;
use crate::resolve::FunctionProblems;
use crate::runtime::shebang::{Shebang, is_bash_for_sh};
use crate::runtime::{DEFAULT, Runtime};
use crate::schema::read::{list, nearest};
use crate::schema::tree::TomlTable;
use crate::warning::Warning;
use fnd_wire::naming::BOOTSTRAP;
use fnd_wire::plan::JudgedFile;

/// The runtime of AWS Lambda's custom runtimes.
pub(super) const LAMBDA: &str = "lambda";

/// The names of AWS for the same.
pub(super) const PROVIDED: [&str; 3] = ["provided", "provided.al2", "provided.al2023"];

/// The machines of AWS Lambda, as an ELF header names them (`e_machine`), and as Rust does.
const MACHINES: [(u16, &str); 2] = [(62, "x86_64"), (183, "aarch64")];

/// The machine that fnd was built for.
pub(super) const ARCH: &str = if cfg!(target_arch = "x86_64") {
    "x86_64"
} else if cfg!(target_arch = "aarch64") {
    "aarch64"
} else {
    "of another kind"
};

/// The chosen runtime and interpreters.
#[derive(Debug)]
pub(super) struct Choice<'a> {
    pub(super) runtime: &'a Runtime,
    /// The version that the manifest asks for.
    pub(super) version: Option<String>,
    /// The version that the manifest asks for, of a runtime without versions.
    pub(super) unchecked: Option<String>,
    /// Interpreters to try, in order.
    pub(super) interpreters: Vec<String>,
    /// How many of `interpreters` come from the `#!` line: none or all, since another one would not be what the line asks for.
    pub(super) asked: usize,
    /// Flags of the `#!` line.
    pub(super) flags: Vec<String>,
    /// Whether carriage returns and the byte-order mark are removed from the code.
    pub(super) unix_text: bool,
}

/// A runtime, the version that is asked for, and the one that cannot be checked.
type NamedInterpreter<'a> = (&'a Runtime, Option<String>, Option<String>);

impl Judge {
    /// Returns the runtime of a file, from the first of these that names one: the manifest; `lambda` for a `bootstrap`
    /// (`is_bootstrap`); the suffix or the `#!` line; `exec` for what the kernel executes; `[defaults]`.
    pub(super) fn choose(
        &self,
        own: &TomlTable,
        (file, is_bootstrap): (&JudgedFile, bool),
        report: &mut FunctionProblems<'_>,
    ) -> Option<Choice<'_>> {
        let shebang = Shebang::of(&file.bytes.0);
        let executable = file.mode & 0o111 != 0;
        let by_suffix = self.by_suffix(file);
        let (runtime, version, unchecked) = if let Some(node) = own.get("runtime") {
            self.named(&node.value.text(), &node.at, report)?
        } else if let Some(lambda) = self.lambda().filter(|_| is_bootstrap) {
            (lambda, None, None)
        } else if let Some(by_suffix) = by_suffix {
            // The suffix names the language; a `#!` line of the same language only chooses among its interpreters.
            let other = shebang
                .as_ref()
                .filter(|line| !by_suffix.is_interpreter(line.base_name()))
                .and_then(|line| self.by_interpreter(line));
            (other.unwrap_or(by_suffix), None, None)
        } else if executable && is_program(&file.bytes.0) {
            let exec = self.runtimes.iter().find(|runtime| runtime.summary.id == "exec")?;
            (exec, None, None)
        } else if let Some(node) = self.configuration.defaults.get("runtime") {
            self.named(&node.value.text(), &node.at, report)?
        } else {
            let message = "fnd cannot tell which runtime runs it: it has no known suffix, no `runtime` in a manifest, and is not an executable program";
            let help =
                "name its runtime with `runtime = \"...\"`, or give it a `#!` line and make it executable (`chmod +x`)";
            report.in_file(&file.path, Diagnostic::error("no-runtime", message), help);
            return None;
        };
        let id = &runtime.summary.id;
        if !runtime.summary.enabled {
            let problem = Diagnostic::error("runtime-disabled", format!("runtime `{id}` is disabled"));
            let help = format!("set `{id} = {{ enabled = true }}` in `[runtimes]` of `fnd.toml`");
            report.in_file(&file.path, problem, help);
            return None;
        }
        let is_helped = runtime.is_helped();
        let executes_itself = is_helped || runtime.program() == Some("{entry}");
        let marked = |line: &Shebang| line.carriage_return || file.bytes.0.starts_with(b"\xef");
        let mut choice = Choice {
            runtime,
            interpreters: match executes_itself {
                true if is_helped => vec![self.helper.clone()],
                true => Vec::new(),
                false => runtime.candidates(version.as_deref()),
            },
            asked: 0,
            flags: Vec::new(),
            // The kernel, like other readers, treats a carriage return as part of the interpreter's name.
            unix_text: runtime.unix_text || (executes_itself && shebang.as_ref().is_some_and(marked)),
            version,
            unchecked,
        };
        if executes_itself && !executable {
            let message = format!("runtime `{id}` executes the file itself, but the file is not executable");
            let problem = Diagnostic::error("not-executable", message);
            report.in_file(&file.path, problem, format!("chmod +x {}", file.path));
        }
        if let Some(machine) = other_machine(&file.bytes.0).filter(|_| is_helped) {
            let message = format!("it is a program for `{machine}`, and this machine is `{ARCH}`");
            let help = format!("build it for `{ARCH}`");
            report.in_file(&file.path, Diagnostic::error("other-machine", message), help);
        }
        if is_helped && is_bash_for_sh(&file.bytes.0) {
            let message =
                "it is a script of bash, and its `#!` line names `sh`, which is another shell on Debian and Ubuntu";
            let problem = Diagnostic::warning(Warning::Interpreter, message);
            report.in_file(&file.path, problem, "write `#!/bin/bash` as the first line");
        }
        // The kernel reads the line itself where it executes the file.
        if let Some(line) = shebang.filter(|_| !executes_itself) {
            let is_named = own.contains_key("runtime");
            ask(&mut choice, (file, line), is_named, report);
        }
        Some(choice)
    }

    /// Returns the runtime of AWS Lambda's custom runtimes, if fnd has it.
    fn lambda(&self) -> Option<&Runtime> {
        self.runtimes.iter().find(|runtime| runtime.summary.id == LAMBDA)
    }

    /// Returns the runtime that claims a file's suffix. A `.js` file with CommonJS goes to node, if node is known.
    fn by_suffix(&self, file: &JudgedFile) -> Option<&Runtime> {
        let claims = self.claims();
        let (_, suffix) = claims.split(base_name(&file.path))?;
        let node = self.runtimes.iter().find(|runtime| runtime.summary.id == "node");
        if suffix == ".js" && node.is_some() && detect::is_commonjs(&file.bytes.0) {
            return node;
        }
        self.runtimes
            .iter()
            .find(|runtime| runtime.summary.suffixes.iter().any(|claimed| claimed == suffix))
    }

    fn by_interpreter(&self, line: &Shebang) -> Option<&Runtime> {
        self.runtimes
            .iter()
            .find(|runtime| runtime.is_interpreter(line.base_name()))
    }

    /// Returns the runtime and the version of a name such as `python3.11`.
    fn named(
        &self,
        name: &str,
        at: &crate::schema::tree::TomlPosition,
        report: &mut FunctionProblems<'_>,
    ) -> Option<NamedInterpreter<'_>> {
        let mut found = self
            .runtimes
            .iter()
            .filter_map(|runtime| Some((runtime, runtime.version_of(name)?)));
        let Some((runtime, version)) = found.next() else {
            let names: Vec<&str> = self.runtimes.iter().map(|runtime| &*runtime.summary.id).collect();
            let plain = name.trim_end_matches(".x");
            let help = match nearest(name, &names) {
                _ if names.is_empty() => {
                    "fnd found no runtimes at all: `fndctl doctor` says where it looked".to_owned()
                }
                _ if PROVIDED.contains(&name) => {
                    format!("write `{LAMBDA}`: it runs the `{BOOTSTRAP}` of these runtimes of AWS")
                }
                // `nodejs20.x` of AWS
                _ if self.runtimes.iter().any(|runtime| runtime.version_of(plain).is_some()) => {
                    format!("write `{plain}`")
                }
                Some(near) => format!("did you mean `{near}`? known runtimes: {}", list(&names)),
                None => format!("known runtimes: {}", list(&names)),
            };
            report.error(Some(at), "unknown-runtime", format!("unknown runtime `{name}`"), help);
            return None;
        };
        let Some(version) = version else {
            return Some((runtime, None, None));
        };
        if let Some(declared) = runtime.declared(version) {
            return Some((runtime, declared.map(str::to_owned), None));
        }
        let id = &runtime.summary.id;
        // The judge opens no file, so it cannot know which versions are installed.
        let help = format!(
            "`fndctl runtimes` lists what is installed; add another version to `[runtimes] {id} = {{ interpreters = {{ \
             \"{version}\" = \"/path\" }} }}` of `fnd.toml`"
        );
        let are_declared = runtime.summary.versions.iter().any(|known| known.name != DEFAULT);
        if !are_declared {
            // One interpreter serves all versions of its language: a name of Kubeless, such as `nodejs20`, means it.
            let message =
                format!("the installed `{id}` runs it, whatever its version: fnd does not check for `{version}`");
            let problem = Diagnostic::warning(Warning::UncheckedVersion, message);
            report.add(Some(at), problem.with_help(help));
            return Some((runtime, None, Some(version.to_owned())));
        }
        let message = format!("runtime `{id}` has no version `{version}`");
        report.error(Some(at), "unknown-version", message, help);
        None
    }
}

impl Choice<'_> {
    /// Removes interpreters of the `#!` line that cannot run this phase, with a warning.
    pub(super) fn only(&mut self, names: &[String], file: &JudgedFile, report: &mut FunctionProblems<'_>) {
        // `#!/bin/sh` belongs to the runtime `bash`, whose shim is written for bash and does not run in another shell.
        let fits = |path: &String| names.is_empty() || names.iter().any(|name| name == base_name(path));
        if self.asked == 0 || self.interpreters.iter().any(fits) {
            return;
        }
        self.asked = 0;
        let others = std::mem::replace(&mut self.interpreters, self.runtime.candidates(self.version.as_deref()));
        let (Some(other), Some(first)) = (others.first(), self.interpreters.first()) else {
            return;
        };
        let message = format!("the `#!` line names `{other}`, which cannot serve handlers; `{first}` can");
        let help = format!("write `#!{first}`, or run the file as a script with `mode = \"script\"`");
        report.in_file(&file.path, Diagnostic::warning(Warning::Interpreter, message), help);
    }
}

/// Returns the machine that a program is for, if it is one of AWS Lambda's, and another one than this.
fn other_machine(program: &[u8]) -> Option<&'static str> {
    let [low, high] = *program.strip_prefix(b"\x7fELF")?.get(14..16)? else {
        return None;
    };
    let found = u16::from_le_bytes([low, high]);
    let (_, name) = MACHINES.into_iter().find(|(machine, _)| *machine == found)?;
    Some(name).filter(|name| *name != ARCH)
}

/// Takes the interpreter of the `#!` line and its flags, or says why not. `is_named` says that the file's own manifest
/// names its runtime.
fn ask(
    choice: &mut Choice<'_>,
    (file, line): (&JudgedFile, Shebang),
    is_named: bool,
    report: &mut FunctionProblems<'_>,
) {
    let id = &choice.runtime.summary.id;
    let interpreter = crate::schema::read::escaped(&line.interpreter);
    let mut add = |problem: Diagnostic, help: String| report.in_file(&file.path, problem, help);
    if !choice.runtime.is_interpreter(line.base_name()) {
        // If the manifest names the runtime, it says what is meant.
        if !is_named {
            let message = format!(
                "the `#!` line names `{interpreter}`, which is not an interpreter of runtime `{id}`; `{id}` runs the file"
            );
            let help = format!(
                "correct the line, or write `runtime = \"{id}\"` into the manifest; to execute the file itself, remove the \
                 suffix and run `chmod +x`. Until then the file does not run by itself"
            );
            add(Diagnostic::warning(Warning::Interpreter, message), help);
        }
        return;
    }
    let is_default = choice
        .runtime
        .interpreters
        .iter()
        .any(|path| *path == line.interpreter || (line.by_env && base_name(path) == line.interpreter));
    if choice.version.is_some() {
        if !is_default {
            let message =
                format!("the `#!` line names `{interpreter}`, but the manifest names a version, which is used");
            let problem = Diagnostic::warning(Warning::TwoInterpreters, message);
            return add(problem, "remove one of the two".to_owned());
        }
    // `env` with a default name asks for no certain program, so the places of the runtime stay. An absolute path asks
    // for exactly that program.
    } else if !(is_default && line.by_env) {
        let places = places(choice.runtime, &line);
        if places.is_empty() {
            let message = format!("the `#!` line names `{interpreter}`, which is not an absolute path");
            let help = "write the absolute path of the interpreter".to_owned();
            return add(Diagnostic::error("bad-value", message), help);
        }
        choice.asked = places.len();
        choice.interpreters = places;
    }
    choice.flags = line.arguments;
}

/// Returns the places of the interpreter that a `#!` line names: for `env python3.11` first the one that the runtime knows
/// as version 3.11.
fn places(runtime: &Runtime, line: &Shebang) -> Vec<String> {
    let mut places = match line.interpreter.strip_prefix(runtime.summary.id.as_str()) {
        Some(version) if line.by_env && !version.is_empty() => runtime.candidates(Some(version)),
        _ => Vec::new(),
    };
    let mut more = line.places();
    more.retain(|place| !places.contains(place));
    places.append(&mut more);
    places
}
