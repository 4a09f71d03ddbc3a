//! Values of `[sandbox]`: profiles, networks, what a profile hides, and what the watched directories add.

use super::Sandbox;
use super::file::normal;
use super::keys::FileTrigger;
use crate::schema::pick::FromValue;
use crate::schema::tree::Value;
use crate::words;
use fnd_wire::sandbox as wire;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

words! {
    /// How much of the machine a function sees, or which system calls it may use; each profile gives more than the one
    /// before.
    pub enum Profile {
        /// An own view of files, processes and devices, and a list of allowed system calls.
        Strict = "strict",
        /// A read-only system, own temporary files and processes, and a list of refused system calls.
        Standard = "standard",
        /// Nothing but an own user, no privileges, cgroup and rlimits.
        Off = "off",
    }

    /// Which processes a function sees.
    pub enum Processes {
        /// Those of the whole machine.
        Full = "full",
    }
}

/// The profile of a manifest from an fnd that did not have this key.
impl Default for Profile {
    fn default() -> Self {
        Self::Strict
    }
}

impl From<Profile> for wire::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Strict => Self::Strict,
            Profile::Standard => Self::Standard,
            Profile::Off => Self::Off,
        }
    }
}

impl Profile {
    /// Returns the directories whose content a function does not see.
    #[must_use]
    pub const fn hides(self) -> &'static [&'static str] {
        match self {
            Self::Strict => &[
                "/home",
                "/root",
                "/run",
                "/srv",
                "/mnt",
                "/media",
                "/etc/fnd",
                "/var/lib/fnd",
                "/boot",
                "/var/spool",
                "/var/mail",
                "/var/log",
                "/tmp",
                "/var/tmp",
                "/dev",
            ],
            Self::Standard => &["/tmp", "/var/tmp", "/dev/shm"],
            Self::Off => &[],
        }
    }
}

/// The network that a function can use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Network {
    /// The machine's.
    #[default]
    Host,
    /// A network of its own with nothing but a loopback interface.
    Loopback,
    /// No sockets but local ones.
    None,
    /// The machine's, but only TCP connections to these ports.
    Connect(BTreeSet<u16>),
}

/// A network as a manifest writes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Word(String),
    Ports(Vec<String>),
}

/// Returns the port of `connect:PORT`; nothing for another text.
#[must_use]
pub fn port(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("connect:")?;
    let port = digits.parse().ok().filter(|port: &u16| *port > 0)?;
    (port.to_string() == digits).then_some(port) // neither `+1` nor `01`
}

impl Network {
    /// The networks that are a word.
    pub const WORDS: &'static [&'static str] = &["host", "none", "loopback"];

    /// Says whether the network gives a function everything that another one gives.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Host, _) | (_, Self::None) => true,
            (Self::Connect(ports), Self::Connect(others)) => others.is_subset(ports),
            (Self::Connect(_) | Self::Loopback, Self::Loopback) => true,
            _ => false,
        }
    }
}

impl TryFrom<Written> for Network {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let found = match written {
            Written::Word(word) => match word.as_str() {
                "host" => Some(Self::Host),
                "none" => Some(Self::None),
                "loopback" => Some(Self::Loopback),
                _ => None,
            },
            Written::Ports(ports) => ports
                .iter()
                .map(|text| port(text))
                .collect::<Option<_>>()
                .map(Self::Connect),
        };
        found.ok_or("expected a network")
    }
}

impl From<Network> for Written {
    fn from(network: Network) -> Self {
        let word = match network {
            Network::Host => "host",
            Network::Loopback => "loopback",
            Network::None => "none",
            Network::Connect(ports) => {
                return Self::Ports(ports.iter().map(|port| format!("connect:{port}")).collect());
            }
        };
        Self::Word(word.to_owned())
    }
}

impl From<&Network> for wire::Network {
    fn from(network: &Network) -> Self {
        match network {
            Network::Host => Self::Host,
            Network::Loopback => Self::Loopback,
            Network::None => Self::None,
            Network::Connect(ports) => Self::Connect(ports.iter().copied().collect()),
        }
    }
}

impl FromValue for Network {
    fn from_value(value: Option<Value>) -> Option<Self> {
        let written = match value? {
            Value::List(items) => Written::Ports(items.iter().map(|item| item.value.text()).collect()),
            value => Written::Word(value.text()),
        };
        Self::try_from(written).ok()
    }
}

/// Directories that a function sees: those that it may only read, and those that it may write to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// The directories to read.
    pub read_only: Vec<String>,
    /// The directories to write to.
    pub read_write: Vec<String>,
}

impl Sandbox {
    /// Returns which system calls are allowed: those of this profile.
    #[must_use]
    pub fn calls(&self) -> Profile {
        self.syscalls.unwrap_or(self.profile)
    }

    /// Returns the directories that the function sees, those that it watches included. For a function whose files do
    /// not belong to root, watched directories are not added: it watches only what its profile shows.
    #[must_use]
    pub fn shown(&self, files: &[FileTrigger], trusted: bool) -> Shown {
        let mut shown = Shown {
            read_only: self.read_only.clone(),
            read_write: self.read_write.clone(),
        };
        if self.profile == Profile::Off || !trusted {
            return shown;
        }
        for file in files.iter().filter(|file| file.acts()) {
            add(&mut shown.read_write, file.directory());
            for action in [&file.then, &file.failed] {
                let to = action.destination(&file.path).map(|path| path.display().to_string());
                to.into_iter().for_each(|to| add(&mut shown.read_write, to));
            }
        }
        for file in files.iter().filter(|file| !file.acts()) {
            let directory = file.directory();
            // Shown read-only, a directory below a writable one could not be written to any more.
            let writable = is_within(&directory, &shown.read_write);
            add(
                if writable {
                    &mut shown.read_write
                } else {
                    &mut shown.read_only
                },
                directory,
            );
        }
        let Shown { read_only, read_write } = &mut shown;
        read_only.retain(|path| !read_write.contains(path));
        shown
    }
}

fn add(paths: &mut Vec<String>, path: String) {
    if wire::is_plain(&path) && !paths.contains(&path) {
        paths.push(path);
    }
}

/// Says whether a path is one of these, or lies below one of them.
pub(super) fn is_within(path: &str, places: &[impl AsRef<str>]) -> bool {
    places.iter().any(|place| Path::new(path).starts_with(place.as_ref()))
}

impl FileTrigger {
    /// Returns the watched directory without `.` and `..`.
    #[must_use]
    pub fn directory(&self) -> String {
        normal(Path::new(&self.path)).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::file::FileAction;

    #[test]
    fn a_network_is_written_as_it_is_read() {
        for text in [
            "\"host\"",
            "\"none\"",
            "\"loopback\"",
            "[\"connect:443\",\"connect:5432\"]",
        ] {
            let network: Network = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&network).unwrap(), text);
        }
        for text in ["\"full\"", "[\"443\"]", "[\"connect:0\"]"] {
            assert!(serde_json::from_str::<Network>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_is_a_number_from_1_to_65535() {
        assert_eq!([port("connect:1"), port("connect:65535")], [Some(1), Some(65_535)]);
        for text in [
            "",
            "443",
            "connect:",
            "connect:0",
            "connect:65536",
            "connect:+1",
            "connect:01",
            "listen:1",
        ] {
            assert_eq!(port(text), None, "{text}");
        }
    }

    #[test]
    fn networks_contain_the_narrower_ones() {
        let connect = |ports: &[u16]| Network::Connect(ports.iter().copied().collect());
        let chain = [
            Network::None,
            Network::Loopback,
            connect(&[443]),
            connect(&[443, 80]),
            Network::Host,
        ];
        for (number, wider) in chain.iter().enumerate() {
            for (other, narrower) in chain.iter().enumerate() {
                assert_eq!(wider.contains(narrower), other <= number, "{wider:?} {narrower:?}");
            }
        }
        assert!(!connect(&[80]).contains(&connect(&[443])));
    }

    fn watch(path: &str, then: &str) -> FileTrigger {
        FileTrigger {
            path: path.to_owned(),
            then: FileAction::parse(then).unwrap(),
            ..FromValue::from_value(None).unwrap()
        }
    }

    fn shown(toml: (&[&str], &[&str]), files: &[FileTrigger]) -> (Vec<String>, Vec<String>) {
        let text = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let sandbox = Sandbox {
            read_only: text(toml.0),
            read_write: text(toml.1),
            ..FromValue::from_value(None).unwrap()
        };
        let shown = sandbox.shown(files, true);
        assert_eq!(sandbox.shown(files, false).read_only, sandbox.read_only);
        assert_eq!(sandbox.shown(files, false).read_write, sandbox.read_write);
        (shown.read_only, shown.read_write)
    }

    #[test]
    fn watched_directories_are_shown() {
        let list = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let none: &[&str] = &[];
        let both = |one: &[&str], two: &[&str]| (list(one), list(two));
        assert_eq!(
            shown((none, none), &[watch("/srv/in/", "keep")]),
            both(&["/srv/in"], none)
        );
        assert_eq!(
            shown((none, none), &[watch("/srv/in", "delete")]),
            both(none, &["/srv/in"])
        );
        assert_eq!(
            shown((none, none), &[watch("/srv/in", "move:../done")]),
            both(none, &["/srv/in", "/srv/done"])
        );
        // The same directory is written to by one rule and only read by the other.
        assert_eq!(
            shown((none, none), &[watch("/srv/in", "keep"), watch("/srv/in", "delete")]),
            both(none, &["/srv/in"])
        );
        assert_eq!(
            shown(
                (&["/opt"], &["/srv"]),
                &[watch("/srv/in", "keep"), watch("/opt", "keep")]
            ),
            both(&["/opt"], &["/srv", "/srv/in"])
        );
        assert_eq!(
            shown((none, none), &[watch("/srv/in", "move:/")]),
            both(none, &["/srv/in"])
        );
    }
}
