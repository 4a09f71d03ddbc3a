//! Records what the files of each function claim: whose word they are, and which rights they asked for when the spawner last
//! read them. If an installed version asks for another user or more groups, it may not start: the owner of the files has
//! withdrawn the request. A stored version is installed only as long as files of the same trust claim the function's name and
//! ask for no less than that version.

use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{FunctionJudgment, Plan, PlannedBuild, User};
use fnd_wire::sandbox::{Profile, Sandbox};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// How long in seconds a file may differ from the state that was read: fnd asks to install a changed file within a few
/// seconds.
const CHANGED_MAX: i64 = 10;

/// The values that distinguish one state of a file from another.
type GrantStamp = (u64, u64, u64, i64, i64, i64, i64);

/// Files, each with its state.
pub type Stamps = Vec<(PathBuf, GrantStamp)>;

/// Returns the values that distinguish one state of a file from another.
pub fn stamp(meta: &std::fs::Metadata) -> GrantStamp {
    let changed = (meta.ctime(), meta.ctime_nsec());
    (meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec(), changed.0, changed.1)
}

/// The rights of functions.
#[derive(Default)]
pub struct Grants {
    /// Users and groups; only functions that ask for some are listed.
    users: BTreeMap<FunctionName, Grant>,
    claims: BTreeMap<FunctionName, Claimed>,
}

/// The claim of a function's files to its name.
pub struct Claimed {
    /// Whose word they are ([`trust`](crate::install::Snapshot::trust)).
    pub trust: String,
    /// Path of the code.
    pub place: PathBuf,
    /// The rights that they ask for. Absent: the files can't be judged; this withdraws nothing.
    pub rights: Option<Rights>,
}

/// Rights that only files of root may ask for, besides users and groups.
#[derive(Debug, Default)]
pub struct Rights {
    /// Present if it gives more than the strictest one.
    sandbox: Option<Box<Sandbox>>,
    calls: bool,
    secrets: BTreeSet<String>,
    bindings: BTreeSet<String>,
}

impl Rights {
    /// Returns the rights that a judged function asks for, with the secrets that its routes name; absent if the judge has refused it.
    pub fn of(judged: &FunctionJudgment, build: Option<&PlannedBuild>) -> Option<Self> {
        let (plan, sandbox) = judged.verdict.plan.as_ref().zip(judged.sandbox.as_ref())?;
        let of_build = build.iter().flat_map(|build| &build.credentials.secrets);
        let mapped = judged.credentials.secrets.iter().chain(of_build).map(|mapped| &mapped.secret);
        let sandbox = sandbox.widens(Profile::Strict).map(|_| Box::new(sandbox.clone()));
        let secrets = mapped.chain(&judged.secrets).cloned().collect();
        let bindings = judged.credentials.bindings.iter().cloned().collect();
        Some(Self { sandbox, calls: plan.calls(), secrets, bindings })
    }

    /// Returns the first key of a manifest with which these rights are more than other ones.
    fn exceeds(&self, other: &Self) -> Option<&'static str> {
        let sandbox = self.sandbox.as_ref().and_then(|mine| match &other.sandbox {
            Some(theirs) => mine.exceeds(theirs),
            None => mine.widens(Profile::Strict),
        });
        let exceeds = [
            (!self.secrets.is_subset(&other.secrets), "secrets"),
            (!self.bindings.is_subset(&other.bindings), "bindings"),
            (self.calls && !other.calls, "access"),
        ];
        exceeds.into_iter().find_map(|(exceeds, key)| exceeds.then_some(key)).or(sandbox)
    }
}

struct Grant {
    user: User,
    groups: Vec<String>,
    files: Stamps,
}

fn asks(plan: &Plan) -> bool {
    plan.user != User::Own || !plan.groups.is_empty()
}

impl Grants {
    /// Records the judge's plan for a function whose files were just read. None: the judge refused the files; this
    /// withdraws nothing.
    pub fn judged(&mut self, function: &FunctionName, plan: Option<&Plan>, files: Stamps) {
        match plan {
            None => drop(self.users.get_mut(function).map(|grant| grant.files = files)),
            Some(plan) if asks(plan) => {
                let grant = Grant { user: plan.user.clone(), groups: plan.groups.clone(), files };
                self.users.insert(function.clone(), grant);
            }
            Some(_) => drop(self.users.remove(function)),
        }
    }

    /// Records the claim of files that were just read.
    pub fn claimed(&mut self, function: &FunctionName, claim: Claimed) {
        // The rights that files of another owner have asked for end with these files.
        let before = self.claims.remove(function).filter(|before| before.trust == claim.trust);
        let rights = claim.rights.or_else(|| before.and_then(|before| before.rights));
        self.claims.insert(function.clone(), Claimed { rights, ..claim });
    }

    /// Forgets a function that was removed.
    pub fn forget(&mut self, function: &FunctionName) {
        self.users.remove(function);
        self.claims.remove(function);
    }

    /// Checks whether a stored version of this trust may be installed with these rights.
    ///
    /// # Errors
    /// Why it may not, for people.
    pub fn stands(&self, function: &FunctionName, trust: &str, rights: &Rights) -> Result<(), String> {
        // A file that is gone claims nothing, also if fnd has not said so.
        let claim = self.claims.get(function).filter(|claim| std::fs::symlink_metadata(&claim.place).is_ok());
        let claim =
            claim.ok_or_else(|| format!("the stored release can't be used: no file is function `{function}`"))?;
        if claim.trust != trust {
            return Err(
                "the stored release can't be used: the file of this function belongs to somebody else now".to_owned()
            );
        }
        let Some(key) = claim.rights.as_ref().and_then(|now| rights.exceeds(now)) else { return Ok(()) };
        Err(format!("the stored release asks for `{key}`, and the file of this function no longer does"))
    }

    /// Checks whether a version may still have the user and the groups that it asks for.
    ///
    /// # Errors
    /// Why it may not, for people.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        if !asks(plan) {
            return Ok(());
        }
        let has_groups = |grant: &Grant| plan.groups.iter().all(|group| grant.groups.contains(group));
        let grant = self.users.get(&plan.function).filter(|grant| grant.user == plan.user && has_groups(grant));
        let grant = grant.ok_or("this version may not start: its files no longer ask for that user")?;
        still(&grant.files).map_err(|why| format!("this version may not start with another user: {why}"))
    }
}

/// Checks that files are as they were when they were read. A recent change counts as none.
///
/// # Errors
/// Which file is not, for people.
pub fn still(files: &Stamps) -> Result<(), String> {
    for (path, before) in files {
        let shown = path.display();
        let meta = std::fs::metadata(path).map_err(|_| format!("its files no longer exist (`{shown}`)"))?;
        let since = crate::clock::unix_ms().cast_signed() / 1000 - meta.ctime();
        // A change in the future is not a recent one: then somebody has set the clock.
        if stamp(&meta) != *before && !(0..=CHANGED_MAX).contains(&since) {
            return Err(format!("`{shown}` has changed since fnd read it; reload fnd"));
        }
    }
    Ok(())
}
