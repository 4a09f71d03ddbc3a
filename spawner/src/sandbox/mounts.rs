//! Gives a launcher, and every process that it starts, a view of the files of its own: the machine's files, read-only,
//! with some directories hidden, some replaced by temporary ones, and the function's own put back at their paths.
//!
//! Everything is made of three things: a read-only copy of the whole tree of mounts; one temporary file system, whose
//! directories are the private ones and the empty ones that hide; and copies of single mounts. Sources: mount_setattr(2),
//! move_mount(2), open_tree(2), pivot_root(2).

use super::secret_files::{SecretFiles, fill};
use crate::stat_cache::{real, unless_short};
use fnd_wire::sandbox::{Profile, Sandbox};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
    fspick, mount_change, move_mount, open_tree, unmount,
};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// The places that are empty in profile strict, unless something in them is shown.
const HIDDEN: [&str; 12] = [
    "/home",
    "/root",
    "/run",
    "/srv",
    "/mnt",
    "/media",
    "/boot",
    "/var/spool",
    "/var/mail",
    "/var/log",
    "/etc/fnd",
    "/sys/fs/cgroup", // it names every function and service of the machine, and what each of them uses
];
/// The temporary directories, each a directory of the function's own temporary file system.
pub const PRIVATE: [(&str, &str); 3] = [("/tmp", "tmp"), ("/var/tmp", "var-tmp"), ("/dev/shm", "shm")];
/// The device files of profile strict.
pub const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Entries of /proc that say more about the machine than a function needs: files, and directories that are read-only.
const MASKED: [&str; 5] = ["kcore", "keys", "kmsg", "sysrq-trigger", "timer_list"];
const READ_ONLY: [&str; 6] = ["sys", "bus", "fs", "irq", "acpi", "scsi"];
/// Most files in the temporary file system; and in that of `TMPDIR`.
const INODES: &str = "16384";
const INODES_OF_RUNS: &str = "65536";

/// Neither devices nor programs with the rights of their owners work on a mount of a function.
const PROTECTED: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// How a function may use a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Look at it.
    Read,
    /// Write to it, as far as the function's user may.
    Write,
    /// Open the device file.
    Device,
}

/// The view of a function.
pub struct MountView {
    /// The function's sandbox.
    pub sandbox: Sandbox,
    /// An empty directory of root, in which the view is put together.
    pub root: PathBuf,
    /// fnd's own directories: hidden in profile strict, but for what is shown.
    pub own: Vec<PathBuf>,
    /// The function's own files and directories, with real paths.
    pub shown: Vec<(PathBuf, Use)>,
    /// The directory of its invocations, if that and those of other functions lie below a mount of their own.
    pub runs: Option<PathBuf>,
    /// The texts of its `/etc/passwd` and `/etc/group`.
    pub accounts: [String; 2],
    /// Its secrets and service bindings, if it has any.
    pub secrets: Option<SecretFiles>,
}

/// The places that are shown; the places that are hidden before that; and those that are hidden in what is shown.
pub type ViewTable = (Vec<(PathBuf, Use)>, Vec<PathBuf>, Vec<PathBuf>);

/// Returns the places that a profile hides or replaces.
pub fn hidden_by(profile: Profile) -> impl Iterator<Item = &'static str> {
    let private = PRIVATE.iter().map(|(place, _)| *place).filter(move |_| profile != Profile::Off);
    private.chain(HIDDEN.into_iter().filter(move |_| profile == Profile::Strict))
}

impl MountView {
    /// Returns the view as a table, outer places before inner ones.
    ///
    /// # Errors
    /// As [`real`].
    pub fn table(&self) -> io::Result<ViewTable> {
        let sandbox = &self.sandbox;
        let (read, write) = (real(&sandbox.read_only)?.into_iter(), real(&sandbox.read_write)?.into_iter());
        let named = read.map(|path| (path, Use::Read)).chain(write.map(|path| (path, Use::Write)));
        let mut shown: Vec<_> = self.shown.iter().cloned().chain(named).chain(resolver()?).collect();
        // Outer ones first, so that no inner one is covered.
        shown.sort_by(|(one, _), (other, _)| one.cmp(other));
        let inside = |path: &PathBuf| shown.iter().any(|(shown, _)| path != shown && path.starts_with(shown));
        let (later, mut first): (Vec<_>, Vec<_>) = real(&sandbox.hide)?.into_iter().partition(inside);
        if sandbox.profile == Profile::Strict {
            first.extend(real(HIDDEN)?);
            first.extend(self.own.iter().cloned());
        }
        first.sort();
        first.dedup_by(|inner, outer| inner.starts_with(outer));
        Ok((shown, first, later))
    }
}

/// Sets attributes of a mount, or of it and all below it.
#[expect(unsafe_code, reason = "mount_setattr has no wrapper")]
fn set(mount: &OwnedFd, all: bool, flags: MountAttrFlags) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: flags.bits().into(), attr_clr: 0, propagation: 0, userns_fd: 0 };
    let at = libc::AT_EMPTY_PATH | if all { libc::AT_RECURSIVE } else { 0 };
    let (pointer, size) = (&raw const attributes, size_of_val(&attributes));
    // SAFETY: the path is an empty string, and the structure has the size that is given.
    let done = unsafe { libc::syscall(libc::SYS_mount_setattr, mount.as_raw_fd(), c"".as_ptr(), at, pointer, size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns a copy of the mount at a path below a directory.
fn copy(dir: impl AsFd, path: &str, all: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    flags.set(OpenTreeFlags::AT_EMPTY_PATH, path.is_empty());
    flags.set(OpenTreeFlags::AT_RECURSIVE, all);
    Ok(open_tree(dir, path, flags)?)
}

/// Opens a path without following any link in it. A person who can rename directories on the way gets nothing but what
/// lies at this path then.
pub fn find(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let relative = if path == Path::new("/") { Path::new(".") } else { path.strip_prefix("/").unwrap_or(path) };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(root, relative, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

/// As [`find`]; none if nothing is there.
fn find_if_there(root: impl AsFd, path: &Path) -> io::Result<Option<OwnedFd>> {
    unless_short(find(root, path))
}

/// Attaches a mount that belongs to no tree yet.
fn attach(mount: &OwnedFd, at: impl AsFd) -> io::Result<()> {
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", at, "", both)?)
}

/// Attaches a copy of the mount at a path below a directory, read-only.
fn attach_read_only(dir: impl AsFd, path: &str, at: impl AsFd) -> io::Result<()> {
    let mount = copy(dir, path, false)?;
    set(&mount, false, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    attach(&mount, at)
}

/// Returns a new temporary file system with these options. `noswap`: the kernel does not swap it out if it can (since
/// Linux 6.4).
fn file_system(kind: &str, options: &[(&str, &str)], noswap: bool, flags: MountAttrFlags) -> io::Result<OwnedFd> {
    let made = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    options.iter().try_for_each(|(key, value)| fsconfig_set_string(&made, *key, *value))?;
    let _ = noswap && fsconfig_set_flag(&made, "noswap").is_ok();
    fsconfig_create(&made)?;
    Ok(fsmount(&made, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

/// Makes a directory a mount of its own, in the calling process's own mount namespace.
///
/// # Errors
/// If the machine does not allow it.
pub fn separate(dir: &Path) -> io::Result<()> {
    let place = openat(CWD, dir, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    attach(&copy(&place, "", true)?, place)
}

/// Covers a directory with a file system in memory of at most `size` bytes, in the calling process's own mount namespace; or
/// changes the size of the one that covers it.
///
/// # Errors
/// If the machine does not allow it, or if more is in use than the new size.
pub fn cover(dir: &Path, size: u64, covered: bool) -> io::Result<()> {
    let size = size.to_string();
    if covered {
        let picked = fspick(CWD, dir, FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_SYMLINK_NOFOLLOW)?;
        fsconfig_set_string(&picked, "size", &*size)?;
        return Ok(fsconfig_reconfigure(&picked)?);
    }
    let options = [("size", &*size), ("nr_inodes", INODES_OF_RUNS), ("mode", "0711")];
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat(CWD, dir, flags, Mode::empty())?;
    attach(&file_system("tmpfs", &options, false, PROTECTED)?, place)
}

/// Takes that file system away, with everything in it.
///
/// # Errors
/// If the machine does not allow it.
pub fn uncover(dir: &Path) -> io::Result<()> {
    Ok(unmount(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?)
}

/// Mounts secrets and service bindings at their places below a root.
///
/// # Errors
/// If the machine does not allow it.
fn give(secrets: &SecretFiles, root: impl AsFd) -> io::Result<()> {
    let options = [("size", "8M"), ("nr_inodes", "8192"), ("mode", "0700")];
    for (place, files) in &secrets.places {
        let mounted = file_system("tmpfs", &options, true, PROTECTED | MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
        fill(&mounted, files, secrets.owner.as_ref())?;
        set(&mounted, false, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
        attach(&mounted, find(&root, place)?).map_err(|error| at(&place.to_string_lossy(), &error))?;
    }
    Ok(())
}

/// Mounts secrets and service bindings in the calling process's own mount namespace, which otherwise follows the machine's.
///
/// # Errors
/// If the machine does not allow it.
pub fn give_only(secrets: &SecretFiles) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    give(secrets, openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

fn make_dir(below: impl AsFd, path: &Path) -> io::Result<()> {
    match mkdirat(below, path, Mode::from_raw_mode(0o755)) {
        Err(error) if error != rustix::io::Errno::EXIST => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes an empty file that nobody may open, for something to be mounted on it.
fn make_file(below: impl AsFd, path: &Path) -> io::Result<()> {
    Ok(openat(below, path, OFlags::CREATE | OFlags::CLOEXEC, Mode::empty()).map(drop)?)
}

/// The view while it is put together.
pub struct Building<'a> {
    view: &'a MountView,
    /// The root of the machine's tree.
    machine: OwnedFd,
    /// The root of the new tree.
    pub root: OwnedFd,
    /// The function's temporary file system.
    own: OwnedFd,
    /// A copy of the mount of its invocations.
    runs: Option<OwnedFd>,
}

impl<'a> Building<'a> {
    /// Begins a view, in the calling process's own mount namespace: everything is there, and read-only.
    ///
    /// # Errors
    /// If the machine does not allow it.
    pub fn begin(view: &'a MountView) -> io::Result<Self> {
        // systemd makes the tree shared: without this step, what follows would also change the spawner's mounts.
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
        let open = |path: &Path| openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        // The mounts of all other functions go, since the tree would be a copy of each of them.
        let runs = view.runs.as_ref().map(|dir| copy(open(dir)?, "", false)).transpose()?;
        view.runs.iter().filter_map(|dir| dir.parent()).try_for_each(|all| unmount(all, UnmountFlags::DETACH))?;
        let (machine, root) = (open(Path::new("/"))?, copy(CWD, "/", true)?);
        set(&root, true, PROTECTED | MountAttrFlags::MOUNT_ATTR_RDONLY)?;
        let size = view.sandbox.tmp.to_string();
        let own = file_system("tmpfs", &[("size", &size), ("nr_inodes", INODES), ("mode", "0711")], false, PROTECTED)?;
        // First, so that its directories can be copied; the tree covers it.
        attach(&own, open(&view.root)?)?;
        attach(&root, open(&view.root)?)?;
        Ok(Self { view, machine, root, own, runs })
    }

    /// Puts everything in its place.
    ///
    /// # Errors
    /// Which path could not be put in its place.
    pub fn furnish(&self) -> io::Result<()> {
        self.devices(self.view.sandbox.profile == Profile::Strict)?;
        for (path, name) in PRIVATE {
            mkdirat(&self.own, name, Mode::empty())?;
            // In a step of its own, since the umask takes bits away from the mode of `mkdirat`.
            rustix::fs::chmodat(&self.own, name, Mode::from_raw_mode(0o1777), AtFlags::empty())?;
            if let Some(place) = find_if_there(&self.root, Path::new(path))? {
                attach(&copy(&self.own, name, false)?, &place).map_err(|error| at(path, &error))?;
            }
        }
        let (shown, first, later) = self.view.table()?;
        let named = |path: &Path, done: io::Result<()>| done.map_err(|error| at(&path.to_string_lossy(), &error));
        let hide = |(n, path): (usize, &PathBuf), kind, all| named(path, self.hide(path, &format!("{kind}{n}"), all));
        first.iter().enumerate().try_for_each(|numbered| hide(numbered, "h", &shown))?;
        shown.iter().try_for_each(|(path, usage)| named(path, self.show(path, *usage)))?;
        later.iter().enumerate().try_for_each(|numbered| hide(numbered, "l", &[]))?;
        self.view.secrets.iter().try_for_each(|secrets| give(secrets, &self.root))?;
        self.accounts()
    }

    /// Makes the directory of devices of profile strict; the others have the machine's.
    fn devices(&self, strict: bool) -> io::Result<()> {
        let dev = find(&self.root, Path::new("/dev"))?;
        if !strict {
            // Read-only, so that a function can leave nothing there, such as a queue in `/dev/mqueue`. Devices are
            // written to all the same.
            let devices = copy(CWD, "/dev", true)?;
            set(&devices, true, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_RDONLY)?;
            return attach(&devices, &dev);
        }
        let named = self.view.sandbox.devices.iter().map(PathBuf::from);
        let devices: Vec<_> = DEVICES.iter().map(PathBuf::from).chain(named).collect();
        let place = |path: &PathBuf| self.make_place(Path::new("dev"), path.strip_prefix("/dev").unwrap_or(path), path);
        devices.iter().try_for_each(place)?;
        for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
            symlinkat(format!("/proc/self/fd{target}"), &self.own, format!("dev/{name}"))?;
        }
        // Each devpts has a `ptmx` of its own, which makes terminals in that devpts only.
        symlinkat("pts/ptmx", &self.own, "dev/ptmx")?;
        ["dev/shm", "dev/pts"].iter().try_for_each(|dir| make_dir(&self.own, Path::new(dir)))?;
        attach_read_only(&self.own, "dev", &dev)?;
        let show = |path: &PathBuf| self.show(path, Use::Device).map_err(|error| at(&path.to_string_lossy(), &error));
        devices.iter().try_for_each(show)?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let terminals = file_system("devpts", &[("ptmxmode", "0666"), ("mode", "0620")], false, flags);
        // Where it is not allowed (a container), there are no terminals.
        terminals.and_then(|pts| attach(&pts, find(&self.root, Path::new("/dev/pts"))?)).or(Ok(()))
    }

    /// Covers a place with an empty directory or file, named `name` in the own file system. The directory has the places
    /// of what is shown in it.
    fn hide(&self, path: &Path, name: &str, shown: &[(PathBuf, Use)]) -> io::Result<()> {
        let Some(place) = find_if_there(&self.root, path)? else { return Ok(()) }; // below a private temporary directory
        self.make_place(Path::new(name), Path::new(""), path)?;
        let mut inner = shown.iter().filter_map(|(shown, _)| Some((shown.strip_prefix(path).ok()?, shown)));
        inner.try_for_each(|(relative, shown)| self.make_place(Path::new(name), relative, shown))?;
        attach_read_only(&self.own, name, &place)
    }

    /// Makes an empty directory or file for a path to be mounted on, and the directories above it.
    fn make_place(&self, below: &Path, relative: &Path, real: &Path) -> io::Result<()> {
        // To join an empty path would add a slash, which no file may have at its end.
        let whole = if relative.as_os_str().is_empty() { below.to_owned() } else { below.join(relative) };
        let mut dirs: Vec<_> = whole.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()).collect();
        dirs.reverse();
        dirs.into_iter().try_for_each(|dir| make_dir(&self.own, dir))?;
        if real.is_dir() { make_dir(&self.own, &whole) } else { make_file(&self.own, &whole) }
    }

    /// Puts a copy of the mount of a path at the same path of the new tree.
    fn show(&self, path: &Path, usage: Use) -> io::Result<()> {
        // In the machine's tree, since a place above may be hidden in the new one.
        let Some(source) = find_if_there(&self.machine, path)? else { return Ok(()) }; // it is not there now
        // In a private temporary directory there is no place for it yet.
        let mut private = PRIVATE.iter().filter_map(|(dir, name)| Some((path.strip_prefix(dir).ok()?, name)));
        private.try_for_each(|(relative, name)| self.make_place(Path::new(name), relative, path))?;
        let Some(place) = find_if_there(&self.root, path)? else { return Ok(()) }; // it was not there a moment ago
        let mount = match &self.runs {
            Some(runs) if self.view.runs.as_deref() == Some(path) => runs.try_clone()?,
            _ => copy(&source, "", usage != Use::Device)?,
        };
        let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID;
        flags.set(MountAttrFlags::MOUNT_ATTR_NODEV, usage != Use::Device);
        flags.set(MountAttrFlags::MOUNT_ATTR_RDONLY, usage == Use::Read);
        set(&mount, usage != Use::Device, flags)?;
        attach(&mount, &place)
    }

    /// Replaces `/etc/passwd` and `/etc/group`.
    fn accounts(&self) -> io::Result<()> {
        for (name, text) in ["passwd", "group"].into_iter().zip(&self.view.accounts) {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = openat(&self.own, name, flags, Mode::from_raw_mode(0o644))?;
            // The umask may have taken bits away from the mode.
            rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
            rustix::io::write(&file, text.as_bytes())?;
            drop(file);
            let Some(place) = find_if_there(&self.root, &Path::new("/etc").join(name))? else { continue };
            attach_read_only(&self.own, name, &place).map_err(|error| at(name, &error))?;
        }
        Ok(())
    }

    /// Makes the new tree the root of the calling process, and lets go of the old one.
    ///
    /// # Errors
    /// If the machine does not allow it.
    pub fn enter(self) -> io::Result<()> {
        rustix::process::fchdir(&self.root)?;
        // The old root then lies on top of the new one, and the unmount takes it away (pivot_root(2), notes).
        rustix::process::pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        Ok(rustix::process::chdir("/")?)
    }
}

/// Mounts `/proc` of the caller's pid namespace below a root, and masks what says too much.
///
/// # Errors
/// If the machine does not allow it.
pub fn mount_proc(root: impl AsFd) -> io::Result<()> {
    let proc = file_system("proc", &[], false, PROTECTED | MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
    attach(&proc, find(&root, Path::new("/proc"))?)?;
    let null = find(&root, Path::new("/dev/null"))?;
    for (name, hidden) in READ_ONLY.map(|name| (name, false)).into_iter().chain(MASKED.map(|name| (name, true))) {
        let Some(place) = find_if_there(&proc, Path::new(name))? else { continue };
        attach_read_only(if hidden { &null } else { &place }, "", &place).map_err(|error| at(name, &error))?;
    }
    Ok(())
}

/// Returns what the machine's way to find hosts by name needs, if it is in a hidden place. The file is replaced when the
/// network changes, so the directory is shown.
fn resolver() -> io::Result<Option<(PathBuf, Use)>> {
    let file = unless_short(fs::canonicalize("/etc/resolv.conf"))?.filter(|file| file.starts_with("/run"));
    let dir = |file: &Path| file.parent().filter(|dir| *dir > Path::new("/run")).map(Path::to_owned); // below /run
    Ok(file.map(|file| (dir(&file).unwrap_or(file), Use::Read)))
}

fn at(path: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("`{path}`: {error}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::process::{clone, reap};
    use fnd_wire::frame::ExitStatus;
    use fnd_wire::sandbox::Network;
    use rustix::process::{Resource, Rlimit, setrlimit};
    use seccompiler::{SeccompAction, SeccompFilter};

    #[test]
    fn a_place_that_a_shortage_hides_is_not_absent() {
        let root = fs::File::open("/").unwrap();
        assert!(find_if_there(&root, Path::new("/none/such")).unwrap().is_none());
        let child = clone::fork(None, false, 0, || {
            setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
            i32::from(find_if_there(&root, Path::new("/etc")).is_ok())
        });
        assert_eq!(reap::wait(&child.unwrap()).unwrap().status, ExitStatus::Code(0));
    }

    /// Runs a body where the kernel has no memory for reading links.
    pub(crate) fn without_memory_for_links(body: impl FnOnce() -> i32) -> ExitStatus {
        let calls = [
            libc::SYS_readlinkat,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_readlink,
        ];
        let rules = calls.map(|call| (call, Vec::new())).into();
        let (short, here) = (SeccompAction::Errno(libc::ENOMEM.cast_unsigned()), std::env::consts::ARCH);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, short, here.try_into().unwrap()).unwrap();
        let filter = seccompiler::BpfProgram::try_from(filter).unwrap();
        let child = clone::fork(None, false, 0, || {
            seccompiler::apply_filter(&filter).unwrap();
            body()
        });
        reap::wait(&child.unwrap()).unwrap().status
    }

    fn view(hide: &[&str]) -> MountView {
        let [read_only, read_write, devices, asked] = <[Vec<String>; 4]>::default();
        let hide = hide.iter().map(|path| (*path).to_owned()).collect();
        let (profile, syscalls, network, tmp) = (Profile::Standard, Profile::Off, Network::Host, 1 << 20);
        let sandbox =
            Sandbox { profile, network, syscalls, proc_full: false, read_only, read_write, hide, devices, tmp, asked };
        let (root, own, shown, accounts) = (PathBuf::new(), Vec::new(), Vec::new(), <[String; 2]>::default());
        MountView { sandbox, root, own, shown, runs: None, accounts, secrets: None }
    }

    #[test]
    fn a_table_is_whole_or_an_error() {
        let hides = view(&["/usr/share/../lib", "/none/such"]);
        assert_eq!(hides.table().unwrap().1, [fs::canonicalize("/usr/lib").unwrap()]);
        assert_eq!(without_memory_for_links(|| i32::from(hides.table().is_ok())), ExitStatus::Code(0));
        assert_eq!(without_memory_for_links(|| i32::from(real(HIDDEN).is_ok())), ExitStatus::Code(0));
        assert_eq!(without_memory_for_links(|| i32::from(resolver().is_ok())), ExitStatus::Code(0));
    }
}
