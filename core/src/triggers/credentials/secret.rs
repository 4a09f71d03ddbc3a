//! Reads the lines of a secret, and says what is wrong with them. The words name a line by its number, never its text.

use super::{Keys, Users, text};
use fnd_manifest::function::route::{Credential, Scheme};
use hmac::{Hmac, KeyInit as _};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// More lines than this are refused where each line costs a signature: during a rotation there are two.
const MAX_LINES: usize = 8;

/// A secret that cannot be used for its credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// It has no line.
    #[error("the secret is empty")]
    Empty,
    /// It has so many lines.
    #[error("the secret has {} lines: at most {} are valid at once", .0, MAX_LINES)]
    TooMany(usize),
    /// The line with this number is not base64, with or without `whsec_`.
    #[error("line {0} of the secret is not `whsec_` and base64")]
    NotBase64(usize),
    /// The line with this number is no user.
    #[error("line {0} of the secret {1}")]
    User(usize, BadUser),
}

/// A line that is no user with a hash that fnd computes. Its words follow "line 2 of the secret".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUser {
    /// It is not `user:hash`.
    #[error("is not `user:password-hash`")]
    NoColon,
    /// The hash is of a kind that is fast to guess, or the password itself.
    #[error("has {0}: bcrypt and argon2 hashes are accepted (`htpasswd -nB USER` makes a line)")]
    Kind(&'static str),
    /// The hash costs more than fnd computes for a caller.
    #[error("has a hash that costs too much: {0}")]
    Cost(&'static str),
    /// The hash is of a known kind, and cut off or changed.
    #[error("has a {0} hash that is incomplete or changed")]
    Malformed(&'static str),
    /// The user has more lines than can be valid at once.
    #[error("is the third line of its user: at most 2 are valid at once")]
    Repeated,
}

/// Returns what the lines of a secret are used for.
pub(super) fn keys(credential: &Credential, content: &[u8]) -> Result<Keys, BadSecret> {
    let lines = || lines(content);
    let count = lines().count();
    if count == 0 {
        return Err(BadSecret::Empty);
    }
    if credential.scheme == Scheme::Basic {
        return Users::read(&credential.secret, lines()).map(|users| Keys::Passwords(Arc::new(users)));
    }
    // Passwords have a line for each user, so this limit comes after them.
    if count > MAX_LINES {
        return Err(BadSecret::TooMany(count));
    }
    match credential.scheme {
        Scheme::Token | Scheme::Gitlab => {
            // In place: a hasher that is moved leaves a copy of its buffer behind, with the secret in it.
            let mut hasher = Sha256::new();
            let digests = lines().map(|(_, line)| {
                hasher.update(line);
                hasher.finalize_reset().into()
            });
            Ok(Keys::Tokens(digests.collect()))
        }
        Scheme::Standard => {
            let keys =
                lines().map(|(number, line)| decoded(line).map(|key| mac(&key)).ok_or(BadSecret::NotBase64(number)));
            keys.collect::<Result<_, _>>().map(Keys::Signatures)
        }
        // Stripe's `whsec_` is a part of the key.
        _ => Ok(Keys::Signatures(lines().map(|(_, line)| mac(line)).collect())),
    }
}

/// Returns the lines that are not empty, with their numbers.
fn lines(content: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = content.split(|byte| *byte == b'\n').zip(1..);
    let lines = lines.map(|(line, number)| (number, line.strip_suffix(b"\r").unwrap_or(line)));
    lines.filter(|(_, line)| !line.is_empty())
}

/// Returns the key of Standard Webhooks: base64 behind `whsec_`, which may be absent.
fn decoded(line: &[u8]) -> Option<Vec<u8>> {
    let key = text::base64(line.strip_prefix(b"whsec_").unwrap_or(line))?;
    (!key.is_empty()).then_some(key)
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}
