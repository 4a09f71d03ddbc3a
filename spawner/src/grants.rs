//! Records what the files of each function claim: whose word they are, and which rights they asked for when the spawner last
//! read them. If an installed version asks for another user or more groups, it may not start: the owner of the files has
//! withdrawn the request. A stored version is installed only as long as files of the same trust claim the function's name and
//! ask for no less than that version.

use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{FunctionJudgment, Plan, PlannedBuild, User};
use fnd_wire::sandbox::{Profile, Sandbox};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

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
    /// Every function has one, so a claim is small, and a free place of the table costs three words only.
    claims: HashMap<FunctionName, Box<Claim>>,
}

/// The claim of a function's files to its name.
struct Claim {
    /// Whose word they are ([`trust`](crate::install::Snapshot::trust)).
    trust: Box<str>,
    /// Path of the code.
    place: Box<Path>,
    /// The rights that they ask for, if they could be judged.
    rights: Option<Rights>,
}

/// The keys of a manifest that ask for names; of `access` there is only the empty one. A message names the first key that
/// asks for too much.
const KEYS: [&str; 3] = ["secrets", "bindings", "access"];

/// Rights that only files of root may ask for, besides users and groups.
#[derive(Debug, Default)]
pub struct Rights {
    /// Present if it gives more than the strictest one.
    sandbox: Option<Box<Sandbox>>,
    /// Indices of [`KEYS`], each with a name; sorted, because the judge says how many there are, and nobody trusts the judge.
    asked: Box<[(usize, String)]>,
}

impl Rights {
    /// Returns the rights that a judged function asks for, with the secrets that its routes name; absent if the judge has refused it.
    pub fn of(judged: &FunctionJudgment, build: Option<&PlannedBuild>) -> Option<Self> {
        let (plan, sandbox) = judged.verdict.plan.as_ref().zip(judged.sandbox.as_ref())?;
        let of_build = build.iter().flat_map(|build| &build.credentials.secrets);
        let mapped = judged.credentials.secrets.iter().chain(of_build).map(|mapped| &mapped.secret);
        let sandbox = sandbox.widens(Profile::Strict).map(|_| Box::new(sandbox.clone()));
        let secrets = mapped.chain(&judged.secrets).map(|name| (0, name.clone()));
        let bindings = judged.credentials.bindings.iter().map(|name| (1, name.clone()));
        let access = plan.calls().then(|| (2, String::new()));
        let asked: BTreeSet<(usize, String)> = secrets.chain(bindings).chain(access).collect();
        Some(Self { sandbox, asked: asked.into_iter().collect() })
    }

    /// Returns the first key of a manifest with which these rights are more than other ones.
    fn exceeds(&self, other: &Self) -> Option<&'static str> {
        let sandbox = self.sandbox.as_ref().and_then(|mine| match &other.sandbox {
            Some(theirs) => mine.exceeds(theirs),
            None => mine.widens(Profile::Strict),
        });
        let more = self.asked.iter().find(|asked| other.asked.binary_search(asked).is_err());
        more.and_then(|(key, _)| KEYS.get(*key).copied()).or(sandbox)
    }
}

struct Grant {
    user: User,
    groups: Vec<String>,
    files: Stamps,
}

/// Returns whether a plan asks for another user than its own, for groups, or for capabilities.
pub fn asks(plan: &Plan) -> bool {
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

    /// Records the claim of files that were just read: their trust, the path of the code, and the rights that they ask for. None:
    /// the files can't be judged; this withdraws nothing.
    pub fn claimed(&mut self, function: &FunctionName, trust: &str, place: &Path, rights: Option<Rights>) {
        // The rights that files of another owner have asked for end with these files.
        let before = self.claims.remove(function).filter(|before| *before.trust == *trust);
        let rights = rights.or_else(|| before.and_then(|before| before.rights));
        self.claims.insert(function.clone(), Box::new(Claim { trust: trust.into(), place: place.into(), rights }));
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
        let unusable = |why: &str| format!("the stored release can't be used: {why}");
        let claim = claim.ok_or_else(|| unusable(&format!("no file is function `{function}`")))?;
        if *claim.trust != *trust {
            return Err(unusable("the file of this function belongs to somebody else now"));
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
        let grant = grant.ok_or("this version may not start: its files no longer ask for that user or right")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(secrets: &[&str], bindings: &[&str], calls: bool) -> Rights {
        let names = |key: usize, names: &[&str]| names.iter().map(|name| (key, (*name).to_owned())).collect::<Vec<_>>();
        let access = if calls { names(2, &[""]) } else { Vec::new() };
        let mut asked = [names(0, secrets), names(1, bindings), access].concat();
        asked.sort();
        Rights { sandbox: None, asked: asked.into() }
    }

    #[test]
    fn rights_exceed_those_that_lack_one_of_them() {
        let all = rights(&["c", "a", "b"], &["y", "x"], true);
        for (fewer, key) in [
            (Rights::default(), "secrets"),
            (rights(&["a", "c"], &["x", "y"], true), "secrets"),
            (rights(&["a", "b", "c", "d"], &["y"], true), "bindings"),
            (rights(&["a", "b", "c"], &["x", "y", "z"], false), "access"),
        ] {
            assert_eq!(all.exceeds(&fewer), Some(key));
        }
        for as_many in
            [rights(&["b", "c", "a"], &["x", "y"], true), rights(&["a", "b", "c", "d"], &["w", "x", "y"], true)]
        {
            assert_eq!(all.exceeds(&as_many), None);
        }
        assert_eq!(Rights::default().exceeds(&Rights::default()), None);
    }

    #[test]
    fn a_stored_version_stands_while_files_of_its_trust_ask_for_no_less() {
        let dir = tempfile::tempdir().unwrap();
        let (place, other) = (dir.path().join("f.sh"), FunctionName::new("ops/g").unwrap());
        std::fs::write(&place, "").unwrap();
        let function = FunctionName::new("f").unwrap();
        let mut grants = Grants::default();
        let why = |grants: &Grants, trust, secrets: &[&str]| {
            grants.stands(&function, trust, &rights(secrets, &[], false)).err().unwrap_or_default()
        };
        assert!(why(&grants, "", &[]).contains("no file is function `f`"));
        grants.claimed(&function, "", &place, Some(rights(&["a", "b"], &[], false)));
        grants.claimed(&other, "u1000", &place, None);
        assert_eq!(why(&grants, "", &["b"]), "");
        assert!(why(&grants, "", &["c"]).contains("asks for `secrets`"));
        assert!(why(&grants, "u1000", &[]).contains("belongs to somebody else"));
        // Files that can't be judged withdraw nothing; those of another owner do.
        grants.claimed(&function, "", &place, None);
        assert!(why(&grants, "", &["c"]).contains("asks for `secrets`"));
        grants.claimed(&function, "u1000", &place, None);
        assert_eq!(why(&grants, "u1000", &["c"]), "");
        grants.claimed(&function, "", &place, Some(Rights::default()));
        assert!(why(&grants, "", &["b"]).contains("asks for `secrets`"));
        std::fs::remove_file(&place).unwrap();
        assert!(why(&grants, "", &[]).contains("no file is function `f`"));
        std::fs::write(&place, "").unwrap();
        assert_eq!(why(&grants, "", &[]), "");
        grants.forget(&function);
        assert!(why(&grants, "", &[]).contains("no file is function `f`"));
        assert!(grants.stands(&other, "u1000", &Rights::default()).is_ok());
    }

    #[test]
    fn a_claim_is_small() {
        assert!(size_of::<Claim>() <= 56, "every function has one: {}", size_of::<Claim>());
    }
}
