//! Results on their way from their functions to their places: they are read, and neither stored in the history nor in their
//! place until their callers read them.
//!
//! Memory passes them on faster than a slow disk takes them. So a large result reserves a part of the budget before it is read,
//! and gives the part back when its bytes are gone from memory, or when they have their place there. Until there is room,
//! the worker's answer stays in its socket, or its end is not reported, so that no other worker takes its place.
//!
//! Only the disk is waited for, never a caller: an answer that its caller does not read moves to the disk. So nobody waits in a
//! circle.

use crate::lock::lock;
use bytes::Bytes;
use fnd_core::run::LAST_RESULT_MAX;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The part of the budget that results on their way may use together: one divided by this.
const SHARE: u64 = 8;

/// Bytes of a unit of the reservations.
const UNIT: u64 = 1 << 10;

/// How long a result waits for room at most. A disk that stores nothing for so long is not slow but broken: the ends of
/// runs must be reported nevertheless.
const WAIT_MAX: Duration = Duration::from_mins(5);

/// Results up to this size have no reservation: the supervisor remembers them as the last ones of their functions.
pub(crate) const SMALL: u64 = LAST_RESULT_MAX as u64;

/// Results on their way.
#[derive(Debug)]
pub(super) struct Transit {
    room: Arc<Semaphore>,
    /// Units of all reservations together.
    total: AtomicU32,
    /// The results that are in memory, by their address, with their length.
    carried: Mutex<BTreeMap<usize, (usize, Reservation)>>,
}

/// Room for a result, until this is dropped. Nothing where the wait for it took too long.
#[derive(Debug, Default)]
pub struct Reservation {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Transit {
    pub(super) fn new(budget: u64) -> Self {
        let total = units(budget / SHARE);
        Self {
            room: Arc::new(Semaphore::new(total as usize)),
            total: AtomicU32::new(total),
            carried: Mutex::default(),
        }
    }

    /// Follows a change of the budget. Room that is in use can't be taken back: then the room stays larger.
    pub(super) fn resize(&self, budget: u64) {
        let (is, wanted) = (self.total.load(Ordering::Relaxed), units(budget / SHARE));
        let total = if wanted > is {
            self.room.add_permits((wanted - is) as usize);
            wanted
        } else {
            let less = self.room.forget_permits((is - wanted) as usize);
            is - u32::try_from(less).unwrap_or(is)
        };
        self.total.store(total, Ordering::Relaxed);
    }

    /// Returns the units of a result. One that is larger than all the room gets all of it.
    fn units_of(&self, bytes: u64) -> u32 {
        units(bytes).min(self.total.load(Ordering::Relaxed))
    }

    /// Returns room for a result, if there is room now and no other result waits for it.
    pub(super) fn reserve_now(&self, bytes: u64) -> Option<Reservation> {
        let permit = Arc::clone(&self.room).try_acquire_many_owned(self.units_of(bytes));
        permit.ok().map(|permit| Reservation { _permit: Some(permit) })
    }

    /// Waits for room for a result, behind those that wait already.
    pub(super) async fn reserve(&self, bytes: u64) -> Reservation {
        // tokio's semaphore serves in order of arrival, so small results cannot overtake a large one for ever.
        let permit = Arc::clone(&self.room).acquire_many_owned(self.units_of(bytes));
        match tokio::time::timeout(WAIT_MAX, permit).await {
            Ok(permit) => Reservation { _permit: permit.ok() },
            Err(_) => {
                tracing::warn!("the disk has not made room for a result in {} s", WAIT_MAX.as_secs());
                Reservation::default()
            }
        }
    }

    pub(super) fn begin(&self, bytes: &Bytes, reservation: Reservation) {
        // Bytes in memory have an address that no others have, so a view of them finds its result by the address.
        lock(&self.carried).insert(bytes.as_ptr().addr(), (bytes.len(), reservation));
    }

    pub(super) fn end(&self, bytes: &Bytes) {
        lock(&self.carried).remove(&(bytes.as_ptr().addr()));
    }

    /// Returns whether bytes are a result that counts, or a part of one.
    pub(super) fn has(&self, bytes: &Bytes) -> bool {
        place(&mut lock(&self.carried), bytes).is_some()
    }

    /// Gives back the room of a result that has its place in memory.
    pub(super) fn settle(&self, bytes: &Bytes) {
        let reservation = place(&mut lock(&self.carried), bytes).map(std::mem::take);
        drop(reservation); // without the lock
    }
}

/// Returns the reservation of the result to which bytes belong.
fn place<'a>(carried: &'a mut BTreeMap<usize, (usize, Reservation)>, bytes: &Bytes) -> Option<&'a mut Reservation> {
    let at = bytes.as_ptr().addr();
    let (begin, (length, reservation)) = carried.range_mut(..=at).next_back()?;
    (at - begin < *length).then_some(reservation)
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).clamp(1, 1 << 28)).unwrap_or(1)
}
