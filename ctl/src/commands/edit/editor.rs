//! The person's editor, and the question after it.

use super::Context;
use crate::exit::CommandFailure;
use std::ffi::OsString;
use std::io::{self, BufRead as _};
use std::path::Path;
use std::process::Command;

/// The person's choice about a file that has problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditorAnswer {
    Again,
    Save,
    Drop,
}

/// Lets the person edit a file; returns when the editor has ended.
///
/// # Errors
/// There is no editor, it cannot be started, or it fails.
pub(super) fn edit(file: &Path) -> Result<(), CommandFailure> {
    let editor = editor()?;
    // A shell starts the editor, as in other programs, since the variable may have arguments.
    let mut script = editor.clone();
    script.push(" \"$1\"");
    let mut shell = Command::new("/bin/sh");
    let status = shell.arg("-c").arg(script).arg("sh").arg(file).status();
    let editor = editor.to_string_lossy();
    let failed = |error| CommandFailure::failed(format!("failed to start the editor `{editor}`: {error}"));
    let status = status.map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    let help = "nothing was saved; another editor: `EDITOR=nano fndctl edit ...`";
    Err(CommandFailure::failed(format!("the editor `{editor}` failed ({status})")).help(help))
}

fn editor() -> Result<OsString, CommandFailure> {
    // `VISUAL` comes first, as in crontab(1) and git.
    let mut named = ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os);
    if let Some(editor) = named.find(|editor| !editor.is_empty()) {
        return Ok(editor);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    let found = ["nano", "vi"].into_iter().find(is_there);
    found.map(OsString::from).ok_or_else(|| {
        let message = "there is no editor: neither $VISUAL nor $EDITOR is set, and nano and vi are not installed";
        CommandFailure::usage(message).help("EDITOR=/usr/bin/emacs fndctl edit ...")
    })
}

/// Asks what to do with a file that has problems. Nothing is saved without an answer.
///
/// # Errors
/// The terminal cannot be read or written.
pub(super) fn ask(context: &Context) -> Result<EditorAnswer, CommandFailure> {
    let question = b"edit again, save all the same, or drop the changes? [e/s/d] ";
    loop {
        context.out.raw(question)?;
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let read = read.map_err(|error| CommandFailure::usage(format!("failed to read the answer: {error}")))?;
        match line.trim() {
            // The end of the input (Ctrl-D) is no answer.
            _ if read == 0 => return Ok(EditorAnswer::Drop),
            "e" | "edit" | "" => return Ok(EditorAnswer::Again),
            "s" | "save" => return Ok(EditorAnswer::Save),
            "d" | "drop" => return Ok(EditorAnswer::Drop),
            _ => {}
        }
    }
}
