//! Finds the resource limits of a process (`setrlimit(2)`).

use rustix::process::{Resource, getrlimit};

/// Returns limits that can be set: at most the present hard limit, since without `CAP_SYS_RESOURCE` it can't be raised.
pub fn possible(mut limits: Vec<(Resource, u64)>) -> Vec<(Resource, u64)> {
    for (resource, value) in &mut limits {
        *value = (*value).min(getrlimit(*resource).maximum.unwrap_or(u64::MAX));
    }
    limits
}

/// Returns the limits of a function's processes. Memory is not among them: only a cgroup measures it correctly (deno
/// dies with an address space below 64 GiB).
pub fn of(limits: &fnd_wire::plan::Limits) -> Vec<(Resource, u64)> {
    let mut all = vec![(Resource::Nofile, limits.open_files), (Resource::Core, 0)];
    all.extend(limits.file_size.map(|size| (Resource::Fsize, size)));
    possible(all)
}
