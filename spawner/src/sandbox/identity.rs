//! User and groups of a child.

use super::raw;

/// As whom a child runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Identity {
    /// Takes it on for good and checks that it did.
    ///
    /// # Errors
    /// The error number of the step that failed; `EPERM` where the kernel reports other numbers than were asked for.
    #[expect(
        unsafe_code,
        reason = "raw system calls between clone and exec; glibc's wrappers take locks shared with the launcher"
    )]
    pub fn take(&self) -> Result<(), i32> {
        let (uid, gid) = (self.uid as usize, self.gid as usize);
        // SAFETY: the list outlives the call and its length is its own; the other arguments are numbers.
        unsafe {
            raw(libc::SYS_setgroups, [self.groups.len(), self.groups.as_ptr() as usize, 0, 0, 0])?;
            raw(libc::SYS_setresgid, [gid, gid, gid, 0, 0])?;
            raw(libc::SYS_setresuid, [uid, uid, uid, 0, 0])?;
        }
        let (mut users, mut groups) = ([u32::MAX; 3], [u32::MAX; 3]);
        let addresses = |ids: &mut [u32; 3]| ids.each_mut().map(|id| std::ptr::from_mut(id) as usize);
        let ([a, b, c], [d, e, f]) = (addresses(&mut users), addresses(&mut groups));
        // SAFETY: each address is that of a number of the size the kernel writes.
        unsafe {
            raw(libc::SYS_getresuid, [a, b, c, 0, 0])?;
            raw(libc::SYS_getresgid, [d, e, f, 0, 0])?;
        }
        if users == [self.uid; 3] && groups == [self.gid; 3] { Ok(()) } else { Err(libc::EPERM) }
    }
}
