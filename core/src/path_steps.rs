//! The directories that a path leads through, links included: a change in one of them can lead the path elsewhere. The caller
//! reads the links.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Links followed on the way to an interpreter (the kernel's own limit, `path_resolution(7)`).
const LINKS_MAX: usize = 40;

/// Returns each directory that a path leads through and the name that follows in it, links resolved. Where a part is
/// missing, the list ends with the missing name. `link` returns the target of a path that is a link.
pub fn way(path: &Path, link: impl Fn(&Path) -> Option<PathBuf>) -> Vec<(PathBuf, OsString)> {
    let mut way = Vec::new();
    let mut at = PathBuf::from("/");
    let mut left: Vec<OsString> = parts(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            // The links in `at` are resolved, so its parent is the directory that the kernel goes to.
            at.pop();
            continue;
        }
        way.push((at.clone(), name.clone()));
        let next = at.join(&name);
        match link(&next) {
            Some(target) if links < LINKS_MAX => {
                links += 1;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                left.extend(parts(&target));
            }
            // Above its limit the kernel refuses the path, so what the link leads to does not matter.
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

    #[test]
    fn a_way_leads_through_every_link() {
        let links = [
            ("/python/current", "./3.12"),
            ("/python/3.12/bin/python3", "python3.12"),
            ("/usr/bin/python", "/python/current/bin/../bin/python3"),
            ("/round", "round"),
        ];
        let link = |path: &Path| {
            let found = links.iter().find(|(from, _)| Path::new(from) == path)?;
            Some(PathBuf::from(found.1))
        };
        let shown = |path: &str| {
            let way = way(Path::new(path), link).into_iter();
            way.map(|(directory, name)| directory.join(name).display().to_string())
                .collect::<Vec<_>>()
        };
        let expected = [
            "/usr",
            "/usr/bin",
            "/usr/bin/python",
            "/python",
            "/python/current",
            "/python/3.12",
            "/python/3.12/bin",
            "/python/3.12/bin",
            "/python/3.12/bin/python3",
            "/python/3.12/bin/python3.12",
        ];
        assert_eq!(shown("/usr/bin/python"), expected);
        assert_eq!(shown("/python/current")[2..], ["/python/3.12"]);
        // A link that leads in circles ends.
        assert!(way(Path::new("/round"), link).len() < 100);
    }
}
