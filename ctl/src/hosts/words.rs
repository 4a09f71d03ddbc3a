//! The command line for the fndctl of another machine, from the one that clap has parsed here.

use clap::error::{Error, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// Returns the words of the same verb with the same options. How to print is decided on this machine, so the other one
/// prints JSON.
///
/// # Errors
/// The command line has an option that is about this machine.
pub(crate) fn words(program: &Command, matches: &ArgMatches) -> Result<Vec<String>, Error> {
    // The variable FND_SOCKET is about this machine, too, but nobody means it here.
    if is_typed(matches, "socket") {
        let message = "`--socket` is a path of this machine, and `-H` asks other ones";
        return Err(Error::raw(ErrorKind::ArgumentConflict, message));
    }
    let mut words = ["fndctl", "-o", "json"].map(str::to_owned).to_vec();
    words.extend(matches.get_flag("user").then(|| "--user".to_owned()));
    add_verb(program, matches, &mut words);
    Ok(words)
}

fn is_typed(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Adds a verb, and the verb below it.
fn add_verb(command: &Command, matches: &ArgMatches, words: &mut Vec<String>) {
    let Some((name, matches)) = matches.subcommand() else {
        return;
    };
    let Some(command) = command.find_subcommand(name) else {
        return;
    };
    words.push(name.to_owned());
    let own = |argument: &&Arg| !argument.is_global_set() && is_typed(matches, argument.get_id().as_str());
    let (arguments, options): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(own)
        .partition(|argument| argument.is_positional());
    for option in options {
        add_option(option, matches, words);
    }
    if !arguments.is_empty() {
        // A word after it is no option, whatever it begins with.
        words.push("--".to_owned());
    }
    for argument in arguments {
        words.extend(occurrences(argument, matches).into_iter().flatten());
    }
    add_verb(command, matches, words);
}

/// Adds an option with its values, as one word each: so a value may begin with a hyphen.
fn add_option(option: &Arg, matches: &ArgMatches, words: &mut Vec<String>) {
    let name = option.get_long().unwrap_or_else(|| option.get_id().as_str());
    for values in occurrences(option, matches) {
        if values.is_empty() || !option.get_action().takes_values() {
            words.push(format!("--{name}"));
        } else {
            words.extend(values.iter().map(|value| format!("--{name}={value}")));
        }
    }
}

/// Returns the values of each time that an argument was typed.
fn occurrences(argument: &Arg, matches: &ArgMatches) -> Vec<Vec<String>> {
    let typed = matches.get_raw_occurrences(argument.get_id().as_str());
    typed
        .into_iter()
        .flatten()
        .map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn the_other_machine_gets_the_options_of_the_verb_and_prints_json() {
        for (typed, expected) in [
            (&["status"][..], "status"),
            (&["-q", "ps", "--failed", "-o", "wide"], "status --failed"),
            (
                &["status", "web/*", "-l", "a=b", "-lc=d", "hello"],
                "status --label=a=b --label=c=d -- web/* hello",
            ),
            (&["--user", "overview", "--no-headers"], "--user overview"),
            (
                &["history", "-n5", "--since", "-2h", "f"],
                "history --since=-2h --limit=5 -- f",
            ),
            (&["history", "--last", "--jq", ".hosts"], "history --last"),
            (&["history", "--last", "f"], "history --last=f"),
            (&["dead-letters"], "dead-letters"),
            (
                &["dead", "list", "f", "--reason", "oom"],
                "dead-letters list --reason=oom -- f",
            ),
            // The default value of `--since` is that of the other machine.
            (&["report"], "report"),
        ] {
            let mut command = Cli::command();
            let line = ["fndctl", "-H", "vm1"].iter().chain(typed);
            let matches = command.try_get_matches_from_mut(line).unwrap();
            let words = words(&command, &matches).unwrap();
            assert_eq!(words.join(" "), format!("fndctl -o json {expected}"), "{typed:?}");
        }
        let mut command = Cli::command();
        let line = ["fndctl", "-H", "vm1", "--socket", "/x", "status"];
        let matches = command.try_get_matches_from_mut(line).unwrap();
        assert!(words(&command, &matches).is_err());
    }
}
