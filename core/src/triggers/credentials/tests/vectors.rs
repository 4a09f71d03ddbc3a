//! The examples in the senders' own documentation.

use super::*;

#[track_caller]
fn holds(now_s: u64, scheme: &str, secret: &str, headers: &[(&str, &str)], body: &str) {
    let proof = verify_at(now_s, scheme, secret, headers, body.as_bytes());
    assert!(matches!(proof, Ok(Proof::Holds | Proof::HoldsOnce(_))), "{proof:?}");
    let other = verify_at(now_s, scheme, secret, headers, &format!("{body} ").into_bytes());
    assert!(
        matches!(other, Err(Denied::NoMatch | Denied::NoMatchWhsec)),
        "{other:?}"
    );
}

/// GitHub, "Validating webhook deliveries", section "Testing the webhook payload validation".
#[test]
fn github() {
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let secret = "It's a Secret to Everybody";
    holds(
        0,
        "github",
        secret,
        &[("X-Hub-Signature-256", signature)],
        "Hello, World!",
    );
    // GitHub sends its older signature beside it, which does not count.
    let older = ("x-hub-signature", "sha1=0000000000000000000000000000000000000000");
    holds(
        0,
        "github",
        secret,
        &[older, ("x-hub-signature-256", signature)],
        "Hello, World!",
    );
}

/// Atlassian, "Manage webhooks" of Bitbucket Cloud, section "Testing the webhook payload validation".
#[test]
fn bitbucket() {
    let signature = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9";
    let headers = [("X-Hub-Signature", signature)];
    holds(0, "github", "It's a Secret to Everybody", &headers, "Hello World!");
}

/// Slack, "Verifying requests from Slack", section "A recipe for security".
#[test]
fn slack() {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let headers = [
        ("X-Slack-Request-Timestamp", "1531420618"),
        (
            "X-Slack-Signature",
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        ),
    ];
    let secret = "8f742231b10e8888abcd99yyyzzz85a5";
    holds(1_531_420_618, "slack", secret, &headers, body);
    let late = verify_at(1_531_420_919, "slack", secret, &headers, body.as_bytes());
    assert_eq!(late, Err(Denied::TooOld(301)));
}

/// The example of Standard Webhooks' reference libraries, which is Svix's too.
#[test]
fn standard() {
    for prefix in ["webhook", "svix", "Webhook"] {
        let names = ["id", "timestamp", "signature"].map(|name| format!("{prefix}-{name}"));
        let headers = [
            (names[0].as_str(), "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            (&names[1], "1614265330"),
            (&names[2], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ];
        for secret in [
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ] {
            holds(1_614_265_330, "standard", secret, &headers, "{\"test\": 2432232314}");
        }
    }
}

/// Stripe, "Receive Stripe events", section "Verify manually", shows this header without its secret and body. So the
/// form is read, and a signature of the same form is made by openssl:
/// `printf '1492774577.{}' | openssl dgst -sha256 -hmac whsec_test_secret`.
#[test]
fn stripe() {
    let header = "t=1492774577,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39";
    let headers = [("Stripe-Signature", header)];
    let read = verify_at(1_492_774_577, "stripe", "whsec_test_secret", &headers, b"{}");
    assert_eq!(read, Err(Denied::NoMatchWhsec));
    let header = "t=1492774577,v1=53140ab8fa70c511cc40d5c9198af7dde7bbaee877038c056d8250c3bd3b2e11,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39";
    holds(
        1_492_774_577,
        "stripe",
        "whsec_test_secret",
        &[("Stripe-Signature", header)],
        "{}",
    );
}

/// RFC 4231, test cases 1, 2, 6 and 7, through a form that signs only the body, as Gitea's pages describe it: the
/// hexadecimal digits of HMAC-SHA256 over the body.
#[test]
fn rfc_4231() {
    let long_key = [0xaa; 131];
    let cases: [(&[u8], &[u8], &str); 4] = [
        (
            &[0x0b; 20],
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            &long_key,
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            &long_key,
            b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.",
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        ),
    ];
    for (key, body, signature) in cases {
        let verifier = verifier("gitea:name", key).unwrap();
        for header in ["X-Gitea-Signature", "X-Forgejo-Signature"] {
            let headers: &[(&str, &[u8])] = &[(header, signature.as_bytes())];
            assert_eq!(verifier.verify(&headers, body, 0), Ok(Proof::Holds));
        }
    }
}

/// GitLab, "Webhooks": the secret token is sent as it is.
#[test]
fn gitlab_and_bearer() {
    assert_eq!(
        verify("gitlab", "s3cret", &[("X-Gitlab-Token", "s3cret")], b""),
        Ok(Proof::Holds)
    );
    for value in ["Bearer s3cret", "bearer s3cret", "BEARER   s3cret"] {
        assert_eq!(
            verify("token", "s3cret", &[("Authorization", value)], b""),
            Ok(Proof::Holds)
        );
    }
}

/// RFC 7617, section 2.
#[test]
fn basic() {
    let secret = "Aladdin:$2y$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui";
    let headers = [("Authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")];
    let Ok(Proof::Password(login)) = verify("basic", secret, &headers, b"") else {
        panic!("the header has the form");
    };
    assert_eq!(
        (login.user, login.password),
        (b"Aladdin".to_vec(), b"open sesame".to_vec())
    );
}
