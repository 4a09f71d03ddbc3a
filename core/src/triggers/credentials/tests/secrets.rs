//! Lines of secrets that are refused, and hashes of passwords.

use super::super::{Argon2, BadUser, Login, PasswordHash};
use super::*;

const BCRYPT: &str = "$2y$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui";
const ARGON2: &str = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$RdescudvJCsgt3ub+b6dWRWJTmaaJObG";

#[track_caller]
fn bad(scheme: &str, content: &str) -> BadSecret {
    let error = verifier(&format!("{scheme}:name"), content.as_bytes()).unwrap_err();
    let words = error.to_string();
    assert!(words.contains("secret") && words.is_ascii(), "{words}");
    error
}

fn login(content: &str, user: &str) -> Login {
    let header = format!("Basic {}", base64(format!("{user}:x").as_bytes()));
    match verify("basic", content, &[("Authorization", &header)], b"") {
        Ok(Proof::Password(login)) => login,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_secret_needs_lines_that_its_form_can_use() {
    for scheme in [
        "token", "basic", "hmac", "github", "gitlab", "gitea", "slack", "stripe", "standard",
    ] {
        assert_eq!(bad(scheme, ""), BadSecret::Empty);
        assert_eq!(bad(scheme, "\n\r\n\n"), BadSecret::Empty);
    }
    assert_eq!(bad("token", &"line\n".repeat(9)), BadSecret::TooMany(9));
    assert_eq!(bad("standard", "\nwhsec_%%\n"), BadSecret::NotBase64(2));
    assert_eq!(bad("standard", "whsec_"), BadSecret::NotBase64(1));
    assert!(verifier("token:name", b"#not a comment").is_ok());
}

#[test]
fn hashes_that_are_fast_to_guess_are_refused() {
    let kind = |hash: &str| match bad("basic", &format!("# users\nada:{hash}\n")) {
        BadSecret::User(2, BadUser::Kind(kind)) => kind,
        other => panic!("{hash}: {other:?}"),
    };
    assert!(kind("$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/").contains("MD5"));
    assert!(kind("$1$abc$def").contains("MD5"));
    assert!(kind("{SHA}2PRZAyDhNDqRW2OUFwZQqPNdaSY=").contains("SHA-1"));
    assert!(kind("$5$rounds=535000$abc$def").contains("SHA-2"));
    assert!(kind("$6$abc$def").contains("SHA-2"));
    assert!(kind("secret").contains("not hashed"));
    assert!(kind("rl6Wk0zYJZ3Rc").contains("another kind"));
    assert!(kind("$2x$05$abc").contains("mistake"));
    assert!(kind("$7$abc").contains("another kind"));
    for line in ["ada", ":x", "ada:", BCRYPT] {
        assert_eq!(bad("basic", line), BadSecret::User(1, BadUser::NoColon), "{line}");
    }
    assert!(matches!(
        verifier("basic:name", b"ada:\xff\xff"),
        Err(BadSecret::User(1, BadUser::Kind(_)))
    ));
    assert_eq!(
        bad("basic", &format!("a:{BCRYPT}\n").repeat(3)),
        BadSecret::User(3, BadUser::Repeated)
    );
    assert_eq!(bad("basic", "# only a comment"), BadSecret::Empty);
    let words = bad("basic", "ada:secret").to_string();
    assert!(
        words.contains("line 1") && words.contains("htpasswd -nB") && !words.contains("ada"),
        "{words}"
    );
}

#[test]
fn hashes_that_cost_too_much_are_refused() {
    for hash in [
        BCRYPT.replace("$05$", "$15$"),
        BCRYPT.replace("$05$", "$31$"),
        ARGON2.replace("m=65536", "m=262145"),
        ARGON2.replace("m=65536", "m=4294967295"),
        ARGON2.replace("t=2", "t=11"),
        ARGON2.replace("p=1", "p=17"),
    ] {
        let error = bad("basic", &format!("a:{hash}"));
        assert!(
            matches!(error, BadSecret::User(1, BadUser::Cost(_))),
            "{hash}: {error:?}"
        );
    }
    for hash in [
        BCRYPT.replace("$05$", "$14$"),
        ARGON2.replace("m=65536,t=2,p=1", "m=262144,t=10,p=16"),
    ] {
        assert!(verifier("basic:name", format!("a:{hash}").as_bytes()).is_ok(), "{hash}");
    }
}

#[test]
fn incomplete_hashes_are_refused() {
    for hash in [
        BCRYPT.replace("$05$", "$03$"),
        BCRYPT.replace("$05$", "$5$"),
        BCRYPT.replace("$05$", "$+5$"),
        BCRYPT[..59].to_owned(),
        format!("{BCRYPT}x"),
        format!("{BCRYPT}$"),
        BCRYPT.replace("abc", "a!c"),
        BCRYPT.replace("abcd", "\u{e9}\u{e9}"),
        "$2y$".to_owned(),
        "$2y".to_owned(),
        ARGON2.replace("v=19", "v=18"),
        ARGON2.replace("m=65536,", ""),
        ARGON2.replace("m=65536", "m=7"),
        ARGON2.replace("p=1", "p=0"),
        ARGON2.replace("t=2", "t=0"),
        ARGON2.replace("p=1", "p=1,keyid=a"),
        ARGON2.replace("t=2", "t=-2"),
        ARGON2.replace("c29tZXNhbHQ", "c29t"),
        ARGON2.replace("c29tZXNhbHQ", "c29tZXNhbHQ="),
        ARGON2[..60].to_owned(),
        format!("{ARGON2}$AAAA"),
        "$argon2id$v=19".to_owned(),
    ] {
        let error = bad("basic", &format!("a:{hash}"));
        assert!(
            matches!(error, BadSecret::User(1, BadUser::Malformed(_))),
            "{hash}: {error:?}"
        );
    }
}

#[test]
fn hashes_are_read() {
    let content = format!("ada:{BCRYPT}\nbob:{ARGON2} \nada:{}\n", BCRYPT.replace("2y", "2b"));
    let users = login(&content, "ada").users;
    assert_eq!(users.secret(), "name");
    let (ada, known) = users.lines(b"ada");
    assert!(known && ada.len() == 2 && ada[0].digest != ada[1].digest);
    assert!(ada[0].hash == ada[1].hash && matches!(ada[0].hash, PasswordHash::Bcrypt { cost: 5, .. }));
    let (bob, known) = users.lines(b"bob");
    let PasswordHash::Argon2(Argon2 {
        variant,
        is_13,
        memory_kib,
        passes,
        lanes,
        salt,
        hash,
    }) = &bob[0].hash
    else {
        panic!("the hash of bob is one of Argon2");
    };
    assert!(known && *is_13 && *variant == "argon2id");
    assert_eq!(
        (*memory_kib, *passes, *lanes, salt.as_slice(), hash.len()),
        (65_536, 2, 1, &b"somesalt"[..], 24)
    );
    // An unknown user costs as much as another one.
    let (unknown, known) = users.lines(b"eve");
    assert!(!known && unknown.len() == 2);
    assert!(!format!("{:?} {:?}", users, login(&content, "ada")).contains("ada"));
    let old = ARGON2.replace("v=19$", "").replace("argon2id", "argon2i");
    let users = login(&format!("a:{old}"), "a").users;
    assert!(matches!(&users.lines(b"a").0[0].hash, PasswordHash::Argon2(argon2) if !argon2.is_13));
}
