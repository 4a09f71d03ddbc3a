//! Which cgroup hierarchies there are, and what of them may be used.

use super::CONTROLLERS;
use std::fs;
use std::path::{Path, PathBuf};

/// A mounted hierarchy: where, and this process's own directory in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// `cgroup2` has none; v1: `memory`, `cpu` ...
    pub controllers: Vec<String>,
    /// Mount point.
    pub mount: PathBuf,
    /// Own directory, below the mount point; absent where it is outside of what is mounted.
    pub own: Option<PathBuf>,
}

/// Returns the hierarchies of `/proc/self/mountinfo` and `/proc/self/cgroup`, cgroup2 (if mounted) first.
pub fn hierarchies(mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let (mut left, mut right) = (left.split(' ').skip(3), right.split(' '));
        let (Some(root), Some(mount), Some(kind)) = (left.next(), left.next(), right.next()) else {
            continue;
        };
        let options = right.nth(1).unwrap_or_default();
        let line_of = |wanted: &dyn Fn(&str, &str) -> bool| {
            own.lines().find_map(|line| {
                let (number, rest) = line.split_once(':')?;
                let (names, path) = rest.split_once(':')?;
                wanted(number, names).then(|| path.to_owned())
            })
        };
        let (controllers, path): (Vec<String>, _) = match kind {
            "cgroup2" => (Vec::new(), line_of(&|number, names| number == "0" && names.is_empty())),
            "cgroup" => {
                let here = options.split(',').filter(|option| CONTROLLERS.contains(option));
                let here: Vec<String> = here.map(str::to_owned).collect();
                let first = here.first().cloned().unwrap_or_default();
                let path = line_of(&|_, names| names.split(',').any(|name| name == first));
                (here, path)
            }
            _ => continue,
        };
        let mount = PathBuf::from(mount.replace("\\040", " "));
        let own = path
            .filter(|path| !path.contains("/.."))
            .and_then(|path| Path::new(&path).strip_prefix(root).ok().map(|below| mount.join(below)));
        let at = if kind == "cgroup2" { 0 } else { found.len() };
        found.insert(at, Hierarchy { controllers, mount, own });
    }
    found
}

/// Returns the delegated unit a process in `own` lives in: `own`, or its parent where `own` is the unit's `hold`.
///
/// systemd marks a delegated group with the attribute `trusted.delegate` or `user.delegate`.
pub(super) fn delegated(own: &Path) -> Option<PathBuf> {
    let marked = |dir: &Path| {
        ["trusted.delegate", "user.delegate"].iter().any(|name| {
            let mut value = [0u8; 1];
            rustix::fs::getxattr(dir, *name, &mut value[..]).is_ok() && value == *b"1"
        })
    };
    let writable = |dir: &Path| rustix::fs::access(dir.join("cgroup.procs"), rustix::fs::Access::WRITE_OK).is_ok();
    let parent = own.parent().filter(|_| own.file_name().is_some_and(|name| name == "hold"));
    [Some(own), parent].into_iter().flatten().find(|dir| marked(dir) && writable(dir)).map(Path::to_owned)
}

/// Switches a controller on for the functions, and says whether it is.
pub(super) fn enable(controller: &str, base: &Path, functions: &Path) -> bool {
    [base, functions].into_iter().all(|dir| {
        let file = dir.join("cgroup.subtree_control");
        let _ = fs::write(&file, format!("+{controller}")); // read back
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.split_whitespace().any(|name| name.trim_start_matches('+') == controller)
    })
}
