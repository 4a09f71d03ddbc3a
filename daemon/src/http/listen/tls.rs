//! TLS on the TCP sockets of a server: the certificate with its key, and the handshake.
//!
//! TLS 1.2 and 1.3; ALPN offers HTTP/2 and HTTP/1.1. Sessions are resumed by tickets, so fnd keeps nothing for them.
//! The certificate can be replaced while the server serves: a connection keeps the one that it began with.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::{CertificateError, RootCertStore, ServerConfig};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use zeroize::Zeroizing;

/// A certificate and its key, as in their files (PEM).
pub struct TlsPair {
    /// The certificate of this server, and after it those of its issuers.
    pub certificate: Vec<u8>,
    /// The key, without a passphrase.
    pub key: Zeroizing<Vec<u8>>,
}

/// A certificate and its key, checked and ready to be served.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    warning: Option<&'static str>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tls")
    }
}

/// How the TCP sockets of a server are secured; Unix sockets never are.
#[derive(Debug, Clone, Default)]
pub enum Security {
    /// They are not.
    #[default]
    Plain,
    Tls(Tls),
    /// They should be, but there is no valid certificate: each connection is closed. Nothing is ever served without TLS
    /// because a certificate is broken.
    Broken,
}

impl Tls {
    /// Returns the certificate and its key if they are valid and belong together. `now` is the time since 1970.
    ///
    /// # Errors
    /// Why they cannot be served, for people. A server that has an older pair keeps serving that.
    pub fn new(pair: &TlsPair, now: Duration) -> Result<Self, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pair.certificate).collect();
        let chain = chain.map_err(|error| format!("the certificate is not valid PEM: {error}"))?;
        let Some(leaf) = chain.first().cloned() else {
            return Err("the certificate's file has no `-----BEGIN CERTIFICATE-----`".to_owned());
        };
        let key = PrivateKeyDer::from_pem_slice(&pair.key).map_err(|_| no_key(&pair.key).to_owned())?;
        let parsed = ParsedCertificate::try_from(&leaf);
        let parsed = parsed.map_err(|error| format!("the first certificate is not valid: {error}"))?;
        // The provider is named here, so that none has to be installed for the whole process before.
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    "the key does not belong to the certificate (the server's own certificate comes first in its file)"
                        .to_owned()
                }
                other => format!("the certificate and its key cannot be used: {other}"),
            })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = ring::Ticketer::new().map_err(|error| format!("no key for session tickets: {error}"))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self {
            config: Arc::new(config),
            warning: validity(&parsed, now),
        })
    }

    /// Returns why clients will not accept the certificate, if its dates say so. It is served nevertheless: a client may
    /// know it.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        self.warning
    }

    /// # Errors
    /// The client speaks no TLS, or none that is offered.
    pub(in crate::http) async fn handshake(self, stream: TcpStream) -> io::Result<Box<TlsStream<TcpStream>>> {
        TlsAcceptor::from(self.config).accept(stream).await.map(Box::new)
    }
}

fn no_key(pem: &[u8]) -> &'static str {
    let encrypted = b"ENCRYPTED";
    if pem.windows(encrypted.len()).any(|part| part == encrypted) {
        "the key has a passphrase, which fnd cannot ask for: remove it with `openssl pkey`"
    } else {
        "the key's file has no valid `-----BEGIN PRIVATE KEY-----`"
    }
}

fn validity(certificate: &ParsedCertificate<'_>, now: Duration) -> Option<&'static str> {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    // The dates are checked before any issuer is searched, so no issuer has to be known.
    let checked = rustls::client::verify_server_cert_signed_by_trust_anchor(
        certificate,
        &RootCertStore::empty(),
        &[],
        UnixTime::since_unix_epoch(now),
        ring::default_provider().signature_verification_algorithms.all,
    );
    match checked {
        Err(rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. })) => Some("the certificate has expired"),
        Err(rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. })) => {
            Some("the certificate is not valid yet")
        }
        _ => None,
    }
}

#[cfg(test)]
pub(in crate::http) mod tests;
