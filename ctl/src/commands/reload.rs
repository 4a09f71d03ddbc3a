//! `fndctl reload`: waits until everything is read again; fails if the configuration or a file that changed is refused, or if new
//! code cannot be loaded.

use crate::common::working::while_working;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::ReloadReport;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::FunctionName;
use fnd_wire::units::counted;
use tokio::time::Instant;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl reload && fndctl status\n  fndctl reload --accept-empty")]
pub(crate) struct Args {
    /// Accept that a functions directory is empty, and remove its functions
    ///
    /// Without this option, fnd keeps the functions if their directory is replaced by an empty one: a file system may
    /// not be mounted yet.
    #[arg(long)]
    accept_empty: bool,

    /// Fail only if the configuration is refused, whatever functions are invalid; `systemctl reload fnd` does that
    #[arg(long)]
    ignore_invalid: bool,
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let query = if args.accept_empty { "?accept-empty=1" } else { "" };
    let path = format!("/v1/reload{query}");
    let began = Instant::now();
    let about = async || {
        let seconds = began.elapsed().as_secs();
        format!("reading configuration and functions again: {seconds}s")
    };
    let reply = while_working(context, context.client.post(&path), about).await?;
    let report = serde_json::from_slice::<ReloadReport>(&reply.body);
    // A report that cannot be read is no verdict. `document` below fails at it.
    let verdict = report.map_or(Exit::Fine, |report| verdict(&report, args.ignore_invalid));
    verdict.after(context.out.document(&reply.body, |report: &ReloadReport, out| {
        for function in &report.applied {
            out.remark(&format!("{function}: applied"))?;
        }
        for function in &report.removed {
            out.remark(&format!("{function}: removed"))?;
        }
        for function in &report.trying {
            out.remark(&format!(
                "{function}: its new version is still being loaded, and the one before serves: `fndctl show {function}` shows how that \
                 ends"
            ))?;
        }
        out.diagnostics(&report.diagnostics)?;
        if report.still_invalid.is_empty() {
            return Ok(());
        }
        let count = counted(report.still_invalid.len(), "function was", "functions were");
        let names: Vec<&str> = report.still_invalid.iter().map(FunctionName::as_str).collect();
        out.remark(&format!(
            "{count} invalid before and did not change: {} (`fndctl show NAME` says why)",
            names.join(", ")
        ))
    }))
}

/// Returns the exit code of a report.
fn verdict(report: &ReloadReport, ignore_invalid: bool) -> Exit {
    let is_refused = !ignore_invalid && report.diagnostics.iter().any(Diagnostic::is_error);
    if report.configuration_refused || is_refused {
        Exit::InvalidManifest
    } else if !ignore_invalid && !report.trying.is_empty() {
        Exit::Timeout
    } else {
        Exit::Fine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_still_tried_is_no_success() {
        let function = || FunctionName::new("f").unwrap();
        let error = || Diagnostic::error("load", "no such module");
        for (configuration_refused, refused, tried, expected, ignoring) in [
            (false, false, false, Exit::Fine, Exit::Fine),
            (false, false, true, Exit::Timeout, Exit::Fine),
            (false, true, true, Exit::InvalidManifest, Exit::Fine),
            (true, false, false, Exit::InvalidManifest, Exit::InvalidManifest),
        ] {
            let report = ReloadReport {
                configuration_refused,
                diagnostics: Vec::from_iter(refused.then(error)),
                trying: Vec::from_iter(tried.then(function)),
                ..ReloadReport::default()
            };
            assert_eq!(
                [false, true].map(|ignore| verdict(&report, ignore)),
                [expected, ignoring]
            );
        }
    }
}
