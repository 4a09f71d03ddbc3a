//! Keys of `[build]` and `[release]`.

use crate::schema::ValueKind::{List, Text};
use crate::schema::keys::keys;
use crate::schema::{TextKind, ValueKind, percent};
use crate::text;
use crate::words;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const NAMES: ValueKind = List(&Text(TextKind::Name));

keys! {
    /// `[build]`: how the packages of the function are installed, or it is compiled.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Build {
        /// Secrets that the installation gets as files, in addition to those of `[build]` of `fnd.toml`: `npmrc`, `pip.conf`, `netrc`, `auth.json`, or others.
        secrets: Vec<String> = NAMES, example ["npmrc"];
        /// Environment of the installation; it wins over that of `[build]` of `fnd.toml`.
        env: BTreeMap<String, String> = Map(TextKind::Variable, &Text(TextKind::Any)), example { CGO_ENABLED = "1" };
        /// Python: whether a package that the machine's Python has is used, and not installed again.
        system_packages: bool [default] = Bool, default false, example true;
        /// The network of the installation: the machine's, or none. `none` in `fnd.toml` wins.
        network: BuildNetwork [default] = Word(BuildNetwork::WORDS), default "host", example "none";
    }
}

words! {
    /// The network that an installation can use.
    pub enum BuildNetwork {
        /// The machine's.
        Host = "host",
        /// None: only what the machine has is installed.
        None = "none",
    }
}

#[expect(clippy::derivable_impls, reason = "`words!` makes the enum, and derives no default")]
impl Default for BuildNetwork {
    fn default() -> Self {
        Self::Host
    }
}

impl ReleaseRules {
    /// Says whether all keys have their defaults.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the share of the calls that new code gets first, 1 to 100.
    #[must_use]
    pub fn percent(&self) -> Option<u32> {
        percent(self.canary.as_deref()?)
    }
}

impl Build {
    /// Says whether no key is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

keys! {
    /// `[release]`: what happens before a new version serves.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ReleaseRules: Default {
        /// Whether a new version is checked before it serves: a handler or an HTTP function is loaded, and the version before serves until it is ready; of a script, a service or an HTTP function the syntax is checked.
        check: bool = Bool, default true, example false;
        /// The share of the calls that new code gets first, while the release before gets the others.
        canary: Option<String> [default, skip_serializing_if = "Option::is_none"] = Text(TextKind::Percent), example "10%";
        /// How long it gets only that share; then it serves. Without this key it does so after `fndctl canary FUNCTION --promote`.
        promote_after: Option<Duration> [default, with = "text::duration_or_none"] = Duration(Zero::Refused), example "10m";
        /// How many of its runs may fail meanwhile. With one more it is rolled back.
        max_failures: u64 [default] = Whole(0..=1_000_000), default 0, example 5;
    }
}
