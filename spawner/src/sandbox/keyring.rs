//! Session keyrings (session-keyring(7)): one that is shared is a way from one function to another.

/// Gives this process, and what it starts, a session keyring of its own.
#[expect(unsafe_code, reason = "keyctl has no wrapper")]
pub fn join_new() {
    // SAFETY: numbers and no name. Where it is refused (a kernel without keys, a container that forbids them) functions have
    // none either.
    unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, 0) };
}
