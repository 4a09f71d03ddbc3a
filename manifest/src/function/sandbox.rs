//! Values of `[sandbox]`: profiles, what a profile hides, and what the watched directories add.

use super::SandboxKeys;
use super::file::normal;
use super::keys::FileTrigger;
use crate::diagnostic::Diagnostic;
use crate::schema::read::list;
use crate::words;
use fnd_wire::plan::CAPABILITIES;
use fnd_wire::sandbox as wire;
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

/// Directories that a function sees: those that it may only read, and those that it may write to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownDirectories {
    /// The directories to read.
    pub read_only: Vec<String>,
    /// The directories to write to.
    pub read_write: Vec<String>,
}

impl SandboxKeys {
    /// Returns which system calls are allowed: those of this profile.
    #[must_use]
    pub fn calls(&self) -> Profile {
        let calls = self.syscalls.unwrap_or(self.profile);
        // Without a filter it could have every capability in a user namespace of its own.
        match self.capabilities.is_empty() {
            true => calls,
            false => calls.min(Profile::Standard),
        }
    }

    /// Returns the directories that the function sees, those that it watches included. For a function whose files do
    /// not belong to root, watched directories are not added: it watches only what its profile shows.
    #[must_use]
    pub fn shown(&self, files: &[FileTrigger], trusted: bool) -> ShownDirectories {
        let mut shown = ShownDirectories {
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
        let ShownDirectories { read_only, read_write } = &mut shown;
        // A directory of `read_only` to which `then` or `failed` moves files must be writable.
        read_only.retain(|path| !read_write.contains(path));
        shown
    }
}

/// Capabilities with which a program can become root, whatever its sandbox is.
const NEVER: [&str; 6] = [
    "sys_admin",
    "sys_module",
    "sys_ptrace",
    "setuid",
    "setgid",
    "dac_read_search",
];

/// Returns why no function can have a capability of this name; absent if a function can.
pub(crate) fn refused_capability(name: &str) -> Option<Diagnostic> {
    let known = CAPABILITIES.map(|(name, _)| name);
    if known.contains(&name) {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let bare = lower.strip_prefix("cap_").unwrap_or(&lower);
    let refused = |message: String, help: String| Some(Diagnostic::error("not-allowed", message).with_help(help));
    if NEVER.contains(&bare) {
        let message = format!("`{name}` is never given: with it, a function could become root");
        refused(message, "remove it; what needs it stays a unit of systemd".to_owned())
    } else if known.contains(&bare) {
        let message = format!("the capability `{name}` is written `{bare}`");
        refused(message, format!("write `{bare}`"))
    } else {
        let message = format!("`{name}` is no capability that a function can have");
        refused(message, format!("possible are {}", list(&known)))
    }
}

fn add(paths: &mut Vec<String>, path: String) {
    // `move:../..` may lead to `/`, which the spawner takes in no list.
    if wire::is_plain(&path) && !paths.contains(&path) {
        paths.push(path);
    }
}

/// Says whether a path is one of these, or lies below one of them.
pub(crate) fn is_within(path: &str, places: &[impl AsRef<str>]) -> bool {
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
    use crate::schema::pick::FromValue;

    fn watch(path: &str, then: &str) -> FileTrigger {
        FileTrigger {
            path: path.to_owned(),
            then: FileAction::parse(then).unwrap(),
            ..FromValue::from_value(None).unwrap()
        }
    }

    fn shown(toml: (&[&str], &[&str]), files: &[FileTrigger]) -> (Vec<String>, Vec<String>) {
        let text = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let sandbox = SandboxKeys {
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
    fn a_capability_that_no_function_has_is_refused_with_the_reason() {
        for (name, said) in [
            ("sys_admin", "`sys_admin` is never given"),
            ("CAP_SETUID", "`CAP_SETUID` is never given"),
            ("CAP_CHOWN", "is written `chown`"),
            ("Kill", "is written `kill`"),
            ("mknod", "is no capability that a function can have"),
            ("chwon", "is no capability that a function can have"),
        ] {
            let problem = refused_capability(name).unwrap();
            assert!(problem.message.contains(said), "{problem:?}");
        }
        for (name, _) in CAPABILITIES {
            assert_eq!(refused_capability(name), None, "{name}");
            assert!(!NEVER.contains(&name), "{name}");
        }
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
