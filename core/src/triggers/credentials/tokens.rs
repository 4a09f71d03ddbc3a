//! Secrets that are sent as they are: `Authorization: Bearer`, and `X-Gitlab-Token`.

use super::{Denied, Headers, headers};
use fnd_manifest::function::route::Scheme;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

const AUTHORIZATION: &str = "Authorization";
const GITLAB: &str = "X-Gitlab-Token";

/// Compares the presented token with each line of the secret.
pub(super) fn verify(scheme: Scheme, digests: &[[u8; 32]], headers: &impl Headers) -> Result<(), Denied> {
    let (header, read) = if scheme == Scheme::Gitlab {
        (GITLAB, headers::one(headers, GITLAB))
    } else {
        (AUTHORIZATION, bearer(headers))
    };
    // Digests are of the same length, so the time does not tell the length of the secret either.
    let presented: [u8; 32] = Sha256::digest(read.unwrap_or_default()).into();
    let holds = digests
        .iter()
        .fold(Choice::from(0), |holds, digest| holds | digest.ct_eq(&presented));
    read?;
    bool::from(holds).then_some(()).ok_or(Denied::WrongToken(header))
}

fn bearer(headers: &impl Headers) -> Result<&[u8], Denied> {
    let malformed = Denied::Malformed {
        header: AUTHORIZATION,
        expected: "`Bearer TOKEN`",
    };
    let value = headers::one(headers, AUTHORIZATION)?;
    after_scheme(value, b"bearer").ok_or(malformed)
}

/// Returns what follows the scheme and spaces in a value of `Authorization` (RFC 9110, section 11.4).
pub(super) fn after_scheme<'v>(value: &'v [u8], scheme: &[u8]) -> Option<&'v [u8]> {
    let (name, rest) = value.split_at_checked(scheme.len())?;
    let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
    (name.eq_ignore_ascii_case(scheme) && spaces > 0).then(|| &rest[spaces..])
}
