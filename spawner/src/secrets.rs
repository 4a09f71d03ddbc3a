//! Opens the secrets that fnd needs to check requests, and no others: those that the routes of a function name whose
//! files are all root's, and the files of `[http] tls`.
//!
//! A secret travels in a memory file, sealed against every change. The kernel copies it there: its bytes are never in
//! this process, whose copies (launchers, helpers) thus cannot have them either.

use crate::grants::{self, Stamps};
use crate::policy::{Myself, insecure_above, problem};
use fnd_wire::frame::{CERTIFICATE, KEY, Problem, SECRET_MAX, SecretAsked, TLS_FILE_MAX, is_shortage};
use fnd_wire::ids::FunctionName;
use fnd_wire::trust::{is_secret, refusal};
use rustix::fs::{
    CWD, MemfdFlags, Mode, OFlags, ResolveFlags, SealFlags, fcntl_add_seals, memfd_create, openat2, sendfile,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Largest size of a file, and the permissions that it may not have.
type Bounds = (u64, u32);
/// Of a secret.
const SECRET: Bounds = (SECRET_MAX, 0o077);
/// Of a private key. Debian's group `ssl-cert` may read keys.
const PRIVATE: Bounds = (TLS_FILE_MAX, 0o027);
/// Of certificates, which are public.
const PUBLIC: Bounds = (TLS_FILE_MAX, 0o022);

/// Why a secret was not opened.
#[derive(Debug)]
pub enum NoSecret {
    /// There is no such file.
    Absent,
    /// It must not be opened, for people.
    Refused(Problem),
    /// The node has run out of something.
    Shortage(io::Error),
}

/// The secrets that fnd may have.
#[derive(Debug)]
pub struct Secrets {
    /// `secrets/` beside the configuration, then the credentials of this unit.
    dirs: Vec<PathBuf>,
    myself: Myself,
    /// By function the names in the routes of the version that was last installed, and its files.
    named: BTreeMap<FunctionName, (Vec<String>, Stamps)>,
    /// `[http] tls`: certificates and private key; absent if the configuration is not root's.
    pub tls: Option<(String, String)>,
}

impl Secrets {
    /// Returns the secrets beside a configuration file, and in the directory of systemd's credentials.
    pub fn new(config: &Path, credentials: Option<PathBuf>, myself: Myself) -> Self {
        let dirs = [config.with_file_name("secrets")].into_iter().chain(credentials).collect();
        Self { dirs, myself, named: BTreeMap::new(), tls: None }
    }

    /// Records the names in the files of a function that is installed. None: the files are refused; the version that
    /// serves keeps its names.
    pub fn judged(&mut self, function: &FunctionName, names: Option<Vec<String>>, files: Stamps) {
        match names {
            None => drop(self.named.get_mut(function).map(|(_, before)| *before = files)),
            Some(names) if names.is_empty() => self.forget(function),
            Some(names) => drop(self.named.insert(function.clone(), (names, files))),
        }
    }

    /// Forgets a removed function.
    pub fn forget(&mut self, function: &FunctionName) {
        self.named.remove(function);
    }

    /// Checks that every secret can be opened.
    ///
    /// # Errors
    /// The problems with those that can't.
    pub fn check(&self, names: &[String]) -> Result<(), Vec<Problem>> {
        let refused = |name: &String| match self.secret(name).err()? {
            NoSecret::Refused(problem) => Some(problem),
            NoSecret::Absent => Some(self.absent(name)),
            NoSecret::Shortage(error) => Some(problem(name, format!("failed to open it: {error}"), "reload fnd later")),
        };
        let problems: Vec<Problem> = names.iter().filter_map(refused).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Opens a secret for fnd.
    ///
    /// # Errors
    /// Why fnd does not get it.
    pub fn open(&self, asked: &SecretAsked) -> Result<OwnedFd, NoSecret> {
        let SecretAsked { function, name } = asked;
        let refuse = |why: String| NoSecret::Refused(problem(name, why, "reload fnd"));
        let opened = match function {
            Some(function) => {
                let named = self.named.get(function).filter(|(names, _)| names.contains(name));
                let (_, files) = named.ok_or_else(|| refuse(format!("no route of `{function}` names this secret")))?;
                grants::still(files).map_err(refuse)?;
                self.secret(name)
            }
            None => {
                let none = || refuse("no `[http] tls` in a configuration of root names this file".to_owned());
                let (certificate, key) = self.tls.as_ref().ok_or_else(none)?;
                match name.as_str() {
                    CERTIFICATE => self.linked(certificate, PUBLIC),
                    KEY => self.linked(key, PRIVATE),
                    _ => return Err(none()),
                }
            }
        };
        opened.map_err(|error| if matches!(error, NoSecret::Absent) { NoSecret::Refused(self.absent(name)) } else { error })
    }

    fn absent(&self, name: &str) -> Problem {
        let (path, help) = match (name, &self.tls) {
            _ if self.named.values().any(|(names, _)| names.iter().any(|named| named == name)) => {}
            _ => {}
        };
        problem("", "", "")
    }
}
