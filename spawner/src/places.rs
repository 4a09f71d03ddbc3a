//! Makes the directories below the state and run directories, and sets their owners.
//!
//! Root makes and removes files only in directories that root owns. The spawner enters a directory that a function owns
//! only with that function's file rights ([`removal`](crate::removal)).

use crate::policy::insecure_above;
use crate::process::identity::Identity;
use crate::sandbox::mounts;
use fnd_wire::ids::{FunctionId, InvocationId, Version};
use fnd_wire::plan::is_own;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The empty directories of a function's last invocation, kept for the next one. For a new inode ext4 checks all inodes
/// that were deleted in the last minutes; under load this takes longer than the rest of a start.
const SPARE: &str = "spare";
/// The file beside a version that names its user, if the home of that user has the uid in its name.
pub const USER: &str = "user";
/// The result file that is made in the spare directory before a start; those of other attempts count from 1.
const SPARE_RESULT: &str = "result.0";

/// State and run directory.
#[derive(Debug, Clone)]
pub struct Places {
    pub state: PathBuf,
    pub run: PathBuf,
}

/// The directories of a function.
#[derive(Debug, Clone)]
pub struct FunctionPlaces {
    pub versions: PathBuf,
    /// State directory, its `HOME`.
    pub home: PathBuf,
    pub cache: PathBuf,
    pub credentials: PathBuf,
    pub bindings: PathBuf,
    /// Directories of its invocations.
    pub tmp: PathBuf,
}

/// The files of one attempt.
pub struct AttemptFiles {
    /// `TMPDIR`.
    pub tmp: PathBuf,
    /// `FND_RESULT`.
    pub result: PathBuf,
    /// The result file, open for reading.
    pub result_file: File,
    /// A directory of this invocation that belongs to another user, because the function had other files when it began. To be
    /// emptied and removed.
    pub others: Option<PathBuf>,
}

impl AttemptFiles {
    /// Copies the previous result (at most `max` bytes) and returns the copy's path, for `FND_PREVIOUS`.
    ///
    /// # Errors
    /// If copying fails.
    pub fn give_previous(&self, from: OwnedFd, max: u64, owner: Option<&Identity>) -> io::Result<String> {
        let previous = self.tmp.with_file_name("previous");
        let _ = fs::remove_file(&previous); // from the attempt before
        crate::protocol::copy_file(from, &mut File::create_new(&previous)?, max)?;
        own(&previous, owner)?;
        Ok(previous.to_string_lossy().into_owned())
    }
}

/// Returns none if the error is that something does not exist. Any other error leaves that open, so nothing may be made
/// or forgotten because of it.
///
/// # Errors
/// Any other error.
pub fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Returns the entries of a directory of root; none if it does not exist.
///
/// # Errors
/// If it can't be read to its end.
pub fn entries(dir: &Path) -> io::Result<Vec<DirEntry>> {
    if_there(fs::read_dir(dir))?.into_iter().flatten().collect()
}

/// Returns whether nothing is in a directory, or the directory does not exist; one that can't be read counts as full.
pub fn is_empty(dir: &Path) -> bool {
    if_there(fs::read_dir(dir)).is_ok_and(|entries| entries.is_none_or(|mut entries| entries.next().is_none()))
}

/// Replaces a file that only root can access: after a kill or a power cut the file is the old one or the new one.
///
/// # Errors
/// If writing fails; then the old file stays.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    // Without this sync the rename could reach the disk before the content: after a power cut the file would be empty.
    file.sync_all()?;
    fs::rename(fresh, path)
}

impl Places {
    /// Makes the fixed directories. As root it refuses directories that somebody else can change.
    ///
    /// # Errors
    /// If a directory can't be made. As root, also if a directory above is closed to the functions' users.
    pub fn prepare(state: &Path, run: &Path, root: bool) -> io::Result<Self> {
        [state, run].into_iter().try_for_each(|dir| DirBuilder::new().recursive(true).mode(0o711).create(dir))?;
        let places = Self { state: fs::canonicalize(state)?, run: fs::canonicalize(run)? };
        places.restore()?;
        if root {
            for dir in [&places.state, &places.run] {
                let meta = fs::metadata(dir)?;
                if meta.uid() == 0 && meta.mode() & 0o001 == 0 {
                    fs::set_permissions(dir, Permissions::from_mode(meta.mode() & 0o777 | 0o111))?;
                }
                // A function reaches its code and its home as its own user, through every directory above.
                for above in dir.ancestors() {
                    if fs::metadata(above)?.mode() & 0o001 == 0 {
                        let above = above.display();
                        return Err(io::Error::other(format!(
                            "the users of functions may not enter `{above}`; run `chmod o+x {above}` or use another directory"
                        )));
                    }
                }
            }
            // A user who can change a directory above could put files of its own in the place of root's.
            if let Some(bad) = places.fixed().iter().find_map(|(dir, _)| insecure_above(dir, &[0])) {
                let bad = bad.display();
                return Err(io::Error::other(format!(
                    "users other than root can change `{bad}`; run `chown root {bad} && chmod go-w {bad}`, or use another directory"
                )));
            }
        }
        Ok(places)
    }

    /// Returns the directories below which root makes the functions' directories, with their modes.
    fn fixed(&self) -> Vec<(PathBuf, u32)> {
        let (state, run) = (|name| (self.state.join(name), 0o711), |name| (self.run.join(name), 0o711));
        let mut fixed: Vec<_> = ["versions", "home", "cache", "tmp", "deps"].map(state).into();
        // This directory has the key of the machine, and the ends of workers with their output.
        fixed.push((self.state.join("spawner"), 0o700));
        fixed.extend(["creds", "bindings", "api", "http", "root"].map(run));
        fixed
    }

    /// Makes the fixed directories that are missing, and the state and run directory if they are missing.
    ///
    /// # Errors
    /// If making them fails.
    pub fn restore(&self) -> io::Result<()> {
        [&self.state, &self.run].into_iter().try_for_each(|dir| make(dir, 0o711))?;
        self.fixed().iter().try_for_each(|(dir, mode)| make(dir, *mode))
    }

    /// Makes a function's own directories except those of its invocations; also if somebody removed the directories
    /// above.
    ///
    /// # Errors
    /// If making it fails.
    pub fn prepare_again(&self, dirs: &FunctionPlaces, owner: Option<&Identity>) -> io::Result<()> {
        dirs.prepare(owner).or_else(|_| self.restore().and_then(|()| dirs.prepare(owner)))
    }

    /// Returns the invocations that have a directory, each with its function's file form.
    ///
    /// # Errors
    /// If the list of functions can't be read.
    pub fn invocations(&self) -> io::Result<Vec<(String, InvocationId)>> {
        let mut found = Vec::new();
        for function in names(&self.state.join("tmp"))? {
            let stays = |error: &_| crate::log!("failed to list what runs of `{function}` left, so it stays: {error}");
            let ids = names(&self.of(&function).tmp).inspect_err(stays).unwrap_or_default();
            found.extend(ids.iter().filter_map(|id| Some((function.clone(), InvocationId::parse(id)?))));
        }
        Ok(found)
    }

    /// Returns the functions that have a home or a cache but are not in `functions`: names in file form, at most
    /// [`SWEPT_MAX`](fnd_wire::frame::SWEPT_MAX), and how many there are in all.
    ///
    /// # Errors
    /// If a directory can't be read.
    pub fn left_behind(&self, functions: &BTreeSet<String>) -> io::Result<(Vec<String>, u32)> {
        let dirs = [names(&self.state.join("home"))?, names(&self.state.join("cache"))?];
        let function = |name: String| name.split_once('~').map(|(name, _)| name.to_owned()).unwrap_or(name);
        let all = dirs.into_iter().flatten().map(function);
        let unlisted: BTreeSet<String> = all.filter(|name| !functions.contains(name) && !is_own(name)).collect();
        let count = u32::try_from(unlisted.len()).unwrap_or(u32::MAX);
        Ok((unlisted.into_iter().take(fnd_wire::frame::SWEPT_MAX).collect(), count))
    }

    /// Removes the result files that an earlier spawner made ready. One that stays is replaced before it is used.
    pub fn remove_spare_results(&self) {
        let functions = names(&self.state.join("tmp")).unwrap_or_default();
        functions.iter().for_each(|function| self.of(function).remove_spare_result());
    }

    /// Returns an empty directory, in which each function's view of the files is put together.
    pub fn root(&self) -> PathBuf {
        self.run.join("root")
    }

    /// Returns the directory of the sockets of programs that serve HTTP.
    pub fn http(&self) -> PathBuf {
        self.run.join("http")
    }

    /// Returns the directory of the socket at which a function calls fnd. The names of functions are too long for the path
    /// of a socket.
    pub fn api(&self, function: FunctionId) -> PathBuf {
        self.run.join("api").join(function.0.to_string())
    }

    /// Makes the directory in which fnd listens for a function. It belongs to fnd, and nobody else but the function's group
    /// may enter it; none: fnd, the function and the spawner are one user.
    ///
    /// # Errors
    /// If making it fails.
    pub fn prepare_api(&self, function: FunctionId, fnd_and_group: Option<(u32, u32)>) -> io::Result<()> {
        let dir = self.api(function);
        make(&dir, 0o710)?;
        fnd_and_group.map_or(Ok(()), |(fnd, group)| std::os::unix::fs::lchown(&dir, Some(fnd), Some(group)))
    }

    /// Returns the directories of a function, named by its file form.
    pub fn of(&self, function: &str) -> FunctionPlaces {
        let state = ["versions", "home", "cache", "tmp"].map(|name| self.state.join(name).join(function));
        let [versions, home, cache, tmp] = state;
        let [credentials, bindings] = ["creds", "bindings"].map(|name| self.run.join(name).join(function));
        FunctionPlaces { versions, home, cache, credentials, bindings, tmp }
    }
}

impl FunctionPlaces {
    /// Returns the directories of a user of the function that has its uid in the name of its home ([`uids`](crate::uids)); none:
    /// of the user without.
    pub fn of_user(mut self, apart: Option<u32>) -> Self {
        let end = apart.map(|uid| format!("~{uid}")).unwrap_or_default();
        [&mut self.home, &mut self.cache].into_iter().for_each(|dir| dir.as_mut_os_string().push(&end));
        self
    }

    /// Returns the directory of a version.
    pub fn version(&self, version: &Version) -> PathBuf {
        self.versions.join(version.hex())
    }

    /// Returns the directory of an invocation. Root owns it; it holds `tmp`, `result.N` and `previous`.
    pub fn invocation(&self, invocation: InvocationId) -> PathBuf {
        self.tmp.join(invocation.to_string())
    }

    /// Returns whether the directories that [`prepare`](Self::prepare) makes exist.
    pub fn are_there(&self) -> bool {
        [&self.home, &self.cache, &self.credentials, &self.bindings, &self.tmp].iter().all(|dir| dir.exists())
    }

    /// Makes the function's own directories except those of its invocations.
    ///
    /// # Errors
    /// If making them fails.
    pub fn prepare(&self, owner: Option<&Identity>) -> io::Result<()> {
        for dir in [&self.home, &self.cache] {
            make(dir, 0o700)?;
            own(dir, owner)?;
        }
        [&self.credentials, &self.bindings, &self.tmp].into_iter().try_for_each(|dir| make(dir, 0o711))
    }

    /// Bounds what the invocations of the function hold together, by a file system in memory over their directory. A function
    /// whose invocations lie on the disk keeps them there: they are from an earlier spawner.
    ///
    /// # Errors
    /// If the machine does not allow it, or if they hold more than `size` bytes now.
    pub fn bound(&self, size: u64) -> io::Result<()> {
        let covered = self.is_bounded()?;
        if covered || !self.has_invocations()? { mounts::cover(&self.tmp, size, covered) } else { Ok(()) }
    }

    /// Takes that file system away, if no invocation has files in it. No launcher may be left, which would still show it.
    ///
    /// # Errors
    /// If the machine does not allow it.
    pub fn unbound(&self) -> io::Result<()> {
        if self.is_bounded()? && !self.has_invocations()? { mounts::uncover(&self.tmp) } else { Ok(()) }
    }

    fn is_bounded(&self) -> io::Result<bool> {
        // A directory that is a mount point has another device number than the directory above it.
        let device = |path: &Path| Ok::<_, io::Error>(fs::symlink_metadata(path)?.dev());
        Ok(device(&self.tmp)? != device(self.tmp.parent().unwrap_or(&self.tmp))?)
    }

    fn has_invocations(&self) -> io::Result<bool> {
        Ok(names(&self.tmp)?.iter().any(|name| InvocationId::parse(name).is_some()))
    }

    /// Makes the files of one attempt; `worker` is in the result file's name, so that each attempt has its own. `spare` is
    /// the result file in the spare directory, if [`make_spare_result`](Self::make_spare_result) has made it for this user.
    ///
    /// # Errors
    /// If making it fails.
    pub fn for_attempt(
        &self,
        id: InvocationId,
        worker: u64,
        owner: Option<&Identity>,
        spare: Option<File>,
    ) -> io::Result<AttemptFiles> {
        let (dir, tmp) = (self.invocation(id), self.invocation(id).join("tmp"));
        let mut others = None;
        // The rename fails if there is no spare directory, or if this invocation has its own directory already, which
        // is not empty.
        match (fs::rename(self.tmp.join(SPARE), &dir), spare) {
            (Ok(()), Some(result_file)) => {
                return Ok(AttemptFiles { tmp, result: dir.join(SPARE_RESULT), result_file, others: None });
            }
            (Ok(()), None) => {}
            (Err(_), _) => {
                make(&dir, 0o711)?;
                others = self.without_others(&tmp, worker, owner)?;
                make(&tmp, 0o700)?;
            }
        }
        own(&tmp, owner)?;
        let result = dir.join(format!("result.{worker}"));
        let result_file = make_result(&result, owner)?;
        Ok(AttemptFiles { tmp, result, result_file, others })
    }

    /// Moves the `TMPDIR` of an earlier attempt that had another user out of the invocation's directory, and returns where
    /// it is then.
    fn without_others(&self, tmp: &Path, worker: u64, owner: Option<&Identity>) -> io::Result<Option<PathBuf>> {
        // One that root owns was made and not given to a user yet.
        let is_others = |meta: fs::Metadata| owner.is_some_and(|owner| ![0, owner.uid].contains(&meta.uid()));
        if !fs::symlink_metadata(tmp).is_ok_and(is_others) {
            return Ok(None);
        }
        // The numbers of workers begin anew with each spawner, so only the time makes the name a new one.
        let aside = self.tmp.join(format!("others-{worker}-{}", crate::clock::unix_ms()));
        fs::rename(tmp, &aside)?;
        Ok(Some(aside))
    }

    /// Makes the result file of the next attempt in the spare directory, and gives that directory to the function's user.
    ///
    /// # Errors
    /// If there is no spare directory, or making the file fails.
    pub fn make_spare_result(&self, owner: Option<&Identity>) -> io::Result<File> {
        let spare = self.tmp.join(SPARE);
        own(&spare.join("tmp"), owner)?;
        make_result(&spare.join(SPARE_RESULT), owner)
    }

    /// Removes the result file in the spare directory.
    pub fn remove_spare_result(&self) {
        let _ = fs::remove_file(self.tmp.join(SPARE).join(SPARE_RESULT)); // it may not be there
    }

    /// Removes an invocation's directory, or keeps it for the next invocation, if its `tmp` is empty; returns whether
    /// it did.
    #[must_use]
    pub fn remove_invocation(&self, id: InvocationId) -> bool {
        let (dir, tmp) = (self.invocation(id), self.invocation(id).join("tmp"));
        if !is_empty(&tmp) {
            return false;
        }
        // If one of the other files stays, the next start replaces it or fails.
        let others = names(&dir).unwrap_or_default().into_iter().filter(|name| name != "tmp");
        others.for_each(|name| drop(fs::remove_file(dir.join(name))));
        // The function may have changed the mode. The rename fails if another directory is kept already.
        let mode = fs::set_permissions(&tmp, Permissions::from_mode(0o700));
        mode.and_then(|()| fs::rename(&dir, self.tmp.join(SPARE))).is_ok()
            || if_there(fs::remove_dir(&tmp)).is_ok() && if_there(fs::remove_dir(&dir)).is_ok()
    }
}

/// Returns the user of the version in a directory, if the home of that user has the uid in its name.
///
/// # Errors
/// If the uid cannot be read: without it, the version would run as another owner's user, in that user's home.
pub fn user_of(version: &Path) -> io::Result<Option<u32>> {
    let uid = if_there(fs::read_to_string(version.join(USER)))?;
    uid.map(|uid| uid.parse().map_err(io::Error::other)).transpose()
}

/// Makes a result file in a directory of root, and returns it open for reading only, as fnd gets it.
fn make_result(path: &Path, owner: Option<&Identity>) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};
    let make = || open(path, OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    // Each spawner numbers its workers anew, so an earlier spawner may have left a file of the same number.
    let file = make().or_else(|_| {
        let _ = fs::remove_file(path); // if it stays, the next step fails
        make()
    })?;
    // The file is new, so it has no other owner.
    owner.map_or(Ok(()), |owner| std::os::unix::fs::fchown(&file, Some(owner.uid), Some(owner.gid)))?;
    Ok(file.into())
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let names = if_there(fs::read_dir(dir))?.into_iter().flatten();
    names.filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose()).collect()
}

/// Makes a directory with this mode, independent of the umask; a directory that exists stays as it is.
///
/// # Errors
/// If the directory can't be made; `AlreadyExists` if the name belongs to something else.
pub fn make(dir: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(dir) {
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(mode)),
        Err(_) if fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives a file or directory, in a directory that root owns, to a function.
///
/// # Errors
/// If `lchown` fails.
pub fn own(path: &Path, owner: Option<&Identity>) -> io::Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    let meta = fs::symlink_metadata(path)?;
    let is_own = (meta.uid(), meta.gid()) == (owner.uid, owner.gid);
    if is_own { Ok(()) } else { std::os::unix::fs::lchown(path, Some(owner.uid), Some(owner.gid)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file. A path below it cannot exist, but the error for such a path is not `NotFound`.
    fn a_file() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        (dir, file)
    }

    #[test]
    fn only_home_and_cache_of_a_user_have_the_uid_in_their_names() {
        let places = Places { state: "/state".into(), run: "/run".into() };
        let dirs = |apart| {
            let FunctionPlaces { versions, home, cache, credentials, bindings, tmp } =
                places.of("ops.f").of_user(apart);
            [versions, home, cache, credentials, bindings, tmp].map(|dir| dir.to_str().unwrap().to_owned())
        };
        let [versions, tmp] = ["/state/versions/ops.f", "/state/tmp/ops.f"];
        let [credentials, bindings] = ["/run/creds/ops.f", "/run/bindings/ops.f"];
        let expected = |home, cache| [versions, home, cache, credentials, bindings, tmp];
        assert_eq!(dirs(None), expected("/state/home/ops.f", "/state/cache/ops.f"));
        assert_eq!(dirs(Some(70_001)), expected("/state/home/ops.f~70001", "/state/cache/ops.f~70001"));
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_not_empty_and_an_absent_one_is() {
        let (dir, file) = a_file();
        let absent = dir.path().join("absent");
        assert!(entries(&absent).unwrap().is_empty() && is_empty(&absent));
        assert!(entries(&file).is_err() && !is_empty(&file));
        assert!(entries(&file.join("f")).is_err() && !is_empty(&file.join("f")));
        assert!(entries(dir.path()).unwrap().len() == 1 && !is_empty(dir.path()));
    }

    #[test]
    fn what_runs_have_left_is_unknown_if_a_directory_cannot_be_read() {
        let root = tempfile::tempdir().unwrap();
        let places = Places::prepare(&root.path().join("state"), &root.path().join("run"), false).unwrap();
        let nobody = BTreeSet::new();
        assert!(places.invocations().unwrap().is_empty());
        assert_eq!(places.left_behind(&nobody).unwrap(), (Vec::new(), 0));
        fs::write(&places.of("f").tmp, "").unwrap();
        assert!(places.invocations().unwrap().is_empty());
        assert!(places.of("f").has_invocations().is_err());
        let homes = places.state.join("home");
        fs::remove_dir(&homes).unwrap();
        fs::write(homes, "").unwrap();
        assert!(places.left_behind(&nobody).is_err());
    }

    #[test]
    fn a_version_whose_user_cannot_be_read_has_no_other_user() {
        let (dir, file) = a_file();
        assert_eq!(user_of(dir.path()).unwrap(), None);
        fs::write(dir.path().join(USER), "70001").unwrap();
        assert_eq!(user_of(dir.path()).unwrap(), Some(70_001));
        fs::write(dir.path().join(USER), "700x1").unwrap();
        assert!(user_of(dir.path()).is_err() && user_of(&file).is_err());
    }

    #[test]
    fn what_is_left_empty_serves_the_next_invocation_and_nothing_else_does() {
        let root = tempfile::tempdir().unwrap();
        let places = Places::prepare(&root.path().join("state"), &root.path().join("run"), false).unwrap().of("f");
        places.prepare(None).unwrap();
        let tmp = |id| places.invocation(InvocationId(id)).join("tmp");
        let begin = |id, worker| places.for_attempt(InvocationId(id), worker, None, None).unwrap();
        let files = |id| fs::read_dir(places.invocation(InvocationId(id))).unwrap().count();

        begin(1, 1);
        let inode = fs::metadata(tmp(1)).unwrap().ino();
        fs::write(tmp(1).join("left"), "").unwrap();
        assert!(!places.remove_invocation(InvocationId(1)), "its owner empties it");
        fs::remove_file(tmp(1).join("left")).unwrap();
        fs::set_permissions(tmp(1), Permissions::from_mode(0o777)).unwrap();
        assert!(places.remove_invocation(InvocationId(1)) && !tmp(1).exists());

        begin(2, 2);
        let meta = fs::metadata(tmp(2)).unwrap();
        assert_eq!((meta.ino(), meta.mode() & 0o777, files(2)), (inode, 0o700, 2));
        begin(3, 3);
        assert!(places.remove_invocation(InvocationId(2)));
        // Another attempt of the same invocation finds the files of the first one.
        fs::write(tmp(3).join("kept"), "").unwrap();
        begin(3, 4);
        assert!(tmp(3).join("kept").exists() && files(3) == 3);
        fs::remove_file(tmp(3).join("kept")).unwrap();
        assert!(places.remove_invocation(InvocationId(3)), "one is kept already");
        assert_eq!(fs::read_dir(places.tmp).unwrap().count(), 1);
    }
}
