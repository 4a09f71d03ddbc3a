//! Opens secrets that lie encrypted beside a function (`NAME.age`), and has `fnd --decrypt` decrypt them: a child without
//! user, files or network, so that nothing that reads such files runs as root.
//!
//! All of this runs in the helper that gathers secrets. It ends right afterwards, so the kernel clears its memory.

use crate::clone::Place;
use crate::credentials::read;
use crate::judge;
use crate::policy::problem;
use crate::vault::{ENCRYPTED, SECRET, Vault};
use fnd_wire::decrypt::{ANSWER_MAX, Decrypted, Encrypted};
use fnd_wire::form::{Bytes, Wire as _};
use fnd_wire::frame::Problem;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long the child may let its helper wait; decrypting takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is needed to decrypt the secrets of a function.
pub struct Decrypter {
    /// The program fnd.
    pub program: PathBuf,
    /// Whether the child can have a user of its own.
    pub root: bool,
    /// The directories that may have secrets of the function.
    pub dirs: Vec<PathBuf>,
}

impl Decrypter {
    /// Returns a secret that lies encrypted beside the function; none if there is none. The name is one of a secret.
    ///
    /// # Errors
    /// Why it can't be opened or decrypted.
    pub fn secret(&self, vault: &Vault, name: &str) -> Result<Option<Vec<u8>>, Problem> {
        for dir in self.dirs.iter().filter_map(|dir| fs::canonicalize(dir).ok()) {
            let path = dir.join(format!("{name}.age"));
            let shown = path.display().to_string();
            let opened = vault.open(&path, ENCRYPTED).map_err(|why| why.into_problem(&shown))?;
            let Some(opened) = opened else { continue };
            let (text, key) = (Bytes(read(&shown, opened)?), Bytes(key(vault)?));
            let failed = |why| problem(&shown, format!("failed to decrypt it: {why}"), "reload fnd");
            let answer = self.ask(&Encrypted { key, text }.to_wire()).map_err(failed)?;
            let refused = |(message, help)| problem(&shown, message, help);
            return answer.value(&vault.age_key.display().to_string()).map(Some).map_err(refused);
        }
        Ok(None)
    }

    fn ask(&self, question: &[u8]) -> Result<Decrypted, Box<dyn std::error::Error>> {
        let (mut ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        ours.set_write_timeout(Some(PATIENCE))?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let place = Place { cgroup: None, stdio: [theirs.as_fd(), null.as_fd(), null.as_fd()], channel: None };
        let child = judge::start(&judge::image(&self.program)?, vec![c"--decrypt".to_owned()], self.root, place)?;
        drop(theirs);
        let mut answer = Vec::new();
        let sent = ours.write_all(question).and_then(|()| ours.shutdown(Shutdown::Write));
        let received = sent.and_then(|()| ours.take(ANSWER_MAX + 1).read_to_end(&mut answer));
        child.signal(Signal::KILL);
        let _ = crate::reap::wait(&child);
        received?;
        Ok(Decrypted::from_wire(&answer).map_err(|_| "the process that decrypts ended without an answer")?)
    }
}

/// Reads the key.
fn key(vault: &Vault) -> Result<Vec<u8>, Problem> {
    let shown = vault.age_key.display().to_string();
    let parent = vault.age_key.parent().and_then(|dir| fs::canonicalize(dir).ok());
    let real = parent.zip(vault.age_key.file_name()).map(|(dir, name)| dir.join(name));
    let opened = real.map_or(Ok(None), |real| vault.open(&real, SECRET)).map_err(|why| why.into_problem(&shown))?;
    let help = format!("run `age-keygen -o {shown}` as root, then `chmod 0400 {shown}`");
    read(&shown, opened.ok_or_else(|| problem(&shown, "there is no key for the secrets beside functions", help))?)
}
