//! `fndctl completion SHELL`: the script that completes verbs and options.

use super::Context;
use crate::cli::Cli;
use crate::exit::{Exit, Failure};
use clap::CommandFactory as _;
use clap_complete::Shell;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl completion bash | sudo tee /usr/share/bash-completion/completions/fndctl\n  \
    fndctl completion fish > ~/.config/fish/completions/fndctl.fish\n  \
    fndctl completion zsh > \"${fpath[1]}/_fndctl\"")]
pub(crate) struct Args {
    /// The shell to complete in.
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fndctl", &mut script);
    context.out.raw(&script)?;
    Ok(Exit::Fine)
}
