//! The directories that a path leads through, links included: a change in one of them can lead the path elsewhere.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Links followed on the way to an interpreter (the kernel's own limit, `path_resolution(7)`).
const LINKS_MAX: usize = 40;

/// Returns each directory that a path leads through and the name that follows in it, links resolved. Where a part is
/// missing, the list ends with the missing name.
pub(crate) fn way(path: &Path) -> Vec<(PathBuf, OsString)> {
    let mut way = Vec::new();
    let mut at = PathBuf::from("/");
    let mut left: Vec<OsString> = parts(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        way.push((at.clone(), name.clone()));
        let next = at.join(&name);
        match std::fs::read_link(&next) {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                left.extend(parts(&target));
            }
            _ => at = next,
        }
    }
    way
}

/// Returns the names in a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_way_leads_through_every_link() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(root.join("3.12/bin")).unwrap();
        fs::write(root.join("3.12/bin/python3.12"), "").unwrap();
        symlink("python3.12", root.join("3.12/bin/python3")).unwrap();
        symlink("./3.12", root.join("current")).unwrap();
        let below = |path: &Path| path.strip_prefix(&root).ok().map(Path::to_owned);
        let found: Vec<_> = way(&root.join("current/bin/python3"))
            .into_iter()
            .filter_map(|(directory, name)| Some((below(&directory)?, name.into_string().unwrap())))
            .collect();
        let expected = [
            ("", "current"),
            ("", "3.12"),
            ("3.12", "bin"),
            ("3.12/bin", "python3"),
            ("3.12/bin", "python3.12"),
        ];
        assert_eq!(found, expected.map(|(at, name)| (PathBuf::from(at), name.to_owned())));
        // A link that leads in circles ends.
        symlink("round", root.join("round")).unwrap();
        assert!(way(&root.join("round")).len() < 100);
    }
}
