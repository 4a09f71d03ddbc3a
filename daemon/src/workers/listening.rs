//! The TCP ports on which functions' users listen, for people who look at a service.
//!
//! fnd may not look into the processes of other users, so it finds a port's owner by the user of the socket.

use procfs::net::{TcpNetEntry, TcpState};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The listening ports of each user, and the users of more than one function; each read when it is first asked for.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    ports: OnceCell<HashMap<u32, BTreeSet<u16>>>,
    shared: OnceCell<HashSet<u32>>,
}

impl Listening {
    /// Returns the ports on which a user listens, in ascending order; none if the kernel's tables cannot be read.
    pub(crate) fn of(&self, user: u32) -> Vec<u16> {
        let ports = self.ports.get_or_init(read).get(&user);
        ports.map(|ports| ports.iter().copied().collect()).unwrap_or_default()
    }

    /// Returns whether a user is fnd's, or occurs more than once among `users`, one for each function.
    pub(crate) fn is_shared(&self, user: u32, users: impl Iterator<Item = u32>) -> bool {
        // If several functions have one user, its ports cannot be told apart; fnd's own user has the listeners of fnd.
        let shared = self.shared.get_or_init(|| {
            let mut seen = HashSet::from([rustix::process::geteuid().as_raw()]);
            users.filter(|user| !seen.insert(*user)).collect()
        });
        shared.contains(&user)
    }
}

fn read() -> HashMap<u32, BTreeSet<u16>> {
    let entries = [procfs::net::tcp(), procfs::net::tcp6()]
        .into_iter()
        .flatten()
        .flatten();
    let mut found: HashMap<u32, BTreeSet<u16>> = HashMap::new();
    for TcpNetEntry { uid, local_address, .. } in entries.filter(|entry| entry.state == TcpState::Listen) {
        found.entry(uid).or_default().insert(local_address.port());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_port_is_found_by_its_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let listening = Listening::default();
        let own = rustix::process::geteuid().as_raw();
        assert!(listening.of(own).contains(&port));
        assert!(!listening.of(own.wrapping_add(77_777)).contains(&port));
        let users = [7, own + 8, 7, own];
        let is_shared = |user| listening.is_shared(user, users.into_iter());
        assert_eq!([own, 7, own + 8].map(is_shared), [true, true, false]);
        drop(listener);
        assert!(listening.of(own).contains(&port), "the tables are read once");
    }
}
