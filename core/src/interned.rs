//! Less memory for ten thousand functions: values that many have alike are stored once, maps have no unused room, and a digest
//! stands for a value of which only changes matter.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

/// The values that were stored last. An equal value is shared with the one that is here, instead of being stored again:
/// most functions have a manifest with few keys or none, so their rules and limits are the same.
///
/// Only the last few values are compared, so that functions that have nothing alike cost little. If two equal values
/// are too far apart, each of them is stored.
#[derive(Debug)]
pub struct Recent<T: ?Sized>(Vec<Arc<T>>);

/// Number of values that are compared: more than a node has kinds of functions, and a comparison takes 10 to 100 ns.
const MAX: usize = 32;

impl<T: ?Sized> Default for Recent<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: ?Sized + PartialEq> Recent<T> {
    /// Returns a value that is equal to this one, shared where an equal one was stored a short time ago.
    pub fn share<V: Borrow<T> + Into<Arc<T>>>(&mut self, value: V) -> Arc<T> {
        let known = self.0.iter().position(|known| **known == *value.borrow());
        let shared = match known {
            Some(at) => self.0.remove(at),
            None => value.into(),
        };
        // The values are in the order of their last use, so the one that is dropped was used longest ago.
        self.0.truncate(MAX - 1);
        self.0.insert(0, Arc::clone(&shared));
        shared
    }
}

/// Returns a map with the same entries and full nodes. Entries that were added in the order of their keys, such as
/// those of a sorted directory, leave each node half empty.
#[must_use]
pub fn packed<K: Ord, V>(map: BTreeMap<K, V>) -> BTreeMap<K, V> {
    // Collecting sorted entries fills each node before the next one is made.
    map.into_iter().collect()
}

/// Returns a digest that distinguishes a value from others while fnd runs; another build may return another one.
pub fn digest(value: impl Hash) -> u64 {
    // This hasher has fixed keys, so core needs no randomness.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_stored_once() {
        let mut texts = Recent::<str>::default();
        let first = texts.share("bash".to_owned());
        let second = texts.share("python".to_owned());
        assert!(Arc::ptr_eq(&first, &texts.share("bash".to_owned())));
        assert!(Arc::ptr_eq(&second, &texts.share("python".to_owned())));
        assert_eq!((&*first, &*second), ("bash", "python"));
    }

    #[test]
    fn a_packed_map_has_the_same_entries() {
        let map: BTreeMap<u32, u32> = (0..1000).map(|n| (n, n * 2)).collect();
        assert_eq!(packed(map.clone()), map);
    }

    #[test]
    fn what_was_not_asked_for_lately_is_forgotten() {
        let mut numbers = Recent::<usize>::default();
        let (often, once) = (numbers.share(0_usize), numbers.share(1_usize));
        for number in 2..=MAX {
            numbers.share(number);
            assert!(Arc::ptr_eq(&often, &numbers.share(0_usize)));
        }
        assert_eq!(numbers.0.len(), MAX);
        assert_eq!(Arc::strong_count(&once), 1);
    }
}
