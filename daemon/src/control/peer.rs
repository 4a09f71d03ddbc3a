//! Identifies the peer of a connection, and decides its role.
//!
//! The kernel reports who connected (`SO_PEERCRED`, `SO_PEERGROUPS`: unix(7), socket(7)); a peer cannot choose it. The
//! groups are those that the process had when it connected, so a user that was added to a group must log in again
//! first.

use fnd_manifest::settings::{self, Role};
use nix::unistd::Group;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A connected process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Process id, for the journal; absent if the process has none in this namespace.
    pub pid: Option<i32>,
    /// User id.
    pub uid: u32,
    /// Ids of the group and the supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Returns the peer of a connection.
    ///
    /// # Errors
    /// If the kernel does not report it; then the connection has to be refused.
    pub fn of(stream: &tokio::net::UnixStream) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        let mut groups = peer_groups(stream)?;
        if !groups.contains(&credentials.gid()) {
            groups.push(credentials.gid());
        }
        Ok(Self {
            pid: credentials.pid(),
            uid: credentials.uid(),
            groups,
        })
    }
}

/// Most supplementary groups that a process can have (`NGROUPS_MAX`, credentials(7)).
const GROUPS_MAX: usize = 65_536;

/// Returns the supplementary groups of the process that connected.
fn peer_groups(stream: &impl AsFd) -> io::Result<Vec<u32>> {
    // Nearly every process has fewer; otherwise the kernel reports how many bytes are needed.
    let mut groups: Vec<libc::gid_t> = vec![0; 32];
    loop {
        let room = groups.len() * size_of::<libc::gid_t>();
        let mut length = libc::socklen_t::try_from(room).map_err(io::Error::other)?;
        #[expect(unsafe_code, reason = "neither nix nor rustix has SO_PEERGROUPS")]
        // SAFETY: the descriptor is open for the call; `groups` has room for `length` bytes and any bytes are valid
        // group ids; `length` is a socklen_t the kernel may write (getsockopt(2)).
        let result = unsafe {
            libc::getsockopt(
                stream.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let count = usize::try_from(length).map_err(io::Error::other)? / size_of::<libc::gid_t>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() || count > GROUPS_MAX {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

/// The roles of users and groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The daemon's own user, if that is a person's account: it is an admin, like root. Absent if fnd has an account of
    /// its own: no person uses that account, and fnd does not connect to itself.
    pub own_uid: Option<u32>,
    /// Roles of groups, by group id.
    pub groups: Vec<(u32, Role)>,
}

impl Access {
    /// Returns the roles of a configuration, and its problems: a group that is unknown or cannot be looked up gives no
    /// user a role.
    #[must_use]
    pub fn resolve(own_uid: Option<u32>, entries: &[settings::Access]) -> (Self, Vec<String>) {
        let mut groups = Vec::new();
        let mut problems = Vec::new();
        for entry in entries {
            match Group::from_name(&entry.group) {
                Ok(Some(group)) => groups.push((group.gid.as_raw(), entry.role)),
                Ok(None) => problems.push(format!(
                    "[[access]] names the group `{}`, which does not exist: it gives nobody a role",
                    entry.group
                )),
                Err(error) => problems.push(format!(
                    "failed to look up the group `{}` of [[access]]: it gives nobody a role: {error}",
                    entry.group
                )),
            }
        }
        (Self { own_uid, groups }, problems)
    }

    /// Returns the role of a peer: the greatest of its roles; nothing if no entry applies.
    #[must_use]
    pub fn role(&self, peer: &Peer) -> Option<Role> {
        if peer.uid == 0 || Some(peer.uid) == self.own_uid {
            return Some(Role::Admin);
        }
        let of_groups = self.groups.iter().filter(|(gid, _)| peer.groups.contains(gid));
        of_groups.map(|(_, role)| *role).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32, groups: &[u32]) -> Peer {
        Peer {
            pid: None,
            uid,
            groups: groups.to_vec(),
        }
    }

    #[test]
    fn roles_come_from_groups_and_the_greatest_counts() {
        let access = Access {
            own_uid: Some(990),
            groups: vec![(10, Role::Operator), (11, Role::Viewer), (12, Role::Admin)],
        };
        for (who, expected) in [
            (peer(0, &[0]), Some(Role::Admin)),
            (peer(990, &[]), Some(Role::Admin)),
            (peer(1000, &[1000, 11]), Some(Role::Viewer)),
            (peer(1000, &[11, 10]), Some(Role::Operator)),
            (peer(1000, &[12, 11]), Some(Role::Admin)),
            (peer(1000, &[1000]), None),
            (peer(1000, &[]), None),
        ] {
            assert_eq!(access.role(&who), expected, "{who:?}");
        }
        let service = Access {
            own_uid: None,
            ..access
        };
        assert_eq!(service.role(&peer(990, &[])), None);
        assert_eq!(service.role(&peer(0, &[])), Some(Role::Admin));
    }

    #[test]
    fn an_unknown_group_gives_nobody_a_role() {
        let entry = |group: &str| settings::Access {
            group: group.to_owned(),
            role: Role::Operator,
        };
        let (access, problems) = Access::resolve(Some(990), &[entry("root"), entry("no-such-group-fnd")]);
        assert_eq!(access.groups, [(0, Role::Operator)]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("`no-such-group-fnd`"), "{problems:?}");
    }

    #[tokio::test]
    async fn the_kernel_says_who_it_is() {
        let (here, _there) = tokio::net::UnixStream::pair().unwrap();
        let peer = Peer::of(&here).unwrap();
        assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
        assert!(peer.groups.contains(&nix::unistd::getegid().as_raw()));
        let mut expected: Vec<u32> = nix::unistd::getgroups()
            .unwrap()
            .into_iter()
            .map(nix::unistd::Gid::as_raw)
            .collect();
        expected.retain(|gid| !peer.groups.contains(gid));
        assert!(expected.is_empty(), "supplementary groups are missing: {expected:?}");
    }
}
