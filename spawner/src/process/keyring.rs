//! Separates session keyrings (session-keyring(7)): through a shared one, one function could reach another.

/// Gives this process and its children a new session keyring.
#[expect(unsafe_code, reason = "keyctl has no wrapper")]
pub fn join_new() {
    // SAFETY: numbers and no name. If the call is refused (a kernel without keys, a container that forbids them),
    // functions have no keys either.
    unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, 0) };
}
