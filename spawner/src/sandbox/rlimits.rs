//! Resource limits of a process (`setrlimit(2)`).

use super::raw;
use fnd_core::plan::Limits;

/// A resource and its value, soft and hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rlimit {
    resource: u32,
    value: u64,
}

impl Rlimit {
    /// Returns a limit of a resource (`RLIMIT_*`), at most the present hard limit: without `CAP_SYS_RESOURCE` it can't be raised.
    pub fn new(resource: u32, value: u64) -> Self {
        let hard = hard(resource).unwrap_or(u64::MAX);
        Self { resource, value: value.min(hard) }
    }

    /// Puts it in force for this process.
    ///
    /// # Errors
    /// The error number of `prlimit64`.
    #[expect(unsafe_code, reason = "raw system call between clone and exec")]
    pub fn apply(self) -> Result<(), i32> {
        let pair = [self.value, self.value];
        // SAFETY: the pair has the layout of `struct rlimit64`.
        unsafe { raw(libc::SYS_prlimit64, [0, self.resource as usize, pair.as_ptr() as usize, 0, 0]) }.map(|_| ())
    }
}

#[expect(unsafe_code, reason = "raw system call, shared with the part between clone and exec")]
fn hard(resource: u32) -> Option<u64> {
    let mut pair = [0u64; 2];
    // SAFETY: the pair has the layout of `struct rlimit64` and is written.
    unsafe { raw(libc::SYS_prlimit64, [0, resource as usize, 0, std::ptr::from_mut(&mut pair) as usize, 0]) }.ok()?;
    Some(pair[1])
}

/// Returns the limits of a function's processes. Memory is not among them: only a cgroup counts it truly (deno dies below
/// an address space of 64 GiB).
pub fn of(limits: &Limits) -> Vec<Rlimit> {
    let mut all = vec![Rlimit::new(libc::RLIMIT_NOFILE, limits.open_files), Rlimit::new(libc::RLIMIT_CORE, 0)];
    all.extend(limits.file_size.map(|size| Rlimit::new(libc::RLIMIT_FSIZE, size)));
    all
}
