//! Payload bytes of an invocation, in memory or elsewhere.
//!
//! Core passes the bytes on, so that the body of a waiting invocation need not be in memory. It reads them only where a manifest
//! asks for a value in them.

use bytes::Bytes;
use std::borrow::Cow;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// A holder of bytes.
pub trait BytesOwner: Debug + Send + Sync {
    /// Returns the number of bytes.
    fn size(&self) -> u64;

    /// Returns the bytes: borrowed always, or never.
    ///
    /// # Errors
    /// The bytes are on a disk that cannot be read.
    fn bytes(&self) -> io::Result<Cow<'_, [u8]>>;
}

/// The owner of a view of bytes in memory.
struct DataView(Data);

impl AsRef<[u8]> for DataView {
    fn as_ref(&self) -> &[u8] {
        match self.0.bytes() {
            Ok(Cow::Borrowed(bytes)) => bytes,
            Ok(Cow::Owned(_)) | Err(_) => unreachable!("these bytes were in memory"),
        }
    }
}

impl BytesOwner for Box<[u8]> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn bytes(&self) -> io::Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(self))
    }
}

/// Shared, immutable bytes.
#[derive(Debug, Clone)]
pub struct Data(Arc<dyn BytesOwner>);

impl Data {
    /// Wraps a holder of bytes.
    #[must_use]
    pub fn new(held: impl BytesOwner + 'static) -> Self {
        Self(Arc::new(held))
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// Returns the bytes: borrowed where they are in memory.
    ///
    /// # Errors
    /// The bytes are on a disk that cannot be read.
    pub fn bytes(&self) -> io::Result<Cow<'_, [u8]>> {
        self.0.bytes()
    }

    /// Returns the bytes as a view, which holds them: without a copy where they are in memory.
    ///
    /// # Errors
    /// The bytes are on a disk that cannot be read.
    pub fn view(&self) -> io::Result<Bytes> {
        match self.bytes()? {
            // Bytes in memory are shared. Only those on a disk are read into memory of their own.
            Cow::Borrowed(_) => Ok(Bytes::from_owner(DataView(self.clone()))),
            Cow::Owned(bytes) => Ok(bytes.into()),
        }
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes.into_boxed_slice())
    }
}

impl From<&[u8]> for Data {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl<const N: usize> From<&[u8; N]> for Data {
    fn from(bytes: &[u8; N]) -> Self {
        bytes.to_vec().into()
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        // The same holder needs no comparison of its bytes, which may be on a disk.
        Arc::ptr_eq(&self.0, &other.0) || matches!((self.bytes(), other.bytes()), (Ok(own), Ok(other)) if own == other)
    }
}

impl Eq for Data {}
