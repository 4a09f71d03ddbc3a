//! Advice for a command line of somebody who is used to systemctl, docker, gh or pueue. Verbs that mean the same here are
//! aliases in `cli`; this file names what to use where an alias would promise something else.
//!
//! Files:
//! - `options`: options of other tools, and arguments that are missing
//! - `quotes`: quotes that a shell has taken away

mod options;
mod quotes;

use crate::cli::{Cli, Verb};
use crate::common::quoted;
use crate::exit::CommandFailure;
use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Verbs of other tools, and what does that here.
const VERBS: &[(&str, &str)] = fnd_manifest::texts! {
    "exec call trigger": "`fndctl invoke F` runs a function and prints its result; `-d DATA` is its payload",
    "up": "`fndctl invoke F` runs a function now; `fndctl start F` starts a stopped service",
    "kill down terminate":
        "`fndctl cancel ID` ends a run, `fndctl cancel --all F` all runs of a function; `fndctl stop F` stops a service, \
         `fndctl disable F` new runs",
    "undrain uncordon": "`fndctl drain --cancel` ends a drain: fnd accepts and starts work again",
    "pause suspend mask": "`fndctl disable F` stops new runs of a function; current ones finish",
    "resume unpause unmask": "`fndctl enable F` enables a function that was disabled",
    "uninstall":
        "`fndctl remove F` removes an uploaded function; of another one delete the file (`fndctl show F` prints its path): fnd \
         notices by itself",
    "add create apply install upload push":
        "`fndctl deploy FILE` uploads a function; or save a file in a functions directory, such as /etc/fnd/functions: fnd notices \
         by itself; `fndctl new NAME --runtime R` writes one",
    "set": "`fndctl edit F` opens the file of a function, with its settings, in your editor",
    "retry rerun": "`fndctl replay ID` repeats a run; `fndctl dead-letters redrive` queues failed ones anew",
    "runs queue jobs": "`fndctl history` lists the runs, with `--state queued` the waiting ones",
    "view": "`fndctl show F` shows a function, `fndctl history --id ID` a run with its attempts",
    "is-active is-failed is-enabled list-units":
        "`fndctl status F` shows the state of a function, `fndctl status --failed` those that failed",
    "list-timers crontab cron": "`fndctl schedules` shows when each function runs next",
    "clean prune reset-failed clear":
        "`fndctl dead-letters drop` takes failed runs off their list; fnd deletes its history and output by itself \
         (`fndctl explain history.keep_for`)",
    "cordon": "`fndctl drain` finishes what runs and accepts nothing new; `fndctl drain --cancel` ends that",
    "watch":
        "`fndctl status --watch` shows the functions and prints them anew after each change, `fndctl top` what they use",
    "follow attach journal": "`fndctl logs F -f` prints new output as it comes",
    "check lint test": "`fndctl validate FILE` checks a function or a configuration",
    "get": "`fndctl list` lists functions, `fndctl show F` shows one; `fndctl state get KEY` prints a shared value",
    "sh ssh console enter":
        "`sudo fndctl shell F` opens a shell that sees the machine as the function does; `fndctl cat F` prints the files of a \
         function, `fndctl run FILE` runs a file at your terminal",
    "config-test configtest": "`fndctl validate` checks the configuration and all functions",
    "man": "`fndctl --help` lists the verbs, `fndctl VERB --help` explains one, `fndctl explain WORD` a word of a message",
    "failed failures errors": "`fndctl status --failed` shows functions that failed, `fndctl history --state failed` the runs",
    "login id": "`fndctl whoami` shows what you may do",
    "rename mv": "rename the file; `fndctl home` hands the files of the old name over to the new one",
    "update upgrade": "save the file anew, or upload it anew with `fndctl deploy FILE`: fnd replaces the version",
    "info ping": "`fndctl status` shows fnd and its functions, `fndctl doctor` checks the machine",
};

/// Verbs below a verb, and what does that here.
const VERBS_BELOW: &[(&str, &str)] = fnd_manifest::texts! {
    "secret get,secret show,secret cat,secret read,secret view":
        "fndctl prints no secret; `sudo fndctl secret list` shows names, `sudo fndctl secret new NAME --rotate` makes a new value",
    "secret add,secret create,secret put":
        "`sudo fndctl secret new NAME` makes a value, `sudo fndctl secret set NAME < FILE` stores one of yours",
    "binding add,binding create,binding set": "`sudo fndctl binding new NAME KEY=VALUE ...` makes a service binding",
    "dead-letters replay,dead-letters rerun,dead-letters requeue": "`fndctl dead-letters redrive` queues them anew",
    "dead-letters clear,dead-letters purge,dead-letters remove": "`fndctl dead-letters drop --all` takes all off the list",
    "schedules stop,schedules disable": "`fndctl schedules pause F` stops the schedules of a function",
    "schedules start,schedules enable,schedules unpause": "`fndctl schedules resume F` starts them again",
    "schedules add,schedules create,schedules set": "a schedule is in the manifest: `[[schedule]]` with `cron = \"0 3 * * *\"`",
    "routes add,routes create": "a route is in the manifest: `[[http]]` with `path` and `auth`",
    "runtimes add": "`sudo fndctl runtimes install NAME` installs an interpreter",
};

/// Returns advice for a command line that clap refuses; nothing where clap's own message fits.
pub(crate) fn advice(error: &clap::Error) -> Option<CommandFailure> {
    let verb = verb(error);
    // Kubeless's command line has the words and the messages of Kubeless.
    if verb.starts_with("kubeless") {
        return None;
    }
    match error.kind() {
        ErrorKind::UnknownArgument if !verb.is_empty() => options::unknown(error, &verb),
        ErrorKind::MissingRequiredArgument if !verb.is_empty() => options::missing(error, &verb),
        ErrorKind::InvalidSubcommand => no_verb(error, &verb),
        ErrorKind::ArgumentConflict => options::untyped_socket(error, &typed()),
        ErrorKind::InvalidValue => options::empty_socket(error, &typed()),
        _ => None,
    }
}

/// Returns the words of this command line.
fn typed() -> Vec<String> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    words.collect()
}

/// Returns the verb of a refused command line with the verb below it, as clap prints them in its line of usage.
fn verb(error: &clap::Error) -> String {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let usage = usage.unwrap_or_default();
    let words = usage.split_whitespace().skip_while(|word| *word != "fndctl").skip(1);
    let is_verb =
        |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') && !word.starts_with('-');
    words.take_while(is_verb).collect::<Vec<_>>().join(" ")
}

/// Returns advice for a verb that does not exist: of fndctl, or below one of its verbs.
fn no_verb(error: &clap::Error, above: &str) -> Option<CommandFailure> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let whole = format!("{above} {typed}");
    let words = if above.is_empty() { VERBS } else { VERBS_BELOW };
    let (_, instead) = words.iter().find(|(verbs, _)| {
        let mut verbs = verbs.split(if above.is_empty() { ' ' } else { ',' });
        verbs.any(|verb| verb == whole.trim())
    })?;
    let program = ["fndctl", above].join(" ");
    Some(CommandFailure::usage(format!("{} has no verb `{typed}`", program.trim_end())).help(*instead))
}

/// Returns the failure of an `invoke` that has words after the name of the function, with the command line that sends
/// them as the payload.
pub(crate) fn payload_without_option(words: &[String]) -> CommandFailure {
    // The shell has taken quotes away, so several words were one payload.
    let payload = words.join(" ");
    let typed: Vec<String> = std::env::args().collect();
    if let Some(whole) = unquoted(&typed, words) {
        let json = quotes::restored(&whole).unwrap_or_else(|| "{\"name\": \"Ada\"}".to_owned());
        let message = format!("the shell has taken the quotes of the payload away: `{whole}`");
        return CommandFailure::usage(message).help(format!("fndctl invoke F -d {}", quoted(&json)));
    }
    let help = match corrected(&typed, words) {
        Some(line) => line.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        None => format!("fndctl invoke F -d {}", quoted(&payload)),
    };
    CommandFailure::usage(format!("the payload `{payload}` needs `-d` before it")).help(help)
}

/// Returns JSON that a shell has split into words, with the word before it: `{name:` and `Ada}`.
fn unquoted(typed: &[String], words: &[String]) -> Option<String> {
    let mut places = 1..typed.len();
    let place = places.find(|place| typed.get(*place..).is_some_and(|rest| rest.starts_with(words)))?;
    let whole = format!("{} {}", typed.get(place - 1)?, words.join(" "));
    let is_json = whole.starts_with(['{', '[']) && whole.ends_with(['}', ']']);
    is_json.then_some(whole)
}

/// Returns the command line with the words as the payload. The words may occur in it more than once, so each place is
/// tried until the line parses.
fn corrected(typed: &[String], words: &[String]) -> Option<Vec<String>> {
    (1..typed.len()).find_map(|place| {
        let (before, rest) = typed.split_at(place);
        let after = rest.strip_prefix(words)?;
        let data = ["-d".to_owned(), words.join(" ")];
        let line = [before, &data, after].concat();
        match Cli::try_parse_from(&line).ok()?.verb {
            Verb::Invoke(args) if args.words.is_empty() => {
                Some([&["fndctl".to_owned()], line.get(1..).unwrap_or_default()].concat())
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn no_advice_is_about_a_verb_that_exists() {
        let mut command = Cli::command();
        // The verbs below a verb are there when it is built.
        command.build();
        for verb in VERBS.iter().flat_map(|(verbs, _)| verbs.split(' ')) {
            assert!(command.find_subcommand(verb).is_none(), "{verb}");
        }
        for words in VERBS_BELOW.iter().flat_map(|(verbs, _)| verbs.split(',')) {
            let (above, verb) = words.split_once(' ').unwrap();
            let above = command.find_subcommand(above).unwrap();
            assert!(above.find_subcommand(verb).is_none(), "{words}");
        }
    }

    #[test]
    fn a_socket_that_nobody_typed_is_that_of_the_variable() {
        let refused = |words: &[&str]| Cli::command().try_get_matches_from(words).unwrap_err();
        for words in [
            ["fndctl", "web", "--user", "--control", "/a"],
            ["fndctl", "status", "--user", "--socket", "/a"],
        ] {
            let (error, words) = (refused(&words), words.map(str::to_owned));
            assert!(options::untyped_socket(&error, &words).is_none(), "{words:?}");
            let failure = options::untyped_socket(&error, &words[..3]).unwrap();
            assert!(failure.message.contains("`FND_SOCKET`"), "{}", failure.message);
        }
        let other = refused(&["fndctl", "web", "--socket", "/a", "--port", "0"]);
        assert!(options::untyped_socket(&other, &[]).is_none());
    }

    #[test]
    fn an_empty_socket_that_nobody_typed_is_that_of_the_variable() {
        for words in [["fndctl", "web", "--control", ""], ["fndctl", "status", "--socket", ""]] {
            let error = Cli::command().try_get_matches_from(words).unwrap_err();
            let words = words.map(str::to_owned);
            assert!(options::empty_socket(&error, &words).is_none(), "{words:?}");
            let failure = options::empty_socket(&error, &words[..2]).unwrap();
            assert!(failure.message.contains("`FND_SOCKET` is empty"), "{}", failure.message);
        }
        let other = Cli::command().try_get_matches_from(["fndctl", "status", "-o", ""]);
        assert!(options::empty_socket(&other.unwrap_err(), &[]).is_none());
    }

    #[test]
    fn the_command_line_is_corrected_wherever_the_payload_stands() {
        for (typed, words, expected) in [
            ("fndctl invoke hello {}", "{}", "fndctl invoke hello -d '{}'"),
            (
                "/usr/bin/fndctl invoke hello 5 --timeout 5",
                "5",
                "fndctl invoke hello -d 5 --timeout 5",
            ),
            (
                "fndctl invoke hello --timeout 5 5",
                "5",
                "fndctl invoke hello --timeout 5 -d 5",
            ),
            (
                "fndctl invoke hello {a: b}",
                "{a: b}",
                "fndctl invoke hello -d '{a: b}'",
            ),
            ("fndctl invoke hello it's", "it's", r"fndctl invoke hello -d 'it'\''s'"),
        ] {
            let split = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let line = corrected(&split(typed), &split(words)).unwrap();
            let line: Vec<String> = line.iter().map(|word| quoted(word)).collect();
            assert_eq!(line.join(" "), expected);
        }
    }
}
