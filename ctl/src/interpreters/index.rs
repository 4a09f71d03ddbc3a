//! The versions of a package that a registry has: npm's package metadata, and PyPI's simple repository API in JSON
//! (PEP 691). Only builds for this machine count.

use super::{RegistryKind, failed, of_machine};
use crate::exit::CommandFailure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use sha2::{Digest as _, Sha256, Sha512};
use std::collections::BTreeMap;

/// The end of the names of wheels for this machine.
const WHEEL: &str = of_machine("_aarch64.whl", "_x86_64.whl");
/// A part of the names of wheels for glibc.
const GLIBC: &str = "manylinux";

/// The versions of a package.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// The version that the registry recommends, if it says so.
    pub(crate) latest: Option<String>,
    /// Each version with its file.
    pub(crate) versions: BTreeMap<String, OfferedFile>,
}

/// A file of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfferedFile {
    /// Its address, or its name.
    pub(crate) file: String,
    /// Its checksum, as [`Summing`] returns it; absent if the registry publishes none.
    pub(crate) sum: Option<String>,
}

/// Computes the checksum that a registry publishes.
pub(crate) enum Summing {
    Sha512(Sha512),
    Sha256(Sha256),
}

impl Summing {
    pub(crate) fn of(kind: RegistryKind) -> Self {
        match kind {
            RegistryKind::Npm => Self::Sha512(Sha512::new()),
            RegistryKind::PyPi => Self::Sha256(Sha256::new()),
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha512(digest) => digest.update(bytes),
            Self::Sha256(digest) => digest.update(bytes),
        }
    }

    /// Returns the checksum of all bytes: `sha512-` and base64, as npm has it, or `sha256-` and hexadecimal digits.
    pub(crate) fn end(self) -> String {
        match self {
            Self::Sha512(digest) => format!("sha512-{}", STANDARD.encode(digest.finalize())),
            Self::Sha256(digest) => {
                let digits: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
                format!("sha256-{digits}")
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct NpmList {
    #[serde(rename = "dist-tags", default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    versions: BTreeMap<String, NpmEntry>,
}

#[derive(Debug, Deserialize)]
struct NpmEntry {
    dist: NpmDist,
}

#[derive(Debug, Deserialize)]
struct NpmDist {
    tarball: String,
    #[serde(default)]
    integrity: String,
}

#[derive(Debug, Deserialize)]
struct PyPiList {
    #[serde(default)]
    files: Vec<PyPiFile>,
}

#[derive(Debug, Deserialize)]
struct PyPiFile {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    /// `false`, or the reason as a text.
    #[serde(default)]
    yanked: serde_json::Value,
}

impl Index {
    /// Reads the answer of a registry; `url` is its address.
    ///
    /// # Errors
    /// It is no list of versions.
    pub(crate) fn read(kind: RegistryKind, package: &str, url: &str, answer: &[u8]) -> Result<Self, CommandFailure> {
        let odd = |error| failed(format!("`{url}` is not a list of versions: {error}"));
        match kind {
            RegistryKind::Npm => Ok(Self::of_npm(serde_json::from_slice(answer).map_err(odd)?)),
            RegistryKind::PyPi => Ok(Self::of_pypi(package, serde_json::from_slice(answer).map_err(odd)?)),
        }
    }

    fn of_npm(list: NpmList) -> Self {
        let offer = |dist: NpmDist| {
            // Only the name counts, since the address may be that of another host: `Registry::file` makes the address.
            let file = dist.tarball.rsplit('/').next().unwrap_or_default();
            // There may be several checksums, each with its kind (Subresource Integrity).
            let mut sums = dist.integrity.split_whitespace();
            OfferedFile {
                file: file.split(['?', '#']).next().unwrap_or_default().to_owned(),
                sum: sums.find(|sum| sum.starts_with("sha512-")).map(str::to_owned),
            }
        };
        let versions = list.versions.into_iter();
        Self {
            latest: list.tags.get("latest").cloned(),
            versions: versions.map(|(version, entry)| (version, offer(entry.dist))).collect(),
        }
    }

    fn of_pypi(package: &str, list: PyPiList) -> Self {
        let mut versions = BTreeMap::new();
        for file in list.files {
            // The wheels for musl and for other processors are in the same list.
            let is_for_this_machine = file.filename.ends_with(WHEEL) && file.filename.contains(GLIBC);
            // A yanked file is not to be chosen any more (PEP 592).
            let yanked = !matches!(file.yanked, serde_json::Value::Null | serde_json::Value::Bool(false));
            let name = file
                .filename
                .strip_prefix(package)
                .and_then(|rest| rest.strip_prefix('-'));
            let version = name.and_then(|rest| rest.split('-').next());
            let Some(version) = version.filter(|_| is_for_this_machine && !yanked) else {
                continue;
            };
            // Checksums are compared as texts, and an index may write them in capitals.
            let sum = file
                .hashes
                .get("sha256")
                .map(|sum| format!("sha256-{}", sum.to_lowercase()));
            versions.insert(version.to_owned(), OfferedFile { file: file.url, sum });
        }
        Self { latest: None, versions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_of_this_machine_count_and_withdrawn_ones_do_not() {
        let end = WHEEL;
        let file = |name: String, yanked: serde_json::Value| {
            serde_json::json!({"filename": name, "url": format!("../p/{name}"), "yanked": yanked,
                "hashes": {"sha256": "AB"}})
        };
        let files = [
            file(format!("uv-0.9.1-py3-none-manylinux_2_17{end}"), false.into()),
            file(format!("uv-0.9.2-py3-none-manylinux_2_17{end}"), "broken".into()),
            file(format!("uv-0.9.3-py3-none-musllinux_1_1{end}"), false.into()),
            file("uv-0.9.4-py3-none-win_amd64.whl".to_owned(), false.into()),
            file("uv-0.9.5.tar.gz".to_owned(), false.into()),
            file(format!("uv_build-0.9.6-py3-none-manylinux_2_17{end}"), false.into()),
        ];
        let answer = serde_json::json!({"name": "uv", "files": files}).to_string();
        let found = Index::read(RegistryKind::PyPi, "uv", "http://x", answer.as_bytes()).unwrap();
        let offer = OfferedFile {
            file: format!("../p/uv-0.9.1-py3-none-manylinux_2_17{end}"),
            sum: Some("sha256-ab".to_owned()),
        };
        assert_eq!(found.versions, BTreeMap::from([("0.9.1".to_owned(), offer)]));
    }

    #[test]
    fn checksums_are_those_of_the_standards() {
        let of = |kind| {
            let mut summing = Summing::of(kind);
            summing.add(b"a");
            summing.add(b"bc");
            summing.end()
        };
        // The examples "abc" of FIPS 180-2.
        let sha256 = "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(RegistryKind::PyPi), sha256);
        assert!(of(RegistryKind::Npm).starts_with("sha512-3a81oZNherrMQXNJriBBMRLm"));
    }
}
