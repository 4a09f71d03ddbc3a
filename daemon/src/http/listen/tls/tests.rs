use super::*;
use std::process::Command;

/// Returns the time since 1970.
pub(in crate::http) fn now() -> Duration {
    std::time::UNIX_EPOCH.elapsed().unwrap()
}

/// Returns a new pair for `localhost`, made by openssl(1), valid for ten years.
pub(in crate::http) fn pair() -> TlsPair {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let mut openssl = Command::new("openssl");
    openssl.args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost".split(' '));
    openssl.args([
        "-addext",
        "subjectAltName=DNS:localhost",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]);
    openssl.args(["-days", "3650"]);
    openssl
        .arg("-keyout")
        .arg(file("key"))
        .arg("-out")
        .arg(file("certificate"));
    let output = openssl.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    TlsPair {
        certificate: std::fs::read(file("certificate")).unwrap(),
        key: Zeroizing::new(std::fs::read(file("key")).unwrap()),
    }
}

#[test]
fn a_pair_is_checked_and_its_dates_are_a_warning() {
    let (one, other) = (pair(), pair());
    assert_eq!(Tls::new(&one, now()).unwrap().warning(), None);
    let year = Duration::from_secs(366 * 24 * 3600);
    assert_eq!(
        Tls::new(&one, now() + 10 * year).unwrap().warning(),
        Some("the certificate has expired")
    );
    assert_eq!(
        Tls::new(&one, now() - 2 * year).unwrap().warning(),
        Some("the certificate is not valid yet")
    );
    let why = |certificate: &[u8], key: &[u8]| {
        let (certificate, key) = (certificate.to_vec(), Zeroizing::new(key.to_vec()));
        Tls::new(&TlsPair { certificate, key }, now()).unwrap_err()
    };
    for (why, needle) in [
        (
            why(&one.certificate, &other.key),
            "the key does not belong to the certificate",
        ),
        (why(b"", &one.key), "no `-----BEGIN CERTIFICATE-----`"),
        (why(&one.key, &one.key), "no `-----BEGIN CERTIFICATE-----`"),
        (why(&one.certificate, b""), "no valid `-----BEGIN PRIVATE KEY-----`"),
        (
            why(&one.certificate, &one.certificate),
            "no valid `-----BEGIN PRIVATE KEY-----`",
        ),
        (
            why(&one.certificate, b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n"),
            "passphrase",
        ),
        (
            why(
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                &one.key,
            ),
            "not valid",
        ),
        (
            why(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", &one.key),
            "not valid PEM",
        ),
    ] {
        assert!(why.contains(needle), "{needle}: {why}");
    }
}
