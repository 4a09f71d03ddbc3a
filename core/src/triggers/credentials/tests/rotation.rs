//! Several lines in a secret, and the keys of replays.

use super::*;

/// Returns the replay key of a request that holds.
fn key(secret: &str, form: &str, headers: &[(&'static str, String)], body: &[u8]) -> super::super::ReplayKey {
    match verify(form, secret, &borrowed(headers), body) {
        Ok(Proof::HoldsOnce(key)) => key,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_line_of_a_secret_is_valid() {
    for (sender, form) in SENDERS {
        let secret = format!("{}\r\n\n{}", file(form, "old").trim(), file(form, "new"));
        for line in ["old", "new"] {
            let headers = signed(sender, line, b"body", NOW);
            assert!(
                verify(form, &secret, &borrowed(&headers), b"body").is_ok(),
                "{sender} {line}"
            );
        }
        let headers = signed(sender, "third", b"body", NOW);
        assert!(verify(form, &secret, &borrowed(&headers), b"body").is_err(), "{sender}");
        // An empty line is not an empty secret.
        let headers = signed(sender, "", b"body", NOW);
        assert!(verify(form, &secret, &borrowed(&headers), b"body").is_err(), "{sender}");
    }
}

#[test]
fn one_of_several_signatures_is_enough() {
    for (sender, separator) in [
        ("stripe", ",v1="),
        ("hmac", ",v1="),
        ("standard", " v1,"),
        ("svix", " v1,"),
    ] {
        let form = if sender == "svix" { "standard" } else { sender };
        let (mut old, new) = (signed(sender, "old", b"body", NOW), signed(sender, "new", b"body", NOW));
        let tail = separator.trim_start_matches([',', ' ']);
        let signature = new.last().unwrap().1.rsplit_once(tail).unwrap().1;
        old.last_mut().unwrap().1.push_str(&format!("{separator}{signature}"));
        for line in ["old", "new"] {
            assert!(
                verify(form, &file(form, line), &borrowed(&old), b"body").is_ok(),
                "{sender} {line}"
            );
        }
        // The same request with only one of both signatures is the same request, whichever line of the secret holds.
        let both = format!("{}{}", file(form, "new"), file(form, "old"));
        let whole = key(&both, form, &old, b"body");
        assert_eq!(whole, key(&both, form, &new, b"body"), "{sender}");
        assert_eq!(whole, key(&file(form, "new"), form, &old, b"body"), "{sender}");
    }
}

#[test]
fn a_replay_key_stands_for_form_secret_id_time_and_body() {
    let headers = signed("hmac", "secret", b"body", NOW);
    let first = key("secret", "hmac", &headers, b"body");
    assert_eq!(first, key("secret", "hmac", &headers, b"body"));
    let upper = [(
        "fnd-signature",
        headers[0]
            .1
            .to_uppercase()
            .replacen("T=", "t=", 1)
            .replace("V1=", "v1="),
    )];
    assert_eq!(
        first,
        key("secret", "hmac", &upper, b"body"),
        "another spelling is the same signature"
    );
    let later = signed("hmac", "secret", b"body", NOW + 1);
    assert_ne!(first.digest, key("secret", "hmac", &later, b"body").digest);
    let other = signed("hmac", "secret", b"other", NOW);
    assert_ne!(first.digest, key("secret", "hmac", &other, b"other").digest);
    let stripe = signed("stripe", "secret", b"body", NOW);
    assert_ne!(first.digest, key("secret", "stripe", &stripe, b"body").digest);
    let named = verifier("hmac:other", b"secret").unwrap();
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let Ok(Proof::HoldsOnce(named)) = named.verify(&headers.as_slice(), b"body", NOW) else {
        panic!("the signature holds");
    };
    assert_ne!(first.digest, named.digest);
}
