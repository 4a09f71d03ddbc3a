//! Identifies the peer of a connection, and finds its roles.
//!
//! The kernel reports who connected (`SO_PEERCRED`, `SO_PEERGROUPS`: unix(7), socket(7)); a peer cannot choose it. The
//! groups are those that the process had when it connected, so a user that was added to a group must log in again
//! first.

use fnd_core::access::{Author, Permissions};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::settings::{self, Role};
use fnd_manifest::warning::Warning;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// A connected process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Process id, for the journal; absent if the process has none in this namespace.
    pub pid: Option<i32>,
    /// The program of the process when it connected, if fnd may read its path: of processes of other users only root may.
    pub exe: Option<Arc<str>>,
    pub uid: u32,
    /// Ids of the group and the supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Returns the peer of a connection.
    ///
    /// # Errors
    /// If the kernel does not report it; then the connection has to be refused.
    pub fn of(stream: &impl AsFd) -> io::Result<Self> {
        let credentials = getsockopt(stream, PeerCredentials)?;
        let mut groups = peer_groups(stream)?;
        // `SO_PEERGROUPS` has the supplementary groups only.
        if !groups.contains(&credentials.gid()) {
            groups.push(credentials.gid());
        }
        // 0 stands for a process that this pid namespace does not show.
        let pid = Some(credentials.pid()).filter(|pid| *pid > 0);
        Ok(Self {
            pid,
            // Only for the audit: a process may execute another program after it has connected.
            exe: pid.and_then(program),
            uid: credentials.uid(),
            groups,
        })
    }
}

/// Most characters of a path that is kept.
const PATH_MAX: usize = 256;

/// Returns the path of a process's program.
fn program(pid: i32) -> Option<Arc<str>> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let text: String = path.to_string_lossy().chars().take(PATH_MAX).collect();
    Some(text.into())
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

/// Returns the groups that a user has now; none if there is no such user.
fn groups_of(uid: u32) -> Vec<u32> {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let groups = user.and_then(|user| getgrouplist(&CString::new(user.name).ok()?, user.gid).ok());
    groups.unwrap_or_default().into_iter().map(Gid::as_raw).collect()
}

/// The roles of users and groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerAccess {
    /// The daemon's own user, if that is a person's account: it is an admin, like root. Absent if fnd has an account of
    /// its own: no person uses that account, and fnd does not connect to itself.
    pub own_uid: Option<u32>,
    /// The entries of `[[access]]` whose user or group exists.
    pub entries: Vec<RoleGrant>,
}

/// A role of a user or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleGrant {
    /// The user or group.
    pub holder: Holder,
    pub role: Role,
    /// The functions that it is for: names and patterns; absent: all functions, and the node.
    pub functions: Option<Vec<String>>,
}

/// The holder of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The user with this id.
    User(u32),
    /// The members of the group with this id.
    Group(u32),
}

impl PeerAccess {
    /// Returns the roles of a configuration, and its problems: a group or user that is unknown or cannot be looked up
    /// gives no user a role.
    #[must_use]
    pub fn resolve(own_uid: Option<u32>, entries: &[settings::AccessSettings]) -> (Self, Vec<String>) {
        let mut access = Self {
            own_uid,
            entries: Vec::new(),
        };
        let mut problems = Vec::new();
        for entry in entries {
            let (kind, name, found) = match (&entry.group, &entry.user) {
                (Some(name), _) => {
                    let found =
                        Group::from_name(name).map(|group| group.map(|group| Holder::Group(group.gid.as_raw())));
                    ("group", name, found)
                }
                (None, Some(name)) => {
                    let found = User::from_name(name).map(|user| user.map(|user| Holder::User(user.uid.as_raw())));
                    ("user", name, found)
                }
                // The judge refuses such an entry.
                (None, None) => continue,
            };
            match found {
                Ok(Some(holder)) => access.entries.push(RoleGrant {
                    holder,
                    role: entry.role,
                    functions: entry.functions.clone(),
                }),
                Ok(None) => problems.push(format!(
                    "[[access]] names the {kind} `{name}`, which does not exist: it gives nobody a role"
                )),
                Err(error) => problems.push(format!(
                    "failed to look up the {kind} `{name}` of [[access]]: it gives nobody a role: {error}"
                )),
            }
        }
        (access, problems)
    }

    /// Returns the problems of [`Self::resolve`] as warnings, but for the group of the default: a package makes it, and a person who
    /// starts fnd does not need it.
    #[must_use]
    pub fn warnings(problems: Vec<String>) -> Vec<Diagnostic> {
        let problems = problems.into_iter();
        let others = problems.filter(|problem| !problem.contains("the group `fnd`"));
        let help = "correct the name, or create the group or user; then `fndctl reload`";
        others
            .map(|problem| Diagnostic::warning(Warning::UnknownHolder, problem).with_help(help))
            .collect()
    }

    /// Returns what the author of a function may do. While every admin is one for all functions, so was the unknown
    /// uploader of an earlier fnd.
    #[must_use]
    pub fn reach_of(&self, author: Author) -> Permissions {
        match author {
            Author::Root => Permissions::own(),
            Author::User(uid) => self.reach(&Peer {
                pid: None,
                exe: None,
                uid,
                groups: groups_of(uid),
            }),
            Author::Unknown => {
                let limited = |entry: &RoleGrant| entry.role == Role::Admin && entry.functions.is_some();
                if self.entries.iter().any(limited) {
                    Permissions::default()
                } else {
                    Permissions::own()
                }
            }
        }
    }

    /// Returns what a peer may do, by all entries that name it.
    #[must_use]
    pub fn reach(&self, peer: &Peer) -> Permissions {
        if peer.uid == 0 || Some(peer.uid) == self.own_uid {
            return Permissions::everywhere(Role::Admin);
        }
        let names = |entry: &&RoleGrant| match entry.holder {
            Holder::User(uid) => uid == peer.uid,
            Holder::Group(gid) => peer.groups.contains(&gid),
        };
        let entries = self.entries.iter().filter(names);
        Permissions::of(entries.map(|entry| (entry.role, entry.functions.as_deref())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::ids::FunctionName;

    fn peer(uid: u32, groups: &[u32]) -> Peer {
        Peer {
            pid: None,
            exe: None,
            uid,
            groups: groups.to_vec(),
        }
    }

    fn entry(holder: Holder, role: Role) -> RoleGrant {
        RoleGrant {
            holder,
            role,
            functions: None,
        }
    }

    #[test]
    fn roles_come_from_users_and_groups_and_the_greatest_counts() {
        let access = PeerAccess {
            own_uid: Some(990),
            entries: vec![
                entry(Holder::Group(10), Role::Operator),
                entry(Holder::Group(11), Role::Viewer),
                entry(Holder::Group(12), Role::Admin),
                entry(Holder::User(1001), Role::Operator),
                // A group with the number of a user is another thing.
                entry(Holder::User(11), Role::Admin),
            ],
        };
        for (who, expected) in [
            (peer(0, &[0]), Some(Role::Admin)),
            (peer(990, &[]), Some(Role::Admin)),
            (peer(1000, &[1000, 11]), Some(Role::Viewer)),
            (peer(1000, &[11, 10]), Some(Role::Operator)),
            (peer(1000, &[12, 11]), Some(Role::Admin)),
            (peer(1001, &[1001]), Some(Role::Operator)),
            (peer(1001, &[11]), Some(Role::Operator)),
            (peer(1001, &[12]), Some(Role::Admin)),
            (peer(1000, &[1001]), None),
            (peer(1000, &[1000]), None),
            (peer(1000, &[]), None),
        ] {
            assert_eq!(access.reach(&who).node(), expected, "{who:?}");
        }
        let service = PeerAccess {
            own_uid: None,
            ..access
        };
        assert_eq!(service.reach(&peer(990, &[])), Permissions::default());
        assert_eq!(service.reach(&peer(0, &[])).node(), Some(Role::Admin));
    }

    #[test]
    fn an_entry_with_functions_is_for_these_only() {
        let web = Some(vec!["web/*".to_owned()]);
        let access = PeerAccess {
            own_uid: None,
            entries: vec![
                RoleGrant {
                    functions: web,
                    ..entry(Holder::User(1001), Role::Operator)
                },
                entry(Holder::Group(11), Role::Viewer),
            ],
        };
        let function = |text: &str| FunctionName::new(text).unwrap();
        let reach = access.reach(&peer(1001, &[]));
        assert_eq!((reach.node(), reach.greatest()), (None, Some(Role::Operator)));
        assert_eq!(reach.function(&function("web/a")), Some(Role::Operator));
        assert_eq!(reach.function(&function("hello")), None);
        let reach = access.reach(&peer(1001, &[11]));
        assert_eq!(reach.node(), Some(Role::Viewer));
        assert_eq!(reach.function(&function("hello")), Some(Role::Viewer));
        assert_eq!(access.reach(&peer(1002, &[])), Permissions::default());
    }

    #[test]
    fn an_author_may_do_what_the_user_may() {
        let limited = RoleGrant {
            functions: Some(vec!["web/*".to_owned()]),
            ..entry(Holder::User(1001), Role::Admin)
        };
        let access = |entries: &[RoleGrant]| PeerAccess {
            own_uid: None,
            entries: entries.to_vec(),
        };
        let of = |access: &PeerAccess, author, function: &str| {
            access.reach_of(author).operates(&FunctionName::new(function).unwrap())
        };
        let both = access(&[limited, entry(Holder::Group(0), Role::Operator)]);
        for (author, web, other) in [
            (Author::Root, true, true),
            (Author::User(1001), true, false),
            (Author::User(0), true, true),
            (Author::User(4_000_000), false, false),
            (Author::Unknown, false, false),
        ] {
            assert_eq!(of(&both, author, "web/a"), web, "{author:?}");
            assert_eq!(of(&both, author, "ops/a"), other, "{author:?}");
        }
        // All admins are admins of everything, so the unknown one was.
        let whole = access(&[entry(Holder::Group(11), Role::Admin)]);
        assert!(of(&whole, Author::Unknown, "ops/a"));
    }

    #[test]
    fn an_unknown_user_or_group_gives_nobody_a_role() {
        let entry = |group: Option<&str>, user: Option<&str>| settings::AccessSettings {
            group: group.map(str::to_owned),
            user: user.map(str::to_owned),
            role: Role::Operator,
            functions: None,
        };
        let entries = [
            entry(Some("root"), None),
            entry(Some("no-such-group-fnd"), None),
            entry(None, Some("root")),
            entry(None, Some("no-such-user-fnd")),
        ];
        let (access, problems) = PeerAccess::resolve(Some(990), &entries);
        let holders: Vec<Holder> = access.entries.iter().map(|entry| entry.holder).collect();
        assert_eq!(holders, [Holder::Group(0), Holder::User(0)]);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].contains("the group `no-such-group-fnd`"), "{problems:?}");
        assert!(problems[1].contains("the user `no-such-user-fnd`"), "{problems:?}");
        let of_default = "[[access]] names the group `fnd`, which does not exist".to_owned();
        let warnings = PeerAccess::warnings([problems, vec![of_default]].concat());
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings.iter().all(|warning| !warning.is_error()));
    }

    #[tokio::test]
    async fn the_kernel_says_who_it_is() {
        let (here, _there) = tokio::net::UnixStream::pair().unwrap();
        let peer = Peer::of(&here).unwrap();
        assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
        let own = std::env::current_exe().unwrap();
        assert!(peer.exe.is_some_and(|exe| own.to_string_lossy().starts_with(&*exe)));
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
