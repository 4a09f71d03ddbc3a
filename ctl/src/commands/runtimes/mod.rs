//! `fndctl runtimes`: the runtimes of functions, and which of their interpreters are installed.
//!
//! The daemon says where interpreters are. It starts no programs itself, so fndctl asks each one for its version.
//!
//! Files:
//! - `install`: installs and removes interpreters

mod install;

use crate::common::examine::version_of;
use crate::common::tables::widening;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::health::permissions::insecure_above;
use crate::output::{Tone, parse};
use fnd_core::api::RuntimeList;
use fnd_manifest::runtime::{RuntimeSummary, RuntimeVersion};
use std::collections::BTreeSet;
use std::path::Path;

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    fndctl runtimes                 what is installed\n  \
    fndctl runtimes -o wide         with the paths of the interpreters\n  \
    fndctl runtimes -o json         with those that are not installed\n  \
    sudo fndctl runtimes install deno"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<install::InterpretersVerb>,
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, Args { verb }: Args) -> Result<Exit, CommandFailure> {
    if let Some(verb) = verb {
        return install::run(context, verb).await;
    }
    let reply = context.client.get("/v1/runtimes").await?;
    let mut found = Vec::new();
    // JSON is the answer of the daemon as it is, so no interpreter is started for it.
    if !context.out.format.is_document() {
        let list: RuntimeList = parse(&reply.body)?;
        for runtime in &list.runtimes {
            found.push(installed(runtime).await);
        }
    }
    context.out.answer(&reply.body, |list: &RuntimeList, out| {
        let heads: (&[_], &[_]) = (
            &["RUNTIME", "SUFFIXES", "VERSIONS"],
            &["DESCRIPTION", "ALIASES", "INTERPRETERS"],
        );
        let rows = list.runtimes.iter().zip(&found);
        out.table(&widening(out, heads, rows, tone, |(runtime, found)| {
            let versions: Vec<&str> = found.iter().map(|found| found.version.as_str()).collect();
            let interpreters: Vec<&str> = found.iter().map(|found| found.interpreter.as_str()).collect();
            vec![
                runtime.id.clone(),
                runtime.suffixes.join(" "),
                match (runtime.enabled, versions.is_empty() && !runtime.versions.is_empty()) {
                    (false, _) => "disabled".to_owned(),
                    (true, true) => "not installed".to_owned(),
                    (true, false) => versions.join(" "),
                },
                runtime.description.clone(),
                runtime.aliases.join(" "),
                interpreters.join(" "),
            ]
        }))
    })
}

/// Returns how a runtime looks that serves, or does not.
fn tone((runtime, found): (&RuntimeSummary, &Vec<InstalledInterpreter>)) -> Tone {
    let serves = runtime.enabled && (!found.is_empty() || runtime.versions.is_empty());
    if serves { Tone::Plain } else { Tone::Dim }
}

/// An interpreter that is installed.
struct InstalledInterpreter {
    version: String,
    interpreter: String,
}

/// Returns the installed interpreters of a runtime, each once.
async fn installed(runtime: &RuntimeSummary) -> Vec<InstalledInterpreter> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for version in runtime.versions.iter().filter(|version| version.installed) {
        if seen.insert(version.path.as_ref()) {
            let printed = asked(runtime, version).await;
            found.push(InstalledInterpreter {
                // An interpreter that was not run still has the name of its version in `runtime.toml`.
                version: printed.unwrap_or_else(|| version.name.clone()),
                interpreter: version.interpreter.clone(),
            });
        }
    }
    found
}

/// Asks an interpreter for its version. One that other users can change is not run.
async fn asked(runtime: &RuntimeSummary, version: &RuntimeVersion) -> Option<String> {
    // The interpreter may be a link. Whoever can change either directory can exchange the program.
    let real = Path::new(version.path.as_ref()?);
    let given_in = Path::new(&version.interpreter).parent()?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    let is_safe = |path: &Path| insecure_above(path, &owners).is_none();
    if !is_safe(real) || !is_safe(given_in) {
        return None;
    }
    version_of(&runtime.probe, &version.interpreter).await
}
