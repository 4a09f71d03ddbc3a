//! Builds the command line and the environment of a function's process from its plan, and fills in the values that
//! the judge can't know. Says what a function sees of the machine: the paths of its own that its sandbox has to show.

use super::*;
use crate::sandbox::mounts::{MountView, Use};
use crate::stat_cache::real;
use fnd_wire::plan::{INSTEAD, PlanText, WATCHED};
use fnd_wire::sandbox::{Network, Sandbox};

/// The placeholders of a plan's templates (`{code}` and the like), each with its value.
pub type Values = [(&'static str, String)];

/// Command line and environment.
type EnvironmentLines = (Vec<Bytes>, Vec<Bytes>);

/// Returns command line and environment of a version's watcher; nothing if the version watches no files.
pub fn of_watcher(plan: &Plan, helper: &Path) -> Option<EnvironmentLines> {
    let (name, rules) = plan.environment.iter().find(|(name, _)| name == WATCHED)?;
    let argv = [helper.as_os_str().as_encoded_bytes(), b"--watch"].map(|argument| Bytes(argument.to_vec()));
    Some((argv.into(), vec![Bytes(format!("{name}={}", rules.text).into_bytes())]))
}

/// Returns command line and environment of the program that measures a function's home and cache.
pub fn of_measurement([helper, home, cache]: [&Path; 3]) -> EnvironmentLines {
    let argv = [helper, Path::new("--measure"), home, cache];
    (argv.map(|argument| Bytes(argument.as_os_str().as_encoded_bytes().to_vec())).into(), Vec::new())
}

/// Returns command line and environment of an attempt. A variable in `given` replaces the plan's variable of the same name, except for
/// `HTTP_*`: callers choose those, and a caller must not replace what the author has set.
pub fn lines(plan: &Plan, values: &Values, mut given: Vec<(String, Bytes)>) -> EnvironmentLines {
    given.retain(|(name, _)| !name.starts_with("HTTP_") || plan.environment.iter().all(|(own, _)| own != name));
    let filled = |text: &PlanText| Bytes(fill(text, values).into_bytes());
    let entry = PlanText { text: "{entry}".to_owned(), template: true };
    let program = plan.interpreters.first().map_or_else(|| filled(&entry), |path| Bytes(path.clone().into_bytes()));
    let instead = plan.argv.first().is_some_and(|first| first.template && first.text == INSTEAD);
    let all = [program].into_iter().chain(plan.argv.iter().map(filled));
    // The first two are the interpreter and the placeholder itself: the program takes the place of both.
    let argv = all.skip(if instead { 2 } else { 0 }).collect();
    let is_own = |name: &str| name != WATCHED && given.iter().all(|(found, _)| found != name);
    let own = plan.environment.iter().filter(|(name, _)| is_own(name));
    let all: Vec<_> = own.map(|(name, text)| (name.clone(), filled(text))).collect();
    let line = |(name, value): (String, Bytes)| Bytes([name.as_bytes(), b"=", &value.0].concat());
    (argv, all.into_iter().chain(given).map(line).collect())
}

/// Replaces the placeholders one after the other. No value can hold a placeholder, since names are checked.
fn fill(text: &PlanText, values: &Values) -> String {
    let values = if text.template && text.text.contains('{') { values } else { &[] };
    values.iter().fold(text.text.clone(), |filled, (name, value)| filled.replace(name, value))
}

/// Returns the name of the machine's time zone, as `TZ` takes it: from `/etc/localtime`, else `UTC`.
pub fn machine_zone() -> String {
    let target = std::fs::canonicalize("/etc/localtime").unwrap_or_default();
    // On some machines the file is a copy and no link, and then the name of its zone is not known.
    let name = target.to_str().and_then(|path| path.split_once("zoneinfo/")).map(|(_, name)| name);
    name.unwrap_or("UTC").to_owned()
}

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
        let own = Identity { uid: self.myself.uid, gid: self.myself.gid, ..Identity::default() };
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
