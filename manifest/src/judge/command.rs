//! Builds the command line and the environment of a plan.

use super::choose::Choice;
use super::dependencies::Dependencies;
use super::entry::{base_name, path_in};
use crate::diagnostic::Diagnostic;
use crate::function::credentials;
use crate::function::keys::UMASK_DEFAULT;
use crate::function::{Manifest, Mode};
use crate::resolve::{FunctionProblems, GIVEN};
use crate::runtime::{Runtime, RuntimePhase};
use crate::schema::PERMISSIONS;
use crate::schema::read::escaped;
use crate::schema::tree::{TomlNode, TomlTable};
use crate::warning::Warning;
use fnd_wire::plan::{
    ALWAYS, CGI, HANDLER_VARIABLES, INSTEAD, JudgeFunction, Plan, PlanText, SOCKET, STOP_SIGNAL, UMASK, WATCHED,
    stop_signal_number,
};

pub(super) fn plain(text: &str) -> PlanText {
    PlanText {
        text: text.to_owned(),
        template: false,
    }
}

pub(super) fn template(text: &str) -> PlanText {
    PlanText {
        text: text.to_owned(),
        template: true,
    }
}

/// Returns the arguments after the interpreter, or after the entry where there is no interpreter.
pub(super) fn arguments(choice: &Choice<'_>, phase: &RuntimePhase, manifest: &Manifest) -> Vec<PlanText> {
    let mut result = Vec::new();
    // The spawner starts the program behind `{instead}`. The compiler stays the interpreter of the plan, so that
    // another compiler makes another tree.
    if choice.runtime.compile.is_some() {
        result.extend([template(INSTEAD), template("{deps}/program")]);
    }
    for item in phase.command.iter().skip(1) {
        match item.as_str() {
            "{interpreter_args}" => {
                // The command line may have a flag already.
                let flags = choice.flags.iter().filter(|flag| !phase.command.contains(flag));
                result.extend(flags.map(|flag| plain(flag)));
                result.extend(manifest.interpreter_args.iter().map(|argument| plain(argument)));
            }
            "{args}" => result.extend(manifest.args.iter().map(|argument| plain(argument))),
            "{concurrency}" => result.push(plain(&manifest.pool.concurrency.to_string())),
            "{permissions}" => result.extend(permissions(choice, phase, manifest)),
            other => result.push(template(other)),
        }
    }
    result
}

/// Returns the phase with the arguments for a function with these dependencies, or without any.
pub(super) fn with_dependencies(
    phase: &RuntimePhase,
    runtime: &Runtime,
    dependencies: Option<&Dependencies>,
) -> RuntimePhase {
    let own = &runtime.dependencies;
    let arguments: Vec<String> = match dependencies {
        None => own.args_without.clone(),
        Some(Dependencies { file, .. }) => {
            let needed = own
                .args
                .iter()
                .filter(|argument| file.is_some() || !argument.contains("{file}"));
            let file = file.as_deref().unwrap_or_default();
            needed.map(|argument| argument.replace("{file}", file)).collect()
        }
    };
    let mut phase = phase.clone();
    if let Some(at) = phase.command.iter().position(|item| item == "{dependencies}") {
        let _ = phase.command.splice(at..=at, arguments);
    }
    phase
}

/// Returns the arguments of a build, after the interpreter.
pub(super) fn installer(build: &RuntimePhase, runtime: &Runtime) -> Vec<PlanText> {
    let own = |item: &String| match (item.as_str(), &runtime.installer) {
        ("{installer}", Some(path)) => plain(path),
        (other, _) => template(other),
    };
    let by_interpreter = build.command.first().is_some_and(|first| first == "{interpreter}");
    let instead = (!by_interpreter).then(|| template(INSTEAD));
    let items = build.command.iter().skip(usize::from(by_interpreter));
    instead.into_iter().chain(items.map(own)).collect()
}

/// Sets variables of an environment.
pub(super) fn set(environment: &mut Vec<(String, PlanText)>, values: impl Iterator<Item = (String, PlanText)>) {
    for (name, text) in values {
        match environment.iter_mut().find(|(found, _)| *found == name) {
            Some((_, found)) => *found = text,
            None => environment.push((name, text)),
        }
    }
}

/// Removes permissions from the flags of the `#!` line: a program cannot grant itself any. The manifest's `permissions`
/// say what is meant; without them, there is a warning.
pub(super) fn refuse_permissions(
    choice: &mut Choice<'_>,
    own: &TomlTable,
    file: &str,
    report: &mut FunctionProblems<'_>,
) {
    if choice.runtime.permissions.is_none() {
        return;
    }
    let grants = |flag: &String| {
        // The short forms of deno's permissions are capital letters: `-A`, `-N`, `-R`.
        let first = flag.strip_prefix('-').and_then(|rest| rest.chars().next());
        first.is_some_and(|c| c.is_ascii_uppercase()) || flag.starts_with("--allow-")
    };
    let flags = std::mem::take(&mut choice.flags);
    let (refused, kept): (Vec<String>, Vec<String>) = flags.into_iter().partition(grants);
    choice.flags = kept;
    if refused.is_empty() || own.contains_key("permissions") {
        return;
    }
    let words = refused.iter().filter_map(|flag| flag.strip_prefix("--allow-"));
    let spelled: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    let missing = |flag: &String| !flag.strip_prefix("--allow-").is_some_and(manifest_word);
    let message = format!("`{}` of the `#!` line has no effect", refused.join(" "));
    let help = if refused.iter().any(missing) {
        "name the permissions in the manifest: `permissions = [...]`".to_owned()
    } else {
        format!("put `permissions = [{}]` into its manifest", spelled.join(", "))
    };
    let help = format!("{help}. Until then the file does not run by itself");
    report.in_file(file, Diagnostic::warning(Warning::Permissions, message), help);
}

fn manifest_word(flag: &str) -> bool {
    PERMISSIONS.contains(&flag.split('=').next().unwrap_or_default())
}

/// Returns `--allow-...` flags: the runtime's permissions, the names of the given variables, and the manifest's
/// permissions. A permission without limits replaces its list, because deno takes the narrower of the two.
fn permissions(choice: &Choice<'_>, phase: &RuntimePhase, manifest: &Manifest) -> Vec<PlanText> {
    let Some(granted) = &choice.runtime.permissions else {
        return Vec::new();
    };
    let unlimited = |name: &str| manifest.permissions.iter().any(|permission| permission == name);
    let mut result = Vec::new();
    if !unlimited("env") {
        let runtime = phase.env.keys().map(String::as_str);
        let handler = (manifest.mode == Mode::Handler).then_some(HANDLER_VARIABLES);
        // The names of headers and of parameters are not known before a request comes. deno takes `*` at the end of a
        // name.
        let request = (manifest.mode == Mode::Script).then(|| CGI.into_iter().chain(["HTTP_*", "FND_PARAM_*"]));
        let own = runtime
            .chain(handler.into_iter().flatten())
            .chain(request.into_iter().flatten())
            .chain(manifest.env.keys().map(String::as_str))
            .chain(credentials::variables(manifest))
            .filter(|name| !GIVEN.contains(name));
        let names: Vec<&str> = GIVEN.into_iter().chain(own).collect();
        result.push(plain(&format!("--allow-env={}", names.join(","))));
    }
    let granted = granted.iter().chain(&phase.permissions);
    for (name, values) in granted.filter(|(name, _)| !unlimited(name)) {
        result.push(template(&format!("--allow-{name}={}", values.join(","))));
    }
    for entry in manifest.file.iter().filter(|_| !unlimited("read")) {
        // deno splits the list at single commas.
        result.push(plain(&format!("--allow-read={}", entry.path.replace(',', ",,"))));
    }
    if !manifest.access.is_empty() {
        // deno wants all three for a Unix socket.
        let all = [("read", ""), ("write", ""), ("net", "unix:")]
            .into_iter()
            .filter(|(name, _)| !unlimited(name));
        result.extend(all.map(|(name, kind)| template(&format!("--allow-{name}={kind}{}", SOCKET.1))));
    }
    for permission in &manifest.permissions {
        let name = permission.split('=').next().unwrap_or_default();
        if permission == name || !unlimited(name) {
            result.push(plain(&format!("--allow-{permission}")));
        }
    }
    result
}

/// Replaces program and arguments by those of a `command`: a file of the function, or a program of the machine by its
/// absolute path. No shell is started and `PATH` is not searched: exactly the named file runs.
pub(super) fn replace(
    plan: &mut Plan,
    (path, command): (&str, &[String]),
    function: &JudgeFunction,
    (node, report): (&TomlNode, &mut FunctionProblems<'_>),
) {
    let mut refuse = |message: String, help: &str| report.error(Some(&node.at), "bad-value", message, help);
    let Some((program, arguments)) = command.split_first() else {
        let help = "name a program, or remove the key to run the entry";
        return refuse(format!("`{path}` is empty"), help);
    };
    plan.argv = arguments.iter().map(|argument| plain(argument)).collect();
    // Only an interpreter of a `#!` line may belong to the owner of the file, and this program is none.
    plan.asked_interpreters = 0;
    if program.starts_with('/') {
        // As an interpreter the program gets the checks of one: that it is there, that it can be executed, who can
        // change it.
        plan.interpreters = vec![program.clone()];
        plan.interpreter_help = format!("install it, or name another program in `{path}`");
        return;
    }
    let Some(name) = program.strip_prefix("./") else {
        let message = format!("`{path}`: expected a path, found `{}`", escaped(program));
        let help = "write `/usr/bin/PROGRAM` for a program of the machine, `./PROGRAM` for a file of the function";
        return refuse(message, help);
    };
    let mut files = function.files.iter();
    match files.find(|file| path_in(function, file) == name) {
        None => {
            let message = format!("`{path}`: the function has no file `{}`", escaped(name));
            refuse(message, "name one of its files");
        }
        Some(file) if file.mode & 0o111 == 0 => {
            let message = format!("`{path}`: `{}` is not executable", escaped(name));
            refuse(message, &format!("chmod +x {name}"));
        }
        Some(_) => {
            plan.interpreters = Vec::new();
            plan.entry = name.to_owned();
            // The named file may be a binary, of which no byte may be removed.
            plan.unix_text = false;
        }
    }
}

/// Returns the advice for the case that no interpreter is found.
pub(super) fn interpreter_help(choice: &Choice<'_>) -> String {
    if let (1.., Some(first)) = (choice.asked, choice.interpreters.first()) {
        return format!(
            "the `#!` line asks for it: install `{first}`, or correct the line; without a `#!` line the interpreter of \
             runtime `{}` runs the file",
            choice.runtime.summary.id
        );
    }
    let last = choice.interpreters.last().map_or("", |path| base_name(path));
    // Of `python3.11` and `deno-2.7` the name without the version is the name of the package.
    match last.trim_end_matches(|c: char| c.is_ascii_digit() || ['.', '-'].contains(&c)) {
        "fnd-helper" => "it is a part of fnd: install fnd again".to_owned(),
        id @ ("deno" | "node" | "nodejs") => {
            let id = id.trim_end_matches("js");
            format!(
                "install it with `sudo fndctl runtimes install {id}`, or name it in `[runtimes] {id}.interpreters` of fnd.toml"
            )
        }
        id => format!("install an interpreter: `apt install {}`", package(id)),
    }
}

/// Returns the Debian package of an interpreter.
#[must_use]
pub fn package(id: &str) -> &str {
    match id {
        "python" => "python3",
        "lua" => "lua5.4",
        "php" => "php-cli",
        "java" => "default-jdk-headless",
        "go" => "golang-go",
        other => other,
    }
}

/// Returns the environment: fixed variables, then those of the runtime, the manifest and Kubeless. The last value of a
/// name counts.
pub(super) fn environment(
    choice: &Choice<'_>,
    phase: &RuntimePhase,
    manifest: &Manifest,
    has_dependencies: bool,
) -> Vec<(String, PlanText)> {
    let always = ALWAYS.map(|(name, value)| (name.to_owned(), template(value)));
    let installed = choice.runtime.dependencies.env.iter().filter(|_| has_dependencies);
    let runtime = phase.env.iter().chain(installed);
    let runtime = runtime.map(|(name, value)| (name.clone(), template(value)));
    // Keptn sets this variable in any case, also empty.
    let arguments = std::iter::once(("CMD_ARGS".to_owned(), plain(&manifest.interpreter_args.join(" "))));
    // A value that a person wrote is no template: its braces stay as they are.
    let own = manifest.env.iter().map(|(name, value)| (name.clone(), plain(value)));
    let handler = (manifest.mode == Mode::Handler).then(|| handler_values(choice, manifest));
    let handler = handler
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.to_owned(), plain(&value)));
    let mut result: Vec<(String, PlanText)> = Vec::new();
    let all = always.into_iter().chain(runtime).chain(arguments).chain(own);
    let watched = (!manifest.file.is_empty()).then(|| {
        let rules = serde_json::to_string(&manifest.file).unwrap_or_default();
        (WATCHED.to_owned(), plain(&rules))
    });
    let umask =
        (manifest.umask != UMASK_DEFAULT).then(|| (UMASK.to_owned(), plain(&format!("{:03o}", manifest.umask))));
    let service = manifest.service.as_ref();
    let stop_signal = service
        .and_then(|service| stop_signal_number(service.stop_signal.as_deref()?))
        .map(|number| (STOP_SIGNAL.to_owned(), plain(&number.to_string())));
    let socket = (!manifest.access.is_empty()).then(|| (SOCKET.0.to_owned(), template(SOCKET.1)));
    set(
        &mut result,
        // fnd's own variables come last, since the last value counts: a manifest must not replace what the spawner
        // reads.
        all.chain(handler)
            .chain(watched)
            .chain(umask)
            .chain(stop_signal)
            .chain(socket),
    );
    result
}

/// Returns [`HANDLER_VARIABLES`] with their values.
fn handler_values(choice: &Choice<'_>, manifest: &Manifest) -> impl Iterator<Item = (&'static str, String)> {
    let file = base_name(&manifest.entry);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    // Without `handler` the shim finds the function by itself.
    let named = manifest.handler.as_deref();
    // A handler of AWS Lambda may have no dot. The shim joins the two with one.
    let named = named.map(|handler| handler.split_once('.').unwrap_or((handler, "")));
    let (module, function) = named.unwrap_or((stem, ""));
    // As the manifest names it, even if the one interpreter of the runtime serves all versions.
    let version = choice.version.as_ref().or(choice.unchecked.as_ref());
    let version = version.map_or("", String::as_str);
    let values = [
        module.to_owned(),
        function.to_owned(),
        // In seconds, as in Kubeless; 0 means no limit.
        manifest.limits.timeout.unwrap_or_default().as_secs_f64().to_string(),
        format!("{}{version}", manifest.runtime),
        manifest.limits.memory.to_string(),
        // No server listens on this port, but code for Kubeless expects a number.
        "8080".to_owned(),
    ];
    HANDLER_VARIABLES.into_iter().zip(values)
}
