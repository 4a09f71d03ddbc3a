//! `fndctl validate [PATH]`: judges files by the code the daemon judges by. Needs no daemon.

use super::Context;
use crate::cli::Format;
use crate::exit::{Exit, Failure};
use fnd_core::api::ValidateReport;
use fnd_core::check::{check, settings};
use fnd_core::diagnostic::{Diagnostic, Severity};
use fnd_core::judge::Judge;
use fnd_core::plan::JudgedFile;
use fnd_core::wire::Bytes;
use fnd_files::Disk;
use std::path::{Path, PathBuf};

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl validate hello.py             with its sidecar or block\n  \
    fndctl validate                      everything in /etc/fnd/functions\n  \
    fndctl --user validate               everything in ~/.config/fnd/functions\n  \
    fndctl validate examples/functions\n  \
    fndctl validate /etc/fnd/fnd.toml    the configuration")]
pub(crate) struct Args {
    /// A file, a function's directory, a directory of functions, or an fnd.toml [default: /etc/fnd/functions].
    path: Option<PathBuf>,

    /// Judge under this configuration [default: /etc/fnd/fnd.toml and conf.d, if they are there].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Where things lie (contract, section 1).
struct Places {
    /// Directory of `fnd.toml` and of functions.
    configuration: PathBuf,
    /// Where runtimes are described beside those that are built in; later ones replace earlier ones of the same id.
    runtimes: [PathBuf; 2],
}

impl Places {
    fn of(user: bool) -> Result<Self, Failure> {
        let shipped = PathBuf::from("/usr/lib/fnd/runtimes");
        if !user {
            return Ok(Self {
                configuration: "/etc/fnd".into(),
                runtimes: [shipped, "/etc/fnd/runtimes".into()],
            });
        }
        let home = std::env::home_dir().ok_or_else(|| Failure::usage("--user needs HOME in the environment"))?;
        let xdg = |name: &str, default: &str| std::env::var_os(name).map_or_else(|| home.join(default), PathBuf::from);
        Ok(Self {
            configuration: xdg("XDG_CONFIG_HOME", ".config").join("fnd"),
            runtimes: [shipped, xdg("XDG_DATA_HOME", ".local/share").join("fnd/runtimes")],
        })
    }
}

/// The runtimes that are shipped, so that nothing needs to be installed.
const SHIPPED: [(&str, &str); 5] = [
    ("bash", include_str!("../../../runtimes/bash/runtime.toml")),
    ("deno", include_str!("../../../runtimes/deno/runtime.toml")),
    ("exec", include_str!("../../../runtimes/exec/runtime.toml")),
    ("node", include_str!("../../../runtimes/node/runtime.toml")),
    ("python", include_str!("../../../runtimes/python/runtime.toml")),
];

/// Judges it.
///
/// # Errors
/// A path that cannot be read.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let places = Places::of(context.user)?;
    let path = args
        .path
        .clone()
        .unwrap_or_else(|| places.configuration.join("functions"));
    if let Err(error) = std::fs::metadata(&path) {
        return Err(Failure::usage(format!("failed to read `{}`: {error}", path.display())));
    }
    let is_configuration = path.is_file() && path.file_name().is_some_and(|name| name == "fnd.toml");
    let configuration = if is_configuration {
        path.clone()
    } else {
        args.config
            .clone()
            .unwrap_or_else(|| places.configuration.join("fnd.toml"))
    };
    let text = |path: &Path| path.display().to_string();
    let mut judge = Judge::new();
    let (valid, mut diagnostics) = match settings(
        &Disk,
        &text(&configuration),
        &places.runtimes.each_ref().map(|dir| text(dir)),
    ) {
        Err(problems) => (false, problems),
        Ok(mut files) => {
            files.runtimes.splice(0..0, shipped());
            let (policy, document) = judge.settings(&files);
            (policy.is_some(), document.diagnostics)
        }
    };
    let mut judged = 0;
    if valid && !is_configuration {
        let checked = check(&judge, &Disk, &text(&path));
        judged = checked.verdicts.len();
        diagnostics.extend(checked.all().cloned());
    }
    report(context, judged, diagnostics)
}

fn report(context: &Context, judged: usize, diagnostics: Vec<Diagnostic>) -> Result<Exit, Failure> {
    let count = |severity| {
        diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == severity)
            .count()
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    if matches!(context.out.format, Format::Json | Format::Yaml) {
        let report = ValidateReport {
            valid: errors == 0,
            diagnostics,
        };
        let body = serde_json::to_vec(&report).unwrap_or_default(); // texts and numbers: JSON can say it
        context.out.document(&body, |_: &ValidateReport, _| Ok(()))?;
    } else {
        context.out.diagnostics(&diagnostics)?;
        let functions = if judged == 1 { "function" } else { "functions" };
        context.out.line(&format!(
            "{judged} {functions} judged: {errors} errors, {warnings} warnings"
        ))?;
    }
    Ok(if errors == 0 { Exit::Fine } else { Exit::InvalidManifest })
}

fn shipped() -> impl Iterator<Item = JudgedFile> {
    SHIPPED.iter().map(|(id, text)| JudgedFile {
        path: format!("/usr/lib/fnd/runtimes/{id}/runtime.toml"),
        bytes: Bytes(text.as_bytes().to_vec()),
        mode: 0o644,
        trusted: true,
    })
}
