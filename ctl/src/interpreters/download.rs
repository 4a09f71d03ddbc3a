//! Finds a version in a registry, fetches its package, and compares the checksum that the registry publishes.

use super::index::{Index, Summing};
use super::registry::Registry;
use super::{KnownInterpreter, RegistryKind, failed, rank, version};
use crate::exit::{CommandFailure, Exit};
use std::fs::File;
use std::io::{Read, Write as _};
use std::time::Duration;
use ureq::tls::{RootCerts, TlsConfig};

/// Largest list of versions, and largest package, in bytes.
const LIST_MAX: u64 = 64 << 20;
const PACKAGE_MAX: u64 = 512 << 20;
const CONNECT: Duration = Duration::from_secs(30);

/// A version that a registry has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterpreterRelease {
    pub(crate) version: String,
    /// The file's address or name.
    file: String,
    sum: String,
}

/// Requests to a registry about one package.
pub(crate) struct Downloads {
    agent: ureq::Agent,
    registry: Registry,
    package: &'static str,
    kind: RegistryKind,
}

/// Returns a client of web servers. Proxies come from the environment, trusted authorities from the machine.
pub(crate) fn agent() -> ureq::Agent {
    // Fails if a provider is installed already; then that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    // The transfer has no limit of time, since a large package may take long on a slow line.
    let config = ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(CONNECT))
        .user_agent(concat!("fndctl/", env!("CARGO_PKG_VERSION")));
    config.build().into()
}

impl Downloads {
    /// Returns requests for a package.
    pub(crate) fn new(registry: Registry, known: &KnownInterpreter) -> Self {
        Self {
            agent: agent(),
            registry,
            package: known.package,
            kind: known.kind,
        }
    }

    fn get(&self, url: &str, accept: &str) -> Result<ureq::http::Response<ureq::Body>, CommandFailure> {
        let mut request = self.agent.get(url).header("accept", accept);
        if let Some(token) = &self.registry.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.call().map_err(|error| {
            let configured = match self.kind {
                RegistryKind::Npm => "NPM_CONFIG_REGISTRY, .npmrc",
                RegistryKind::PyPi => "PIP_INDEX_URL, pip.conf",
            };
            let suffix = self.kind.suffix();
            failed(format!("failed to get `{url}`: {error}")).help(format!(
                "check the network, HTTPS_PROXY and the registry (`--registry URL`, {configured}); \
                 without network: --file PACKAGE.{suffix}"
            ))
        })
    }

    fn list(&self) -> Result<Index, CommandFailure> {
        let url = self.registry.versions(self.package);
        let accepted = match self.kind {
            // The first form is npm's short one: it has what counts, in a small part of the bytes.
            RegistryKind::Npm => "application/vnd.npm.install-v1+json, application/json;q=0.8",
            RegistryKind::PyPi => "application/vnd.pypi.simple.v1+json",
        };
        let mut response = self.get(&url, accepted)?;
        let text = response.body_mut().with_config().limit(LIST_MAX).read_to_vec();
        let text = text.map_err(|error| failed(format!("failed to read `{url}`: {error}")))?;
        Index::read(self.kind, self.package, &url, &text)
    }

    /// Returns the versions of the registry that are releases, the newest first.
    ///
    /// # Errors
    /// The registry does not answer them.
    pub(crate) fn versions(&self) -> Result<Vec<String>, CommandFailure> {
        let mut versions: Vec<String> = self.list()?.versions.into_keys().collect();
        // Names that cannot be the name of a directory, and previews, are in a registry too.
        versions.retain(|found| version(found).is_ok() && rank(found).1);
        versions.sort_by_key(|version| std::cmp::Reverse(rank(version)));
        Ok(versions)
    }

    /// Returns a version: the newest release, the newest that begins with the numbers of `wanted`, or `wanted` itself.
    ///
    /// # Errors
    /// The registry has no such version, or no checksum for it.
    pub(crate) fn find(&self, wanted: Option<&str>) -> Result<InterpreterRelease, CommandFailure> {
        let list = self.list()?;
        // The publisher recommends this version, which need not be the one with the highest number.
        let latest = list.latest.as_ref().filter(|_| wanted.is_none());
        // A preview is chosen only by its whole name.
        let exact = wanted.and_then(|wanted| list.versions.get_key_value(wanted));
        let fits = |found: &&String| {
            // The dot keeps `2` from meaning version 20.
            let begins = |wanted: &str| found.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'));
            rank(found).1 && wanted.is_none_or(begins)
        };
        let newest = || list.versions.keys().filter(fits).max_by_key(|found| rank(found));
        let found = latest.or(exact.map(|(version, _)| version)).or_else(newest);
        let (Some(found), package) = (found.cloned(), self.package) else {
            let shown = wanted.map(|wanted| format!(" {wanted}")).unwrap_or_default();
            let message = format!("the registry has no version{shown} of `{}`", self.package);
            return Err(
                CommandFailure::new(Exit::NoSuchThing, message).help("fndctl runtimes list --available shows them")
            );
        };
        // The version becomes the name of a directory, and the registry is not trusted.
        version(&found)?;
        let entry = list.versions.get(&found);
        let offer =
            entry.ok_or_else(|| failed(format!("the registry names {package} {found}, but does not have it")))?;
        let sum = offer.sum.clone();
        Ok(InterpreterRelease {
            file: offer.file.clone(),
            sum: sum.ok_or_else(|| {
                let missing = self.kind.checksum();
                failed(format!("the registry has no {missing} checksum of {package} {found}"))
            })?,
            version: found,
        })
    }

    /// Writes the package of a version to a file. `progress` gets the bytes so far and, if it is known, their number.
    ///
    /// # Errors
    /// The package cannot be fetched, or it is not the one whose checksum the registry published.
    pub(crate) fn fetch(
        &self,
        release: &InterpreterRelease,
        to: &mut File,
        mut progress: impl FnMut(u64, Option<u64>),
    ) -> Result<(), CommandFailure> {
        let url = self.registry.file(self.package, &release.file);
        let mut response = self.get(&url, "*/*")?;
        let length = response.headers().get("content-length");
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        let mut body = response.body_mut().with_config().limit(PACKAGE_MAX).reader();
        let (mut summing, mut buffer, mut done) = (Summing::of(self.kind), vec![0; 1 << 16], 0);
        loop {
            let read = body.read(&mut buffer);
            let read = read.map_err(|error| failed(format!("failed to read `{url}`: {error}")))?;
            let bytes = buffer.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            summing.add(bytes);
            to.write_all(bytes)
                .map_err(|error| failed(format!("failed to store `{url}`: {error}")))?;
            done += bytes.len() as u64;
            progress(done, length);
        }
        let found = summing.end();
        if found == release.sum {
            return Ok(());
        }
        let message = format!(
            "the checksum of `{url}` is wrong, and nothing was installed: {found}, and the registry has {}",
            release.sum
        );
        Err(failed(message).help("try again; if it stays, the file was changed on its way, or the mirror is damaged"))
    }
}
