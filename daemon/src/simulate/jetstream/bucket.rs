//! The bucket of the claims: keys with values. A write names the revision that it replaces, and is refused if the key has another.

use crate::triggers::nats::fact::{FoundKey, WriteRefused};
use bytes::Bytes;
use fnd_core::triggers::nats::claim::ClaimRecord;
use fnd_core::triggers::nats::claim_key::CLAIMS;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct BucketModel {
    /// When it was made, nanoseconds since 1970.
    pub(super) created_ns: u64,
    /// The last revision, of any key.
    revision: u64,
    keys: BTreeMap<Arc<str>, FoundKey>,
}

impl BucketModel {
    pub(super) fn new(created_ns: u64) -> Self {
        Self {
            created_ns,
            revision: 0,
            keys: BTreeMap::new(),
        }
    }

    pub(super) fn read(&self, key: &str) -> Option<FoundKey> {
        self.keys.get(key).cloned()
    }

    /// Compares and sets; returns the new revision.
    ///
    /// # Errors
    /// The key has another revision than `replaces`, or is there although it should not be.
    pub(super) fn write(&mut self, key: &Arc<str>, value: Bytes, replaces: Option<u64>) -> Result<u64, WriteRefused> {
        if self.keys.get(key).map(|found| found.revision) != replaces {
            return Err(WriteRefused::Conflict);
        }
        self.revision += 1;
        let found = FoundKey {
            value,
            revision: self.revision,
            stamp: stamp(replaces),
        };
        self.keys.insert(Arc::clone(key), found);
        Ok(self.revision)
    }

    /// Returns all claims with their keys. A claim that cannot be read is absent.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (&Arc<str>, Option<ClaimRecord>)> {
        let claims = self.keys.iter().filter(|(key, _)| key.starts_with(CLAIMS));
        claims.map(|(key, found)| (key, ClaimRecord::read(&found.value).ok()))
    }
}

/// Returns the stamp of a write, which everybody hears of who has subscribed to the key, also if it is refused.
pub(super) fn stamp(replaces: Option<u64>) -> u64 {
    replaces.unwrap_or(0) + 1
}
