//! Drops capabilities, closes the ways to get some back, puts rules in force, and separates keyrings.

use rustix::io::{Errno, Result};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities_secure_bits, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
};
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Empties the bounding set but for some bits, which [`drop_all_but`] can then make inheritable. This needs `CAP_SETPCAP`, so
/// it comes before the change of the user.
///
/// # Errors
/// If root may not do it; `EPERM` if capabilities would outlive the change of the user (securebits, capabilities(7)).
pub fn empty_bounding_set(kept: u64) -> Result<()> {
    if !capabilities_secure_bits()?.is_empty() {
        return Err(Errno::PERM);
    }
    for capability in (0..64).map(|number| 1_u64 << number).filter(|bit| kept & *bit == 0) {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(capability)) {
            Err(Errno::INVAL) => break, // above the last one this kernel knows
            other => other?,
        }
    }
    Ok(())
}

/// Drops every capability but for some bits, now and for every program that is executed later. With `user_follows`, the one
/// to become another user stays until the user is changed, or until the program is executed.
///
/// # Errors
/// The error of the step that failed.
pub fn drop_all_but(kept: u64, user_follows: bool) -> Result<()> {
    // Without capabilities a process may add rules of Landlock and seccomp only with this flag (landlock(7),
    // seccomp(2)).
    set_no_new_privs(true)?;
    let _ = clear_ambient_capability_set(); // EINVAL: a kernel without ambient capabilities
    // At the change of the user, until execve(2). If this fails, the change takes them away, and they can't be made ambient.
    let _ = set_keep_capabilities(kept != 0);
    let kept = CapabilitySet::from_bits_retain(kept);
    let now = if user_follows { kept | CapabilitySet::SETUID } else { kept };
    set_capabilities(None, CapabilitySets { effective: now, permitted: now, inheritable: kept })
}

/// Puts rules of Landlock in force for this process and what it starts; a bare system call.
///
/// # Errors
/// If the kernel refuses it.
#[expect(unsafe_code, reason = "the crate's own call would allocate")]
pub fn restrict(rules: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: numbers.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Gives this process and its children a new session keyring (session-keyring(7)): through a shared one, one function could
/// reach another.
#[expect(unsafe_code, reason = "keyctl has no wrapper")]
pub fn join_new_keyring() {
    // SAFETY: numbers and no name. If the call is refused (a kernel without keys, a container that forbids them),
    // functions have no keys either.
    unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, 0) };
}
