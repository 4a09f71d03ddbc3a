//! The differences between two releases, line by line, with + and -.

use fnd_core::api::{ReleaseFile, ReleaseFiles};
use maud::{Markup, html};
use similar::{ChangeTag, TextDiff};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the lines of all files are compared exactly; after that a difference may be longer than it has to be.
const PATIENCE: Duration = Duration::from_millis(500);
/// Lines around a change.
const AROUND: usize = 3;

/// Returns the files that differ.
pub(crate) fn files(from: &ReleaseFiles, to: &ReleaseFiles) -> Markup {
    let mut pairs: BTreeMap<&str, [Option<&ReleaseFile>; 2]> = BTreeMap::new();
    for file in &from.files {
        pairs.entry(&file.path).or_default()[0] = Some(file);
    }
    for file in &to.files {
        pairs.entry(&file.path).or_default()[1] = Some(file);
    }
    let changed: Vec<_> = pairs.into_iter().filter(|(_, pair)| differ(pair)).collect();
    let patience = u32::try_from(changed.len()).map_or(Duration::ZERO, |files| PATIENCE / files.max(1));
    html! {
        @if changed.is_empty() {
            p.empty { "The files are the same; the releases differ by interpreter, packages or secrets." }
        }
        @for (path, pair) in changed {
            section {
                h2 { (path) }
                p { (what(&pair)) }
                @if let Some((old, new)) = texts(&pair) { (lines(old, new, patience)) }
            }
        }
    }
}

fn differ(pair: &[Option<&ReleaseFile>; 2]) -> bool {
    match pair {
        [Some(old), Some(new)] => old.sha256 != new.sha256 || old.executable != new.executable,
        _ => true,
    }
}

fn what(pair: &[Option<&ReleaseFile>; 2]) -> &'static str {
    match pair {
        [None, _] => "This file was added.",
        [_, None] => "This file was removed.",
        [Some(old), Some(new)] if old.sha256 == new.sha256 => {
            if new.executable {
                "It is executable now."
            } else {
                "It is not executable any more."
            }
        }
        [Some(old), Some(new)] if old.text.is_none() || new.text.is_none() => "It changed; it is no text.",
        [Some(_), Some(_)] => "It changed.",
    }
}

/// Returns the contents before and after; nothing where one of them is no text.
fn texts<'a>(pair: &[Option<&'a ReleaseFile>; 2]) -> Option<(&'a str, &'a str)> {
    let text = |file: Option<&'a ReleaseFile>| file.map_or(Some(""), |file| file.text.as_deref());
    Some((text(pair[0])?, text(pair[1])?))
}

/// Returns the lines that differ, with those around them.
fn lines(old: &str, new: &str, patience: Duration) -> Markup {
    let diff = TextDiff::configure().timeout(patience).diff_lines(old, new);
    html! {
        pre.diff tabindex="0" {
            @for (place, group) in diff.grouped_ops(AROUND).iter().enumerate() {
                @if place > 0 { span.gap { "…\n" } }
                @for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                    @let line = change.value().trim_end_matches('\n');
                    @match change.tag() {
                        ChangeTag::Delete => del { "-" (line) "\n" },
                        ChangeTag::Insert => ins { "+" (line) "\n" },
                        ChangeTag::Equal => span { " " (line) "\n" },
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::ids::Version;

    fn release(version: u8, files: &[(&str, Option<&str>)]) -> ReleaseFiles {
        let file = |(path, text): &(&str, Option<&str>)| ReleaseFile {
            path: (*path).to_owned(),
            executable: false,
            bytes: 1,
            sha256: text.map_or(version.to_string(), str::to_owned),
            text: text.map(str::to_owned),
        };
        ReleaseFiles {
            version: Version([version; 32]),
            files: files.iter().map(file).collect(),
        }
    }

    #[test]
    fn lines_have_a_sign_and_are_text() {
        let old = release(
            1,
            &[
                ("a.py", Some("x\n<b>\n")),
                ("gone", Some("z\n")),
                ("logo", None),
                ("same", Some("s")),
            ],
        );
        let new = release(
            2,
            &[
                ("a.py", Some("x\n<i>\n")),
                ("logo", None),
                ("new", Some("n")),
                ("same", Some("s")),
            ],
        );
        let html = files(&old, &new).into_string();
        let expected = "<span> x\n</span><del>-&lt;b&gt;\n</del><ins>+&lt;i&gt;\n</ins>";
        assert!(html.contains(expected), "{html}");
        for expected in ["removed", "<ins>+n\n</ins>", "no text"] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        assert!(!html.contains("same"), "{html}");
        assert!(files(&old, &old).into_string().contains("The files are the same"));
    }

    #[test]
    fn lines_that_are_compared_late_are_all_there() {
        let text = |from: u32| (from..from + 500).map(|line| format!("{line}\n")).collect::<String>();
        let html = lines(&text(0), &text(400), Duration::ZERO).into_string();
        for expected in ["<del>-0\n</del>", "<del>-399\n</del>", "<ins>+899\n</ins>"] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }
}
