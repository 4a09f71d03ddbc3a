//! User and password of `Authorization: Basic` (RFC 7617).

use super::tokens::after_scheme;
use super::{Denied, Headers, Users, headers, text};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::fmt;
use std::sync::Arc;
use subtle::ConstantTimeEq as _;

const HEADER: &str = "Authorization";

/// A longer password is refused: Argon2 reads all of it.
const MAX_PASSWORD: usize = 1024;

/// A user and a password that a caller presents, and the users of the secret.
#[derive(Clone)]
pub struct Login {
    /// The users of the secret.
    pub users: Arc<Users>,
    /// Name of the user.
    pub user: Vec<u8>,
    /// The password: no control characters, at most 1,024 bytes.
    pub password: Vec<u8>,
}

impl Login {
    pub(super) fn read(users: &Arc<Users>, headers: &impl Headers) -> Result<Self, Denied> {
        let malformed = Denied::Malformed {
            header: HEADER,
            expected: "`Basic` and base64 of `user:password`",
        };
        let encoded = after_scheme(headers::one(headers, HEADER)?, b"basic").ok_or(malformed)?;
        let mut user = text::base64(encoded).ok_or(malformed)?;
        let colon = user.iter().position(|byte| *byte == b':').ok_or(malformed)?;
        let password = user.split_off(colon + 1);
        user.pop();
        // Neither may have control characters; bcrypt would end a password at a zero byte.
        let fine = !user.iter().chain(&password).any(u8::is_ascii_control);
        (fine && password.len() <= MAX_PASSWORD)
            .then(|| Self {
                users: Arc::clone(users),
                user,
                password,
            })
            .ok_or(malformed)
    }
}

impl Login {
    /// Returns a keyed hash of the user, the password and the user's lines of the secret: a login that was verified can
    /// be recognized by it, and not after the lines change.
    #[must_use]
    pub fn mark(&self, key: &[u8; 32]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        for part in [self.users.secret().as_bytes(), &self.user, &self.password] {
            mac.update(part);
            // None of them has a zero byte.
            mac.update(b"\0");
        }
        for line in self.users.lines(&self.user).0 {
            mac.update(&line.digest);
        }
        mac.finalize().into_bytes().into()
    }
}

/// Leaves the password out, so that no log shows it.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl PartialEq for Login {
    fn eq(&self, other: &Self) -> bool {
        let holds: bool = self.password.ct_eq(&other.password).into();
        Arc::ptr_eq(&self.users, &other.users) && self.user == other.user && holds
    }
}

impl Eq for Login {}
