//! Takes locks, also after a panic of a thread that had them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a value. Each change under these locks is complete before anything can panic, so the value is consistent after a panic, too.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
