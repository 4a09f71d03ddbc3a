//! `fndctl edit F`: a copy in the person's editor, then a check, then the file is replaced and fnd's answer shown.
//!
//! Files:
//! - `editor`: starts the editor, and asks what to do
//! - `save`: replaces the file, and waits for fnd

mod editor;
mod save;

use crate::common::candidates;
use crate::common::copy;
use crate::common::source::{FunctionSource, refused};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::health::installed::Ground;
use crate::health::syntax;
use crate::local::{self, LocalPlaces};
use editor::EditorAnswer;
use fnd_manifest::check::{Disk, check};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::regular_file;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The editor is $VISUAL, else $EDITOR, else nano or vi.\n\nExamples:\n  \
    fndctl edit hello\n  \
    fndctl edit hello --manifest            the manifest beside the code; a new one if there is none\n  \
    sudo fndctl edit ops/backup\n  \
    EDITOR='code --wait' fndctl edit hello"
)]
pub(crate) struct Args {
    /// Name of the function.
    #[arg(add = candidates::functions())]
    function: String,

    /// Edit the manifest beside the code, instead of the code.
    #[arg(short, long)]
    manifest: bool,
}

/// # Errors
/// There is no terminal or no editor, the file cannot be read or replaced, or fnd refuses it.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let help = "write the file yourself: `fndctl cat F -o name` prints its path, `fndctl validate FILE` checks it";
        return Err(CommandFailure::usage("`edit` needs a terminal").help(help));
    }
    let source = FunctionSource::of(context, &args.function, "edit").await?;
    if source.detail.more.uploaded {
        return Err(uploaded(&source, &args.function));
    }
    let file = file(&source, args.manifest)?;
    let failed = |what: &str, path: &Path, error: &io::Error| refused(what, path, error, ("edit", &args.function));
    // This is checked before the editor starts, so that a person without the right does not edit in vain.
    save::may_replace(&file).map_err(|error| failed("write", &file, &error))?;
    let before = match regular_file::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read.map_err(|error| failed("read", &file, &error))?),
    };
    let place = EditCopy::of(&source, &file, before.as_deref()).map_err(|error| failed("copy", &file, &error))?;
    loop {
        editor::edit(&place.file)?;
        let after = fs::read(&place.file).map_err(|error| failed("read", &place.file, &error))?;
        // A new manifest begins with one line from here. That line alone is no change.
        if Some(&after) == before.as_ref() || (before.is_none() && after == NEW) {
            context.out.line("nothing was changed, so nothing is saved")?;
            return Ok(Exit::Fine);
        }
        let problems = place.judged(context, &source).await?;
        context.out.diagnostics(&problems)?;
        let answer = match problems.as_slice() {
            [] => EditorAnswer::Save,
            [..] => editor::ask(context)?,
        };
        match answer {
            EditorAnswer::Again => {}
            EditorAnswer::Drop => {
                context.out.line("the changes are dropped")?;
                return Ok(Exit::Fine);
            }
            EditorAnswer::Save => {
                // The editor may have been open for a long time: a change that somebody else saved meanwhile is not
                // overwritten.
                if regular_file::read(&file).ok() != before {
                    let kept = place.keep();
                    let message = format!("`{}` was changed by somebody else meanwhile", file.display());
                    let help = format!("your version is kept: `diff {} {}`", file.display(), kept.display());
                    return Err(CommandFailure::new(Exit::Busy, message).help(help));
                }
                return save::save(context, &args.function, &file, &after).await;
            }
        }
    }
}

/// Returns why an upload is not edited in its place: only fnd writes there, since it exchanges code and manifest at once.
fn uploaded(source: &FunctionSource, function: &str) -> CommandFailure {
    let name = source.path.file_name().unwrap_or_default().display();
    let message = format!("`{function}` was uploaded, and only fnd writes uploads");
    CommandFailure::usage(message).help(format!(
        "get its code, edit it, and upload it again: `fndctl cat {function} -o raw >{name}`, `fndctl deploy {name} --name {function}`"
    ))
}

/// Text of a manifest that did not exist.
const NEW: &[u8] = b"#:schema file:///usr/share/fnd/schema/manifest.json\n";

/// Returns the file to edit.
fn file(source: &FunctionSource, manifest: bool) -> Result<PathBuf, CommandFailure> {
    if manifest {
        return Ok(source.manifest.clone());
    }
    let name = &source.detail.status.function;
    if source.archive().is_some() {
        let path = source.path.display();
        let message = format!("its code is the archive `{path}`, which has no text to edit");
        let help = format!(
            "change the files that it was built from, build it again, and copy it here; `fndctl edit {name} --manifest` edits \
             the manifest beside it"
        );
        return Err(CommandFailure::usage(message).help(help));
    }
    if !source.is_directory {
        return Ok(source.path.clone());
    }
    match source.detail.more.manifest["entry"].as_str() {
        None | Some("") => {
            let message = "its code is a directory, and fnd does not know which file runs";
            Err(CommandFailure::usage(message).help(format!("fndctl edit {name} --manifest")))
        }
        Some(entry) => Ok(source.path.join(entry)),
    }
}

/// A copy of the function, in which one file is edited.
struct EditCopy {
    directory: tempfile::TempDir,
    /// The copy of that file.
    file: PathBuf,
    /// The path that is judged: the copy of the code, or of the directory.
    function: PathBuf,
}

impl EditCopy {
    fn of(source: &FunctionSource, file: &Path, bytes: Option<&[u8]>) -> io::Result<Self> {
        // The whole function is copied, since the judge also looks at the files beside the edited one.
        let directory = tempfile::Builder::new().prefix("fndctl-edit-").tempdir()?;
        // The copy keeps the name, since the name of the file is that of the function.
        let copy_of = |path: &Path| directory.path().join(path.file_name().unwrap_or_default());
        let function = copy_of(&source.path);
        let copied = if source.is_directory {
            copy::tree(&source.path, &function, 0)?;
            function.join(file.strip_prefix(&source.path).unwrap_or(file))
        } else {
            copy::file(&source.path, &function)?;
            if source.manifest.exists() {
                copy::file(&source.manifest, &copy_of(&source.manifest))?;
            }
            copy_of(file)
        };
        if bytes.is_none() {
            fs::write(&copied, NEW)?;
        }
        Ok(Self {
            directory,
            file: copied,
            function,
        })
    }

    /// Returns the problems of the edited function, with the paths of its own files.
    async fn judged(&self, context: &Context, source: &FunctionSource) -> Result<Vec<Diagnostic>, CommandFailure> {
        let places = LocalPlaces::of(context.user)?;
        let (judge, mut problems) = local::judge(&places.config, &places.runtimes);
        if let Some(judge) = judge {
            let checked = check(&judge, &Disk, &self.function.display().to_string());
            problems.extend(checked.all().cloned());
            let ground = Ground::of(&self.function, &places, context.user);
            problems.extend(syntax::problems(&checked, &ground).await);
        }
        // The copy is gone after the edit, so the person must not be sent to its paths.
        let copied = self.directory.path().display().to_string();
        let own = source.path.parent().unwrap_or(Path::new("/")).display().to_string();
        for problem in &mut problems {
            for text in [&mut problem.file, &mut problem.help].into_iter().flatten() {
                *text = text.replace(&copied, &own);
            }
        }
        Ok(problems)
    }

    /// Keeps the copy and returns the path of its file.
    fn keep(self) -> PathBuf {
        let _ = self.directory.keep(); // the file's path is known already
        self.file
    }
}
