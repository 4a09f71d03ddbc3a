//! The caller of the control socket that has asked for a run.

use std::sync::Arc;

/// The caller, as the kernel named it when it connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Its user.
    pub uid: u32,
    /// Its process; absent if the process has no id where fnd runs.
    pub pid: Option<i32>,
    /// The program of the process, if fnd may read its path.
    pub exe: Option<Arc<str>>,
    /// The short name of the route, such as `invoke`.
    pub verb: &'static str,
}
