//! The ledger: the history in SQLite (invocations, attempts, results), the scripts that have run as `load`, and which
//! functions are disabled.
//!
//! [`open`] returns the state that the supervisor needs at its start, a [`LedgerWriter`] whose thread owns the writing
//! connection, and a [`LedgerReader`] whose thread owns a reading connection. Apart from these two threads, only [`copy`] and
//! [`examine`] open the database. Neither thread makes decisions: the records of the supervisor are stored as they are.
//!
//! Files:
//! - `apply`: which statements store which command
//! - `cancelled`: the invocations whose end somebody has asked for
//! - `command`: the commands that the writer stores, and its reports
//! - `events`: stores the shares of events in one transaction, and remembers the events
//! - `files`: which contents of watched files are handled
//! - `in_flight`: the table of attempts that have begun and that the database may not know yet
//! - `messages`: which messages of NATS this node has, and how far it has come with each
//! - `meta`: the table of single values, each by its key
//! - `notices`: notices about a ledger that was set aside
//! - `queue`: the bounded queue in front of the writer
//! - `reader`: queries of the history
//! - `restore`: reads the state that a starting daemon needs
//! - `room`: says whether the disk has room for the history, how much of the database is in use, and which records
//!   may be forgotten to make room
//! - `rows`: conversion of rows to records
//! - `salvage`: damaged ledgers: rescues their rows, replaces their files, and checks a whole ledger
//! - `schema`: the tables of the ledger, and the code that opens a database so that no data is lost or misread
//! - `store`: the statements that store invocations and attempts
//! - `sweeper`: decides which records to check so that no more history is kept than `Retention` allows by age, count
//!   and bytes
//! - `unwritable`: a start with a ledger that can be read but not written, usually because the disk is full
//! - `writer`: the writer thread owns the writing connection

mod apply;
mod cancelled;
mod command;
mod events;
mod files;
mod in_flight;
mod messages;
mod meta;
mod notices;
mod queue;
mod reader;
mod restore;
pub(crate) mod room;
mod rows;
mod salvage;
mod schema;
mod store;
mod sweeper;
mod unwritable;
mod writer;

#[cfg(test)]
mod tests;

pub use command::{Acknowledged, DisabledBy, Figures, Forgetting, LedgerCommand, WriterHealth};
pub use files::KnownFiles;
pub use in_flight::Begun;
#[cfg(fuzzing)]
pub(crate) use in_flight::fuzzing;
#[cfg(any(test, feature = "simulate"))]
pub(crate) use reader::LedgerQuery;
pub use reader::{
    DeadPage, LedgerReader, PAGE_MAX, QueryError, RecordPage, ResultOf, StoredInvocation, WholeInvocation, copy,
};
pub(crate) use reader::{HistoryThread, WAITING_MAX};
pub use restore::{LastRun, StoredSchedules, Unfollowed};

pub use salvage::examine;
pub use schema::VERSION;
pub use sweeper::{KeepOf, LimitsOf, Retention};
pub use writer::LedgerWriter;
pub(crate) use writer::{CommitRule, LedgerThread};

use crate::database::{self, LostCommits};
use fnd_core::lifecycle::release::Releases;
use fnd_core::run::Restored;
use fnd_core::triggers::nats::memory::KnownMessage;
use fnd_manifest::settings::OnDamage;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::units::print_size;
use in_flight::Earlier;
use rusqlite::{ErrorCode, Transaction};
use salvage::damage;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use unwritable::Later;
use writer::WriterEffects;

/// File name of the database in the state directory; SQLite keeps `-wal` and `-shm` files beside it.
pub const FILE: &str = "ledger.db";

/// Directory of the table `in-flight` below the run directory; only fnd may enter it.
pub const RUN: &str = "ledger";

/// The directories of a ledger.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// Directory of the database; survives a reboot.
    pub state: &'a Path,
    /// Directory of the table of attempts that have begun; lasts until the next reboot.
    pub run: &'a Path,
    /// Decides what fnd does with a damaged ledger.
    pub on_damage: OnDamage,
}

pub struct OpenedLedger {
    /// The state that the supervisor continues with.
    pub restored: Restored,
    /// The newest id that was ever stored, for [`Ids`](crate::clock::Ids).
    pub last_id: Option<InvocationId>,
    /// The last attempt of each function that has had one, for its status.
    pub last_runs: Vec<LastRun>,
    /// Installed versions of each function, oldest first.
    pub versions: HashMap<FunctionName, Vec<Version>>,
    /// Releases of each function.
    pub releases: Vec<(FunctionName, Releases)>,
    /// Ended invocations of which it is not decided yet what follows.
    pub unfollowed: Vec<Unfollowed>,
    /// The states of alerts as JSON, by the name of the function; the empty name stands for the node.
    pub alerts: Vec<(String, String)>,
    /// Marks of schedules, and which ones are paused.
    pub schedules: StoredSchedules,
    /// The users who have disabled functions.
    pub disabled: BTreeMap<FunctionName, DisabledBy>,
    /// Messages whose end the server of NATS does not know yet, oldest first.
    pub messages: Vec<KnownMessage>,
    /// Accepts commands to store.
    pub writer: LedgerWriter,
    pub reader: LedgerReader,
}

/// Why a ledger could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database was written by a newer fnd; this fnd has not changed the database.
    #[error(
        "`{}` was written by a newer fnd (schema {found}, this one knows {}): install that fnd again, or restore a backup",
        path.display(), schema::VERSION
    )]
    Newer {
        path: PathBuf,
        /// Its schema version.
        found: String,
    },
    /// The database was written by a development version; it was not changed.
    #[error(
        "`{}` was written by a development version of fnd (schema {found}; this one knows {} of fnd 0.1.0, and {}): install that fnd \
         again, or move the file away to begin with an empty history",
        path.display(), schema::RELEASED, schema::VERSION
    )]
    Older {
        path: PathBuf,
        /// Its schema version.
        found: String,
    },
    /// The database is damaged; it was not changed.
    #[error(
        "`{}` is damaged ({detail}), and without it fnd would run things again that have run: restore a backup, or have fnd \
         keep what can be read of it, with `fndctl verify --repair` or `[history] on_damage = \"set-aside\"`",
        path.display()
    )]
    Corrupt {
        path: PathBuf,
        /// The damage, in the words of SQLite.
        detail: String,
    },
    /// A damaged database could not be replaced; it was not changed.
    #[error("failed to set the damaged ledger aside: `{}`", path.display())]
    SetAside {
        /// The file being written.
        path: PathBuf,
        source: io::Error,
    },
    /// A copy would use disk space that the history needs.
    #[error(
        "`{}` has {} free, and a copy of the ledger needs {} there: make room, or take the backup when there is some",
        path.display(), print_size(*free), print_size(*needed)
    )]
    NoRoom {
        /// The state directory.
        path: PathBuf,
        /// Bytes that the copy needs.
        needed: u64,
        free: u64,
    },
    /// SQLite reported another error.
    #[error("failed to open the ledger `{}`", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    /// The table of attempts that have begun could not be opened.
    #[error("failed to open the table `{}`", path.display())]
    InFlight { path: PathBuf, source: io::Error },
    /// A copy of the ledger could not be read back.
    #[error("failed to read the copy `{}` of the ledger", path.display())]
    Copy { path: PathBuf, source: io::Error },
    /// The log of the database, or the record of its end, could not be read.
    #[error("failed to read the log of `{}`", path.display())]
    Log { path: PathBuf, source: io::Error },
    /// The threads could not be started.
    #[error("failed to start the ledger's threads")]
    Thread(#[source] io::Error),
}

impl OpenError {
    fn corrupt(path: &Path, detail: String) -> Self {
        let path = path.into();
        Self::Corrupt { path, detail }
    }

    fn log(path: &Path, source: io::Error) -> Self {
        let path = path.into();
        Self::Log { path, source }
    }

    fn set_aside(path: &Path, source: io::Error) -> Self {
        let path = path.into();
        Self::SetAside { path, source }
    }

    fn of(path: &Path, source: rusqlite::Error) -> Self {
        let unreadable_row = matches!(
            source,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
        );
        match database::code(&source) {
            // All statements are fnd's own. If SQLite rejects one as `Unknown`, the file is at fault: for example, it has another
            // schema format.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
                Self::corrupt(path, source.to_string())
            }
            // The file permissions allow writing, so the read-only mode comes from a damaged header.
            Some(ErrorCode::ReadOnly) if rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok() => {
                Self::corrupt(path, "its header forbids writing".to_owned())
            }
            _ if unreadable_row => Self::corrupt(path, source.to_string()),
            _ => {
                let path = path.into();
                Self::Sqlite { path, source }
            }
        }
    }
}

/// Opens the ledger at a site, creates it if it does not exist, and starts its threads.
///
/// `held_attempts` are attempts that the ledger may not know, or may know as ended: [`Restored::ended`] says which of
/// them have ended. If the disk is full, the ledger opens with the records that can be read. Its writer reports failure
/// until it can store the rest. `acknowledge` is called on the writer's thread after each commit or failure: once for
/// each durable invocation in the transaction, once for all claims and once for all ends. It must not block.
///
/// # Errors
/// [`OpenError`]; the first four variants leave the database untouched.
pub fn open<F>(
    site: Site<'_>,
    retention: Retention,
    held_attempts: &[(InvocationId, u32)],
    acknowledge: F,
) -> Result<OpenedLedger, OpenError>
where
    F: Fn(Acknowledged) + Send + 'static,
{
    let commit = Box::new(|transaction: Transaction<'_>| transaction.commit());
    let (opened, writing, reading) = prepare(site, retention, held_attempts, commit, acknowledge)?;
    writing.spawn(&opened.writer).map_err(OpenError::Thread)?;
    reading.spawn().map_err(OpenError::Thread)?;
    Ok(opened)
}

/// Does the work of [`open`], but starts no thread: the caller spawns the two, or does their work itself. `commit` commits the
/// transactions of commands.
///
/// # Errors
/// As for [`open`].
pub(crate) fn prepare<F>(
    site: Site<'_>,
    retention: Retention,
    held_attempts: &[(InvocationId, u32)],
    commit: CommitRule,
    acknowledge: F,
) -> Result<Prepared, OpenError>
where
    F: Fn(Acknowledged) + Send + 'static,
{
    // If a crash has interrupted the replacement of a damaged ledger, no database may have this name yet.
    damage::finish(site.state)?;
    let found = match find(site, held_attempts) {
        Err(OpenError::Corrupt { detail, .. }) if site.on_damage == OnDamage::SetAside => {
            damage::set_aside(site, &detail)?;
            find(site, held_attempts)?
        }
        found => found?,
    };
    // A copy loses its name when it is complete. One with a name is what a killed program has left.
    database::remove_copies(site.state);
    let acknowledge = Box::new(acknowledge);
    found(retention, WriterEffects { commit, acknowledge })
}

/// An opened ledger, and its threads, which are not started yet.
type Prepared = (OpenedLedger, LedgerThread, HistoryThread);

/// Reads the state of a start. Returns the rest of the start, which makes the writer and the reader: only this part uses up what the
/// caller gave, and it is not tried again after damage.
fn find(
    site: Site<'_>,
    held_attempts: &[(InvocationId, u32)],
) -> Result<impl FnOnce(Retention, WriterEffects) -> Result<Prepared, OpenError>, OpenError> {
    let Site { state, run, .. } = site;
    let path = state.join(FILE);
    let failed = |source| OpenError::of(&path, source);
    // The log is compared before SQLite opens the database: opening it could copy the rest of a damaged log into it, and the
    // evidence would be gone.
    if let Some(lost) = lost_commits(run, &path)? {
        return Err(OpenError::corrupt(&path, lost.what));
    }
    let (mut db, reading, mut why) = unwritable::connect(&path, state)?;
    let reading = Arc::new(Mutex::new(reading));
    let makeshift = why.is_some().then(|| Arc::clone(&reading));
    let no_table = |source| {
        let path = run.join(in_flight::FILE);
        OpenError::InFlight { path, source }
    };
    let (mut earlier, file) = Earlier::read(run, held_attempts).map_err(no_table)?;
    // Keep all changes in memory until the commit, so that the supervisor's state is read before anything must be
    // written.
    db.pragma_update(None, "cache_spill", false).map_err(failed)?;
    let transaction = db.transaction().map_err(failed)?;
    // The number is read before `settle` replaces it by that of the new table.
    let known = in_flight::known(&transaction).map_err(failed)?;
    let running = earlier.settle(&transaction).map_err(failed)?;
    let mut restored = restore::restored(&transaction).map_err(failed)?;
    restored.ended = restore::ended(&transaction, held_attempts).map_err(failed)?;
    let by_themselves = running.iter().filter(|slot| slot.has_ended_by_itself());
    restored.ended_by_themselves = by_themselves
        .map(|slot| (slot.begun.invocation, slot.begun.attempt.0))
        .collect();
    let last_id = restore::last_id(&transaction).map_err(failed)?;
    let last_runs = restore::last_runs(&transaction).map_err(failed)?;
    let versions = restore::versions(&transaction).map_err(failed)?;
    let releases = restore::releases(&transaction).map_err(failed)?;
    let unfollowed = restore::unfollowed(&transaction).map_err(failed)?;
    let alerts = restore::alerts(&transaction).map_err(failed)?;
    let schedules = restore::schedules(&transaction).map_err(failed)?;
    let disabled = restore::disabled(&transaction).map_err(failed)?;
    messages::tidy(&transaction).map_err(failed)?;
    let messages = messages::open(&transaction).map_err(failed)?;
    // A makeshift is never written: the ledger's thread commits the same changes once it has opened the ledger anew.
    if makeshift.is_some() {
        drop(transaction);
    } else if let Err(error) = transaction.commit().map_err(failed) {
        if !unwritable::is_unwritable(&error, state) {
            return Err(error);
        }
        // The state above was read inside the transaction. So it is the state after the commit, which is tried again
        // later.
        why = Some(error);
    }
    db.pragma_update(None, "cache_spill", true).map_err(failed)?;
    let (in_flight, later) = match why {
        None => (earlier.begin(file, &running), None),
        Some(why) => {
            let table = earlier.go_on(file, &running, known.as_deref());
            let reason = unwritable::in_words(&why, &path).into();
            let later = Later {
                reason,
                earlier,
                makeshift,
            };
            (table, Some(later))
        }
    };
    let in_flight = in_flight.map_err(no_table)?;
    Ok(
        move |retention: Retention, effects: WriterEffects| -> Result<Prepared, OpenError> {
            let (writer, writing) = LedgerWriter::prepare((db, later), in_flight, site, retention, effects)?;
            let (reader, answering) = LedgerReader::prepare(reading, &writer);
            let opened = OpenedLedger {
                restored,
                last_id,
                last_runs,
                versions,
                releases,
                unfollowed,
                alerts,
                schedules,
                disabled,
                messages,
                writer,
                reader,
            };
            Ok((opened, writing, answering))
        },
    )
}

/// Returns which commits of a ledger are missing, as far as that is recorded.
fn lost_commits(run: &Path, path: &Path) -> Result<Option<LostCommits>, OpenError> {
    database::lost_commits(run, path).map_err(|source| OpenError::log(path, source))
}

/// Locks a state directory for one daemon until this value is dropped or the process ends, for whatever reason.
#[derive(Debug)]
pub struct StateLock {
    /// The kernel ties the lock to the open file description.
    _file: OwnedFd,
}

/// Why a state directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon has locked it: exit 75.
    #[error("another fnd is running on `{}`: stop it, or give this one its own state with `--state DIR`", .0.display())]
    Held(PathBuf),
    /// The lock file could not be created or locked.
    #[error("failed to lock `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Locks a state directory for this process (`flock` on `STATE/lock`).
///
/// # Errors
/// [`LockError::Held`] if another daemon has locked it, [`LockError::Io`] if the lock file could not be opened or
/// locked.
pub fn lock_state(state: &Path) -> Result<StateLock, LockError> {
    use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
    let path = state.join("lock");
    let failed = |source: rustix::io::Errno| LockError::Io {
        path: path.clone(),
        source: source.into(),
    };
    // `flock` belongs to the open file description (flock(2)): a child that inherited the descriptor would hold the lock
    // after fnd.
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(StateLock { _file: file }),
        // `--state` names the directory above fnd's own.
        Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::Held(state.parent().unwrap_or(state).to_owned())),
        Err(error) => Err(failed(error)),
    }
}
