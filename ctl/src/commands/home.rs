//! `fndctl home`: the homes that a function has had, one for each owner of its files; `--take` hands the files of one over.
//!
//! Both happen without fnd, on the files: only root can read the table of users, and only root decides that code of one owner
//! may use what code of another has left.

use crate::common::candidates;
use crate::common::copy::names;
use crate::common::failed_or_denied;
use crate::common::state_directory::state_directory;
use crate::common::tables::table;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_wire::ids::FunctionName;
use fnd_wire::units::counted;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Uid, chownat, fchown, fstat, mkdirat, openat,
    renameat_with, statat,
};
use rustix::io::Errno;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudo fndctl home deploy                 which homes there are, and whose files had them\n  \
    sudo fndctl home deploy --take 70003    the function may have what the user 70003 has left\n\n\
A function whose files get another owner (root, another user, an upload) gets another user and an empty home: it is another \
program. Its cache is not handed over; fnd fills it again.")]
pub(crate) struct Args {
    /// Function.
    #[arg(add = candidates::functions())]
    function: String,

    /// Move everything from the home of this user, a number of the list, into the home of the user that the function has
    /// now, and give it to that user. Look through the files first: the function's code will find them.
    #[arg(long, value_name = "UID")]
    take: Option<u32>,
}

/// Most levels of directories that are handed over; one descriptor each.
const DEPTH_MAX: u32 = 200;

/// A home of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ShownHome {
    /// The user that owns it.
    uid: u32,
    /// The owner of the files that had it: `root`, `uploads`, or uids; null: an earlier fnd did not write it down.
    owner: Option<String>,
    path: PathBuf,
    /// Whether the function has it now; null where fnd does not answer.
    in_use: Option<bool>,
}

/// The homes of a function.
#[derive(Debug, Serialize)]
struct Homes {
    function: String,
    /// All of them, the first one first.
    homes: Vec<ShownHome>,
    /// How many entries of a home were handed over; null if none was to be.
    taken: Option<usize>,
    /// Entries that were not handed over completely, each with the reason.
    left: Vec<String>,
}

/// # Errors
/// The table of users cannot be read, the function has no such home, or a file is in the way.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let name = FunctionName::new(&args.function).map_err(|error| CommandFailure::usage(error.to_string()))?;
    // The list is true without fnd.
    let now = context
        .detail(name.as_str())
        .await
        .ok()
        .and_then(|detail| detail.more.uid);
    let state = state_directory(context).await?;
    let uids = state.join("spawner/uids");
    let text = std::fs::read(&uids).map_err(|error| failed_or_denied("read", &uids, &error, "run it with sudo"))?;
    let mut all = Homes {
        function: name.to_string(),
        homes: homes(&String::from_utf8_lossy(&text), &name, &state, now),
        taken: None,
        left: Vec::new(),
    };
    if all.homes.is_empty() {
        let message = format!("no function `{name}` has ever had a home");
        return Err(CommandFailure::new(Exit::NoSuchThing, message));
    }
    if let Some(uid) = args.take {
        let (from, to) = chosen(&all.homes, uid, &name)?;
        let (taken, left) = take(from, to).map_err(CommandFailure::failed)?;
        (all.taken, all.left) = (Some(taken), left);
    }
    context.made(&all, |out| {
        let heads = ["USER", "OWNER OF ITS FILES", "IN USE", "HOME"];
        out.table(&table(heads, &all.homes, |home| {
            let in_use = home.in_use.map_or("-", |in_use| if in_use { "yes" } else { "no" });
            let owner = home.owner.clone().unwrap_or_else(|| "not known".to_owned());
            let path = home.path.display().to_string();
            [home.uid.to_string(), owner, in_use.to_owned(), path]
        }))?;
        if let Some(taken) = all.taken {
            out.line(&format!("handed over: {}", counted(taken, "entry", "entries")))?;
        }
        out.lines(all.left.iter().map(|what| format!("not handed over: {what}")))
    })?;
    let is_done = all.left.is_empty();
    Ok(if is_done { Exit::Fine } else { Exit::FunctionFailed })
}

/// Finds the home to be handed over, and the one that the function has now.
fn chosen<'a>(
    homes: &'a [ShownHome],
    uid: u32,
    name: &FunctionName,
) -> Result<(&'a ShownHome, &'a ShownHome), CommandFailure> {
    let of = |uid: u32| homes.iter().find(|home| home.uid == uid);
    let Some(from) = of(uid) else {
        let message = format!("`{name}` has never had the user {uid}");
        return Err(CommandFailure::new(Exit::NoSuchThing, message).help(format!("run `fndctl home {name}`")));
    };
    match homes.iter().find(|home| home.in_use == Some(true)) {
        Some(to) if to.uid == uid => Err(CommandFailure::usage(format!("`{name}` has that home already"))),
        Some(to) => Ok((from, to)),
        None => {
            let message = format!("fnd does not say which user `{name}` has now");
            Err(CommandFailure::new(Exit::NotReachable, message).help("start fnd, and let the function become ready"))
        }
    }
}

/// Returns the homes of a function that the table of users has.
fn homes(table: &str, name: &FunctionName, state: &Path, now: Option<u32>) -> Vec<ShownHome> {
    let mut homes: Vec<ShownHome> = Vec::new();
    for line in table.lines() {
        // The last word of a line may be its checksum, which begins with `#`. Only the spawner needs it.
        let words: Vec<&str> = line.split(' ').filter(|word| !word.starts_with('#')).collect();
        let (uid, owner) = match words.as_slice() {
            [uid, of] if *of == name.as_str() => (*uid, None),
            [uid, of, owner] if *of == name.as_str() => (*uid, Some(*owner)),
            ["=", uid, of, owner] if *of == name.as_str() => {
                let uid = uid.parse().ok();
                if let Some(home) = homes.iter_mut().find(|home| Some(home.uid) == uid) {
                    home.owner = owner.strip_prefix('@').map(str::to_owned);
                }
                continue;
            }
            _ => continue,
        };
        let Ok(uid) = uid.parse::<u32>() else { continue };
        let file_form = name.file_form();
        // `~` marks a user that the function got later. The home of such a user has the uid in its name.
        let apart = owner.is_some_and(|owner| owner.starts_with('~'));
        let directory = if apart { format!("{file_form}~{uid}") } else { file_form };
        homes.push(ShownHome {
            uid,
            owner: owner.map(|owner| owner.trim_start_matches(['@', '~']).to_owned()),
            path: state.join("home").join(directory),
            in_use: now.map(|now| now == uid),
        });
    }
    homes
}

/// Moves everything in one home into another, and gives it to the other's user. Returns how many entries it moved, and what
/// it could not give completely.
///
/// # Errors
/// Nothing was moved, for this reason.
fn take(from: &ShownHome, to: &ShownHome) -> Result<(usize, Vec<String>), String> {
    let failed = |what: &str, path: &Path, errno: Errno| format!("failed to {what} `{}`: {errno}", path.display());
    let open = |path: &Path| {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty()).map_err(|errno| failed("open", path, errno))
    };
    // Opened first: without this home, no other one is made.
    let source = open(&from.path)?;
    // A function that has not run yet has no home. An error shows itself when the directory is opened below.
    if mkdirat(CWD, &to.path, Mode::RWXU).is_ok() {
        let (uid, gid) = (Uid::from_raw(to.uid), Gid::from_raw(to.uid));
        chownat(CWD, &to.path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed("give", &to.path, errno))?;
    }
    let target = open(&to.path)?;
    let entries = names(&source).map_err(|errno| failed("list", &from.path, errno))?;
    let in_the_way = |name: &&OsString| statat(&target, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if let Some(name) = entries.iter().find(in_the_way) {
        let name = name.to_string_lossy();
        return Err(format!(
            "both homes have `{name}`: nothing was moved; rename one of the two"
        ));
    }
    let (mut moved, mut left) = (0, Vec::new());
    for name in &entries {
        let (name, shown) = (name.as_os_str(), name.to_string_lossy());
        // Each entry is moved first: in the other home the earlier user cannot reach it by a path.
        // The move replaces nothing: the other home may have got a file of this name after the check above.
        match renameat_with(&source, name, &target, name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                moved += 1;
                give(&target, name, (from.uid, to.uid), DEPTH_MAX, (&shown, &mut left));
            }
            Err(errno) => left.push(format!("{shown}: {errno}")),
        }
    }
    Ok((moved, left))
}

/// Gives a file, or a directory with everything in it, to another user. What belongs to somebody else stays so: a process of
/// the user before may exchange a name at any moment, so each file is opened before its owner is looked at.
fn give(directory: &OwnedFd, name: &OsStr, users: (u32, u32), depth: u32, (shown, left): (&str, &mut Vec<String>)) {
    let result = (|| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, name, flags, Mode::empty())?;
        let about = fstat(&file)?;
        if about.st_uid != users.0 {
            return Err(Errno::PERM);
        }
        let (uid, gid) = (Uid::from_raw(users.1), Gid::from_raw(users.1));
        let empty = AtFlags::EMPTY_PATH;
        if FileType::from_raw_mode(about.st_mode) != FileType::Directory {
            return chownat(&file, c"", Some(uid), Some(gid), empty);
        }
        let opened = openat(&file, c".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // From now on the earlier user can change nothing in this directory.
        fchown(&opened, Some(uid), Some(gid))?;
        if depth == 0 {
            return Err(Errno::NAMETOOLONG);
        }
        for inner in names(&opened)? {
            let path = format!("{shown}/{}", inner.to_string_lossy());
            give(&opened, &inner, users, depth - 1, (&path, left));
        }
        Ok(())
    })();
    if let Err(errno) = result {
        left.push(match errno {
            Errno::PERM => format!("{shown}: it belongs to another user"),
            Errno::NAMETOOLONG => format!("{shown}: it is too deep; what is in it stays with the user before"),
            errno => format!("{shown}: {errno}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, lchown, symlink};

    const TABLE: &str = "70000 f\n70001 g #0\n= 70000 f @1000 #1\n70002 f ~root #2\n- #3\n70003 ops/f @uploads #4\n";

    fn of(name: &str, state: &Path) -> Vec<ShownHome> {
        homes(TABLE, &FunctionName::new(name).unwrap(), state, Some(70_002))
    }

    #[test]
    fn the_table_says_whose_homes_there_are() {
        let shown = |name: &str| -> Vec<_> {
            let home = |home: ShownHome| {
                (
                    home.uid,
                    home.owner.unwrap_or_default(),
                    home.path.display().to_string(),
                )
            };
            of(name, Path::new("/s")).into_iter().map(home).collect()
        };
        let home = |uid, owner: &str, path: &str| (uid, owner.to_owned(), path.to_owned());
        assert_eq!(
            shown("f"),
            [
                home(70_000, "1000", "/s/home/f"),
                home(70_002, "root", "/s/home/f~70002")
            ]
        );
        assert_eq!(shown("g"), [home(70_001, "", "/s/home/g")]);
        assert_eq!(shown("ops/f"), [home(70_003, "uploads", "/s/home/ops.f")]);
        assert!(shown("h").is_empty());
        let all = of("f", Path::new("/s"));
        let name = FunctionName::new("f").unwrap();
        assert_eq!(chosen(&all, 70_000, &name).unwrap().1.uid, 70_002);
        assert!(chosen(&all, 70_002, &name).is_err() && chosen(&all, 70_001, &name).is_err());
    }

    #[test]
    fn what_is_handed_over_belongs_to_the_new_user_and_nothing_else_does() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let state = tempfile::tempdir().unwrap();
        let [from, to] = <[ShownHome; 2]>::try_from(of("f", state.path())).unwrap();
        let own = |path: &Path, uid: u32| lchown(path, Some(uid), Some(uid)).unwrap();
        fs::create_dir_all(from.path.join("deep/er")).unwrap();
        let strangers = state.path().join("strangers");
        fs::write(&strangers, "x").unwrap();
        fs::write(from.path.join("deep/er/file"), "x").unwrap();
        symlink(&strangers, from.path.join("deep/link")).unwrap();
        fs::hard_link(&strangers, from.path.join("deep/theirs")).unwrap();
        for path in ["", "deep", "deep/er", "deep/er/file", "deep/link"] {
            own(&from.path.join(path), from.uid);
        }
        let (moved, left) = take(&from, &to).unwrap();
        assert_eq!(
            (moved, left),
            (1, vec!["deep/theirs: it belongs to another user".to_owned()])
        );
        for path in ["", "deep", "deep/er", "deep/er/file", "deep/link"] {
            assert_eq!(
                fs::symlink_metadata(to.path.join(path)).unwrap().uid(),
                to.uid,
                "{path}"
            );
        }
        assert_eq!(fs::metadata(&strangers).unwrap().uid(), 0);
        fs::create_dir(from.path.join("deep")).unwrap();
        assert!(take(&from, &to).unwrap_err().contains("both homes have `deep`"));
        fs::remove_dir_all(&from.path).unwrap();
        symlink("/etc", &from.path).unwrap();
        assert!(
            take(&from, &to).unwrap_err().contains("failed to open"),
            "a link is not followed"
        );
    }
}
