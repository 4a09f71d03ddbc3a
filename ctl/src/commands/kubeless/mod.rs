//! `fndctl kubeless`: the command line of Kubeless, for one machine. A program named `kubeless` is the same.
//!
//! It has no state of its own: `deploy` uploads a directory with a `function.toml`, and every change is a new upload of the
//! same code with another manifest.
//!
//! Files:
//! - `deploy`: `function deploy` and `update`
//! - `call`, `list`, `logs`, `top`: the other verbs of `function`
//! - `cronjob`, `http`: `trigger cronjob` and `trigger http`
//! - `triggers`: what both kinds have in common
//! - `autoscale`: `autoscale`
//! - `code`: the files of a function, read and uploaded
//! - `manifest`: writes options into a manifest
//! - `object`: a function as an object of Kubeless
//! - `options`: options that several verbs have, and those without effect
//! - `runtime`: the runtime that a name of Kubeless means
//! - `values`: pairs, amounts, names of handlers

mod autoscale;
mod call;
mod code;
mod cronjob;
mod deploy;
mod http;
mod list;
mod logs;
mod manifest;
mod object;
mod options;
mod runtime;
mod top;
mod triggers;
mod values;

use super::{Context, function_path, version};
use crate::candidates;
use crate::cli::Format;
use crate::client::request;
use crate::exit::{Exit, Failure};
use clap_complete::Shell;
use hyper::Method;
use hyper::body::Bytes;
use options::{Anything, Namespace};

/// The program that is this command line under its own name.
pub(crate) const PROGRAM: &str = "kubeless";

/// Options.
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
        verb: Function,
    },
    /// Let functions run by time, or at requests.
    Trigger {
        #[command(subcommand)]
        kind: Trigger,
    },
    /// Not here: fnd has no message system of its own.
    #[command(hide = true)]
    Topic(Anything),
    /// Set how many workers a function has.
    Autoscale {
        #[command(subcommand)]
        verb: autoscale::Verb,
    },
    /// List the runtimes that are supported.
    GetServerConfig,
    /// Print the completion script of `kubeless` for a shell.
    Completion {
        /// The shell to complete in.
        shell: Shell,
    },
    /// Show the versions of fndctl, fnd and fnd-spawner.
    Version(version::Args),
}

#[derive(Debug, clap::Subcommand)]
enum Function {
    /// Deploy a new function, and wait until it serves.
    Deploy(deploy::Deploy),
    /// Change a function that was deployed.
    Update(deploy::Update),
    /// Delete a function, with its triggers.
    Delete(Delete),
    /// List functions.
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Call a function and print its answer.
    Call(call::Args),
    /// Print what a function printed.
    Logs(logs::Args),
    /// Show a function.
    Describe(list::Describe),
    /// Show how often functions were called, and how long they took.
    #[command(visible_alias = "stats")]
    Top(top::Args),
}

#[derive(Debug, clap::Subcommand)]
enum Trigger {
    /// Triggers by time.
    Cronjob {
        #[command(subcommand)]
        verb: cronjob::Verb,
    },
    /// Triggers by requests to the public listener.
    Http {
        #[command(subcommand)]
        verb: http::Verb,
    },
    /// Not here: fnd has no message system of its own.
    #[command(hide = true)]
    Kafka(Anything),
    /// Not here: fnd has no message system of its own.
    #[command(hide = true)]
    Nats(Anything),
    /// Not here: fnd has no message system of its own.
    #[command(hide = true)]
    Kinesis(Anything),
}

/// Options of `delete`.
#[derive(Debug, clap::Args)]
struct Delete {
    /// Name of the function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    #[command(flatten)]
    namespace: Namespace,
}

impl Args {
    /// Returns whether the command needs fnd.
    pub(crate) fn needs_daemon(&self) -> bool {
        !matches!(self.noun, Noun::Topic(_) | Noun::Completion { .. })
    }

    /// Returns whether the command prints a table with names in its first column.
    pub(crate) fn prints_table(&self) -> bool {
        match &self.noun {
            Noun::Function { verb } => matches!(verb, Function::List(_) | Function::Top(_)),
            Noun::Trigger { kind } => matches!(
                kind,
                Trigger::Cronjob {
                    verb: cronjob::Verb::List(_)
                } | Trigger::Http {
                    verb: http::Verb::List(_)
                }
            ),
            Noun::Autoscale { verb } => matches!(verb, autoscale::Verb::List(_)),
            Noun::Topic(_) | Noun::GetServerConfig | Noun::Completion { .. } | Noun::Version(_) => false,
        }
    }

    /// Returns whether the command prints a text that people read from its beginning to its end.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(
            &self.noun,
            Noun::Function {
                verb: Function::List(_) | Function::Describe(_) | Function::Top(_)
            }
        )
    }
}

/// Runs the verb.
///
/// # Errors
/// An option is wrong, or fnd refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, Failure> {
    match args.noun {
        Noun::Function { verb } => match verb {
            Function::Deploy(args) => deploy::deploy(context, args).await,
            Function::Update(args) => deploy::update(context, args).await,
            Function::Delete(args) => delete(context, &args).await,
            Function::List(args) => list::list(context, args).await,
            Function::Call(args) => call::run(context, args).await,
            Function::Logs(args) => logs::run(context, args).await,
            Function::Describe(args) => list::describe(context, args).await,
            Function::Top(args) => top::run(context, args).await,
        },
        Noun::Trigger { kind } => match kind {
            Trigger::Cronjob { verb } => cronjob::run(context, verb).await,
            Trigger::Http { verb } => http::run(context, verb).await,
            Trigger::Kafka(words) => Err(words.refused("trigger kafka")),
            Trigger::Nats(words) => Err(words.refused("trigger nats")),
            Trigger::Kinesis(words) => Err(words.refused("trigger kinesis")),
        },
        Noun::Topic(words) => Err(words.refused("topic")),
        Noun::Autoscale { verb } => autoscale::run(context, verb).await,
        Noun::GetServerConfig => {
            let names = runtime::supported(&runtime::all(context).await?);
            context
                .out
                .line(&format!("Supported Runtimes are: {}", names.join(", ")))?;
            Ok(Exit::Fine)
        }
        Noun::Completion { shell } => {
            let script = crate::completion_of(PROGRAM, &shell.to_string());
            let script = script.map_err(|error| Failure::usage(format!("no completion for {shell}: {error}")))?;
            context.out.raw(&script)?;
            Ok(Exit::Fine)
        }
        Noun::Version(args) => version::run(context, args).await,
    }
}

/// Deletes a function; its triggers are in its manifest.
async fn delete(context: &Context, args: &Delete) -> Result<Exit, Failure> {
    args.namespace.report(context);
    let request = request(Method::DELETE, &function_path(&args.function)?, &[], Bytes::new())?;
    context.client.send(request).await?;
    context.out.remark(&format!("Function {} deleted", args.function))?;
    Ok(Exit::Fine)
}

/// Prints an object of Kubeless, as YAML unless JSON is wanted.
fn print_object(context: &Context, object: &serde_json::Value) -> Result<Exit, Failure> {
    let body = object.to_string();
    match context.out.format {
        Format::Json => context.out.json(body.as_bytes())?,
        Format::Table | Format::Wide | Format::Yaml | Format::Name | Format::Raw => {
            context.out.yaml(body.as_bytes())?;
        }
    }
    Ok(Exit::Fine)
}
