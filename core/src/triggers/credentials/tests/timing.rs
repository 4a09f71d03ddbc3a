//! The time of a comparison says nothing about a secret.

use super::*;
use std::hint::black_box;

/// Bytes of secrets are compared by `subtle` in every file that sees some.
#[test]
fn secrets_are_compared_in_constant_time() {
    for (name, source) in [
        ("basic", include_str!("../basic.rs")),
        ("passwords", include_str!("../passwords.rs")),
        ("signed", include_str!("../signed.rs")),
        ("tokens", include_str!("../tokens.rs")),
    ] {
        assert!(source.contains(".ct_eq("), "{name}");
        for line in source
            .lines()
            .filter(|line| line.contains(" == ") || line.contains(" != "))
        {
            let names_secret = ["password", "digest", "signature", "expected", "computed", "presented"];
            assert!(!names_secret.iter().any(|word| line.contains(word)), "{name}: {line}");
        }
    }
}

#[test]
#[ignore = "measures and asserts nothing: --run-ignored only --no-capture"]
#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn time_by_the_first_wrong_byte() {
    const CALLS: u32 = 200_000;
    let secret = "a".repeat(64);
    let verifier = verifier("token:name", secret.as_bytes()).unwrap();
    for wrong_at in [0, 31, 63] {
        let mut token = format!("Bearer {secret}").into_bytes();
        token["Bearer ".len() + wrong_at] = b'b';
        let headers = [("authorization", token.as_slice())];
        let start = std::time::Instant::now();
        for _ in 0..CALLS {
            assert!(black_box(&verifier).verify(&headers.as_slice(), b"", NOW).is_err());
        }
        eprintln!("first wrong byte {wrong_at}: {:?} a call", start.elapsed() / CALLS);
    }
}
