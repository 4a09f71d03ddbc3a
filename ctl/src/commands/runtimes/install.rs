//! `fndctl runtimes install|remove|list`: installs interpreters; needs no daemon.

use crate::common::reread::reload;
use crate::common::tables::table;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::interpreters::{Downloads, InstalledFiles, KnownInterpreter, Registry, ids, known, unpack, version};
use crate::local::LocalPlaces;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Where an installed system keeps interpreters. The descriptions of the shipped runtimes name it, too.
const SYSTEM: &str = "/opt/fnd/interpreters";

/// How many versions `list --available` shows of each interpreter.
const SHOWN: usize = 10;

/// Installs, removes and lists interpreters.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum InterpretersVerb {
    /// Install an interpreter: the official build of a package registry, after its checksum was compared.
    Install(Install),
    /// Remove one version of an interpreter, or all.
    Remove(Remove),
    /// List the interpreters that fndctl installed, or those that it can install.
    List(List),
}

/// The place of the interpreters.
#[derive(Debug, clap::Args)]
pub(crate) struct InterpretersPlace {
    /// Directory of the interpreters [default: /opt/fnd/interpreters, with --user $XDG_DATA_HOME/fnd/interpreters].
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  sudo fndctl runtimes install deno         the newest release\n  sudo fndctl runtimes install node 22      the newest release of 22\n  sudo fndctl runtimes install deno 2.9.5   functions use this version from now on\n  fndctl --user runtimes install deno       for your own fnd, without root\n  sudo fndctl runtimes install deno --file linux-x64-glibc-2.9.5.tgz\n\nVersions lie side by side. The registry is --registry, or the one that npm is\nconfigured to use (~/.npmrc, /etc/npmrc, NPM_CONFIG_REGISTRY); for uv it is\nthe index of pip (pip.conf, PIP_INDEX_URL). sudo drops variables such as\nNPM_CONFIG_REGISTRY and HTTPS_PROXY; `sudo --preserve-env=HTTPS_PROXY` keeps one."
)]
pub(crate) struct Install {
    /// deno, node, bun or uv.
    #[arg(value_name = "ID")]
    id: String,
    /// A version, or its first numbers [default: the newest release].
    version: Option<String>,
    /// A package that was fetched before; its checksum is not compared.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["version", "registry"])]
    file: Option<PathBuf>,
    /// Address of the registry.
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
    #[command(flatten)]
    place: InterpretersPlace,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  sudo fndctl runtimes remove deno 2.9.5\n  sudo fndctl runtimes remove deno          every version"
)]
pub(crate) struct Remove {
    /// deno, node, bun or uv.
    #[arg(value_name = "ID")]
    id: String,
    /// The version [default: all].
    version: Option<String>,
    #[command(flatten)]
    place: InterpretersPlace,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl runtimes list\n  fndctl runtimes list --available deno")]
pub(crate) struct List {
    /// Only this interpreter.
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// List the newest releases of the registry, too.
    #[arg(long)]
    available: bool,
    /// Address of the registry.
    #[arg(long, value_name = "URL", requires = "available")]
    registry: Option<String>,
    #[command(flatten)]
    place: InterpretersPlace,
}

/// One version of an interpreter.
#[derive(Debug, Serialize)]
struct Interpreter {
    id: String,
    version: String,
    installed: bool,
    /// Whether functions use this version.
    current: bool,
    path: PathBuf,
}

/// # Errors
/// The registry, the disk, or the command line.
pub(crate) async fn run(context: &Context, verb: InterpretersVerb) -> Result<Exit, CommandFailure> {
    match verb {
        InterpretersVerb::Install(args) => {
            let known = known(&args.id)?;
            let installed = InstalledFiles::new(&top(context, &args.place)?, known);
            let version = install(context, &args, known, &installed)?;
            configure(context, known, &installed, &args.place)?;
            let (id, shown) = (known.id, installed.program());
            let line = format!("{id} {version} is installed: {}", shown.display());
            context.made(&one(known, &installed, &version), |out| out.line(&line))?;
        }
        InterpretersVerb::Remove(args) => {
            let known = known(&args.id)?;
            let installed = InstalledFiles::new(&top(context, &args.place)?, known);
            let removed = installed.remove(args.version.as_deref())?;
            configure(context, known, &installed, &args.place)?;
            for version in removed {
                let line = format!("{} {version} is removed", known.id);
                context.made(&one(known, &installed, &version), |out| out.line(&line))?;
            }
        }
        InterpretersVerb::List(args) => return list(context, &args),
    }
    // An fnd that runs reads its files again, so that functions that were refused for want of an interpreter are installed.
    if let Err(failure) = reload(context).await {
        let help = match failure.exit {
            Exit::NotReachable => return Ok(Exit::Fine), // the next start finds the interpreter
            Exit::NotAllowed => "an administrator has to run it: sudo fndctl reload",
            _ => "fndctl reload says more",
        };
        let text = format!("fnd did not read its files again: {}; {help}", failure.message);
        context.out.aside(&text);
    }
    Ok(Exit::Fine)
}

fn top(context: &Context, place: &InterpretersPlace) -> Result<PathBuf, CommandFailure> {
    match &place.into {
        Some(directory) => {
            std::path::absolute(directory).map_err(|error| CommandFailure::usage(format!("--into: {error}")))
        }
        None if context.user => Ok(LocalPlaces::of(true)?.interpreters()),
        None => Ok(SYSTEM.into()),
    }
}

fn install(
    context: &Context,
    args: &Install,
    known: &'static KnownInterpreter,
    installed: &InstalledFiles,
) -> Result<String, CommandFailure> {
    let wanted = args.version.as_deref().map(version).transpose()?;
    let found = match &args.file {
        // The configuration of the registry is not read at all.
        Some(_) => None,
        None => {
            let downloads = downloads(known, args.registry.as_deref());
            Some((downloads.find(wanted)?, downloads))
        }
    };
    // The version is found before: one that does not exist leaves no directory.
    let fresh = installed.prepare()?;
    // The unfinished directory is removed at the end, also if a step in here fails.
    let filled = (|| {
        let program = fresh.join("bin").join(known.id);
        let Some((release, downloads)) = found else {
            return unpack(args.file.as_deref().unwrap_or(Path::new("")), known, &program);
        };
        let package = fresh.join("package").with_extension(known.kind.suffix());
        let mut file = File::create_new(&package)
            .map_err(|error| CommandFailure::failed(format!("failed to make `{}`: {error}", package.display())))?;
        let mut tenths = 0;
        downloads.fetch(&release, &mut file, |done, all| {
            let now = all.map_or(0, |all| done.saturating_mul(10) / all.max(1));
            // A line for each tenth is enough: a line for each piece would fill the terminal.
            if now > tenths {
                tenths = now;
                let (id, version, mebibytes) = (known.id, &release.version, done >> 20);
                let text = format!("{id} {version}: {now}0 %, {mebibytes} MiB");
                context.out.progress(&text);
            }
        })?;
        let version = unpack(&package, known, &program)?;
        // The version becomes the name of a directory and is shown to people, so the package must really have it.
        if version != release.version {
            let (id, wanted, found) = (known.id, &release.version, version.escape_debug());
            let message = format!("the package of {id} {wanted} is version {found}");
            return Err(CommandFailure::failed(message));
        }
        drop(fs::remove_file(package)); // if it stays, it only takes room
        Ok(version)
    })();
    let finished = filled.and_then(|filled| {
        // With `--file` only the package itself names its version, which becomes the name of a directory.
        version(&filled)?;
        installed.finish(&fresh, &filled)?;
        Ok(filled)
    });
    finished.inspect_err(|_| drop(fs::remove_dir_all(&fresh)))
}

/// Names an interpreter of a person's own fnd in a file of its own in `conf.d`, or removes that file with the interpreter.
/// The descriptions of the shipped runtimes know the directory of an installed system only.
fn configure(
    context: &Context,
    known: &KnownInterpreter,
    installed: &InstalledFiles,
    place: &InterpretersPlace,
) -> Result<(), CommandFailure> {
    if !context.user || !known.has_runtime || place.into.is_some() {
        return Ok(());
    }
    let directory = LocalPlaces::of(true)?.config.with_file_name("conf.d");
    let path = directory.join(format!("interpreter-{}.toml", known.id));
    // A JSON string is written as a basic string of TOML is.
    let program = serde_json::Value::from(installed.program().display().to_string());
    let id = known.id;
    let text = format!(
        "# Written by `fndctl --user runtimes install {id}`, removed by `remove`.\n[runtimes.{id}]\ninterpreters = {{ \"default\" = {program} }}\n"
    );
    let done = if installed.current().is_some() {
        fs::create_dir_all(&directory).and_then(|()| fs::write(&path, text))
    } else {
        fs::remove_file(&path).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
    };
    done.map_err(|error| CommandFailure::failed(format!("failed to change `{}`: {error}", path.display())))
}

fn one(known: &KnownInterpreter, installed: &InstalledFiles, version: &str) -> Interpreter {
    Interpreter {
        id: known.id.to_owned(),
        version: version.to_owned(),
        installed: installed.versions().iter().any(|found| found == version),
        current: installed.current().as_deref() == Some(version),
        path: installed.program(),
    }
}

fn downloads(known: &'static KnownInterpreter, registry: Option<&str>) -> Downloads {
    Downloads::new(Registry::of_machine(known, registry), known)
}
fn list(context: &Context, args: &List) -> Result<Exit, CommandFailure> {
    let top = top(context, &args.place)?;
    let mut interpreters = Vec::new();
    let is_meant = |id: &&'static str| args.id.as_deref().is_none_or(|wanted| wanted == *id);
    for id in ids().into_iter().filter(is_meant) {
        let known = known(id)?;
        let installed = InstalledFiles::new(&top, known);
        let mut versions = installed.versions();
        if args.available {
            let newest = downloads(known, args.registry.as_deref()).versions()?;
            let newest = newest.into_iter().take(SHOWN);
            versions.extend(newest.filter(|version| !installed.versions().contains(version)));
        }
        interpreters.extend(versions.iter().map(|version| one(known, &installed, version)));
    }
    // An unknown id matches nothing above, and the list would only be empty.
    if let Some(id) = &args.id {
        known(id)?;
    }
    let list = BTreeMap::from([("interpreters", &interpreters)]);
    context.made(&list, |out| {
        let heads = ["INTERPRETER", "VERSION", "STATE", "PATH"];
        out.table(&table(heads, &interpreters, |found| {
            let (state, path) = match (found.installed, found.current) {
                (_, true) => ("used", found.path.display().to_string()),
                (true, false) => ("installed", String::new()),
                (false, false) => ("available", String::new()),
            };
            [found.id.clone(), found.version.clone(), state.to_owned(), path]
        }))?;
        if interpreters.is_empty() {
            out.line("none is installed; `fndctl runtimes list --available` shows what can be installed")?;
        }
        Ok(())
    })
}
