//! `fndctl kubeless`: the command line of Kubeless, for one machine. A program named `kubeless` is the same.
//!
//! It has no state of its own: `deploy` uploads a directory with a `function.toml`, and every change is a new upload of the
//! same code with another manifest.
//!
//! Files:
//! - `function`: deploys, changes, calls and shows functions
//! - `trigger`: lets functions run by time, or at requests
//! - `autoscale`: the smallest and the largest pool
//! - `code`: reads the code of functions, and uploads functions
//! - `options`: options that several verbs have, and those without effect

mod autoscale;
mod code;
mod function;
mod options;
mod trigger;

use crate::common::versions;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, TextTable, Tone};
use clap_complete::Shell;
use fnd_core::api::RuntimeList;
use fnd_import::kubeless::runtime::supported;
use fnd_manifest::runtime::RuntimeSummary;
use options::Anything;
use serde_json::Value;

/// The program that is this command line under its own name.
pub(crate) const PROGRAM: &str = "kubeless";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "`deploy` uploads the function to fnd. Options that mean nothing on one machine are accepted and reported, each in one \
    line: -n, --port, --servicePort, --runtime-image, --image-pull-policy, --node-selectors, --service-account, --headless, \
    --enableTLSAcme, --tls-secret, --gateway. Functions that were not uploaded are listed and called, not changed.\n\n\
    A link named `kubeless` to fndctl is this command line: `sudo ln -s /usr/bin/fndctl /usr/local/bin/kubeless`.\n\n\
    Examples:\n  \
    fndctl kubeless function deploy hello -r python3.7 --handler get.foo -f get.py\n  \
    fndctl kubeless function call hello --data '{\"hello\": \"world\"}'\n  \
    fndctl kubeless function ls\n  \
    fndctl kubeless function update hello --from-file get.py\n  \
    fndctl kubeless trigger cronjob create t --function hello --schedule '@hourly'\n  \
    fndctl kubeless trigger http create web --function-name hello --path hello\n  \
    fndctl kubeless function delete hello"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Debug, clap::Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one value of it in a run")]
enum Noun {
    /// Deploy, change, call and show functions.
    Function {
        #[command(subcommand)]
        verb: function::KubelessFunctionVerb,
    },
    /// Let functions run by time, or at requests.
    Trigger {
        #[command(subcommand)]
        kind: trigger::KubelessTriggerVerb,
    },
    /// Not here: fnd has no message system of its own.
    #[command(hide = true)]
    Topic(Anything),
    /// Set how many workers a function has.
    Autoscale {
        #[command(subcommand)]
        verb: autoscale::AutoscaleVerb,
    },
    /// List the runtimes that are supported.
    GetServerConfig,
    /// Print the completion script of `kubeless` for a shell.
    Completion {
        /// The shell to complete in.
        shell: Shell,
    },
    /// Show the versions of fndctl, fnd and fnd-spawner.
    Version(versions::VersionArgs),
}

impl Args {
    /// Returns whether the command needs fnd.
    pub(crate) fn needs_daemon(&self) -> bool {
        !matches!(self.noun, Noun::Topic(_) | Noun::Completion { .. })
    }

    /// Returns whether the command prints a table with names in its first column.
    pub(crate) fn prints_table(&self) -> bool {
        match &self.noun {
            Noun::Function { verb } => verb.prints_table(),
            Noun::Trigger { kind } => kind.prints_table(),
            Noun::Autoscale { verb } => matches!(verb, autoscale::AutoscaleVerb::List(_)),
            Noun::Topic(_) | Noun::GetServerConfig | Noun::Completion { .. } | Noun::Version(_) => false,
        }
    }

    /// Returns whether the command prints a text that people read from its beginning to its end.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(&self.noun, Noun::Function { verb } if verb.only_reads())
    }
}

/// # Errors
/// An option is wrong, or fnd refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    match args.noun {
        Noun::Function { verb } => function::run(context, verb).await,
        Noun::Trigger { kind } => trigger::run(context, kind).await,
        // Lines of Kubeless's Makefiles get an answer that names what to use instead.
        Noun::Topic(words) => Err(words.refused("topic")),
        Noun::Autoscale { verb } => autoscale::run(context, verb).await,
        Noun::GetServerConfig => {
            let names = supported(&runtimes(context).await?).join(", ");
            context.out.line(&format!("Supported Runtimes are: {names}"))?;
            Ok(Exit::Fine)
        }
        Noun::Completion { shell } => {
            let script = crate::completion_of(PROGRAM, &shell.to_string());
            let refused = |error| CommandFailure::usage(format!("no completion for {shell}: {error}"));
            context.out.raw(&script.map_err(refused)?)?;
            Ok(Exit::Fine)
        }
        Noun::Version(_) => versions::print(context).await,
    }
}

/// Returns the runtimes of the machine.
///
/// # Errors
/// fnd does not answer.
async fn runtimes(context: &Context) -> Result<Vec<RuntimeSummary>, CommandFailure> {
    Ok(context.read::<RuntimeList>("/v1/runtimes").await?.runtimes)
}

/// Prints an object of Kubeless, as YAML unless JSON is wanted.
fn print_object(context: &Context, object: &Value) -> Result<Exit, CommandFailure> {
    let (body, out) = (object.to_string(), &context.out);
    if out.format == Format::Json {
        out.json(body.as_bytes())?;
    } else {
        out.yaml(body.as_bytes())?;
    }
    Ok(Exit::Fine)
}

/// Prints a list of objects: as a table, it has a column for each head, with the text of the key at the same place.
fn print_rows(
    context: &Context,
    rows: &[Value],
    (heads, keys): (&[&'static str], &[&str]),
) -> Result<Exit, CommandFailure> {
    context.made(&rows, |out| {
        let mut table = TextTable::fixed(heads);
        for row in rows {
            let cells = keys.iter().map(|key| row[*key].as_str().unwrap_or_default());
            table.row(Tone::Plain, cells.map(str::to_owned));
        }
        out.table(&table)
    })
}
