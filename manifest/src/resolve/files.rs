//! Checks the entries of `[[file]]`: directories that cannot be watched, and files that would start their function again.

use super::subject::FunctionProblems;
use crate::function::Mode;
use crate::function::file::normal;
use crate::function::keys::FileTrigger;
use crate::schema::tree::{self, TomlTable, place};
use std::path::Path;

/// Directories whose files are not on a disk: the kernel reports no changes of them.
const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Reports what is wrong with the entries; `own` is the manifest in which they are written, `code` the path of the
/// function's code.
pub(super) fn check(
    entries: &[FileTrigger],
    own: &TomlTable,
    (mode, code): (Mode, &str),
    report: &mut FunctionProblems<'_>,
) {
    let written = tree::entries(own, "file");
    for (number, entry) in entries.iter().enumerate() {
        for (key, message, help) in wrong(entry, mode, Path::new(code)) {
            report.impossible(place(written.get(number), key), message, help);
        }
    }
}

/// Returns what is wrong with an entry: the key, the message and what to do.
fn wrong(entry: &FileTrigger, mode: Mode, code: &Path) -> Vec<(&'static str, String, String)> {
    let mut wrong = Vec::new();
    let mut add = |key, message: String, help: &str| wrong.push((key, message, help.to_owned()));
    if mode == Mode::Service {
        let message = "`[[file]]` has no effect on a service, which is kept running and never invoked";
        add("path", message.to_owned(), "remove it, or use `mode = \"script\"`");
    }
    let path = normal(Path::new(&entry.path));
    if path == Path::new("/") {
        let message = "`/` cannot be watched: its files are those of the machine".to_owned();
        add("path", message, "name the directory into which the files come");
    } else if KERNELS.iter().any(|kernel| path.starts_with(kernel)) {
        let message = format!("`{}` has no files whose changes could be seen", path.display());
        add("path", message, "name a directory on a disk");
    } else if contains(&path, entry.recursive, code) {
        let path = path.display();
        let message = format!("`{path}` contains the function itself: each edit of it would run it");
        add("path", message, "watch a directory that contains no functions");
    }
    for (key, action) in [("then", &entry.then), ("failed", &entry.failed)] {
        let Some(to) = action.destination(&entry.path) else {
            continue;
        };
        if to == path {
            let message = format!("`{key}` moves the files to the directory in which they are");
            add(key, message, "name another directory, such as `move:done`");
        } else if entry.recursive && to.starts_with(&path) {
            let message = format!(
                "`{key}` moves the files to `{}`, which is watched too (`recursive`): they would run the function again",
                to.display()
            );
            add(key, message, "move them to a directory outside, such as `move:../done`");
        }
    }
    wrong
}

/// Returns whether a directory contains code of functions. Code in directory form is one level lower than the other
/// functions.
fn contains(path: &Path, recursive: bool, code: &Path) -> bool {
    let is_around = code.ancestors().skip(1).take(2).any(|directory| directory == path);
    code.is_absolute() && (is_around || recursive && code.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::file::FileAction;

    fn entry(path: &str) -> FileTrigger {
        FileTrigger {
            path: path.to_owned(),
            ..crate::schema::pick::FromValue::from_value(None).unwrap()
        }
    }

    fn moves(path: &str, to: &str, recursive: bool) -> FileTrigger {
        FileTrigger {
            then: FileAction::Move(to.to_owned()),
            recursive,
            ..entry(path)
        }
    }

    #[track_caller]
    fn check(entry: &FileTrigger, expected: &[(&str, &str)]) {
        let wrong = wrong(entry, Mode::Handler, Path::new("/etc/fnd/functions/in/main.py"));
        assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
        for ((key, message, help), (expected_key, part)) in wrong.iter().zip(expected) {
            assert_eq!(key, expected_key, "{message}");
            assert!(message.contains(part), "{message}");
            assert!(!help.is_empty());
        }
    }

    #[test]
    fn each_mistake_is_named_at_its_key() {
        check(&entry("/srv/in"), &[]);
        check(&entry("/"), &[("path", "cannot be watched")]);
        check(&entry("/proc/self"), &[("path", "no files whose changes")]);
        check(&entry("/process"), &[]);
        check(
            &entry("/etc/fnd/functions"),
            &[("path", "contains the function itself")],
        );
        check(
            &entry("/etc/fnd/functions/in/"),
            &[("path", "contains the function itself")],
        );
        check(&entry("/etc"), &[]);
        let below = FileTrigger {
            recursive: true,
            ..entry("/etc")
        };
        check(&below, &[("path", "contains the function itself")]);
        check(&moves("/srv/in", "done", false), &[]);
        check(&moves("/srv/in", ".", false), &[("then", "in which they are")]);
        check(&moves("/srv/in", "../in/", false), &[("then", "in which they are")]);
        check(&moves("/srv/in", "done", true), &[("then", "watched too")]);
        check(&moves("/srv/in", "../done", true), &[]);
        let failed = FileTrigger {
            failed: FileAction::Move("/srv/in".to_owned()),
            ..entry("/srv/in")
        };
        check(&failed, &[("failed", "in which they are")]);
        assert!(!super::wrong(&entry("/srv/in"), Mode::Service, Path::new("main.sh")).is_empty());
    }
}
