//! Tests of every form.
//!
//! Files:
//! - `properties`: what a naive signer makes is admitted, and any change to it is denied
//! - `refusals`: what each form refuses, and why
//! - `rotation`: several lines in a secret, and the keys of replays
//! - `secrets`: lines of secrets that are refused, and hashes of passwords
//! - `timing`: comparisons in constant time, and a measurement
//! - `vectors`: the examples in the senders' own documentation

mod properties;
mod refusals;
mod rotation;
mod secrets;
mod timing;
mod vectors;

use super::{BadSecret, Denied, Proof, Verifier};
use fnd_manifest::function::route::Credential;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The time of the tests, in Unix seconds.
const NOW: u64 = 1_700_000_000;

/// Makes the verifier of `scheme:secret`.
fn verifier(credential: &str, content: &[u8]) -> Result<Verifier, BadSecret> {
    Verifier::new(&Credential::parse(credential).unwrap(), content)
}

/// Verifies a request at [`NOW`].
fn verify(scheme: &str, secret: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Proof, Denied> {
    verify_at(NOW, scheme, secret, headers, body)
}

fn verify_at(now_s: u64, scheme: &str, secret: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Proof, Denied> {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let verifier = verifier(&format!("{scheme}:name"), secret.as_bytes()).unwrap();
    verifier.verify(&headers.as_slice(), body, now_s)
}

fn sign(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Signs as a sender does: the headers of a request.
fn signed(scheme: &str, key: &str, body: &[u8], time: u64) -> Vec<(&'static str, String)> {
    let (key, time) = (key.as_bytes(), time.to_string());
    let at = time.as_bytes();
    match scheme {
        "hmac" => vec![(
            "Fnd-Signature",
            format!("t={time},v1={}", hex(&sign(key, &[at, b".", body]))),
        )],
        "stripe" => vec![(
            "Stripe-Signature",
            format!("t={time},v1={}", hex(&sign(key, &[at, b".", body]))),
        )],
        "github" => vec![("X-Hub-Signature-256", format!("sha256={}", hex(&sign(key, &[body]))))],
        "bitbucket" => vec![("X-Hub-Signature", format!("sha256={}", hex(&sign(key, &[body]))))],
        "gitea" => vec![("X-Gitea-Signature", hex(&sign(key, &[body])))],
        "forgejo" => vec![("X-Forgejo-Signature", hex(&sign(key, &[body])))],
        "slack" => vec![
            ("X-Slack-Request-Timestamp", time.clone()),
            (
                "X-Slack-Signature",
                format!("v0={}", hex(&sign(key, &[b"v0:", at, b":", body]))),
            ),
        ],
        "standard" => vec![
            ("Webhook-Id", "msg_1".to_owned()),
            ("Webhook-Timestamp", time.clone()),
            (
                "Webhook-Signature",
                format!("v1,{}", base64(&sign(key, &[b"msg_1.", at, b".", body]))),
            ),
        ],
        "svix" => vec![
            ("svix-id", "msg_1".to_owned()),
            ("svix-timestamp", time.clone()),
            (
                "svix-signature",
                format!("v1,{}", base64(&sign(key, &[b"msg_1.", at, b".", body]))),
            ),
        ],
        "token" => vec![("Authorization", format!("Bearer {}", String::from_utf8_lossy(key)))],
        "gitlab" => vec![("X-Gitlab-Token", String::from_utf8_lossy(key).into_owned())],
        _ => panic!("{scheme}"),
    }
}

/// The senders, and the form that each is of.
const SENDERS: [(&str, &str); 11] = [
    ("hmac", "hmac"),
    ("stripe", "stripe"),
    ("github", "github"),
    ("bitbucket", "github"),
    ("gitea", "gitea"),
    ("forgejo", "gitea"),
    ("slack", "slack"),
    ("standard", "standard"),
    ("svix", "standard"),
    ("token", "token"),
    ("gitlab", "gitlab"),
];

/// Returns the content of a secret file for a key.
fn file(form: &str, key: &str) -> String {
    if form == "standard" {
        format!("whsec_{}\n", base64(key.as_bytes()))
    } else {
        format!("{key}\n")
    }
}

fn borrowed<'h>(headers: &'h [(&'static str, String)]) -> Vec<(&'h str, &'h str)> {
    headers.iter().map(|(name, value)| (*name, value.as_str())).collect()
}
