//! Secrets and service bindings of functions, on their way from files of root to the function.
//!
//! ```text
//! helper:   files ──▶ memory file: head │ values
//! spawner:  reads the head only, passes the memory file on to launchers
//! launcher: values ──▶ a file system of the function's own, and variables
//! ```
//! So the spawner itself never has a value in its memory. The head has what fnd may know: fingerprints.

use super::vault::{SECRET, read};
use super::*;
use crate::log::Failed as _;
use fnd_wire::form::{Bytes, Wire, wire_structs};
use fnd_wire::ids::Version;
use fnd_wire::mask::Masks;
use fnd_wire::plan::{Credentials, Mapped};
use fnd_wire::trust::is_secret;
use sha2::{Digest as _, Sha256};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// Most bytes of all values of a function together.
pub const ALL_MAX: usize = 1 << 20;
/// Most entries of a service binding.
const ENTRIES_MAX: usize = 64;
/// The well-known entries of a service binding that are no secrets; they are not masked in output.
const KNOWN: [&str; 7] = ["type", "provider", "host", "port", "database", "username", "certificates"];

wire_structs! {
    /// The facts about a function's values that the spawner may know.
    pub struct CredentialsHead {
        /// Why the values can't be used; empty if they can.
        pub problems: Vec<Problem>,
        /// Hash of the values with a key of this machine, so that a new value makes a new version.
        pub digest: Version,
        pub masks: Masks,
    }

    /// A function's values.
    #[derive(Default)]
    pub struct SecretValues {
        /// Files of `CREDENTIALS_DIRECTORY`.
        pub secrets: Vec<(String, Bytes)>,
        /// Files of `SERVICE_BINDING_ROOT`, `BINDING/ENTRY`.
        pub bindings: Vec<(String, Bytes)>,
        /// Variables of the environment.
        pub variables: Vec<(String, Bytes)>,
    }
}

/// The values of an installed version.
pub struct Gathered {
    /// The part that the spawner reads.
    pub head: CredentialsHead,
    /// The memory file with head and values.
    pub memory: File,
}

/// Reads the values that a function gets.
pub struct Gatherer {
    /// Where secrets are.
    pub vault: Vault,
    /// The program that reads those beside the function.
    pub program: PathBuf,
    /// Whether that program can have a user of its own.
    pub root: bool,
    /// The directories that may have secrets of the function.
    pub dirs: Vec<PathBuf>,
    /// The values that the function gets.
    pub credentials: Credentials,
    /// The key of this machine.
    pub key: [u8; 32],
}

impl Gatherer {
    /// Writes head and values to a memory file.
    ///
    /// # Errors
    /// If writing fails, or if there are no random numbers.
    pub fn gather(&self, memory: &File) -> io::Result<()> {
        let (values, mut problems) = self.values();
        let body = values.to_wire();
        // The key keeps weak values from being guessed from the hash of a version. It also comes last: a hash that only
        // begins with the key can be continued without it (length extension).
        let digest = Sha256::new().chain_update(self.key).chain_update(&body).chain_update(self.key).finalize();
        let hidden = |(name, _): &&(String, Bytes)| !KNOWN.iter().any(|known| name.ends_with(&format!("/{known}")));
        let masked = values.secrets.iter().chain(values.bindings.iter().filter(hidden));
        let masks = Masks::of(u64::from_le_bytes(random()?), masked.map(|(_, value)| value.0.as_slice()));
        let masks = masks.unwrap_or_else(|why| {
            problems.push(problem("secrets", why, "use secrets with fewer or shorter lines"));
            Masks::default()
        });
        let head = CredentialsHead { problems, digest: Version(digest.into()), masks }.to_wire();
        let length = u64::try_from(head.len()).unwrap_or(u64::MAX);
        let mut memory = memory;
        memory.write_all(&[&length.to_le_bytes()[..], &head, &body].concat())
    }

    fn values(&self) -> (SecretValues, Vec<Problem>) {
        let (mut values, mut problems) = (SecretValues::default(), Vec::new());
        for Mapped { name, secret, variable } in &self.credentials.secrets {
            match self.secret(secret) {
                Ok(value) if *variable && value.contains(&0) => {
                    problems.push(problem(secret, "it has a NUL byte, which no variable can have", "map it as a file"));
                }
                Ok(value) => {
                    let value = Bytes(without_end(value));
                    values.variables.extend(variable.then(|| (name.clone(), value.clone())));
                    values.secrets.push((name.clone(), value));
                }
                Err(problem) => problems.push(problem),
            }
        }
        for binding in &self.credentials.bindings {
            let entries = self.binding(binding).map_err(|problem| problems.push(problem));
            values.bindings.extend(entries.unwrap_or_default());
        }
        let all = values.secrets.iter().chain(&values.bindings);
        if all.map(|(_, value)| value.0.len()).sum::<usize>() > ALL_MAX {
            problems.push(problem("secrets", "all values together are larger than 1 MiB", "map fewer of them"));
        }
        (values, problems)
    }

    fn secret(&self, name: &str) -> Result<Vec<u8>, Problem> {
        if let Some(opened) = self.vault.find(name).map_err(|why| why.into_problem(name))? {
            return read(name, opened);
        }
        if let Some(value) = self.encrypted(name)? {
            return Ok(value);
        }
        self.in_manifests(name)?.ok_or_else(|| self.vault.missing(name))
    }

    /// Reads the entries of a service binding.
    fn binding(&self, name: &str) -> Result<Vec<(String, Bytes)>, Problem> {
        let dir = self.vault.bindings.join(name);
        let shown = dir.display().to_string();
        let help = format!("run `fndctl binding new {name} type=...`");
        let dir = fs::canonicalize(&dir).map_err(|_| problem(&shown, "there is no such service binding", &help))?;
        let unread = |error: io::Error| problem(&shown, format!("failed to list it: {error}"), "check the directory");
        let mut entries = Vec::new();
        for entry in fs::read_dir(&dir).map_err(unread)? {
            let entry = entry.map_err(unread)?.file_name();
            let Some(entry) = entry.to_str().filter(|entry| is_secret(entry)) else { continue };
            let path = dir.join(entry);
            let opened = self.vault.open(&path, SECRET).map_err(|why| why.into_problem(&shown))?;
            let Some(opened) = opened else { continue }; // it was removed just now
            entries.push((format!("{name}/{entry}"), Bytes(without_end(read(&path.display().to_string(), opened)?))));
            if entries.len() > ENTRIES_MAX {
                return Err(problem(&shown, "it has more than 64 entries", "remove some"));
            }
        }
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        let untyped = || problem(&shown, "it has no entry `type`, which every service binding must have", help);
        Some(entries).filter(|all| all.iter().any(|(entry, _)| entry.ends_with("/type"))).ok_or_else(untyped)
    }
}

/// Returns the key of this machine, which is made when it is first needed. With another key, every function with secrets
/// becomes a new version.
///
/// # Errors
/// If it can't be read or made.
pub fn key(path: &std::path::Path) -> io::Result<[u8; 32]> {
    match crate::places::if_there(fs::read(path))?.map(TryInto::try_into) {
        // The key is made below.
        None => {}
        Some(Ok(key)) => return Ok(key),
        // `replace` leaves no torn file, so the disk or a person has damaged it. Nobody can restore it, and to refuse
        // functions until somebody removes it would end in the same new key.
        Some(Err(_)) => crate::log!("`{}` is damaged: functions with secrets get new versions", path.display()),
    }
    let key = random()?;
    crate::places::replace(path, &key)?;
    Ok(key)
}

/// Returns a value of one line without the end of the line, which editors and `echo` add; other values as they are.
fn without_end(mut value: Vec<u8>) -> Vec<u8> {
    if value.iter().position(|byte| *byte == b'\n') == Some(value.len() - 1) {
        value.truncate(value.trim_ascii_end().len());
    }
    value
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads the first part of a memory file.
///
/// # Errors
/// If no helper has finished it.
pub fn head(memory: &File) -> Result<CredentialsHead, String> {
    CredentialsHead::from_wire(&part(memory, true)?).failed("read what a helper wrote")
}

/// Reads the second part of a memory file.
///
/// # Errors
/// If no helper has finished it.
pub fn values(memory: &File) -> Result<SecretValues, String> {
    SecretValues::from_wire(&part(memory, false)?).failed("read the values")
}

fn part(memory: &File, is_head: bool) -> Result<Vec<u8>, String> {
    let all = memory.metadata().failed("examine the values")?.len();
    // The helper may have been killed while it wrote, so a length may be larger than what is there.
    let read = |start, length| {
        let mut bytes = vec![0; usize::try_from(all.min(length)).unwrap_or(0)];
        let read = memory.read_exact_at(&mut bytes, start).ok().filter(|()| length <= all);
        read.map(|()| bytes).ok_or("the helper ended before it had read the secrets")
    };
    let head = read(0, 8)?.try_into().map_or(0, u64::from_le_bytes);
    let start = head.saturating_add(8);
    Ok(if is_head { read(8, head)? } else { read(start, all.saturating_sub(start))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_be_read_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::os::unix::fs::symlink("key", &path).unwrap();
        assert!(key(&path).is_err(), "it is a link to itself");
        fs::remove_file(&path).unwrap();
        let made = key(&path).unwrap();
        assert_eq!(key(&path).unwrap(), made);
        fs::write(&path, &made[1..]).unwrap();
        let new = key(&path).unwrap();
        assert_eq!(key(&path).unwrap(), new, "in place of a damaged one");
    }

    #[test]
    fn only_a_value_of_one_line_loses_the_end_of_the_line() {
        for (value, expected) in [
            (&b"one\n"[..], &b"one"[..]),
            (b"one\r\n", b"one"),
            (b"one", b"one"),
            (b"one\ntwo\n", b"one\ntwo\n"),
            (b"\n\n", b"\n\n"),
            (b"\0\x01 \x02", b"\0\x01 \x02"),
        ] {
            assert_eq!(without_end(value.to_vec()), expected);
        }
    }
}
