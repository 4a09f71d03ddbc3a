//! `fndctl diff F [A] [B]`: the difference of two releases, manifest and code.

use crate::common::candidates;
use crate::common::releases;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::{ReleaseFile, ReleaseFiles, ReleaseList};
use fnd_core::lifecycle::release::{ReleaseState, short};
use serde::Serialize;
use similar::TextDiff;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long lines are compared exactly; after that the difference may be longer than it has to be.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl diff hello                 what the last edit changed\n  \
    fndctl diff hello 3fa8            from this release to the one that serves\n  \
    fndctl diff hello 3fa8 91c0")]
pub(crate) struct Args {
    /// Name of a function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// The older release, or the beginning of its name; without it, the release before the one that serves.
    #[arg(value_name = "A", add = candidates::releases())]
    from: Option<String>,

    /// The newer release; without it, the one that serves.
    #[arg(value_name = "B", add = candidates::releases())]
    to: Option<String>,
}

/// The difference of two releases, in the form of `-o json`.
#[derive(Debug, Serialize)]
struct ReleaseDiff {
    from: String,
    to: String,
    files: Vec<ChangedFile>,
}

/// A file that differs.
#[derive(Debug, Serialize)]
struct ChangedFile {
    path: String,
    /// `added`, `removed`, `changed` or `mode`.
    change: String,
    /// The lines in the unified form; absent if one of the files is no text.
    diff: Option<String>,
}

/// # Errors
/// There is no such release, or the daemon cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let function = &args.function;
    let (from, to) = match (args.from, args.to) {
        (Some(from), Some(to)) => (from, to),
        // B alone cannot be given, since the first word is A.
        (from, _) => last_two(function, &releases::of(context, function).await?, from)?,
    };
    let from = releases::files(context, function, &from).await?;
    let to = releases::files(context, function, &to).await?;
    let difference = ReleaseDiff {
        from: from.version.to_string(),
        to: to.version.to_string(),
        files: compare(&from, &to),
    };
    context.made(&difference, |out| {
        if difference.files.is_empty() {
            return out.remark("the files are the same; the releases differ by interpreter or secrets");
        }
        for file in &difference.files {
            let lines = match &file.diff {
                Some(diff) => diff.clone(),
                None => format!("{}: {}", file.path, file.change),
            };
            lines.lines().try_for_each(|line| out.difference(line))?;
        }
        Ok(())
    })
}

/// Returns the release to compare from, and the one that serves.
fn last_two(function: &str, list: &ReleaseList, from: Option<String>) -> Result<(String, String), CommandFailure> {
    let missing = |what: &str| CommandFailure::new(Exit::NoSuchThing, format!("`{function}` has no {what}"));
    // The newest release comes first: one that waits or is a canary stands before the one that serves.
    let releases = list.versions.iter();
    let mut releases = releases.skip_while(|release| release.state != ReleaseState::Serving);
    let serving = releases.next().ok_or_else(|| missing("release that serves"))?;
    // A release that failed has never served, so nothing was changed from it.
    let before = releases.find(|release| release.state == ReleaseState::Retired);
    let before = from.or_else(|| before.map(|release| release.version.hex()));
    let before = before.ok_or_else(|| missing("release before the one that serves"))?;
    Ok((before, serving.version.hex()))
}

/// Returns the files that differ, by path.
fn compare(from: &ReleaseFiles, to: &ReleaseFiles) -> Vec<ChangedFile> {
    let mut pairs: BTreeMap<&str, [Option<&ReleaseFile>; 2]> = BTreeMap::new();
    for (side, files) in [&from.files, &to.files].into_iter().enumerate() {
        for file in files {
            if let Some(place) = pairs.entry(&file.path).or_default().get_mut(side) {
                *place = Some(file);
            }
        }
    }
    let names = [short(from.version), short(to.version)];
    let pairs = pairs.into_iter();
    pairs.filter_map(|(path, pair)| changed(path, pair, &names)).collect()
}

fn changed(path: &str, pair: [Option<&ReleaseFile>; 2], names: &[String; 2]) -> Option<ChangedFile> {
    let change = match pair {
        // Files that are large or no text come without their content, but with a hash.
        [Some(old), Some(new)] if old.sha256 != new.sha256 => "changed",
        [Some(old), Some(new)] if old.executable != new.executable => "mode",
        [None, Some(_)] => "added",
        [Some(_), None] => "removed",
        [Some(_), Some(_)] | [None, None] => return None,
    };
    let is_binary = pair.iter().flatten().any(|file| file.text.is_none());
    let text = |side: Option<&ReleaseFile>| side.and_then(|file| file.text.clone()).unwrap_or_default();
    let label = |side: Option<&ReleaseFile>, name: &str| match side {
        Some(_) => format!("{path}  (release {name})"),
        // By this name patch(1) knows that there is no file on this side.
        None => "/dev/null".to_owned(),
    };
    let [old, new] = pair;
    let [from, to] = names;
    let change = match change {
        "mode" if new.is_some_and(|new| new.executable) => "is executable now".to_owned(),
        "mode" => "is not executable any more".to_owned(),
        change if is_binary => format!("{change}, no text"),
        change => change.to_owned(),
    };
    let (before, after) = (text(old), text(new));
    let shows_lines = !is_binary && before != after;
    let diff = shows_lines.then(|| {
        TextDiff::configure()
            .timeout(PATIENCE)
            .diff_lines(&before, &after)
            .unified_diff()
            .header(&label(old, from), &label(new, to))
            .to_string()
    });
    Some(ChangedFile {
        path: path.to_owned(),
        change,
        diff,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::ids::Version;

    fn release(version: u8, files: &[(&str, bool, Option<&str>)]) -> ReleaseFiles {
        let file = |(path, executable, text): &(&str, bool, Option<&str>)| ReleaseFile {
            path: (*path).to_owned(),
            executable: *executable,
            bytes: 1,
            sha256: format!("{}{text:?}", text.map_or(version, |_| 0)),
            text: text.map(str::to_owned),
        };
        ReleaseFiles {
            version: Version([version; 32]),
            files: files.iter().map(file).collect(),
        }
    }

    #[test]
    fn each_file_that_differs_is_shown_and_no_other() {
        let old = release(
            1,
            &[
                ("a.py", false, Some("x\ny\n")),
                ("gone", false, Some("z\n")),
                ("logo", false, None),
                ("same", false, Some("s")),
                ("run", false, Some("r")),
            ],
        );
        let new = release(
            2,
            &[
                ("a.py", false, Some("x\nY\n")),
                ("logo", false, None),
                ("new", false, Some("n\n")),
                ("same", false, Some("s")),
                ("run", true, Some("r")),
            ],
        );
        let changes = compare(&old, &new);
        let shown: Vec<_> = changes
            .iter()
            .map(|file| (file.path.as_str(), file.change.as_str(), file.diff.is_some()))
            .collect();
        assert_eq!(
            shown,
            [
                ("a.py", "changed", true),
                ("gone", "removed", true),
                ("logo", "changed, no text", false),
                ("new", "added", true),
                ("run", "is executable now", false),
            ]
        );
        assert_eq!(
            changes[0].diff.as_deref(),
            Some("--- a.py  (release 010101010101)\n+++ a.py  (release 020202020202)\n@@ -1,2 +1,2 @@\n x\n-y\n+Y\n")
        );
    }
}
