//! `fndctl import`: writes functions that do what files for other systems say, and reports what became of each field.
//! Needs no daemon.
//!
//! Files:
//! - `compose`: services of compose files
//! - `crontab`: functions of crontabs
//! - `dagu`: functions of dagu's DAGs
//! - `fuzzing`: what the fuzzer may call
//! - `names`: names for functions
//! - `places`: places that the sandbox must show
//! - `pm2`: services of pm2's apps
//! - `report`: prints what became of each field
//! - `script`: the scripts of functions
//! - `supervisord`: services of supervisord's programs
//! - `systemd`: functions of services and timers
//! - `testing`: helpers of tests
//! - `text`: reads foreign files
//! - `tree`: reads YAML and JSON
//! - `webhook`: functions of the hooks of webhook
//! - `write`: writes functions to a directory
//! - `yaml`: functions of Keptn, Kubeless, Kyma and Rafay

mod compose;
mod crontab;
mod dagu;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod names;
mod places;
mod pm2;
mod report;
mod script;
mod supervisord;
mod systemd;
#[cfg(test)]
mod testing;
mod text;
mod tree;
mod webhook;
mod write;
mod yaml;

pub(super) use report::table;
pub(super) use yaml::import as foreign;

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::local::{self, LocalPlaces};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::foreign::{ConversionReport, MadeManifest};
use std::path::PathBuf;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl import function.yaml --dry-run          say what would become of each field\n  \
    fndctl import *.yaml --out ~/functions         write functions, each a directory with function.toml\n  \
    fndctl import crontab /etc/cron.d/shop         move a crontab in; `fndctl import crontab --help` says more")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Option<ImportKind>,

    /// YAML files of Keptn, Kubeless, Kyma or Rafay; `-` is standard input. Objects in them may name each other.
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    target: ImportTarget,
}

/// What is moved in.
#[derive(Debug, clap::Subcommand)]
enum ImportKind {
    /// The lines of a crontab: a function for each.
    Crontab(crontab::Args),
    /// Services and timers of systemd.
    Systemd(systemd::Args),
    /// Apps of pm2: an ecosystem file.
    Pm2(pm2::Args),
    /// Programs of supervisord.
    Supervisord(supervisord::Args),
    /// A DAG of dagu whose steps are one chain.
    Dagu(dagu::Args),
    /// Services of a compose file that run a program of the machine.
    Compose(compose::Args),
    /// Hooks of webhook (github.com/adnanh/webhook).
    Webhook(webhook::Args),
}

/// Where to write.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ImportTarget {
    /// Directory to write functions to, each in a directory of its own [default: the current one].
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Write nothing; only say what would become of each field.
    #[arg(long, global = true)]
    dry_run: bool,

    /// Replace functions of the same names in the directory.
    #[arg(long, global = true)]
    force: bool,
}

/// The functions that were made of the given files.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    /// The functions; one with a mistake is not among them.
    pub(crate) functions: Vec<MadeManifest>,
    /// The treatment of each field.
    pub(crate) report: ConversionReport,
    /// Secrets that belong to no single function: name and value.
    pub(crate) secrets: Vec<(String, Vec<u8>)>,
    /// The first comment of each manifest.
    pub(crate) head: String,
}

impl Imported {
    /// Returns all secrets: name and value.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.functions
            .iter()
            .flat_map(|made| &made.secrets)
            .chain(&self.secrets)
    }
}

/// Runs the verb.
///
/// # Errors
/// A file cannot be read, or a function cannot be written.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let imported = match &args.kind {
        Some(ImportKind::Crontab(args)) => crontab::import(args, context.user)?,
        Some(ImportKind::Systemd(args)) => systemd::import(args, context.user)?,
        Some(ImportKind::Pm2(args)) => pm2::import(args, context.user)?,
        Some(ImportKind::Supervisord(args)) => supervisord::import(args, context.user)?,
        Some(ImportKind::Dagu(args)) => dagu::import(args)?,
        Some(ImportKind::Compose(args)) => compose::import(args, context.user)?,
        Some(ImportKind::Webhook(args)) => webhook::import(args)?,
        None if args.files.is_empty() => {
            return Err(
                CommandFailure::usage("there is nothing to import").help("name a file: `fndctl import function.yaml`")
            );
        }
        None => yaml::import(&args.files)?,
    };
    finish(context, &args.target, imported)
}

/// Writes the functions and prints the report.
fn finish(context: &Context, target: &ImportTarget, mut imported: Imported) -> Result<Exit, CommandFailure> {
    imported.report.sort();
    let problems = judge(context, &mut imported)?;
    let written = write::functions(target, &imported)?;
    report::print(context, target, &imported, &written, &problems)?;
    let refused = imported.report.is_refused() || problems.iter().any(Diagnostic::is_error);
    Ok(if refused { Exit::InvalidManifest } else { Exit::Fine })
}

/// Judges the functions as fnd will, and takes those away that it would refuse. Returns the problems.
fn judge(context: &Context, imported: &mut Imported) -> Result<Vec<Diagnostic>, CommandFailure> {
    let places = LocalPlaces::of(context.user)?;
    let (judge, mut problems) = local::judge(&places.config, &places.runtimes);
    // A refused configuration is no mistake of the functions, so all of them are written.
    let Some(judge) = judge else { return Ok(problems) };
    imported.functions.retain(|made| {
        let found = judge.made(made);
        let fine = !found.iter().any(Diagnostic::is_error);
        problems.extend(found);
        fine
    });
    Ok(problems)
}
