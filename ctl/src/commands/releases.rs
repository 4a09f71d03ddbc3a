//! `fndctl releases F`, `rollback F [RELEASE]`, `pin F [RELEASE]` and `unpin F`.

use crate::client::encode;
use crate::common::candidates;
use crate::common::releases::path;
use crate::common::tables::toned;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, Tone};
use crate::text::distance;
use fnd_core::api::{HoldView, ReleaseChanged, ReleaseList, ReleaseView};
use fnd_core::lifecycle::release::{HoldKind, ReleaseState, short};
use jiff::Timestamp;

/// Most characters of a reason in the table.
const WHY_MAX: usize = 80;

/// Options of `releases` and `unpin`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of a function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,
}

/// Options of `rollback` and `pin`.
#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    /// Name of a function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// The release, or the beginning of its name.
    #[arg(value_name = "RELEASE", add = candidates::releases())]
    release: Option<String>,
}

/// Lists the releases of a function.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn list(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let reply = context.client.get(&path(&args.function)?).await?;
    let now = Timestamp::now();
    context.out.answer(&reply.body, |list: &ReleaseList, out| {
        let tone = |release: &ReleaseView| match release.state {
            ReleaseState::Serving | ReleaseState::Trying | ReleaseState::Canary => Tone::Plain,
            ReleaseState::Failed => Tone::Bad,
            ReleaseState::Waiting | ReleaseState::Retired => Tone::Dim,
        };
        let heads = ["RELEASE", "STATE", "SINCE", "FILE", "WHY"];
        out.table(&toned(heads, &list.versions, tone, |release| {
            let why = release.error.as_ref().or(release.why.as_ref());
            [
                short(release.version),
                state(release, list.hold.as_ref()),
                distance(Some(&release.since), now),
                out.printed(&release.source),
                why.map(|why| shortened(&out.printed(why), &release.source, out.format))
                    .unwrap_or_default(),
            ]
        }))
    })
}

/// Returns the beginning of a reason, which may be a whole traceback; `-o wide` and `show` have all of it. The directory of the
/// release's file `source` is left out: it says nothing new, and the reason would be cut earlier.
fn shortened(why: &str, source: &str, format: Format) -> String {
    if format == Format::Wide {
        return why.to_owned();
    }
    let place = format!("/{source}:");
    let in_directory = why.strip_prefix('/').and_then(|_| why.find(&place));
    let why = in_directory.map_or(why, |directory| &why[directory + 1..]);
    let mut short: String = why.chars().take(WHY_MAX).collect();
    if short.len() < why.len() {
        short.push('…');
    }
    short
}

/// Returns the state of a release, and whether it is held.
fn state(release: &ReleaseView, hold: Option<&HoldView>) -> String {
    let word = release.state.as_str();
    let hold = hold.filter(|hold| hold.version == release.version);
    match hold.map(|hold| hold.kind) {
        None => word.to_owned(),
        Some(HoldKind::Pin) => format!("{word}, pinned"),
        Some(HoldKind::Rollback) => format!("{word}, rolled back"),
    }
}

/// Holds a release; `verb` is `rollback` or `pin`.
///
/// # Errors
/// There is no such release, it cannot serve, or the daemon cannot be reached.
pub(crate) async fn hold(context: &Context, args: HoldArgs, verb: &str) -> Result<Exit, CommandFailure> {
    let mut path = format!("{}/{verb}", function_path(&args.function)?);
    if let Some(release) = &args.release {
        path.push_str(&format!("?version={}", encode(release)));
    }
    // fnd answers when the release serves or cannot, and a trial may take a while.
    context.out.progress("waiting until the release serves");
    let reply = context.client.post(&path).await?;
    let until = match verb {
        "pin" => "until `unpin`",
        _ => "until its file changes",
    };
    let function = &args.function;
    context.out.answer(&reply.body, |changed: &ReleaseChanged, out| {
        let release = changed.version.map(short).unwrap_or_default();
        let state = match changed.state {
            ReleaseState::Serving => "serves".to_owned(),
            state => format!("is {}", state.as_str()),
        };
        out.remark(&format!("{function}: release {release} {state}, {until}"))
    })
}

/// # Errors
/// Nothing is held, or the daemon cannot be reached.
pub(crate) async fn unpin(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let path = format!("{}/unpin", function_path(&args.function)?);
    let reply = context.client.post(&path).await?;
    let function = &args.function;
    context.out.answer(&reply.body, |_: &ReleaseChanged, out| {
        out.remark(&format!("{function}: its file serves again, when it can be loaded"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_but_for_wide_tables() {
        let (long, fits) = ("é".repeat(WHY_MAX + 1), "é".repeat(WHY_MAX));
        assert_eq!(shortened(&long, "job.py", Format::Table), format!("{fits}…"));
        assert_eq!(shortened(&long, "job.py", Format::Wide), long);
        assert_eq!(shortened(&fits, "job.py", Format::Table), fits);
    }

    #[test]
    fn the_directory_of_the_file_does_not_take_the_place_of_the_reason() {
        let why = format!("/srv/{}/job.py:5:7: invalid syntax", "deep/".repeat(20));
        assert_eq!(shortened(&why, "job.py", Format::Table), "job.py:5:7: invalid syntax");
        assert_eq!(shortened(&why, "job.py", Format::Wide), why);
        for other in ["no release of /srv/job.py: it is new", "exit 1"] {
            assert_eq!(shortened(other, "job.py", Format::Table), other);
        }
    }
}
