//! `fndctl list`: the names of functions, with a few details of each.

use crate::common::selection::{Selection, refuse_changes_of_some};
use crate::common::tables::{plain, widening};
use crate::common::watch::watch;
use crate::context::{Context, Parameters};
use crate::exit::{CommandFailure, Exit};
use crate::output::parse;
use crate::text::state;
use fnd_core::api::FunctionList;
use fnd_core::lifecycle::release::short;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  fndctl list\n  fndctl list -l team=ops -l tier=1\n  fndctl list 'web/*' --sort state\n  fndctl list --watch"
)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Print the list anew after each change, until Ctrl-C; with `-o json`, print a line for each change.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let mut parameters = Parameters::default();
    args.selection.add_labels(&mut parameters);
    let path = format!("/v1/functions{}", parameters.0);
    if !args.watch {
        return show(context, &args, &path).await;
    }
    if args.selection.has_names() {
        refuse_changes_of_some(context.out.format)?;
    }
    parameters.add("watch", Some("1"));
    let changes = format!("/v1/functions{}", parameters.0);
    watch(context, &changes, async || show(context, &args, &path).await).await
}

async fn show(context: &Context, args: &Args, path: &str) -> Result<Exit, CommandFailure> {
    let mut body = context.client.get(path).await?.body;
    // Otherwise the body of fnd is printed as it is, also with fields that this fndctl does not know.
    if args.selection.changes() {
        let mut list: FunctionList = parse(&body)?;
        args.selection.apply(&mut list.functions)?;
        body = serde_json::to_vec(&list).unwrap_or_default().into(); // as it was read
    }
    context.out.answer(&body, |list: &FunctionList, out| {
        let heads: (&[_], &[_]) = (&["FUNCTION", "RUNTIME", "STATE", "LABELS"], &["VERSION", "ERROR"]);
        out.table(&widening(out, heads, &list.functions, plain, |function| {
            let labels = function.labels.iter().map(|(key, value)| format!("{key}={value}"));
            vec![
                function.function.to_string(),
                function.runtime.clone(),
                state(function).to_owned(),
                labels.collect::<Vec<_>>().join(","),
                function.version.map(short).unwrap_or_default(),
                function.error.clone().unwrap_or_default(),
            ]
        }))
    })
}
