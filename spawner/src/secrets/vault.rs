//! Opens the files of secrets and service bindings, if only root can have written them.

use crate::policy::{Myself, insecure_above, problem};
use fnd_wire::frame::{Problem, SECRET_MAX, TLS_FILE_MAX, is_shortage};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Largest size of a file in bytes, and the permissions that it must not have.
pub type VaultBounds = (u64, u32);
/// The bounds of a secret.
pub const SECRET: VaultBounds = (SECRET_MAX, 0o077);
/// The bounds of a private key: Debian's group `ssl-cert` may read it.
pub const PRIVATE: VaultBounds = (TLS_FILE_MAX, 0o027);
/// The bounds of certificates: everybody may read them.
pub const PUBLIC: VaultBounds = (TLS_FILE_MAX, 0o022);

/// The bounds of an encrypted secret: everybody may read it.
pub const ENCRYPTED: VaultBounds = (fnd_wire::decrypt::ENCRYPTED_MAX, 0o022);

/// Why a secret is not opened.
pub enum NoSecret {
    /// For this reason.
    Refused(Problem),
    /// The node has run out of something.
    Shortage(io::Error),
}

impl NoSecret {
    /// Returns the reason as a problem with the file or secret of this name.
    pub fn into_problem(self, name: &str) -> Problem {
        match self {
            Self::Refused(problem) => problem,
            Self::Shortage(why) => problem(name, format!("failed to open the secret: {why}"), "reload fnd"),
        }
    }
}

/// The places of secrets.
#[derive(Debug, Clone)]
pub struct Vault {
    /// `secrets/` beside the configuration, then the credentials of this unit.
    pub dirs: Vec<PathBuf>,
    /// `bindings/` beside the configuration.
    pub bindings: PathBuf,
    /// The key of encrypted secrets.
    pub age_key: PathBuf,
    /// The user that the spawner runs as.
    pub myself: Myself,
}

impl Vault {
    /// Returns the places beside a configuration file, and systemd's directory of credentials.
    pub fn new(config: &Path, credentials: Option<PathBuf>, myself: Myself) -> Self {
        let dirs = [config.with_file_name("secrets")].into_iter().chain(credentials).collect();
        let [bindings, age_key] = ["bindings", "age.key"].map(|name| config.with_file_name(name));
        Self { dirs, bindings, age_key, myself }
    }

    /// Opens a secret; returns its file and its size in bytes.
    ///
    /// # Errors
    /// Why it is not opened.
    pub fn secret(&self, name: &str) -> Result<(File, u64), NoSecret> {
        self.find(name)?.ok_or_else(|| NoSecret::Refused(self.missing(name)))
    }

    fn shown(&self, name: &str) -> String {
        self.dirs.first().map(|dir| dir.join(name).display().to_string()).unwrap_or_default()
    }

    /// Opens a secret; none if there is none.
    ///
    /// # Errors
    /// Why it is not opened.
    pub fn find(&self, name: &str) -> Result<Option<(File, u64)>, NoSecret> {
        if !fnd_wire::trust::is_secret(name) {
            return Err(NoSecret::Refused(problem(&self.shown(name), "a secret can't have this name", "rename it")));
        }
        // A directory that is missing has no secrets.
        for dir in crate::stat_cache::real(&self.dirs).map_err(NoSecret::Shortage)? {
            if let Some(opened) = self.open(&dir.join(name), SECRET)? {
                return Ok(Some(opened));
            }
        }
        Ok(None)
    }

    /// Returns the problem that there is no such secret.
    pub fn missing(&self, name: &str) -> Problem {
        let help = format!("run `fndctl secret new {name}` (a value that you were given: `fndctl secret set {name}`)");
        problem(&self.shown(name), "there is no such secret", help)
    }

    /// Opens a file; none if it does not exist. The path has no symbolic link but in its last name.
    ///
    /// # Errors
    /// Why it is not opened.
    pub fn open(&self, path: &Path, (max, forbidden): VaultBounds) -> Result<Option<(File, u64)>, NoSecret> {
        let shown = path.display();
        let refuse = |message: String, help: String| NoSecret::Refused(problem(&shown.to_string(), message, help));
        let owners = [0, self.myself.uid];
        if let Some(above) = path.parent().and_then(|dir| insecure_above(dir, &owners)) {
            let above = above.display();
            let help = format!("run `chmod go-w {above}`, and check its owner");
            return Err(refuse(format!("users other than root can write to `{above}`"), help));
        }
        // If a FIFO or a terminal lies there, opening it neither waits nor gives this process a terminal.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(refuse("it is a symbolic link".into(), "copy the file instead".into())),
            Err(errno) => return Err(failed(path, errno)),
        };
        let meta = file.metadata().map_err(NoSecret::Shortage)?;
        let wrong = [
            (!meta.is_file(), "it is not a regular file", format!("remove `{shown}`")),
            (!owners.contains(&meta.uid()), "it has another owner than root", format!("run `chown root {shown}`")),
            (meta.mode() & forbidden != 0, "other users can read or change it", format!("run `chmod 0400 {shown}`")),
            (meta.len() == 0, "it is empty", "write the value to it".to_owned()),
            (meta.len() > max, "it is too large", format!("it may have at most {} KiB", max >> 10)),
        ];
        if let Some((_, message, help)) = wrong.into_iter().find(|(wrong, ..)| *wrong) {
            return Err(refuse(message.to_owned(), help));
        }
        Ok(Some((file, meta.len())))
    }
}

/// Returns why a file was not read.
pub fn failed(path: &Path, errno: Errno) -> NoSecret {
    match io::Error::from(errno) {
        error if is_shortage(&error) => NoSecret::Shortage(error),
        error => {
            let message = format!("failed to open it: {error}");
            NoSecret::Refused(problem(&path.display().to_string(), message, "check the file"))
        }
    }
}

/// Reads an open file of this length.
///
/// # Errors
/// Why it can't be read.
pub fn read(shown: &str, (file, length): (File, u64)) -> Result<Vec<u8>, Problem> {
    let mut value = Vec::new();
    match file.take(length + 1).read_to_end(&mut value) {
        Ok(count) if count as u64 == length => Ok(value),
        Ok(_) => Err(problem(shown, "it changed while being read", "reload fnd")),
        Err(error) => Err(problem(shown, format!("failed to read it: {error}"), "check the file")),
    }
}
