//! `fndctl reload`: waits until everything is read again; fails if the configuration or a file that changed is refused.

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
    let bad = report.is_ok_and(|report| {
        report.configuration_refused || (!args.ignore_invalid && report.diagnostics.iter().any(Diagnostic::is_error))
    });
    let verdict = if bad { Exit::InvalidManifest } else { Exit::Fine };
    verdict.after(context.out.document(&reply.body, |report: &ReloadReport, out| {
        for function in &report.applied {
            out.remark(&format!("{function}: applied"))?;
        }
        for function in &report.removed {
            out.remark(&format!("{function}: removed"))?;
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
