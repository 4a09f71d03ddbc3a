//! The commands that sign a request in a terminal: real bash and openssl make the header, and fnd's verification admits
//! it.

#![expect(clippy::unwrap_used, reason = "a test's unwrap is an expectation")]

use fnd_core::triggers::credentials::{Denied, Proof, Verifier};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// A form, the line of its secret, and the command for it; the secret is in `$secret`.
struct Recipe {
    scheme: &'static str,
    secret: &'static str,
    command: &'static str,
}

const RECIPES: &[Recipe] = &[
    Recipe {
        scheme: "token",
        secret: "s3cret & more",
        command: r#"curl -H "Authorization: Bearer $secret" --data-binary "$body" "$url""#,
    },
    Recipe {
        scheme: "gitlab",
        secret: "s3cret & more",
        command: r#"curl -H "X-Gitlab-Token: $secret" --data-binary "$body" "$url""#,
    },
    Recipe {
        scheme: "hmac",
        secret: "s3cret & more",
        command: r#"t=$(date +%s)
sig=$(printf '%s.%s' "$t" "$body" | openssl dgst -sha256 -hmac "$secret" -r | cut -d ' ' -f 1)
curl -H "Fnd-Signature: t=$t,v1=$sig" --data-binary "$body" "$url""#,
    },
    Recipe {
        scheme: "stripe",
        secret: "whsec_9f2b",
        command: r#"t=$(date +%s)
sig=$(printf '%s.%s' "$t" "$body" | openssl dgst -sha256 -hmac "$secret" -r | cut -d ' ' -f 1)
curl -H "Stripe-Signature: t=$t,v1=$sig" --data-binary "$body" "$url""#,
    },
    Recipe {
        scheme: "github",
        secret: "It's a Secret to Everybody",
        command: r#"sig=$(printf '%s' "$body" | openssl dgst -sha256 -hmac "$secret" -r | cut -d ' ' -f 1)
curl -H "X-Hub-Signature-256: sha256=$sig" --data-binary "$body" "$url""#,
    },
    Recipe {
        scheme: "github",
        secret: "It's a Secret to Everybody",
        command: r#"sig=$(printf '%s' "$body" | openssl dgst -sha256 -hmac "$secret" -r | cut -d ' ' -f 1)
curl -H "X-Hub-Signature: sha256=$sig" --data-binary "$body" "$url""#,
    },
    Recipe {
        scheme: "gitea",
        secret: "s3cret",
        command: r#"sig=$(printf '%s' "$body" | openssl dgst -sha256 -hmac "$secret" -r | cut -d ' ' -f 1)
curl -H "X-Gitea-Signature: $sig" --data-binary "$body" "$url""#,
    },
    Recipe {
        scheme: "slack",
        secret: "8f742231b10e8888abcd99yyyzzz85a5",
        command: r#"t=$(date +%s)
sig=$(printf 'v0:%s:%s' "$t" "$body" | openssl dgst -sha256 -hmac "$secret" -r | cut -d ' ' -f 1)
curl -H "X-Slack-Request-Timestamp: $t" -H "X-Slack-Signature: v0=$sig" --data-binary "$body" "$url""#,
    },
    Recipe {
        scheme: "standard",
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        command: r#"id=msg_$RANDOM t=$(date +%s)
key=$(printf '%s' "${secret#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
sig=$(printf '%s.%s.%s' "$id" "$t" "$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
curl -H "webhook-id: $id" -H "webhook-timestamp: $t" -H "webhook-signature: v1,$sig" --data-binary "$body" "$url""#,
    },
];

const BODY: &str = "{\"text\": \"50 % off, \u{e4} 'quoted' \\n\"}";

/// Runs a command with a `curl` that prints its arguments, and verifies the request that it would send.
fn verify(recipe: &Recipe, file: &str) -> Result<Proof, Denied> {
    let script = format!("set -eu\ncurl() {{ printf '%s\\0' \"$@\"; }}\n{}\n", recipe.command);
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("secret", recipe.secret)
        .env("body", BODY)
        .env("url", "http://localhost:8080/hook")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut words = printed.split_terminator('\0');
    let (mut headers, mut body): (Vec<(&str, &[u8])>, _) = (Vec::new(), "");
    while let Some(word) = words.next() {
        match word {
            "-H" => {
                let (name, value) = words.next().unwrap().split_once(": ").unwrap();
                headers.push((name, value.as_bytes()));
            }
            "--data-binary" => body = words.next().unwrap(),
            url => assert_eq!(url, "http://localhost:8080/hook"),
        }
    }
    assert_eq!(body, BODY);
    let credential = serde_json::from_value(format!("{}:name", recipe.scheme).into()).unwrap();
    let verifier = Verifier::new(&credential, file.as_bytes()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the command asks the clock too")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    verifier.verify(&headers.as_slice(), body.as_bytes(), now.as_secs())
}

#[test]
fn what_openssl_signs_is_admitted() {
    for recipe in RECIPES {
        let proof = verify(recipe, &format!("{}\n", recipe.secret));
        let holds = matches!(proof, Ok(Proof::Holds | Proof::HoldsOnce(_)));
        assert!(holds, "{}: {proof:?}", recipe.command);
        let other = if recipe.scheme == "standard" {
            "whsec_AAAA"
        } else {
            "other"
        };
        let denied = verify(recipe, other);
        let denied = matches!(
            denied,
            Err(Denied::WrongToken(_) | Denied::NoMatch | Denied::NoMatchWhsec)
        );
        assert!(denied, "{}", recipe.command);
    }
}
