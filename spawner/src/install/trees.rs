//! Trees of dependencies: directories below `deps` that root owns, that nobody changes, and that functions share.
//!
//! A build leaves its files in its home. They are copied, not renamed: a process that still has one of them open could
//! change it later. Links may not lead out of a tree, and nothing but directories, files and links is copied.

use super::*;
use crate::clock;
use crate::removal;
use fnd_wire::plan::builder_name;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, fstat, openat, readlinkat, statat};
use std::ffi::{CStr, OsString};
use std::os::fd::OwnedFd;
use std::time::SystemTime;

/// Most entries, bytes and levels of a tree.
const ENTRIES_MAX: u64 = 200_000;
const BYTES_MAX: u64 = 4 << 30;
const DEPTH_MAX: usize = 100;

/// Returns the name of the function that builds trees for functions of this [trust](crate::install::Snapshot::trust).
///
/// # Panics
/// Never: it is a name.
pub fn builder(trust: &str) -> FunctionName {
    FunctionName::new(&builder_name(trust, 1)).expect("a name")
}

/// Returns the directory of a tree.
pub fn place(places: &Places, tree: &Version) -> PathBuf {
    places.state.join("deps").join(tree.hex())
}

/// Returns the tree in whose place this one is built anew (`again`), or the newest one that was made in its place. A stored
/// version keeps the one that it has: `kept`.
///
/// # Errors
/// If the number of the newest one cannot be read, or that of the new one cannot be written.
pub fn generation(places: &Places, tree: &Version, again: bool, kept: Option<Version>) -> io::Result<Version> {
    let directory = places.state.join("spawner/generations");
    let file = directory.join(tree.hex());
    let newest = places::if_there(fs::read_to_string(&file))?.and_then(|text| text.parse().ok()).unwrap_or(0_u64);
    let name = |number: u64| match number {
        0 => *tree,
        _ => Version(Sha256::digest([&tree.0[..], &number.to_le_bytes()].concat()).into()),
    };
    let is_there = |tree: &Version| place(places, tree).exists();
    if again {
        // If the newest one is not there, its build has failed, or still runs.
        let next = newest + u64::from(newest == 0 || is_there(&name(newest)));
        places::make(&directory, 0o700)?;
        places::replace(&file, next.to_string().as_bytes())?;
        return Ok(name(next));
    }
    let made = || (0..=newest).rev().map(name).filter(is_there);
    Ok(made().find(|tree| Some(*tree) == kept).or_else(|| made().next()).unwrap_or_else(|| name(newest)))
}

/// Marks a tree as used now, and returns whether it exists.
pub fn touch(places: &Places, tree: &Version) -> bool {
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(clock::unix_ms());
    // If the time can't be set, the tree only looks older than it is.
    File::open(place(places, tree)).map(|dir| dir.set_modified(now)).is_ok()
}

/// Says whether a tree exists and was made at most so many seconds ago.
pub fn is_fresh(places: &Places, tree: &Version, seconds: Option<u64>) -> bool {
    let Ok(made) = fs::metadata(place(places, tree)).and_then(|meta| meta.modified()) else { return false };
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(clock::unix_ms());
    // A second more, since clock and files may differ a little. A time after that is of a clock that was set.
    let age = (now + Duration::from_secs(1)).duration_since(made);
    seconds.is_none_or(|most| age.is_ok_and(|age| age.as_secs() <= most))
}

/// Returns the tree that a link in a version's directory names; none if there is no such link.
///
/// # Errors
/// If the link can't be read: then the version may have a tree.
pub fn linked(version: &Path, name: &str) -> io::Result<Option<Version>> {
    let target = places::if_there(fs::read_link(version.join(name)))?;
    Ok(target.and_then(|target| Version::parse(target.file_name()?.to_str()?)))
}

/// Makes a tree of what a build has left in its home; the build has this owner. A tree of other content takes the place of the one that
/// is there. Call it in a helper only.
///
/// # Errors
/// If the build is not complete or has left something that no tree may have, or if copying fails.
pub fn seal(places: &Places, home: &Path, tree: &Version, owner: Option<(u32, u32)>) -> io::Result<()> {
    let target = place(places, tree);
    let built = home.join(tree.hex());
    let fresh = target.with_file_name(format!(".new-{}", tree.hex()));
    let _ = fs::remove_dir_all(&fresh); // of a spawner that was killed, or absent
    let mut copy = TreeCopy { owner, entries: 0, bytes: 0 };
    let top = copy.open(CWD, &built, OFlags::DIRECTORY)?;
    if statat(&top, COMPLETE, AtFlags::SYMLINK_NOFOLLOW).is_err() {
        return Err(io::Error::other("its build is not complete"));
    }
    let copied = copy.directory(&top, &fresh, 0).and_then(|()| {
        // The file says what was built. If this is the same as before, the tree stays and only its time becomes new.
        let said = |dir: &Path| fs::read(dir.join(COMPLETE));
        if said(&target).ok() == Some(said(&fresh)?) && touch(places, tree) {
            return fs::remove_dir_all(&fresh);
        }
        fs::write(fresh.join(TREE_SIZE), copy.bytes.to_string())?;
        // The files are on the disk before the tree gets its name, so a power cut leaves no torn tree there.
        rustix::fs::syncfs(File::open(&fresh)?)?;
        if target.exists() {
            // By an exchange the name is never without a tree: versions with a link to it may be starting.
            rustix::fs::renameat_with(CWD, &fresh, CWD, &target, RenameFlags::EXCHANGE)?;
            return fs::remove_dir_all(&fresh);
        }
        fs::rename(&fresh, &target)
    });
    copied.inspect_err(|_| drop(fs::remove_dir_all(&fresh)))
}

/// Removes what builds have left in their home. Call it as the last step of a helper: it gives the rights of root away.
pub fn clear(home: &Path, root: bool) -> i32 {
    // Absent before the first build.
    if home.exists() { removal::empty(home, root) } else { 0 }
}

/// Removes the trees that no version has and that were not used for a time. Call it in a helper only.
///
/// # Errors
/// If the versions can't be read: their trees would look unused.
pub fn prune(places: &Places, keep: Duration) -> io::Result<i32> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(clock::unix_ms());
    let age = |entry: &fs::DirEntry| now.duration_since(entry.metadata()?.modified()?).map_err(io::Error::other);
    let mut unused = places::entries(&places.state.join("deps"))?;
    unused.retain(|entry| age(entry).is_ok_and(|age| age >= keep));
    // Mostly no function has dependencies, and there may be many versions. Other names are no functions', or are being made.
    let is_function = |name: &str| !unused.is_empty() && FunctionName::of_file_form(name).is_ok();
    let functions = removal::entries(&places.state.join("versions"), is_function)?;
    let versions = functions.iter().map(|function| removal::entries(function, |_| true));
    let versions = versions.collect::<io::Result<Vec<_>>>()?.concat();
    let linked = versions.iter().flat_map(|version| ["deps", "source"].map(|name| linked(version, name)));
    let used = linked.filter_map(Result::transpose).map(|tree| tree.map(|tree| OsString::from(tree.hex())));
    let used = used.collect::<io::Result<BTreeSet<_>>>()?;
    unused.retain(|entry| !used.contains(&entry.file_name()));
    Ok(removal::remove(&unused.iter().map(fs::DirEntry::path).collect::<Vec<_>>()))
}

struct TreeCopy {
    owner: Option<(u32, u32)>,
    entries: u64,
    bytes: u64,
}

impl TreeCopy {
    /// Opens a file or directory with the rights of its owner, and follows no link.
    fn open(&self, at: impl std::os::fd::AsFd, name: impl rustix::path::Arg, flags: OFlags) -> io::Result<OwnedFd> {
        // `NONBLOCK`, since opening a FIFO would wait for somebody who writes to it.
        let open = || openat(at, name, flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        Ok(match self.owner {
            Some(owner) => crate::process::identity::with_files_of(owner, open)??,
            None => open()?,
        })
    }

    fn directory(&mut self, from: &OwnedFd, to: &Path, depth: usize) -> io::Result<()> {
        if depth > DEPTH_MAX {
            return Err(io::Error::other(format!("it has more than {DEPTH_MAX} levels")));
        }
        places::make(to, 0o755)?;
        for entry in Dir::read_from(from)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(io::Error::other(format!("it has more than {ENTRIES_MAX} files")));
            }
            let path = to.join(name.to_str().map_err(|_| io::Error::other("a name in it is not UTF-8"))?);
            match FileType::from_raw_mode(statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode) {
                FileType::Directory => {
                    self.directory(&self.open(from, name, OFlags::DIRECTORY)?, &path, depth + 1)?;
                }
                FileType::Symlink => link(from, name, &path, depth)?,
                FileType::RegularFile => self.file(from, name, &path)?,
                _ => return Err(io::Error::other(format!("`{}` is no file", shown(name)))),
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &OwnedFd, name: &CStr, to: &Path) -> io::Result<()> {
        let from = self.open(from, name, OFlags::RDONLY)?;
        let meta = fstat(&from)?;
        // Checked again on the descriptor: a process of the build may have exchanged the file after it was listed.
        if FileType::from_raw_mode(meta.st_mode) != FileType::RegularFile {
            return Err(io::Error::other(format!("`{}` is no file", shown(name))));
        }
        let mode = if meta.st_mode & 0o111 == 0 { 0o644 } else { 0o755 };
        let mut to = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
        let room = BYTES_MAX - self.bytes;
        // One byte more than there is room for, so that a file that grows is noticed.
        self.bytes += io::copy(&mut File::from(from).take(room + 1), &mut to)?;
        if self.bytes > BYTES_MAX { Err(io::Error::other("it is larger than 4 GiB")) } else { Ok(()) }
    }
}

/// Copies a link of a directory `depth` levels below the top. Its `..` come first, so that they lead through real
/// directories.
fn link(from: &OwnedFd, name: &CStr, to: &Path, depth: usize) -> io::Result<()> {
    let target = readlinkat(from, name, Vec::new())?;
    let text = target.to_str().map_err(|_| io::Error::other("a link in it is not UTF-8"))?;
    let ups = text.split('/').take_while(|part| *part == "..").count();
    if text.starts_with('/') || ups > depth || text.split('/').skip(ups).any(|part| part == "..") {
        return Err(io::Error::other(format!("the link `{}` leads out of it: {text}", shown(name))));
    }
    std::os::unix::fs::symlink(text, to)
}

fn shown(name: &CStr) -> String {
    name.to_string_lossy().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::plan::BUILD;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    const TREE: Version = Version([7; 32]);

    /// Returns places with a build that `fill` has left, and the directory of its files.
    fn built(fill: impl FnOnce(&Path)) -> (tempfile::TempDir, Places) {
        let root = tempfile::tempdir().unwrap();
        let places = Places::prepare(&root.path().join("state"), &root.path().join("run"), false).unwrap();
        let dir = places.of(BUILD).home.join(TREE.hex());
        fs::create_dir_all(&dir).unwrap();
        fill(&dir);
        (root, places)
    }

    fn complete(dir: &Path) {
        fs::write(dir.join(COMPLETE), "six 1.16.0\n").unwrap();
    }

    #[test]
    fn a_complete_build_becomes_a_tree_once() {
        let (_root, places) = built(|dir| {
            fs::create_dir_all(dir.join("site/pkg")).unwrap();
            fs::write(dir.join("site/pkg/a.py"), "1").unwrap();
            fs::set_permissions(dir.join("site/pkg/a.py"), fs::Permissions::from_mode(0o6777)).unwrap();
            symlink("../pkg/a.py", dir.join("site/pkg/up")).unwrap();
            complete(dir);
        });
        assert!(!touch(&places, &TREE));
        seal(&places, &places.of(BUILD).home, &TREE, None).unwrap();
        assert_eq!(clear(&places.of(BUILD).home, false), 0);
        let tree = place(&places, &TREE);
        let mode = fs::metadata(tree.join("site/pkg/a.py")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "no file is setuid, or writable for others");
        assert_eq!(fs::read_to_string(tree.join("site/pkg/up")).unwrap(), "1");
        assert!(touch(&places, &TREE));
        let left = fs::read_dir(places.of(BUILD).home).unwrap().count();
        assert_eq!(left, 0, "the home of builds does not grow");
    }

    #[test]
    fn another_content_takes_the_place_of_a_tree_and_the_same_makes_it_new() {
        let (_root, places) = built(complete);
        assert!(!is_fresh(&places, &TREE, None));
        seal(&places, &places.of(BUILD).home, &TREE, None).unwrap();
        assert!(is_fresh(&places, &TREE, None) && is_fresh(&places, &TREE, Some(60)));
        let age = || {
            let dir = File::open(place(&places, &TREE)).unwrap();
            dir.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            assert!(is_fresh(&places, &TREE, None) && !is_fresh(&places, &TREE, Some(60)));
        };
        age();
        seal(&places, &places.of(BUILD).home, &TREE, None).unwrap();
        assert!(is_fresh(&places, &TREE, Some(60)), "the same content");
        age();
        let dir = places.of(BUILD).home.join(TREE.hex());
        fs::write(dir.join(COMPLETE), "commit 2").unwrap();
        fs::write(dir.join("source.tar"), "2").unwrap();
        seal(&places, &places.of(BUILD).home, &TREE, None).unwrap();
        assert!(is_fresh(&places, &TREE, Some(60)));
        assert_eq!(fs::read_to_string(place(&places, &TREE).join("source.tar")).unwrap(), "2");
        assert_eq!(fs::read_dir(places.state.join("deps")).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_no_tree_may_have_is_refused_and_leaves_nothing() {
        let refused = |fill: &dyn Fn(&Path)| {
            let (_root, places) = built(|dir| {
                fs::create_dir(dir.join("d")).unwrap();
                complete(dir);
                fill(dir);
            });
            let why = seal(&places, &places.of(BUILD).home, &TREE, None).unwrap_err().to_string();
            assert_eq!(fs::read_dir(places.state.join("deps")).unwrap().count(), 0, "{why}");
            why
        };
        let linked = |target: &'static str| refused(&move |dir| symlink(target, dir.join("d/l")).unwrap());
        for target in ["/etc", "../../x", "a/../../../x", "../../../../etc/passwd"] {
            assert_eq!(linked(target), format!("the link `l` leads out of it: {target}"));
        }
        let fifo = |dir: &Path| nix::unistd::mkfifo(&dir.join("d/f"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(refused(&fifo), "`f` is no file");
        let incomplete = |dir: &Path| fs::remove_file(dir.join(COMPLETE)).unwrap();
        assert_eq!(refused(&incomplete), "its build is not complete");
        let deep = |dir: &Path| fs::create_dir_all(dir.join("d/".repeat(DEPTH_MAX + 2))).unwrap();
        assert_eq!(refused(&deep), format!("it has more than {DEPTH_MAX} levels"));
    }

    #[test]
    fn a_tree_goes_when_no_version_has_it_for_long_enough() {
        let (_root, places) = built(complete);
        seal(&places, &places.of(BUILD).home, &TREE, None).unwrap();
        let version = places.of("f").version(&Version([1; 32]));
        fs::create_dir_all(&version).unwrap();
        symlink(Path::new("../../../deps").join(TREE.hex()), version.join("deps")).unwrap();
        assert_eq!(prune(&places, Duration::ZERO).unwrap(), 0);
        assert!(place(&places, &TREE).exists());
        fs::rename(version.join("deps"), version.join("source")).unwrap();
        let [source, deps] = ["source", "deps"].map(|name| linked(&version, name).unwrap());
        assert_eq!((source, deps), (Some(TREE), None));
        assert_eq!(prune(&places, Duration::ZERO).unwrap(), 0);
        assert!(place(&places, &TREE).exists());
        fs::remove_dir_all(version).unwrap();
        // A version that can't be read may use the tree.
        let unread = places.of("g").versions;
        fs::write(&unread, "").unwrap();
        assert!(prune(&places, Duration::ZERO).is_err() && place(&places, &TREE).exists());
        fs::rename(unread, places.state.join("versions/.new-1.report")).unwrap();
        // So may one of which only the links can't be read: its directory is a link to itself (ELOOP).
        let looped = places.of("g").version(&Version([2; 32]));
        fs::create_dir_all(looped.parent().unwrap()).unwrap();
        symlink(&looped, &looped).unwrap();
        assert!(linked(&looped, "deps").is_err());
        assert!(prune(&places, Duration::ZERO).is_err() && place(&places, &TREE).exists());
        fs::remove_file(looped).unwrap();
        assert_eq!(prune(&places, Duration::from_secs(3600)).unwrap(), 0);
        assert!(place(&places, &TREE).exists());
        assert_eq!(prune(&places, Duration::ZERO).unwrap(), 0);
        assert!(!place(&places, &TREE).exists());
    }

    #[test]
    fn a_tree_that_is_built_anew_takes_the_place_of_the_one_before_once_it_is_there() {
        let root = tempfile::tempdir().unwrap();
        let places = Places::prepare(&root.path().join("state"), &root.path().join("run"), false).unwrap();
        let make = |tree: &Version| fs::create_dir(place(&places, tree)).unwrap();
        let remove = |tree: &Version| fs::remove_dir(place(&places, tree)).unwrap();
        let now = |kept| generation(&places, &TREE, false, kept).unwrap();
        let again = || generation(&places, &TREE, true, None).unwrap();
        assert_eq!(now(None), TREE, "there is none");
        make(&TREE);
        let one = again();
        assert_ne!(one, TREE);
        assert_eq!((now(None), again()), (TREE, one), "its build runs, or has failed");
        make(&one);
        assert_eq!((now(None), now(Some(TREE))), (one, TREE), "a stored version keeps its own");
        let two = again();
        assert!(![TREE, one].contains(&two));
        assert_eq!((now(None), now(Some(two))), (one, one));
        make(&two);
        remove(&TREE);
        assert_eq!((now(None), now(Some(TREE)), now(Some(one))), (two, two, one));
        // Nobody used them for long: the list has a tree again after one build.
        remove(&one);
        remove(&two);
        assert_eq!(now(None), two);
    }
}
