//! Finds the cgroup hierarchies, and which parts of them may be used.

use std::fs;
use std::path::{Path, PathBuf};

/// A mounted hierarchy, with this process's own directory in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// The controllers in use: none for `cgroup2`; `memory`, `cpu` ... for v1.
    pub controllers: Vec<String>,
    pub mount: PathBuf,
    /// This process's own directory below the mount point; absent if the mount does not show it.
    pub own: Option<PathBuf>,
}

/// Returns the hierarchies in `/proc/self/mountinfo` and `/proc/self/cgroup`: cgroup2 (if mounted) first, then v1
/// hierarchies with a controller that is used.
pub fn hierarchies(mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = mountinfo.lines().filter_map(|line| hierarchy(line, own)).collect();
    found.sort_by_key(|hierarchy| !hierarchy.controllers.is_empty());
    found
}

fn hierarchy(line: &str, own: &str) -> Option<Hierarchy> {
    let (left, right) = line.split_once(" - ")?;
    let (mut left, mut right) = (left.split(' ').skip(3), right.split(' '));
    let (root, mount, kind, options) = (left.next()?, left.next()?, right.next()?, right.nth(1)?);
    let used = options.split(',').filter(|option| super::CONTROLLERS.contains(option));
    let controllers: Vec<String> = used.filter(|_| kind == "cgroup").map(str::to_owned).collect();
    if kind != "cgroup2" && controllers.is_empty() {
        return None;
    }
    // `0::/PATH` for cgroup2, `NUMBER:NAME,NAME:/PATH` for v1.
    let first = controllers.first().map_or("", String::as_str);
    let path = own.lines().find_map(|line| {
        let (names, path) = line.split_once(':')?.1.split_once(':')?;
        names.split(',').any(|name| name == first).then_some(path)
    });
    // The kernel writes a space in a path as `\040` (proc_pid_mountinfo(5)).
    let mount = PathBuf::from(mount.replace("\\040", " "));
    // A path that begins with `/..` lies outside of this process's cgroup namespace (cgroup_namespaces(7)).
    let below = path.filter(|path| !path.contains("/..")).and_then(|path| Path::new(path).strip_prefix(root).ok());
    Some(Hierarchy { controllers, own: below.map(|below| mount.join(below)), mount })
}

/// Returns the delegated unit of a process whose directory is `own`: `own` itself, or its parent if `own` is the unit's
/// `hold`.
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

/// Enables a controller for the functions, and returns whether it is enabled.
pub(super) fn enable(controller: &str, base: &Path, functions: &Path) -> bool {
    // From the top down: a group has only the controllers that its parent passes on (cgroup-v2.rst).
    [base, functions].into_iter().all(|dir| {
        let file = dir.join("cgroup.subtree_control");
        let _ = fs::write(&file, format!("+{controller}")); // read back below
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.split_whitespace().any(|name| name.trim_start_matches('+') == controller)
    })
}
