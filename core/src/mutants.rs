//! Faults that the simulation of the daemon has to find: each stands in the code at one line, which exists only in the
//! build of the simulation, and does nothing until it is chosen. A fault that the simulation does not find shows that an
//! oracle is missing.

use std::cell::Cell;

thread_local! {
    static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// A fault that can be chosen for a thread; the simulated daemon in this thread then has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// The end of an invocation is stored by itself, and the calls of its hooks in the next transaction.
    HooksApart,
    /// An attempt begins at once, and its claim is stored behind it.
    StartBeforeClaim,
    /// The mark of a slot is not stored in the transaction of its invocation.
    MarkApart,
    /// A call of a canary counts twice.
    CanaryTwice,
    /// The slots of attempts are emptied although the write has failed.
    SlotsEmptiedEarly,
    /// A worker is acknowledged although its end is not stored.
    AcknowledgedEarly,
    /// The ends of attempts are not kept before the caller is answered.
    EndNotKept,
    /// The slot of an attempt is written after its start was sent.
    SlotAfterStart,
    /// A slot whose invocation could not be stored counts as handled.
    SlotNotTakenBack,
    /// Cancellations that the ledger knows are ignored at a start.
    CancelForgotten,
    /// The budget of memory does not count the worker that starts.
    BudgetOneBehind,
    /// A change of releases is stored only with the next change of another function.
    ReleaseStoredLate,
    /// An attempt that may begin again elsewhere does not end with the lease of its node.
    NoFence,
    /// A claim whose time is over before its attempt has begun is not given up: the attempt begins as late as it likes.
    LateClaimBegins,
    /// The lease counts from the answer to a renewal.
    LeaseFromAnswer,
    /// A renewal does not begin the silence of its node anew.
    RenewalUnseen,
    /// A node counts as silent because the server delivers its message again.
    SilentByDelivery,
    /// An attempt begins at once, and its claim is written behind it.
    StartBeforeRegister,
    /// A message is acknowledged before its claim says that it has ended.
    AcknowledgedBeforeDone,
    /// An attempt that is claimed in the register and in the ledger begins with the first of the two answers.
    BeginsAtFirstAnswer,
}

impl Mutant {
    /// The faults of the handling of messages, which show only where several machines share them; numbered likewise.
    pub const OF_CLUSTER: [Self; 8] = [
        Self::NoFence,
        Self::LateClaimBegins,
        Self::LeaseFromAnswer,
        Self::RenewalUnseen,
        Self::SilentByDelivery,
        Self::StartBeforeRegister,
        Self::AcknowledgedBeforeDone,
        Self::BeginsAtFirstAnswer,
    ];

    /// All faults that show on one machine, in the order of their numbers, which begin with 1.
    pub const ALL: [Self; 12] = [
        Self::HooksApart,
        Self::StartBeforeClaim,
        Self::MarkApart,
        Self::CanaryTwice,
        Self::SlotsEmptiedEarly,
        Self::AcknowledgedEarly,
        Self::EndNotKept,
        Self::SlotAfterStart,
        Self::SlotNotTakenBack,
        Self::CancelForgotten,
        Self::BudgetOneBehind,
        Self::ReleaseStoredLate,
    ];

    /// Chooses the fault of this thread; absent: none.
    pub fn choose(mutant: Option<Self>) {
        CHOSEN.set(mutant);
    }

    /// Returns whether this fault is chosen in this thread.
    #[must_use]
    pub fn is_on(self) -> bool {
        CHOSEN.get() == Some(self)
    }
}
