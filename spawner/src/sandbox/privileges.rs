//! Capabilities and the ways to get some back.

use super::raw;

/// Empties the bounding set; needs `CAP_SETPCAP`, so before the identity is taken.
///
/// # Errors
/// The error number where root can't.
#[expect(unsafe_code, reason = "raw system calls between clone and exec")]
pub fn empty_bounding_set() -> Result<(), i32> {
    for capability in 0..64 {
        // SAFETY: numbers only.
        match unsafe { raw(libc::SYS_prctl, [libc::PR_CAPBSET_DROP as usize, capability, 0, 0, 0]) } {
            Ok(_) => {}
            Err(libc::EINVAL) => break, // above the last one this kernel knows
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Drops every capability, now and for everything that is executed later, and checks that none can be had.
///
/// # Errors
/// The error number of the step that failed.
#[expect(unsafe_code, reason = "raw system calls between clone and exec")]
pub fn drop_all() -> Result<(), i32> {
    // `_LINUX_CAPABILITY_VERSION_3`, this process; then effective, permitted, inheritable twice, all empty. capset(2).
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0u32; 6];
    // SAFETY: header and data have the size of version 3; the rest are numbers.
    unsafe {
        raw(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0])?;
        // EINVAL: a kernel without ambient capabilities.
        let _ = raw(libc::SYS_prctl, [libc::PR_CAP_AMBIENT as usize, libc::PR_CAP_AMBIENT_CLEAR_ALL as usize, 0, 0, 0]);
        raw(libc::SYS_capset, [header.as_ptr() as usize, none.as_ptr() as usize, 0, 0, 0])?;
    }
    Ok(())
}
