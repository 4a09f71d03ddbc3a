//! `fndctl import`: writes functions that do what files for other systems say, and reports what became of each field.
//! Needs no daemon.
//!
//! Files:
//! - `report`: prints what became of each field

mod report;

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::local::{self, LocalPlaces};
use fnd_import::failure::ImportFailure;
use fnd_import::users::ImportedUsers;
use fnd_import::{Imported, compose, crontab, dagu, pm2, sam, supervisord, systemd, webhook, write, yaml};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::foreign::{FieldVerdict, Row};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl import function.yaml                    say what would become of each field; write nothing\n  \
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

/// The kinds of files that are imported.
#[derive(Debug, clap::Subcommand)]
enum ImportKind {
    /// The lines of a crontab: a function for each.
    #[command(after_help = "Examples:\n  \
        fndctl import crontab /etc/cron.d/shop --out /etc/fnd/functions\n  \
        fndctl import crontab -u ada                  what would become of Ada's lines\n  \
        crontab -l >mine; fndctl import crontab mine")]
    Crontab {
        /// The crontab. In `/etc/crontab` and files of a directory `cron.d`, each line names a user.
        #[arg(required_unless_present = "user_of", conflicts_with = "user_of", value_hint = clap::ValueHint::FilePath)]
        file: Option<PathBuf>,

        /// Read the crontab of this user (`crontab -l -u USER`).
        #[arg(short = 'u', id = "user_of", value_name = "USER")]
        user_of: Option<String>,

        /// Each line names a user, wherever the file is.
        #[arg(long)]
        user_column: bool,

        /// Leave scripts where they are, and start them there; without it, they are copied.
        #[arg(long)]
        link: bool,
    },
    /// Services and timers of systemd.
    #[command(after_help = "Examples:\n  \
        fndctl import systemd backup.timer                        the timer and its service\n  \
        fndctl import systemd ./web.service --out /etc/fnd/functions")]
    Systemd {
        /// Timers and services: paths of files, or names of units, with their drop-ins.
        #[arg(required = true, value_name = "UNIT")]
        units: Vec<String>,

        /// Leave scripts where they are, and start them there; without it, they are copied.
        #[arg(long)]
        link: bool,
    },
    /// Apps of pm2: an ecosystem file.
    #[command(
        after_help = "A file that ends with `.js`, `.cjs` or `.mjs` is a program: node runs it, as you.\n\nExamples:\n  \
        fndctl import pm2 ecosystem.config.js --env production\n  \
        fndctl import pm2 ecosystem.json --out /etc/fnd/functions"
    )]
    Pm2 {
        /// The ecosystem file: `ecosystem.config.js`, or the same in JSON or YAML.
        #[arg(value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,

        /// Take `env_NAME` over, too, as `pm2 start --env NAME` does.
        #[arg(long, value_name = "NAME")]
        env: Option<String>,
    },
    /// Programs of supervisord.
    #[command(after_help = "Example:\n  \
        fndctl import supervisord /etc/supervisor/conf.d/web.conf")]
    Supervisord {
        /// `supervisord.conf`, or a file of its `conf.d`.
        #[arg(value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,

        /// Leave scripts where they are, and start them there; without it, they are copied.
        #[arg(long)]
        link: bool,
    },
    /// A DAG of dagu whose steps are one chain.
    #[command(after_help = "Example:\n  fndctl import dagu nightly.yaml")]
    Dagu {
        /// The file of a DAG.
        #[arg(value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Services of a compose file that run a program of the machine.
    #[command(after_help = "Example:\n  fndctl import compose compose.yaml")]
    Compose {
        /// The compose file.
        #[arg(value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Functions of an AWS SAM template whose runtime is `provided`: programs with a `bootstrap`.
    #[command(after_help = "Examples:\n  \
        fndctl import sam .aws-sam/build/template.yaml            after `sam build`\n  \
        fndctl import sam template.yaml --parameter Stage=live --out /etc/fnd/functions")]
    Sam {
        /// The template.
        #[arg(value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,

        /// The value of a parameter, in place of its default; also of `AWS::Region` or `AWS::StackName`. One with `NoEcho` needs no
        /// value: it becomes a secret.
        #[arg(long = "parameter", value_name = "NAME=VALUE")]
        parameters: Vec<String>,
    },
    /// Hooks of webhook (github.com/adnanh/webhook).
    #[command(after_help = "Examples:\n  \
        fndctl import webhook hooks.json\n  \
        fndctl import webhook hooks.yaml --out /etc/fnd/functions")]
    Webhook {
        /// The file of hooks, in JSON or YAML.
        #[arg(value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,

        /// Leave scripts where they are, and start them there; without it, they are copied.
        #[arg(long)]
        link: bool,
    },
}

/// Where to write.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ImportTarget {
    /// Directory to write functions to, each in a directory of its own. Without it, nothing is written.
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Write nothing, also with `--out`; only say what would become of each field.
    #[arg(long, global = true)]
    dry_run: bool,

    /// Give what ran as root a user of its own. Without it, such a function is refused.
    #[arg(long, global = true)]
    own_user: bool,

    /// Replace functions and secrets of the same names in the directory.
    #[arg(long, global = true)]
    force: bool,
}

impl ImportTarget {
    /// Returns the directory to write to; nothing if nothing is to be written.
    fn directory(&self) -> Option<&PathBuf> {
        self.out.as_ref().filter(|_| !self.dry_run)
    }

    fn users(&self, context: &Context) -> ImportedUsers {
        match (context.user, self.own_user) {
            (true, _) => ImportedUsers::Caller,
            (false, true) => ImportedUsers::OwnForRoot,
            (false, false) => ImportedUsers::Named,
        }
    }
}

/// # Errors
/// A file cannot be read, or a function cannot be written.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let users = args.target.users(context);
    let imported = match &args.kind {
        Some(ImportKind::Crontab {
            file,
            user_of,
            user_column,
            link,
        }) => {
            let options = crontab::CrontabOptions {
                file: file.clone(),
                user_of: user_of.clone(),
                user_column: *user_column,
                link: *link,
            };
            crontab::import(&options, users)?
        }
        Some(ImportKind::Systemd { units, link }) => systemd::import(units, *link, users)?,
        Some(ImportKind::Pm2 { file, env }) => pm2::import(file, env.as_deref(), users)?,
        Some(ImportKind::Supervisord { file, link }) => supervisord::import(file, *link, users)?,
        Some(ImportKind::Dagu { file }) => dagu::import(file)?,
        Some(ImportKind::Compose { file }) => compose::import(file, users)?,
        Some(ImportKind::Sam { file, parameters }) => sam::import(file, parameters)?,
        Some(ImportKind::Webhook { file, link }) => webhook::import(file, *link)?,
        None if args.files.is_empty() => {
            let help = "name a file: `fndctl import function.yaml`";
            return Err(CommandFailure::usage("there is nothing to import").help(help));
        }
        None => yaml::import(&args.files).map_err(with_kinds)?,
    };
    finish(context, &args.target, imported)
}

/// Returns the failure of a file without a kind, which may be one of another program, or the word of a kind, misspelt.
fn with_kinds(failure: ImportFailure) -> CommandFailure {
    let mut failure = CommandFailure::from(failure);
    let kinds = || "crontabs, units and other files have a verb of their own: `fndctl import --help`".to_owned();
    failure.help.get_or_insert_with(kinds);
    failure
}

/// Writes the functions and prints the report.
fn finish(context: &Context, target: &ImportTarget, mut imported: Imported) -> Result<Exit, CommandFailure> {
    let refusals = refusals(&imported);
    // Before anything is written: a function that fnd would refuse does not reach the directory.
    let problems = judge(context, &mut imported)?;
    // The rows come function by function, and people read them beside the file.
    imported.report.sort();
    let written = match target.directory() {
        Some(base) => write::functions(base, target.force, &imported)?,
        None => Vec::new(),
    };
    let outcome = report::ImportOutcome {
        written: written.iter().map(|path| path.display().to_string()).collect(),
        problems: &problems,
        refusals: &refusals,
    };
    report::print(context, target, &imported, &outcome)?;
    let refused = imported.report.is_refused() || problems.iter().any(Diagnostic::is_error);
    // The other functions were written, and the exit code says that some are missing.
    Ok(if refused { Exit::InvalidManifest } else { Exit::Fine })
}

/// Returns the mistakes of the files, as problems.
fn refusals(imported: &Imported) -> Vec<Diagnostic> {
    let rows = imported.report.rows.iter();
    let refused = rows.filter(|row| row.verdict == FieldVerdict::Refused);
    refused.filter_map(Row::diagnostic).collect()
}

/// Judges the functions as fnd will, and takes those away that it would refuse. Returns the problems.
fn judge(context: &Context, imported: &mut Imported) -> Result<Vec<Diagnostic>, CommandFailure> {
    let places = LocalPlaces::of(context.user)?;
    let (judge, mut problems) = local::judge(&places.config, &places.runtimes);
    // A refused configuration is no mistake of the functions, so all of them are written.
    let Some(judge) = judge else { return Ok(problems) };
    let (report, refused) = (&mut imported.report, &mut imported.refused);
    imported.functions.retain(|made| {
        let found = judge.made(made);
        let fine = !found.iter().any(Diagnostic::is_error);
        for problem in found {
            // No row may say that a field works which fnd refuses.
            if problem.is_error() {
                report.refuse(&problem);
            }
            // Several functions may be made of one field.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        refused.extend((!fine).then(|| made.name.clone()));
        fine
    });
    Ok(problems)
}
