//! Opens the files beside a function that can have its secrets. `fnd-helper --decrypt` decrypts one that is encrypted (`NAME.age`),
//! `fnd-helper --find-secret` finds one in Secrets of Kubernetes (YAML): children without user, files or network, so that no code
//! that reads such files runs as root.
//!
//! All of this runs in the helper that gathers secrets. It ends right afterwards, so the kernel clears its memory.

use super::credentials::Gatherer;
use super::vault::{ENCRYPTED, SECRET, read};
use super::*;
use crate::process::{reap, unprivileged};
use crate::stat_cache::real;
use fnd_wire::decrypt::{ANSWER_MAX, Decrypted, Encrypted};
use fnd_wire::form::{Bytes, Wire};
use fnd_wire::kubernetes::{FILE_MAX, FILES_MAX, SecretSearchAnswer, SecretWanted};
use fnd_wire::naming::is_foreign;
use std::ffi::CStr;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

/// How long the child may let its helper wait; it needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

impl Gatherer {
    /// Returns a secret that lies encrypted beside the function; none if there is none. The name is one of a secret.
    ///
    /// # Errors
    /// Why it can't be opened or decrypted.
    pub(super) fn encrypted(&self, name: &str) -> Result<Option<Vec<u8>>, Problem> {
        for dir in real(&self.dirs).map_err(|why| NoSecret::Shortage(why).into_problem(name))? {
            let path = dir.join(format!("{name}.age"));
            let shown = path.display().to_string();
            let opened = self.vault.open(&path, ENCRYPTED).map_err(|why| why.into_problem(&shown))?;
            let Some(opened) = opened else { continue };
            let (text, key) = (Bytes(read(&shown, opened)?), Bytes(self.age_key()?));
            let failed = |why| problem(&shown, format!("failed to decrypt it: {why}"), "reload fnd");
            let answer: Decrypted = self.ask(c"--decrypt", &Encrypted { key, text }.to_wire()).map_err(failed)?;
            let refused = |(message, help)| problem(&shown, message, help);
            return answer.value(&self.vault.age_key.display().to_string()).map(Some).map_err(refused);
        }
        Ok(None)
    }

    /// Returns a secret that a Secret of Kubernetes beside the function has; none if there is none. Files that others than
    /// root can change have no secrets.
    ///
    /// # Errors
    /// Why it can't be read.
    pub(super) fn in_manifests(&self, name: &str) -> Result<Option<Vec<u8>>, Problem> {
        for dir in real(&self.dirs).map_err(|why| NoSecret::Shortage(why).into_problem(name))? {
            let failed = |why: String| problem(&dir.display().to_string(), why, "reload fnd");
            let unread = |error: io::Error| failed(format!("failed to list it: {error}"));
            let (mut wanted, mut room) = (SecretWanted { name: name.to_owned(), files: Vec::new() }, FILES_MAX);
            for entry in fs::read_dir(&dir).map_err(unread)? {
                let path = entry.map_err(unread)?.path();
                let shown = path.display().to_string();
                let opened = match is_foreign(&shown).then(|| self.vault.open(&path, (FILE_MAX, 0o022))) {
                    Some(Ok(Some(opened))) => opened,
                    Some(Err(why @ NoSecret::Shortage(_))) => return Err(why.into_problem(&shown)),
                    _ => continue, // it has no secrets: it is another file, or others than root can change it
                };
                let left = room.checked_sub(opened.1);
                room = left.ok_or_else(|| failed("its YAML files have more than 4 MiB".into()))?;
                wanted.files.push((shown.clone(), Bytes(read(&shown, opened)?)));
            }
            if wanted.files.is_empty() {
                continue;
            }
            wanted.files.sort_by(|(one, _), (other, _)| one.cmp(other));
            let found: SecretSearchAnswer = self
                .ask(c"--find-secret", &wanted.to_wire())
                .map_err(|why| failed(format!("failed to find a secret in it: {why}")))?;
            let shown = |file: u32| wanted.files.get(file as usize).map(|(path, _)| path.as_str());
            let refused = |(file, why, help)| problem(shown(file).unwrap_or_default(), why, help);
            if let Some(value) = found.value().map_err(refused)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    fn ask<A: Wire>(&self, mode: &CStr, question: &[u8]) -> Result<A, Box<dyn std::error::Error>> {
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        ours.set_write_timeout(Some(PATIENCE))?;
        let (image, arguments) = (unprivileged::image(&self.program)?, vec![mode.to_owned()]);
        let child = unprivileged::start(&image, arguments, self.root, (theirs.as_fd(), None))?;
        // With a copy of the child's end here, the end of the child would not end the reading below.
        drop(theirs);
        let mut answer = Vec::new();
        // The child reads until the end, so the writing half is closed after the question.
        let sent = ours.write_all(question).and_then(|()| ours.shutdown(std::net::Shutdown::Write));
        let received = sent.and_then(|()| ours.take(ANSWER_MAX + 1).read_to_end(&mut answer));
        reap::end(&child);
        received?;
        Ok(A::from_wire(&answer).map_err(|_| "the process that reads it ended without an answer")?)
    }

    fn age_key(&self) -> Result<Vec<u8>, Problem> {
        let (vault, shown) = (&self.vault, self.vault.age_key.display().to_string());
        let parents = real(vault.age_key.parent()).map_err(|why| NoSecret::Shortage(why).into_problem(&shown))?;
        let path = parents.first().zip(vault.age_key.file_name()).map(|(dir, name)| dir.join(name));
        let opened = path.map_or(Ok(None), |path| vault.open(&path, SECRET)).map_err(|why| why.into_problem(&shown))?;
        let help = format!("run `age-keygen -o {shown}` as root, then `chmod 0400 {shown}`");
        read(&shown, opened.ok_or_else(|| problem(&shown, "there is no key for the secrets beside functions", help))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Myself;
    use crate::process::clone;
    use fnd_wire::frame::ExitStatus;
    use fnd_wire::plan::Credentials;
    use rustix::process::{Resource, Rlimit, setrlimit};
    use std::os::fd::AsRawFd as _;
    use std::path::PathBuf;

    #[test]
    fn a_shortage_is_no_missing_secret() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("app.yaml"), "kind: Secret").unwrap();
        let vault = Vault::new(&dir.path().join("fnd.toml"), None, Myself::current());
        let (program, dirs, credentials) = (PathBuf::new(), vec![dir.path().to_owned()], Credentials::default());
        let gatherer = Gatherer { vault, program, root: false, dirs, credentials, key: [0; 32] };
        let child = clone::fork(None, false, 0, || {
            // One descriptor is free: listing the directory needs it, so there is none for the file.
            let free = File::open("/dev/null").unwrap().as_raw_fd();
            let limit = Some(free.cast_unsigned().into()).map(|free: u64| free + 1);
            setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
            match gatherer.in_manifests("app.password") {
                Err(problem) if problem.message.contains("Too many open files") => 0,
                Err(_) => 1,
                Ok(_) => 2,
            }
        });
        assert_eq!(reap::wait(&child.unwrap()).unwrap().status, ExitStatus::Code(0));
    }
}
