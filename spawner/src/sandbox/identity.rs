//! User and groups of a child.

use nix::unistd::{ResGid, ResUid, getresgid, getresuid};
use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// As whom a child runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<Gid>,
}

impl Identity {
    /// Takes it on for good and checks that it did.
    ///
    /// # Errors
    /// From the step that failed; `EPERM` where the kernel reports other numbers than were asked for.
    pub fn take(&self) -> Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        let (uid, gid) = (self.uid.into(), self.gid.into());
        let users = getresuid() == Ok(ResUid { real: uid, effective: uid, saved: uid });
        let groups = getresgid() == Ok(ResGid { real: gid, effective: gid, saved: gid });
        if users && groups { Ok(()) } else { Err(Errno::PERM) }
    }
}
