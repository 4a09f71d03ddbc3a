//! Sets user and groups of a child, and gives the spawner itself the file rights of a user.

use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid, parent_process_death_signal, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitySet, configure_capability_in_ambient_set, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// The user and the groups that a child runs as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<Gid>,
    /// The set of its capabilities, as bits.
    pub capabilities: u64,
}

impl Identity {
    /// Sets this process's groups to those of the identity.
    ///
    /// # Errors
    /// The error of the step that failed.
    pub fn take_groups(&self) -> Result<()> {
        let gid = Gid::from_raw(self.gid);
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(gid, gid, gid)
    }

    /// Opens files with the user's rights from now on. The user's other processes still can't send this process
    /// signals; only after [`take_user`](Self::take_user) they can stop it.
    #[expect(unsafe_code, reason = "setfsuid has no wrapper")]
    pub fn see_files_as_user(&self) {
        // SAFETY: a number. If it fails, files are opened as root, and execve checks the rights again as the user.
        unsafe { libc::syscall(libc::SYS_setfsuid, self.uid) };
    }

    /// Changes to the identity's user. The result is not checked by another call, since in each further call the child
    /// could be stopped. Only capabilities need such calls: the change of the user empties the ambient set, which a program keeps
    /// when it is executed (capabilities(7)).
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn take_user(&self) -> Result<()> {
        let uid = Uid::from_raw(self.uid);
        set_thread_res_uid(uid, uid, uid)?;
        let kept = CapabilitySet::from_bits_retain(self.capabilities);
        kept.iter().try_for_each(|one| configure_capability_in_ambient_set(one, true))
    }
}

/// Replaces root's file rights by those of a user and its group only. A process that has the user's id can be stopped
/// or killed by the user's other processes; this process can't. setfsuid(2).
///
/// # Errors
/// `EPERM` if the kernel did not change the rights.
pub fn take_files_of((uid, gid): (u32, u32)) -> Result<()> {
    set_thread_groups(&[])?;
    set_files_of((uid, gid))
}

/// Runs `body` with the file rights of a user and its group, then takes root's rights back. For root only.
///
/// # Errors
/// As [`take_files_of`]; then `body` was not run.
pub fn with_files_of<T>(owner: (u32, u32), body: impl FnOnce() -> T) -> Result<T> {
    let groups = rustix::process::getgroups()?;
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let done = take_files_of(owner).map(|()| body());
    // A failure here would leave the spawner with a mix of rights, so it ends instead.
    set_files_of(own).expect("root may take its own rights back");
    set_thread_groups(&groups)?;
    done
}

#[expect(unsafe_code, reason = "setfsuid and setfsgid have no wrapper")]
fn set_files_of((uid, gid): (u32, u32)) -> Result<()> {
    // With other file rights a process gets no signal at its parent's end any more (prctl(2), PR_SET_PDEATHSIG).
    let at_end = parent_process_death_signal()?;
    // SAFETY: numbers. Both calls return the former id, and change nothing if the number is not a valid id.
    let now = unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        (libc::setfsuid(u32::MAX), libc::setfsgid(u32::MAX))
    };
    set_parent_process_death_signal(at_end)?;
    if now == (uid.cast_signed(), gid.cast_signed()) { Ok(()) } else { Err(Errno::PERM) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;

    #[test]
    fn who_follows_its_parent_does_so_with_a_users_file_rights() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let kill = Some(rustix::process::Signal::KILL);
        let child = crate::process::clone::fork(None, false, 0, || {
            set_parent_process_death_signal(kill).unwrap();
            take_files_of((70_123, 70_123)).unwrap();
            i32::from(parent_process_death_signal() != Ok(kill))
        });
        let ended = crate::process::reap::wait(&child.unwrap()).unwrap();
        assert_eq!(ended.status, fnd_wire::frame::ExitStatus::Code(0));
    }

    #[test]
    fn who_has_a_users_file_rights_is_not_that_users_to_stop() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (user, dir) = (70_123, tempfile::tempdir().unwrap());
        let child = crate::process::clone::fork(None, false, 0, move || {
            let taken = take_files_of((user, user)).is_ok();
            if !taken {
                return 1;
            }
            loop {
                std::thread::park(); // until it is killed
            }
        });
        let child = child.unwrap();
        let uids = || std::fs::read_to_string(format!("/proc/{}/status", child.pid)).unwrap();
        while !uids().contains("Uid:\t0\t0\t0\t70123") {
            std::thread::yield_now();
        }
        for signal in ["-STOP", "-KILL"] {
            let pid = child.pid.to_string();
            let sent = std::process::Command::new("kill").args([signal, &pid]).uid(user).gid(user).output().unwrap();
            assert!(!sent.status.success(), "{signal}");
        }
        child.signal(rustix::process::Signal::KILL);
        let ended = crate::process::reap::wait(&child).unwrap();
        assert_eq!(ended.status, fnd_wire::frame::ExitStatus::Signal(9), "by root, as nobody else could");
        let made = with_files_of((user, user), || std::fs::write(dir.path().join("f"), "")).unwrap();
        assert!(made.is_err(), "the directory is root's");
        std::fs::write(dir.path().join("f"), "").unwrap();
    }
}
