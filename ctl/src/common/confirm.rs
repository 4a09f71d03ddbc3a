//! Asks on the terminal before something is removed.

use crate::exit::CommandFailure;
use std::io::{self, IsTerminal as _, Write as _};

/// Returns whether to go on: the person says so, or nobody is there who could answer.
///
/// # Errors
/// The terminal cannot be read or written.
pub(crate) fn confirmed(question: &str) -> Result<bool, CommandFailure> {
    // Without a terminal nobody could answer, so a script is not asked.
    if !io::stdin().is_terminal() {
        return Ok(true);
    }
    let failed = |error: io::Error| CommandFailure::failed(format!("failed to ask: {error}"));
    // Standard output is for the result, and may be a pipe.
    let mut terminal = io::stderr();
    write!(terminal, "{question} [y/N] ").map_err(failed)?;
    terminal.flush().map_err(failed)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}
