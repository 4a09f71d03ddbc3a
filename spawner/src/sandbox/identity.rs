//! User and groups of a child, and the file rights of a user for the spawner itself.

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
    /// Takes on its groups.
    ///
    /// # Errors
    /// From the step that failed.
    pub fn take_groups(&self) -> Result<()> {
        let gid = Gid::from_raw(self.gid);
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(gid, gid, gid)
    }

    /// Opens files as its user from now on. Its other processes can't send it signals because of that; what follows
    /// [`take_user`](Self::take_user) they can stop.
    #[expect(unsafe_code, reason = "setfsuid has no wrapper")]
    pub fn see_files_as_user(&self) {
        // SAFETY: a number. Where it fails files are opened as root, and execve looks again as the user.
        unsafe { libc::syscall(libc::SYS_setfsuid, self.uid) };
    }

    /// Takes on its user, which is not looked at again: every call more is a moment in which the child can be stopped.
    ///
    /// # Errors
    /// From the kernel.
    pub fn take_user(&self) -> Result<()> {
        let uid = Uid::from_raw(self.uid);
        set_thread_res_uid(uid, uid, uid)
    }
}

/// Takes on the file rights of a user and its group, and no others, in place of root's. Unlike a process that has the user's
/// id, this one can't be stopped or killed by the user's other processes. setfsuid(2).
///
/// # Errors
/// `EPERM` where the kernel did not do it.
pub fn take_files_of((uid, gid): (u32, u32)) -> Result<()> {
    set_thread_groups(&[])?;
    set_files_of((uid, gid))
}

/// Does something with the file rights of a user and its group, and takes root's back. For root only.
///
/// # Errors
/// As [`take_files_of`]; then nothing was done.
pub fn with_files_of<T>(owner: (u32, u32), body: impl FnOnce() -> T) -> Result<T> {
    let groups = rustix::process::getgroups()?;
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let done = take_files_of(owner).map(|()| body());
    set_files_of(own).expect("root may take its own rights back");
    set_thread_groups(&groups)?;
    done
}

#[expect(unsafe_code, reason = "setfsuid and setfsgid have no wrapper")]
fn set_files_of((uid, gid): (u32, u32)) -> Result<()> {
    // SAFETY: numbers. Both return the former id, and change nothing when they are given one that is none.
    let now = unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        (libc::setfsuid(u32::MAX), libc::setfsgid(u32::MAX))
    };
    if now == (uid.cast_signed(), gid.cast_signed()) { Ok(()) } else { Err(Errno::PERM) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;

    #[test]
    fn who_has_a_users_file_rights_is_not_that_users_to_stop() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (user, dir) = (70_123, tempfile::tempdir().unwrap());
        let child = crate::clone::fork(None, false, 0, move || {
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
        let ended = crate::reap::wait(&child).unwrap();
        assert_eq!(ended.status, fnd_wire::frame::ExitStatus::Signal(9), "by root, as nobody else could");
        let made = with_files_of((user, user), || std::fs::write(dir.path().join("f"), "")).unwrap();
        assert!(made.is_err(), "the directory is root's");
        std::fs::write(dir.path().join("f"), "").unwrap();
    }
}
