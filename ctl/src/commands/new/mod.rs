//! `fndctl new NAME --runtime R`: writes a function that runs and explains itself. Needs no daemon.
//!
//! Files:
//! - `templates`: the files that it writes

mod templates;

use crate::common::quoted;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::local::LocalPlaces;
use crate::output::Format;
use clap::builder::PossibleValuesParser;
use fnd_wire::ids::FunctionName;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use templates::{TEMPLATES, Template, TemplateKind};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl new hello --runtime python                   a handler: hello.py and hello.toml\n  \
    fndctl new cleanup --runtime bash --kind script\n  \
    fndctl new web/shop --runtime node --kind http      in the group `web`\n  \
    fndctl new worker --runtime deno --kind service --dir ~/.config/fnd/functions")]
pub(crate) struct Args {
    /// Name of the function, or GROUP/NAME.
    name: String,

    /// Language of the function; `exec` is any executable file.
    #[arg(short, long, value_name = "RUNTIME", value_parser = PossibleValuesParser::new(runtimes()))]
    runtime: String,

    /// How the function is run [default: handler; with `exec`: script].
    #[arg(short, long, value_enum)]
    kind: Option<TemplateKind>,

    /// Directory to write to [default: the current one].
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// # Errors
/// The name is not one of a function, there is no such template, or a file exists or cannot be written.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let name = FunctionName::new(&args.name).map_err(|error| CommandFailure::usage(error.to_string()))?;
    let template = template(&args.runtime, args.kind)?;
    let base = args.dir.clone().unwrap_or_default();
    let (group, stem) = match name.as_str().split_once('/') {
        Some((group, stem)) => (base.join(group), stem),
        None => (base.clone(), name.as_str()),
    };
    if !base.as_os_str().is_empty() && !base.is_dir() {
        let message = format!("there is no directory `{}`", base.display());
        return Err(CommandFailure::usage(message).help(format!("mkdir -p {}", quoted(&base.display().to_string()))));
    }
    if group != base && !group.is_dir() {
        // Others may not write here, whatever the umask: fnd would refuse the functions in it.
        DirBuilder::new()
            .mode(0o755)
            .create(&group)
            .map_err(|error| refused(&group, &error))?;
    }
    if let Some(other) = taken(&group, stem) {
        let other = other.display();
        let message = format!("`{other}` exists: the function `{name}` would be there twice");
        return Err(CommandFailure::usage(message).help("choose another name, or another directory with --dir"));
    }
    let code = group.join(format!("{stem}{}", template.suffix));
    let manifest = group.join(format!("{stem}.toml"));
    write(&code, template.code, if template.executable { 0o755 } else { 0o644 })?;
    write(&manifest, template.manifest, 0o644)?;
    report(context, &name, template, &[code, manifest])
}

fn runtimes() -> Vec<&'static str> {
    let mut runtimes: Vec<&str> = TEMPLATES.iter().map(|template| template.runtime).collect();
    // The templates of one runtime stand together, so `dedup` finds all of them.
    runtimes.dedup();
    runtimes
}

fn template(runtime: &str, kind: Option<TemplateKind>) -> Result<&'static Template, CommandFailure> {
    let of_runtime = || TEMPLATES.iter().filter(|template| template.runtime == runtime);
    let wanted = of_runtime().find(|template| kind.is_none_or(|kind| template.kind == kind));
    wanted.ok_or_else(|| {
        let kinds: Vec<&str> = of_runtime().map(|template| template.kind.word()).collect();
        let kind = kind.map_or("", TemplateKind::word);
        let message = format!("there is no template for a function of kind `{kind}` in {runtime}");
        CommandFailure::usage(message).help(format!("kinds of {runtime}: {}", kinds.join(", ")))
    })
}

/// Returns a file or directory by which a function of that name exists already.
fn taken(directory: &Path, stem: &str) -> Option<PathBuf> {
    let here = Some(Path::new(".")).filter(|_| directory.as_os_str().is_empty());
    let directory = here.unwrap_or(directory);
    // If the directory cannot be read, the first write fails and says why.
    let entries = fs::read_dir(directory).ok()?.filter_map(Result::ok);
    let mut taken: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // An editor's copy of a file, such as `hello.py~`, is no function.
            let is_file = |rest: &str| rest.is_empty() || rest.starts_with('.') && !rest.ends_with('~');
            name.strip_prefix(stem).is_some_and(is_file)
        })
        .map(|entry| directory.strip_prefix(".").unwrap_or(directory).join(entry.file_name()))
        .collect();
    taken.sort();
    taken.into_iter().next()
}

/// Writes a new file. Other users cannot write to it, whatever the umask: fnd would refuse such a function.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), CommandFailure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &io::Error) -> CommandFailure {
    let message = format!("failed to write `{}`: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied => CommandFailure::new(Exit::NotAllowed, message)
            .help("run it with sudo, or write to another directory with --dir and copy the files"),
        _ => CommandFailure::usage(message),
    }
}

fn report(
    context: &Context,
    name: &FunctionName,
    template: &Template,
    files: &[PathBuf],
) -> Result<Exit, CommandFailure> {
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let next = next(context, name, template, &files);
    let document = serde_json::json!({
        "function": name.as_str(), "runtime": template.runtime, "kind": template.kind.word(), "files": files, "next": next,
    });
    context.made(&document, |out| {
        if out.format == Format::Name {
            return out.lines(&files);
        }
        out.line(&format!("wrote {}", files.join(" and ")))?;
        out.line("next:")?;
        out.lines(next.iter().map(|line| format!("  {line}")))
    })
}

/// Returns the commands that come next: try it, then save it where fnd finds it.
fn next(context: &Context, name: &FunctionName, template: &Template, files: &[String]) -> Vec<String> {
    let payload = match template.kind {
        TemplateKind::Handler => " -d '{\"name\": \"Ada\"}'",
        TemplateKind::Script => " -d '{\"text\": \"one two three\"}'",
        TemplateKind::Http | TemplateKind::Service => "",
    };
    let user = if context.user { " --user" } else { "" };
    let code = files.first().map(|file| quoted(file)).unwrap_or_default();
    let mut next = vec![format!("fndctl run {code}{payload}")];
    let places = LocalPlaces::of(context.user).ok();
    if let Some(directory) = places.and_then(|places| places.functions.into_iter().next()) {
        let directory = match name.as_str().split_once('/') {
            Some((group, _)) => directory.join(group),
            None => directory,
        };
        // Both paths are resolved, since the directory may have been reached through a link.
        let is_there = files.first().and_then(|file| fs::canonicalize(file).ok());
        let is_there = is_there.is_some_and(|file| file.parent() == fs::canonicalize(&directory).ok().as_deref());
        if !is_there {
            let mine = rustix::fs::access(&directory, rustix::fs::Access::WRITE_OK).is_ok();
            let sudo = if context.user || mine { "" } else { "sudo " };
            let files: Vec<String> = files.iter().map(|file| quoted(file)).collect();
            let directory = quoted(&directory.display().to_string());
            next.push(format!("{sudo}cp {} {directory}/", files.join(" ")));
        }
    }
    next.push(match template.kind {
        TemplateKind::Service => format!("fndctl{user} logs {name} -f"),
        TemplateKind::Handler | TemplateKind::Script | TemplateKind::Http => {
            format!("fndctl{user} invoke {name}{payload}")
        }
    });
    next
}
