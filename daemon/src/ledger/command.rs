//! The commands that the writer stores, and its reports.

use fnd_core::data::Data;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_core::records::{Accepted, AttemptRecord, FileMark, InvocationRecord};
use fnd_core::run::{Delivered, EventShares, Shares};
use fnd_core::triggers::file::memory::FileMemory;
use fnd_core::triggers::file::message::RunContent;
use fnd_core::triggers::nats::memory::MessageMemory;
use fnd_core::triggers::schedule::Marks;
use fnd_wire::ids::{FunctionName, InvocationId, Version, WorkerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The user who has disabled a function, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisabledBy {
    pub uid: u32,
    /// Unix milliseconds.
    pub since_ms: u64,
}

/// A command to store: one for each storing action of the supervisor, and the records of the catalog.
#[derive(Debug, Clone)]
pub enum LedgerCommand {
    /// A new invocation; its load key is stored in the same transaction.
    Store(Box<Accepted>),
    /// A stored invocation with an idempotency key outlives this fnd from now on.
    MakeDurable {
        id: InvocationId,
        /// Whether it becomes a dead letter if it fails.
        dead_letter: bool,
    },
    /// The shares of events, all in this transaction. Events that were accepted at `since_ms` or later are remembered.
    Publish {
        shares: Box<Shares>,
        /// Unix milliseconds.
        since_ms: u64,
    },
    /// The next attempt of a durable invocation begins.
    Claim(Box<InvocationRecord>),
    /// An ended attempt, and the state of its invocation after it.
    Record(Box<AttemptRecord>, Box<InvocationRecord>),
    /// The state of an invocation.
    Update(Box<InvocationRecord>),
    /// Whether a user has disabled a function.
    StoreEnabled {
        function: FunctionName,
        /// Absent: the function is enabled.
        disabled: Option<DisabledBy>,
    },
    /// The marks of a function's schedules, in place of those that are stored.
    StoreMarks(Marks),
    /// A change of the remembered contents of watched files.
    Files(FileMemory),
    /// A change of the remembered messages.
    Messages(MessageMemory),
    /// An invocation of which nothing has begun is not this node's any more: all of it is deleted.
    Withdraw(InvocationId),
    /// The record of another node counts in place of that of this invocation.
    Supersede {
        id: InvocationId,
        /// The name of the other node.
        node: Box<str>,
    },
    /// Whether a user has paused the schedules of a function.
    StorePaused {
        function: FunctionName,
        /// Whether the schedules are paused.
        paused: bool,
    },
    /// Removes an invocation from the dead letters.
    DiscardDeadLetter(InvocationId),
    /// Which versions of a function are installed.
    StoreVersions {
        function: FunctionName,
        /// Oldest first.
        installed: Vec<Version>,
    },
    /// The releases of a function and which one is held, as JSON of core; absent: the function is gone.
    StoreReleases {
        function: FunctionName,
        releases: Option<String>,
    },
    /// Commands that are stored in one transaction or not at all: the end of an invocation, and the invocations that
    /// follow it. They are kept for a retry together. They contain no further `Together`.
    Together(Vec<LedgerCommand>),
    /// A change that somebody has asked for and waits for: it is stored as a whole, or given up. Without parts it shows
    /// that all earlier commands are stored.
    Change {
        /// The number of the acknowledgement.
        number: u64,
        /// They contain no further `Change`.
        parts: Vec<LedgerCommand>,
    },
    /// Somebody has asked for the end of this invocation: the next fnd ends it, if this one is killed before.
    Cancel(InvocationId),
    /// The calls that follow the end of this invocation are not decided yet.
    FollowLater(InvocationId),
    /// The calls that follow the end of this invocation are stored.
    Followed(InvocationId),
    /// A function that a hook of this invocation called has failed.
    HookFailed(InvocationId),
    /// The state of the alerts of a function, or of the node.
    StoreAlert {
        /// The name of the function; empty for the node.
        about: String,
        /// The state as JSON; absent if there is nothing to remember.
        health: Option<String>,
    },
}

/// Returns whether a record is the end of a run that files have started, or may be: a run that repeats another is not
/// known by its trigger.
pub(super) fn is_end_of_files(record: &InvocationRecord) -> bool {
    matches!(record.trigger, Trigger::File | Trigger::Replay | Trigger::Redrive) && record.state.is_final()
}

/// Returns whether a record is the end of a message, which the server is told of next.
pub(super) fn is_end_of_message(record: &InvocationRecord) -> bool {
    record.trigger == Trigger::Nats && record.state.is_final()
}

/// Returns whether somebody acts on the end of an invocation, so that no power cut may take the end back.
fn is_end_with_follower(record: &InvocationRecord) -> bool {
    is_end_of_files(record) || is_end_of_message(record)
}

/// Returns whether a record takes a claim back whose attempt has not begun. The claim is synced: if a power cut brought it again, the
/// attempt would count as one that has begun.
fn takes_claim_back(record: &InvocationRecord) -> bool {
    record.durable && !record.state.is_final() && record.state != RunState::Running
}

/// Returns whether a new invocation is of a message that the server delivers again, should a power cut lose its row. Before it begins,
/// its claim is stored with a sync, which includes the row. The row of a message that was taken over knows attempts of another node.
/// The row of a message that never begins holds its end, of which the server is told next.
fn comes_again(accepted: &Accepted) -> bool {
    let mark = accepted.message.as_deref().filter(|_| accepted.skipped.is_none());
    mark.is_some_and(|mark| !mark.is_accepted && mark.revision.is_none() && mark.begun == 0)
}

/// Roughly the memory of a mark of a file, with its path.
const FILE_MARK: usize = size_of::<FileMark>() + 64;

impl LedgerCommand {
    /// Returns whether the command must be written at once: a caller waits for it, or may retry with its key after a crash. It is
    /// synced, too, unless [`Self::is_synced`] says otherwise.
    pub(super) fn is_waited_for(&self) -> bool {
        match self {
            Self::Store(accepted) => accepted.durable || accepted.key.is_some(),
            // The function sees its work right after a claim, so a claim that a power cut could lose might run twice.
            Self::Publish { .. }
            | Self::MakeDurable { .. }
            | Self::Claim(..)
            | Self::StoreEnabled { .. }
            | Self::StoreMarks(_)
            | Self::StorePaused { .. }
            | Self::DiscardDeadLetter(_)
            | Self::Change { .. }
            | Self::Cancel(_) => true,
            // The watcher deletes or moves the files next, and the server forgets the message: a power cut must not leave a run without
            // an end and without them.
            Self::Record(_, record) => is_end_with_follower(record),
            Self::Update(record) => is_end_with_follower(record) || takes_claim_back(record),
            Self::Together(parts) => parts.first().is_some_and(Self::is_end_with_follower),
            // The versions of a deleted function are deleted next: a power cut must not leave a pin without its version. A caller
            // that waits for another change of the releases wraps it in a `Change`.
            Self::StoreReleases { releases, .. } => releases.is_none(),
            // If a power cut loses `StoreVersions`, an old version stays on the disk for longer; nothing else happens.
            // `FollowLater`, `Followed` and `HookFailed` are lost together with the end that they belong to, or not at all. The
            // contents of files are found again by the watcher. A message of which less is known than before is delivered, or
            // acknowledged, once more, and the register says who has it.
            Self::Files(_)
            | Self::Messages(_)
            | Self::Withdraw(_)
            | Self::Supersede { .. }
            | Self::StoreVersions { .. }
            | Self::FollowLater(_)
            | Self::Followed(_)
            | Self::HookFailed(_)
            | Self::StoreAlert { .. } => false,
        }
    }

    /// Returns whether a power cut must not undo the command once it is acknowledged.
    pub(super) fn is_synced(&self) -> bool {
        self.is_waited_for() && !matches!(self, Self::Store(accepted) if comes_again(accepted))
    }

    /// Returns whether another invocation may have the key of a message after this.
    pub(super) fn frees_message(&self) -> bool {
        self.parts().iter().any(|part| {
            matches!(
                part,
                Self::Withdraw(_) | Self::Supersede { .. } | Self::Messages(MessageMemory::Forget { .. })
            )
        })
    }

    fn is_end_with_follower(&self) -> bool {
        matches!(self, Self::Record(_, record) | Self::Update(record) if is_end_with_follower(record))
    }

    /// Returns the commands of which this one consists: itself, or the parts of `Together` or `Change`.
    pub(super) fn parts(&self) -> &[Self] {
        match self {
            Self::Together(parts) | Self::Change { parts, .. } => parts,
            single => std::slice::from_ref(single),
        }
    }

    /// Returns roughly the memory that the command holds.
    pub(super) fn size(&self) -> usize {
        let data = |data: Option<&Data>| usize::try_from(data.map_or(0, Data::size)).unwrap_or(usize::MAX);
        let headers = |headers: &[(String, String)]| headers.iter().map(|(n, v)| n.len() + v.len() + 64).sum::<usize>();
        let result = |record: &InvocationRecord| {
            let result = record.result.as_ref();
            let response = result.and_then(|result| result.response.as_deref());
            result.map_or(0, |result| result.data.len()) + response.map_or(0, |response| headers(&response.headers))
        };
        512 + match self {
            Self::Store(accepted) => {
                let payload = &accepted.payload;
                let request = payload.request.as_deref();
                let request = request.map_or(0, |request| headers(&request.headers));
                let marks = FILE_MARK * accepted.files.len();
                data(payload.data.as_ref()).saturating_add(request + marks)
            }
            // The shares of an event have their data and their cause in common.
            Self::Publish { shares, .. } => {
                let of_event = |event: &EventShares| {
                    let mut each = event.accepted.iter().chain(&event.skipped);
                    let first = each.next().and_then(|accepted| accepted.payload.data.as_ref());
                    let count = event.accepted.len() + event.skipped.len();
                    data(first).saturating_add(512 * count)
                };
                shares.events.iter().map(of_event).fold(0, usize::saturating_add)
            }
            Self::Record(attempt, record) => attempt.message.len() + record.message.len() + result(record),
            Self::Update(record) => record.message.len() + result(record),
            Self::StoreAlert { health, .. } => health.as_ref().map_or(0, String::len),
            Self::StoreReleases { releases, .. } => releases.as_ref().map_or(0, String::len),
            Self::Together(parts) | Self::Change { parts, .. } => parts.iter().map(Self::size).sum(),
            Self::StoreMarks(marks) => marks.marks.iter().map(|mark| mark.key.len() + 64).sum(),
            Self::Files(FileMemory::Marks(_, marks)) => FILE_MARK * marks.len(),
            Self::StoreVersions { installed, .. } => size_of_val(installed.as_slice()),
            // All others are a few numbers and names.
            _ => 0,
        }
    }
}

/// The shares of events that are on disk.
#[derive(Debug, Clone, Default)]
pub struct StoredShares {
    pub invocations: Vec<(FunctionName, InvocationId)>,
    /// For each event, what came of it when it was sent before; absent: it was not.
    pub earlier: Vec<Option<Delivered>>,
}

/// A report of the writer: results that callers wait for, and changes of its health.
#[derive(Debug, Clone)]
pub enum Acknowledged {
    /// A durable invocation.
    Stored {
        id: InvocationId,
        /// Why it is not on disk; `Ok` if it is.
        result: Result<(), Arc<str>>,
    },
    /// Nothing of this invocation is stored, because another one has its message.
    MessageIsKnown(InvocationId),
    /// The shares of events.
    Published {
        number: u64,
        /// The invocations that are stored, and what came of those events that were sent before; why not, if they are not
        /// on disk.
        result: Result<StoredShares, Arc<str>>,
    },
    /// Claims of these invocations.
    Claimed {
        ids: Vec<InvocationId>,
        /// Why they are not on disk; `Ok` if they are.
        result: Result<(), Arc<str>>,
    },
    /// A change that somebody waits for.
    Changed {
        number: u64,
        /// Why it is not on disk; `Ok` if it is.
        result: Result<(), Arc<str>>,
    },
    /// The end of a run that files have started is on disk.
    FilesEnded {
        function: FunctionName,
        id: InvocationId,
        success: bool,
        /// The contents that wait for it, each with its directory.
        contents: Vec<(Arc<str>, RunContent)>,
    },
    /// The end of a message is on disk: the register and the server may be told.
    MessageEnded { function: FunctionName, id: InvocationId },
    /// [`WriterHealth`] has changed.
    HealthChanged,
    /// The ends of these workers are on disk, or were given up and counted.
    Recorded(Vec<WorkerId>),
    /// Releases of these functions are on disk, or were given up and counted; one entry for each `StoreReleases`. Releases in
    /// a `Change` are acknowledged with it.
    ReleasesStored(Vec<FunctionName>),
}

/// The health of the writer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriterHealth {
    /// Why the last write failed; absent if it did not fail.
    pub failing: Option<String>,
    /// Number of writes that failed.
    pub failed: u64,
    /// Number of commands that were given up because they could not be written for too long, or can never be written.
    pub lost: u64,
    /// Why durable work is refused although records are written.
    pub hold: Option<Arc<str>>,
    /// Says that a damaged ledger was set aside, until a user confirms it.
    pub set_aside: Option<Arc<str>>,
    pub forgetting: Forgetting,
}

/// Figures about forgetting that the status shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgetting {
    /// Records that were forgotten because the disk was nearly full, since this fnd started.
    pub for_room: u64,
    /// The newest known time, Unix milliseconds. Present while the clock is so far ahead of it that no record is
    /// forgotten because of its age.
    pub clock_ahead_of: Option<u64>,
}

/// Sizes of the history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of dead letters of each function that has some.
    pub dead_letters: BTreeMap<FunctionName, u64>,
    /// When the oldest of them ended, Unix milliseconds.
    pub dead_since_ms: Option<u64>,
    /// Bytes of the history in use; its file may be larger.
    pub history_bytes: u64,
    /// Records that were forgotten because of the retention settings, since this fnd started.
    pub forgotten: u64,
}
