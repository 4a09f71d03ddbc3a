//! Decides whether a functions directory counts: a function is gone only if the directory itself is there. Uses neither
//! files nor a clock.
//!
//! ```text
//! there ──missing, unreadable, or empty in place of one that held functions──▶ away
//!   ▲                                                                           │
//!   └───────────holds functions, or is the same directory, or accepted──────────┘
//! ```
//! An unmounted file system leaves an empty directory under the same name. Only the inode or the device distinguishes
//! that from a directory whose files were removed.

use fnd_core::lifecycle::SourceFiles;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The code of the diagnostic for a directory that is away.
pub const AWAY: &str = "directory-away";

/// The identity of a directory, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectoryIdentity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// The directories that held functions at their last scan, by path: functions directories, and groups that are separate
/// mounts.
pub(super) type KnownDirectories = BTreeMap<String, DirectoryIdentity>;

/// The result of reading a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Observed {
    /// The directory was read.
    Read {
        /// The identity of the directory.
        identity: DirectoryIdentity,
        /// Whether it holds no function.
        empty: bool,
    },
    /// The directory does not exist.
    #[default]
    Missing,
    /// The directory could not be read, or not completely; says why.
    Unreadable(String),
}

/// The state of one directory at the last scan.
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// The directory that held functions last.
    pub(super) held: Option<DirectoryIdentity>,
    /// Whether it was read at the last scan and held no function.
    empty: bool,
    away: bool,
    /// Since when it counts again after it was away.
    pub(super) back: Option<Duration>,
}

impl Presence {
    /// Returns a directory that was not scanned yet; `held` is the directory that held functions before.
    pub(super) fn new(held: Option<DirectoryIdentity>) -> Self {
        Self {
            held,
            ..Self::default()
        }
    }

    /// Notes that no function of the directory is known any more: if it was read and is empty, no function is expected
    /// in it.
    pub(super) fn expect_nothing(&mut self) {
        if self.empty {
            self.held = None;
        }
    }

    /// Takes the result of a scan. Returns why the directory does not count; nothing if it counts. `knows` says whether
    /// functions of it are known, `accept` whether an empty directory is meant to be empty.
    pub(super) fn observed(
        &mut self,
        observed: &Observed,
        knows: bool,
        accept: bool,
        mono: Duration,
    ) -> Option<Diagnostic> {
        let away = match observed {
            Observed::Read { identity, empty: false } => {
                self.held = Some(*identity);
                None
            }
            // An empty directory that is another one is probably the place of a file system that is not mounted now. A
            // directory that a person has emptied is still the same one.
            Observed::Read { identity, empty: true } => match self.held {
                Some(held) if held != *identity && !accept => Some((
                    "it is empty, and it is not the directory that held functions before".to_owned(),
                    "mount or copy its content; if it is meant to be empty, run `fndctl reload --accept-empty`",
                )),
                _ => {
                    // Functions that are known may not count as removed yet. Until then the directory holds functions.
                    self.held = knows.then_some(*identity);
                    None
                }
            },
            Observed::Missing => Some((
                "the functions directory does not exist".to_owned(),
                "mount or create it; if it is meant to be empty, create it and run `fndctl reload --accept-empty`",
            )),
            Observed::Unreadable(why) => Some((
                format!("failed to read the functions directory: {why}"),
                "give the user of fnd the right to read and enter it, and check its file system",
            )),
        };
        match (&away, self.away) {
            (Some(_), _) => self.back = None,
            (None, true) => self.back = Some(mono),
            (None, false) => {}
        }
        self.away = away.is_some();
        self.empty = !self.away && matches!(observed, Observed::Read { empty: true, .. });
        away.map(|(message, help)| {
            let mut why = Diagnostic::error(AWAY, message).with_help(help);
            why.notes.push("its known functions stay until it is back".into());
            why
        })
    }
}

/// The parts of a functions directory whose contents are unknown, because they could not be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Doubts {
    pub(super) everything: bool,
    /// Groups whose contents are unknown.
    pub(super) groups: BTreeSet<String>,
    /// Functions whose files are unknown.
    pub(super) functions: BTreeSet<FunctionName>,
}

impl Doubts {
    /// Returns whether the contents of a function are unknown.
    pub(super) fn about(&self, function: &FunctionName) -> bool {
        let group = function.as_str().split_once('/').map(|(group, _)| group);
        self.everything || self.functions.contains(function) || group.is_some_and(|group| self.groups.contains(group))
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.everything && self.groups.is_empty() && self.functions.is_empty()
    }
}

/// Returns whether a function is in doubt, given the directory it was found in and the one it was known from. An
/// earlier directory wins, so unknown parts of earlier directories matter too. A directory that is away as a whole does
/// not hold up later ones.
pub(super) fn in_doubt(
    doubts: &[Doubts],
    known: Option<u16>,
    found: Option<&SourceFiles>,
    function: &FunctionName,
) -> bool {
    let known_away = known
        .and_then(|at| doubts.get(usize::from(at)))
        .is_some_and(|doubts| doubts.about(function));
    let before = found.map_or(0, |found| usize::from(found.directory) + 1);
    let parts = doubts
        .iter()
        .take(before)
        .any(|doubts| !doubts.everything && doubts.about(function));
    known_away || parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: DirectoryIdentity = DirectoryIdentity { device: 1, inode: 10 };
    const OTHER: DirectoryIdentity = DirectoryIdentity { device: 1, inode: 11 };
    const MOUNT: DirectoryIdentity = DirectoryIdentity { device: 2, inode: 10 };

    fn read(identity: DirectoryIdentity, empty: bool) -> Observed {
        Observed::Read { identity, empty }
    }

    /// Looks, with functions known; says whether the directory counts.
    fn counts(presence: &mut Presence, observed: &Observed) -> bool {
        presence.observed(observed, true, false, Duration::ZERO).is_none()
    }

    #[test]
    fn the_same_directory_may_be_emptied() {
        let mut presence = Presence::new(None);
        assert!(counts(&mut presence, &read(HERE, false)));
        assert!(counts(&mut presence, &read(HERE, true)));
    }

    #[test]
    fn an_empty_one_in_its_place_is_away_until_it_holds_something() {
        for other in [OTHER, MOUNT] {
            let mut presence = Presence::new(Some(HERE));
            assert!(!counts(&mut presence, &read(other, true)));
            assert!(!counts(&mut presence, &read(other, true)), "however often");
            assert!(counts(&mut presence, &read(other, false)));
            assert!(counts(&mut presence, &read(other, true)), "now this is the one");
            assert!(!counts(&mut presence, &read(HERE, true)));
        }
    }

    #[test]
    fn missing_or_unreadable_is_away() {
        let mut presence = Presence::new(None);
        for observed in [Observed::Missing, Observed::Unreadable("EIO".into())] {
            assert!(!counts(&mut presence, &observed));
            assert!(
                counts(&mut presence, &read(OTHER, true)),
                "nothing was known to be in it"
            );
        }
    }

    #[test]
    fn an_empty_one_can_be_accepted_and_a_missing_one_cannot() {
        let mut presence = Presence::new(Some(HERE));
        let at = Duration::from_secs(7);
        assert!(presence.observed(&read(OTHER, true), true, false, at).is_some());
        assert!(presence.observed(&read(OTHER, true), true, true, at).is_none());
        assert_eq!(presence.back, Some(at));
        assert!(counts(&mut presence, &read(OTHER, true)), "once is enough");
        assert!(presence.observed(&Observed::Missing, true, true, at).is_some());
        assert_eq!(presence.back, None);
    }

    #[test]
    fn nothing_is_expected_in_a_directory_without_functions() {
        let mut presence = Presence::new(None);
        assert!(
            presence
                .observed(&read(HERE, true), false, false, Duration::ZERO)
                .is_none()
        );
        assert!(
            presence
                .observed(&read(OTHER, true), false, false, Duration::ZERO)
                .is_none()
        );
        assert_eq!(presence.held, None);
    }
}
