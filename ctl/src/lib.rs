//! `fndctl`, the client of fnd: it sends requests to the control socket and prints the answers. Verbs that need no daemon
//! use the daemon's own code and programs. So it decides nothing.
//!
//! Files:
//! - `bin`: `main` of fndctl
//! - `cli`: the command line
//! - `client`: requests to the control socket
//! - `commands`: the verbs
//! - `common`: what several verbs share
//! - `context`: the values that every verb needs
//! - `exit`: exit codes and failures
//! - `fuzzing`: what the fuzzer may call
//! - `groups`: lists of verbs: the groups of the help, what verbs need and print
//! - `health`: what is wrong with the machine, the files and the state
//! - `hosts`: one verb on several machines, over ssh
//! - `interpreters`: interpreters that fndctl installs
//! - `lazy`: options of verbs, made when they are needed
//! - `local`: places and a judge for verbs that need no daemon
//! - `output`: the only place that prints
//! - `secrets`: files of secrets
//! - `suggestions`: advice for verbs of other tools
//! - `text`: instants, durations and sizes for people
//! - `upload`: uploads of functions
//!
//! `cli` and this file know the verbs. A verb knows no other verb and no command line: what verbs share lies in the other
//! folders, which know no verb.

mod cli;
mod client;
mod commands;
mod common;
mod context;
mod exit;
#[cfg(fuzzing)]
pub mod fuzzing;
mod groups;
mod health;
mod hosts;
mod interpreters;
mod lazy;
mod local;
mod output;
mod secrets;
mod suggestions;
mod text;
mod upload;

use clap::{CommandFactory as _, FromArgMatches as _};
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;
use cli::{Cli, Options, Printing, Verb};
use client::Client;
use commands::kubeless::PROGRAM;
use context::Context;
use exit::{CommandFailure, Exit};
use groups::lists;
use hosts::{HostCommand, HostView};
use lazy::Lazy;
use output::{ColorChoice, Format, Jq, Output};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

/// The control socket of an installed system.
const SYSTEM_SOCKET: &str = "/run/fnd/control.sock";

/// Returns the command line for the man page. The options of verbs are there when it is built.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// The variable by which the scripts of [`completion`] ask for candidates.
const COMPLETE: &str = "FNDCTL_COMPLETE";

/// Returns the completion script for a shell: `bash`, `elvish`, `fish`, `powershell` or `zsh`.
///
/// # Errors
/// The shell is another one.
pub fn completion(shell: &str) -> io::Result<Vec<u8>> {
    completion_of("fndctl", shell)
}

/// Returns the completion script of the program under one of its names.
fn completion_of(program: &str, shell: &str) -> io::Result<Vec<u8>> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or(io::ErrorKind::Unsupported)?;
    completer.write_registration(COMPLETE, program, program, program, &mut script)?;
    if shell == "zsh" {
        // zsh loads the script as the function `_fndctl` and calls it for the first completion.
        let call =
            format!("\nif [ \"$funcstack[1]\" = _{program} ]; then _clap_dynamic_completer_{program} \"$@\"; fi\n");
        script.extend(call.into_bytes());
    }
    Ok(script)
}

/// Returns the JSON Schemas for editors, by the names of their files.
#[must_use]
pub fn schemas() -> [(&'static str, String); 2] {
    use fnd_manifest::json_schema::SchemaFile;
    [
        ("manifest.json", SchemaFile::Manifest),
        ("config.json", SchemaFile::Configuration),
    ]
    .map(|(name, file)| (name, commands::schema::text(file)))
}

/// Runs the command line of the process and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let program = words.first().map(Path::new).and_then(Path::file_name);
    let as_kubeless = program.is_some_and(|name| name == PROGRAM);
    let command = if as_kubeless { kubeless } else { Cli::command };
    // Completion comes before parsing: a shell passes an unfinished command line, which the parser would refuse.
    let completing = CompleteEnv::with_factory(command).var(COMPLETE);
    match completing.try_complete(words.clone(), std::env::current_dir().ok().as_deref()) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => return refused(&error),
    }
    if as_kubeless {
        // Under the name `kubeless` the words are those that follow `fndctl kubeless`.
        words.splice(..1, ["fndctl", PROGRAM].map(OsString::from));
    }
    if words.get(1).is_some_and(|verb| verb == PROGRAM) {
        // Kubeless's name of the option; `--out` of other verbs is a directory.
        // Words after `--` are no options of fndctl.
        let own = words.iter_mut().take_while(|word| *word != "--");
        own.filter(|word| *word == "--out")
            .for_each(|word| *word = "--output".into());
    }
    let mut command = Cli::command_for(&words);
    let parsed = command.try_get_matches_from_mut(words).and_then(|mut matches| {
        let verb = matches.subcommand_name().unwrap_or_default().to_owned();
        let is_remote = matches.contains_id("hosts");
        let remote = is_remote.then(|| hosts::words(&command, &matches)).transpose()?;
        let cli = Cli::from_arg_matches_mut(&mut matches)?;
        Ok((verb, remote.unwrap_or_default(), cli))
    });
    let (verb, remote, cli) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refused(&error.format(&mut command)),
    };
    // The process ends soon. To free the many texts of a command line would take longer than to send a request.
    std::mem::forget(command);
    let exit = run(&verb, remote, cli).unwrap_or_else(|failure| {
        output::failure(&failure);
        failure.exit
    });
    exit.into()
}

/// Returns the command line of the program under the name `kubeless`, for completions.
fn kubeless() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    let own = command.find_subcommand(PROGRAM).cloned();
    own.unwrap_or(command).bin_name(PROGRAM)
}

/// Prints why clap refuses a command line, or the help that was asked for, and returns the exit code.
fn refused(error: &clap::Error) -> ExitCode {
    if let Some(failure) = suggestions::advice(error) {
        output::failure(&failure);
        return failure.exit.into();
    }
    // An error is ignored: there is no other place to report that the stream is closed.
    let _ = error.print();
    u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8).into()
}

/// Runs a verb, which has this name; with `-H` its words on other machines.
fn run(name: &str, words: Vec<String>, cli: Cli) -> Result<Exit, CommandFailure> {
    let Options {
        socket,
        user,
        hosts,
        printing,
    } = cli.options;
    let needs_socket = match &cli.verb {
        _ if !hosts.is_empty() => false,
        Verb::Kubeless(args) => args.needs_daemon(),
        _ => !lists(groups::WITHOUT_DAEMON, name),
    };
    let context = Context {
        client: Client::new(self::socket(socket, user && needs_socket)?, user),
        out: Output::new(wanted(&printing, name, &cli.verb)?),
        user,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandFailure::failed(format!("failed to start: {error}")))?;
    let done = runtime.block_on(async {
        let done = if hosts.is_empty() {
            perform(cli.verb, &context).await
        } else {
            let command = HostCommand { hosts, words };
            hosts::run(&context, &command, host_view(&cli.verb)?).await
        };
        match done {
            Err(failure) => Err(common::names::suggest(&context, failure).await),
            done => done,
        }
    });
    // Output that was printed before a failure is shown, too, so the pager starts before the failure is returned.
    let shown = context.out.finish();
    done.and_then(|exit| exit.after(shown))
}

/// Returns how a verb prints.
fn wanted(printing: &Printing, name: &str, verb: &Verb) -> Result<ColorChoice, CommandFailure> {
    let prints_table = match verb {
        Verb::Kubeless(args) => args.prints_table(),
        _ => lists(groups::WITH_TABLE, name),
    };
    let mut format = if printing.json { Format::Json } else { printing.output };
    // A wrong expression is refused here, before anything is sent.
    let jq = printing.jq.as_deref().map(Jq::new).transpose()?;
    if jq.is_some() {
        if !matches!(format, Format::Table | Format::Json) {
            let message = "`--jq` prints values of JSON: it has no other `-o` than `json`";
            return Err(CommandFailure::usage(message));
        }
        if matches!(verb, Verb::Completion(_)) {
            let message = "`--jq` needs JSON, which `completion` does not print";
            return Err(CommandFailure::usage(message));
        }
        format = Format::Json;
    }
    fits(format, name, prints_table)?;
    // A format that was named wins over `-q`.
    if printing.quiet && format == Format::Table && prints_table {
        format = Format::Name;
    }
    Ok(ColorChoice {
        format,
        headers: !printing.no_headers,
        quiet: printing.quiet,
        jq: jq.map(Rc::new),
        progress: printing.progress,
        pages: !printing.no_pager && pages(name, verb),
    })
}

/// Returns whether a verb prints a text that people read from its beginning to its end.
fn pages(name: &str, verb: &Verb) -> bool {
    // The pager gets the text when the verb has ended, so a verb that follows changes has no pager.
    match verb {
        Verb::Status(args) => !args.watch,
        Verb::List(args) => !args.watch,
        Verb::Logs(args) => !args.follow,
        Verb::Kubeless(args) => args.only_reads(),
        Verb::Events(args) => !args.follow,
        Verb::DeadLetters(args) => args.only_reads(),
        Verb::Schedules(args) => args.only_reads(),
        Verb::Nats(args) => args.only_reads(),
        _ => lists(groups::WITH_PAGER, name),
    }
}

/// Refuses a format that a verb does not have.
fn fits(format: Format, name: &str, prints_table: bool) -> Result<(), CommandFailure> {
    if format == Format::Raw && !lists(groups::WITH_BYTES, name) {
        let message = "`-o raw` prints the bytes of a function: only `invoke`, `run`, `result`, `logs`, `cat` and `state get` have it";
        return Err(CommandFailure::usage(message));
    }
    if format == Format::Name && !prints_table && !["new", "cat"].contains(&name) {
        let message = "`-o name` prints the first column of a table: only `status`, `list`, `top`, `emit`, `history`, `audit`, `dead-letters`, \
                       `releases`, `runtimes`, `routes`, `schedules`, `nats`, `secret`, `binding`, `state`, `home` and `sizes` have it";
        return Err(CommandFailure::usage(message));
    }
    Ok(())
}

async fn perform(verb: Verb, context: &Context) -> Result<Exit, CommandFailure> {
    use commands as c;
    match verb {
        Verb::Status(Lazy(args)) => c::status::run(context, args).await,
        Verb::Overview(Lazy(args)) => c::overview::run(context, args).await,
        Verb::List(Lazy(args)) => c::list::run(context, args).await,
        Verb::Show(Lazy(args)) => c::show::run(context, args).await,
        Verb::Cat(Lazy(args)) => c::cat::run(context, args).await,
        Verb::Edit(Lazy(args)) => c::edit::run(context, args).await,
        Verb::Top(Lazy(args)) => c::top::run(context, args).await,
        // The advice parses the whole command line again, which only this level knows.
        Verb::Invoke(Lazy(args)) if !args.words.is_empty() => Err(suggestions::payload_without_option(&args.words)),
        Verb::Invoke(Lazy(args)) => c::invoke::run(context, args).await,
        Verb::Shell(Lazy(args)) => c::shell::run(context, args).await,
        Verb::Mcp(Lazy(args)) => c::mcp::run(context, args).await,
        Verb::Emit(Lazy(args)) => c::emit::run(context, args).await,
        Verb::Run(Lazy(args)) => c::run::run(context, args).await,
        Verb::Logs(Lazy(args)) => c::logs::run(context, args).await,
        Verb::Tail(Lazy(args)) => c::logs::run(context, args.following()).await,
        Verb::Events(Lazy(args)) => c::events::run(context, args).await,
        Verb::History(Lazy(args)) => c::history::run(context, args).await,
        Verb::Audit(Lazy(args)) => c::audit::run(context, args).await,
        Verb::Report(Lazy(args)) => c::report::run(context, args).await,
        Verb::Result(Lazy(args)) => c::result::run(context, args).await,
        Verb::Wait(Lazy(args)) => c::wait::run(context, args).await,
        Verb::Cancel(Lazy(args)) => c::cancel::run(context, args).await,
        Verb::Replay(Lazy(args)) => c::replay::run(context, args).await,
        Verb::DeadLetters(Lazy(args)) => c::dead_letters::run(context, args).await,
        Verb::Enable(Lazy(args)) => c::enable::run(context, args, "enable").await,
        Verb::Disable(Lazy(args)) => c::enable::run(context, args, "disable").await,
        Verb::Start(Lazy(args)) => c::enable::run(context, args, "start").await,
        Verb::Stop(Lazy(args)) => c::enable::run(context, args, "stop").await,
        Verb::Restart(Lazy(args)) => c::enable::run(context, args, "restart").await,
        Verb::Releases(Lazy(args)) => c::releases::list(context, args).await,
        Verb::Rollback(Lazy(args)) => c::releases::hold(context, args, "rollback").await,
        Verb::Pin(Lazy(args)) => c::releases::hold(context, args, "pin").await,
        Verb::Unpin(Lazy(args)) => c::releases::unpin(context, args).await,
        Verb::Canary(Lazy(args)) => c::canary::run(context, args).await,
        Verb::Build(Lazy(args)) => c::build::run(context, args).await,
        Verb::Diff(Lazy(args)) => c::diff::run(context, args).await,
        Verb::Home(Lazy(args)) => c::home::run(context, args).await,
        Verb::Deploy(Lazy(args)) => c::deploy::run(context, args).await,
        Verb::Remove(Lazy(args)) => c::remove::run(context, args).await,
        Verb::New(Lazy(args)) => c::new::run(context, &args),
        Verb::Import(Lazy(args)) => c::import::run(context, &args),
        Verb::Validate(Lazy(args)) => c::validate::run(context, &args).await,
        Verb::Reload(Lazy(args)) => c::reload::run(context, args).await,
        Verb::Runtimes(Lazy(args)) => c::runtimes::run(context, args).await,
        Verb::Schedules(Lazy(args)) => c::schedules::run(context, args).await,
        Verb::Nats(Lazy(args)) => c::nats::run(context, args).await,
        Verb::Routes(Lazy(args)) => c::routes::run(context, args).await,
        Verb::Secret(Lazy(args)) => c::secret::run(context, args).await,
        Verb::Binding(Lazy(args)) => c::binding::run(context, args).await,
        Verb::State(Lazy(args)) => c::state::run(context, args).await,
        Verb::Sizes(Lazy(args)) => c::sizes::run(context, args).await,
        Verb::Web(args) => c::web::run(context, args).await,
        Verb::Open(Lazy(args)) => c::open::run(context, args).await,
        Verb::Drain(Lazy(args)) => c::drain::run(context, args).await,
        Verb::Backup(Lazy(args)) => c::backup::run(context, args).await,
        Verb::Restore(Lazy(args)) => c::restore::run(context, args),
        Verb::Verify(Lazy(args)) => c::verify::run(context, args).await,
        Verb::Doctor(Lazy(args)) => c::doctor::run(context, args).await,
        Verb::Bundle(Lazy(args)) => c::bundle::run(context, args).await,
        Verb::LogLevel(Lazy(args)) => c::log_level::run(context, args).await,
        Verb::Explain(Lazy(args)) => c::explain::run(context, &args),
        Verb::Config(Lazy(args)) => c::config::run(context, args).await,
        Verb::Schema(Lazy(args)) => c::schema::run(context, &args),
        Verb::Kubeless(Lazy(args)) => c::kubeless::run(context, args).await,
        Verb::Completion(Lazy(args)) => c::completion::run(context, &args),
        Verb::Whoami(Lazy(args)) => c::whoami::run(context, args).await,
        Verb::Version(Lazy(args)) => c::version::run(context, args).await,
    }
}

/// Returns how a table shows the answers of other machines to a verb.
fn host_view(verb: &Verb) -> Result<HostView, CommandFailure> {
    use commands as c;
    let view: HostView = match verb {
        Verb::Status(args) if !args.watch => c::status::rows,
        Verb::Overview(_) => c::overview::rows,
        Verb::History(_) => c::history::rows,
        Verb::DeadLetters(args) if args.lists() => c::dead_letters::rows,
        Verb::Report(args) if !args.is_mail() => c::report::rows,
        _ => {
            let message = "`-H` asks several machines: only `status` without `--watch`, `overview`, `history`, `dead-letters list` and `report` \
                           without `--mail` have it";
            return Err(CommandFailure::usage(message).help("`ssh HOST fndctl ...` runs any verb on one machine"));
        }
    };
    Ok(view)
}

/// Returns the socket that is named, the user's own, or that of an installed system.
fn socket(named: Option<PathBuf>, user: bool) -> Result<PathBuf, CommandFailure> {
    if let Some(path) = named {
        return Ok(path);
    }
    if !user {
        return Ok(PathBuf::from(SYSTEM_SOCKET));
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) if !directory.is_empty() => Ok(PathBuf::from(directory).join("fnd/control.sock")),
        _ => Err(CommandFailure::usage(
            "--user needs XDG_RUNTIME_DIR, which a login session sets",
        )),
    }
}
