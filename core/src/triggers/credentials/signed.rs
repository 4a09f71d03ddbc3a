//! Compares signatures, and the signed time with the clock.

use super::{Denied, text};
use fnd_manifest::function::route::Credential;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

/// How far a signed time may be from the clock, in both directions.
pub const TOLERANCE_S: u64 = 300;

/// The identity of an admitted request, by which it is not admitted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplayKey {
    /// SHA-256 of the form, the name of the secret and everything that is signed (id, time and body). The signature
    /// follows from these. It is not in the digest itself: a header can have two valid signatures while a secret is
    /// rotated, and each of them alone is the same request.
    pub digest: [u8; 32],
    /// The last second (Unix time) at which the signature holds.
    pub until_s: u64,
}

/// The signatures of a request, and what they sign.
#[derive(Debug, Default)]
pub(super) struct Signed<'h> {
    /// The signed parts before the body, in this order.
    pub(super) before: Vec<&'h [u8]>,
    /// The signed time, as it was sent.
    pub(super) time: Option<&'h [u8]>,
    /// HMAC-SHA256; one of them must hold.
    pub(super) signatures: Vec<[u8; 32]>,
}

impl Signed<'_> {
    /// Says whether a signature is made with one of the keys. Each is compared with each.
    pub(super) fn holds(&self, keys: &[Hmac<Sha256>], body: &[u8]) -> bool {
        // Every signature is compared with every key, so that the time of an answer tells nothing about the keys.
        let mut holds = Choice::from(0);
        for key in keys {
            let mut mac = key.clone();
            for part in &self.before {
                mac.update(part);
            }
            mac.update(body);
            let expected: [u8; 32] = mac.finalize().into_bytes().into();
            for signature in &self.signatures {
                holds |= signature.ct_eq(&expected);
            }
        }
        holds.into()
    }

    /// Compares the signed time with the clock.
    pub(super) fn in_time(&self, now_s: u64) -> Result<(), Denied> {
        let Some(time) = self.time.and_then(text::seconds) else {
            return Ok(());
        };
        if now_s.saturating_sub(time) > TOLERANCE_S {
            Err(Denied::TooOld(now_s.saturating_sub(time)))
        } else if time.saturating_sub(now_s) > TOLERANCE_S {
            Err(Denied::TooNew(time.saturating_sub(now_s)))
        } else {
            Ok(())
        }
    }

    /// Returns the key of a request whose signature holds; without a signed time a repeated request is none.
    pub(super) fn replay_key(&self, credential: &Credential, body: &[u8]) -> Option<ReplayKey> {
        let time = self.time.and_then(text::seconds)?;
        let mut digest = Sha256::new();
        // Neither word has a zero byte, so no two requests have the same bytes here.
        for part in [credential.scheme.as_str(), "\0", &credential.secret, "\0"] {
            digest.update(part);
        }
        for part in &self.before {
            digest.update(part);
        }
        digest.update(body);
        Some(ReplayKey {
            digest: digest.finalize().into(),
            until_s: time.saturating_add(TOLERANCE_S),
        })
    }
}
