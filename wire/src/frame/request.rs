//! The requests of fnd.

use super::*;

/// [`Install::directory`] of a stored version: `source` is its hash, and nothing else of the request is used.
pub const STORED: u16 = u16::MAX;
/// [`SecretAsked::name`] of the certificates in `[http] tls`.
pub const CERTIFICATE: &str = "certificate";
/// [`SecretAsked::name`] of the private key in `[http] tls`.
pub const KEY: &str = "key";
/// The beginning of [`SecretAsked::name`] of a secret that the configuration names. No secret has a `:` in its name.
pub const NAMED: &str = "secret:";
/// Largest adoption record ([`Spawn::record`]) in bytes: enough for a worker with 10,000 calls in flight
/// (`pool.concurrency`), and the same again for the part that comes from a manifest.
pub const RECORD_MAX: usize = 8 << 20;
/// Largest sum of the bytes of all adoption records.
pub const RECORDS_MAX: usize = 64 << 20;

wire_enum! {
    /// A request from fnd to the spawner.
    pub enum Request {
        /// Begins the connection. Answered by [`Reply::Welcome`]; [`Reply::Sockets`] follows. Then come
        /// one [`Reply::Held`] or [`Reply::HeldWithChannel`] for each worker of an earlier connection whose exit
        /// was not acknowledged, [`Reply::Exited`] for those of them that have ended, and [`Reply::Settings`]. The
        /// answer waits until no start is under way; a start that takes too long fails.
        1 = Hello(Hello),
        /// Reads configuration and runtimes again. Answered by [`Reply::Settings`].
        2 = Reload,
        /// Installs a function. Answered by [`Reply::Installed`] or [`Reply::Refused`].
        3 = Install(Install),
        /// Retires a function's launchers: each ends once nothing that it started runs. Answered by [`Reply::Done`].
        4 = Remove(FunctionName),
        /// Starts an attempt. Answered by [`Reply::Spawned`], [`Reply::SpawnedWithChannel`], [`Reply::SpawnFailed`] or
        /// [`Reply::NodeCannotStart`]. After the first two, [`Reply::Exited`] follows when the worker has ended.
        5 = Spawn(Spawn),
        /// Sends SIGTERM, or the stop signal of its plan, to every process of the worker. Answered by [`Reply::Done`], also if
        /// the worker has ended.
        6 = Term(WorkerId),
        /// Sends SIGKILL to every process of the worker. Answered by [`Reply::Done`], also if the worker has ended.
        7 = Kill(WorkerId),
        /// Removes an invocation's `TMPDIR`. Answered by [`Reply::Done`].
        8 = Release(Release),
        /// Confirms that fnd received this worker's exit, so that the spawner may forget it. There is no answer.
        9 = Acknowledge(WorkerId),
        /// Deletes installed versions of a function except those listed. Answered by [`Reply::Done`].
        10 = Prune(Prune),
        /// Replaces a worker's adoption record ([`Spawn::record`]). Answered by [`Reply::Done`].
        11 = AdoptionRecord(AdoptionRecord),
        /// Removes the directories of unknown invocations. Answered by [`Reply::Swept`].
        12 = Sweep(Sweep),
        /// Asks whether the spawner answers. Answered by [`Reply::Done`].
        13 = Ping,
        /// Asks for a secret; from protocol 4 on. Answered by [`Reply::Secret`] or [`Reply::SecretRefused`]; by
        /// [`Reply::Failed`] if the node has run out of something.
        14 = Secret(SecretAsked),
        /// Starts the watcher of a version's files, `fnd-helper --watch`, in the function's cgroup and as its user; from protocol 4
        /// on. The rules are in the installed plan ([`WATCHED`](crate::plan::WATCHED)), so fnd names no path. Descriptor:
        /// a pipe as standard input. `environment` and `previous` are not used. Answered like [`Request::Spawn`], without
        /// a channel.
        15 = Watch(Spawn),
        /// Starts `fnd-helper --measure HOME CACHE` with the function's own directories, in its cgroup and as its user; from
        /// protocol 4 on. `input`, `environment` and `previous` are not used. Answered like [`Request::Watch`].
        16 = Measure(Spawn),
        /// Reads the files of a stored version ([`STORED`]); from protocol 4 on. Answered by [`Reply::Files`] or
        /// [`Reply::Refused`].
        20 = Files(Install),
        /// Deletes the trees that no installed version has and that no version has got for so many seconds; from protocol
        /// 4 on. Answered by [`Reply::Done`].
        22 = PruneTrees(u64),
        /// Installs a function as [`Request::Install`] does, and has its code fetched again if it has a source; from protocol 4
        /// on. Answered like [`Request::Install`].
        23 = Fetch(Install),
        /// Prepares the check of a function's code; from protocol 4 on. Answered by [`Reply::NeedsBuild`] with a version of
        /// [`CHECK`](crate::plan::CHECK); if there is nothing to check, like [`Request::Install`].
        24 = Check(Install),
        /// Makes a tree of what a build has left in its home, in place of an earlier tree of that name; then
        /// empties that home. Without a tree only empties the home. From protocol 4 on. Answered by [`Reply::Sealed`].
        25 = Seal(SealTree),
        /// Installs a function as [`Request::Install`] does, but has its dependencies built anew into another tree. From
        /// protocol 4 on. Answered like [`Request::Install`].
        26 = Rebuild(Install),
        /// Retires a function's launchers, as [`Request::Remove`] does, and nothing else: the next process sees what is mounted
        /// now. From protocol 4 on. Answered by [`Reply::Done`].
        27 = Retire(FunctionId),
        /// Sets when a worker's time is up, again and again: so it ends by itself once fnd does nothing any more. From protocol 4
        /// on. Answered by [`Reply::Done`], also if the worker has ended.
        28 = Lease(Lease),
    }
}

wire_structs! {
    /// First request on a connection.
    pub struct Hello {
        /// Oldest protocol that fnd supports.
        pub min: u16,
        /// Newest protocol that fnd supports.
        pub max: u16,
    }

    /// Reads a function's files, has the judge check them and copies them. Nothing of the function runs yet.
    pub struct Install {
        /// Index into the spawner's functions directories.
        pub directory: u16,
        /// The function to install.
        pub function: FunctionName,
        /// The code file, the directory in directory form, or the manifest of a function without code beside it; relative to
        /// the functions directory.
        pub source: String,
        /// The sidecar manifest, if there is one; relative to the functions directory.
        pub sidecar: Option<String>,
        /// Whether `source` is a directory with `function.toml`.
        pub directory_form: bool,
    }

    /// Starts one attempt. Descriptors: standard input if `input` is set, the previous result if `previous` is set.
    pub struct Spawn {
        /// The worker's number. fnd chooses it, above every earlier one.
        pub worker: WorkerId,
        /// The function's number, from [`Installed`].
        pub function: FunctionId,
        /// The installed version to run.
        pub version: Version,
        /// The invocation. It keeps its own `TMPDIR` until [`Request::Release`].
        pub invocation: InvocationId,
        /// Variables of this attempt: `FND_*` (but not `FND_RESULT` or `FND_PREVIOUS`), `DATA`, `KEPTN_CONTEXT`,
        /// `CONTEXT`, `TRACEPARENT`, `TRACESTATE`, `B3`, `RUNTIME`, `PORT`; from protocol 4 on also those of a request:
        /// the names of CGI/1.1 and `HTTP_*`, but not `HTTP_PROXY`. The spawner refuses a start with any other name.
        pub environment: Vec<(String, Bytes)>,
        /// Whether standard input is passed; otherwise it is `/dev/null`.
        pub input: bool,
        /// Whether the previous result is passed. The spawner copies it, and `FND_PREVIOUS` names the copy.
        pub previous: bool,
        /// Milliseconds the attempt may run; 0: without limit. If fnd does not end the attempt in time, the spawner
        /// does: SIGTERM, grace, SIGKILL. From protocol 4 on a [`Lease`] replaces it.
        pub lasts_ms: u64,
        /// The adoption record, at most [`RECORD_MAX`] bytes: the spawner keeps it unread and passes it to the
        /// next fnd in [`RetainedWorker`].
        pub record: Bytes,
    }

    /// Asks to remove an invocation's `TMPDIR`.
    pub struct Release {
        /// The function's number, from [`Installed`].
        pub function: FunctionId,
        /// The invocation whose `TMPDIR` is removed.
        pub invocation: InvocationId,
    }

    /// Names a secret that fnd needs to check requests or to serve TLS.
    pub struct SecretAsked {
        /// The function whose routes name the secret; absent for the files of `[http] tls`.
        pub function: Option<FunctionName>,
        /// Name of the secret; without a function [`CERTIFICATE`] or [`KEY`].
        pub name: String,
    }

    /// The functions and invocations that fnd knows. The invocations of workers that the spawner holds count as known,
    /// too.
    pub struct Sweep {
        /// All functions that exist.
        pub functions: Vec<FunctionName>,
        /// Invocations that have not ended.
        pub invocations: Vec<InvocationId>,
    }

    /// The installed versions of a function to keep.
    pub struct Prune {
        /// The function whose versions are removed.
        pub function: FunctionName,
        /// The versions to keep; the spawner removes the others.
        pub keep: Vec<Version>,
    }

    /// Makes a tree of the files that a build has left in its home.
    pub struct SealTree {
        /// The function that builds.
        pub function: FunctionName,
        /// The tree; absent: nothing is to be made, and the home is only emptied.
        pub tree: Option<Version>,
    }

    /// A worker's new adoption record.
    pub struct AdoptionRecord {
        /// The worker whose record is replaced.
        pub worker: WorkerId,
        /// At most [`RECORD_MAX`] bytes; the spawner does not interpret them.
        pub record: Bytes,
    }

    /// The time until which a worker may run.
    #[derive(Copy)]
    pub struct Lease {
        /// The worker, by the number in [`Spawn::worker`].
        pub worker: WorkerId,
        /// When its time is up: milliseconds on `CLOCK_MONOTONIC` of the machine, rounded down; absent: never. An instant, so
        /// that it stays the same if the spawner reads it late. A worker whose time was up keeps its end.
        pub until_ms: Option<u64>,
    }
}

impl Install {
    /// Returns whether a function has files of a directory although its source is one file: an archive, or a manifest whose
    /// code comes from elsewhere.
    #[must_use]
    pub fn is_one_of_many(&self) -> bool {
        let source = &self.source;
        let is_many = || Format::of(source).is_some() || naming::is_manifest(source) || naming::is_foreign(source);
        !self.directory_form && is_many()
    }

    /// Returns whether the files of a function are in a directory, or would be: all but the manifest come from elsewhere.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.directory_form || naming::is_manifest(&self.source)
    }

    /// Returns the name that the function's one file has among its files.
    #[must_use]
    pub fn file_name(&self) -> &str {
        if naming::is_manifest(&self.source) {
            // The judge sees such a function as a directory with nothing but its manifest.
            return "function.toml";
        }
        self.source.rsplit('/').next().unwrap_or(&self.source)
    }
}
