//! `fndctl completion SHELL`: the script that completes verbs, options, functions and runs. It calls fndctl for them.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl completion bash | sudo tee /usr/share/bash-completion/completions/fndctl\n  \
    fndctl completion fish > ~/.config/fish/completions/fndctl.fish\n  \
    fndctl completion zsh > \"${fpath[1]}/_fndctl\"")]
pub(crate) struct Args {
    /// The shell to complete in.
    shell: Shell,
}

/// # Errors
/// Standard output cannot be written.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let script = crate::completion(&args.shell.to_string());
    let script = script.map_err(|error| CommandFailure::usage(format!("no completion for {}: {error}", args.shell)))?;
    context.out.raw(&script)?;
    Ok(Exit::Fine)
}
