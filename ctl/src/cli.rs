//! The command line: every verb, its options and its examples.

use crate::commands::{
    backup, bundle, cancel, completion, config, dead_letters, doctor, drain, enable, events, explain, history, invoke,
    list, log_level, logs, reload, replay, restore, result, runtimes, show, sizes, status, validate, verify, version,
};
use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// See and use the functions of fnd.
#[derive(Debug, Parser)]
#[command(name = "fndctl", version, propagate_version = false, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// Control socket [default: /run/fnd/control.sock].
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "FND_SOCKET",
        conflicts_with = "user"
    )]
    pub(crate) socket: Option<PathBuf>,

    /// Use your own fnd: $XDG_RUNTIME_DIR/fnd/control.sock.
    #[arg(long, global = true)]
    pub(crate) user: bool,

    /// Form of the output; json is the API's own body.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORM")]
    pub(crate) output: Format,

    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Forms of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, within the terminal's width.
    Table,
    /// For people, with more columns, as wide as it takes.
    Wide,
    /// The API's own body.
    Json,
    /// The same as YAML.
    Yaml,
    /// The bytes of a function, unchanged: of `invoke`, `result` and `logs` only.
    Raw,
}

const AFTER_HELP: &str = "\
Examples:
  fndctl status                              every function and how it last ran
  fndctl invoke hello -d '{\"name\": \"Ada\"}'   run it and print its result
  fndctl logs hello -f                       its output, as it comes
  fndctl history hello                       its runs, newest first
  fndctl explain oom                         what a reason, code or key means

Exit codes: 0 fine, 1 the function failed (`doctor`: it found an error), 2 usage, 3 no such thing, 4 fnd not reachable, 5 not allowed,
6 timeout, 7 busy, 8 invalid manifest.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show every function, or one, and how it last ran.
    Status(status::Args),
    /// List functions.
    List(list::Args),
    /// Show everything known of a function.
    Show(show::Args),
    /// Run a function and print its result.
    Invoke(invoke::Args),
    /// Show output of functions.
    Logs(logs::Args),
    /// Show what happened lately; with -f what happens.
    Events(events::Args),
    /// Show runs, newest first.
    History(history::Args),
    /// Print the result of a run.
    Result(result::Args),
    /// End a run that waits or is running.
    Cancel(cancel::Args),
    /// Run something again with the same payload.
    Replay(replay::Args),
    /// See, redrive or drop what failed for good.
    #[command(alias = "dead")]
    DeadLetters(dead_letters::Args),
    /// Let a function run again.
    Enable(enable::Args),
    /// Keep a function from running; what runs goes on.
    Disable(enable::Args),
    /// Judge files before they are dropped; needs no daemon.
    Validate(validate::Args),
    /// Read configuration and functions again; fails if a manifest is bad.
    Reload(reload::Args),
    /// List the runtimes.
    Runtimes(runtimes::Args),
    /// List the sizes.
    Sizes(sizes::Args),
    /// Finish what runs and accept nothing new.
    Drain(drain::Args),
    /// Take functions, configuration and state into one archive.
    Backup(backup::Args),
    /// Put back what `backup` took; fnd must not run.
    Restore(restore::Args),
    /// Look at the ledger and all else that fnd keeps, for damage and leftovers.
    Verify(verify::Args),
    /// Look at the machine for what fnd needs, and say what to do.
    Doctor(doctor::Args),
    /// Gather what a bug report needs into one archive, without secrets.
    Bundle(bundle::Args),
    /// Show or change which of fnd's own messages go out.
    LogLevel(log_level::Args),
    /// Explain a reason, an error code or a key.
    Explain(explain::Args),
    /// Show the effective configuration.
    Config(config::Args),
    /// Print the completion script of a shell.
    Completion(completion::Args),
    /// Show the versions of fndctl and fnd.
    Version(version::Args),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent_and_every_verb_teaches() {
        let mut command = super::Cli::command();
        command.build();
        command.clone().debug_assert();
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.contains(&format!("fndctl {}", verb.get_name())),
                "{} has no example",
                verb.get_name()
            );
        }
    }
}
