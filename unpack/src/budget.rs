//! Counts unpacked bytes while they are unpacked, so that an archive that unpacks to too much is stopped before it does.

use crate::unread;
use fnd_wire::archive::{BYTES_MAX, RATIO_FREE, RATIO_MAX, Why};
use std::io::{self, Read};

/// Room for the headers and the padding of a tar file, which count as unpacked bytes and belong to no file.
const HEADERS: u64 = 64 << 20;

/// How many bytes may still be unpacked.
#[derive(Debug)]
pub(crate) struct Budget {
    used: u64,
    /// More than this is out of proportion to the archive.
    ratio: u64,
}

impl Budget {
    /// Returns the budget of an archive of this size.
    pub(crate) fn new(size: u64) -> Self {
        let ratio = size.saturating_mul(RATIO_MAX).max(RATIO_FREE);
        Self { used: 0, ratio }
    }

    /// Adds bytes to those that were used.
    ///
    /// # Errors
    /// If they are too many.
    pub(crate) fn use_up(&mut self, count: usize) -> Result<(), Why> {
        self.used = self.used.saturating_add(count as u64);
        if self.used > self.ratio {
            Err(Why::Bomb)
        } else if self.used > BYTES_MAX + HEADERS {
            Err(Why::TooLarge)
        } else {
            Ok(())
        }
    }
}

/// A reader whose bytes count, and which fails when they are too many.
#[derive(Debug)]
pub(crate) struct BudgetedReader<R> {
    inner: R,
    budget: Budget,
    exceeded: Option<Why>,
}

impl<R: Read> BudgetedReader<R> {
    pub(crate) fn new(inner: R, budget: Budget) -> Self {
        Self {
            inner,
            budget,
            exceeded: None,
        }
    }

    /// Returns how many bytes were read.
    pub(crate) fn count(&self) -> u64 {
        self.budget.used
    }

    /// Returns the reason for an error of this reader, or of one that reads from it.
    pub(crate) fn why(&self, error: &io::Error) -> Why {
        self.exceeded.unwrap_or_else(|| unread(error))
    }
}

impl<R: Read> Read for BudgetedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.budget.use_up(count).map_err(|why| {
            // A decoder may replace this error by one of its own, so `why` finds the reason here.
            self.exceeded = Some(why);
            io::Error::other("too many bytes")
        })?;
        Ok(count)
    }
}
