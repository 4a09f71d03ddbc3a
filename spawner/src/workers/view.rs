//! Says what a function sees of the machine: the paths of its own that its sandbox has to show.

use super::*;
use crate::sandbox::accounts::Accounts;
use crate::sandbox::mounts::{Use, View};
use fnd_wire::sandbox::{Network, Profile, Sandbox};

impl Host {
    /// Returns a function's view of the machine; none if it has no sandbox at all.
    pub(super) fn view(
        &self,
        (dirs, version, function): (&FunctionPlaces, Version, FunctionId),
        (plan, sandbox): (&Plan, Sandbox),
        (identity, user): (Option<&Identity>, &str),
        has_credentials: bool,
    ) -> Option<View> {
        let bare = !has_credentials && sandbox.network == Network::Host;
        if bare && (sandbox.profile, sandbox.syscalls) == (Profile::Off, Profile::Off) {
            return None;
        }
        let tree = fs::canonicalize(dirs.version(&version).join("deps")).ok();
        let read = [dirs.version(&version), dirs.credentials.clone(), dirs.bindings.clone()].into_iter().chain(tree);
        let write = [dirs.home.clone(), dirs.cache.clone(), dirs.tmp.clone(), self.places.http()];
        let api = plan.calls().then(|| self.places.api(function));
        let facts = Facts::default();
        let read = read.chain(api).chain(self.tools(&facts)).map(|path| (path, Use::Read));
        let own = Identity { uid: self.myself.uid, gid: self.myself.gid, groups: Vec::new() };
        let identity = identity.unwrap_or(&own);
        Some(View {
            root: self.places.root(),
            own: vec![self.places.state.clone(), self.places.run.clone()],
            runs: Some(dirs.tmp.clone()).filter(|_| self.private_mounts),
            shown: read.chain(write.into_iter().map(|path| (path, Use::Write))).collect(),
            accounts: Accounts::of(sandbox.profile, user, identity, &plan.groups, &dirs.home),
            sandbox,
            given: None,
        })
    }
}
