//! `fndctl doctor`: prints the findings about the machine, and what to do about each problem.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::health::{ChosenPlaces, finding, findings};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "doctor exits with 1 if it found an error. A check that it may not make is `unknown`: as root it can check more. If \
    the daemon answers, doctor checks the daemon's directories, else those of an installation.\n\nExamples:
  sudo fndctl doctor
  fndctl doctor -o wide
  fndctl doctor -o json | jq '.findings[] | select(.level != \"ok\")'"
)]
pub(crate) struct Args {
    /// Check this functions directory; may be repeated [default: the daemon's, else those of an installation].
    #[arg(long, value_name = "DIR")]
    functions: Vec<PathBuf>,

    /// Check functions against this configuration [default: the daemon's, else /etc/fnd/fnd.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check the disk of this state directory [default: the daemon's, else /var/lib/fnd].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// # Errors
/// Standard output cannot be written, or the user has no home.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let chosen = ChosenPlaces {
        functions: args.functions,
        config: args.config,
        state: args.state,
    };
    finding::report(&context.out, findings(context, chosen).await?)
}
