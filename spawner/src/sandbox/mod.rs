//! What a child gives up before it becomes a function.
//!
//! Everything here is prepared before the clone and applied between clone and exec by raw system calls: the child shares
//! the launcher's memory there, so nothing may allocate, lock or touch glibc's view of the process.
//! Mounts, passwd, network, seccomp and landlock get their files here when they are built.

pub mod identity;
pub mod privileges;
pub mod rlimits;

/// Makes a system call that takes and returns numbers, and returns its error number.
///
/// # Safety
/// The arguments must be what the call takes; pointers must be valid for it.
#[expect(unsafe_code, reason = "between clone and exec only raw system calls are allowed")]
pub(crate) unsafe fn raw(number: libc::c_long, arguments: [usize; 5]) -> Result<usize, i32> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: promised by the caller; glibc's `syscall` only moves registers and sets errno.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    usize::try_from(result).map_err(|_| {
        // SAFETY: returns the address of this thread's errno.
        unsafe { *libc::__errno_location() }
    })
}
