//! The cost of a connection: kept or new for each request, plain or with TLS, with a resumed session or a whole handshake.

use super::raw::{connect, echo, exchange};
use super::{address, prepare};
use crate::handlers::WARM;
use crate::load::{self, Load, in_turns};
use crate::table::{Table, Times};
use fnd_tests::Fnd;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;

type Secured = StreamOwned<ClientConnection, TcpStream>;

/// A caller of one kind.
enum Way {
    Kept(TcpStream),
    New(SocketAddr),
    KeptTls(Box<Secured>),
    /// The configuration remembers sessions, or does not.
    NewTls(SocketAddr, Arc<ClientConfig>, HandshakeKind),
}

impl Way {
    fn call(&mut self) {
        match self {
            Self::Kept(stream) => exchange(stream),
            Self::New(address) => exchange(&mut connect(*address)),
            Self::KeptTls(stream) => exchange(stream),
            Self::NewTls(address, client, expected) => {
                let mut stream = secured(*address, client);
                exchange(&mut stream);
                let kind = stream.conn.handshake_kind();
                assert_eq!(kind, Some(*expected), "another handshake");
            }
        }
    }
}

/// What is measured: its name, and whether each call makes a connection.
const WAYS: [(&str, bool); 7] = [
    ("raw echo: TCP", false),
    ("raw echo: TCP, new connection", true),
    ("fnd: listener, TCP", false),
    ("fnd: listener, TCP, new connection", true),
    ("fnd: listener, TLS", false),
    ("fnd: listener, TLS, new connection, resumed", true),
    ("fnd: listener, TLS, new connection", true),
];

pub(super) fn measure(rounds: usize, table: &mut Table) {
    let (mut plain, plain_tcp) = prepare(&crate::as_shipped(), "");
    plain.launch();
    let pair = |fnd: &Fnd, name: &str| fnd.path(name).display().to_string();
    let tls = format!(
        "tls = {{ certificate = \"{}\", key = \"{}\" }}",
        pair(&plain, "cert.pem"),
        pair(&plain, "key.pem")
    );
    make_certificate(&plain);
    let (mut with_tls, tls_tcp) = prepare(&crate::as_shipped(), &tls);
    with_tls.launch();
    let (echo, plain_tcp, tls_tcp) = (echo(), address(&plain_tcp), address(&tls_tcp));
    let whole = client(&plain, Resumption::disabled());
    let open = |n: usize| match n {
        0 => Way::Kept(connect(echo)),
        1 => Way::New(echo),
        2 => Way::Kept(connect(plain_tcp)),
        3 => Way::New(plain_tcp),
        4 => Way::KeptTls(Box::new(secured(tls_tcp, &whole))),
        5 => {
            let client = client(&plain, Resumption::default());
            // The first session.
            exchange(&mut secured(tls_tcp, &client));
            Way::NewTls(tls_tcp, client, HandshakeKind::Resumed)
        }
        _ => Way::NewTls(tls_tcp, Arc::clone(&whole), HandshakeKind::Full),
    };
    let mut ways: Vec<Way> = (0..WAYS.len()).map(open).collect();
    let mut actions: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for way in &mut ways {
        actions.push(Box::new(|| way.call()));
    }
    let times = in_turns(rounds * WARM / 2, &mut actions);
    drop(actions);
    let loads: Vec<Load> = (0..WAYS.len())
        .map(|n| load::run(rounds * WARM / 4, || open(n), Way::call))
        .collect();
    rows(&times, &loads, table);
    plain.stop();
    with_tls.stop();
}

/// Adds the rows; a kept connection has the echo on one as its floor, a new one the echo on a new one.
fn rows(times: &[Times], loads: &[Load], table: &mut Table) {
    for ((name, is_new), own) in WAYS.iter().zip(times) {
        table.times(name, own, &times[usize::from(*is_new)]);
    }
    for ((name, is_new), own) in WAYS.iter().zip(loads) {
        table.load(&format!("{name}, 8 at once"), own, &loads[usize::from(*is_new)]);
    }
}

/// Makes a certificate and its key in an fnd's directory, by openssl.
fn make_certificate(fnd: &Fnd) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-nodes", "-days", "30", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(fnd.path("key.pem"))
        .arg("-out")
        .arg(fnd.path("cert.pem"))
        .output()
        .expect("openssl starts");
    assert!(made.status.success(), "{made:?}");
}

fn client(fnd: &Fnd, resumption: Resumption) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(fnd.path("cert.pem")).expect("openssl made it");
    roots.add(certificate).expect("it is a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder
        .with_safe_default_protocol_versions()
        .expect("the provider has them");
    let mut client = builder.with_root_certificates(roots).with_no_client_auth();
    client.resumption = resumption;
    Arc::new(client)
}

fn secured(address: SocketAddr, client: &Arc<ClientConfig>) -> Secured {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::clone(client), name).expect("the configuration is whole");
    StreamOwned::new(connection, connect(address))
}
