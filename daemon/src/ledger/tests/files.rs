//! Which contents of watched files are handled: with the invocation or not at all, and what they wait for.

use super::*;
use fnd_core::records::FileMark;
use fnd_core::records::SeenFile;
use fnd_core::records::outcome::RunState;
use fnd_core::triggers::file::memory::FileMemory;
use fnd_core::triggers::file::message::KnownFile;
use fnd_wire::form::Bytes;

fn file(inode: u64, path: &str, size: u64) -> SeenFile {
    SeenFile {
        directory: 0,
        path: Bytes(path.as_bytes().to_vec()),
        inode,
        device: u64::MAX,
        size,
        modified_ns: -5,
        changed_ns: i64::MAX,
        hash: Some(u64::MAX - 1),
    }
}

fn known(file: &SeenFile, acts: bool) -> FileMark {
    FileMark::Known {
        directory: "/srv/in".into(),
        file: file.clone(),
        acts,
    }
}

fn for_files(number: u64, marks: Vec<FileMark>) -> Accepted {
    Accepted {
        files: marks,
        ..accepted(number, "f")
    }
}

fn files(ledger: &Ledger, from: Option<u64>) -> crate::ledger::KnownFiles {
    wait(ledger.opened.reader.known_files(name("f"), "/srv/in".into(), from)).unwrap()
}

#[test]
fn contents_are_handled_with_their_invocation() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    // An inode above i64::MAX is stored as it is, too.
    let (one, other) = (file(1, "a.csv", 7), file(u64::MAX, "b\n.csv", 0));
    ledger
        .store(for_files(1, vec![known(&one, true), known(&other, false)]))
        .unwrap();
    let page = files(&ledger, None);
    let expected = [(&other, None), (&one, Some(id(1)))];
    let expected = expected.map(|(file, after)| KnownFile {
        file: file.clone(),
        after,
    });
    assert_eq!(page.files, expected);
    assert_eq!((page.ends, page.next), (vec![(id(1), None)], None));

    // A new name does not change what a file waits for, a new invocation does.
    let renamed = file(1, "c.csv", 7);
    let marks = |marks| LedgerCommand::Files(FileMemory::Marks(name("f"), marks));
    let gone = FileMark::Gone {
        directory: "/srv/in".into(),
        inode: u64::MAX,
    };
    ledger.submit(marks(vec![known(&renamed, false), gone]));
    let page = files(&ledger, None);
    assert_eq!(
        page.files,
        [KnownFile {
            file: renamed.clone(),
            after: Some(id(1))
        }]
    );
    ledger.submit(LedgerCommand::Files(FileMemory::Settled(name("f"), id(1))));
    assert_eq!(
        files(&ledger, None).files,
        [KnownFile {
            file: renamed,
            after: None
        }]
    );
}

#[test]
fn the_end_that_a_file_waits_for_is_found_after_a_restart() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for (number, end) in [(1, RunState::Succeeded), (2, RunState::Failed), (3, RunState::Queued)] {
        let accepted = for_files(number, vec![known(&file(number, "a", 1), true)]);
        ledger.store(accepted.clone()).unwrap();
        if end.is_final() {
            ledger.submit(LedgerCommand::Update(Box::new(record(&accepted, end))));
        }
    }
    ledger.stop();
    let ledger = Ledger::open(state.path());
    let ends = files(&ledger, None).ends;
    assert_eq!(ends, [(id(1), Some(true)), (id(2), Some(false)), (id(3), None)]);
}

#[test]
fn many_files_come_in_pages_and_go_with_their_function() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let marks = (0..2500).map(|inode| known(&file(inode, "a", 1), false)).collect();
    ledger.submit(LedgerCommand::Files(FileMemory::Marks(name("f"), marks)));
    let mut inodes = Vec::new();
    let mut from = Some(None);
    while let Some(first) = from {
        let page = files(&ledger, first);
        inodes.extend(page.files.iter().map(|known| known.file.inode));
        from = page.next.map(Some);
    }
    assert_eq!(inodes, (0..2500).collect::<Vec<_>>());

    let since = |since_ms| LedgerCommand::Files(FileMemory::Since(name("f"), vec!["/srv/in".into()], since_ms));
    ledger.submit(since(5));
    ledger.submit(since(9));
    let read = |ledger: &Ledger| wait(ledger.opened.reader.watched_since(name("f"), "/srv/in".into())).unwrap();
    assert_eq!(read(&ledger), Some(5), "the first time stays");
    assert_eq!(wait(ledger.opened.reader.functions_with_files()).unwrap(), [name("f")]);
    ledger.submit(LedgerCommand::Files(FileMemory::Forget(name("f"))));
    assert_eq!(files(&ledger, None), crate::ledger::KnownFiles::default());
    assert_eq!(read(&ledger), None);
}

/// The run that repeats another one for files.
fn repeats(number: u64, run: InvocationId) -> Accepted {
    Accepted {
        trigger: Trigger::Redrive,
        origin: Some(run),
        ..for_files(number, vec![FileMark::Repeated { run }])
    }
}

fn ends(ledger: &Ledger, accepted: &Accepted, state: RunState) {
    ledger.submit(LedgerCommand::Update(Box::new(record(accepted, state))));
}

fn inodes_of_end(ledger: &Ledger, of: &Accepted) -> Vec<u64> {
    match ledger.acknowledged.recv_timeout(LIMIT).unwrap() {
        Acknowledged::FilesEnded { id, contents, .. } if id == of.id => {
            contents.iter().map(|(_, content)| content.inode).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_wait_for_every_run_that_repeats_theirs() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let settled = |id| ledger.submit(LedgerCommand::Files(FileMemory::Settled(name("f"), id)));
    let mut first = for_files(1, (1..=3).map(|inode| known(&file(inode, "a", 7), true)).collect());
    first.trigger = Trigger::File;
    ledger.store(first.clone()).unwrap();
    ends(&ledger, &first, RunState::Failed);
    assert_eq!(inodes_of_end(&ledger, &first), [1, 2, 3]);
    settled(first.id);
    // One content is gone, one was replaced by another that did not run; the third has a new name.
    let marks = vec![
        FileMark::Gone {
            directory: "/srv/in".into(),
            inode: 1,
        },
        known(&file(2, "a", 8), false),
        known(&file(3, "b", 7), false),
    ];
    ledger.submit(LedgerCommand::Files(FileMemory::Marks(name("f"), marks)));
    for number in 2..4 {
        let again = repeats(number, first.id);
        ledger.store(again.clone()).unwrap();
        assert_eq!(files(&ledger, None).ends, [(again.id, None)]);
        ends(&ledger, &again, RunState::Failed);
        assert_eq!(inodes_of_end(&ledger, &again), [3]);
        settled(again.id);
        assert_eq!(files(&ledger, None).ends, []);
    }
    // The end of a run that repeats one without files is nobody's.
    let other = repeats(5, id(9));
    ledger.store(other.clone()).unwrap();
    ends(&ledger, &other, RunState::Succeeded);
    let last = repeats(6, first.id);
    ledger.store(last.clone()).unwrap();
    ledger.stop();
    let ledger = Ledger::open(state.path());
    assert_eq!(files(&ledger, None).ends, [(last.id, None)]);
    ends(&ledger, &last, RunState::Succeeded);
    assert_eq!(inodes_of_end(&ledger, &last), [3]);
}

/// A content that nobody wants replaces one that a run has: the run's end must not move or delete it.
#[test]
fn another_content_waits_for_nothing() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    ledger.store(for_files(1, vec![known(&file(1, "a", 7), true)])).unwrap();
    let marks = vec![known(&file(1, "a", 8), false)];
    ledger.submit(LedgerCommand::Files(FileMemory::Marks(name("f"), marks)));
    assert_eq!(files(&ledger, None).ends, []);
}

/// The watcher deletes or moves the files next: a power cut must not leave a run without an end and without them.
#[test]
fn an_end_for_files_is_told_after_it_is_synced() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let first = Accepted {
        trigger: Trigger::File,
        ..for_files(1, vec![known(&file(1, "a", 7), true)])
    };
    ledger.store(first.clone()).unwrap();
    let end = LedgerCommand::Update(Box::new(record(&first, RunState::Succeeded)));
    assert!(end.is_waited_for(), "it is written with a sync");
    let other = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    ledger.submit(end);
    // Work that is refused shows that the end could not be written.
    let refused = accepted(9, "f");
    ledger.submit(LedgerCommand::Store(Box::new(refused.clone())));
    match ledger.acknowledged.recv_timeout(LIMIT).unwrap() {
        Acknowledged::Stored { id, result: Err(_) } if id == refused.id => {}
        other => panic!("{other:?}"),
    }
    drop(other);
    assert_eq!(inodes_of_end(&ledger, &first), [1]);
    assert_eq!(ledger.get(first.id).unwrap().0.state, RunState::Succeeded);
}
