//! The answers and reports of the spawner.

use super::*;

/// Largest secret in bytes.
pub const SECRET_MAX: u64 = 64 * 1024;
/// Largest file of `[http] tls` in bytes.
pub const TLS_FILE_MAX: u64 = 1 << 20;
/// Part of the warning in [`Installed::warnings`] that a function does not use a home that it has had before: its files belong to
/// another owner now. A problem of the node says so, too.
pub const SET_ASIDE: &str = "the home from before is set aside";
/// The reason in [`Reply::Sealed`] if something besides the build may have left files in the home. The build is not at fault, and
/// a tree may be made of the next one.
pub const NOT_ALONE: &str = "its build did not run, did not succeed, or did not run alone";
/// Largest number of names in [`Swept`].
pub const SWEPT_MAX: usize = 100;

wire_enum! {
    /// An answer or a report from the spawner.
    pub enum Reply {
        /// Answers [`Request::Hello`].
        1 = Welcome(Welcome),
        /// Answers [`Request::Reload`], and ends the replies to [`Request::Hello`].
        2 = Settings(SettingsRead),
        /// Answers [`Request::Install`]: the version is installed.
        3 = Installed(Installed),
        /// Answers [`Request::Install`]: the function's files can't be used.
        4 = Refused(Refused),
        /// Answers [`Request::Spawn`]: a process was started.
        5 = Spawned(Spawned),
        /// Answers [`Request::Spawn`]: no process was started. The function is the reason.
        6 = SpawnFailed(SpawnFailed),
        /// Reports a worker's end. It is sent again on each new connection until fnd has acknowledged it.
        7 = Exited(Exited),
        /// Reports a worker of an earlier connection.
        10 = Held(RetainedWorker),
        /// Answers [`Request::Spawn`] for a function of mode `handler`. After the descriptors of [`Spawned`] comes
        /// fnd's end of the worker protocol's socket. If there was no room for copies, it is absent like the others.
        11 = SpawnedWithChannel(Spawned),
        /// Reports a worker of an earlier connection that has such a socket; a copy of fnd's end is the last
        /// descriptor.
        12 = HeldWithChannel(RetainedWorker),
        /// Answers [`Request::Spawn`]: the node is the reason, not the function. The node has run
        /// out of descriptors, processes, memory or disk space; the same start may succeed later.
        13 = NodeCannotStart(SpawnFailed),
        /// The request was carried out.
        8 = Done,
        /// The request can't be carried out, for this reason.
        9 = Failed(String),
        /// Answers [`Request::Sweep`].
        14 = Swept(Swept),
        /// Follows [`Reply::Welcome`]: the directory of the sockets of programs that serve HTTP. A
        /// worker whose `FND_SOCKET_PATH` is `DIRECTORY/NUMBER/http.sock` gets `DIRECTORY/NUMBER` for itself; any other
        /// path is refused.
        15 = Sockets(String),
        /// Answers [`Request::Secret`]. The one descriptor is a memory file with the content, sealed against every
        /// change.
        16 = Secret,
        /// Answers [`Request::Secret`]: there is no such secret, its file can't be used, or no function that root
        /// trusts names it.
        17 = SecretRefused(Problem),
        // This reply comes first, so that fnd never has output that it cannot mask.
        /// Precedes [`Reply::Spawned`] or [`Reply::Held`] of a worker whose function has secrets, from protocol 4 on.
        18 = Masks(Masked),
        /// Answers [`Request::Files`]: the files, sorted by path; a manifest that lies beside the code is the last one.
        25 = Files(Vec<StoredFile>),
        /// Answers [`Request::Install`] from protocol 4 on: nothing was installed yet.
        26 = NeedsBuild(NeedsBuild),
        /// Answers [`Request::Install`] from protocol 4 on, if the version has dependencies.
        27 = InstalledWithTree(InstalledWithTree),
        /// Answers [`Request::Seal`]: absent if it was done, otherwise the reason.
        28 = Sealed(Option<String>),
    }
}

wire_structs! {
    /// Describes the spawner and what it can enforce on this machine.
    pub struct Welcome {
        /// Protocol of this connection from now on.
        pub protocol: u16,
        /// The spawner's version, `0.1.0`.
        pub version: String,
        /// How process trees are contained and killed.
        pub containment: Containment,
        /// cgroup layout for `status`: `v2`, `hybrid`, `none`.
        pub layout: String,
        /// Names of the limits that can't be enforced here (`memory`, `cpu`, `io_read` ...), each with the reason, for
        /// people.
        pub missing: Vec<(String, String)>,
        /// The first unused worker number; all numbers below are used.
        pub next_worker: WorkerId,
        /// Functions directories, absolute, in the order of their index.
        pub functions_dirs: Vec<String>,
        /// Where fnd can read the memory use of each function.
        pub memory: MemoryGroups,
    }

    /// The result of reading the configuration.
    pub struct SettingsRead {
        /// The judge's document: settings or diagnostics.
        pub document: Bytes,
        /// Problems that the spawner found in the files.
        pub problems: Vec<Problem>,
        /// Whether the new settings are in force; otherwise the earlier ones stay.
        pub applied: bool,
    }

    /// A problem with a function's files that the spawner found.
    pub struct Problem {
        /// Path of the file, for people.
        pub file: String,
        /// The problem, for people.
        pub message: String,
        /// How to solve it, for people.
        pub help: String,
    }

    /// A version was installed, or was installed already.
    pub struct Installed {
        /// The function that was installed.
        pub function: FunctionName,
        /// The number that the spawner has given the function; requests to start it use it.
        pub id: FunctionId,
        /// Hash of the installed version, its name in every later request.
        pub version: Version,
        /// Hash of code and own manifest only; "runs once per content" uses it as its key.
        pub load_key: Version,
        /// Path of the interpreter, as it is executed (in protocol 3 the real path); empty if the entry is
        /// executed itself.
        pub interpreter: String,
        /// Uid the function runs as.
        pub uid: u32,
        /// Warnings from the spawner.
        pub warnings: Vec<Problem>,
        /// The judge's document: manifest and warnings.
        pub document: Bytes,
    }

    /// A version was installed that has dependencies.
    pub struct InstalledWithTree {
        /// The version, as it is reported where there are no dependencies.
        pub installed: Installed,
        /// The name of the tree.
        pub tree: Version,
    }

    /// A function can be installed when its dependencies are built.
    pub struct NeedsBuild {
        /// The function that waits for its dependencies.
        pub function: FunctionName,
        /// The judge's document about it.
        pub document: Bytes,
        /// The version that builds them, of the function that builds for its trust ([`builder_name`](crate::plan::builder_name)). Its hash is the
        /// name of the tree.
        pub build: Installed,
    }

    /// A function's files can't be used. The version that was in service stays in service.
    pub struct Refused {
        /// The function whose files were refused.
        pub function: FunctionName,
        /// Problems that the spawner found.
        pub problems: Vec<Problem>,
        /// The judge's document; absent if the judge was not reached.
        pub document: Option<Bytes>,
    }

    /// The source of a stored version, as it was when the version was installed from it. The spawner keeps it beside the
    /// version, so that the version can be installed again when the source has changed.
    pub struct Origin {
        /// The request by which the version was installed.
        pub install: Install,
        /// Whether root owned all files.
        pub trusted: bool,
        /// Owner of the code.
        pub owner: u32,
        /// Path of the code, for people.
        pub shown: String,
        /// [`Installed::load_key`].
        pub load_key: Version,
        /// Hash of the stored files. It shows whether they are complete after a power cut.
        pub stored: Version,
        /// The manifest, if it is not one of the files.
        pub manifest: Option<JudgedFile>,
    }

    /// A file of a stored version.
    pub struct StoredFile {
        /// Path in the function; the path of a manifest that lies beside it is absolute.
        pub path: String,
        /// Whether it is executable.
        pub executable: bool,
        /// Length of the whole content in bytes.
        pub length: u64,
        /// SHA-256 of its content.
        pub digest: [u8; 32],
        /// Its content, at most the first [`CODE_MAX`](crate::plan::CODE_MAX) bytes; empty if there was no room for it.
        pub front: Bytes,
    }

    /// Functions that no longer exist and whose directories are still there.
    pub struct Swept {
        /// How many functions that no longer exist still have a home or a cache.
        pub count: u32,
        /// Their names in file form, at most [`SWEPT_MAX`].
        pub names: Vec<String>,
    }

    /// The secrets that a worker can print.
    pub struct Masked {
        /// The worker whose output has to be masked.
        pub worker: WorkerId,
        /// Fingerprints of their values.
        pub masks: Masks,
    }
}

wire_enum! {
    /// How a process tree is contained and killed, best first.
    #[derive(Copy)]
    pub enum Containment {
        /// Each attempt has a cgroup with `cgroup.kill`.
        0 = Cgroup,
        /// Each attempt has a pid namespace.
        1 = PidNamespace,
        /// A subreaper kills the processes that it finds below itself: best effort.
        2 = Subreaper,
    }
}

wire_enum! {
    /// Where the memory of functions is counted: a directory with one group for each function, named by its file form.
    pub enum MemoryGroups {
        /// Memory is not counted.
        0 = None,
        /// cgroup v2, groups `GROUP.NAME`.
        1 = V2(String),
        /// cgroup v1, memory hierarchy, groups `f.GROUP.NAME`.
        2 = V1(String),
    }
}
