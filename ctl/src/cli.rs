//! The command line: every verb, its options and its examples.

use crate::commands::{
    audit, backup, binding, build, bundle, canary, cancel, cat, completion, config, dead_letters, deploy, diff, doctor,
    drain, edit, emit, enable, events, explain, history, home, import, invoke, kubeless, list, log_level, logs, mcp,
    nats, new, open, overview, releases, reload, remove, replay, report, restore, result, routes, run, runtimes,
    schedules, schema, secret, shell, show, sizes, state, status, top, validate, verify, version, wait, web, whoami,
};
use crate::groups::grouped;
use crate::lazy::Lazy;
use crate::output::Format;
use clap::{Args as _, Command, CommandFactory as _, Parser, Subcommand};
use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::path::PathBuf;

/// Run, inspect and manage the functions of fnd.
#[derive(Debug, Parser)]
#[command(name = NAME, version, propagate_version = false, max_term_width = WIDTH, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// Returns what parses a line of words, the first of which is the program. If a verb comes first, the others are left
    /// out: clap copies the global options for each verb that it knows, which takes a sixth of the time of
    /// `fndctl invoke`.
    pub(crate) fn command_for(words: &[OsString]) -> Command {
        // Clap answers this option as soon as it reads it, so no verb is needed. Making all of them takes most of the time.
        if words.get(1).is_some_and(|word| word == "--version" || word == "-V") {
            return Command::new(NAME).version(env!("CARGO_PKG_VERSION"));
        }
        // Behind an option the verb cannot be found without clap, since the option may have a value. Then clap gets all
        // verbs.
        let may_be_verb = |word: &&OsString| !word.as_encoded_bytes().starts_with(b"-");
        let verb = |word| {
            // To free the texts of all the other verbs would take longer than to send a request.
            let mut all = ManuallyDrop::new(Verb::augment_subcommands(Command::new(NAME)));
            all.find_subcommand_mut(word).map(std::mem::take)
        };
        let called = words.get(1).filter(may_be_verb).and_then(verb);
        called.map_or_else(
            || grouped(Self::command()),
            |verb| {
                let program = Command::new(NAME).max_term_width(WIDTH);
                Options::augment_args(program).subcommand(verb)
            },
        )
    }
}

/// Options before the verb. All but `hosts`, whose short name other options of verbs have, may follow it, too.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Path of fnd's control socket [default: /run/fnd/control.sock].
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        value_name = "PATH",
        env = "FND_SOCKET",
        conflicts_with = "user"
    )]
    pub(crate) socket: Option<PathBuf>,

    /// Use your own fnd (`fnd --user`), at $XDG_RUNTIME_DIR/fnd/control.sock.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) user: bool,

    /// Ask these machines over ssh, and print one table: `status`, `overview`, `history`, `dead-letters`, `report`.
    #[arg(short = 'H', long, value_name = "HOST,...", value_delimiter = ',', value_parser = crate::common::ssh::host)]
    pub(crate) hosts: Vec<String>,

    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// How to print.
#[derive(Debug, clap::Args)]
pub(crate) struct Printing {
    /// Print the result in this format.
    #[arg(short, long, global = true, help_heading = GLOBAL, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,

    /// Print tables without their first line.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) no_headers: bool,

    /// The same as `-o json`, as in other tools.
    #[arg(long, global = true, hide = true, conflicts_with = "output")]
    pub(crate) json: bool,

    /// Print the values of this jq expression for the JSON document; texts without quotes.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "EXPR")]
    pub(crate) jq: Option<String>,

    /// Print names, ids and results only: no other columns, no tips, no progress.
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub(crate) quiet: bool,

    /// Report progress in lines where standard error is no terminal.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) progress: bool,

    /// Print long texts without a pager.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) no_pager: bool,
}

const NAME: &str = "fndctl";

/// Columns of help texts on a wide terminal.
const WIDTH: usize = 100;

/// Heading of the options that every verb has: in its help they come after its own.
const GLOBAL: &str = "Global options";

const AFTER_HELP: &str = "\
Examples:
  fndctl status                              show every function and its last run
  fndctl invoke hello -d '{\"name\": \"Ada\"}'   run a function and print its result
  fndctl logs hello -f                       follow its output
  fndctl history hello                       list its runs, newest first
  fndctl explain oom                         explain a reason, a code or a key
  fndctl -H vm1,ada@vm2 status --failed      ask other machines over ssh

Exit codes:
  0  success
  1  the function failed, was cancelled or skipped; `doctor` or `verify` found a problem
  2  the command line is wrong
  3  no such function, run or key of the state
  4  fnd is not reachable
  5  not allowed
  6  timeout of the function or of the wait; the message says which
  7  busy: the queue is full or the rate is exceeded; `state`: the key has another version
  8  a manifest is invalid";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show functions and the last run of each.
    #[command(visible_alias = "ps")]
    Status(Lazy<status::Args>),
    /// Show what needs you, what runs, what comes next.
    Overview(Lazy<overview::Args>),
    /// List functions with runtimes, states and labels.
    #[command(visible_alias = "ls")]
    List(Lazy<list::Args>),
    /// Show all details of a function.
    #[command(visible_aliases = ["describe", "inspect"])]
    Show(Lazy<show::Args>),
    /// Print the code and the manifest of a function.
    Cat(Lazy<cat::Args>),
    /// Edit a function in your editor, check it, save it and show whether it serves.
    Edit(Lazy<edit::Args>),
    /// Show what functions use, live: CPU, memory, throttling, runs.
    #[command(alias = "stats")]
    Top(Lazy<top::Args>),
    /// Run a function and print its result.
    Invoke(Lazy<invoke::Args>),
    /// Open a shell that sees the machine as a function does, or run one command there.
    Shell(Lazy<shell::Args>),
    /// Offer functions as tools to an agent, over the Model Context Protocol.
    Mcp(Lazy<mcp::Args>),
    /// Send an event to the functions that subscribe to it.
    Emit(Lazy<emit::Args>),
    /// Run a function of a file without a daemon, and print its result.
    Run(Lazy<run::Args>),
    /// Show what functions printed.
    Logs(Lazy<logs::Args>),
    /// Show what functions printed, and new lines as they come: `logs -f`.
    #[command(hide = true)]
    Tail(Lazy<logs::Args>),
    /// Show recent events; with -f, new ones too.
    Events(Lazy<events::Args>),
    /// List runs, newest first.
    History(Lazy<history::Args>),
    /// List who did what, and what was refused, newest first.
    Audit(Lazy<audit::Args>),
    /// Report what ran, what failed and why, what did not run, and what used most.
    Report(Lazy<report::Args>),
    /// Print the result of a run.
    Result(Lazy<result::Args>),
    /// Wait until runs have ended, and end as they did.
    Wait(Lazy<wait::Args>),
    /// Cancel runs that are waiting or running.
    Cancel(Lazy<cancel::Args>),
    /// Repeat a run with the same payload.
    Replay(Lazy<replay::Args>),
    /// List, redrive or drop asynchronous runs that failed for good.
    #[command(alias = "dead")]
    DeadLetters(Lazy<dead_letters::Args>),
    /// Enable functions that were disabled.
    Enable(Lazy<enable::Args>),
    /// Disable functions: current runs finish, waiting ones are skipped.
    Disable(Lazy<enable::Args>),
    /// Start services that were stopped.
    #[command(after_help = "Example:\n  fndctl start disk")]
    Start(Lazy<enable::Args>),
    /// Stop services until they are started, also over a reboot.
    #[command(after_help = "Example:\n  fndctl stop disk 'queue/*'")]
    Stop(Lazy<enable::Args>),
    /// Restart services at once; give handlers new workers, each after its calls.
    #[command(after_help = "Example:\n  fndctl restart disk")]
    Restart(Lazy<enable::Args>),
    /// List the releases of a function: the versions of its file that are stored.
    #[command(
        visible_alias = "versions",
        after_help = "Examples:\n  fndctl releases hello\n  fndctl releases hello -o json"
    )]
    Releases(Lazy<releases::Args>),
    /// Let an earlier release serve until its file changes; without RELEASE the one before.
    #[command(
        visible_alias = "undo",
        after_help = "Examples:\n  fndctl rollback hello\n  fndctl rollback hello 3fa8"
    )]
    Rollback(Lazy<releases::HoldArgs>),
    /// Let a release serve until `unpin`, whatever its file becomes; without RELEASE the one that serves.
    #[command(after_help = "Examples:\n  fndctl pin hello\n  fndctl pin hello 3fa8")]
    Pin(Lazy<releases::HoldArgs>),
    /// End a pin or a rollback: the file of the function serves again.
    #[command(after_help = "Example:\n  fndctl unpin hello")]
    Unpin(Lazy<releases::Args>),
    /// Give a new release a share of the calls, all or none of them; without an option show it.
    Canary(Lazy<canary::Args>),
    /// Show what differs between two releases, in manifest and code.
    Diff(Lazy<diff::Args>),
    /// Install the dependencies of a function again if that failed, and wait until they are there.
    Build(Lazy<build::Args>),
    /// Upload a file, a directory or an archive as a function, and wait until fnd accepts it.
    Deploy(Lazy<deploy::Args>),
    /// Remove uploaded functions.
    #[command(aliases = ["rm", "delete"])]
    Remove(Lazy<remove::Args>),
    /// List the homes that a function has had, and hand one over.
    Home(Lazy<home::Args>),
    /// Write a new function that runs and explains itself; needs no daemon.
    New(Lazy<new::Args>),
    /// Write functions that do what files for other systems say; needs no daemon.
    Import(Lazy<import::Args>),
    /// Check functions and configuration for errors; needs no daemon.
    Validate(Lazy<validate::Args>),
    /// Read configuration and functions again; fails if a manifest is invalid.
    #[command(alias = "daemon-reload")]
    Reload(Lazy<reload::Args>),
    /// List the runtimes and their versions; install and remove interpreters.
    Runtimes(Lazy<runtimes::Args>),
    /// List schedules with their next runs; pause and resume them.
    #[command(visible_alias = "timers")]
    Schedules(Lazy<schedules::Args>),
    /// Show the connection to NATS and the messages of this node; end a claim by hand.
    Nats(Lazy<nats::Args>),
    /// List the routes of the public listener; say what would become of a request.
    Routes(Lazy<routes::Args>),
    /// Make, store, list and remove secrets of functions and of routes.
    Secret(Lazy<secret::Args>),

    /// Make, list and remove service bindings, which functions use to find databases and the like.
    Binding(Lazy<binding::Args>),
    /// Read and change the versioned values that functions share.
    State(Lazy<state::Args>),
    /// List the sizes: presets of limits.
    Sizes(Lazy<sizes::Args>),
    /// Serve the web page to a browser of yours, with your rights, until Ctrl-C.
    // Not made lazily: clap must know its `--socket` before it gives the global one to each verb.
    Web(web::Args),
    /// Open the web page of this machine, or over ssh of another one, in the browser.
    Open(Lazy<open::Args>),
    /// Stop accepting work and wait until running work has finished.
    Drain(Lazy<drain::Args>),
    /// Save functions, configuration and state in one archive, while fnd runs.
    Backup(Lazy<backup::Args>),
    /// Restore an archive of `backup`; fnd must be stopped.
    Restore(Lazy<restore::Args>),
    /// Check all state of fnd for damage and leftovers.
    Verify(Lazy<verify::Args>),
    /// Check whether the machine has what fnd needs, and say how to fix problems.
    Doctor(Lazy<doctor::Args>),
    /// Collect what a bug report needs in one archive, without secrets.
    Bundle(Lazy<bundle::Args>),
    /// Show or change the level of fnd's own log messages.
    LogLevel(Lazy<log_level::Args>),
    /// Explain a reason, an error code, a problem of the node, or a key of a manifest or of fnd.toml.
    Explain(Lazy<explain::Args>),
    /// Show the effective configuration.
    Config(Lazy<config::Args>),
    /// Print the JSON Schema of a manifest or of fnd.toml, for editors.
    Schema(Lazy<schema::Args>),
    /// Kubeless's command line: the lines of its Makefiles and documents work on this machine.
    Kubeless(Lazy<kubeless::Args>),
    /// Print the completion script for a shell.
    Completion(Lazy<completion::Args>),
    /// Show what you may do.
    Whoami(Lazy<whoami::Args>),
    /// Show the versions of fndctl, fnd and fnd-spawner.
    Version(Lazy<version::Args>),
}

#[cfg(test)]
mod tests {
    use super::{Cli, Verb};
    use crate::groups::{GROUPS, WITH_BYTES, WITH_PAGER, WITH_TABLE, WITHOUT_DAEMON, grouped};
    use clap::{Command, CommandFactory as _, FromArgMatches as _};
    use std::ffi::OsString;
    use std::path::Path;

    #[test]
    fn a_list_of_nothing_is_a_mistake_and_no_list_of_one() {
        for verb in [&["history"][..], &["audit"], &["dead-letters", "redrive", "f"]] {
            for (limit, is_fine) in [("1", true), ("0", false)] {
                let words: Vec<&str> = ["fndctl"].iter().chain(verb).copied().chain(["-n", limit]).collect();
                assert_eq!(
                    Cli::command().try_get_matches_from(words).is_ok(),
                    is_fine,
                    "{verb:?} -n {limit}"
                );
            }
        }
    }

    /// As systemd's programs have it: `-2h` is no option.
    #[test]
    fn a_time_may_begin_with_a_hyphen() {
        for verb in ["history", "logs", "report", "audit"] {
            let parsed = Cli::command().try_get_matches_from(["fndctl", verb, "--since", "-2h"]);
            assert!(parsed.is_ok(), "{verb}");
        }
    }

    #[test]
    fn the_socket_after_web_is_that_of_the_page() {
        for (words, control, page) in [
            (
                &["web", "--socket", "/page", "--control", "/fnd"][..],
                "/fnd",
                Some("/page"),
            ),
            (
                &["--socket", "/fnd", "web", "--socket", "/page"][..],
                "/fnd",
                Some("/page"),
            ),
            (&["--socket", "/fnd", "web"][..], "/fnd", None),
            (&["web", "--control", "/fnd"][..], "/fnd", None),
        ] {
            let words: Vec<OsString> = ["fndctl"].iter().chain(words).map(OsString::from).collect();
            let matches = Cli::command_for(&words).try_get_matches_from(&words).unwrap();
            let cli = Cli::from_arg_matches(&matches).unwrap();
            assert_eq!(cli.options.socket.as_deref(), Some(Path::new(control)), "{words:?}");
            let Verb::Web(args) = cli.verb else { panic!("{words:?}") };
            assert_eq!(args.listen.as_deref(), page.map(Path::new), "{words:?}");
        }
        for wrong in [&["--socket", "/a", "--port", "0"][..], &["--user", "--control", "/a"]] {
            let words = ["fndctl", "web"].iter().chain(wrong);
            assert!(Cli::command().try_get_matches_from(words).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_verb_has_the_same_help_alone_and_among_the_others() {
        let help = |mut command: Command, words: &[OsString]| {
            let error = command.try_get_matches_from_mut(words).expect_err("help was asked for");
            error.format(&mut command).to_string()
        };
        let all = Cli::command();
        for verb in all
            .get_subcommands()
            .flat_map(|verb| verb.get_name_and_visible_aliases())
        {
            let words = ["fndctl", verb, "--help"].map(OsString::from);
            let one = Cli::command_for(&words);
            assert_eq!(one.get_subcommands().count(), 1, "{verb}");
            assert_eq!(help(one, &words), help(Cli::command(), &words), "{verb}");
        }
        for first in ["--quiet", "help", "unknown"] {
            let whole = Cli::command_for(&["fndctl", first, "status"].map(OsString::from));
            assert_eq!(
                whole.get_subcommands().count(),
                all.get_subcommands().count(),
                "{first}"
            );
        }
    }

    #[test]
    fn the_version_needs_no_verb() {
        for option in ["--version", "-V"] {
            let words = ["fndctl", option].map(OsString::from);
            let text = |command: Command| {
                let error = command.try_get_matches_from(&words);
                error.expect_err("the version was asked for").to_string()
            };
            let short = Cli::command_for(&words);
            assert_eq!(short.get_subcommands().count(), 0, "{option}");
            assert_eq!(text(short), text(Cli::command()), "{option}");
        }
    }

    #[test]
    fn the_command_line_is_consistent_and_every_verb_has_an_example() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        let has_example = |verb: &Command, words: &str| {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("fndctl {words}")), "{words} has no example");
        };
        let others = |verb: &&Command| verb.get_name() != "help";
        for verb in command.get_subcommands().filter(others) {
            let name = verb.get_name();
            has_example(verb, name);
            // The words of Kubeless are explained there.
            for below in verb.get_subcommands().filter(others).filter(|_| name != "kubeless") {
                has_example(below, &format!("{name} {}", below.get_name()));
            }
        }
    }

    #[test]
    fn each_verb_that_is_shown_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut shown: Vec<&str> = shown.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.split(' ')).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
        assert_eq!(GROUPS.len(), 7);
    }

    #[test]
    fn the_lists_of_verbs_name_verbs() {
        let command = Cli::command();
        for list in [WITHOUT_DAEMON, WITH_TABLE, WITH_BYTES, WITH_PAGER] {
            for verb in list.split(' ') {
                let found = command.get_subcommands().find(|found| found.get_name() == verb);
                assert!(found.is_some(), "{verb}");
            }
        }
    }

    #[test]
    fn the_help_has_the_groups_and_fits_into_80_columns() {
        let help = grouped(Cli::command()).render_help().to_string();
        for (group, _) in GROUPS {
            assert!(help.contains(&format!("\n{group}:\n  ")), "{help}");
        }
        let lines = help.lines().skip_while(|line| *line != "See:");
        let wide: Vec<_> = lines
            .take_while(|line| *line != "Options:")
            .filter(|line| line.chars().count() > 80)
            .collect();
        assert!(wide.is_empty(), "{wide:?}");
    }

    #[test]
    fn no_line_of_the_help_ends_within_a_part_of_a_sentence() {
        let command = Cli::command();
        let help = grouped(command.clone()).render_help().to_string();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let start = format!("  {} ", verb.get_name());
            let shown = help.lines().find_map(|line| line.strip_prefix(start.as_str())).unwrap();
            let about = verb.get_about().unwrap().to_string();
            let rest = about.strip_prefix(shown.trim()).unwrap().trim_end_matches('.');
            assert!(rest.is_empty() || rest.starts_with([',', ':', ';']), "{about}");
        }
    }
}
