//! The slots of the table: under two threads, in a file that grows or cannot grow, in memory and on a disk.

use super::pages::Pages;
use super::slot::{self, Slot, SlotEnd};
use super::{Begun, Earlier, InFlight, old_table};
use fnd_core::records::outcome::Reason;
use fnd_core::records::{AttemptRecord, InvocationRecord};
use fnd_wire::ids::{Attempt, FunctionName, InvocationId};
use rustix::fs::{MemfdFlags, SealFlags};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::sync_channel;

fn table(directory: &Path) -> InFlight {
    let (earlier, file) = Earlier::read(directory, &[]).unwrap();
    earlier.begin(file, &[]).unwrap()
}

fn begun(number: u64) -> Begun {
    Begun {
        invocation: InvocationId(number.into()),
        attempt: Attempt(1),
        function: FunctionName::new("hello").unwrap(),
        trigger: "manual".into(),
        started_ms: number,
    }
}

/// Returns the invocations that a table has, and how many of its slots cannot be read.
fn found(directory: &Path) -> (BTreeSet<u128>, usize) {
    let file = File::open(directory.join(super::FILE)).unwrap();
    let old = old_table::read(&file).unwrap();
    let unreadable = old.unreadable;
    let invocations = old.slots.into_iter().map(|(_, slot)| slot.begun.invocation.0);
    (invocations.collect(), unreadable)
}

/// A slot that is used again keeps its new content: it is free only once it was emptied.
#[test]
fn slots_that_are_emptied_meanwhile_lose_no_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let table = table(directory.path());
    let is_stored = |number: &u64| !number.is_multiple_of(50);
    // Few attempts at once, so that slots are used again soon.
    let (sender, stored) = sync_channel::<InvocationId>(8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for invocation in stored {
                table.stored(invocation, 1);
            }
        });
        for number in 1..=5000 {
            table.begins(begun(number));
            if is_stored(&number) {
                sender.send(InvocationId(number.into())).unwrap();
            }
        }
        drop(sender);
    });
    let expected = (1..=5000_u64).filter(|number| !is_stored(number)).map(u128::from);
    assert_eq!(found(directory.path()), (expected.collect(), 0));
}

/// Returns a directory in memory, where the table is mapped, and one on the disk, where there is one.
fn directories() -> Vec<tempfile::TempDir> {
    let places = [Path::new("/dev/shm"), Path::new("/var/tmp")];
    let directories: Vec<_> = places
        .into_iter()
        .filter_map(|place| tempfile::tempdir_in(place).ok())
        .collect();
    assert!(!directories.is_empty());
    directories
}

fn end(number: u64) -> (AttemptRecord, InvocationRecord) {
    let mut attempt = crate::metrics::tests::attempt("hello", Reason::Ok);
    (attempt.invocation, attempt.attempt) = (InvocationId(number.into()), Attempt(1));
    let record = InvocationRecord {
        id: attempt.invocation,
        ..crate::report::examples::ended(Reason::Ok)
    };
    (attempt, record)
}

fn slots(directory: &Path) -> Vec<(u64, Slot)> {
    let file = File::open(directory.join(super::FILE)).unwrap();
    old_table::read(&file).unwrap().slots
}

#[test]
fn a_table_that_grows_has_every_attempt_and_its_end() {
    for directory in directories() {
        let table = table(directory.path());
        (1..=1000).for_each(|number| table.begins(begun(number)));
        for number in 1..=500 {
            let (attempt, record) = end(number);
            table.ends(&attempt, &record, false);
        }
        (1..=100).for_each(|number| table.stored(InvocationId(number), 1));
        let slots = slots(directory.path());
        let found: BTreeSet<_> = slots.iter().map(|(_, slot)| slot.begun.invocation.0).collect();
        assert_eq!((slots.len(), found), (900, (101..=1000).collect()));
        for (_, slot) in slots {
            assert_eq!(slot.over.is_known(), slot.begun.invocation.0 <= 500, "{slot:?}");
        }
    }
}

/// A kill in the middle of the copy leaves either the slot of the start, or both.
#[test]
fn an_end_in_memory_does_not_overwrite_the_start() {
    for directory in directories() {
        let table = table(directory.path());
        table.begins(begun(5));
        let (attempt, record) = end(5);
        let [(start, _)] = slots(directory.path())[..] else {
            panic!("one slot")
        };
        table.ends(&attempt, &record, false);
        let [(end, _)] = slots(directory.path())[..] else {
            panic!("one slot")
        };
        assert_eq!(start != end, table.pages.is_mapped(start));
    }
}

#[test]
fn a_slot_is_empty_until_its_first_word_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    let content = Slot {
        begun: begun(5),
        over: SlotEnd::Unknown,
    };
    slot::encode_slot(&content, &mut bytes);
    let mut file = vec![0; 2 * slot::LENGTH];
    file[slot::LENGTH + 8..][..bytes.len() - 8].copy_from_slice(&bytes[8..]);
    let path = directory.path().join(super::FILE);
    std::fs::write(&path, &file).unwrap();
    assert_eq!(found(directory.path()), (BTreeSet::new(), 0));
    file[slot::LENGTH..][..8].copy_from_slice(&bytes[..8]);
    std::fs::write(&path, &file).unwrap();
    assert_eq!(found(directory.path()), ([5].into(), 0));
}

/// Without room, a write fails as before; it does not end fnd with SIGBUS.
#[test]
fn a_file_that_cannot_grow_refuses_the_slots_that_it_does_not_have() {
    let memory = rustix::fs::memfd_create("table", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    let file = File::from(memory);
    let slots_of_file = 200;
    file.set_len(slots_of_file * slot::SIZE).unwrap();
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW).unwrap();
    let pages = Pages::new(file);
    for at in [0, 127, 128, 199, 200, 1000] {
        pages.reserve(at);
        let written = pages.write(at, b"content");
        assert_eq!(written.is_ok(), at < slots_of_file, "{at}: {written:?}");
        assert_eq!(pages.is_mapped(at), at < 128, "{at}");
    }
}

#[test]
fn the_bytes_of_a_slot_are_the_same_with_and_without_a_mapping() {
    let contents = directories().into_iter().map(|directory| {
        let table = table(directory.path());
        table.begins(begun(5));
        drop(table);
        let bytes = std::fs::read(directory.path().join(super::FILE)).unwrap();
        let slot = &bytes[slot::LENGTH..];
        slot[..6 + usize::from(slot[4])].to_vec()
    });
    let contents: BTreeSet<_> = contents.collect();
    assert_eq!(contents.len(), 1);
}

/// Root empties the file. That is no reason to end fnd and all that runs.
#[test]
fn a_file_that_is_truncated_loses_its_slots_and_nothing_else() {
    for directory in directories() {
        let table = table(directory.path());
        (1..=300).for_each(|number| table.begins(begun(number)));
        let file = File::options().write(true).open(directory.path().join(super::FILE));
        file.unwrap().set_len(0).unwrap();
        for number in 301..=600 {
            table.begins(begun(number));
            table.stored(InvocationId((number - 300).into()), 1);
        }
        let (attempts, _) = found(directory.path());
        assert!((301..=600).all(|number| attempts.contains(&number)), "{attempts:?}");
        let old = old_table::read(&File::open(directory.path().join(super::FILE)).unwrap()).unwrap();
        assert!(
            old.header.is_none_or(|header| !header.complete) || !table.pages.is_mapped(0),
            "it is not complete"
        );
    }
}
