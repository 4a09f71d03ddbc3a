//! The audit: what callers of the control socket did, and what was refused to them.
//!
//! This decides what is one entry and what is forgotten first; the daemon's `audit` stores it. Refusals are counted, not
//! stored one by one: those of one user, verb and status within a minute are one entry. So a user who is refused a thousand
//! times a second makes as many entries as one who is refused once a minute.
//!
//! A call that waits for its run makes no entry: the record of the run has the caller. A page of the audit is merged from the
//! entries and these records.

use crate::api::{AuditEntry, AuditList};
use fnd_wire::ids::{FunctionName, InvocationId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A call, or several refused ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedCalls {
    /// When the call came, Unix milliseconds.
    pub at_ms: u64,
    /// User id of the caller, from the credentials of the socket's peer (`SO_PEERCRED`).
    pub uid: u32,
    /// The process. As `exe`, `function`, `invocation` and `code`, it is absent if several refusals differ in it.
    pub pid: Option<i32>,
    /// The program of the process, if fnd may read its path.
    pub exe: Option<Arc<str>>,
    /// The short name of the route, such as `invoke`.
    pub verb: &'static str,
    /// The function that the call was about.
    pub function: Option<FunctionName>,
    /// The invocation that the call was about, or that it started.
    pub invocation: Option<InvocationId>,
    /// The HTTP status of the answer; absent if the caller left before it.
    pub status: Option<u16>,
    /// The code of the problem that was the answer.
    pub code: Option<String>,
    /// Whether the caller's role was too small.
    pub refused: bool,
    /// How long the answer took, in microseconds.
    pub duration_us: u64,
    /// How many calls this is.
    pub count: u64,
    /// Whether a record of the history has the caller: then the call is no entry, but may be a line of the journal.
    pub is_in_record: bool,
}

/// Verb of the entry that says how many calls could not be stored.
pub const LOST: &str = "lost";

/// Kinds of entries, each with a share of the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuditKind {
    /// The call changed something, and was not one of those that count as [`Run`](Self::Run).
    Change,
    /// Functions were run, or values of the state written: what programs do often.
    Run,
    /// The caller's role was too small.
    Refusal,
}

impl AuditKind {
    /// All kinds; their places are their numbers in the database.
    pub const ALL: [Self; 3] = [Self::Change, Self::Run, Self::Refusal];
}

/// The verbs that run functions, and those that write values of the state: functions write as often as they run, and must
/// not take the room of what people change.
const RUNS: [&str; 8] = [
    "invoke",
    "queue",
    "request",
    "emit",
    "replay",
    "redrive",
    "set-state",
    "delete-state",
];

/// The verbs of [`RUNS`] that bring a payload to one function.
const RUN_VERBS: [&str; 3] = ["invoke", "queue", "request"];

impl AuditedCalls {
    /// Returns the kind, which decides in whose share of the room the entry is counted.
    #[must_use]
    pub fn kind(&self) -> AuditKind {
        match self.refused {
            true => AuditKind::Refusal,
            false if RUNS.contains(&self.verb) => AuditKind::Run,
            false => AuditKind::Change,
        }
    }

    /// Says whether the call asked for a run, so that `[audit] runs` decides whether it is a line of the journal.
    #[must_use]
    pub fn asks_for_run(&self) -> bool {
        !self.refused && RUN_VERBS.contains(&self.verb)
    }

    /// Returns the minute since 1970.
    #[must_use]
    pub fn minute(&self) -> u64 {
        self.at_ms / 60_000
    }

    /// Returns what refusals have in common that are one entry; nothing if it is no refusal.
    #[must_use]
    pub fn key(&self) -> Option<(u64, u32, &'static str, u16)> {
        self.refused
            .then(|| (self.minute(), self.uid, self.verb, self.status.unwrap_or(0)))
    }

    /// Counts another refusal with the same key: what differs is left out.
    fn add(&mut self, other: &Self) {
        fn common<T: PartialEq>(one: &mut Option<T>, other: &Option<T>) {
            if one != other {
                *one = None;
            }
        }
        self.count = self.count.saturating_add(other.count);
        // The entry stands for all of its refusals, so it keeps only what is the same in all of them.
        common(&mut self.pid, &other.pid);
        common(&mut self.exe, &other.exe);
        common(&mut self.function, &other.function);
        common(&mut self.invocation, &other.invocation);
        common(&mut self.code, &other.code);
    }
}

/// Most entries that wait to be stored. Further ones are lost and counted: memory is bounded, and no call waits.
pub const WAITING_MAX: usize = 8192;

/// Entries that wait to be stored.
#[derive(Debug, Default)]
pub struct GatheredRefusals {
    /// In the order in which the calls ended.
    pub entries: Vec<AuditedCalls>,
    /// The place of each refusal in `entries`.
    refusals: HashMap<(u64, u32, &'static str, u16), usize>,
    /// How many calls found no room.
    pub lost: u64,
}

impl GatheredRefusals {
    /// Adds an entry. A refusal whose key is known already is counted in its entry; if there is no room, `lost` counts its calls.
    pub fn add(&mut self, entry: AuditedCalls) {
        let key = entry.key();
        let place = key.and_then(|key| self.refusals.get(&key));
        // A refusal that is counted in a known entry needs no room, so no flood of refusals loses other entries.
        if let Some(known) = place.and_then(|place| self.entries.get_mut(*place)) {
            known.add(&entry);
        } else if self.entries.len() < WAITING_MAX {
            self.refusals.extend(key.map(|key| (key, self.entries.len())));
            self.entries.push(entry);
        } else if !entry.is_in_record {
            self.lost = self.lost.saturating_add(entry.count);
        }
    }

    /// Returns whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.lost == 0
    }
}

/// Returns the kind whose oldest entries are forgotten because all kinds together use too many bytes: the one that uses
/// most. So a flood of one kind never takes more than the room above a third from the others.
#[must_use]
pub fn forgotten_first(bytes: [u64; 3]) -> AuditKind {
    let largest = AuditKind::ALL.into_iter().zip(bytes).max_by_key(|(_, bytes)| *bytes);
    largest.map_or(AuditKind::Refusal, |(kind, _)| kind)
}

/// Which entries to list; absent means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only calls that were about this function.
    pub function: Option<FunctionName>,
    /// Of this user: a name or a uid.
    pub user: Option<String>,
    /// Only calls with this verb, the short name of the route (such as `invoke`).
    pub verb: Option<String>,
    /// Whether to list only calls that were refused because the caller's role was too small.
    pub refused: bool,
    /// At this time or later, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Before this time, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Most entries of a page.
    pub limit: u32,
    /// Where the previous page ended.
    pub after: Option<AuditCursor>,
}

impl AuditFilter {
    /// Says whether calls that are in records can match.
    #[must_use]
    pub fn takes_runs(&self) -> bool {
        let is_run = |verb: &str| RUN_VERBS.contains(&verb);
        !self.refused && self.verb.as_deref().is_none_or(is_run)
    }
}

/// The place in the entries and the place in the records where a page begins: it has only what is before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditCursor {
    /// The number of an entry.
    pub entry: u128,
    /// The id of a run.
    pub run: u128,
}

impl Default for AuditCursor {
    fn default() -> Self {
        Self {
            entry: u128::MAX,
            run: u128::MAX,
        }
    }
}

impl fmt::Display for AuditCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}", self.entry, self.run)
    }
}

impl AuditCursor {
    /// Reads the text of a cursor; nothing if the text is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (entry, run) = text.split_once('.')?;
        let number = |digits| u128::from_str_radix(digits, 16).ok();
        let (entry, run) = (number(entry)?, number(run)?);
        Some(Self { entry, run })
    }
}

/// The findings of one search, newest first, each with its place.
#[derive(Debug, Default)]
pub struct AuditPart {
    /// At most as many as the page has.
    pub found: Vec<(u128, AuditEntry)>,
    /// The place at which the search stopped, if it did not come to the end.
    pub rest: Option<u128>,
}

/// Returns a page of at most `limit` calls, newest first, of what was found in the entries and in the records.
#[must_use]
pub fn merged([entries, runs]: [AuditPart; 2], mut at: AuditCursor, limit: usize) -> AuditList {
    let (entry_rest, run_rest) = (entries.rest, runs.rest);
    let mut entries = entries.found.into_iter().peekable();
    let mut runs = runs.found.into_iter().peekable();
    let mut list = Vec::new();
    while list.len() < limit {
        let is_run = match (entries.peek(), runs.peek()) {
            // Behind the place where a search stopped may be newer ones than those that the other search has found.
            (None, _) if entry_rest.is_some() => break,
            (_, None) if run_rest.is_some() => break,
            // Times of this form sort as text. A run and an entry of the same moment: the entry came later, since its caller
            // had waited for the run.
            (entry, run) => entry.map(|(_, entry)| &entry.time) < run.map(|(_, run)| &run.time),
        };
        let (list_of, place_of) = match is_run {
            true => (&mut runs, &mut at.run),
            false => (&mut entries, &mut at.entry),
        };
        let Some((place, entry)) = list_of.next() else { break };
        *place_of = place;
        list.push(entry);
    }
    let is_more = entries.peek().is_some() || runs.peek().is_some() || entry_rest.is_some() || run_rest.is_some();
    // A list of which all was taken goes on where its search stopped.
    at.entry = entry_rest.filter(|_| entries.peek().is_none()).unwrap_or(at.entry);
    at.run = run_rest.filter(|_| runs.peek().is_none()).unwrap_or(at.run);
    AuditList {
        entries: list,
        next: is_more.then(|| at.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(at_ms: u64, uid: u32, verb: &'static str, refused: bool) -> AuditedCalls {
        AuditedCalls {
            at_ms,
            uid,
            pid: Some(7),
            exe: None,
            verb,
            function: FunctionName::new("hello").ok(),
            invocation: None,
            status: Some(if refused { 403 } else { 200 }),
            code: None,
            refused,
            duration_us: 10,
            count: 1,
            is_in_record: false,
        }
    }

    /// Returns a part with calls at these seconds, newest first; the place of each is its second.
    fn part(verb: &str, seconds: &[u64], rest: Option<u128>) -> AuditPart {
        let call = |second: &u64| AuditEntry {
            time: crate::instant::text(second * 1000),
            uid: 0,
            user: None,
            pid: None,
            exe: None,
            verb: format!("{verb}{second}"),
            function: None,
            invocation: None,
            status: Some(200),
            code: None,
            refused: false,
            duration_us: 0,
            count: 1,
        };
        let found = seconds.iter().map(|second| (u128::from(*second), call(second)));
        let found = found.collect();
        AuditPart { found, rest }
    }

    #[test]
    fn entries_and_runs_are_one_list_in_pages() {
        for (entries, entry_rest, runs, run_rest, limit, expected, next) in [
            (&[9, 4][..], None, &[7, 2][..], None, 10, "e9 r7 e4 r2", None),
            (&[9, 4], None, &[7, 2], None, 2, "e9 r7", Some((9, Some(7)))),
            (&[9, 4], None, &[], None, 2, "e9 e4", None),
            (&[], None, &[7, 2], None, 1, "r7", Some((u128::MAX, Some(7)))),
            // The call came after the answer to the run.
            (&[7], None, &[7], None, 10, "e7 r7", None),
            // A search that stopped early may find what is newer than the rest of the other list.
            (&[9, 4], None, &[7], Some(6), 10, "e9 r7", Some((9, Some(6)))),
            (&[], Some(8), &[7], None, 10, "", Some((8, None))),
            (&[9, 8], Some(8), &[7], None, 2, "e9 e8", Some((8, None))),
            (&[], None, &[], None, 10, "", None),
        ] {
            let parts = [part("e", entries, entry_rest), part("r", runs, run_rest)];
            let page = merged(parts, AuditCursor::default(), limit);
            let verbs: Vec<&str> = page.entries.iter().map(|entry| entry.verb.as_str()).collect();
            assert_eq!(verbs.join(" "), expected);
            let run = |run: Option<u128>| run.unwrap_or(u128::MAX);
            let next = next.map(|(entry, last)| AuditCursor { entry, run: run(last) });
            assert_eq!(page.next.as_deref().and_then(AuditCursor::parse), next, "{expected}");
        }
        for text in ["", "7", "7.", ".7", "7.x", "7.7.7"] {
            assert_eq!(AuditCursor::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_record_of_a_run_is_found_by_what_it_has() {
        let of = |verb: Option<&str>, refused| AuditFilter {
            verb: verb.map(str::to_owned),
            refused,
            ..AuditFilter::default()
        };
        for (verb, refused, expected) in [
            (None, false, true),
            (Some("invoke"), false, true),
            (Some("disable"), false, false),
            (None, true, false),
        ] {
            assert_eq!(of(verb, refused).takes_runs(), expected, "{verb:?} {refused}");
        }
        for (verb, refused, expected) in [
            ("invoke", false, true),
            ("queue", false, true),
            ("redrive", false, false),
            ("set-state", false, false),
            ("invoke", true, false),
        ] {
            assert_eq!(entry(0, 0, verb, refused).asks_for_run(), expected, "{verb} {refused}");
        }
    }

    /// A call whose record has it is in the audit, also if its line of the journal finds no room.
    #[test]
    fn a_call_in_a_record_is_never_lost() {
        let mut gathered = GatheredRefusals::default();
        for _ in 0..WAITING_MAX + 5 {
            gathered.add(AuditedCalls {
                is_in_record: true,
                ..entry(0, 1000, "invoke", false)
            });
        }
        assert_eq!((gathered.entries.len(), gathered.lost), (WAITING_MAX, 0));
    }

    #[test]
    fn equal_refusals_of_a_minute_are_one_entry() {
        let mut gathered = GatheredRefusals::default();
        for second in 0..90 {
            gathered.add(entry(second * 1000, 1000, "invoke", true));
        }
        gathered.add(AuditedCalls {
            function: FunctionName::new("other").ok(),
            ..entry(5, 1000, "invoke", true)
        });
        gathered.add(entry(5, 1001, "invoke", true));
        gathered.add(entry(5, 1000, "disable", true));
        let counts: Vec<u64> = gathered.entries.iter().map(|entry| entry.count).collect();
        assert_eq!(counts, [61, 30, 1, 1]);
        // It has only what all of them have in common.
        let first = &gathered.entries[0];
        assert_eq!((first.function.is_none(), first.pid), (true, Some(7)));
        assert!(gathered.entries[1].function.is_some());
    }

    #[test]
    fn other_calls_are_entries_of_their_own_until_there_is_no_room() {
        let mut gathered = GatheredRefusals::default();
        for _ in 0..WAITING_MAX + 5 {
            gathered.add(entry(0, 1000, "invoke", false));
        }
        assert_eq!((gathered.entries.len(), gathered.lost), (WAITING_MAX, 5));
        let kinds = [
            entry(0, 0, "invoke", false),
            entry(0, 0, "disable", false),
            entry(0, 0, "invoke", true),
        ];
        assert_eq!(
            kinds.map(|entry| entry.kind()),
            [AuditKind::Run, AuditKind::Change, AuditKind::Refusal]
        );
    }

    #[test]
    fn the_kind_that_uses_most_is_forgotten_first() {
        assert_eq!(forgotten_first([1, 3, 2]), AuditKind::Run);
        assert_eq!(forgotten_first([1, 0, 2]), AuditKind::Refusal);
        assert_eq!(forgotten_first([9, 3, 2]), AuditKind::Change);
    }

    proptest! {
        /// Every call is counted once, and refusals with one key are one entry.
        #[test]
        fn no_call_is_lost_or_doubled(
            calls in prop::collection::vec((0..200_000_u64, 0..3_u32, 0..2_usize, any::<bool>()), 0..60),
        ) {
            let mut gathered = GatheredRefusals::default();
            let mut expected: BTreeMap<(u64, u32, &str), u64> = BTreeMap::new();
            let mut others = 0;
            for (at_ms, uid, verb, refused) in calls {
                let verb = ["invoke", "disable"][verb];
                gathered.add(entry(at_ms, uid, verb, refused));
                if refused {
                    *expected.entry((at_ms / 60_000, uid, verb)).or_default() += 1;
                } else {
                    others += 1;
                }
            }
            let refusals = gathered.entries.iter().filter(|entry| entry.refused);
            let found: BTreeMap<_, _> = refusals.clone().map(|entry| ((entry.minute(), entry.uid, entry.verb), entry.count)).collect();
            prop_assert_eq!(refusals.count(), expected.len());
            prop_assert_eq!(found, expected);
            prop_assert_eq!(gathered.entries.iter().filter(|entry| !entry.refused).count(), others);
        }

        /// The others keep at least a third of the room, whatever one kind uses.
        #[test]
        fn a_kind_below_a_third_is_never_forgotten(bytes in prop::array::uniform3(0..1000_u64)) {
            let total: u64 = bytes.iter().sum();
            let first = forgotten_first(bytes);
            let place = AuditKind::ALL.iter().position(|kind| *kind == first).unwrap();
            prop_assert!(bytes[place] * 3 >= total);
        }
    }
}
