//! Verifies the credentials of HTTP callers: tokens, passwords and signatures as senders really send them.
//!
//! The bytes of a request are hostile. Every secret is compared with every presented value in constant time, and a
//! request without a credential costs as much as one with a wrong credential. The reason of a refusal is for the journal
//! and for `fndctl routes test`: the caller always gets the same answer.
//!
//! Password hashes are only read here. They are slow on purpose, so the daemon computes them on a thread of their own.
//!
//! Files:
//! - `basic`: user and password of `Authorization: Basic`
//! - `denied`: why a credential does not hold, in words
//! - `headers`: reads headers that must be there once
//! - `passwords`: lines `user:password-hash` of a secret
//! - `secret`: reads the lines of a secret, and says what is wrong with them
//! - `senders`: finds signatures in the headers of each sender
//! - `signed`: compares signatures, and the signed time with the clock
//! - `text`: hexadecimal digits, base64 and seconds
//! - `tokens`: compares secrets that are sent as they are

mod basic;
mod denied;
mod headers;
mod passwords;
mod secret;
mod senders;
mod signed;
mod text;
mod tokens;

#[cfg(test)]
mod tests;

pub use basic::Login;
pub use denied::Denied;
pub use headers::Headers;
pub use passwords::{Argon2, PasswordHash, PasswordLine, Users};
pub use secret::{BadSecret, BadUser};
pub use signed::{ReplayKey, TOLERANCE_S};

use fnd_manifest::function::route::{Credential, Scheme};
use hmac::Hmac;
use sha2::Sha256;
use signed::Signed;
use std::fmt;
use std::sync::Arc;

/// A credential that a route accepts, with the lines of its secret.
pub struct Verifier {
    credential: Credential,
    keys: Keys,
}

/// The use of the lines of a secret. Each of them is valid.
enum Keys {
    /// SHA-256 of each line.
    Tokens(Vec<[u8; 32]>),
    /// A key from each line.
    Signatures(Vec<Hmac<Sha256>>),
    /// A user in each line.
    Passwords(Arc<Users>),
}

/// A credential that holds, as far as it can be decided here.
#[derive(Debug, PartialEq, Eq)]
pub enum Proof {
    /// It holds, and needs no further check.
    Holds,
    /// It holds if the same request was not admitted before.
    HoldsOnce(ReplayKey),
    /// It holds if the password does.
    Password(Login),
}

impl Verifier {
    /// Reads the content of a secret's file for a credential.
    ///
    /// # Errors
    /// [`BadSecret`] says which line cannot be used: the function is invalid.
    pub fn new(credential: &Credential, content: &[u8]) -> Result<Self, BadSecret> {
        Ok(Self {
            credential: credential.clone(),
            keys: secret::keys(credential, content)?,
        })
    }

    /// Returns the credential that the manifest asks for, without the secret's content.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Verifies the credential of a request at `now_s` (Unix time). If the form does not sign ([`Scheme::signs`]), the
    /// body is not read: an empty one gives the same result.
    ///
    /// # Errors
    /// [`Denied`] says why the credential does not hold.
    pub fn verify(&self, headers: &impl Headers, body: &[u8], now_s: u64) -> Result<Proof, Denied> {
        match &self.keys {
            Keys::Tokens(digests) => {
                tokens::verify(self.credential.scheme, digests, headers)?;
                Ok(Proof::Holds)
            }
            Keys::Passwords(users) => Ok(Proof::Password(Login::read(users, headers)?)),
            Keys::Signatures(keys) => {
                let read = senders::read(self.credential.scheme, headers);
                // Without a signature another one is compared, so that the answer takes as long.
                let other = Signed::default();
                let holds = read.as_ref().unwrap_or(&other).holds(keys, body);
                let signed = read?;
                if !holds {
                    return Err(match self.credential.scheme {
                        Scheme::Standard | Scheme::Stripe => Denied::NoMatchWhsec,
                        _ => Denied::NoMatch,
                    });
                }
                // Only a signature that holds makes the time the sender's, so the time is compared after it.
                signed.in_time(now_s)?;
                let key = signed.replay_key(&self.credential, body);
                Ok(key.map_or(Proof::Holds, Proof::HoldsOnce))
            }
        }
    }
}

/// Leaves the keys out, so that no log shows them.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("credential", &self.credential)
            .finish_non_exhaustive()
    }
}
