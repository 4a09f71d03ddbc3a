//! The state: versioned values that functions share. This decides which change is made and which version it gets; the
//! daemon's `stores/kv` keeps the values.
//!
//! Versions of a key grow by one, and the first is 1. A deleted key leaves nothing behind: instead one number for the whole
//! state, the floor, is at least the last version of every deleted key, and a new key begins above it. So no version of a
//! key is used twice, however often it is deleted, and deleted keys need no room.

use crate::api::{StateEntry, StateKeys, StateScopes, StateWritten};
use fnd_manifest::state_key::StateKey;

/// Most bytes of a value.
pub const VALUE_MAX: u64 = 1 << 20;
/// Most bytes of all scopes, keys and values.
pub const BYTES_MAX: u64 = 256 << 20;
/// Most keys in all scopes together.
pub const KEYS_MAX: u64 = 100_000;
/// Most characters of the beginning by which keys are listed.
pub const PREFIX_MAX: usize = fnd_manifest::state_key::KEY_MAX;

/// The requirement of a change on the thing that it changes: a key, or the files of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KvCondition<V = u64> {
    /// No requirement: the change is always made.
    #[default]
    Any,
    /// It has this version.
    Version(V),
    /// It does not exist.
    New,
}

/// A request about the state, of one key or of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvRequest {
    /// The value of a key.
    Get(StateKey),
    /// Sets a value, which is JSON.
    Put {
        /// The scope and the name of the value.
        key: StateKey,
        /// The new value, JSON of at most [`VALUE_MAX`] bytes.
        value: String,
        /// The requirement; if it is not met, nothing is changed.
        condition: KvCondition,
    },
    /// Deletes a key with its value.
    Delete {
        /// The scope and the name of the value.
        key: StateKey,
        /// The requirement; if it is not met, nothing is changed.
        condition: KvCondition,
    },
    /// A page of the keys of a scope.
    Keys {
        /// The scope whose keys are listed.
        scope: String,
        /// Only keys that begin like this.
        prefix: String,
        /// Only keys after this one.
        after: Option<String>,
        /// Most keys of the page.
        limit: u32,
    },
    /// All scopes that have a key.
    Scopes,
}

impl KvRequest {
    /// Says whether the request may change something.
    #[must_use]
    pub fn changes(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Delete { .. })
    }
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub enum KvResponse {
    /// To [`KvRequest::Get`].
    Entry(StateEntry),
    /// To [`KvRequest::Put`] and [`KvRequest::Delete`].
    Written(StateWritten),
    /// To [`KvRequest::Keys`].
    Keys(StateKeys),
    /// To [`KvRequest::Scopes`].
    Scopes(StateScopes),
}

/// Why nothing was changed or found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvRefusal {
    /// The key has no value.
    Missing,
    /// The key has this version, or no value, but the condition requires another.
    Conflict(Option<u64>),
    /// There are as many keys as there may be.
    Keys,
    /// There is no room for this many further bytes.
    Bytes(u64),
}

/// The stored facts of a key, without its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredValue {
    /// The version: 1 or more, and one higher with each change.
    pub version: u64,
    /// Bytes of scope, key and value.
    pub bytes: u64,
}

/// The sums over the whole state, by which limits and new versions are decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many keys there are.
    pub keys: u64,
    /// Bytes of their scopes, keys and values.
    pub bytes: u64,
    /// At least the last version of every deleted key.
    pub floor: u64,
}

impl Totals {
    /// Returns the version of a key that is set, and the totals after that.
    ///
    /// # Errors
    /// The condition does not hold, or there is no room.
    pub fn put(
        self,
        present: Option<StoredValue>,
        condition: KvCondition,
        bytes: u64,
    ) -> Result<(u64, Self), KvRefusal> {
        condition.check(present)?;
        let before = present.map_or(0, |present| present.bytes);
        let after = Self {
            keys: self.keys + u64::from(present.is_none()),
            bytes: self.bytes.saturating_sub(before) + bytes,
            floor: self.floor,
        };
        if present.is_none() && after.keys > KEYS_MAX {
            return Err(KvRefusal::Keys);
        }
        // A value that becomes smaller always fits, so that a full state can be emptied.
        if bytes > before && after.bytes > BYTES_MAX {
            return Err(KvRefusal::Bytes(bytes - before));
        }
        // A key of this name may have been deleted before. Its versions were not above the floor, so none is used
        // twice.
        let last = present.map_or(self.floor, |present| present.version);
        Ok((last + 1, after))
    }

    /// Returns the totals after a key was deleted.
    ///
    /// # Errors
    /// The key has no value, or the condition does not hold.
    pub fn delete(self, present: Option<StoredValue>, condition: KvCondition) -> Result<Self, KvRefusal> {
        let found = present.ok_or(KvRefusal::Missing)?;
        condition.check(present)?;
        Ok(Self {
            keys: self.keys.saturating_sub(1),
            bytes: self.bytes.saturating_sub(found.bytes),
            floor: self.floor.max(found.version),
        })
    }
}

impl KvCondition {
    fn check(self, present: Option<StoredValue>) -> Result<(), KvRefusal> {
        let version = present.map(|present| present.version);
        let holds = match self {
            Self::Any => true,
            Self::Version(expected) => version == Some(expected),
            Self::New => version.is_none(),
        };
        if holds {
            Ok(())
        } else {
            Err(KvRefusal::Conflict(version))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_condition_names_the_version_that_is_there() {
        let totals = Totals::default();
        let present = Some(StoredValue { version: 7, bytes: 10 });
        let put = |present, condition| totals.put(present, condition, 1).map(|(version, _)| version);
        assert_eq!(put(None, KvCondition::Any), Ok(1));
        assert_eq!(put(None, KvCondition::New), Ok(1));
        assert_eq!(put(None, KvCondition::Version(1)), Err(KvRefusal::Conflict(None)));
        assert_eq!(put(present, KvCondition::Any), Ok(8));
        assert_eq!(put(present, KvCondition::Version(7)), Ok(8));
        assert_eq!(put(present, KvCondition::Version(6)), Err(KvRefusal::Conflict(Some(7))));
        assert_eq!(put(present, KvCondition::New), Err(KvRefusal::Conflict(Some(7))));
        assert_eq!(totals.delete(None, KvCondition::Version(1)), Err(KvRefusal::Missing));
        assert_eq!(
            totals.delete(present, KvCondition::Version(6)),
            Err(KvRefusal::Conflict(Some(7)))
        );
        assert_eq!(totals.delete(present, KvCondition::Any).unwrap().floor, 7);
    }

    #[test]
    fn a_full_state_takes_only_what_needs_no_more_room() {
        let full = Totals {
            keys: KEYS_MAX,
            bytes: BYTES_MAX,
            floor: 0,
        };
        let present = Some(StoredValue { version: 1, bytes: 10 });
        assert_eq!(full.put(None, KvCondition::Any, 1), Err(KvRefusal::Keys));
        assert_eq!(full.put(present, KvCondition::Any, 11), Err(KvRefusal::Bytes(1)));
        assert_eq!(full.put(present, KvCondition::Any, 10).unwrap().0, 2);
        assert_eq!(full.put(present, KvCondition::Any, 9).unwrap().1.bytes, BYTES_MAX - 1);
        let fewer = full.delete(present, KvCondition::Any).unwrap();
        assert_eq!((fewer.keys, fewer.bytes), (KEYS_MAX - 1, BYTES_MAX - 10));
        let room = Totals { keys: 0, ..full };
        assert_eq!(room.put(None, KvCondition::Any, 1), Err(KvRefusal::Bytes(1)));
    }

    proptest! {
        /// Versions of a key only grow, whatever is deleted, and the totals are those of a naive count.
        #[test]
        fn no_version_is_used_twice(steps in prop::collection::vec((0..4_u8, any::<bool>(), 0..4_u64, 1..100_u64), 0..60)) {
            let mut totals = Totals::default();
            let mut there: BTreeMap<u8, StoredValue> = BTreeMap::new();
            let mut used: BTreeMap<u8, BTreeSet<u64>> = BTreeMap::new();
            for (key, deletes, expected, bytes) in steps {
                let present = there.get(&key).copied();
                // 0 stands for no condition, 1 for a new key, the others for versions near the present one.
                let condition = match expected {
                    0 => KvCondition::Any,
                    1 => KvCondition::New,
                    other => KvCondition::Version(present.map_or(0, |present| present.version) + other - 2),
                };
                let holds = match condition {
                    KvCondition::Any => true,
                    KvCondition::New => present.is_none(),
                    KvCondition::Version(version) => present.is_some_and(|present| present.version == version),
                };
                if deletes {
                    let deleted = totals.delete(present, condition);
                    prop_assert_eq!(deleted.is_ok(), holds && present.is_some());
                    if let Ok(after) = deleted {
                        totals = after;
                        there.remove(&key);
                    }
                } else {
                    let put = totals.put(present, condition, bytes);
                    prop_assert_eq!(put.is_ok(), holds);
                    if let Ok((version, after)) = put {
                        let used = used.entry(key).or_default();
                        prop_assert!(used.last().is_none_or(|last| version > *last));
                        used.insert(version);
                        totals = after;
                        there.insert(key, StoredValue { version, bytes });
                    }
                }
                prop_assert_eq!(totals.keys, there.len() as u64);
                prop_assert_eq!(totals.bytes, there.values().map(|present| present.bytes).sum::<u64>());
            }
        }
    }
}
