//! The key by which a worker that serves HTTP tells fnd's requests from those of others who can reach its port.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::io;

/// The header that has it on each request of fnd.
const HEADER: HeaderName = HeaderName::from_static("fnd-worker-key");

/// A worker's key: 128 bits nobody can guess, as 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerKey(String);

impl WorkerKey {
    /// The variable that tells it to the worker.
    pub const VARIABLE: &str = "FND_WORKER_KEY";

    /// Returns a new one.
    ///
    /// # Errors
    /// Where the kernel gives no random bytes (getrandom(2)).
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; 16];
        let length = getrandom(&mut bytes, GetRandomFlags::empty())?;
        if length < bytes.len() {
            return Err(io::Error::other("the kernel gave too few random bytes"));
        }
        Ok(Self(format!("{:032x}", u128::from_le_bytes(bytes))))
    }

    /// Returns its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Puts it on a request, in place of what a caller may have sent under its name.
    pub fn put(&self, headers: &mut HeaderMap) {
        match HeaderValue::from_str(&self.0) {
            Ok(mut value) => {
                value.set_sensitive(true);
                headers.insert(HEADER, value);
            }
            // One that came back from a note and is no header: the worker refuses the request.
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
