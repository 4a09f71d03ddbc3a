//! The durations of the last hundred attempts or requests, and their quantiles.

/// The last hundred durations, in microseconds; allocates nothing before the first.
#[derive(Debug, Default)]
pub struct Durations {
    ring: Vec<u64>,
    next: u8,
}

impl Durations {
    const MAX: u8 = 100;

    /// Returns an empty list, which takes no memory on the heap.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ring: Vec::new(),
            next: 0,
        }
    }

    /// Adds a duration, in microseconds.
    pub fn push(&mut self, duration_us: u64) {
        match self.ring.get_mut(usize::from(self.next)) {
            Some(oldest) => *oldest = duration_us,
            None => self.ring.push(duration_us),
        }
        self.next = (self.next + 1) % Self::MAX;
    }

    /// Returns the newest one.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        let at = self.next.checked_sub(1).unwrap_or(Self::MAX - 1);
        self.ring.get(usize::from(at)).copied()
    }

    /// Returns the durations in no particular order.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.ring
    }
}

/// Returns a quantile (`0.5`, `0.99`) of durations by the nearest rank; absent where there is none.
#[must_use]
pub fn quantile(durations_us: &[u64], quantile: f64) -> Option<u64> {
    let mut unsorted = durations_us.to_vec();
    let last = unsorted.len().checked_sub(1)?;
    // At most a hundred values: every rank is exact in both directions.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0..=100"
    )]
    let rank = (quantile.clamp(0.0, 1.0) * unsorted.len() as f64).ceil() as usize;
    // A list of all functions asks for two quantiles of each, so the others are not sorted.
    let (_, found, _) = unsorted.select_nth_unstable(rank.saturating_sub(1).min(last));
    Some(*found)
}
