//! Requests that a naive signer makes are admitted, and any change to them is denied.

use super::*;
use proptest::prelude::*;

/// The senders that sign something.
fn signer() -> impl Strategy<Value = (&'static str, &'static str)> {
    proptest::sample::select(SENDERS[..9].to_vec())
}

proptest! {
    #[test]
    fn what_a_sender_signs_is_admitted(
        (sender, form) in proptest::sample::select(SENDERS.to_vec()),
        key in "[!-~]{1,80}",
        body in proptest::collection::vec(any::<u8>(), 0..300),
        late in 0..=600_u64,
    ) {
        let headers = signed(sender, &key, &body, NOW - 300 + late);
        let result = verify(form, &file(form, &key), &borrowed(&headers), &body);
        prop_assert!(result.is_ok(), "{sender}: {result:?}");
    }

    #[test]
    fn a_changed_bit_of_the_body_is_denied(
        (sender, form) in signer(),
        mut body in proptest::collection::vec(any::<u8>(), 1..300),
        at in any::<proptest::sample::Index>(),
        bit in 0..8,
    ) {
        let headers = signed(sender, "secret", &body, NOW);
        let at = at.index(body.len());
        body[at] ^= 1_u8 << bit;
        let result = verify(form, &file(form, "secret"), &borrowed(&headers), &body);
        prop_assert!(matches!(result, Err(Denied::NoMatch | Denied::NoMatchWhsec)), "{sender}: {result:?}");
    }

    #[test]
    fn a_changed_bit_of_a_header_is_denied(
        (sender, form) in signer(),
        header in any::<proptest::sample::Index>(),
        at in any::<proptest::sample::Index>(),
        bit in 0..8,
    ) {
        let good = signed(sender, "secret", b"body", NOW);
        let mut headers: Vec<(&str, Vec<u8>)> = good.iter().map(|(name, value)| (*name, value.clone().into_bytes())).collect();
        let header = header.index(headers.len());
        let value = &mut headers[header].1;
        let at = at.index(value.len());
        let before = value[at];
        value[at] ^= 1_u8 << bit;
        // Upper case of a hexadecimal digit is the same digit; in base64 it is another one.
        let is_same = form != "standard" && before.is_ascii_hexdigit() && before.eq_ignore_ascii_case(&value[at])
            && at >= value.len() - 64;
        let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_slice())).collect();
        let verifier = verifier(&format!("{form}:name"), file(form, "secret").as_bytes()).unwrap();
        let result = verifier.verify(&headers.as_slice(), b"body", NOW);
        prop_assert_eq!(result.is_ok(), is_same, "{}: {:?}", sender, result);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        form in proptest::sample::select(SENDERS.to_vec()),
        values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..90), 3),
        secret in proptest::collection::vec(any::<u8>(), 0..90),
    ) {
        let names = signed(form.0, "secret", b"body", NOW);
        let headers: Vec<(&str, &[u8])> = names.iter().zip(&values).map(|((name, _), value)| (*name, value.as_slice())).collect();
        for form in [form.1, "basic"] {
            if let Ok(verifier) = verifier(&format!("{form}:name"), &secret) {
                let _ = verifier.verify(&headers.as_slice(), b"body", NOW);
            }
        }
    }
}
