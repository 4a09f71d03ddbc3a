//! Finds signatures in the headers of each sender. Sources: the senders' own pages on checking a delivery, and for
//! Standard Webhooks its specification.

use super::signed::Signed;
use super::{Denied, Headers, headers, text};
use fnd_manifest::function::route::Scheme;

/// More signatures than this in one header are refused: during a rotation there are two.
const MAX_SIGNATURES: usize = 16;

const HEX: &str = "64 hexadecimal digits";
const PREFIXED: &str = "`sha256=` and 64 hexadecimal digits";
const TIMED: &str = "`t=SECONDS,v1=` and 64 hexadecimal digits";
const SECONDS: &str = "a Unix time in seconds";

/// Reads the signatures of a form that signs.
pub(super) fn read(scheme: Scheme, headers: &impl Headers) -> Result<Signed<'_>, Denied> {
    match scheme {
        Scheme::Hmac => timed(headers, "Fnd-Signature"),
        Scheme::Stripe => timed(headers, "Stripe-Signature"),
        // GitHub sends `X-Hub-Signature-256`. Bitbucket (Cloud, Data Center) and Jira send `X-Hub-Signature` with SHA-256.
        // GitHub's own `X-Hub-Signature` is SHA-1, which is not accepted.
        Scheme::Github => of_body(
            headers,
            ["X-Hub-Signature-256", "X-Hub-Signature"],
            (b"sha256=", PREFIXED),
        ),
        // Gitea sends `X-Gitea-Signature`; Forgejo sends the same value as `X-Forgejo-Signature` too.
        Scheme::Gitea => of_body(headers, ["X-Gitea-Signature", "X-Forgejo-Signature"], (b"", HEX)),
        Scheme::Slack => slack(headers),
        Scheme::Standard => standard(headers),
        // These forms do not sign: no signature of theirs holds.
        Scheme::Token | Scheme::Basic | Scheme::Gitlab => Ok(Signed::default()),
    }
}

/// Reads the only signature of a body, which is in the first of two headers, or in the second one where the first is missing.
fn of_body(
    headers: &impl Headers,
    [first, second]: [&'static str; 2],
    (prefix, form): (&[u8], &'static str),
) -> Result<Signed<'static>, Denied> {
    let is_second = !headers::has(headers, first) && headers::has(headers, second);
    let header = if is_second { second } else { first };
    let signature = headers::one(headers, header)?.strip_prefix(prefix).and_then(text::hex);
    Ok(Signed {
        signatures: vec![signature.ok_or(malformed(header, form))?],
        ..Signed::default()
    })
}

/// Slack signs `v0:TIME:BODY`.
fn slack(headers: &impl Headers) -> Result<Signed<'_>, Denied> {
    let header = "X-Slack-Signature";
    let signature = headers::one(headers, header)?.strip_prefix(b"v0=").and_then(text::hex);
    let signature = signature.ok_or(malformed(header, "`v0=` and 64 hexadecimal digits"))?;
    let time = time(headers, "X-Slack-Request-Timestamp")?;
    Ok(Signed {
        before: vec![b"v0:", time, b":"],
        time: Some(time),
        signatures: vec![signature],
    })
}

/// Stripe, and callers of our own form, sign `TIME.BODY` and send `t=TIME,v1=HEX`. Stripe sends a second `v1` while a
/// secret is rotated, and `v0` in test mode, which is none.
fn timed<'h>(headers: &'h impl Headers, header: &'static str) -> Result<Signed<'h>, Denied> {
    let malformed = malformed(header, TIMED);
    let (mut time, mut signatures) = (None, Vec::new());
    for field in headers::one(headers, header)?.split(|byte| *byte == b',') {
        let field = field.trim_ascii();
        if let Some(value) = field.strip_prefix(b"t=") {
            // A time that cannot be read is refused: `in_time` would take it for none, and the signature would hold for
            // ever.
            if time.replace(value).is_some() || text::seconds(value).is_none() {
                return Err(malformed);
            }
        } else if let Some(value) = field.strip_prefix(b"v1=") {
            add(&mut signatures, text::hex(value)).ok_or(malformed)?;
        }
    }
    let time = time.filter(|_| !signatures.is_empty()).ok_or(malformed)?;
    Ok(Signed {
        before: vec![time, b"."],
        time: Some(time),
        signatures,
    })
}

/// Standard Webhooks signs `ID.TIME.BODY`. Svix, where it comes from, names the same headers `svix-...`; its customers'
/// senders use either.
fn standard(headers: &impl Headers) -> Result<Signed<'_>, Denied> {
    let webhook = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let svix = ["svix-id", "svix-timestamp", "svix-signature"];
    // All three are of one kind.
    let is_svix = headers::has(headers, svix[2]) && !headers::has(headers, webhook[2]);
    let [id_header, time_header, header] = if is_svix { svix } else { webhook };
    let form = malformed(header, "`v1,` and base64 of 32 bytes, several with spaces between them");
    let mut signatures = Vec::new();
    for field in headers::one(headers, header)?.split(|byte| *byte == b' ') {
        // Other versions are signed in other ways: `v1a` by a public key.
        if let Some(value) = field.strip_prefix(b"v1,") {
            let signature = text::base64(value).and_then(|bytes| bytes.try_into().ok());
            add(&mut signatures, signature).ok_or(form)?;
        }
    }
    if signatures.is_empty() {
        return Err(form);
    }
    let id = headers::one(headers, id_header)?;
    let time = time(headers, time_header)?;
    // Otherwise the time could be read as the end of the id, and the beginning of the body as the time.
    let ends_as_time = id.rsplit(|byte| *byte == b'.').next().and_then(text::seconds).is_some();
    if id.is_empty() || id.contains(&b'.') && ends_as_time {
        return Err(malformed(
            id_header,
            "an id that does not end with a full stop and digits",
        ));
    }
    Ok(Signed {
        before: vec![id, b".", time, b"."],
        time: Some(time),
        signatures,
    })
}

/// Returns a header's text if it is a time.
fn time<'h>(headers: &'h impl Headers, header: &'static str) -> Result<&'h [u8], Denied> {
    let value = headers::one(headers, header)?;
    let is_time = text::seconds(value).is_some();
    is_time.then_some(value).ok_or(malformed(header, SECONDS))
}

/// Adds a signature, unless it is malformed or there are too many.
fn add(signatures: &mut Vec<[u8; 32]>, signature: Option<[u8; 32]>) -> Option<()> {
    signatures.push(signature.filter(|_| signatures.len() < MAX_SIGNATURES)?);
    Some(())
}

const fn malformed(header: &'static str, expected: &'static str) -> Denied {
    Denied::Malformed { header, expected }
}
