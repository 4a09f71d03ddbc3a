//! `fndctl cat F`: the code and the manifest of a function, with their paths.

use crate::common::candidates;
use crate::common::releases;
use crate::common::source::{FunctionSource, refused};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::Format;
use fnd_manifest::check::{CheckedFiles as _, Disk};
use fnd_manifest::regular_file;
use fnd_wire::archive;
use serde_json::json;
use std::io;
use std::path::Path;

/// Most files of an archive that are listed.
const NAMES_MAX: usize = 50;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl cat hello\n  \
    fndctl cat hello -o raw > copy.py     the code only, unchanged\n  \
    fndctl cat hello -o name              the paths of its files\n  \
    fndctl cat shop -o raw > shop.zip     an archive; without `-o raw`, the names of its files")]
pub(crate) struct Args {
    /// Name of the function.
    #[arg(add = candidates::functions())]
    function: String,
}

/// # Errors
/// There is no such function, or its files cannot be read.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    match of_files(context, &args).await {
        Err(denied) if denied.exit == Exit::NotAllowed => of_release(context, &args.function, denied).await,
        printed => printed,
    }
}

/// Prints the release that serves, as fnd keeps it: uploads lie where only root and fnd may read.
async fn of_release(context: &Context, function: &str, denied: CommandFailure) -> Result<Exit, CommandFailure> {
    let Some(files) = kept(context, function).await else {
        return Err(denied);
    };
    let out = &context.out;
    match out.format {
        Format::Name => out.lines(files.iter().map(|file| &file.path))?,
        Format::Raw => out.raw(code(&files))?,
        Format::Json | Format::Yaml | Format::Table | Format::Wide => return print(context, function, &files),
    }
    Ok(Exit::Fine)
}

/// A file of a function.
struct CatFile {
    path: String,
    bytes: Vec<u8>,
    /// The format of the archive that it is.
    archive: Option<archive::Format>,
}

/// Prints files: all in one document, or each below its path.
fn print(context: &Context, function: &str, files: &[CatFile]) -> Result<Exit, CommandFailure> {
    let out = &context.out;
    // An archive is no text, so the names of its files stand for it.
    let names = |file: &CatFile| file.archive.map(|format| names_in(&file.path, format));
    // A copy of all texts is made only for a document: files may be large, and the copy of one that is no text is larger.
    if out.format.is_document() {
        let member = |file: &CatFile| {
            let text = || String::from_utf8_lossy(&file.bytes).into_owned();
            json!({"path": file.path, "text": names(file).unwrap_or_else(text)})
        };
        let document = json!({"function": function, "files": files.iter().map(member).collect::<Vec<_>>()});
        return context.made(&document, |_| Ok(()));
    }
    for (number, file) in files.iter().enumerate() {
        if number > 0 {
            out.line("")?;
        }
        out.heading(&format!("# {}", file.path))?;
        match names(file) {
            Some(names) => out.line(&names)?,
            None => show(context, &file.bytes)?,
        }
    }
    Ok(Exit::Fine)
}

/// Returns the files of the release that serves; nothing if the caller may not read it, or a file is no text.
async fn kept(context: &Context, function: &str) -> Option<Vec<CatFile>> {
    let version = context.detail(function).await.ok()?.status.version?;
    let release = releases::files(context, function, &version.hex()).await.ok()?;
    let file = |path: String, text: String| CatFile {
        path,
        bytes: text.into_bytes(),
        archive: None,
    };
    let files = release.files.into_iter();
    files.map(|kept| Some(file(kept.path, kept.text?))).collect()
}

/// Returns the manifest in directory form, as for files on the disk; otherwise the code.
fn code(files: &[CatFile]) -> &[u8] {
    let manifest = files.iter().find(|file| file.path == "function.toml");
    let code = manifest.or(files.first());
    code.map(|file| file.bytes.as_slice()).unwrap_or_default()
}

async fn of_files(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let source = FunctionSource::of(context, &args.function, "cat").await?;
    let failed = |path: &Path, error: &io::Error| refused("read", path, error, ("cat", &args.function));
    let paths = source.files().map_err(|error| failed(&source.path, &error))?;
    let out = &context.out;
    // Names are printed before the files are read, since the caller may not be allowed to read them.
    if out.format == Format::Name {
        out.lines(paths.iter().map(|path| path.display().to_string()))?;
        return Ok(Exit::Fine);
    }
    // Only the code is printed in raw form: of several files, a reader could not tell where one ends.
    let code = paths
        .iter()
        .position(|path| !source.is_directory || *path == source.manifest);
    let mut files = Vec::new();
    for path in paths {
        files.push(CatFile {
            bytes: regular_file::read(&path).map_err(|error| failed(&path, &error))?,
            archive: source.archive().filter(|_| path == source.path),
            path: path.display().to_string(),
        });
    }
    if out.format == Format::Raw {
        let code = code.and_then(|at| files.get(at));
        out.raw(code.map(|file| file.bytes.as_slice()).unwrap_or_default())?;
    } else {
        print(context, &args.function, &files)?;
    }
    if let Some(newer) = &source.detail.more.newer {
        let why = newer.error.as_deref().unwrap_or("its first trial has not ended");
        out.aside(&format!("this content does not serve, but an earlier version: {why}"));
    }
    Ok(Exit::Fine)
}

/// Says what is in an archive.
fn names_in(path: &str, format: archive::Format) -> String {
    match Disk.unpack(path, format) {
        Ok(files) => {
            let names = files.iter().map(|file| file.path.as_str());
            // One name more than is shown tells whether names are left out.
            let mut names: Vec<&str> = names.take(NAMES_MAX + 1).collect();
            if names.len() > NAMES_MAX {
                names[NAMES_MAX] = "...";
            }
            format!("(an archive: {})", names.join(", "))
        }
        Err(refusal) => format!("(an archive that is refused: {})", refusal.words().0),
    }
}

fn show(context: &Context, bytes: &[u8]) -> Result<(), CommandFailure> {
    if std::str::from_utf8(bytes).is_err() {
        let size = crate::text::size(u64::try_from(bytes.len()).ok());
        return context.out.line(&format!("(no text: {size})"));
    }
    context.out.result(bytes)?;
    if bytes.ends_with(b"\n") || bytes.is_empty() {
        Ok(())
    } else {
        context.out.line("")
    }
}

#[cfg(test)]
mod tests {
    use super::{CatFile, code};

    #[test]
    fn the_code_of_a_release_is_that_of_its_files() {
        let file = |path: &str| CatFile {
            path: path.to_owned(),
            bytes: format!("text of {path}").into_bytes(),
            archive: None,
        };
        for (paths, expected) in [
            (vec!["hk.sh", "/var/lib/fnd/functions/web/hk.toml"], "text of hk.sh"),
            (vec!["a.py", "function.toml"], "text of function.toml"),
            (vec![], ""),
        ] {
            let files: Vec<_> = paths.into_iter().map(file).collect();
            assert_eq!(code(&files), expected.as_bytes());
        }
    }
}
