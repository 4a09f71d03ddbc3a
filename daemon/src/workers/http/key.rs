//! The key by which a worker that serves HTTP recognizes fnd's requests: other processes can reach its port, too.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::io;

/// The header with the key, on each request of fnd.
const HEADER: HeaderName = HeaderName::from_static("fnd-worker-key");

/// A worker's key: 128 random bits, as 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerKey(String);

impl WorkerKey {
    /// The environment variable that gives the key to the worker.
    pub const VARIABLE: &str = "FND_WORKER_KEY";

    /// Returns a new key.
    ///
    /// # Errors
    /// The kernel gives no random bytes (getrandom(2)).
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; 16];
        let length = getrandom(&mut bytes, GetRandomFlags::empty())?;
        if length < bytes.len() {
            return Err(io::Error::other("the kernel gave too few random bytes"));
        }
        Ok(Self(format!("{:032x}", u128::from_le_bytes(bytes))))
    }

    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Puts the key on a request. It replaces a header of the same name that a caller may have sent.
    pub fn put(&self, headers: &mut HeaderMap) {
        match HeaderValue::from_str(&self.0) {
            Ok(mut value) => {
                // The value does not appear in debug output then.
                value.set_sensitive(true);
                headers.insert(HEADER, value);
            }
            // A key from an adoption record may be no valid header value: the worker refuses the request.
            Err(_) => drop(headers.remove(HEADER)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_its_own_and_no_caller_can_say_it() {
        let (one, two) = (WorkerKey::new().unwrap(), WorkerKey::new().unwrap());
        assert_ne!(one, two);
        assert!(one.as_str().len() == 32 && one.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
        let mut headers = HeaderMap::new();
        headers.append(HEADER, HeaderValue::from_static("forged"));
        headers.append(HEADER, HeaderValue::from_static("twice"));
        one.put(&mut headers);
        let values: Vec<_> = headers.get_all(HEADER).iter().collect();
        assert_eq!(values, [one.as_str()]);
    }
}
