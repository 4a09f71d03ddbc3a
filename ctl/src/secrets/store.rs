//! The directory of the files. A file is complete or not there: it is written beside its place, synced and renamed.

use crate::exit::{CommandFailure, Exit};
use crate::secrets::{checked, write};
use fnd_wire::trust::is_secret;
use jiff::Timestamp;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The treatment of a value that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnExisting {
    /// It stays: the new one is refused.
    New,
    /// Its first line becomes the second.
    Rotate,
    /// It goes.
    Replace,
}

/// A file without its value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredSecret {
    pub(crate) changed_at: String,
    /// The class of its size: the size itself says too much of a password.
    pub(crate) size: String,
}

/// Returns what may be said of a file; none if it is not a regular file.
pub(crate) fn about(meta: &fs::Metadata) -> Option<StoredSecret> {
    let changed = meta.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
    meta.is_file().then(|| StoredSecret {
        changed_at: changed.unwrap_or_default().to_string(),
        size: class(meta.len()).to_owned(),
    })
}

/// The secrets of one fnd.
#[derive(Debug)]
pub(crate) struct SecretStore(PathBuf);

impl SecretStore {
    /// Returns the store beside a configuration file.
    pub(crate) fn beside(config: &Path) -> Self {
        Self(config.with_file_name("secrets"))
    }

    /// Returns the path of a secret.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the secrets by name.
    ///
    /// # Errors
    /// The directory can't be read.
    pub(crate) fn list(&self) -> Result<Vec<(String, StoredSecret)>, CommandFailure> {
        let failed = |error| failed(&error, "read", &self.0);
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().into_string().unwrap_or_default();
            let meta = entry.metadata().map_err(failed)?;
            if meta.is_file() && is_secret(&name) {
                found.extend(about(&meta).map(|about| (name, about)));
            }
        }
        Ok(found)
    }

    /// Stores a value.
    ///
    /// # Errors
    /// The name is not one, there is a value already, or it can't be written.
    pub(crate) fn write(&self, name: &str, value: &[u8], how: OnExisting) -> Result<(), CommandFailure> {
        let old = self.read(name)?;
        let mut lines = Zeroizing::new(value.to_vec());
        match (how, old) {
            (OnExisting::New, Some(_)) => {
                let message = format!("there is a secret `{name}` already");
                let help = "--rotate makes a new value and keeps the old one valid, --force replaces it";
                return Err(CommandFailure::usage(message).help(help));
            }
            (OnExisting::Rotate, Some(old)) => {
                // The line end of the new value would become an empty line between the two values.
                while lines.pop_if(|byte| b"\r\n".contains(byte)).is_some() {}
                if lines.contains(&b'\n') {
                    return Err(CommandFailure::usage(
                        "--rotate keeps one old line beside one new line, and the value has more",
                    ));
                }
                // Of two old values the first one is the newer, which the sender uses now.
                let first = old
                    .split(|byte| *byte == b'\n')
                    .find(|line| !line.is_empty())
                    .unwrap_or_default();
                lines.push(b'\n');
                lines.extend_from_slice(first);
                lines.push(b'\n');
            }
            _ => {}
        }
        self.replace(name, &lines)
    }

    /// Adds the line of a user, or replaces it. With `force`, lines that are no user's go: with them, the secret admits nobody.
    ///
    /// # Errors
    /// The user is there already, a line is no user's, or the file can't be written.
    pub(crate) fn add_user(&self, name: &str, user: &str, hash: &str, force: bool) -> Result<(), CommandFailure> {
        if user.is_empty() || user.contains(|c: char| c == ':' || c.is_control()) {
            return Err(CommandFailure::usage(
                "the name of a user has no colon and no control characters",
            ));
        }
        let old = self.read(name)?.unwrap_or_default();
        let own = |line: &&[u8]| {
            line.strip_prefix(user.as_bytes())
                .is_some_and(|rest| rest.starts_with(b":"))
        };
        let lines = || old.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        if !force && lines().any(|line| own(&line)) {
            let message = format!("`{name}` has the user `{user}` already");
            return Err(CommandFailure::usage(message).help("--force replaces the password"));
        }
        let is_bad = |line: &[u8]| !line.is_empty() && !is_of_users(line);
        if !force && let Some(number) = old.split(|byte| *byte == b'\n').position(is_bad) {
            let message = format!(
                "`{name}` is no secret for `auth = \"basic:...\"`: its line {} is not `user:password-hash`",
                number + 1
            );
            return Err(CommandFailure::usage(message).help("choose another name; --force removes such lines"));
        }
        let mut text = Zeroizing::new(Vec::new());
        for line in lines().filter(|line| !own(line) && is_of_users(line)) {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        text.extend_from_slice(format!("{user}:{hash}\n").as_bytes());
        self.replace(name, &text)
    }

    /// Removes a secret.
    ///
    /// # Errors
    /// There is none, or it can't be removed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), CommandFailure> {
        let path = checked(&self.0, "secret", name)?;
        fs::remove_file(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CommandFailure::new(Exit::NoSuchThing, format!("there is no secret `{name}`")),
            _ => failed(&error, "remove", &path),
        })
    }

    fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, CommandFailure> {
        let path = checked(&self.0, "secret", name)?;
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(Zeroizing::new(bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&error, "read", &path)),
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), CommandFailure> {
        let path = checked(&self.0, "secret", name)?;
        let written = || {
            if !self.0.exists() {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
            }
            write::whole(&path, bytes, 0o400)?;
            // The new name is on the disk only when the directory is synced, too.
            File::open(&self.0)?.sync_all()
        };
        written().map_err(|error| failed(&error, "write", &path))
    }
}

/// Says whether a line of a secret is a comment or a user with a password hash, which begins with `$`.
fn is_of_users(line: &[u8]) -> bool {
    let hash = line.iter().position(|byte| *byte == b':').filter(|at| *at > 0);
    line.starts_with(b"#") || hash.is_some_and(|at| line.get(at + 1) == Some(&b'$'))
}

fn failed(error: &io::Error, what: &str, path: &Path) -> CommandFailure {
    let message = format!("failed to {what} `{}`: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => CommandFailure::new(Exit::NotAllowed, message)
            .help("secrets are root's: run it with sudo (your own fnd: --user)"),
        _ => CommandFailure::failed(message),
    }
}

fn class(bytes: u64) -> &'static str {
    match bytes {
        0..16 => "under 16 B",
        16..1024 => "under 1 KiB",
        _ => "over 1 KiB",
    }
}

#[cfg(test)]
mod tests {
    use crate::secrets::store::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn text(store: &SecretStore, name: &str) -> String {
        fs::read_to_string(store.path(name)).unwrap()
    }

    #[test]
    fn a_value_is_stored_rotated_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let store = SecretStore::beside(&dir.path().join("fnd.toml"));
        assert_eq!(store.list().unwrap(), []);
        store.write("hook", b"one", OnExisting::New).unwrap();
        assert_eq!(text(&store, "hook"), "one");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&dir.path().join("secrets")), mode(&store.path("hook"))),
            (0o700, 0o400)
        );
        let refused = store.write("hook", b"two", OnExisting::New).unwrap_err();
        assert!(refused.help.unwrap().contains("--rotate"));
        store.write("hook", b"two\n", OnExisting::Rotate).unwrap();
        assert_eq!(text(&store, "hook"), "two\none\n");
        store.write("hook", b"three", OnExisting::Rotate).unwrap();
        assert_eq!(text(&store, "hook"), "three\ntwo\n");
        assert!(store.write("hook", b"a\nb", OnExisting::Rotate).is_err());
        store.write("hook", b"four\n", OnExisting::Replace).unwrap();
        assert_eq!(text(&store, "hook"), "four\n");
        let names: Vec<String> = store.list().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["hook"]);
        store.remove("hook").unwrap();
        assert_eq!(store.remove("hook").unwrap_err().exit, Exit::NoSuchThing);
        for name in ["", "..", ".x", "a/b", "../fnd.toml"] {
            assert_eq!(
                store.write(name, b"x", OnExisting::Replace).unwrap_err().exit,
                Exit::Usage,
                "{name}"
            );
            assert_eq!(store.remove(name).unwrap_err().exit, Exit::Usage, "{name}");
        }
        assert_eq!(fs::read_dir(dir.path().join("secrets")).unwrap().count(), 0);
    }

    #[test]
    fn users_have_a_line_each() {
        let dir = tempfile::tempdir().unwrap();
        let store = SecretStore::beside(&dir.path().join("fnd.toml"));
        store.add_user("staff", "ada", "$H1", false).unwrap();
        store.add_user("staff", "adam", "$H2", false).unwrap();
        assert_eq!(text(&store, "staff"), "ada:$H1\nadam:$H2\n");
        assert!(store.add_user("staff", "ada", "$H3", false).is_err());
        store.add_user("staff", "ada", "$H3", true).unwrap();
        assert_eq!(text(&store, "staff"), "adam:$H2\nada:$H3\n");
        for user in ["", "a:b", "a\nb"] {
            assert!(store.add_user("staff", user, "$H", true).is_err(), "{user:?}");
        }
        for line in ["s3cret", "bob:plain", ":$H"] {
            let old = format!("# of the shop\n{line}\nadam:$H2\n");
            store.write("staff", old.as_bytes(), OnExisting::Replace).unwrap();
            let refused = store.add_user("staff", "ada", "$H1", false).unwrap_err();
            assert!(refused.message.contains("line 2"), "{line}: {}", refused.message);
            store.add_user("staff", "ada", "$H1", true).unwrap();
            assert_eq!(text(&store, "staff"), "# of the shop\nadam:$H2\nada:$H1\n", "{line}");
        }
    }
}
