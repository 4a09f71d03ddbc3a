//! Dependencies: finds the tree of a function, and installs the version of fnd's own function that builds it.

use super::*;
use crate::install::build_homes::BuildStart;
use crate::install::trees;
use crate::install::{Purpose, read_report, write_report};
use fnd_wire::frame::{NeedsBuild, PROTOCOL_0_1};
use fnd_wire::ids::FunctionId;
use fnd_wire::plan::{CHECK, FunctionJudgment, OFFLINE, Plan, PlannedBuild, is_builder, trust_of_builder};
use sha2::{Digest as _, Sha256};

/// The tree of a function, or the version that builds it.
pub(super) type BuiltTree = Result<Result<Version, Box<Installed>>, Vec<Problem>>;

/// Variables that fnd may give a build, besides those that begin with `FND_`: they say nothing that a build uses.
const OF_BUILDS: [&str; 4] = ["RUNTIME", "TRACEPARENT", "TRACESTATE", "B3"];

/// Returns the hash of all that decides what a build does, but not of its limits: a tree stays good when those change. The
/// trust is part of it, since nobody but root may leave a tree for the functions of root.
fn digest(plan: &Plan, sandbox: &fnd_wire::sandbox::Sandbox, trust: &str) -> Version {
    // Installed packages stay good without network, so this variable does not make another tree.
    let environment: Vec<_> = plan.environment.iter().filter(|(name, _)| name != OFFLINE).cloned().collect();
    let mut digest = Sha256::new_with_prefix(((plan.argv.clone(), environment), sandbox.clone()).to_wire());
    digest.update(trust); // empty for root, whose trees are named as before
    Version(digest.finalize().into())
}

impl Spawner {
    /// Goes on with a function whose code comes from a source: with the code, or by having it fetched.
    pub(super) fn fetch(&mut self, mut snapshot: Snapshot, function: Box<FunctionJudgment>, build: PlannedBuild) {
        let document = function.verdict.document.clone();
        let found = match self.tree(&mut snapshot, build, true) {
            Ok(Err(build)) => return self.needs_build(snapshot, document, *build),
            Ok(Ok(tree)) => snapshot.add_source(tree, &self.workers.host.places).map_err(|problem| vec![problem]),
            Err(problems) => Err(problems),
        };
        match found {
            Ok(()) => self.copy(snapshot),
            Err(problems) => self.refuse_judged(Judged { snapshot, function }, problems),
        }
    }

    /// Returns the tree of a function's dependencies, or of its code. If there is none, or an old one of code, the version
    /// that builds it is installed.
    pub(super) fn tree(&mut self, snapshot: &mut Snapshot, build: PlannedBuild, is_source: bool) -> BuiltTree {
        let (given, shown) = (std::mem::replace(&mut snapshot.given, Ok(None)), snapshot.shown.clone());
        let one = |why: &str, help: &str| vec![problem(&shown, why, help)];
        if self.protocol == PROTOCOL_0_1 {
            return Err(one("it has dependencies, and this fnd is older than fnd-spawner", "restart fnd"));
        }
        let PlannedBuild { mut plan, sandbox, document, inputs, made, credentials: _, fresh_for } = build;
        let trust = snapshot.trust(&self.sources);
        let digest = digest(&plan, &sandbox, &trust);
        let staging = self.workers.host.places.state.join(format!("versions/.new-build-{}", self.snapshots));
        let unread = |error: io::Error| one(&format!("failed to read it: {error}"), "try again");
        // A check leaves no tree.
        let is_check = snapshot.purpose == Purpose::Check && !is_source;
        let own = if is_check { FunctionName::new(CHECK).expect("a name") } else { trees::builder(&trust) };
        plan.function = own.clone();
        let inner = snapshot.of_build(own, &inputs, made, staging).map_err(unread)?;
        let (mut planned, mut installed, group) =
            self.install(&inner, (plan, sandbox), [Some(digest), None]).map_err(|problem| vec![problem])?;
        planned.1.1 = matches!(given, Ok(Some(_))); // the digest is no digest of secrets
        installed.document = document;
        let places = &self.workers.host.places;
        let again = snapshot.purpose == Purpose::Rebuild;
        if !is_source {
            let kept = snapshot.stored_tree();
            let of = kept.and_then(|kept| trees::generation(places, &installed.version, again, kept));
            installed.version =
                of.map_err(|error| one(&format!("failed to begin a build: {error}"), "check the free space"))?;
        }
        let tree = installed.version;
        let is_there = match is_source {
            // Its time is that of the fetching. What is built anew is built of the code that is there.
            true => snapshot.purpose != Purpose::Fetch && trees::is_fresh(places, &tree, fresh_for.filter(|_| !again)),
            false => !is_check && trees::touch(places, &tree),
        };
        if is_there {
            return Ok(Ok(tree));
        }
        let given = given?; // only now: a tree that is there needs no secrets
        let stored = inner.store(&planned, &tree, places, group);
        stored.map_err(|error| one(&format!("failed to store its build: {error}"), "check the free space"))?;
        self.workers.give(installed.id, installed.version, given);
        self.admit_build(&installed);
        Ok(Err(Box::new(installed)))
    }

    /// Gives the version that builds a tree to another function that builds, so that several builds run at once.
    pub(super) fn lend(&mut self, snapshot: Snapshot) {
        let trust = trust_of_builder(snapshot.install.function.as_str()).unwrap_or_default().to_owned();
        let from = self.uids.id(&trees::builder(&trust));
        let lent = snapshot.stored_plan().and_then(|(version, (mut plan, (sandbox, has_secrets)))| {
            plan.function = snapshot.install.function.clone();
            if !from.is_some_and(|from| self.build_homes.admits(from, &version)) {
                let message = "this build was not installed since fnd-spawner was started";
                return Err(problem(&snapshot.shown, message, "reload fnd"));
            }
            let digest = digest(&plan, &sandbox, &trust);
            let (mut planned, mut installed, group) = self.install(&snapshot, (plan, sandbox), [Some(digest), None])?;
            (planned.1.1, installed.version) = (has_secrets, version);
            Ok((planned, installed, group))
        });
        match lent {
            Ok((planned, installed, group)) => {
                self.workers.lend(from, (installed.id, installed.version));
                self.admit_build(&installed);
                self.store(snapshot, planned, installed, group);
            }
            Err(problem) => self.refuse_snapshot(snapshot, vec![problem], None),
        }
    }

    /// Answers that a function's dependencies have to be built first.
    pub(super) fn needs_build(&mut self, snapshot: Snapshot, document: Bytes, build: Installed) {
        let function = snapshot.install.function.clone();
        self.secrets.judged(&function, None, snapshot.stamps.clone());
        self.reply(snapshot.request, &Reply::NeedsBuild(NeedsBuild { function, document, build }), Vec::new());
        self.put_away(snapshot);
    }

    fn admit_build(&mut self, build: &Installed) {
        let name = self.uids.get(build.id).map(|(_, name)| name.file_form());
        let has_home = name.is_some_and(|name| self.workers.host.places.of(&name).home.exists());
        self.build_homes.admit(build.id, build.version, has_home);
    }

    /// Notes that a build starts, if the function is one that builds.
    ///
    /// # Errors
    /// If this build may not run there.
    pub(super) fn build_starts(&mut self, spawn: &Spawn) -> Result<(), String> {
        let function = self.uids.get(spawn.function).filter(|(_, name)| is_builder(name.as_str()));
        let Some((_, name)) = function else { return Ok(()) };
        // `FND_PARAM_*` are parameters of a path. A caller chooses them, and a build has no caller.
        let told = |(name, _): &(String, Bytes)| {
            !name.starts_with("FND_") && !OF_BUILDS.contains(&name.as_str()) || name.starts_with("FND_PARAM_")
        };
        let invocation = self.workers.host.places.of(&name.file_form()).invocation(spawn.invocation);
        let start = match spawn.input || spawn.previous || spawn.environment.iter().any(told) {
            true => BuildStart::Given,
            false if invocation.exists() => BuildStart::Again,
            false => BuildStart::First,
        };
        self.build_homes.starts(spawn.function, spawn.version, spawn.worker, start)
    }

    /// Has a helper make a tree of what a build has left, and empty the home of builds: an install script must not leave
    /// anything there for the build of another tree.
    pub(super) fn seal(&mut self, request: u64, builder: &FunctionName, tree: Option<Version>) {
        let places = self.workers.host.places.clone();
        let home = places.of(&builder.file_form()).home;
        let Some(id) = self.uids.id(builder) else {
            let why = tree.map(|_| "nothing was built there".to_owned());
            return self.reply(request, &Reply::Sealed(why), Vec::new());
        };
        let idle = self.workers.is_idle(id);
        let owner = fs::symlink_metadata(&home).map(|meta| (meta.uid(), meta.gid())).ok();
        let owner = owner.filter(|_| self.sources.myself.root());
        let Some(tree) = tree else {
            self.build_homes.clearing(id, idle);
            let after = After::Cleared(request, id, home.clone());
            return self.helpers.add(Lane::Write, after, Box::new(move || trees::clear(&home, owner.is_some())));
        };
        if let Err(why) = self.build_homes.seals(id, &tree, idle) {
            return self.reply(request, &Reply::Sealed(Some(why)), Vec::new());
        }
        let report = places.state.join(format!("versions/.new-seal-{request}.report"));
        let written = report.clone();
        let body = move || {
            let sealed = trees::seal(&places, &home, &tree, owner);
            // Clearing comes last, since it gives root's rights away. It runs also after a failed seal: `|`, not `||`.
            write_report(&written, sealed.map(|()| true)) | trees::clear(&home, owner.is_some())
        };
        self.helpers.add(Lane::Write, After::Sealed(request, id, report), Box::new(body));
    }

    pub(super) fn sealed(&mut self, request: u64, builder: FunctionId, report: &std::path::Path) {
        self.build_homes.sealed(builder);
        self.reply(request, &Reply::Sealed(read_report::<bool>(report).err()), Vec::new());
    }

    pub(super) fn prune_trees(&mut self, request: u64, keep: Duration) {
        let places = self.workers.host.places.clone();
        let unread = |error: &_| crate::log!("no unused trees are removed, since the versions can't be read: {error}");
        let prune = move || trees::prune(&places, keep).inspect_err(unread).unwrap_or(1);
        self.helpers.add(Lane::Write, After::Done(request), Box::new(prune));
    }
}
