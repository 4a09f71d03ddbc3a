//! `fndctl deploy PATH`: uploads a file, a directory or an archive as a function, and waits until fnd accepts it. YAML files of
//! other systems are uploaded as the functions that they describe.
//!
//! Files:
//! - `foreign`: functions of YAML files of Keptn, Kubeless, Kyma and Rafay

mod foreign;

use crate::client::Reply;
use crate::common::answers::diagnostics;
use crate::common::releases;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::Output;
use crate::upload::{ManifestOptions, Packed, send};
use fnd_core::api::{FunctionDetail, ValidateReport};
use fnd_core::lifecycle::release::short;
use fnd_manifest::diagnostic::{Colour, Diagnostic};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl deploy hello.py\n  \
    fndctl deploy report.sh --name ops/report --schedule '0 6 * * *' --env TO=ops@example.com\n  \
    fndctl deploy ./shop --size L                 a directory; function.toml in it is its manifest\n  \
    fndctl deploy shop.tar.gz --dry-run           check only\n  \
    fndctl deploy hello.py --if-version sha256:3f2a   only over that version\n  \
    fndctl deploy function.yaml trigger.yaml      functions of Keptn, Kubeless, Kyma or Rafay\n\n\
    A manifest beside the file (hello.toml) is sent with it. An option wins over the same key of the manifest, and fndctl says so. \
    The code of a new function is loaded at its first call, unless it has `pool.min`; a new version is loaded before it serves. \
    A refused upload changes nothing: the version before serves, and the exit code is 8. Exit code 7: another version serves, or \
    somebody else deploys the function at this moment. Needs the role admin for the function.")]
pub(crate) struct Args {
    /// A file of code, a directory, or an archive (`.zip`, `.tar`, `.tar.gz`, `.tgz`, `.tar.xz`, `.tar.bz2`, `.tar.zst`). Or
    /// YAML files of Keptn, Kubeless, Kyma or Rafay, all functions of which are uploaded; `-` is one on standard input.
    #[arg(required = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,

    /// Name of the function [default: the name of the file].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    options: ManifestOptions,

    /// Replace only this version, as `fndctl show F` prints it; its beginning is enough.
    #[arg(long, value_name = "VERSION")]
    if_version: Option<String>,

    /// Only create a function: do nothing if there is one of that name.
    #[arg(long, conflicts_with = "if_version")]
    new: bool,

    /// Check the files as fnd would, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The status of the answer to an upload that made a function.
const CREATED: u16 = 201;

/// # Errors
/// PATH cannot be read, or fnd refuses it.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let mut code = args.paths.iter().filter(|path| !foreign::is_foreign(path));
    let path = match (code.next(), args.paths.len()) {
        (None, _) => return foreign::run(context, &args).await,
        (Some(path), 1) => path,
        (Some(path), _) => {
            let path = path.display();
            let message = format!("`{path}` is no YAML file, and only these are deployed together");
            let help = "deploy every file of code with a `fndctl deploy` of its own";
            return Err(CommandFailure::usage(message).help(help));
        }
    };
    let packed = Packed::of(path, args.name.as_deref(), &args.options)?;
    packed.remarks.iter().for_each(|remark| context.out.aside(remark));
    let reply = upload(context, &args, &packed, args.dry_run).await?;
    let out = &context.out;
    if args.dry_run {
        return out.answer(&reply.body, |report, out| say_valid(out, &packed, report));
    }
    out.document(&reply.body, |detail, out| say_done(out, &packed, reply.status, detail))?;
    // A function that was just created has no release that could serve beside this one.
    if reply.status != CREATED {
        say_beside(context, &packed.name).await?;
    }
    Ok(Exit::Fine)
}

/// Uploads a function under the conditions of the command line.
async fn upload(context: &Context, args: &Args, packed: &Packed, dry_run: bool) -> Result<Reply, CommandFailure> {
    let mut headers = Vec::new();
    // fnd compares the version again when it gets the upload, so a release between the two requests is noticed.
    if let Some(version) = &args.if_version {
        let version = whole(context, &packed.name, version).await?;
        headers.push(("if-match".to_owned(), format!("\"{version}\"")));
    }
    if args.new {
        headers.push(("if-none-match".to_owned(), "*".to_owned()));
    }
    send(context, packed, headers, dry_run).await
}

/// Says that a function is valid, with fnd's warnings.
fn say_valid(out: &Output, packed: &Packed, report: &ValidateReport) -> Result<(), CommandFailure> {
    let problems = report.diagnostics.iter().cloned();
    problems.for_each(|problem| warn(out, packed, problem));
    out.remark(&format!("{}: valid; nothing was changed", packed.name))
}

/// Says what becomes of a new release beside which another one serves.
async fn say_beside(context: &Context, name: &str) -> Result<(), CommandFailure> {
    let list = releases::of(context, name).await?;
    if let Some(canary) = list.canary {
        let (release, percent) = (short(canary.version), canary.percent);
        context.out.aside(&format!(
            "the release before serves; release {release} gets {percent} % of the calls: `fndctl canary {name}` shows how it does"
        ));
    } else if let Some(release) = list.hold.and_then(|hold| hold.waiting) {
        context.out.aside(&format!(
            "the release before serves; release {} waits, because that one is held: `fndctl releases {name}`",
            short(release)
        ));
    }
    Ok(())
}

/// Says what an upload has done, with fnd's warnings. `status` is the one of fnd's answer.
fn say_done(out: &Output, packed: &Packed, status: u16, detail: &FunctionDetail) -> Result<(), CommandFailure> {
    let name = &packed.name;
    let done = if status == CREATED { "created" } else { "replaced" };
    let problems = diagnostics(detail).into_iter();
    problems.for_each(|problem| warn(out, packed, problem));
    let version = detail.status.version.as_ref();
    let version = version.map(ToString::to_string).unwrap_or_default();
    // The version of an interpreter that runs for the first time is not known yet.
    let runtime = detail.status.runtime.split(' ').next().unwrap_or_default();
    let what = [runtime, detail.more.mode.as_str()];
    let what: Vec<&str> = what.into_iter().filter(|word| !word.is_empty()).collect();
    out.remark(&format!("{name}: {done}, {} ({version})", what.join(", ")))?;
    if detail.more.newer.is_some() {
        out.aside(&format!(
            "its new version is still being loaded: `fndctl show {name}` shows when it serves"
        ));
    }
    // fnd refuses the invocation of a service.
    let next = match detail.more.mode.as_str() {
        "service" => format!("fndctl status {name}"),
        _ => format!("fndctl invoke {name}"),
    };
    out.progress(&format!("next: {next}"));
    Ok(())
}

fn warn(out: &Output, packed: &Packed, mut problem: Diagnostic) {
    packed.localize(&mut problem);
    out.aside(&problem.render(Colour::Plain));
}

/// Returns the whole version that begins as somebody typed it; it must be the one that serves.
async fn whole(context: &Context, function: &str, typed: &str) -> Result<String, CommandFailure> {
    let serves = context.detail(function).await?.status.version;
    let serves = serves.map(|version| version.to_string()).unwrap_or_default();
    let hex = serves.strip_prefix("sha256:").unwrap_or_default();
    let begins = |text: &str| typed.len() >= 4 && text.starts_with(typed);
    // `sha256:` alone would be the beginning of every version.
    if begins(&serves) && typed.len() > "sha256:".len() || begins(hex) {
        return Ok(serves);
    }
    let message = format!("version {typed} of `{function}` does not serve, but `{serves}`: nothing was changed");
    Err(CommandFailure::new(Exit::Busy, message).help(format!("look at it: fndctl cat {function}")))
}
