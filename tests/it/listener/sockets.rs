//! Addresses, TLS, proxies, restarts, what is told of requests.

use super::*;
use std::net::{TcpListener, TcpStream};
use std::process::Command;

/// Calls a URL by curl; returns its status, version of HTTP and body.
fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["-sS", "-m", "20", "-w", "\n%{http_code} %{http_version}"])
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// The count of requests comes first.
#[test]
fn addresses_proxies_and_tls() {
    let site = Site::start("", &[]);
    each_request_is_told_once(&site);
    only_a_trusted_proxy_names_the_caller(&site);
    addresses_come_and_go_with_a_reload(&site);
    tls_serves_the_last_good_certificate(&site);
    site.fnd.finish();
}

fn addresses_come_and_go_with_a_reload(site: &Site) {
    site.script(
        "where",
        "echo \"$REMOTE_ADDR $SERVER_PORT $HTTPS\"\n",
        &route("/where", "\"none\"", ""),
    );
    let (first, second) = (free_port(), free_port());
    let url = |port: u16| format!("http://127.0.0.1:{port}/where");
    configure(
        &site.fnd,
        &format!("listen = [\"127.0.0.1:{first}\", \"127.0.0.1:{second}\"]"),
    );
    for port in [first, second] {
        assert_eq!(curl(&[&url(port)]), format!("127.0.0.1 {port} \n\n200 1.1"));
    }
    configure(&site.fnd, &format!("listen = \"127.0.0.1:{second}\""));
    assert!(TcpStream::connect(("127.0.0.1", first)).is_err());
    assert!(curl(&[&url(second)]).ends_with("200 1.1"));
    // A port that another program has is a problem; the others serve.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    configure(
        &site.fnd,
        &format!("listen = [\"127.0.0.1:{second}\", \"127.0.0.1:{port}\"]"),
    );
    assert!(curl(&[&url(second)]).ends_with("200 1.1"));
    let status = site.fnd.client().get("/v1/status");
    assert!(
        status
            .text()
            .contains(&format!("another program listens on port {port}")),
        "{}",
        status.text()
    );
}

fn tls_serves_the_last_good_certificate(site: &Site) {
    site.script(
        "secure",
        "echo \"$HTTPS $SERVER_PROTOCOL\"\n",
        &route("/secure", "\"none\"", ""),
    );
    let (certificate, key) = (site.fnd.path("cert.pem"), site.fnd.path("key.pem"));
    let make = |name: &str| {
        let _ = fs::remove_file(&key); // it is read-only
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "30",
            ])
            .args([
                "-subj",
                &format!("/CN={name}"),
                "-addext",
                &format!("subjectAltName=DNS:{name}"),
            ])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
        fs::copy(&certificate, site.fnd.path("trusted.pem")).unwrap();
    };
    make("one.example");
    let port = free_port();
    let tls = format!(
        "listen = \"127.0.0.1:{port}\"\ntls = {{ certificate = \"{}\", key = \"{}\" }}",
        certificate.display(),
        key.display()
    );
    configure(&site.fnd, &tls);
    let trusted = site.fnd.path("trusted.pem").display().to_string();
    let call = |name: &str, more: &[&str]| {
        let resolve = format!("{name}:{port}:127.0.0.1");
        let url = format!("https://{name}:{port}/secure");
        curl(&[&["--cacert", &trusted, "--resolve", &resolve, &url], more].concat())
    };
    assert_eq!(call("one.example", &[]), "on HTTP/2.0\n\n200 2");
    assert_eq!(call("one.example", &["--http1.1"]), "on HTTP/1.1\n\n200 1.1");
    assert!(
        !curl(&[&format!("http://127.0.0.1:{port}/secure")]).contains("200"),
        "nothing without TLS"
    );
    // A certificate that does not belong to its key changes nothing, loudly.
    let good = fs::read(&certificate).unwrap();
    fs::write(
        &certificate,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let _ = site.fnd.ctl(&["reload"]);
    assert!(call("one.example", &[]).ends_with("200 2"));
    let status = site.fnd.client().get("/v1/status");
    assert!(status.text().contains("[http] tls"), "{}", status.text());
    fs::write(&certificate, good).unwrap();
    make("two.example");
    let _ = site.fnd.ctl(&["reload"]);
    assert!(call("two.example", &[]).ends_with("200 2"));
    // Without a reload.
    make("three.example");
    eventually("the new certificate", || call("three.example", &[]).ends_with("200 2"));
    // Taken away and given back.
    configure(&site.fnd, &format!("listen = \"127.0.0.1:{port}\""));
    assert!(curl(&[&format!("http://127.0.0.1:{port}/secure")]).ends_with("200 1.1"));
    configure(&site.fnd, &tls);
    assert!(call("three.example", &[]).ends_with("200 2"));
}

fn only_a_trusted_proxy_names_the_caller(site: &Site) {
    site.script("who", "printf '%s' \"$REMOTE_ADDR\"\n", &route("/who", "\"none\"", ""));
    let port = free_port();
    let listen = format!("listen = \"127.0.0.1:{port}\"");
    let url = format!("http://127.0.0.1:{port}/who");
    let from = ["-H", "x-forwarded-for: 1.2.3.4, 198.51.100.1", &url];
    configure(&site.fnd, &listen);
    assert_eq!(curl(&from), "127.0.0.1\n200 1.1");
    configure(&site.fnd, &format!("{listen}\ntrusted_proxies = [\"127.0.0.0/8\"]"));
    assert_eq!(curl(&from), "198.51.100.1\n200 1.1");
}

fn each_request_is_told_once(site: &Site) {
    site.script("echo", ECHO, &route("/echo/{x}", "\"none\"", ""));
    assert_eq!(site.call("POST", "/echo/1", &[], "x").status, 200);
    assert_eq!(site.call("POST", "/nowhere", &[], "x").status, 404);
    let log = || site.fnd.log();
    eventually("the line of a request", || log().contains("POST /nowhere 404"));
    assert!(
        log().contains("POST /echo/1 200") && log().contains("from unix"),
        "{}",
        log()
    );
    let metrics = site.fnd.client().get("/metrics");
    for line in [
        "fnd_http_requests_total{route=\"/echo/{x}\",status=\"2xx\"} 1",
        "fnd_http_requests_total{route=\"\",status=\"4xx\"} 1",
        "fnd_http_request_duration_seconds_count{route=\"/echo/{x}\"} 1",
        "function_calls_total{function=\"echo\",method=\"POST\"} 1",
    ] {
        assert!(metrics.text().contains(line), "{line} in {}", metrics.text());
    }
    let events = site.fnd.ctl(&["events"]);
    assert!(events.out().contains("POST /echo/1 200 from unix"), "{}", events.out());
}
