//! Why a credential does not hold, in words that say where to look. They contain neither the secret nor what was
//! expected, and they never reach the caller.

use super::signed::TOLERANCE_S;

const NO_MATCH: &str =
    "the signature does not match: the sender signs with another secret, or something on the way changed the body";

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The request does not have this header.
    #[error("the header `{0}` is missing: the sender has no secret yet, or a proxy removes the header")]
    Missing(&'static str),
    /// The request has this header more than once.
    #[error("the header `{0}` is there more than once: one is expected")]
    Repeated(&'static str),
    /// A header does not have the expected form.
    #[error("the header `{header}` has another form: expected {expected}")]
    Malformed {
        /// The name of the header.
        header: &'static str,
        /// The form that the header should have, for people.
        expected: &'static str,
    },
    /// The token in this header is no line of the secret.
    #[error("the token in `{0}` is no line of the secret: compare the secret with the sender's settings")]
    WrongToken(&'static str),
    /// No signature is made with a line of the secret.
    #[error("{}", NO_MATCH)]
    NoMatch,
    /// The same, where the secret begins with `whsec_`.
    #[error(
        "{}; each endpoint has its own secret, which begins with `whsec_` and is copied with it",
        NO_MATCH
    )]
    NoMatchWhsec,
    /// The user or the password is wrong.
    #[error("the user or the password is wrong: no line of the secret has both")]
    WrongPassword,
    /// The signature holds, but it was made so many seconds ago.
    #[error("the signature holds but is {} s old, and {} s are allowed: compare both clocks; a repeated request needs a new time and signature", .0, TOLERANCE_S)]
    TooOld(u64),
    /// The signature holds, but its time is so many seconds ahead.
    #[error("the signature holds but its time is {} s ahead, and {} s are allowed: compare both clocks", .0, TOLERANCE_S)]
    TooNew(u64),
}
