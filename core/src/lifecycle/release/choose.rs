//! Finds the release that a person names, and says what a list shows of each.

use super::decide::JudgedContent;
use super::{Release, ReleaseState, Releases};
use fnd_wire::ids::Version;

/// Why no release was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRelease {
    /// None is stored, or none serves.
    #[error("it has no release yet")]
    None,
    /// No release has served before the one that serves.
    #[error("no release has served before {}, so there is none to go back to", short(*.0))]
    NoneBefore(Version),
    /// No release has this name.
    #[error("no release begins with `{0}`: it was deleted (`keep_versions`), or there never was one")]
    Unknown(String),
    /// No release waits behind a pin.
    #[error(
        "no release waits for calls: pin the one that serves (`fndctl pin`), then change the file; or write `[release] canary` \
         into its manifest"
    )]
    NoneWaits,
    /// The release that is held does not serve yet, so no other one gets a share of the calls.
    #[error("release {} is held and does not serve yet: ask again when it serves (`fndctl releases`)", short(*.0))]
    HeldIsTried(Version),
    /// No release gets a share of the calls.
    #[error("none of its releases is a canary")]
    NoCanary,
    /// Several releases have names that begin like this.
    #[error("`{name}` is the beginning of several releases: {}", .releases.join(", "))]
    Ambiguous {
        /// The beginning of a release's name, as the person wrote it.
        name: String,
        /// The names of the releases that begin so.
        releases: Vec<String>,
    },
}

/// Why a release is not held, or not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHeld {
    /// There is no such function.
    #[error("there is no such function")]
    NoFunction,
    /// There is no such release.
    #[error(transparent)]
    NoRelease(#[from] NoRelease),
    /// It could not be installed, loaded or read.
    #[error("{0}")]
    Failed(String),
    /// Going back to the release that serves.
    #[error("release {0} serves already")]
    Serves(String),
    /// The ledger cannot store it.
    #[error("the change could not be stored, so nothing was changed: {0}")]
    NotStored(String),
    /// No release is held, so there is no hold to end.
    #[error("no release of it is pinned, and it was not rolled back")]
    NothingHeld,
    /// The running spawner cannot install a copy.
    #[error(
        "the running fnd-spawner is older than releases: start it again (`systemctl stop fnd && systemctl start fnd`, which \
         ends running functions)"
    )]
    OldSpawner,
}

/// Returns the short name of a version, for people.
#[must_use]
pub fn short(version: Version) -> String {
    let mut hex = version.hex();
    hex.truncate(12);
    hex
}

impl Releases {
    /// Returns the release whose hash begins with `name`.
    ///
    /// # Errors
    /// [`NoRelease::Unknown`], [`NoRelease::Ambiguous`].
    pub fn named(&self, name: &str) -> Result<&Release, NoRelease> {
        let wanted = name.strip_prefix("sha256:").unwrap_or(name).to_ascii_lowercase();
        // Every name begins with an empty text, so an empty text names no release.
        let fits = |release: &&Release| !wanted.is_empty() && release.version.hex().starts_with(&wanted);
        let found: Vec<_> = self.list.iter().filter(fits).collect();
        match found[..] {
            [] => Err(NoRelease::Unknown(name.to_owned())),
            [release] => Ok(release),
            _ => Err(NoRelease::Ambiguous {
                name: name.to_owned(),
                releases: found.iter().map(|release| short(release.version)).collect(),
            }),
        }
    }

    /// Returns the release to go back to. If another release of the file is tried (it is on trial, or could not be loaded), that is
    /// the release that serves. Otherwise it is the newest one that has served, of those that the file brought before the release
    /// that serves.
    ///
    /// # Errors
    /// [`NoRelease::None`], [`NoRelease::NoneBefore`].
    pub fn one_before(&self) -> Result<&Release, NoRelease> {
        let serving = self.serving.ok_or(NoRelease::None)?;
        let is_replaced = match self.file {
            JudgedContent::Good(file, _) => file != serving,
            // Such a file never serves, so there is nothing of it to give up.
            JudgedContent::Refused | JudgedContent::Wrong(..) => !self.live,
            JudgedContent::Unknown => false,
        };
        if self.hold.is_none() && is_replaced {
            return self.current();
        }
        let content = self.get(serving).map(|release| release.load_key);
        let older = self.list.iter().rev();
        let older = older.skip_while(|release| release.version != serving).skip(1);
        let mut good = older.filter(|release| release.served && Some(release.load_key) != content);
        good.next().ok_or(NoRelease::NoneBefore(serving))
    }

    /// Returns the release that serves.
    ///
    /// # Errors
    /// [`NoRelease::None`].
    pub fn current(&self) -> Result<&Release, NoRelease> {
        self.serving
            .and_then(|serving| self.get(serving))
            .ok_or(NoRelease::None)
    }

    /// Returns whether a release serves now.
    #[must_use]
    pub fn is_live(&self, version: Version) -> bool {
        self.live && self.serving == Some(version)
    }

    /// Returns the state of a release; `trying` is the version that is on trial now.
    #[must_use]
    pub fn state(&self, release: &Release, trying: Option<Version>) -> ReleaseState {
        let version = release.version;
        if self.is_live(version) {
            ReleaseState::Serving
        } else if release.error.is_some() {
            ReleaseState::Failed
        } else if trying == Some(version) {
            ReleaseState::Trying
        } else if self.is_canary(version) {
            ReleaseState::Canary
        } else if self.hold.is_some() && self.file.version() == Some(version) {
            ReleaseState::Waiting
        } else {
            ReleaseState::Retired
        }
    }
}
