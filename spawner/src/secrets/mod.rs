//! Opens the secrets that fnd needs to check requests, and no others: those that routes name in files which are all
//! root's, those that a configuration of root names, and the files of `[http] tls`.
//!
//! A secret travels in a memory file, sealed against every change. The kernel copies it there, so its bytes are never in
//! this process, nor in its copies (launchers, helpers).
//!
//! Files:
//! - `credentials`: secrets and service bindings of functions
//! - `decrypter`: has secrets beside functions decrypted, or found in YAML
//! - `vault`: opens the files of secrets

pub mod credentials;
mod decrypter;
pub mod vault;

use self::vault::{NoSecret, PRIVATE, PUBLIC, Vault, VaultBounds, failed};
use crate::grants::{self, Stamps};
use crate::policy::problem;
use fnd_wire::frame::{CERTIFICATE, KEY, NAMED, Problem, SecretAsked};
use fnd_wire::ids::FunctionName;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create, sendfile};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The secrets that fnd may have.
pub struct SecretSources {
    /// The places of secrets.
    pub vault: Vault,
    /// By function: the names in the routes of the version that was installed last, and its files.
    named: BTreeMap<FunctionName, (Vec<String>, Stamps)>,
    /// `[http] tls`: certificates and private key; absent if the configuration is not root's.
    pub tls: Option<(String, String)>,
    /// The secrets of `[http] events`; none if the configuration is not root's.
    pub configured: Vec<String>,
}

impl SecretSources {
    /// Returns the secrets in their places.
    pub fn new(vault: Vault) -> Self {
        Self { vault, named: BTreeMap::new(), tls: None, configured: Vec::new() }
    }

    /// Records which secrets a function names whose files were just read and installed. None: the files are refused, and
    /// the version that serves keeps its secrets.
    pub fn judged(&mut self, function: &FunctionName, names: Option<Vec<String>>, files: Stamps) {
        match names {
            None => drop(self.named.get_mut(function).map(|(_, before)| *before = files)),
            Some(names) if names.is_empty() => self.forget(function),
            Some(names) => drop(self.named.insert(function.clone(), (names, files))),
        }
    }

    /// Forgets a function that was removed.
    pub fn forget(&mut self, function: &FunctionName) {
        self.named.remove(function);
    }

    /// Checks that every secret can be opened.
    ///
    /// # Errors
    /// The problems.
    pub fn check(&self, names: &[String]) -> Result<(), Vec<Problem>> {
        let refused = |name: &String| self.vault.secret(name).err().map(|why| why.into_problem(name));
        let problems: Vec<Problem> = names.iter().filter_map(refused).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Opens a secret for fnd.
    ///
    /// # Errors
    /// Why fnd does not get it.
    pub fn open(&self, SecretAsked { function, name }: &SecretAsked) -> Result<OwnedFd, NoSecret> {
        let refuse = |why: String| NoSecret::Refused(problem(name, why, "reload fnd"));
        let Some(function) = function else {
            let configured = |name: &&str| self.configured.iter().any(|known| known == name);
            return match (&self.tls, name.as_str(), name.strip_prefix(NAMED).filter(configured)) {
                (Some((certificate, _)), CERTIFICATE, _) => self.linked(certificate, PUBLIC),
                (Some((_, key)), KEY, _) => self.linked(key, PRIVATE),
                (_, _, Some(name)) => self.secret(name),
                _ => Err(refuse("no configuration of root names it in `[http] tls` or `[http] events`".to_owned())),
            };
        };
        let named = self.named.get(function).filter(|(names, _)| names.contains(name));
        let (_, files) = named.ok_or_else(|| refuse(format!("no route of `{function}` names this secret")))?;
        // The files may have changed since they were judged: root may have withdrawn the secret.
        grants::still(files).map_err(refuse)?;
        self.secret(name)
    }

    fn secret(&self, name: &str) -> Result<OwnedFd, NoSecret> {
        sealed(name.as_ref(), &self.vault.secret(name)?)
    }

    /// Opens a file that symbolic links may lead to, such as those of certbot.
    fn linked(&self, path: &str, bounds: VaultBounds) -> Result<OwnedFd, NoSecret> {
        let real = crate::stat_cache::unless_short(fs::canonicalize(path)).map_err(NoSecret::Shortage)?;
        let opened = real.map_or(Ok(None), |real| self.vault.open(&real, bounds))?;
        let missing = || problem(path, "there is no such file", "correct `[http] tls` in fnd.toml, then reload fnd");
        sealed(path.as_ref(), &opened.ok_or_else(|| NoSecret::Refused(missing()))?)
    }
}

/// Copies a file of this length to sealed memory.
fn sealed(path: &Path, (file, length): &(File, u64)) -> Result<OwnedFd, NoSecret> {
    let failed = |errno| failed(path, errno);
    let memory = memfd_create("fnd-secret", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(failed)?;
    // At most one byte more than there was: then the file has grown.
    let (mut copied, room) = (0, usize::try_from(*length).unwrap_or(0) + 1);
    while copied < room {
        match sendfile(&memory, file, None, room - copied).map_err(failed)? {
            0 => break,
            count => copied += count,
        }
    }
    if copied + 1 != room {
        let shown = path.display().to_string();
        return Err(NoSecret::Refused(problem(&shown, "it changed while being read", "reload fnd")));
    }
    fcntl_add_seals(&memory, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)
        .map_err(failed)?;
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Myself;
    use crate::sandbox::mounts::tests::without_memory_for_links;
    use fnd_wire::frame::ExitStatus;
    use rustix::fs::{CWD, Mode, fcntl_get_seals};
    use std::io::{self, Read as _};
    use std::os::unix::fs::{FileExt as _, PermissionsExt as _, chown, symlink};
    use std::path::PathBuf;

    const NAME: &str = "hook";

    struct Place {
        dir: tempfile::TempDir,
        secrets: SecretSources,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        for name in ["secrets", "credentials"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let credentials = Some(dir.path().join("credentials"));
        let vault = Vault::new(&dir.path().join("fnd.toml"), credentials, Myself::current());
        let mut secrets = SecretSources::new(vault);
        secrets.judged(&function(), Some(vec![NAME.to_owned()]), Vec::new());
        Place { dir, secrets }
    }

    fn function() -> FunctionName {
        FunctionName::new("hello").unwrap()
    }

    impl Place {
        fn write(&self, path: &str, text: &str, mode: u32) -> PathBuf {
            let path = self.dir.path().join(path);
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        /// Returns the content, or why there is none.
        fn open(&self, function: Option<FunctionName>, name: &str) -> Result<String, String> {
            let opened = self.secrets.open(&SecretAsked { function, name: name.to_owned() });
            let mut text = String::new();
            match opened {
                Ok(memory) => {
                    let file = File::from(memory);
                    assert_eq!(fcntl_get_seals(&file).unwrap().bits().count_ones(), 4);
                    assert!(file.write_at(b"x", 0).is_err() && file.set_len(0).is_err());
                    io::Seek::rewind(&mut &file).unwrap();
                    (&file).read_to_string(&mut text).unwrap();
                    Ok(text)
                }
                Err(NoSecret::Refused(problem)) => Err(problem.message),
                Err(NoSecret::Shortage(error)) => panic!("{error}"),
            }
        }

        fn refused(&self, expected: &str) {
            let why = self.open(Some(function()), NAME).unwrap_err();
            assert!(why.contains(expected), "{expected}: {why}");
        }
    }

    #[test]
    fn a_named_secret_comes_in_sealed_memory() {
        let place = place();
        place.write("secrets/hook", "one\ntwo\n", 0o400);
        assert_eq!(place.open(Some(function()), NAME).unwrap(), "one\ntwo\n");
        place.write("secrets/hook", &"x".repeat(64 * 1024), 0o600);
        assert_eq!(place.open(Some(function()), NAME).unwrap().len(), 64 * 1024);
        assert!(place.secrets.check(&[NAME.to_owned()]).is_ok());
    }

    #[test]
    fn credentials_of_the_unit_are_second() {
        let place = place();
        place.write("credentials/hook", "systemd", 0o400);
        assert_eq!(place.open(Some(function()), NAME).unwrap(), "systemd");
        place.write("secrets/hook", "file", 0o400);
        assert_eq!(place.open(Some(function()), NAME).unwrap(), "file");
    }

    #[test]
    fn a_shortage_is_not_a_missing_directory_of_secrets() {
        let place = place();
        place.write("secrets/hook", "value", 0o400);
        let find = || match place.secrets.vault.find(NAME) {
            Err(NoSecret::Shortage(_)) => 0,
            Ok(None) => 1,
            _ => 2,
        };
        assert_eq!(without_memory_for_links(find), ExitStatus::Code(0));
    }

    #[test]
    fn files_that_are_not_secret_are_refused() {
        let place = place();
        place.refused("there is no such secret");
        let path = place.write("secrets/hook", "", 0o400);
        place.refused("empty");
        place.write("secrets/hook", &"x".repeat(64 * 1024 + 1), 0o600);
        place.refused("too large");
        for mode in [0o440, 0o404, 0o620, 0o602, 0o410] {
            place.write("secrets/hook", "value", mode);
            place.refused("other users");
        }
        fs::remove_file(&path).unwrap();
        let target = place.write("value", "value", 0o400);
        symlink(target, &path).unwrap();
        place.refused("symbolic link");
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        place.refused("not a regular file");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        place.refused("not a regular file");
        let problems = place.secrets.check(&[NAME.to_owned(), "none".to_owned()]).unwrap_err();
        assert_eq!(problems.len(), 2);
        assert!(problems[1].file.ends_with("secrets/none") && problems[1].help.contains("fndctl secret new none"));
    }

    #[test]
    fn owners_and_directories_that_are_not_roots_are_refused() {
        let place = place();
        let path = place.write("secrets/hook", "value", 0o400);
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(1), None).unwrap();
            place.refused("another owner");
            chown(&path, Some(0), None).unwrap();
        }
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
        place.refused("can write to");
    }

    #[test]
    fn only_names_of_installed_functions_are_opened() {
        let mut place = place();
        place.write("secrets/hook", "value", 0o400);
        place.write("secrets/other", "value", 0o400);
        place.write("value", "value", 0o400);
        for name in ["other", "../value", "", ".", "..", "hook/", CERTIFICATE, KEY] {
            assert!(place.open(Some(function()), name).unwrap_err().contains("no route of `hello`"), "{name}");
            assert!(place.open(None, name).unwrap_err().contains("[http] tls"), "{name}");
        }
        let other = FunctionName::new("other").unwrap();
        assert!(place.open(Some(other), NAME).is_err());
        for name in ["../value", "..", ".hook", "a/b", ""] {
            assert!(place.secrets.check(&[name.to_owned()]).is_err(), "{name}");
        }
        // Files that are refused take nothing from the version that serves; a version without routes does.
        place.secrets.judged(&function(), None, Vec::new());
        assert!(place.open(Some(function()), NAME).is_ok());
        place.secrets.judged(&function(), Some(Vec::new()), Vec::new());
        assert!(place.open(Some(function()), NAME).is_err());
    }

    #[test]
    fn secrets_that_the_configuration_names_are_opened_for_no_function() {
        let mut place = place();
        place.write("secrets/events", "value", 0o400);
        let asked = format!("{NAMED}events");
        assert!(place.open(None, &asked).unwrap_err().contains("[http] events"));
        place.secrets.configured = vec!["events".to_owned()];
        assert_eq!(place.open(None, &asked).unwrap(), "value");
        for name in ["events", "secret:", "secret:hook", "secret:secret:events"] {
            assert!(place.open(None, name).is_err(), "{name}");
        }
        assert!(place.open(Some(function()), &asked).is_err() && place.open(Some(function()), "events").is_err());
    }

    #[test]
    fn the_secrets_of_a_function_whose_files_are_gone_are_refused() {
        let mut place = place();
        place.write("secrets/hook", "value", 0o400);
        let code = place.write("hello.sh", "echo", 0o644);
        let stamps = vec![(code.clone(), grants::stamp(&fs::metadata(&code).unwrap()))];
        place.secrets.judged(&function(), Some(vec![NAME.to_owned()]), stamps);
        assert!(place.open(Some(function()), NAME).is_ok());
        fs::remove_file(code).unwrap();
        place.refused("no longer exist");
        place.secrets.forget(&function());
        place.refused("no route");
    }

    #[test]
    fn tls_files_may_be_linked_and_a_key_may_have_a_group() {
        let mut place = place();
        let shown = |path: &Path| path.to_str().unwrap().to_owned();
        let key = place.write("key1.pem", "key", 0o640);
        let link = place.dir.path().join("key.pem");
        symlink(&key, &link).unwrap();
        let certificate = place.write("cert.pem", "certificate", 0o644);
        place.secrets.tls = Some((shown(&certificate), shown(&link)));
        assert_eq!(place.open(None, CERTIFICATE).unwrap(), "certificate");
        assert_eq!(place.open(None, KEY).unwrap(), "key");
        for mode in [0o644, 0o660] {
            place.write("key1.pem", "key", mode);
            assert!(place.open(None, KEY).unwrap_err().contains("other users"), "{mode:o}");
        }
        place.write("cert.pem", "certificate", 0o664);
        assert!(place.open(None, CERTIFICATE).is_err());
        fs::remove_file(key).unwrap();
        assert!(place.open(None, KEY).unwrap_err().contains("no such file"));
    }
}
