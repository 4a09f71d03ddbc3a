//! Any headers and body as a request with a credential of each form: a refusal has words, and a credential that holds
//! holds for this body only.
//!
//! The input is `SCHEME LINE LINE`, then headers, an empty line, and the body.
#![no_main]

use fnd_core::triggers::credentials::{Proof, TOLERANCE_S, Verifier};
use fnd_manifest::function::route::Credential;
use libfuzzer_sys::fuzz_target;

/// The signatures of the seeds are of this time.
const NOW_S: u64 = 1_700_000_000;

fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") else {
        return;
    };
    let (head, body) = (&bytes[..end], &bytes[end + 2..]);
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut words = lines.next().unwrap_or_default().split(|byte| *byte == b' ');
    let scheme = String::from_utf8_lossy(words.next().unwrap_or_default());
    let Some(credential) = Credential::parse(&format!("{scheme}:name")) else {
        return;
    };
    let secret = words.collect::<Vec<_>>().join(&b'\n');
    let verifier = match Verifier::new(&credential, &secret) {
        Ok(verifier) => verifier,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let headers: Vec<(&str, &[u8])> = lines
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((
                std::str::from_utf8(&line[..colon]).ok()?,
                line[colon + 1..].trim_ascii(),
            ))
        })
        .collect();
    let headers = headers.as_slice();
    let proof = verifier.verify(&headers, body, NOW_S);
    match &proof {
        Err(denied) => assert!(!denied.to_string().is_empty()),
        Ok(Proof::HoldsOnce(key)) => assert!((NOW_S..=NOW_S + 2 * TOLERANCE_S).contains(&key.until_s)),
        Ok(Proof::Password(login)) => {
            assert!(!login.users.lines(&login.user).0.is_empty());
            assert_eq!(login.mark(&[1; 32]), login.mark(&[1; 32]));
        }
        Ok(Proof::Holds) => {}
    }
    let changed = verifier.verify(&headers, &[body, b"."].concat(), NOW_S);
    if credential.scheme.signs() {
        assert!(proof.is_err() || changed.is_err());
    } else {
        assert_eq!(proof.is_ok(), changed.is_ok());
    }
});
