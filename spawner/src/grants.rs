//! Records the users and groups beyond its own that a function may have: those that its files asked for when the
//! spawner last read them. If an installed version asks for more than that, the owner of the files has withdrawn the
//! request.

use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{Plan, User};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// How long in seconds a file may differ from the state that was read: fnd asks to install a changed file within a few
/// seconds.
const CHANGED_MAX: i64 = 10;

/// The values that distinguish one state of a file from another.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

/// Files, each with its state.
pub type Stamps = Vec<(PathBuf, Stamp)>;

/// Returns the values that distinguish one state of a file from another.
pub fn stamp(meta: &Metadata) -> Stamp {
    let changed = (meta.ctime(), meta.ctime_nsec());
    (meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec(), changed.0, changed.1)
}

/// The users and groups that functions may have; only functions that ask for some are listed.
#[derive(Debug, Default)]
pub struct Grants(BTreeMap<FunctionName, Grant>);

#[derive(Debug)]
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
            None => drop(self.0.get_mut(function).map(|grant| grant.files = files)),
            Some(plan) if asks(plan) => {
                let grant = Grant { user: plan.user.clone(), groups: plan.groups.clone(), files };
                self.0.insert(function.clone(), grant);
            }
            Some(_) => drop(self.0.remove(function)),
        }
    }

    /// Checks whether a version may still have the user and the groups that it asks for.
    ///
    /// # Errors
    /// Why it may not, for people.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        if !asks(plan) {
            return Ok(());
        }
        let grant = self
            .0
            .get(&plan.function)
            .filter(|grant| grant.user == plan.user && plan.groups.iter().all(|group| grant.groups.contains(group)));
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
        if stamp(&meta) != *before && !(0..=CHANGED_MAX).contains(&since) {
            return Err(format!("`{shown}` has changed since fnd read it; reload fnd"));
        }
    }
    Ok(())
}
