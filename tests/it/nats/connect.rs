//! How a node connects: the rights that it needs, each form of its credentials, and TLS.

use super::{CONSUMER, ENTRY, KEEP, STREAM, SUBJECTS, lines, serve, setup, setup_at, view, wait_runs};
use crate::secrets::secret;
use async_nats::ConnectOptions;
use fnd_core::api::NatsState;
use fnd_tests::nats::{NatsClient, NatsServer};
use fnd_tests::programs::repository;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The seed of a user that only this test has, and its public key.
const SEED: &str = "SUANQDPB2RUOE4ETUA26CNX7FUKE5ZZKFCQIIW63OX225F2CO7UEXTM7ZY";
const PUBLIC: &str = "UAMMBNV2EYR65NYZZ7IAK5SIR5ODNTTERJOBOF4KJLMWI45YOXOSWULM";

/// Starts a node with these credentials.
fn node(server: &NatsServer, credentials: &str) -> Fnd {
    let mut setup = setup(server, "vm1");
    setup.config += "credentials = \"nats\"\n";
    let mut fnd = Fnd::prepare(&setup);
    let _ = secret(&fnd, &["set", "nats"], credentials).expect_code(0);
    fnd.launch();
    fnd
}

/// Has a node make a stream, publish a message to it, and run the message.
fn works(fnd: &Fnd) {
    serve(fnd, "take", &format!("{ENTRY}create = true\n"), KEEP);
    wait_until("messages to be asked for", PATIENCE, || {
        (view(fnd).triggers.first()?.state == NatsState::Consuming).then_some(())
    });
    let _ = fnd.ctl(&["emit", "--nats", "orders.new", "-d", "1"]).expect_code(0);
    wait_runs(fnd, "take", 1);
    assert_eq!(lines(fnd, "take", "journal"), ["1"]);
}

/// Returns the subjects to which fnd must be able to subscribe, and to publish, as the page says.
fn rights() -> [Vec<String>; 2] {
    let page = fs::read_to_string(repository().join("docs/several-machines.md")).expect("the page is there");
    ["--allow-sub '", "--allow-pub '"].map(|option| {
        let lists = page.split(option).skip(1).filter_map(|rest| rest.split('\'').next());
        lists.flat_map(|list| list.split(',')).map(str::to_owned).collect()
    })
}

/// Starts a server with a work queue and a bucket, where the user `fnd` has only these rights.
fn limited([subscribe, publish]: [Vec<String>; 2]) -> (NatsServer, NatsClient) {
    let server = NatsServer::start_with(&format!(
        "authorization {{ users: [\n{{ user: ada, password: right }}\n{{ user: fnd, password: limited, \
         permissions: {{ publish: {publish:?}, subscribe: {subscribe:?} }} }}\n] }}\n"
    ));
    let ada = ConnectOptions::new().user_and_password("ada".to_owned(), "right".to_owned());
    let client = NatsClient::connect_with(&server.url(), ada);
    client.make_stream(STREAM, &[SUBJECTS], "workqueue");
    let bucket = json!({
        "name": "KV_fnd-claims", "subjects": ["$KV.fnd-claims.>"], "retention": "limits", "storage": "file",
        "num_replicas": 1, "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_msgs_per_subject": 1, "max_age": 0,
        "discard": "new", "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": false,
    });
    let made = client.api("STREAM.CREATE.KV_fnd-claims", &bucket);
    assert!(made["error"].is_null(), "{made}");
    (server, client)
}

#[test]
fn the_rights_of_the_page_are_enough() {
    require!(nats, root);
    let [subscribe, publish] = rights();
    assert!(subscribe.len() == 2 && publish.len() > 5, "{subscribe:?} {publish:?}");
    let (server, client) = limited([subscribe, publish]);
    let fnd = node(&server, "fnd:limited");
    // The run needs signs of life.
    serve(
        &fnd,
        "take",
        &format!("{ENTRY}ack_wait = \"2s\"\n"),
        &format!("{KEEP}sleep 3\n"),
    );
    client.publish("orders.new", &[], "1");
    wait_runs(&fnd, "take", 1);
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!(lines(&fnd, "take", "journal"), ["1"]);
    // The server complains about each right that is missing.
    assert_eq!(view(&fnd).error, None);
    let problems = fnd.status().problems;
    assert!(
        !problems.iter().any(|problem| problem.contains("explain nats-")),
        "{problems:?}"
    );
    fnd.finish();
}

#[test]
fn a_right_that_is_missing_is_named_and_no_message_is_lost() {
    require!(nats, root);
    let [subscribe, mut publish] = rights();
    publish.retain(|subject| !subject.starts_with("$JS.API.CONSUMER.INFO."));
    let (server, client) = limited([subscribe, publish]);
    client.publish("orders.new", &[], "1");
    let fnd = node(&server, "fnd:limited");
    serve(&fnd, "take", ENTRY, KEEP);
    let missing = "$JS.API.CONSUMER.INFO.ORDERS.fnd-take";
    let problem = fnd.wait_problem("nats-stream");
    assert!(problem.contains(missing), "{problem}");
    let doctor = fnd.ctl(&["doctor", "-o", "json"]).out();
    assert!(doctor.contains(missing), "{doctor}");
    assert_eq!(client.messages(STREAM), 1);
    fnd.finish();
}

/// A token, an nkey, and a file of credentials for an account of an operator.
#[test]
fn each_form_of_credentials_is_taken() {
    require!(nats, root);
    let nkey = format!("authorization {{ users: [ {{ nkey: {PUBLIC} }} ] }}\n");
    for (config, credentials) in [
        ("authorization { token: s3cret }\n", "s3cret\n"),
        (nkey.as_str(), SEED),
        (include_str!("operator.conf"), include_str!("fnd.creds")),
    ] {
        let server = NatsServer::start_with(config);
        let fnd = node(&server, credentials);
        works(&fnd);
        fnd.finish();
    }
}

/// Runs openssl in a directory.
#[track_caller]
fn openssl(directory: &Path, arguments: &str) {
    let mut openssl = Command::new("openssl");
    let made = openssl
        .current_dir(directory)
        .args(arguments.split(' '))
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{arguments}: {made:?}");
}

/// Makes two authorities, and a certificate of the first one for the server and for the node.
#[track_caller]
fn certificates(directory: &Path) {
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for name in ["ca", "other"] {
        let file = format!("-keyout {name}.key -out {name}.pem");
        openssl(directory, &format!("req -x509 {KEY} -days 2 -subj /CN={name} {file}"));
    }
    openssl(
        directory,
        &format!("req -new {KEY} -subj /CN=vm1 -keyout key.pem -out request.pem"),
    );
    fs::write(directory.join("names"), "subjectAltName = IP:127.0.0.1\n").expect("the names are written");
    let signed =
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -set_serial 7 -days 2 -extfile names -out cert.pem";
    openssl(directory, signed);
}

/// The server asks for the certificate of the node.
#[test]
fn a_node_and_its_server_know_each_other_by_their_certificates() {
    require!(nats);
    let directory = tempfile::tempdir().unwrap();
    certificates(directory.path());
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (ca, certificate, key) = (at("ca.pem"), at("cert.pem"), at("key.pem"));
    let tls = format!("cert_file: {certificate:?}, key_file: {key:?}, ca_file: {ca:?}, verify: true");
    // Such a server waits a moment for a client that begins with TLS.
    let first = "handshake_first: auto";
    for (more, tls_first) in [("", false), (first, true)] {
        let server = NatsServer::start_with(&format!("tls {{ {tls}\n{more} }}\n"));
        let url = server.url().replace("nats://", "tls://");
        let with = |ca: &str| {
            let mut setup = setup_at(&url, "vm1");
            setup.config +=
                &format!("ca = {ca:?}\ncertificate = {certificate:?}\nkey = {key:?}\ntls_first = {tls_first}\n");
            Fnd::start_with(&setup)
        };
        let fnd = with(&ca);
        works(&fnd);
        fnd.finish();
        let stranger = with(&at("other.pem"));
        let problem = stranger.wait_problem("nats-down");
        assert!(problem.contains("certificate"), "{problem}");
        stranger.finish();
    }
}
