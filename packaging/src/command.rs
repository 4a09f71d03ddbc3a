//! Writes a command line as sections of its man page, from the definition by which the program parses it.

use crate::roff::ManPage;
use clap::{Arg, Command};

/// Writes synopsis, description and options of a program, and its verbs, if it has any.
pub(crate) fn write(page: &mut ManPage, mut command: Command) {
    // Only `build` gives global options to the verbs, and full names for their usage.
    command.build();
    page.section("Synopsis");
    page.paragraph(&usage(&mut command.clone()));
    page.section("Description");
    about(page, &command);
    page.section("Options");
    options(page, &command, |_| true);
    let verbs: Vec<&Command> = command.get_subcommands().filter(|verb| shown(verb)).collect();
    if !verbs.is_empty() {
        page.section("Verbs");
    }
    for verb in verbs {
        // A heading is bold as a whole, so its code needs no marks.
        page.part(&usage(&mut verb.clone()).replace('`', ""));
        about(page, verb);
        // The options of all verbs were written above.
        options(page, verb, |option| !option.is_global_set());
        help(page, verb);
    }
    help(page, &command);
}

fn shown(verb: &Command) -> bool {
    !verb.is_hide_set() && verb.get_name() != "help"
}

/// Returns the usage with the program's name bold.
fn usage(command: &mut Command) -> String {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    match usage.strip_prefix(name) {
        Some(rest) => format!("`{name}`{rest}"),
        None => usage.to_owned(),
    }
}

fn about(page: &mut ManPage, command: &Command) {
    let about = command.get_long_about().or_else(|| command.get_about());
    for paragraph in about.map(ToString::to_string).unwrap_or_default().split("\n\n") {
        page.paragraph(paragraph);
    }
}

fn options(page: &mut ManPage, command: &Command, wanted: impl Fn(&Arg) -> bool) {
    for argument in command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && wanted(argument))
    {
        // Every program has these two, and `--help` explains them.
        if ["help", "version"].contains(&argument.get_id().as_str()) {
            continue;
        }
        let help = argument.get_long_help().or_else(|| argument.get_help());
        page.item(&term(argument), &help.map(ToString::to_string).unwrap_or_default());
        for value in argument.get_possible_values().iter().filter(|_| takes_value(argument)) {
            let help = value.get_help().map(|help| format!(": {help}")).unwrap_or_default();
            page.more(&format!("`{}`{help}", value.get_name()));
        }
        let defaults: Vec<_> = argument
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy())
            .collect();
        if takes_value(argument) && !defaults.is_empty() {
            page.more(&format!("Default: `{}`", defaults.join(" ")));
        }
        if let Some(variable) = argument.get_env() {
            page.more(&format!("Also as variable `{}`.", variable.to_string_lossy()));
        }
    }
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_num_args().is_some_and(|number| number.takes_values())
}

/// Returns `-o, --output FORMAT`.
fn term(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("`-{short}`"));
    let long = argument.get_long().map(|long| format!("`--{long}`"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    let names = argument.get_value_names().unwrap_or_default();
    let value = names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" ");
    match (flags.is_empty(), takes_value(argument)) {
        (true, _) => value,
        (false, true) => format!("{} {value}", flags.join(", ")),
        (false, false) => flags.join(", "),
    }
}

/// Writes the text after the options of `--help`: blocks under a heading such as `Examples:` unchanged, else
/// paragraphs.
fn help(page: &mut ManPage, command: &Command) {
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    for block in help.map(ToString::to_string).unwrap_or_default().split("\n\n") {
        match block.split_once(":\n") {
            Some((title, lines)) => {
                page.paragraph(&format!("{title}:"));
                let indent = lines.len() - lines.trim_start().len();
                page.verbatim(lines.lines().map(|line| line.get(indent..).unwrap_or_default()));
            }
            None if !block.is_empty() => page.paragraph(block),
            None => {}
        }
    }
}
