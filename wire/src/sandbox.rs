//! The sandbox of a function: which layers around it are wanted. The judge writes it, and the spawner builds it.

use crate::form::{wire_enum, wire_structs};

wire_enum! {
    /// How much of the machine a function sees, or which system calls it may use. A greater profile gives more.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Profile {
        /// An own view of files, processes and devices, and a list of allowed system calls.
        0 = Strict,
        /// A read-only system, own temporary files and processes, and a list of refused system calls.
        1 = Standard,
        /// Nothing but an own user, no privileges, and limits.
        2 = Off,
    }
}

wire_enum! {
    /// The network that a function can use.
    pub enum Network {
        /// The machine's.
        0 = Host,
        /// A network of its own with nothing but a loopback interface.
        1 = Loopback,
        /// A network of its own, and no sockets but local ones.
        2 = None,
        /// The machine's, but only TCP connections to these ports.
        3 = Connect(Vec<u16>),
    }
}

wire_structs! {
    /// The sandbox of a function version.
    pub struct Sandbox {
        /// The view of files, processes and devices that the function gets.
        pub profile: Profile,
        /// The network that the function can use.
        pub network: Network,
        /// Which system calls are allowed: those of this profile.
        pub syscalls: Profile,
        /// Whether the processes of the whole machine are visible.
        pub proc_full: bool,
        /// Absolute paths that are visible, read-only, although the profile hides them.
        pub read_only: Vec<String>,
        /// Absolute paths that the function may write to, as far as its user may.
        pub read_write: Vec<String>,
        /// Absolute paths that are hidden although the profile shows them.
        pub hide: Vec<String>,
        /// Absolute paths of device files that are visible.
        pub devices: Vec<String>,
        /// Size in bytes of `/tmp`, `/var/tmp` and `/dev/shm` together.
        pub tmp: u64,
        /// Names of layers that must be in force: those that the manifest itself sets, or all of the profile if
        /// `[sandbox] missing` of `fnd.toml` is `refuse`.
        pub asked: Vec<String>,
    }
}

/// Most paths of one kind in a sandbox.
pub const PATHS_MAX: usize = 64;

impl Sandbox {
    /// Returns the sandbox of a profile that nothing was added to and nothing taken away from.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        let [read_only, read_write, hide, devices, asked] = <[Vec<String>; 5]>::default();
        Self {
            profile,
            network: Network::Host,
            syscalls: profile,
            proc_full: false,
            read_only,
            read_write,
            hide,
            devices,
            tmp: 1 << 20,
            asked,
        }
    }

    /// Returns why the sandbox is invalid in itself; absent if it is valid. The spawner trusts no judge to have checked
    /// it.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        let lists = [&self.read_only, &self.read_write, &self.hide, &self.devices];
        if lists.iter().any(|list| list.len() > PATHS_MAX) {
            return Some(format!("the sandbox lists more than {PATHS_MAX} paths of one kind"));
        }
        let bad = |path: &&String| !is_plain(path);
        if let Some(path) = lists.into_iter().flatten().find(bad) {
            return Some(format!(
                "the sandbox names `{}`, which is no plain absolute path",
                path.escape_debug()
            ));
        }
        // A path with `..` was refused above, so `/dev/../etc/shadow` does not come here.
        if let Some(path) = self.devices.iter().find(|path| !path.starts_with("/dev/")) {
            return Some(format!(
                "the sandbox names the device `{}`, which is not below /dev",
                path.escape_debug()
            ));
        }
        let tmp = (1 << 16..1 << 50).contains(&self.tmp);
        (!tmp).then(|| "the size of the temporary files is out of bounds".to_owned())
    }

    /// Returns the first key with which this sandbox gives a function more than another profile would; only files of
    /// root may do that.
    #[must_use]
    pub fn widens(&self, profile: Profile) -> Option<&'static str> {
        self.exceeds(&Self::of(profile))
    }

    /// Returns the first key with which this sandbox gives a function more than another sandbox does.
    #[must_use]
    pub fn exceeds(&self, other: &Self) -> Option<&'static str> {
        let more = |mine: &[String], theirs: &[String]| mine.iter().any(|path| !theirs.contains(path));
        [
            // `network` and `hide` are missing: a profile has the machine's network and hides only its own list, so
            // both can only take something away.
            (self.profile > other.profile, "profile"),
            (self.syscalls > other.syscalls, "syscalls"),
            // The profile `off` shows all processes anyway.
            (
                self.proc_full && !other.proc_full && other.profile != Profile::Off,
                "proc",
            ),
            (more(&self.read_only, &other.read_only), "read_only"),
            (more(&self.read_write, &other.read_write), "read_write"),
            (more(&self.devices, &other.devices), "devices"),
        ]
        .into_iter()
        .find_map(|(exceeds, key)| exceeds.then_some(key))
    }
}

/// Returns whether a path is absolute, not `/` itself, and has no empty part, `.` or `..`.
#[must_use]
pub fn is_plain(path: &str) -> bool {
    let parts = path.strip_prefix('/').map(|rest| rest.split('/'));
    // The kernel takes no longer paths (`PATH_MAX`).
    path.len() < 4096
        && parts.is_some_and(|mut parts| parts.all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict() -> Sandbox {
        Sandbox::of(Profile::Strict)
    }

    #[test]
    fn paths_that_lead_elsewhere_are_a_flaw() {
        assert_eq!(strict().flaw(), None);
        for path in ["", "/", "srv", "/srv/", "/srv//in", "/srv/../etc", "/srv/.", "/a\0b"] {
            let flawed = Sandbox {
                read_write: vec![path.to_owned()],
                ..strict()
            };
            assert!(flawed.flaw().is_some(), "{path:?}");
        }
        assert!(
            Sandbox {
                devices: vec!["/etc/shadow".to_owned()],
                ..strict()
            }
            .flaw()
            .is_some()
        );
        assert!(
            Sandbox {
                hide: vec!["/srv".to_owned(); PATHS_MAX + 1],
                ..strict()
            }
            .flaw()
            .is_some()
        );
        assert!(Sandbox { tmp: 0, ..strict() }.flaw().is_some());
    }

    #[test]
    fn a_sandbox_that_gives_more_than_another_names_the_key() {
        let paths = || vec!["/srv/in".to_owned()];
        let both = Sandbox {
            profile: Profile::Standard,
            read_only: paths(),
            read_write: paths(),
            ..strict()
        };
        assert_eq!(strict().exceeds(&both), None);
        assert_eq!(both.exceeds(&both), None);
        assert_eq!(both.exceeds(&strict()), Some("profile"));
        let less = Sandbox {
            read_write: Vec::new(),
            ..both.clone()
        };
        assert_eq!(both.exceeds(&less), Some("read_write"));
        assert_eq!(less.exceeds(&both), None);
    }

    #[test]
    fn a_sandbox_that_gives_more_than_the_profile_names_the_key() {
        assert_eq!(strict().widens(Profile::Strict), None);
        let paths = || vec!["/srv/in".to_owned()];
        for (wider, key) in [
            (
                Sandbox {
                    profile: Profile::Standard,
                    ..strict()
                },
                "profile",
            ),
            (
                Sandbox {
                    syscalls: Profile::Off,
                    ..strict()
                },
                "syscalls",
            ),
            (
                Sandbox {
                    proc_full: true,
                    ..strict()
                },
                "proc",
            ),
            (
                Sandbox {
                    read_only: paths(),
                    ..strict()
                },
                "read_only",
            ),
            (
                Sandbox {
                    read_write: paths(),
                    ..strict()
                },
                "read_write",
            ),
            (
                Sandbox {
                    devices: paths(),
                    ..strict()
                },
                "devices",
            ),
        ] {
            assert_eq!(wider.widens(Profile::Strict), Some(key));
        }
        assert_eq!(
            Sandbox {
                profile: Profile::Off,
                syscalls: Profile::Off,
                ..strict()
            }
            .widens(Profile::Off),
            None
        );
        assert_eq!(
            Sandbox {
                hide: paths(),
                network: Network::None,
                ..strict()
            }
            .widens(Profile::Strict),
            None
        );
    }
}
