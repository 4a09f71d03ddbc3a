//! `fndctl validate [PATH]`: judges files as the daemon does. Needs no daemon.
//!
//! Files:
//! - `version`: whether an interpreter has the version that the manifest names

mod version;

use crate::common::reread::note_other;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::health::installed::Ground;
use crate::health::syntax;
use crate::local::{self, LocalPlaces};
use fnd_core::api::ValidateReport;
use fnd_manifest::check::Disk;
use fnd_manifest::check::{check, check_functions};
use fnd_manifest::diagnostic::{Diagnostic, Severity};
use fnd_manifest::function::listing::unclaimed;
use fnd_wire::units::counted;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl validate hello.py             with its manifest\n  \
    fndctl validate                      all of /etc/fnd/functions\n  \
    fndctl --user validate               all of ~/.config/fnd/functions\n  \
    fndctl validate examples/functions\n  \
    fndctl validate /etc/fnd/fnd.toml    the configuration\n  \
    fndctl validate --content .          for another machine, such as in CI")]
pub(crate) struct Args {
    /// A file, a function's directory, a directory of functions, or an fnd.toml [default: /etc/fnd/functions].
    path: Option<PathBuf>,

    /// Check against this configuration [default: /etc/fnd/fnd.toml and conf.d, if they exist].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Judge manifests and code only: not the modes and links of the files, nor whether an interpreter is installed here.
    #[arg(long)]
    content: bool,
}

/// # Errors
/// The path cannot be read.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let places = LocalPlaces::of(context.user)?;
    let functions = || places.functions.first().cloned().unwrap_or_default();
    let path = args.path.clone().unwrap_or_else(functions);
    if let Err(error) = std::fs::metadata(&path) {
        let message = format!("failed to read `{}`: {error}", path.display());
        return Err(CommandFailure::usage(message));
    }
    // Any other `.toml` file may be the manifest of a function.
    let is_configuration = path.is_file() && path.file_name().is_some_and(|name| name == "fnd.toml");
    let configuration = if is_configuration {
        path.clone()
    } else {
        let config = local::named_configuration(args.config.as_deref(), &places)?;
        note_other(context, args.config.as_deref(), &config).await;
        config
    };
    let (judge, mut diagnostics) = local::judge(&configuration, &places.runtimes);
    let mut judged = 0;
    if let Some(judge) = judge.filter(|_| !is_configuration) {
        let text = path.display().to_string();
        // A directory that fnd takes its functions from is no function itself.
        let mut checked = if path.is_dir() && places.functions.contains(&path) {
            check_functions(&judge, &Disk, &text)
        } else {
            check(&judge, &Disk, &text)
        };
        judged = checked.verdicts.len();
        let ground = Ground::of(&path, &places, context.user);
        // With `--content` the files are for another machine, so the judge's warning about the version stays.
        if !args.content {
            version::compare(&mut checked, &ground, judge.runtimes()).await;
        }
        diagnostics.extend(checked.all().cloned());
        diagnostics.extend(checked.unclaimed.iter().map(|path| unclaimed(path)));
        if !args.content {
            diagnostics.extend(ground.problems(&checked));
        }
        diagnostics.extend(syntax::problems(&checked, &ground).await);
    }
    report(context, judged, diagnostics)
}

fn report(context: &Context, judged: usize, diagnostics: Vec<Diagnostic>) -> Result<Exit, CommandFailure> {
    let count = |severity| {
        let all = diagnostics.iter();
        all.filter(|diagnostic| diagnostic.severity == severity).count()
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let verdict = if errors == 0 { Exit::Fine } else { Exit::InvalidManifest };
    let report = ValidateReport {
        valid: errors == 0,
        diagnostics,
    };
    let printed = context.made(&report, |out| {
        out.diagnostics(&report.diagnostics)?;
        let judged = counted(judged, "function", "functions");
        let errors = counted(errors, "error", "errors");
        let warnings = counted(warnings, "warning", "warnings");
        out.line(&format!("{judged} judged: {errors}, {warnings}"))
    });
    verdict.after(printed.map(drop))
}
