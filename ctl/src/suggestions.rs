//! Advice for a command line of somebody who is used to systemctl, docker, gh or pueue. Verbs that mean the same here are
//! aliases in `cli`; this file names what to use where an alias would promise something else.

use crate::cli::{Cli, Verb};
use crate::common::quoted;
use crate::exit::CommandFailure;
use clap::Parser as _;
use clap::error::{ContextKind, ContextValue};

/// Verbs of other tools, and what does that here.
const VERBS: &[(&str, &str)] = &[
    (
        "exec call trigger",
        "`fndctl invoke F` runs a function and prints its result; `-d DATA` is its payload",
    ),
    (
        "start up",
        "`fndctl invoke F` runs a function now; `fndctl enable F` enables a disabled function or service",
    ),
    (
        "stop kill down terminate",
        "`fndctl cancel ID` ends a run, `fndctl cancel --all F` all runs of a function; `fndctl disable F` stops new ones",
    ),
    (
        "restart",
        "`fndctl cancel --all F` restarts a service at once; a changed file replaces the warm workers of a handler; a script \
         starts anew for each run",
    ),
    (
        "undrain uncordon",
        "`fndctl drain --cancel` ends a drain: fnd accepts and starts work again",
    ),
    (
        "pause suspend mask",
        "`fndctl disable F` stops new runs of a function; current ones finish",
    ),
    (
        "resume unpause unmask",
        "`fndctl enable F` enables a function that was disabled",
    ),
    (
        "uninstall",
        "`fndctl remove F` removes an uploaded function; of another one delete the file (`fndctl show F` prints its path): fnd \
         notices by itself",
    ),
    (
        "add create apply install upload push",
        "`fndctl deploy FILE` uploads a function; or save a file in a functions directory, such as /etc/fnd/functions: fnd notices \
         by itself; `fndctl new NAME --runtime R` writes one",
    ),
    (
        "set",
        "`fndctl edit F` opens the file of a function, with its settings, in your editor",
    ),
    (
        "retry rerun",
        "`fndctl replay ID` repeats a run; `fndctl dead-letters redrive` queues failed ones anew",
    ),
    (
        "runs queue jobs",
        "`fndctl history` lists the runs, with `--state queued` the waiting ones",
    ),
    (
        "view",
        "`fndctl show F` shows a function, `fndctl history --id ID` a run with its attempts",
    ),
    (
        "is-active is-failed is-enabled list-units",
        "`fndctl status F` shows the state of a function, `fndctl status --failed` those that failed",
    ),
    (
        "list-timers crontab cron",
        "`fndctl schedules` shows when each function runs next",
    ),
    (
        "clean prune reset-failed clear",
        "`fndctl dead-letters drop` takes failed runs off their list; fnd deletes its history and output by itself \
         (`fndctl explain history.keep_for`)",
    ),
    (
        "cordon",
        "`fndctl drain` finishes what runs and accepts nothing new; `fndctl drain --cancel` ends that",
    ),
    (
        "watch",
        "`fndctl status --watch` shows the functions and prints them anew after each change, `fndctl top` what they use",
    ),
    (
        "follow attach journal",
        "`fndctl logs F -f` prints new output as it comes",
    ),
    (
        "check lint test",
        "`fndctl validate FILE` checks a function or a configuration",
    ),
    (
        "info ping",
        "`fndctl status` shows fnd and its functions, `fndctl doctor` checks the machine",
    ),
];

/// Returns advice for a command line that clap refuses; nothing where clap's own message fits.
pub(crate) fn advice(error: &clap::Error) -> Option<CommandFailure> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    // `dead-letters` and `kubeless` have verbs of their own.
    let usage = error
        .get(ContextKind::Usage)
        .map(ToString::to_string)
        .unwrap_or_default();
    if usage.contains("dead-letters") || usage.contains("kubeless") {
        return None;
    }
    let (_, instead) = VERBS
        .iter()
        .find(|(verbs, _)| verbs.split(' ').any(|verb| verb == typed))?;
    Some(CommandFailure::usage(format!("fndctl has no verb `{typed}`")).help(*instead))
}

/// Returns the failure of an `invoke` that has words after the name of the function, with the command line that sends
/// them as the payload.
pub(crate) fn payload_without_option(words: &[String]) -> CommandFailure {
    // The shell has taken quotes away, so several words were one payload.
    let payload = words.join(" ");
    let typed: Vec<String> = std::env::args().collect();
    let help = match corrected(&typed, words) {
        Some(line) => line.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        None => format!("fndctl invoke F -d {}", quoted(&payload)),
    };
    CommandFailure::usage(format!("the payload `{payload}` needs `-d` before it")).help(help)
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
        let command = Cli::command();
        for verb in VERBS.iter().flat_map(|(verbs, _)| verbs.split(' ')) {
            assert!(command.find_subcommand(verb).is_none(), "{verb}");
        }
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
