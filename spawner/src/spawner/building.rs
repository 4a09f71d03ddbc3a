//! Dependencies: finds the tree of a function, and installs the version of fnd's own function that builds it.

use super::*;
use crate::install::{Purpose, read_report, write_report};
use crate::trees;
use fnd_wire::frame::{NeedsBuild, PROTOCOL_BUILDS};
use fnd_wire::plan::{Build, CHECK, FunctionAndSandbox, OFFLINE, Plan};
use fnd_wire::sandbox::Sandbox;
use sha2::{Digest as _, Sha256};

/// The tree of a function, or the version that builds it.
pub(super) type Tree = Result<Version, Box<Installed>>;

/// Returns the hash of all that decides what a build does, but not of its limits: a tree stays good when those change.
fn digest(plan: &Plan, sandbox: &Sandbox) -> Version {
    let environment: Vec<_> = plan.environment.iter().filter(|(name, _)| name != OFFLINE).cloned().collect();
    Version(Sha256::digest(((plan.argv.clone(), environment), sandbox.clone()).to_wire()).into())
}

impl Spawner {
    /// Goes on with a function whose code comes from a source: with the code, or by having it fetched.
    pub(super) fn fetch(&mut self, mut snapshot: Snapshot, function: FunctionAndSandbox, build: Build) {
        let document = function.function.verdict.document.clone();
        let found = match self.tree(&mut snapshot, build, true) {
            Ok(Err(build)) => return self.needs_build(snapshot, document, *build),
            Ok(Ok(tree)) => snapshot.add_source(tree, &self.workers.host().places).map_err(|problem| vec![problem]),
            Err(problems) => Err(problems),
        };
        match found {
            Ok(()) => self.copy(snapshot),
            Err(problems) => self.refuse_judged(snapshot, function, problems),
        }
    }

    /// Returns the tree of a function's dependencies, or of its code. If there is none, or an old one of code, the version
    /// that builds it is installed.
    pub(super) fn tree(
        &mut self,
        snapshot: &mut Snapshot,
        build: Build,
        is_source: bool,
    ) -> Result<Tree, Vec<Problem>> {
        let (given, shown) = (snapshot.given.take(), snapshot.shown.clone());
        let one = |why: &str, help: &str| vec![problem(&shown, why, help)];
        if self.protocol < PROTOCOL_BUILDS {
            return Err(one("it has dependencies, and this fnd is older than fnd-spawner", "restart fnd"));
        }
        let Build { plan, sandbox, document, inputs, made, credentials: _, fresh_for } = build;
        let digest = digest(&plan, &sandbox);
        let staging = self.workers.host().places.state.join(format!("versions/.new-build-{}", self.snapshots));
        let unread = |error: io::Error| one(&format!("failed to read it: {error}"), "try again");
        // A check leaves no tree.
        let is_check = snapshot.purpose == Purpose::Check && !is_source;
        let own = if is_check { FunctionName::new(CHECK).expect("a name") } else { trees::builder() };
        let inner = snapshot.of_build(own, &inputs, made, staging).map_err(unread)?;
        let (mut planned, mut installed, group) = self.install(&inner, (plan, sandbox), [Some(digest), None])?;
        planned.1.1 = given.is_some(); // the digest is no digest of secrets
        installed.document = document;
        let places = &self.workers.host().places;
        let again = snapshot.purpose == Purpose::Rebuild;
        if !is_source {
            let of = trees::generation(places, &installed.version, again, snapshot.stored_tree());
            installed.version =
                of.map_err(|error| one(&format!("failed to begin a build: {error}"), "check the free space"))?;
        }
        let tree = installed.version;
        let is_there = match is_source {
            // Its time is that of the fetching. What is built anew is built of the code that is there.
            true => {
                let most = fresh_for.filter(|_| !again);
                snapshot.purpose != Purpose::Fetch && trees::is_fresh(places, &tree, most)
            }
            false => !is_check && trees::touch(places, &tree),
        };
        if is_there {
            return Ok(Ok(tree));
        }
        if !snapshot.unread.is_empty() {
            return Err(std::mem::take(&mut snapshot.unread));
        }
        let stored = inner.store(&planned, &tree, places, group);
        stored.map_err(|error| one(&format!("failed to store its build: {error}"), "check the free space"))?;
        self.workers.give(installed.id, installed.version, given);
        Ok(Err(Box::new(installed)))
    }

    /// Gives the version that builds a tree to another function that builds, so that several builds run at once.
    pub(super) fn lend(&mut self, snapshot: Snapshot) {
        let lent = snapshot.stored_plan().and_then(|(version, (mut plan, (sandbox, has_secrets)))| {
            plan.function = snapshot.install.function.clone();
            let digest = digest(&plan, &sandbox);
            let (mut planned, mut installed, group) = self.install(&snapshot, (plan, sandbox), [Some(digest), None])?;
            (planned.1.1, installed.version) = (has_secrets, version);
            Ok((planned, installed, group))
        });
        match lent {
            Ok((planned, installed, group)) => {
                let from = self.uids.id(&trees::builder());
                self.workers.lend(from, (installed.id, installed.version));
                self.store(snapshot, planned, installed, group);
            }
            Err(problems) => {
                self.refuse(snapshot.request, snapshot.install.function.clone(), problems, None);
                self.put_away(snapshot);
            }
        }
    }

    /// Answers that a function's dependencies have to be built first.
    pub(super) fn needs_build(&mut self, snapshot: Snapshot, document: Bytes, build: Installed) {
        let function = snapshot.install.function.clone();
        self.secrets.judged(&function, None, snapshot.stamps.clone());
        self.reply(snapshot.request, &Reply::NeedsBuild(NeedsBuild { function, document, build }), Vec::new());
        self.put_away(snapshot);
    }

    /// Has a helper make a tree of what a build has left, and empty the home of builds: an install script must not leave
    /// anything there for the build of another tree.
    pub(super) fn seal(&mut self, request: u32, builder: &FunctionName, tree: Option<Version>) {
        let places = self.workers.host().places.clone();
        let home = places.of(&builder.file_form()).home;
        let report = places.state.join(format!("versions/.new-seal-{request}.report"));
        let owner = fs::symlink_metadata(&home).map(|meta| (meta.uid(), meta.gid())).ok();
        let owner = owner.filter(|_| self.sources.myself.root());
        let written = report.clone();
        let body = move || {
            let sealed = tree.map_or(Ok(()), |tree| trees::seal(&places, &home, &tree, owner));
            write_report(&written, sealed.map(|()| true)) | trees::clear(&home, owner.is_some())
        };
        self.helpers.add(Lane::Write, After::Sealed(request, report), Box::new(body));
    }

    pub(super) fn sealed(&mut self, request: u32, report: &std::path::Path) {
        let why = read_report::<bool>(report).err();
        self.reply(request, &Reply::Sealed(why), Vec::new());
    }

    pub(super) fn prune_trees(&mut self, request: u32, keep: Duration) {
        let places = self.workers.host().places.clone();
        self.helpers.add(Lane::Write, After::Done(request), Box::new(move || trees::prune(&places, keep)));
    }
}
