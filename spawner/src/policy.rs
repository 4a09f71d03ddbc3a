//! Decides what a plan may be granted, by facts that root owns: users, interpreters, limits. Nothing here relies on the
//! judge.

use crate::log::Failed as _;
use crate::process::identity::Identity;
use crate::stat_cache::StatCache;
use fnd_wire::frame::Problem;
use fnd_wire::plan::{CAPABILITY, Plan, Policy, User, capability_bit, is_as_root};
use fnd_wire::sandbox::{Profile, Sandbox};
use fnd_wire::trust::{self, refusal};
use nix::unistd::{Group, Uid, User as Account};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// The user that the spawner runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Myself {
    /// Effective uid; 0 is root.
    pub uid: u32,
    pub gid: u32,
    /// User name, if the user has one.
    pub name: Option<String>,
}

impl Myself {
    /// Returns the user that this process runs as.
    pub fn current() -> Self {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let name = Account::from_uid(Uid::from_raw(uid)).ok().flatten().map(|account| account.name);
        Self { uid, gid, name }
    }

    /// Returns whether this user is root; only then can functions have users of their own.
    pub fn root(&self) -> bool {
        self.uid == 0
    }
}

/// Returns a problem with a file.
pub fn problem(file: &str, message: impl Into<String>, help: impl Into<String>) -> Problem {
    Problem { file: file.to_owned(), message: message.into(), help: help.into() }
}

/// Returns what [`StatCache::insecure_above`] returns, as of now.
pub fn insecure_above(dir: &Path, owners: &[u32]) -> Option<PathBuf> {
    StatCache::default().insecure_above(dir, owners)
}

/// The identity that a plan runs with (absent: that of the spawner, which is not root) and the user's name for the function.
type GrantedUser = (Option<Identity>, String);

/// Returns the user of a plan.
///
/// # Errors
/// Why the plan may not have this user or these groups.
pub fn identity(plan: &Plan, uid: u32, policy: &Policy, trusted: bool, myself: &Myself) -> Result<GrantedUser, String> {
    let name = plan.function.file_form();
    let listed = |name: &str| policy.allow_users.iter().any(|allowed| allowed == name);
    if !myself.root() {
        let own = myself.name.clone().unwrap_or(name);
        let other = matches!(&plan.user, User::Named(user) if *user != own) || !plan.groups.is_empty();
        let why = || "fnd does not run as root: functions have its own user, and no capabilities".to_owned();
        return if other { Err(why()) } else { Ok((None, own)) };
    }
    if !trusted && (plan.user != User::Own || !plan.groups.is_empty()) {
        return Err("only files of root may name a user, groups and capabilities".to_owned());
    }
    let (uid, gid, name) = match &plan.user {
        // Checked again at each start: the range or the uid table may have changed since the function was installed.
        User::Own if !(policy.uid_range.0..=policy.uid_range.1).contains(&uid) => {
            return Err(format!("its uid {uid} is outside `[users] range`"));
        }
        User::Own => (uid, uid, name),
        User::Named(user) => {
            let account = Account::from_name(user).failed(&format!("look up the user `{user}`"))?;
            let account = account.ok_or_else(|| format!("there is no user `{user}`"))?;
            let root = account.uid.is_root();
            let (allowed, key) = if root { (policy.allow_root, "allow_root") } else { (listed(user), "allow") };
            if !allowed {
                return Err(format!("`[users] {key}` of fnd.toml does not allow the user `{user}`"));
            }
            (account.uid.as_raw(), account.gid.as_raw(), user.clone())
        }
    };
    let (mut groups, mut capabilities) = (Vec::new(), 0);
    let own = rustix::thread::capabilities(None).map_or(0, |own| own.permitted.bits());
    for group in &plan.groups {
        let capability = group.strip_prefix(CAPABILITY);
        let is_listed = listed(group);
        if !is_listed || capability.is_some_and(is_as_root) && !policy.allow_root {
            let key = if is_listed { "allow_root" } else { capability.map_or("allow", |_| "capabilities") };
            return Err(format!("`[users] {key}` of fnd.toml does not allow `{group}`"));
        }
        if let Some(name) = capability {
            let bit = capability_bit(name).filter(|bit| own & bit != 0);
            let why = || format!("fnd-spawner lacks the capability `{name}`: see `CapabilityBoundingSet=` of its unit");
            capabilities |= bit.ok_or_else(why)?;
            continue;
        }
        let found = Group::from_name(group).failed(&format!("look up the group `{group}`"))?;
        groups.push(found.ok_or_else(|| format!("there is no group `{group}`"))?.gid.as_raw());
    }
    if let Some(bad) = groups.iter().chain([&uid, &gid]).find(|id| trust::reserved(**id, **id).is_some()) {
        return Err(format!("the id {bad} is never given to a function"));
    }
    let groups = groups.into_iter().map(rustix::process::Gid::from_raw).collect();
    Ok((Some(Identity { uid, gid, groups, capabilities }), name))
}

/// The chosen interpreter. The path as given is executed, since a virtual environment depends on its own path; the real
/// path is kept, too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interpreter {
    /// The path as given.
    pub given: String,
    pub real: String,
    /// The values that distinguish this file from another one put in its place.
    pub seal: [i64; 3],
}

/// Returns the first interpreter that exists and is safe. `owner` is the owner of the file whose `#!` line names them, `own` the
/// spawner's user.
///
/// # Errors
/// The interpreters that were tried, and what to do.
pub fn interpreter(plan: &Plan, file: &str, [owner, own]: [u32; 2], facts: &StatCache) -> Result<Interpreter, Problem> {
    let mut why_not = Vec::new();
    for (index, candidate) in plan.interpreters.iter().enumerate() {
        let asked = u32::try_from(index).is_ok_and(|index| index < plan.asked_interpreters);
        // The owner of the file has written its `#!` line, which may name an interpreter that belongs to this owner.
        let owners = [0, if asked { owner } else { own }];
        match usable(candidate, &owners, facts) {
            Ok((real, seal)) => return Ok(Interpreter { given: candidate.clone(), real, seal }),
            Err(why) => why_not.push(format!("`{candidate}` {why}")),
        }
    }
    if plan.interpreters.is_empty() {
        return Ok(Interpreter::default());
    }
    Err(problem(file, refusal::no_interpreter(&plan.runtime, &why_not), plan.interpreter_help.clone()))
}

/// Checks that every function can read the shim of a handler, and that nobody but root can change it.
///
/// # Errors
/// The reason of the refusal, and what to do.
pub fn shim(plan: &Plan, myself: &Myself, facts: &StatCache) -> Result<(), Problem> {
    let Some(shim) = plan.mode.handler().filter(|shim| !shim.is_empty()) else { return Ok(()) };
    let bad = |why: String, help: String| problem(shim, format!("the shim of runtime `{}` {why}", plan.runtime), help);
    let path = Path::new(shim);
    let found = real(path, facts).and_then(|real| safe(path, &real, &[0, myself.uid], facts).map(|()| real));
    let real = found.map_err(|why| bad(why, "reinstall the runtime".to_owned()))?;
    // If fnd is not root, functions run as its user, which has read the runtime's description beside the shim.
    let closed = |path: &&Path| {
        myself.root()
            && facts.metadata(path).is_none_or(|meta| meta.mode() & if meta.is_dir() { 0o1 } else { 0o4 } == 0)
    };
    let Some(closed) = real.ancestors().chain(path.ancestors()).find(closed) else { return Ok(()) };
    let (bit, closed) = (if closed.is_dir() { "x" } else { "r" }, closed.display());
    let help = format!("run `chmod o+{bit} {closed}`, or move the runtime to another directory");
    Err(bad(format!("can't be read by functions: they have no access to `{closed}`"), help))
}

/// Checks that a function sees its interpreter: profile strict hides some places. `tools` are shown to every function; profile
/// strict hides `code`, the directories with the code of all functions.
///
/// # Errors
/// The place, and what to write.
pub fn visible(
    (sandbox, [tools, code], facts): (&Sandbox, [&[PathBuf]; 2], &StatCache),
    file: &str,
    interpreter: &Interpreter,
) -> Result<(), Problem> {
    let real = |named: &String| facts.real(named.as_ref()).ok();
    let shown = sandbox.read_only.iter().chain(&sandbox.read_write).filter_map(real);
    let shown: Vec<_> = shown.chain(tools.iter().cloned()).collect();
    let hidden = crate::sandbox::mounts::hidden_by(sandbox.profile).map(PathBuf::from);
    let code = code.iter().filter(|_| sandbox.profile == Profile::Strict).cloned();
    let hidden: Vec<_> = hidden.chain(code).chain(sandbox.hide.iter().filter_map(real)).collect();
    // A virtual environment's program is a link: both ends have to be there.
    for interpreter in [&interpreter.given, &interpreter.real] {
        let path = Path::new(interpreter);
        let length = |path: &PathBuf| path.components().count();
        // Of two that lie in each other, the inner one counts.
        let inner = |places: &[PathBuf]| {
            places.iter().filter(|place| path.starts_with(place)).max_by_key(|it| length(it)).cloned()
        };
        let shown = inner(&shown).map_or(0, |place| length(&place));
        if let Some(place) = inner(&hidden).filter(|place| shown < length(place)) {
            let (dir, place) = (path.ancestors().nth(2).unwrap_or(path).display(), place.display());
            let message =
                format!("the sandbox hides its interpreter `{interpreter}`: it shows nothing below `{place}`");
            let help = format!("write `read_only = [\"{dir}\"]` in `[sandbox]`, or use an interpreter elsewhere");
            return Err(problem(file, message, help));
        }
    }
    Ok(())
}

fn real(path: &Path, facts: &StatCache) -> Result<PathBuf, String> {
    if !path.is_absolute() {
        return Err("is not an absolute path".to_owned());
    }
    facts.real(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => refusal::MISSING.to_owned(),
        _ => format!("can't be found: {error}"),
    })
}

fn safe(path: &Path, real: &Path, owners: &[u32], facts: &StatCache) -> Result<(), String> {
    let given_in = path.parent().and_then(|dir| facts.real(dir).ok()).unwrap_or_default();
    let insecure = facts.insecure_above(real, owners).or_else(|| facts.insecure_above(&given_in, owners));
    insecure.map_or(Ok(()), |insecure| Err(refusal::not_safe(&insecure.display().to_string())))
}

fn usable(candidate: &str, owners: &[u32], facts: &StatCache) -> Result<(String, [i64; 3]), String> {
    let path = Path::new(candidate);
    let real = real(path, facts)?;
    // A version manager's shim chooses the program by the working directory, which takes 100 ms.
    if [path, &real].iter().any(|path| path.components().any(|part| part == Component::Normal("shims".as_ref()))) {
        return Err(refusal::SHIM.to_owned());
    }
    let meta = facts.metadata(&real).ok_or("can't be read")?;
    if !meta.is_file() || meta.mode() & 0o111 == 0 {
        return Err(refusal::NOT_EXECUTABLE.to_owned());
    }
    safe(path, &real, owners, facts)?;
    let seal = [meta.ino().cast_signed(), meta.size().cast_signed(), meta.mtime()];
    let real = real.into_os_string().into_string();
    real.map(|real| (real, seal)).map_err(|_| "has a path that is not UTF-8".to_owned())
}
