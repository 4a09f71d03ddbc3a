//! The table under two threads: the main thread fills slots while the ledger's thread empties others.

use super::{Begun, Earlier, InFlight, old_table};
use fnd_wire::ids::{Attempt, FunctionName, InvocationId};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::sync_channel;

fn table(directory: &Path) -> InFlight {
    let (earlier, file) = Earlier::read((directory, directory), &[]).unwrap();
    earlier.begin(file, &[]).unwrap()
}

fn begun(number: u64) -> Begun {
    Begun {
        invocation: InvocationId(number.into()),
        attempt: Attempt(1),
        function: FunctionName::new("hello").unwrap(),
        trigger: "manual".to_owned(),
        started_ms: number,
    }
}

/// Returns the invocations that a table has, and how many of its slots cannot be read.
fn found(directory: &Path) -> (BTreeSet<u128>, usize) {
    let file = File::open(directory.join(super::FILE)).unwrap();
    let old = old_table::read(&file).unwrap();
    let unreadable = old.seen().unreadable;
    let invocations = old.slots.into_iter().map(|(_, slot)| slot.begun.invocation.0);
    (invocations.collect(), unreadable)
}

/// A slot that is used again keeps its new content: it is free only once it was emptied.
#[test]
fn slots_that_are_emptied_meanwhile_lose_no_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let table = table(directory.path());
    let is_stored = |number: &u64| number % 50 != 0;
    // Few attempts at once, so that slots are used again soon.
    let (sender, stored) = sync_channel::<InvocationId>(8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for invocation in stored {
                table.stored(invocation, 1);
            }
        });
        for number in 1..=5000 {
            table.begins(&begun(number));
            if is_stored(&number) {
                sender.send(InvocationId(number.into())).unwrap();
            }
        }
        drop(sender);
    });
    let expected = (1..=5000_u64).filter(|number| !is_stored(number)).map(u128::from);
    assert_eq!(found(directory.path()), (expected.collect(), 0));
}
