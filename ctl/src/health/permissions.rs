//! Checks who could change the files that fnd runs: the modes and owners of functions, of the directories above them,
//! and of the configuration. The rule is the spawner's, which refuses files that break it (`INSECURE MODE`).

use super::finding::Finding;
use crate::local::LocalPlaces;
use fnd_wire::trust::secure;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const CHECK: &str = "permissions";

/// Mode and owner of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenFileMode {
    mode: u32,
    owner: u32,
    directory: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PermissionFacts {
    /// Functions directories that are not there.
    absent: Vec<PathBuf>,
    /// Paths that cannot be read, with reasons.
    hidden: BTreeMap<PathBuf, String>,
    /// Files that fnd reads, by real path.
    files: BTreeMap<PathBuf, SeenFileMode>,
    /// The directory of uploads, if another user owns it than the state of fnd; with that user.
    foreign: Option<(PathBuf, u32)>,
    /// Directories above them, up to the root.
    above: BTreeMap<PathBuf, SeenFileMode>,
}

/// Returns modes and owners of the files of functions, of the configuration, and of all directories above.
pub(crate) fn inspect(places: &LocalPlaces, files: &[String]) -> PermissionFacts {
    let mut facts = PermissionFacts::default();
    for directory in &places.functions {
        // fnd reads what a link names, so the modes along the real path count.
        match fs::canonicalize(directory) {
            Ok(real) => facts.add_above(&real),
            Err(error) if error.kind() == ErrorKind::NotFound => facts.absent.push(directory.clone()),
            Err(error) => {
                facts.hidden.insert(directory.clone(), error.to_string());
            }
        }
    }
    let uploads = places.uploads();
    // This directory belongs to the user that runs fnd, who has to write the uploads.
    let own = fs::metadata(places.state.join("state")).map(|about| about.uid());
    if let (Ok(about), Ok(own)) = (fs::metadata(&uploads), own)
        && about.uid() != own
    {
        facts.foreign = Some((uploads, own));
    }
    let files = files.iter().map(Path::new);
    for file in files.chain(places.config.exists().then_some(places.config.as_path())) {
        match fs::canonicalize(file).and_then(|real| Ok((seen(&real)?, real))) {
            Ok((seen, real)) => {
                real.parent().into_iter().for_each(|parent| facts.add_above(parent));
                facts.files.insert(real, seen);
            }
            // The file was removed after the directory was listed.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                facts.hidden.insert(file.to_owned(), error.to_string());
            }
        }
    }
    facts
}

impl PermissionFacts {
    fn add_above(&mut self, directory: &Path) {
        for above in directory.ancestors() {
            // The files of functions have few directories above them, and each of these is looked at once.
            if !self.above.contains_key(above)
                && let Ok(seen) = seen(above)
            {
                self.above.insert(above.to_owned(), seen);
            }
        }
    }
}

fn seen(path: &Path) -> std::io::Result<SeenFileMode> {
    let meta = fs::metadata(path)?;
    Ok(SeenFileMode {
        mode: meta.mode() & 0o7777,
        owner: meta.uid(),
        directory: meta.is_dir(),
    })
}

/// Returns the first of a real path and the directories above it that a user other than these owners can write to.
pub(crate) fn insecure_above(path: &Path, owners: &[u32]) -> Option<PathBuf> {
    let fine = |seen: SeenFileMode| secure(seen.mode, seen.directory, seen.owner) && owners.contains(&seen.owner);
    // A directory that cannot be looked at counts as insecure.
    path.ancestors()
        .find(|above| !seen(above).is_ok_and(fine))
        .map(Path::to_owned)
}

/// Judges the facts. `spawner` is the uid that installs functions.
pub(crate) fn judge(facts: &PermissionFacts, spawner: u32) -> Vec<Finding> {
    let mut findings = Vec::new();
    for directory in &facts.absent {
        let shown = directory.display();
        let found = Finding::warning(CHECK, "this functions directory does not exist").at(shown.to_string());
        findings.push(found.fix(format!("sudo install -d -m 0755 {shown}")));
    }
    for (path, error) in &facts.hidden {
        let found = Finding::unknown(CHECK, format!("it cannot be checked: {error}"));
        findings.push(found.at(path.display().to_string()).fix("run doctor as root"));
    }
    if let Some((path, own)) = &facts.foreign {
        let what = format!("fnd, as the user {own}, does not own the directory of uploads, so `fndctl deploy` fails");
        let shown = path.display().to_string();
        let fix = format!("sudo chown -R {own} {shown} && sudo chmod 0750 {shown}");
        findings.push(Finding::error(CHECK, what).at(shown).fix(fix));
    }
    for (path, seen) in &facts.files {
        // A sticky directory may be writable for others; a file may not.
        if seen.mode & 0o022 != 0 {
            findings.push(insecure(path, *seen));
        }
    }
    for (path, seen) in &facts.above {
        if !secure(seen.mode, seen.directory, seen.owner) {
            findings.push(insecure(path, *seen));
            continue;
        }
        let others = |file: &(&PathBuf, &SeenFileMode)| file.0.starts_with(path) && file.1.owner != seen.owner;
        if ![0, spawner].contains(&seen.owner) && facts.files.iter().any(|file| others(&file)) {
            let what = format!(
                "the user {} owns it, and can replace other users' files below it",
                seen.owner
            );
            let fix = format!("sudo chown {spawner} {}", path.display());
            findings.push(Finding::error(CHECK, what).at(path.display().to_string()).fix(fix));
        }
    }
    if findings.is_empty() {
        let what = format!(
            "no other user can change the {} files that fnd reads",
            facts.files.len()
        );
        findings.push(Finding::ok(CHECK, what));
    }
    findings
}

fn insecure(path: &Path, seen: SeenFileMode) -> Finding {
    let shown = path.display().to_string();
    let what = format!(
        "INSECURE MODE {:04o}: users other than root and the owner can write to it, so fnd does not read it",
        seen.mode
    );
    let fix = format!("sudo chmod go-w {shown}");
    Finding::error(CHECK, what).at(shown).fix(fix)
}

#[cfg(test)]
mod tests {
    use super::super::tests::brief;
    use super::*;

    fn facts(files: &[(&str, u32, u32)], above: &[(&str, u32, u32)]) -> PermissionFacts {
        let all = |all: &[(&str, u32, u32)], directory| {
            let one = |(path, mode, owner): &(&str, u32, u32)| {
                let (mode, owner) = (*mode, *owner);
                (PathBuf::from(path), SeenFileMode { mode, owner, directory })
            };
            all.iter().map(one).collect()
        };
        PermissionFacts {
            files: all(files, false),
            above: all(above, true),
            ..PermissionFacts::default()
        }
    }

    #[test]
    fn uploads_belong_to_fnd() {
        let facts = PermissionFacts {
            foreign: Some(("/s/functions".into(), 990)),
            ..PermissionFacts::default()
        };
        let expected = "error fnd, as the user 990, does not own the directory of uploads, so `fndctl deploy` fails";
        assert_eq!(brief(&judge(&facts, 0)), [expected]);
    }

    #[test]
    fn modes_and_owners() {
        const INSECURE: &str = "users other than root and the owner can write to it, so fnd does not read it";
        let exchange = "error the user 1000 owns it, and can replace other users' files below it".to_owned();
        let insecure = |mode: &str| format!("error INSECURE MODE {mode}: {INSECURE}");
        let file = |mode, owner| ("/f/a.sh", mode, owner);
        let fine = || vec!["ok no other user can change the 1 files that fnd reads".to_owned()];
        for (files, above, expected) in [
            (file(0o644, 0), ("/f", 0o755, 0), fine()),
            (file(0o664, 0), ("/f", 0o755, 0), vec![insecure("0664")]),
            (file(0o644, 0), ("/f", 0o775, 0), vec![insecure("0775")]),
            (file(0o644, 0), ("/f", 0o1777, 0), fine()),
            (file(0o644, 0), ("/f", 0o1777, 1000), vec![insecure("1777")]),
            (file(0o644, 0), ("/f", 0o755, 1000), vec![exchange.clone()]),
            (file(0o644, 1000), ("/f", 0o755, 1000), fine()),
            (file(0o644, 0), ("/elsewhere", 0o755, 1000), fine()),
        ] {
            assert_eq!(
                brief(&judge(&facts(&[files], &[above]), 0)),
                expected,
                "{files:?} {above:?}"
            );
        }
        let own = facts(&[file(0o644, 0)], &[("/f", 0o755, 1000)]);
        assert_eq!(brief(&judge(&own, 1000)), fine(), "the spawner's own user");
    }

    #[test]
    fn directories_that_are_absent_or_hidden() {
        let mut facts = facts(&[], &[]);
        facts.absent.push("/f".into());
        facts.hidden.insert("/g".into(), "why".into());
        let findings = judge(&facts, 0);
        assert_eq!(
            brief(&findings),
            [
                "warning this functions directory does not exist",
                "unknown it cannot be checked: why"
            ]
        );
        assert_eq!(findings[0].fix.as_deref(), Some("sudo install -d -m 0755 /f"));
    }
}
