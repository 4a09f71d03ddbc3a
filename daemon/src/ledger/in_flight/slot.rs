//! A slot of the table: `crc32 u32, length u16`, then its content in wire form. Length 0 means empty.

use fnd_core::records::outcome::{Exhausted, Reason, RunState, Trigger};
use fnd_core::records::{AttemptRecord, InvocationRecord, Usage};
use fnd_core::run::AttemptOrder;
use fnd_wire::form::{Reader, Wire, WireError, wire_enum, wire_structs};
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, Version, WorkerId};
use std::borrow::Cow;

/// Size of a slot. The start of an attempt needs 180 bytes with the longest name; the rest leaves at least a hundred
/// for the message of an end.
pub(super) const LENGTH: usize = 512;
pub(super) const SIZE: u64 = LENGTH as u64;
/// Bytes before the content of a slot.
const HEAD: usize = 6;
/// The first bytes of an empty slot.
pub(super) const EMPTY: [u8; HEAD] = [0; HEAD];
/// Marks a message that was cut.
const CUT: &str = " ... (cut)";
/// Stands for the number of an attempt where a slot has the end of an invocation that ended without an attempt.
pub(super) const ENDED: Attempt = Attempt(u32::MAX);

/// A word of the API as it stands in a slot. It is a text there, so that a word that is not known makes no slot unreadable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredWord(pub(super) Cow<'static, str>);

impl StoredWord {
    fn of(reason: Reason) -> Self {
        match reason {
            Reason::Exit(_) | Reason::Signal(_) => Self(reason.to_string().into()),
            _ => reason.word().into(),
        }
    }
}

impl From<&'static str> for StoredWord {
    fn from(word: &'static str) -> Self {
        Self(word.into())
    }
}

impl Wire for StoredWord {
    fn put(&self, out: &mut Vec<u8>) {
        // As a `String` is put.
        u32::try_from(self.0.len()).expect("a word is short").put(out);
        out.extend_from_slice(self.0.as_bytes());
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        String::get(from).map(|word| Self(word.into()))
    }
}

wire_structs! {
    /// Says which boot and database the table belongs to.
    pub struct TableHeader {
        /// Id of the boot.
        pub boot: String,
        /// The number by which the database knows the table.
        pub nonce: u64,
        /// Whether every write to the table has succeeded.
        pub complete: bool,
    }

    /// An attempt that begins.
    pub struct Begun {
        pub invocation: InvocationId,
        /// Number of the attempt.
        pub attempt: Attempt,
        pub function: FunctionName,
        /// The trigger of the invocation ([`Trigger::as_str`]).
        pub trigger: StoredWord,
        /// When it begins, Unix milliseconds.
        pub started_ms: u64,
    }

    /// The end of an attempt.
    #[derive(Default)]
    pub struct Over {
        /// The state of its invocation ([`RunState::as_str`]).
        pub state: StoredWord,
        /// Which limit was exhausted.
        pub exhausted: Option<StoredWord>,
        /// When the next attempt begins, Unix milliseconds.
        pub next_attempt_ms: Option<u64>,
        /// Polls before this attempt.
        pub polls: u32,
        pub worker: Option<WorkerId>,
        /// The version that ran.
        pub version: Option<Version>,
        /// Whether the call waited for its worker to start; absent for a script.
        pub cold: Option<bool>,
        /// When the attempt ended, Unix milliseconds.
        pub ended_ms: u64,
        /// How long it ran, microseconds.
        pub duration_us: u64,
        /// Why it ended.
        pub reason: StoredWord,
        pub exit_code: Option<u8>,
        pub signal: Option<u8>,
        /// The resources that it used, and the size of its output.
        pub usage: Usage,
        /// Whether it left a result; the slot does not contain it.
        pub has_result: bool,
        /// Whether its last output is not on disk.
        pub printed: bool,
        /// The message; cut if it does not fit.
        pub message: String,
    }

    /// The content of a slot.
    pub struct Slot {
        pub begun: Begun,
        pub over: SlotEnd,
    }
}

wire_enum! {
    /// The end in a slot. The first two have the bytes of an option, which stood here before: the next fnd may be a newer one.
    pub enum SlotEnd {
        /// No end is known.
        0 = Unknown,
        /// The attempt has ended.
        1 = Attempt(Over),
        /// The invocation has ended without an attempt: between two attempts, or before the first one. `begun` has the
        /// number of its attempts.
        2 = Invocation(Over),
    }
}

impl SlotEnd {
    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

impl Slot {
    /// Returns the attempt that the slot is about. The end of an invocation comes after all of its attempts.
    pub(super) fn key(&self) -> (InvocationId, Attempt) {
        let attempt = match &self.over {
            SlotEnd::Invocation(_) => ENDED,
            SlotEnd::Unknown | SlotEnd::Attempt(_) => self.begun.attempt,
        };
        (self.begun.invocation, attempt)
    }

    /// Returns whether it is recorded that nothing but the function ended the attempt: neither fnd nor a limit of its time.
    pub(in crate::ledger) fn has_ended_by_itself(&self) -> bool {
        let SlotEnd::Attempt(over) = &self.over else {
            return false;
        };
        Reason::parse(&over.reason.0).is_some_and(|reason| !reason.is_given_by_fnd())
    }

    /// Returns the content shortened by this many bytes, if it can be shortened.
    fn shorten(&self, bytes: usize) -> Option<Self> {
        let mut shorter = self.clone();
        let message = match &mut shorter.over {
            SlotEnd::Unknown => return None,
            SlotEnd::Attempt(over) | SlotEnd::Invocation(over) => &mut over.message,
        };
        let most = message.len().checked_sub(bytes + CUT.len())?;
        message.truncate(message.floor_char_boundary(most));
        message.push_str(CUT);
        Some(shorter)
    }
}

impl Begun {
    /// Returns the start of the attempt that a worker is given.
    pub(crate) fn by(function: &FunctionName, order: &AttemptOrder, started_ms: u64) -> Self {
        Self {
            invocation: order.invocation,
            attempt: order.attempt,
            function: function.clone(),
            trigger: order.trigger.as_str().into(),
            started_ms,
        }
    }

    pub(super) fn of(record: &InvocationRecord, attempt: Attempt, started_ms: u64) -> Self {
        Self {
            invocation: record.id,
            attempt,
            function: record.function.clone(),
            trigger: record.trigger.as_str().into(),
            started_ms,
        }
    }
}

impl Over {
    /// Returns the end as a slot stores it. Returns nothing if the next attempt needs a result of this one.
    pub(super) fn of(attempt: &AttemptRecord, record: &InvocationRecord, printed: bool) -> Option<Self> {
        if !record.state.is_final() && record.state != RunState::Waiting {
            return None;
        }
        Some(Self {
            next_attempt_ms: attempt.next_attempt_ms,
            worker: attempt.worker,
            version: attempt.version,
            cold: attempt.cold,
            ended_ms: attempt.ended_ms,
            duration_us: attempt.duration_us,
            reason: StoredWord::of(attempt.reason),
            exit_code: attempt.exit_code,
            signal: attempt.signal,
            usage: attempt.usage,
            printed,
            message: attempt.message.clone(),
            ..Self::begin(record)
        })
    }

    /// Returns the fields that an invocation alone decides.
    fn begin(record: &InvocationRecord) -> Self {
        Self {
            state: record.state.as_str().into(),
            exhausted: record.exhausted.map(|limit| limit.as_str().into()),
            polls: record.polls,
            has_result: record.result.is_some(),
            ..Self::default()
        }
    }

    /// Returns the end of an invocation that has ended without an attempt; nothing if it has not ended.
    pub(super) fn of_invocation(record: &InvocationRecord) -> Option<Self> {
        Some(Self {
            version: record.version,
            ended_ms: record.ended_ms?,
            reason: StoredWord::of(record.reason?),
            message: record.message.clone(),
            ..Self::begin(record)
        })
    }

    /// Returns the records of the end of an attempt; nothing if a word in the slot is unknown.
    pub(super) fn records(self, begun: &Begun) -> Option<(AttemptRecord, InvocationRecord)> {
        // A newer fnd may have written a word that this one does not know. Then only the start of the attempt is
        // believed.
        let reason = Reason::parse(&self.reason.0)?;
        let lost = match (self.has_result, self.printed) {
            (false, false) => None,
            (true, false) => Some("its result is lost"),
            (false, true) => Some("its output may be lost"),
            (true, true) => Some("its result is lost, and its output may be lost"),
        };
        let lost = lost.map(|lost| format!("{lost}: fnd was killed before that was on disk"));
        let reported = Some(self.message).filter(|message| !message.is_empty());
        let message = reported.into_iter().chain(lost).collect::<Vec<_>>().join("; ");
        let attempt = AttemptRecord {
            invocation: begun.invocation,
            function: begun.function.clone(),
            attempt: begun.attempt,
            poll: self.polls,
            worker: self.worker,
            cold: self.cold,
            version: self.version,
            started_ms: begun.started_ms,
            ended_ms: self.ended_ms,
            duration_us: self.duration_us,
            reason,
            message: message.clone(),
            exit_code: self.exit_code,
            signal: self.signal,
            usage: self.usage,
            next_attempt_ms: self.next_attempt_ms,
        };
        let state = RunState::parse(&self.state.0)?;
        let record = InvocationRecord {
            id: begun.invocation,
            function: begun.function.clone(),
            trigger: Trigger::parse(&begun.trigger.0)?,
            // A slot does not say it. The row of the invocation does; durable work always has one.
            durable: false,
            state,
            accepted_ms: begun.invocation.unix_ms(),
            started_ms: (begun.attempt.0 > 0).then_some(begun.started_ms),
            ended_ms: state.is_final().then_some(self.ended_ms),
            attempts: begun.attempt.0,
            polls: self.polls,
            reason: Some(reason),
            message,
            exhausted: self.exhausted.and_then(|limit| Exhausted::parse(&limit.0)),
            next_attempt_ms: self.next_attempt_ms,
            version: self.version,
            result: None,
            caller: None,
        };
        Some((attempt, record))
    }
}

/// Replaces `bytes` with those of a slot, without the unused rest. The slot is empty if the content does not fit; no name
/// is long enough for that. Only the message of an end is cut: its other fields decide what follows.
pub(super) fn encode_slot(slot: &Slot, bytes: &mut Vec<u8>) {
    let excess = encode(slot, bytes);
    if excess > 0
        && let Some(shorter) = slot.shorten(excess)
    {
        encode(&shorter, bytes);
    }
}

/// Like [`encode_slot`], for any content. Returns by how many bytes it is too long; then the slot is empty.
pub(super) fn encode(content: &impl Wire, bytes: &mut Vec<u8>) -> usize {
    bytes.clear();
    bytes.extend_from_slice(&EMPTY);
    content.put(bytes);
    let excess = bytes.len().saturating_sub(LENGTH);
    if excess > 0 {
        bytes.truncate(HEAD);
        return excess;
    }
    let length = u16::try_from(bytes.len() - HEAD).unwrap_or(0);
    bytes[4..HEAD].copy_from_slice(&length.to_le_bytes());
    // The length is part of the checksum: a damaged length would choose the wrong bytes.
    let checksum = crc32fast::hash(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    0
}

/// Returns the content of a slot; nothing if the slot is empty.
///
/// # Errors
/// A text that says why the slot cannot be read.
pub(super) fn decode<T: Wire>(slot: &[u8]) -> Result<Option<T>, String> {
    let torn = || "it is torn".to_owned();
    let (head, rest) = slot.split_first_chunk::<HEAD>().ok_or_else(torn)?;
    // A slot that was allocated and never used is full of zeros, too.
    if *head == EMPTY {
        return Ok(None);
    }
    let [a, b, c, d, e, f] = *head;
    let length = usize::from(u16::from_le_bytes([e, f]));
    let says = rest.get(..length).ok_or_else(torn)?;
    if crc32fast::hash(&slot[4..HEAD + length]) != u32::from_le_bytes([a, b, c, d]) {
        return Err("its checksum is wrong".to_owned());
    }
    T::from_wire(says).map(Some).map_err(|error| error.to_string())
}
