//! The writer and the reader without threads: the test says when the writer works, how many commands it takes, and what the
//! disk says of each commit.

use super::messages::{mark, of_message};
use super::*;
use fnd_core::triggers::nats::delivery::LocalStep;
use futures_util::FutureExt as _;
use rusqlite::ffi;
use std::sync::atomic::{AtomicBool, Ordering};

/// A ledger whose work is done when the test says so.
struct InLine {
    opened: OpenedLedger,
    writing: LedgerThread,
    reading: HistoryThread,
    acknowledged: Receiver<Acknowledged>,
    /// Whether the disk refuses commits.
    full: Arc<AtomicBool>,
}

impl InLine {
    fn open(state: &Path) -> Self {
        let (sender, acknowledged) = channel();
        let full = Arc::new(AtomicBool::new(false));
        let is_full = Arc::clone(&full);
        let commit: CommitRule = Box::new(move |transaction| match is_full.load(Ordering::Relaxed) {
            false => transaction.commit(),
            true => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None)),
        });
        let prepared = prepare(site(state), forever(), &[], commit, move |event| {
            drop(sender.send(event)); // the receiver may be gone at the end
        });
        let (opened, writing, reading) = prepared.unwrap();
        Self {
            opened,
            writing,
            reading,
            acknowledged,
            full,
        }
    }

    fn store(&self, second: u64) {
        let command = LedgerCommand::Store(Box::new(accepted(second, "hello")));
        self.opened.writer.submit(command).unwrap();
    }

    /// Lets the disk accept commits again, and works until one has succeeded.
    fn recover(&mut self) {
        self.full.store(false, Ordering::Relaxed);
        let until = crate::clock::monotonic() + LIMIT;
        // A failed write rests before it is tried again.
        while self.opened.writer.health().failing.is_some() {
            assert!(crate::clock::monotonic() < until);
            self.writing.turn(64);
        }
    }

    /// Returns the acknowledgements since the last call, in words.
    fn acknowledged(&self) -> Vec<String> {
        let word = |event| match event {
            Acknowledged::Stored { id, result } if result.is_ok() => Some(format!("{} stored", id.0 >> 80)),
            Acknowledged::Stored { id, .. } => Some(format!("{} refused", id.0 >> 80)),
            Acknowledged::MessageIsKnown(id) => Some(format!("{} known", id.0 >> 80)),
            Acknowledged::Claimed { ids, result: Ok(()) } => Some(format!("{} claimed", ids[0].0 >> 80)),
            Acknowledged::ReleasesStored(functions) => Some(format!("the releases of {functions:?} stored")),
            Acknowledged::HealthChanged => None,
            other => panic!("{other:?}"),
        };
        self.acknowledged.try_iter().filter_map(word).collect()
    }

    /// Answers a question.
    fn answer<T>(&self, question: impl Future<Output = Result<T, QueryError>>) -> T {
        let answered = async { self.reading.answer(self.reading.take_now()) };
        wait(async { tokio::join!(biased; question, answered) }).0.unwrap()
    }

    /// Returns the ids of the history.
    fn ids(&self) -> Vec<u128> {
        let page = self.answer(self.opened.reader.list(unfiltered()));
        page.records.iter().map(|record| record.id.0 >> 80).collect()
    }
}

#[test]
fn a_round_takes_as_many_commands_as_it_is_given() {
    let state = directory();
    let mut ledger = InLine::open(state.path());
    (1..=3).for_each(|second| ledger.store(second));
    assert_eq!(ledger.acknowledged(), [""; 0], "nothing is written before a round");
    assert_eq!(ledger.writing.waiting(), (3, 0));
    assert!(ledger.writing.turn(1));
    assert_eq!(ledger.acknowledged(), ["1000 stored"]);
    assert_eq!(ledger.ids(), [1000]);
    ledger.opened.writer.stop();
    assert!(ledger.writing.turn(1), "a command waits behind the stop");
    assert!(!ledger.writing.turn(1));
    assert_eq!(ledger.acknowledged(), ["2000 stored", "3000 stored"]);
    assert_eq!(ledger.ids(), [3000, 2000, 1000]);
}

#[test]
fn a_refused_commit_refuses_callers_and_keeps_ends() {
    let state = directory();
    let mut ledger = InLine::open(state.path());
    ledger.store(1);
    ledger.writing.turn(64);
    assert_eq!(ledger.acknowledged(), ["1000 stored"]);
    ledger.full.store(true, Ordering::Relaxed);
    let (_, record) = ended(&accepted(1, "hello"), Reason::Timeout, None);
    let end = LedgerCommand::Update(Box::new(record));
    ledger.opened.writer.submit(end).unwrap();
    ledger.store(2);
    ledger.writing.turn(64);
    assert_eq!(ledger.acknowledged(), ["2000 refused"]);
    assert_eq!(ledger.writing.waiting(), (0, 1));
    assert_eq!(ledger.ids(), [1000]);
    let health = ledger.opened.writer.health();
    assert!(health.failing.is_some_and(|reason| reason.contains("disk is full")));
    ledger.recover();
    assert_eq!(ledger.acknowledged(), [""; 0]);
    let result = ledger.answer(ledger.opened.reader.result(id(1)));
    assert_eq!(result, ResultOf::Ended(None));
}

/// Until then, the versions that the releases from before need stay on the disk.
#[test]
fn releases_are_acknowledged_once_they_are_stored() {
    let state = directory();
    let mut ledger = InLine::open(state.path());
    let store = |releases: Option<&str>| LedgerCommand::StoreReleases {
        function: FunctionName::new("f").unwrap(),
        releases: releases.map(str::to_owned),
    };
    assert!(store(None).is_waited_for(), "a power cut must not undo it");
    ledger.full.store(true, Ordering::Relaxed);
    for command in [store(Some("{}")), store(None)] {
        ledger.opened.writer.submit(command).unwrap();
    }
    ledger.writing.turn(64);
    assert_eq!(ledger.acknowledged(), [""; 0]);
    ledger.recover();
    assert_eq!(ledger.acknowledged(), ["the releases of [`f`, `f`] stored"]);
}

/// A commit that writes no page syncs nothing, and leaves the pages of a failed commit in the log for the next start.
#[test]
fn a_change_without_parts_and_a_retry_without_commands_are_written_to_the_log() {
    let state = directory();
    let mut ledger = InLine::open(state.path());
    ledger.store(1);
    // The second round leaves nothing to store of the clock.
    for _ in 0..2 {
        ledger.writing.turn(64);
    }
    let log = state.path().join("ledger.db-wal");
    let log = || std::fs::metadata(&log).unwrap().len();
    let before = log();
    let change = || LedgerCommand::Change {
        number: 1,
        parts: Vec::new(),
    };
    ledger.opened.writer.submit(change()).unwrap();
    ledger.writing.turn(64);
    let changed = log();
    assert!(changed > before, "a change without parts");
    ledger.full.store(true, Ordering::Relaxed);
    ledger.opened.writer.submit(change()).unwrap();
    ledger.writing.turn(64);
    assert!(ledger.opened.writer.health().failing.is_some());
    ledger.recover();
    assert!(log() > changed, "a retry without commands");
}

#[test]
fn a_new_message_is_looked_for_without_a_wait_for_the_writer() {
    let state = directory();
    let mut ledger = InLine::open(state.path());
    for is_known in [false, true] {
        let reader = ledger.opened.reader.clone();
        let mut asked = Box::pin(reader.message(name("f"), "claims.7".into()));
        // Of a message that is known, the commands that wait may say more.
        for waits_for_writer in [false, true].into_iter().take(1 + usize::from(is_known)) {
            assert!(asked.as_mut().now_or_never().is_none());
            let queries = ledger.reading.take_now();
            assert_eq!(queries.len(), 1);
            assert!(queries.iter().all(|query| query.waits_for_writer == waits_for_writer));
            ledger.reading.answer(queries);
        }
        let found = asked.now_or_never().unwrap().unwrap();
        assert_eq!(found.map(|found| found.step), is_known.then_some(LocalStep::Open));
        let message = LedgerCommand::Store(Box::new(of_message(1, mark(7))));
        ledger.opened.writer.submit(message).unwrap();
        ledger.writing.turn(64);
    }
}

/// The other rows of the transaction are stored at the first try, and nothing counts as lost.
#[test]
fn of_two_invocations_with_one_message_in_a_round_the_second_is_refused() {
    let state = directory();
    let mut ledger = InLine::open(state.path());
    for (second, sequence) in [(1, 7), (2, 7), (3, 8)] {
        let message = LedgerCommand::Store(Box::new(of_message(second, mark(sequence))));
        ledger.opened.writer.submit(message).unwrap();
    }
    ledger.writing.turn(64);
    assert_eq!(ledger.acknowledged(), ["1000 stored", "2000 known", "3000 stored"]);
    assert_eq!(ledger.ids(), [3000, 1000]);
    assert_eq!(ledger.opened.writer.health().lost, 0);
}

/// Then the round is written once more, one by one. Of the refused one no row is left, so its message may come again.
#[test]
fn a_round_with_a_known_message_and_a_record_that_is_refused_stores_the_others() {
    let state = directory();
    let mut ledger = InLine::open(state.path());
    let other = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    let refuses = "CREATE TRIGGER wrong BEFORE INSERT ON invocation WHEN NEW.function = 'wrong' BEGIN
        SELECT raise(ABORT, 'wrong');
    END";
    other.execute_batch(refuses).unwrap();
    drop(other);
    let wrong = Accepted {
        function: name("wrong"),
        ..of_message(4, mark(9))
    };
    for message in [
        of_message(1, mark(7)),
        wrong,
        of_message(2, mark(7)),
        of_message(3, mark(8)),
    ] {
        let message = LedgerCommand::Store(Box::new(message));
        ledger.opened.writer.submit(message).unwrap();
    }
    ledger.writing.turn(64);
    let acknowledged = ["1000 stored", "4000 known", "2000 known", "3000 stored"];
    assert_eq!(ledger.acknowledged(), acknowledged);
    assert_eq!(ledger.ids(), [3000, 1000]);
    assert_eq!(ledger.opened.writer.health().lost, 1);
    let left = ledger.opened.reader.message(name("wrong"), "claims.9".into());
    assert_eq!(ledger.answer(left), None);
}

/// Nobody waits for the disk for a row that the server brings again.
#[test]
fn rows_that_need_no_sync_come_before_commands_that_do() {
    let message = |second| of_message(second, mark(second));
    let store = |accepted| LedgerCommand::Store(Box::new(accepted));
    let synced = |second| store(accepted(second, "hello"));
    let claim = |second| LedgerCommand::Claim(Box::new(InvocationRecord::of(&message(second))));
    // The message of the first invocation was given back, and has come again.
    let again = store(of_message(5, mark(1)));
    let rounds: [(Vec<LedgerCommand>, &[&str], &[&str]); 4] = [
        (vec![synced(9), store(message(1))], &["1000 stored"], &["9000 stored"]),
        (
            vec![synced(9), store(message(1)), claim(1), store(message(2))],
            &["1000 stored", "2000 stored"],
            &["9000 stored", "1000 claimed"],
        ),
        (
            vec![store(message(1)), synced(9), LedgerCommand::Withdraw(id(1)), again],
            &["1000 stored"],
            &["9000 stored", "5000 stored"],
        ),
        (
            vec![store(message(2)), store(message(1))],
            &["2000 stored", "1000 stored"],
            &[],
        ),
    ];
    for (commands, first, second) in rounds {
        let state = directory();
        let mut ledger = InLine::open(state.path());
        for command in commands {
            ledger.opened.writer.submit(command).unwrap();
        }
        for expected in [first, second] {
            assert!(ledger.writing.turn(64));
            assert_eq!(ledger.acknowledged(), expected);
        }
        assert_eq!(ledger.writing.waiting(), (0, 0));
    }
}

/// New rows come all the time, and other work is stored, too.
#[test]
fn rows_overtake_other_commands_once() {
    let state = directory();
    let mut ledger = InLine::open(state.path());
    ledger.store(9);
    let rounds: [(u64, &[&str]); 2] = [(1, &["1000 stored"]), (2, &["9000 stored", "2000 stored"])];
    for (second, expected) in rounds {
        let row = LedgerCommand::Store(Box::new(of_message(second, mark(second))));
        ledger.opened.writer.submit(row).unwrap();
        ledger.writing.turn(64);
        assert_eq!(ledger.acknowledged(), expected);
    }
}

#[test]
fn a_reader_does_not_take_a_row_for_the_commands_that_it_has_overtaken() {
    let state = directory();
    let mut ledger = InLine::open(state.path());
    ledger.store(9);
    let row = LedgerCommand::Store(Box::new(of_message(1, mark(1))));
    ledger.opened.writer.submit(row).unwrap();
    for is_everything in [false, true] {
        ledger.writing.turn(64);
        assert_eq!(ledger.opened.writer.queue.is_flushed(), is_everything);
    }
}
