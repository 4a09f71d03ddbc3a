//! User namespaces: where the spawner is not root, a process has the rights to make the other namespaces only in a user
//! namespace of its own. Nothing outside belongs to it, so it gains no right there. user_namespaces(7).

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::fs;

/// Returns user and group of this process; called before a namespace hides them.
pub fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Maps the user and the group that this process had outside its new user namespace to themselves.
///
/// # Errors
/// If the machine does not allow it.
pub fn map((uid, gid): (u32, u32)) -> std::io::Result<()> {
    // In the namespace this process's ids read as 65534 until they are mapped. Root owns the files in /proc/self unless
    // the process may be dumped, and a copy of the launcher may not.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    // An unprivileged process may write `gid_map` only after `setgroups` was denied (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}
