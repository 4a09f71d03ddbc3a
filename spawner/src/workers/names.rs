//! Gives functions' users names on the machine, by records in `/run/userdb` that nss-systemd(8) reads.
//!
//! `NAME.user` and `NAME.group` are files, `UID.user` and `GID.group` links to them. A record is made when its function
//! is installed, and removed with the function. It never replaces another one, and none is made for a name or number
//! that `/etc/passwd` or `/etc/group` has, so no function can become another user by its name.

use super::*;
use fnd_wire::accounts;
use std::os::unix::fs::symlink;

/// The directory of records.
pub struct UserNames(PathBuf);

impl UserNames {
    /// Uses a directory, which only root may change, and removes the records that an earlier spawner left there.
    ///
    /// # Errors
    /// Why the directory can't be used, for people.
    pub fn open(dir: PathBuf) -> Result<Self, String> {
        let shown = format!("use `{}`", dir.display());
        crate::places::make(&dir, 0o755).failed(&shown)?;
        if let Some(bad) = crate::policy::insecure_above(&dir, &[0]) {
            return Err(format!("failed to {shown}: users other than root can change `{}`", bad.display()));
        }
        let ours = |path: &PathBuf| {
            let target = fs::read_link(path).unwrap_or_else(|_| path.file_name().unwrap_or_default().into());
            target.to_str().is_some_and(|name| name.starts_with(accounts::PREFIX))
        };
        for entry in crate::places::entries(&dir).failed(&shown)?.iter().map(fs::DirEntry::path).filter(ours) {
            fs::remove_file(entry).failed(&shown)?;
        }
        Ok(Self(dir))
    }

    /// Returns the name of a function's own user, and makes its records if they are missing; none if it can't have a
    /// name, which is logged.
    pub fn give(&self, function: &FunctionName, id: u32, home: &Path) -> Option<String> {
        let name = accounts::user_name(function);
        let records = accounts::records(function, id, home.to_str().unwrap_or_default());
        let made = records.ok_or_else(|| format!("no name is possible for {id} and `{}`", home.display()));
        let named = |records| self.record(&name, id, records).failed(&format!("name the user {id} `{name}`"));
        made.and_then(named).map_err(|why| crate::log!("function {function}: {why}")).ok().map(|()| name)
    }

    fn record(&self, name: &str, id: u32, (user, group): (String, String)) -> io::Result<()> {
        for (kind, text, known) in [("user", user, "/etc/passwd"), ("group", group, "/etc/group")] {
            let (file, link) = (format!("{name}.{kind}"), self.0.join(format!("{id}.{kind}")));
            let (path, fresh) = (self.0.join(&file), self.0.join(format!("{name}.new")));
            if fs::read_to_string(&path).is_ok_and(|found| found == text)
                && fs::read_link(&link).is_ok_and(|found| found == Path::new(&file))
            {
                continue;
            }
            if accounts::is_taken(&fs::read_to_string(known)?, name, id) {
                return Err(io::Error::other(format!("`{known}` has that name or number")));
            }
            crate::install::write(&fresh, text.as_bytes(), 0o644)?;
            let placed = fs::hard_link(&fresh, &path).and_then(|()| symlink(&file, link)); // both only if they are new
            fs::remove_file(fresh)?;
            placed?;
        }
        Ok(())
    }

    /// Removes the records of a function's user.
    pub fn remove(&self, function: &FunctionName, id: u32) {
        let name = accounts::user_name(function);
        for kind in ["user", "group"] {
            let (file, link) = (format!("{name}.{kind}"), self.0.join(format!("{id}.{kind}")));
            // Another function's records stay, if the names are the same.
            if fs::read_link(&link).is_ok_and(|found| found == Path::new(&file)) {
                let _ = fs::remove_file(link).and_then(|()| fs::remove_file(self.0.join(file))); // the next start tries again
            }
        }
    }
}
