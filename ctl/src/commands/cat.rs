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
use std::io;
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
        Format::Name => files.iter().try_for_each(|(path, _)| out.line(path))?,
        Format::Raw => out.raw(code(&files).as_bytes())?,
        Format::Json | Format::Yaml => {
            let list = files
                .iter()
                .map(|(path, text)| serde_json::json!({"path": path, "text": text}));
            let document = serde_json::json!({"function": function, "files": list.collect::<Vec<_>>()});
            context.made(&document, |_| Ok(()))?;
        }
        Format::Table | Format::Wide => {
            for (number, (path, text)) in files.iter().enumerate() {
                if number > 0 {
                    out.line("")?;
                }
                out.heading(&format!("# {path}"))?;
                show(context, text.as_bytes())?;
            }
        }
    }
    Ok(Exit::Fine)
}

/// Returns path and text of each file of the release that serves; nothing if the caller may not read it, or a file is no text.
async fn kept(context: &Context, function: &str) -> Option<Vec<(String, String)>> {
    let version = context.detail(function).await.ok()?.status.version?;
    let release = releases::files(context, function, &version.hex()).await.ok()?;
    let files = release.files.into_iter();
    files.map(|file| Some((file.path, file.text?))).collect()
}

/// Returns the manifest in directory form, as for files on the disk; otherwise the code.
fn code(files: &[(String, String)]) -> &str {
    let manifest = files.iter().find(|(path, _)| path == "function.toml");
    manifest.or(files.first()).map_or("", |(_, text)| text)
}

async fn of_files(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let source = FunctionSource::of(context, &args.function, "cat").await?;
    let failed = |path: &Path, error: &io::Error| refused("read", path, error, ("cat", &args.function));
    let paths = source.files().map_err(|error| failed(&source.path, &error))?;
    let out = &context.out;
    // Names are printed before the files are read, since the caller may not be allowed to read them.
    if out.format == Format::Name {
        let mut names = paths.iter().map(|path| path.display().to_string());
        return names.try_for_each(|name| out.line(&name)).map(|()| Exit::Fine);
    }
    let mut files = Vec::new();
    for path in paths {
        let bytes = regular_file::read(&path).map_err(|error| failed(&path, &error))?;
        files.push((path, bytes));
    }
    // An archive is no text, so the names of its files stand for it.
    let archive = |path: &PathBuf| source.archive().filter(|_| *path == source.path);
    match out.format {
        Format::Raw => {
            // Only the code is printed: of several files, a reader could not tell where one ends.
            let is_code = |path: &PathBuf| !source.is_directory || *path == source.manifest;
            let code = files.iter().find(|(path, _)| is_code(path));
            out.raw(code.map(|(_, bytes)| bytes.as_slice()).unwrap_or_default())?;
        }
        Format::Json | Format::Yaml => {
            let list = files.iter().map(|(path, bytes)| {
                let text = || String::from_utf8_lossy(bytes).into_owned();
                let text = archive(path).map_or_else(text, |format| listed(path, format));
                serde_json::json!({"path": path.display().to_string(), "text": text})
            });
            let document = serde_json::json!({"function": args.function, "files": list.collect::<Vec<_>>()});
            context.made(&document, |_| Ok(()))?;
        }
        Format::Table | Format::Wide | Format::Name => {
            for (number, (path, bytes)) in files.iter().enumerate() {
                if number > 0 {
                    out.line("")?;
                }
                out.heading(&format!("# {}", path.display()))?;
                match archive(path) {
                    Some(format) => out.line(&listed(path, format))?,
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
    use super::code;

    #[test]
    fn the_code_of_a_release_is_that_of_its_files() {
        let file = |path: &str| (path.to_owned(), format!("text of {path}"));
        for (paths, expected) in [
            (vec!["hk.sh", "/var/lib/fnd/functions/web/hk.toml"], "text of hk.sh"),
            (vec!["a.py", "function.toml"], "text of function.toml"),
            (vec![], ""),
        ] {
            let files: Vec<_> = paths.into_iter().map(file).collect();
            assert_eq!(code(&files), expected);
        }
    }
}
