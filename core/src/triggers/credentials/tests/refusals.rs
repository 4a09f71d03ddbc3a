//! The requests that each form refuses, and why.

use super::*;

const HEX: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const BASE64: &str = "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

/// Returns the reason, without a header's expected form.
fn why(scheme: &str, headers: &[(&str, &str)]) -> String {
    let secret = if scheme == "standard" {
        "whsec_c2VjcmV0"
    } else {
        "secret"
    };
    match verify(scheme, secret, headers, b"body") {
        Err(Denied::Missing(header)) => format!("missing {header}"),
        Err(Denied::Repeated(header)) => format!("repeated {header}"),
        Err(Denied::Malformed { header, .. }) => format!("malformed {header}"),
        Err(Denied::WrongToken(_) | Denied::NoMatch | Denied::NoMatchWhsec) => "no match".to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_missing_header_is_named() {
    for (scheme, header) in [
        ("token", "Authorization"),
        ("basic", "Authorization"),
        ("hmac", "Fnd-Signature"),
        ("github", "X-Hub-Signature-256"),
        ("gitlab", "X-Gitlab-Token"),
        ("gitea", "X-Gitea-Signature"),
        ("slack", "X-Slack-Signature"),
        ("stripe", "Stripe-Signature"),
        ("standard", "webhook-signature"),
    ] {
        let secret = match scheme {
            "basic" => "a:$2y$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui",
            "standard" => "c2VjcmV0",
            _ => "secret",
        };
        let others = [("X-Other", "1"), ("Cookie", "secret")];
        assert_eq!(
            verify(scheme, secret, &others, b""),
            Err(Denied::Missing(header)),
            "{scheme}"
        );
    }
}

#[test]
fn a_header_that_is_there_twice_is_refused() {
    for (sender, form) in SENDERS {
        let headers = signed(sender, "secret", b"body", NOW);
        for at in 0..headers.len() {
            let mut headers = borrowed(&headers);
            headers.push(headers[at]);
            let result = verify(form, &file(form, "secret"), &headers, b"body");
            assert!(matches!(result, Err(Denied::Repeated(_))), "{sender}: {result:?}");
        }
    }
}

#[test]
fn tokens() {
    let cases = [
        ("Bearer other", "no match"),
        ("Bearer secre", "no match"),
        ("Bearer secrets", "no match"),
        ("Bearer secret ", "no match"),
        ("Bearer Secret", "no match"),
        ("Bearer ", "no match"),
        ("Bearer", "malformed Authorization"),
        ("Bearersecret", "malformed Authorization"),
        ("secret", "malformed Authorization"),
        ("Basic c2VjcmV0", "malformed Authorization"),
        ("", "malformed Authorization"),
    ];
    for (value, expected) in cases {
        assert_eq!(why("token", &[("Authorization", value)]), expected, "{value:?}");
    }
    for value in ["", "Secret", "secret\t", "secret,secret"] {
        assert_eq!(why("gitlab", &[("X-Gitlab-Token", value)]), "no match", "{value:?}");
    }
}

#[test]
fn signatures_of_the_body() {
    let cases = [
        (format!("sha256={HEX}"), "no match"),
        (HEX.to_owned(), "malformed"),
        (format!("sha1={HEX}"), "malformed"),
        (format!("SHA256={HEX}"), "malformed"),
        (format!("sha256={}", &HEX[1..]), "malformed"),
        (format!("sha256={HEX}0"), "malformed"),
        (format!("sha256={HEX},sha256={HEX}"), "malformed"),
        (format!("sha256=g{}", &HEX[1..]), "malformed"),
        (format!(" sha256={HEX}"), "malformed"),
        (String::new(), "malformed"),
    ];
    for (value, expected) in &cases {
        for header in ["X-Hub-Signature-256", "X-Hub-Signature"] {
            let why = why("github", &[(header, value)]);
            assert!(why.starts_with(expected), "{value}: {why}");
        }
    }
    // The stronger header counts, even if the weaker one holds.
    let good = signed("bitbucket", "secret", b"body", NOW);
    let bad = format!("sha256={HEX}");
    assert_eq!(
        why(
            "github",
            &[("X-Hub-Signature", &good[0].1), ("X-Hub-Signature-256", &bad)]
        ),
        "no match"
    );
    for (value, expected) in [
        (HEX, "no match"),
        (&HEX[2..], "malformed X-Gitea-Signature"),
        ("", "malformed X-Gitea-Signature"),
    ] {
        assert_eq!(why("gitea", &[("X-Gitea-Signature", value)]), expected);
    }
    let good = signed("forgejo", "secret", b"body", NOW);
    assert_eq!(
        why(
            "gitea",
            &[("X-Forgejo-Signature", &good[0].1), ("X-Gitea-Signature", HEX)]
        ),
        "no match"
    );
}

#[test]
fn signatures_with_a_time_in_the_header() {
    let many = format!("t={NOW}{}", format!(",v1={HEX}").repeat(17));
    let cases = [
        (format!("t={NOW},v1={HEX}"), "no match"),
        (format!("v1={HEX},t={NOW}"), "no match"),
        (format!("t={NOW}, v1={HEX}"), "no match"),
        (format!("t={NOW},v1={HEX},v2=x,other"), "no match"),
        (format!("t={NOW},v0={HEX}"), "malformed"),
        (format!("t={NOW}"), "malformed"),
        (format!("v1={HEX}"), "malformed"),
        (format!("t=,v1={HEX}"), "malformed"),
        (format!("t=-1,v1={HEX}"), "malformed"),
        (format!("t=1e9,v1={HEX}"), "malformed"),
        (format!("t={NOW},t={NOW},v1={HEX}"), "malformed"),
        (format!("t={NOW},v1={HEX},v1=xyz"), "malformed"),
        (format!("t={NOW},v1={}", &HEX[1..]), "malformed"),
        (format!("t=99999999999999999999999,v1={HEX}"), "malformed"),
        (many, "malformed"),
        (",,,".to_owned(), "malformed"),
        (String::new(), "malformed"),
    ];
    for (value, expected) in &cases {
        for (scheme, header) in [("hmac", "Fnd-Signature"), ("stripe", "Stripe-Signature")] {
            let why = why(scheme, &[(header, value)]);
            assert!(why.starts_with(expected), "{value}: {why}");
        }
    }
}

#[test]
fn slack() {
    let time = NOW.to_string();
    let (good, other) = (format!("v0={HEX}"), format!("v1={HEX}"));
    let header = "X-Slack-Signature";
    let at = ("X-Slack-Request-Timestamp", time.as_str());
    for (headers, expected) in [
        (&[(header, good.as_str()), at][..], "no match"),
        (&[(header, &good)], "missing X-Slack-Request-Timestamp"),
        (&[at], "missing X-Slack-Signature"),
        (&[(header, &other), at], "malformed X-Slack-Signature"),
        (&[(header, HEX), at], "malformed X-Slack-Signature"),
        (&[(header, &good), (at.0, "now")], "malformed X-Slack-Request-Timestamp"),
        (&[(header, &good), (at.0, "")], "malformed X-Slack-Request-Timestamp"),
    ] {
        assert_eq!(why("slack", headers), expected, "{headers:?}");
    }
}

#[test]
fn standard() {
    let time = NOW.to_string();
    let good = format!("v1,{BASE64}");
    let [id, at, header] = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let all = |id_value, signature| [(id, id_value), (at, time.as_str()), (header, signature)];
    let cases = [
        (good.clone(), "no match"),
        (format!("v1a,{BASE64} {good}"), "no match"),
        (format!("v1a,{BASE64}"), "malformed"),
        (format!("{good} v1,x"), "malformed"),
        (BASE64.to_owned(), "malformed"),
        ("v1,".to_owned(), "malformed"),
        ("v1,YQ==".to_owned(), "malformed"),
        (format!("v1={BASE64}"), "malformed"),
        ([good.as_str(); 17].join(" "), "malformed"),
        (String::new(), "malformed"),
    ];
    for (signature, expected) in &cases {
        let why = why("standard", &all("msg_1", signature));
        assert!(why.starts_with(expected), "{signature}: {why}");
    }
    assert_eq!(why("standard", &[(at, &time), (header, &good)]), "missing webhook-id");
    assert_eq!(
        why("standard", &[(id, "a"), (header, &good)]),
        "missing webhook-timestamp"
    );
    assert_eq!(
        why("standard", &[(id, "a"), (at, "1.5"), (header, &good)]),
        "malformed webhook-timestamp"
    );
    for bad in ["", "a.1700000000", ".1"] {
        assert_eq!(why("standard", &all(bad, &good)), "malformed webhook-id", "{bad:?}");
    }
    for fine in ["a.b", "a.", "1700000000", "a.1b"] {
        assert_eq!(why("standard", &all(fine, &good)), "no match", "{fine:?}");
    }
    // The three headers are of one kind.
    let mixed = [
        ("svix-id", "a"),
        ("svix-timestamp", time.as_str()),
        (header, good.as_str()),
    ];
    assert_eq!(why("standard", &mixed), "missing webhook-id");
}

#[test]
fn basic() {
    let secret = "a:$2y$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui";
    let long = base64(&[b"a:".as_slice(), &[b'x'; 1025]].concat());
    let encoded = [
        base64(b"nocolon"),
        base64(b"a:\0"),
        base64(b"a\n:b"),
        base64(b"a:b\x7f"),
        long,
    ];
    for value in encoded.iter().map(String::as_str).chain(["", "!!", "YTpi\u{e9}"]) {
        let value = format!("Basic {value}");
        let result = verify("basic", secret, &[("Authorization", &value)], b"");
        assert!(matches!(result, Err(Denied::Malformed { .. })), "{value}: {result:?}");
    }
    for (value, password) in [("YTo=", ""), ("YTpiOmM=", "b:c"), ("YTpi", "b"), ("YTo", "")] {
        let value = format!("basic {value}");
        let Ok(Proof::Password(login)) = verify("basic", secret, &[("Authorization", &value)], b"") else {
            panic!("{value}");
        };
        assert_eq!(
            (login.user.as_slice(), login.password.as_slice()),
            (&b"a"[..], password.as_bytes())
        );
    }
}

#[test]
fn a_signed_time_may_be_300_s_from_the_clock() {
    for (sender, form) in SENDERS
        .into_iter()
        .filter(|(_, form)| ["hmac", "stripe", "slack", "standard"].contains(form))
    {
        let headers = signed(sender, "secret", b"body", NOW);
        let at = |now_s| verify_at(now_s, form, &file(form, "secret"), &borrowed(&headers), b"body");
        for now_s in [NOW - 300, NOW, NOW + 300] {
            let Ok(Proof::HoldsOnce(key)) = at(now_s) else {
                panic!("{sender} at {now_s}");
            };
            assert_eq!(key.until_s, NOW + 300);
        }
        assert_eq!(at(NOW + 301), Err(Denied::TooOld(301)));
        assert_eq!(at(NOW - 301), Err(Denied::TooNew(301)));
        assert_eq!(at(0), Err(Denied::TooNew(NOW)));
        assert_eq!(at(u64::MAX), Err(Denied::TooOld(u64::MAX - NOW)));
    }
}

/// A wrong signature says so whatever its time is: the clock is not the first thing to look at.
#[test]
fn the_signature_is_judged_before_its_time() {
    let headers = signed("hmac", "other", b"body", 5);
    assert_eq!(
        verify("hmac", "secret", &borrowed(&headers), b"body"),
        Err(Denied::NoMatch)
    );
}

#[test]
fn words_say_what_to_look_at_and_never_the_secret() {
    for denied in [
        Denied::Missing("X-A"),
        Denied::Repeated("X-A"),
        Denied::Malformed {
            header: "X-A",
            expected: "`v1`",
        },
        Denied::WrongToken("X-A"),
        Denied::NoMatch,
        Denied::NoMatchWhsec,
        Denied::WrongPassword,
        Denied::TooOld(301),
        Denied::TooNew(301),
    ] {
        let words = denied.to_string();
        assert!(words.contains(": "), "{words}");
        assert!(!words.ends_with('.') && words.is_ascii(), "{words}");
    }
    let verifier = verifier("token:name", b"s3cret-text").unwrap();
    assert!(!format!("{verifier:?}").contains("s3cret"));
}
