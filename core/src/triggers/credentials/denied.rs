//! Why a credential does not hold, in words that say where to look. They contain neither the secret nor what was
//! expected, and they never reach the caller.

use super::signed::TOLERANCE_S;
use std::fmt;

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The request does not have this header.
    Missing(&'static str),
    /// The request has this header more than once.
    Repeated(&'static str),
    /// A header does not have the expected form.
    Malformed {
        /// The name of the header.
        header: &'static str,
        /// The form that the header should have, for people.
        expected: &'static str,
    },
    /// The token in this header is no line of the secret.
    WrongToken(&'static str),
    /// No signature is made with a line of the secret.
    NoMatch,
    /// The same, where the secret begins with `whsec_`.
    NoMatchWhsec,
    /// The user or the password is wrong.
    WrongPassword,
    /// The signature holds, but it was made so many seconds ago.
    TooOld(u64),
    /// The signature holds, but its time is so many seconds ahead.
    TooNew(u64),
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NO_MATCH: &str = "the signature does not match: the sender signs with another secret, or something on the way changed the body";
        match self {
            Self::Missing(header) => write!(
                f,
                "the header `{header}` is missing: the sender has no secret yet, or a proxy removes the header"
            ),
            Self::Repeated(header) => write!(f, "the header `{header}` is there more than once: one is expected"),
            Self::Malformed { header, expected } => {
                write!(f, "the header `{header}` has another form: expected {expected}")
            }
            Self::WrongToken(header) => write!(
                f,
                "the token in `{header}` is no line of the secret: compare the secret with the sender's settings"
            ),
            Self::NoMatch => f.write_str(NO_MATCH),
            Self::NoMatchWhsec => write!(
                f,
                "{NO_MATCH}; each endpoint has its own secret, which begins with `whsec_` and is copied with it"
            ),
            Self::WrongPassword => f.write_str("the user or the password is wrong: no line of the secret has both"),
            Self::TooOld(seconds) => write!(
                f,
                "the signature holds but is {seconds} s old, and {TOLERANCE_S} s are allowed: compare both clocks; a repeated request needs a new time and signature"
            ),
            Self::TooNew(seconds) => write!(
                f,
                "the signature holds but its time is {seconds} s ahead, and {TOLERANCE_S} s are allowed: compare both clocks"
            ),
        }
    }
}

impl std::error::Error for Denied {}
