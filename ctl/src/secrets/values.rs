//! New values, in the form that a sender wants, and where they are pasted.

use crate::exit::CommandFailure;
use argon2::Argon2;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use clap::ValueEnum;
use fnd_wire::frame::SECRET_MAX;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::Path;
use zeroize::Zeroizing;

/// A sender of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sender {
    /// GitHub; Bitbucket has the same form.
    Github,
    /// GitLab.
    Gitlab,
    /// Gitea and Forgejo.
    Gitea,
    /// Slack, which gives the value.
    Slack,
    /// Stripe, which gives the value.
    Stripe,
    /// Standard Webhooks (standardwebhooks.com).
    Standard,
}

/// Returns a new value: 32 random bytes in the alphabet of URLs.
///
/// # Errors
/// The sender gives its value itself.
pub(crate) fn new(sender: Option<Sender>) -> Result<Zeroizing<String>, CommandFailure> {
    let bytes = random::<32>()?;
    Ok(Zeroizing::new(match sender {
        Some(Sender::Slack | Sender::Stripe) => {
            let message = "this sender makes the value itself";
            return Err(CommandFailure::usage(message).help("copy it from the sender, then `fndctl secret set NAME`"));
        }
        // The prefix and the alphabet are those of the specification of Standard Webhooks.
        Some(Sender::Standard) => format!("whsec_{}", STANDARD.encode(bytes.as_slice())),
        Some(Sender::Github | Sender::Gitlab | Sender::Gitea) | None => URL_SAFE_NO_PAD.encode(bytes.as_slice()),
    }))
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, CommandFailure> {
    let mut bytes = Zeroizing::new([0; N]);
    // A request of at most 256 bytes is answered whole (getrandom(2)).
    getrandom(bytes.as_mut_slice(), GetRandomFlags::empty())
        .map_err(|errno| CommandFailure::failed(format!("failed to get random bytes: {errno}")))?;
    Ok(bytes)
}

/// Returns where the value is to be pasted, and the line of the manifest.
pub(crate) fn advice(sender: Option<Sender>, webhook: bool, name: &str) -> Vec<String> {
    let (scheme, place) = match sender {
        Some(Sender::Github) => (
            "github",
            "the repository's Settings > Webhooks > Add webhook: Secret; Content type application/json",
        ),
        Some(Sender::Gitlab) => (
            "gitlab",
            "the project's Settings > Webhooks > Add new webhook: Secret token",
        ),
        Some(Sender::Gitea) => ("gitea", "the repository's Settings > Webhooks > Add Webhook: Secret"),
        Some(Sender::Standard) => ("standard", "the sender's settings of the endpoint: Signing secret"),
        Some(Sender::Slack | Sender::Stripe) | None if webhook => {
            return [
                "paste it where the sender asks for a secret; --for SENDER says where that is:",
                "  github gitea gitlab standard; Slack and Stripe give you theirs: `fndctl secret set NAME`",
            ]
            .map(str::to_owned)
            .into();
        }
        Some(Sender::Slack | Sender::Stripe) | None => {
            ("token", "the header `Authorization: Bearer VALUE` of requests")
        }
    };
    vec![
        format!("paste the value into: {place}"),
        format!("in the manifest: auth = \"{scheme}:{name}\""),
    ]
}

/// Reads a value from a file, or from standard input.
///
/// # Errors
/// It can't be read, is empty or too large.
pub(crate) fn given(file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>, CommandFailure> {
    let shown = file.map_or_else(|| "standard input".to_owned(), |path| format!("`{}`", path.display()));
    let failed = |error: io::Error| CommandFailure::usage(format!("failed to read the value from {shown}: {error}"));
    // Large enough at once: a buffer that grows leaves copies in freed memory.
    let mut value = Zeroizing::new(Vec::with_capacity(usize::try_from(SECRET_MAX + 1).unwrap_or(0)));
    // One byte more than is allowed shows that the value is too large.
    let read = match file {
        Some(path) => File::open(path)
            .map_err(failed)?
            .take(SECRET_MAX + 1)
            .read_to_end(&mut value),
        None if io::stdin().is_terminal() => rpassword::prompt_password("value (not shown): ").map(|typed| {
            let typed = Zeroizing::new(typed);
            value.extend_from_slice(typed.as_bytes());
            value.len()
        }),
        None => io::stdin().lock().take(SECRET_MAX + 1).read_to_end(&mut value),
    };
    read.map_err(failed)?;
    if value.len() as u64 > SECRET_MAX {
        return Err(CommandFailure::usage(format!(
            "the value is larger than {} KiB",
            SECRET_MAX >> 10
        )));
    }
    if value.iter().all(|byte| b"\r\n".contains(byte)) {
        return Err(CommandFailure::usage(format!("{shown} is empty")));
    }
    Ok(value)
}

/// Reads a password: the first line of a file, `-` is standard input.
///
/// # Errors
/// As [`given`]; or it is not UTF-8.
pub(crate) fn password(file: &Path) -> Result<Zeroizing<String>, CommandFailure> {
    let bytes = given(Some(file).filter(|file| *file != Path::new("-")))?;
    let text = str::from_utf8(&bytes).map_err(|_| CommandFailure::usage("the password is not UTF-8"))?;
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}

/// Returns the hash of a password: argon2id with the defaults of its crate (19 MiB, 2 rounds), as a PHC string.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn hash(password: &[u8]) -> Result<String, CommandFailure> {
    let failed = |error| CommandFailure::failed(format!("failed to hash the password: {error}"));
    let (salt, mut out) = (random::<16>()?, [0; 32]);
    let argon2 = Argon2::default();
    argon2
        .hash_password_into(password, salt.as_slice(), &mut out)
        .map_err(failed)?;
    // The text has the parameters, so a hash stays valid when the defaults of the crate change.
    let parameters = argon2.params();
    Ok(format!(
        "$argon2id$v=19$m={},t={},p={}${}${}",
        parameters.m_cost(),
        parameters.t_cost(),
        parameters.p_cost(),
        STANDARD_NO_PAD.encode(salt.as_slice()),
        STANDARD_NO_PAD.encode(out)
    ))
}

#[cfg(test)]
mod tests {
    use crate::secrets::values::*;

    #[test]
    fn values_are_long_random_and_in_the_senders_form() {
        let value = new(None).unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(value.as_bytes()).unwrap().len(), 32);
        assert_ne!(value, new(Some(Sender::Github)).unwrap());
        let standard = new(Some(Sender::Standard)).unwrap();
        assert_eq!(
            STANDARD.decode(standard.strip_prefix("whsec_").unwrap()).unwrap().len(),
            32
        );
        for sender in [Sender::Slack, Sender::Stripe] {
            assert!(new(Some(sender)).unwrap_err().help.unwrap().contains("secret set"));
        }
    }

    #[test]
    fn a_hash_is_argon2id_and_has_a_salt_of_its_own() {
        let hash = hash(b"pa:ss").unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, crate::secrets::values::hash(b"pa:ss").unwrap());
        let parts: Vec<&str> = hash.split('$').collect();
        let [salt, sum] = [parts[4], parts[5]].map(|part| STANDARD_NO_PAD.decode(part).unwrap());
        let mut again = [0; 32];
        Argon2::default()
            .hash_password_into(b"pa:ss", &salt, &mut again)
            .unwrap();
        assert_eq!((salt.len(), sum), (16, again.to_vec()));
    }
}
