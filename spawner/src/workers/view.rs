//! Says what a function sees of the machine: the paths of its own that its sandbox has to show.

use super::*;
use crate::sandbox::mounts::{MountView, Use};
use crate::stat_cache::real;
use fnd_wire::sandbox::{Network, Profile, Sandbox};

impl Host {
    /// Returns a function's view of the machine; none if it has no sandbox at all.
    ///
    /// # Errors
    /// If the machine has run out of something.
    pub(super) fn view(
        &self,
        (dirs, version, function): (&FunctionPlaces, Version, FunctionId),
        (plan, sandbox): (&Plan, Sandbox),
        (identity, user): (Option<&Identity>, &str),
        has_credentials: bool,
    ) -> io::Result<Option<MountView>> {
        // Secrets are mounted in profile off, too.
        let bare = !has_credentials && sandbox.network == Network::Host;
        if bare && (sandbox.profile, sandbox.syscalls) == (Profile::Off, Profile::Off) {
            return Ok(None);
        }
        let tree = real([dirs.version(&version).join("deps")])?;
        let read = [dirs.version(&version), dirs.credentials.clone(), dirs.bindings.clone()].into_iter().chain(tree);
        let write = [dirs.home.clone(), dirs.cache.clone(), dirs.tmp.clone(), self.places.http()];
        let api = plan.calls().then(|| self.places.api(function));
        let read = read.chain(api).chain(self.tools(&StatCache::default())?).map(|path| (path, Use::Read));
        let own = Identity { uid: self.myself.uid, gid: self.myself.gid, groups: Vec::new() };
        let identity = identity.unwrap_or(&own);
        let own = unseen([&self.places.state, &self.places.run], &self.args.functions)?;
        let runs = Some(dirs.tmp.clone()).filter(|_| self.own_mounts);
        let shown = read.chain(write.into_iter().map(|path| (path, Use::Write))).collect();
        let accounts = crate::sandbox::accounts::of(sandbox.profile, user, identity, &plan.groups, &dirs.home);
        Ok(Some(MountView { sandbox, root: self.places.root(), own, shown, runs, accounts, secrets: None }))
    }
}

/// Returns the directories that no function sees: fnd's own, and those with the code of all functions. A function's own code is
/// a copy elsewhere.
fn unseen(own: [&PathBuf; 2], functions: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let functions = real(functions)?.into_iter();
    // Without the root directory nothing would be there.
    Ok(own.into_iter().cloned().chain(functions.filter(|dir| dir.parent().is_some())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directories_of_functions_are_hidden_wherever_they_are() {
        let [state, run] = ["/var/lib/fnd", "/run/fnd"].map(PathBuf::from);
        let functions = ["/usr/lib/../lib", "/", "/nowhere"].map(PathBuf::from);
        let lib = fs::canonicalize("/usr/lib").unwrap();
        assert_eq!(unseen([&state, &run], &functions).unwrap(), [state.clone(), run.clone(), lib]);
    }
}
