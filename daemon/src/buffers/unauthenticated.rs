//! The part of callers who have shown no credential: of open routes, and of signatures until the whole body has been read.
//! Otherwise they would fill memory and disk, and requests with a credential would find no room.

use super::Buffers;
use crate::lock::lock;
use fnd_core::data::{BytesOwner, Data};
use std::borrow::Cow;
use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The room of one body in that part; it is given back when this is dropped.
#[derive(Debug)]
pub struct AddressShare {
    of: Arc<Buffers>,
    from: Option<IpAddr>,
    /// The limit of the body.
    limit: u64,
    bytes: u64,
}

impl AddressShare {
    /// Returns the share of a body that has no bytes yet, of a caller's address; absent: a Unix socket.
    pub fn new(of: &Arc<Buffers>, from: Option<IpAddr>, limit: u64) -> Self {
        let (of, bytes) = (Arc::clone(of), 0);
        Self { of, from, limit, bytes }
    }

    /// Takes more bytes; returns whether the caller may have them.
    #[must_use]
    pub fn take(&mut self, bytes: u64) -> bool {
        let buffers = self.of.max.load(Ordering::Relaxed);
        let taken = lock(&self.of.unauthenticated).take(self.from, bytes, (buffers, self.limit));
        self.bytes += if taken { bytes } else { 0 };
        taken
    }

    /// Returns whether the next bytes may be in memory: a quarter of it is for such callers, the disk for their other bytes.
    pub(super) fn is_for_memory(&self) -> bool {
        lock(&self.of.unauthenticated).held() <= self.of.max.load(Ordering::Relaxed) / 4
    }

    /// Returns the body, which has the share from now on.
    #[must_use]
    pub fn stay_with(self, body: Data) -> Data {
        keeping(body, self)
    }
}

impl Drop for AddressShare {
    fn drop(&mut self) {
        lock(&self.of.unauthenticated).give_back(self.from, self.bytes);
    }
}

/// Returns data that owns `kept`, such as its share of the budget: both are dropped together.
#[must_use]
pub(crate) fn keeping<T: Debug + Send + Sync + 'static>(data: Data, kept: T) -> Data {
    Data::new(KeepingData { data, _kept: kept })
}

#[derive(Debug)]
struct KeepingData<T> {
    data: Data,
    _kept: T,
}

impl<T: Debug + Send + Sync> BytesOwner for KeepingData<T> {
    fn size(&self) -> u64 {
        self.data.size()
    }

    fn bytes(&self) -> io::Result<Cow<'_, [u8]>> {
        self.data.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Gathering;

    /// Takes a body of so many bytes in.
    async fn body(buffers: &Arc<Buffers>, bytes: usize) -> Data {
        let (mut gathering, mut share) = (Gathering::new(buffers), AddressShare::new(buffers, None, 0));
        assert!(share.take(bytes as u64));
        gathering.push(&vec![7; bytes], Some(&share)).await.unwrap();
        share.stay_with(gathering.finish())
    }

    #[tokio::test]
    async fn a_quarter_of_the_memory_is_for_such_bodies_and_what_they_have_comes_back_with_them() {
        let directory = tempfile::tempdir().unwrap();
        let buffers = Buffers::new(100_000, directory.path().to_owned());
        let (first, second) = (body(&buffers, 25_000).await, body(&buffers, 20_000).await);
        assert_eq!(buffers.held(), (25_000, 20_000));
        assert_eq!((second.size(), second.bytes().unwrap().len()), (20_000, 20_000));
        let mut third = AddressShare::new(&buffers, None, 0);
        assert!(!third.take(60_000), "a quarter of 400,000");
        drop(first);
        assert!(third.take(60_000));
        drop((second, third));
        assert_eq!(buffers.held(), (0, 0));
        assert!(AddressShare::new(&buffers, None, 0).take(100_000));
    }
}
