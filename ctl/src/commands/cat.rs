//! `fndctl cat F`: the code and the manifest of a function, with their paths.

use crate::common::candidates;
use crate::common::source::{FunctionSource, refused};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::Format;
use fnd_manifest::check::{CheckedFiles as _, Disk};
use fnd_manifest::regular_file;
use fnd_wire::archive;
use std::path::{Path, PathBuf};

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
    let source = FunctionSource::of(context, &args.function, "cat").await?;
    let asked = ("cat", args.function.as_str());
    let paths = source
        .files()
        .map_err(|error| refused("read", &source.path, &error, asked))?;
    let out = &context.out;
    // Names are printed before the files are read, since the caller may not be allowed to read them.
    if out.format == Format::Name {
        paths
            .iter()
            .try_for_each(|path| out.line(&path.display().to_string()))?;
        return Ok(Exit::Fine);
    }
    let read = |path: &PathBuf| {
        regular_file::read(path)
            .map(|bytes| (path.clone(), bytes))
            .map_err(|error| refused("read", path, &error, asked))
    };
    let files = paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    match out.format {
        Format::Raw => {
            // Only the code is printed: of several files, a reader could not tell where one ends.
            let code = files
                .iter()
                .find(|(path, _)| !source.is_directory || *path == source.manifest);
            out.raw(code.map(|(_, bytes)| bytes.as_slice()).unwrap_or_default())?;
        }
        Format::Json | Format::Yaml => {
            let list = files.iter().map(|(path, bytes)| {
                // An archive is no text, so the names of its files stand for it.
                let archive = source.archive().filter(|_| *path == source.path);
                let text = archive.map_or_else(
                    || String::from_utf8_lossy(bytes).into_owned(),
                    |format| listed(path, format),
                );
                serde_json::json!({"path": path.display().to_string(), "text": text})
            });
            let body = serde_json::json!({"function": args.function, "files": list.collect::<Vec<_>>()}).to_string();
            out.document(body.as_bytes(), |_: &serde_json::Value, _| Ok(()))?;
        }
        Format::Table | Format::Wide | Format::Name => {
            for (number, (path, bytes)) in files.iter().enumerate() {
                if number > 0 {
                    out.line("")?;
                }
                out.heading(&format!("# {}", path.display()))?;
                match source.archive().filter(|_| *path == source.path) {
                    Some(format) => context.out.line(&listed(path, format))?,
                    None => show(context, bytes)?,
                }
            }
        }
    }
    if let Some(newer) = &source.detail.more.newer {
        let why = newer.error.as_deref().unwrap_or("its first trial has not ended");
        out.aside(&format!("this content does not serve, but an earlier version: {why}"));
    }
    Ok(Exit::Fine)
}

/// Says what is in an archive.
fn listed(path: &Path, format: archive::Format) -> String {
    match Disk.unpack(&path.display().to_string(), format) {
        Ok(files) => {
            let mut names: Vec<&str> = files
                .iter()
                .map(|file| file.path.as_str())
                // One name more than is shown tells whether names are left out.
                .take(NAMES_MAX + 1)
                .collect();
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
