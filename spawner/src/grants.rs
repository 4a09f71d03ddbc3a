//! Which functions may have another user than their own, or more groups: what their files asked for when the spawner looked
//! at them last. An installed version that asks for more than that was taken back by whoever owns the files.

use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{Plan, User};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// How long a file may differ from what was looked at: fnd has a change looked at within a few seconds. Seconds.
const CHANGED_MAX: i64 = 10;

/// What tells one state of a file from another.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

/// Files and their state.
pub type Stamps = Vec<(PathBuf, Stamp)>;

/// Returns what tells one state of a file from another.
pub fn stamp(meta: &Metadata) -> Stamp {
    let changed = (meta.ctime(), meta.ctime_nsec());
    (meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec(), changed.0, changed.1)
}

/// What functions may have. Only of those that ask for something.
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
    /// A function's files were read, and the judge made this of them; none where it refused them, which takes back nothing.
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

    /// Says whether a version may still have what it asks for.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        if !asks(plan) {
            return Ok(());
        }
        let grant = self
            .0
            .get(&plan.function)
            .filter(|grant| grant.user == plan.user && plan.groups.iter().all(|group| grant.groups.contains(group)));
        let grant = grant.ok_or("this version may not start: its files do not ask for that user any more")?;
        for (path, before) in &grant.files {
            let shown = path.display();
            let Ok(meta) = std::fs::metadata(path) else {
                return Err(format!(
                    "this version may not start with another user: its files are not there any more (`{shown}`)"
                ));
            };
            let now = stamp(&meta);
            let since = crate::clock::unix_ms().cast_signed() / 1000 - meta.ctime();
            if now != *before && !(0..=CHANGED_MAX).contains(&since) {
                return Err(format!(
                    "this version may not start with another user: `{shown}` was changed and not looked at since; reload fnd"
                ));
            }
        }
        Ok(())
    }
}
