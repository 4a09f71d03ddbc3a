//! Options of other tools, and arguments that are missing: the command line to type.

use crate::exit::CommandFailure;
use clap::error::{ContextKind, ContextValue};

/// Options of other tools by the verb at which they are typed, and what does that here. `*` is any verb.
const OPTIONS: &[(&str, &str)] = fnd_manifest::texts! {
    "history --failed --failures --errors": "`fndctl history --state failed` lists the runs that failed",
    "history --success --ok": "`fndctl history --state succeeded` lists the runs that succeeded",
    "history --running": "`fndctl history --state running` lists the runs that run now",
    "logs --unit -u --function": "`fndctl logs F` prints the output of one function",
    "logs --run --invocation": "`fndctl logs --id ID` prints the output of one run",
    "logs --error --errors --priority -p": "`fndctl history --state failed` lists failed runs, `fndctl logs --id ID` prints the output of one",
    "list -n --limit --tail": "`fndctl list` lists all functions; `fndctl list 'web/*'` those of a pattern",
    "list -a --all": "`fndctl list` lists all functions, the disabled ones too",
    "status -a --all": "`fndctl status` shows all functions",
    "invoke --payload --body --json-data --input": "`fndctl invoke F -d JSON` sends a payload, `-d @FILE` a file",
    "invoke --background --detach --no-wait": "`fndctl invoke F --async` queues the run and prints its id",
    "invoke --sync --wait": "`fndctl invoke F` waits for the result without an option",
    "invoke --delay --after": "`fndctl invoke F --in 10m` starts the run later",
    "invoke --env -e": "a run gets its payload (`-d`); variables are in `[env]` of the manifest",
    "new --lang --language --template": "`fndctl new NAME --runtime python` writes a function",
    "deploy --runtime --handler --env --memory --timeout":
        "settings are in the manifest: `NAME.toml` beside the file, or a block `# /// fnd` in it",
    "cancel --force -f -9": "`fndctl cancel ID` ends the run; after `limits.grace` fnd kills what is left",
    "remove -f --force": "`fndctl remove F --yes` removes an upload without a question",
    "* --format -F --template": "`-o json`, `-o yaml`, `-o wide` and `-o name` are the formats, `--jq EXPR` prints a value",
    "* --verbose -v --debug": "`-o wide` prints more; `fndctl log-level debug` is about fnd's own messages",
    "* --host -H --context --kubeconfig --namespace":
        "`fndctl -H vm1,vm2 status` asks other machines (the option comes before the verb), `ssh HOST fndctl ...` runs any verb on one; groups are \
         `GROUP/NAME`",
    "* --no-color --no-colour": "`NO_COLOR=1 fndctl ...` prints without colours",
    "* --watch -w": "`fndctl status --watch` prints the functions anew after each change, `fndctl logs -f` follows output",
    "* -f --follow": "`fndctl logs -f` follows output, `fndctl events -f` events, `fndctl status --watch` states",
};

/// The options that have the control socket. Their variable is `FND_SOCKET`.
const SOCKET: [&str; 2] = ["--socket", "--control"];

/// Arguments that are no option, by the verb that they follow, and what does that here.
const ARGUMENTS: &[(&str, &str)] = fnd_manifest::texts! {
    "secret set":
        "the value comes from standard input, so that neither the shell's history nor `ps` shows it: \
         `sudo fndctl secret set NAME < FILE`, or without `< FILE` to type it",
    "secret new": "`fndctl secret new NAME` makes the value; one of yours is stored by `fndctl secret set NAME < FILE`",
    "secret encrypt": "the value comes from standard input: `sudo fndctl secret encrypt NAME < FILE`",
    "emit": "the data of an event needs `-d` before it: `fndctl emit TYPE -d '{\"id\": 1}'`",
    "shell": "a command stands after `--`: `sudo fndctl shell F -- ls -l`",
    "show": "`fndctl show F` shows one function; `fndctl status F G` shows several",
};

/// Returns advice for an option or an argument that a verb does not have.
pub(super) fn unknown(error: &clap::Error, verb: &str) -> Option<CommandFailure> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let option = typed.split('=').next().unwrap_or_default();
    if !option.starts_with('-') {
        let (_, instead) = ARGUMENTS.iter().find(|(of, _)| *of == verb)?;
        // A word after the name of a secret may be its value, which no message shows.
        let is_secret = verb.starts_with("secret");
        let typed = if is_secret { "more words" } else { option };
        let failure = CommandFailure::usage(format!("`fndctl {verb}` takes no `{typed}` there"));
        return Some(failure.help(*instead));
    }
    let mut row = OPTIONS.iter().filter_map(|(words, instead)| {
        let (of, options) = words.split_once(' ')?;
        let is_here = of == "*" || of == verb;
        (is_here && options.split(' ').any(|other| other == option)).then_some(*instead)
    });
    let near = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(near)) => Some(format!("did you mean `{near}`?")),
        _ => None,
    };
    let help = row.next().map(str::to_owned).or(near);
    let help = help.unwrap_or_else(|| format!("`fndctl {verb} --help` lists its options"));
    Some(CommandFailure::usage(format!("`fndctl {verb}` has no option `{option}`")).help(help))
}

/// Returns advice for a command line that lacks an argument. clap would also print options that the environment sets.
pub(super) fn missing(error: &clap::Error, verb: &str) -> Option<CommandFailure> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let missing: Vec<String> = missing.iter().map(|argument| format!("`{argument}`")).collect();
    let failure = CommandFailure::usage(format!("`fndctl {verb}` needs {}", missing.join(" and ")));
    Some(failure.help(format!("`fndctl {verb} --help` has examples")))
}

/// Returns advice for a command line `typed` without a socket, while the environment names an empty one. clap would name an option that
/// nobody has typed.
pub(super) fn empty_socket(error: &clap::Error, typed: &[String]) -> Option<CommandFailure> {
    let option = error.get(ContextKind::InvalidArg)?.to_string();
    let option = option.split(' ').next().filter(|option| SOCKET.contains(option))?;
    let is_empty =
        matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    if !is_empty || is_typed(typed, option) {
        return None;
    }
    let message = "the variable `FND_SOCKET` is empty: it names the control socket of fnd";
    Some(CommandFailure::usage(message).help("run `unset FND_SOCKET` for the usual one, or set it to a path"))
}

/// Returns advice for a command line `typed` with `--user` and without a socket, while the environment names one. clap would name an
/// option that nobody has typed.
pub(super) fn untyped_socket(error: &clap::Error, typed: &[String]) -> Option<CommandFailure> {
    let conflict = [ContextKind::InvalidArg, ContextKind::PriorArg].map(|kind| error.get(kind));
    let conflict: Vec<String> = conflict.into_iter().flatten().map(ToString::to_string).collect();
    let is_named = |option: &str| conflict.iter().any(|text| text.split(' ').next() == Some(option));
    let socket = SOCKET.into_iter().find(|option| is_named(option))?;
    if !is_named("--user") || is_typed(typed, socket) {
        return None;
    }
    let message = "`--user` means your own fnd, and the variable `FND_SOCKET` names a socket, too";
    Some(CommandFailure::usage(message).help("leave `--user` out, or run `unset FND_SOCKET` first"))
}

/// Returns whether a command line has an option.
fn is_typed(typed: &[String], option: &str) -> bool {
    typed.iter().any(|word| word.split('=').next() == Some(option))
}
