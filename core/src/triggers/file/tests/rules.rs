//! One rule a test.

use super::super::machine::{DirectoryState, FileClock, FileEvent, FileStamp, Look, WatchAction};
use super::super::message::{FileRunEnded, RunContent, ToWatcher};
use super::disk::DEVICE;
use super::entry;
use super::world::{World, ended};
use fnd_manifest::function::file::{FileAction, FileChange};
use fnd_manifest::function::keys::FileTrigger;
use fnd_wire::ids::InvocationId;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn world(trigger: FileTrigger) -> World {
    let mut world = World::new(vec![trigger]);
    world.begin();
    world
}

/// Returns a world with the usual entry and a change of it.
fn world_with(change: impl FnOnce(&mut FileTrigger)) -> World {
    let mut entry = entry("/in");
    change(&mut entry);
    world(entry)
}

fn run(kind: u8, path: &str) -> (u8, String) {
    (kind, path.to_owned())
}

#[test]
fn a_closed_file_counts_after_its_quiet_time_and_an_open_one_when_it_rests() {
    let mut world = world(entry("/in"));
    world.disk.write("closed", false);
    world.disk.write("open", true);
    world.pass(Duration::from_millis(400));
    assert_eq!(world.runs(), []);
    world.pass(Duration::from_millis(200));
    assert_eq!(world.runs(), [run(0, "closed")]);
    world.pass(SECOND);
    world.disk.write("open", true);
    world.pass(Duration::from_millis(1900));
    assert_eq!(world.runs(), []);
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(0, "open")]);
}

/// The function's processes may see another file system than the watcher: what they never saw must not count as handled.
#[test]
fn nothing_is_offered_before_the_function_sees_the_same_directories() {
    let mut world = world(entry("/in"));
    world.handle(FileEvent::Places(1));
    world.disk.write("a", false);
    world.pass(SECOND);
    assert_eq!((world.runs(), world.places.clone()), (vec![], vec![1]));
    assert!(world.known.is_empty());
    // The answer to a look before the last one says nothing about what is there now.
    world.handle(FileEvent::Places(2));
    world.message(ToWatcher::Shown(1));
    world.pass(SECOND);
    assert_eq!(world.runs(), []);
    world.message(ToWatcher::Shown(2));
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(0, "a")]);
    assert_eq!(world.known.len(), 1);
}

/// The last look at a file of an offer was before the mount, and the offer is sent after it.
#[test]
fn an_offer_that_is_being_made_is_made_anew_when_the_directories_lead_elsewhere() {
    let mut world = world_with(|entry| entry.batch = 2);
    world.disk.write("a", false);
    world.disk.write("b", false);
    world.leads_to = Some(1);
    world.pass(SECOND);
    assert_eq!((world.runs(), world.places.clone()), (vec![], vec![1]));
    world.disk.remove("a");
    world.message(ToWatcher::Shown(1));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.runs(), [run(0, "b")]);
}

#[test]
fn changes_that_nobody_wants_are_remembered() {
    let mut world = world_with(|entry| entry.on = vec![FileChange::Modified]);
    world.disk.write("a", false);
    world.pass(SECOND);
    assert_eq!(world.runs(), []);
    assert_eq!(world.known.len(), 1);
    world.disk.write("a", false);
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(1, "a")]);
    world.disk.remove("a");
    world.pass(SECOND);
    assert_eq!(world.runs(), []);
    assert!(world.known.is_empty());
}

/// A program that keeps the old file under another name: the new name may be seen before the file is written again.
#[test]
fn a_file_that_is_written_again_after_its_old_content_was_renamed_is_modified() {
    let mut world = world(entry("/in"));
    world.disk.write("a", false);
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(0, "a")]);
    world.disk.rename("a", "a.bak");
    world.pass(Duration::from_millis(10));
    world.disk.write("a", false);
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(1, "a")]);
    // After the window it is another file.
    world.disk.rename("a", "a.old");
    world.pass(SECOND);
    world.disk.write("a", false);
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(0, "a")]);
}

#[test]
fn a_deletion_is_offered_until_it_is_accepted() {
    let mut world = world_with(|entry| entry.on = vec![FileChange::Deleted]);
    world.disk.write("a", false);
    world.pass(SECOND);
    world.is_quick = false;
    world.disk.remove("a");
    world.pass(SECOND);
    assert_eq!(world.offers.len(), 1);
    world.restart();
    world.pass(SECOND);
    assert_eq!(world.offers.len(), 1);
    world.accept();
    world.restart();
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(2, "a")]);
    assert!(world.offers.is_empty() && world.known.is_empty());
}

#[test]
fn only_so_many_invocations_are_without_an_end_and_the_oldest_files_come_first() {
    let mut world = world(entry("/in"));
    world.is_quick = false;
    for number in (0..100).rev() {
        world.disk.write(&format!("{number:02}"), false);
    }
    world.pass(SECOND);
    assert_eq!(world.offers.len(), 16);
    // fnd takes four: the others wait until one of these has ended.
    (0..4).for_each(|_| world.accept());
    (0..12).for_each(|_| world.refuse());
    world.pass(Duration::from_millis(500));
    assert_eq!(world.offers.len(), 0);
    world.end(true);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.offers.len(), 1);
    let expected = ["99", "98", "97", "96"].map(|name| run(0, name));
    assert_eq!(world.runs(), expected);
    world.is_quick = true;
    world.accept();
    (0..4).for_each(|_| world.end(true));
    world.pass(SECOND);
    assert_eq!(world.runs().len(), 96);
}

#[test]
fn a_batch_is_full_or_waits_for_files_in_their_quiet_time() {
    let mut world = world_with(|entry| entry.batch = 3);
    world.is_quick = false;
    for name in ["a", "b"] {
        world.disk.write(name, false);
        world.pass(Duration::from_millis(300));
    }
    // The first is ready, the second is in its quiet time.
    assert!(world.offers.is_empty());
    world.pass(Duration::from_millis(300));
    assert_eq!(world.offers.pop_front().unwrap().changes.len(), 2);
    // One file that never rests delays the others only once more.
    world.disk.write("c", false);
    for _ in 0..12 {
        world.disk.write("d", false);
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(world.offers.pop_front().unwrap().changes.len(), 1);
}

#[test]
fn an_act_is_only_for_the_content_of_its_invocation() {
    let mut world = world_with(|entry| entry.then = FileAction::Delete);
    world.is_quick = false;
    world.disk.write("a", false);
    world.disk.write("b", false);
    world.pass(SECOND);
    world.accept();
    world.accept();
    world.disk.write("a", true);
    world.end(true);
    world.end(true);
    world.turn();
    assert_eq!(
        world.settled.len(),
        1,
        "a content that is not found is looked for again"
    );
    world.pass(Duration::from_millis(200));
    assert_eq!(world.disk.names.keys().collect::<Vec<_>>(), ["a"]);
    world.pass(3 * SECOND);
    assert_eq!(world.settled.len(), 2);
    assert_eq!(world.known.len(), 1, "the deletion by the act is no change");
}

#[test]
fn an_act_after_a_failure_is_the_other_one() {
    let mut world = world_with(|entry| entry.failed = FileAction::Delete);
    world.is_quick = false;
    for success in [true, false] {
        world.disk.write(if success { "good" } else { "bad" }, false);
        world.pass(SECOND);
        world.accept();
        world.end(success);
        world.turn();
    }
    assert_eq!(world.disk.names.keys().collect::<Vec<_>>(), ["good"]);
    assert_eq!(world.settled.len(), 2);
}

#[test]
fn files_from_before_the_function_are_seen_and_not_run() {
    let mut world = World::new(vec![FileTrigger {
        existing: false,
        ..entry("/in")
    }]);
    world.disk.write("before", false);
    world.disk.events.clear();
    world.first_ms = u64::try_from(world.disk.wall_ns / 1_000_000).unwrap() + 1;
    world.disk.wall_ns += 10_000_000;
    world.begin();
    world.disk.write("after", false);
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(0, "after")]);
    assert_eq!(world.known.len(), 2);
    // A directory that appears later brings files that came later, whatever their times are.
    world.handle(FileEvent::Directory(0, DirectoryState::default()));
    world.disk.write("old", false);
    world.disk.events.clear();
    world.first_ms = u64::MAX;
    let present = DirectoryState {
        present: true,
        ..DirectoryState::default()
    };
    world.handle(FileEvent::Directory(0, present));
    world.scan();
    world.pass(3 * SECOND);
    assert_eq!(world.runs(), [run(0, "old")]);
}

#[test]
fn nothing_is_forgotten_while_another_file_system_is_there() {
    let mut world = world_with(|entry| entry.on = vec![FileChange::Created, FileChange::Deleted]);
    world.disk.write("a", false);
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(0, "a")]);
    for device in [None, Some(2)] {
        world.handle(FileEvent::ScanBegan(0, true));
        world.handle(FileEvent::ScanEnded(0, device));
        world.pass(SECOND);
        assert_eq!(world.known.len(), 1);
    }
    // The same file system with another number.
    let mut facts = world.disk.get("a").unwrap().facts;
    facts.device = 2;
    world.disk.inodes.get_mut(&facts.inode).unwrap().facts = facts;
    world.restart();
    world.pass(SECOND);
    assert_eq!(world.runs(), []);
    assert_eq!(world.known.values().next().unwrap().file.device, 2);
}

#[test]
fn a_content_that_was_hidden_from_its_times_is_found_by_its_hash() {
    let mut world = world(entry("/in"));
    world.disk.write("a", false);
    world.pass(SECOND);
    assert_eq!(world.runs().len(), 1);
    world.disk.chmod("a");
    world.scan();
    world.pass(SECOND);
    assert_eq!(world.runs(), []);
    // Written, and its time set back.
    let inode = *world.disk.names.get("a").unwrap();
    world.disk.inodes.get_mut(&inode).unwrap().content += 1000;
    world.disk.chmod("a");
    world.scan();
    world.pass(3 * SECOND);
    assert_eq!(world.runs(), [run(1, "a")]);
}

#[test]
fn it_is_never_woken_without_a_change() {
    let mut world = world(entry("/in"));
    world.disk.write("a", false);
    world.pass(5 * SECOND);
    assert_eq!(world.machine.deadline(), None);
    let mut actions = Vec::new();
    let at = FileClock {
        now: world.now * 100,
        wall_ns: world.disk.wall_ns,
    };
    world.machine.turn(at, &mut actions);
    assert_eq!(actions, []);
}

/// rsync replaces files one after the other, and each new file gets the inode that the one before has freed.
#[test]
fn replaced_files_with_used_inodes_are_remembered_over_a_restart() {
    for batch in [1, 3] {
        let mut world = world(FileTrigger { batch, ..entry("/in") });
        for name in ["f1", "f2", "f3"] {
            world.disk.write(name, false);
        }
        world.pass(SECOND);
        assert_eq!(world.runs().len(), 3);
        world.is_quick = false;
        for name in ["f1", "f2", "f3", "f4"] {
            world.disk.replace(name);
        }
        world.pass(SECOND);
        // fnd stores all offers before the watcher hears of the first.
        while !world.offers.is_empty() {
            world.store();
        }
        while !world.stored.is_empty() {
            world.tell();
            world.pass(SECOND);
        }
        world.pass(SECOND);
        let expected = [run(1, "f1"), run(1, "f2"), run(1, "f3"), run(0, "f4")];
        let mut runs = world.runs();
        runs.sort_by(|one, other| one.1.cmp(&other.1));
        assert_eq!(runs, expected);
        assert_eq!(world.known.len(), 4);
        while !world.running.is_empty() {
            world.end(true);
        }
        world.restart();
        world.pass(3 * SECOND);
        assert!(world.offers.is_empty(), "{:?}", world.offers);
    }
}

/// Returns a world with one file, which is to be deleted when its invocation has ended.
fn acting() -> World {
    let mut world = world_with(|entry| entry.then = FileAction::Delete);
    world.is_quick = false;
    world.disk.write("a", false);
    world.pass(SECOND);
    world.accept();
    world
}

fn is_acted(world: &World) -> bool {
    world.disk.names.is_empty() && world.settled.len() == 1 && world.known.is_empty()
}

#[test]
fn an_act_waits_until_the_directory_is_there_and_scanned() {
    let mut world = acting();
    world.stop();
    world.disk.rename("a", "b");
    world.disk.events.clear();
    world.greet();
    world.end(true);
    world.pass(SECOND);
    assert!(world.settled.is_empty() && world.disk.names.len() == 1);
    world.appear();
    world.pass(SECOND);
    assert!(is_acted(&world));
    assert_eq!(world.machine.deadline(), None);
}

/// A watcher that starts hears of an end from the ledger, and again when fnd records the end.
#[test]
fn an_end_that_is_said_twice_is_settled_after_its_acts_only() {
    let mut world = acting();
    world.stop();
    world.greet();
    let id = world.running[0];
    world.end(true);
    world.message(ended(id, true));
    world.pass(SECOND);
    assert_eq!(world.settled, [], "its file is still there");
    // Killed before the act: the next watcher does it.
    world.stop();
    world.begin();
    world.message(ended(id, true));
    world.pass(SECOND);
    assert!(is_acted(&world));
}

#[test]
fn an_act_finds_a_file_whose_move_is_not_reported_yet() {
    let mut world = acting();
    world.disk.rename("a", "b");
    world.end(true);
    world.turn();
    assert!(world.settled.is_empty());
    world.pass(SECOND);
    assert!(is_acted(&world));
}

#[test]
fn an_act_waits_while_its_file_cannot_be_reached() {
    for hidden in [Look::Unreachable, Look::Absent(DEVICE + 1)] {
        let mut world = acting();
        world.hidden = Some(hidden);
        world.end(true);
        world.pass(12 * SECOND);
        assert!(world.settled.is_empty(), "{hidden:?}");
        world.hidden = None;
        if hidden != Look::Unreachable {
            world.scan(); // as after every mount
        }
        world.pass(6 * SECOND);
        assert!(is_acted(&world), "{hidden:?}");
        assert_eq!(world.machine.deadline(), None);
    }
}

#[test]
fn a_moved_file_is_not_forgotten_while_the_scan_that_finds_it_waits_for_another() {
    let mut world = World::new(vec![entry("/in"), entry("/other")]);
    world.begin();
    world.disk.write("a", false);
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(0, "a")]);
    world.handle(FileEvent::ScanBegan(1, true));
    world.disk.rename("a", "b");
    // A renamed directory: only the scan of a part says where its files are.
    world.disk.events.truncate(1);
    world.pass(SECOND);
    assert_eq!(world.known.len(), 1);
    world.handle(FileEvent::ScanEnded(1, Some(DEVICE)));
    world.now += Duration::from_millis(40);
    world.turn();
    world.handle(FileEvent::ScanBegan(0, false));
    world.handle(FileEvent::Scanned(0, b"b".to_vec(), world.disk.get("b").unwrap().facts));
    world.handle(FileEvent::ScanEnded(0, None));
    world.pass(3 * SECOND);
    assert_eq!(world.runs(), []);
    assert_eq!(world.known.len(), 1);
}

#[test]
fn files_on_a_file_system_below_are_no_problem_and_may_be_deleted() {
    let mut world = world(entry("/in"));
    for name in ["a", "b"] {
        world.disk.write(name, false);
        let inode = world.disk.names[name];
        world.disk.inodes.get_mut(&inode).unwrap().facts.device = DEVICE + 1;
    }
    world.pass(SECOND);
    assert_eq!(world.runs().len(), 2);
    world.scan();
    assert_eq!(world.machine.directories[0].foreign, None);
    world.disk.remove("a");
    world.disk.events.clear();
    world.scan();
    world.pass(SECOND);
    assert_eq!(world.known.len(), 1);
}

/// A directory is not read in one moment: a file that is renamed meanwhile may be found under neither name, and the events
/// of the rename are read after the look at its earlier name.
#[test]
fn a_file_that_is_renamed_during_a_scan_is_not_forgotten() {
    let mut world = world(entry("/in"));
    world.disk.write("a", false);
    world.pass(SECOND);
    assert_eq!(world.runs(), [run(0, "a")]);
    world.disk.rename("a", "b");
    let events = std::mem::take(&mut world.disk.events);
    world.handle(FileEvent::ScanBegan(0, true));
    world.handle(FileEvent::ScanEnded(0, Some(DEVICE)));
    world.turn();
    world.disk.events = events;
    world.pass(SECOND);
    assert_eq!(world.runs(), []);
    assert_eq!(world.known.len(), 1);
}

/// On a busy machine the looks at files take longer than a name may be without a file.
#[test]
fn files_that_were_renamed_while_no_watcher_ran_are_not_forgotten_before_they_are_looked_at() {
    let mut world = world(entry("/in"));
    for name in ["a", "b", "c"] {
        world.disk.write(name, false);
    }
    world.pass(SECOND);
    assert_eq!(world.runs().len(), 3);
    world.stop();
    for name in ["a", "b", "c"] {
        world.disk.rename(name, &format!("{name}-moved"));
    }
    world.disk.events.clear();
    world.look_takes = Duration::from_millis(70);
    world.begin();
    world.pass(SECOND);
    assert_eq!(world.runs(), []);
    assert_eq!(world.known.len(), 3);
}

/// The look that follows fnd's answer must not be lost because the file is closed before it is answered: the window of the
/// earlier name ends meanwhile.
#[test]
fn a_file_that_is_renamed_while_it_is_offered_runs_once() {
    let mut world = world(entry("/in"));
    world.is_quick = false;
    world.disk.write("a", true);
    world.pass(3 * SECOND);
    assert_eq!(world.offers.len(), 1);
    world.disk.rename("a", "b");
    world.pass(Duration::ZERO);
    world.look_takes = Duration::from_millis(70);
    world.disk.close("b");
    world.accept();
    world.turn();
    world.pass(3 * SECOND);
    assert_eq!((world.runs(), world.offers.len()), (vec![run(0, "a")], 0));
    assert_eq!(world.known.len(), 1);
}

/// Rights that change while a renamed file is hashed must not make it wait until its earlier name counts as deleted.
#[test]
fn a_renamed_file_whose_rights_change_during_the_look_runs_once() {
    let mut world = world(entry("/in"));
    world.disk.write("a", false);
    world.pass(SECOND);
    world.disk.rename("a", "b");
    world.read_events();
    let look = |world: &mut World, answer: Look| {
        let at = FileClock {
            now: world.now,
            wall_ns: world.disk.wall_ns,
        };
        let mut actions = Vec::new();
        world.machine.turn(at, &mut actions);
        let Some(WatchAction::Look(id, ..)) = actions.first() else {
            panic!("{actions:?}")
        };
        world.handle(FileEvent::Looked(*id, answer));
    };
    let first = world.disk.look("b", false);
    look(&mut world, first);
    let facts = world.disk.get("b").unwrap().facts;
    look(&mut world, Look::Changing(facts));
    world.pass(3 * SECOND);
    assert_eq!((world.runs(), world.known.len()), (vec![run(0, "a")], 1));
}

/// Ends a run that repeats the one of these contents.
fn repeat_ends(world: &mut World, contents: &[FileStamp]) {
    let content = |(inode, size, modified_ns): &FileStamp| RunContent {
        directory: 0,
        inode: *inode,
        size: *size,
        modified_ns: *modified_ns,
    };
    world.message(ToWatcher::Ended(FileRunEnded {
        id: InvocationId(1 << 64),
        success: true,
        contents: contents.iter().map(content).collect(),
    }));
}

fn stamp(world: &World, name: &str) -> FileStamp {
    let facts = world.disk.get(name).unwrap().facts;
    (facts.inode, facts.size, facts.modified_ns)
}

#[test]
fn an_act_follows_a_run_that_repeats_a_failed_one_too() {
    let mut world = acting();
    world.end(false);
    world.pass(SECOND);
    assert_eq!((world.settled.len(), world.disk.names.len()), (1, 1));
    let content = stamp(&world, "a");
    world.disk.rename("a", "b");
    repeat_ends(&mut world, &[content]);
    world.pass(SECOND);
    assert!(world.disk.names.is_empty() && world.known.is_empty());
    // fnd says an end twice where a watcher starts meanwhile.
    repeat_ends(&mut world, &[content]);
    world.pass(SECOND);
    assert_eq!(world.settled.len(), 3);
    assert_eq!(world.machine.deadline(), None);
}

#[test]
fn nothing_is_done_to_another_content_than_that_of_the_repeated_run() {
    let mut world = acting();
    let content = stamp(&world, "a");
    world.end(false);
    world.disk.write("a", false);
    repeat_ends(&mut world, &[content]);
    world.pass(SECOND);
    assert_eq!(world.offers.len(), 1, "the new content runs");
    repeat_ends(&mut world, &[content]);
    world.pass(SECOND);
    assert_eq!((world.settled.len(), world.disk.names.len()), (3, 1));
}

/// An act deletes one of two names: the content is handled under the other one, whose event is not read yet.
#[test]
fn a_content_with_two_names_runs_once_and_an_act_removes_one_name() {
    let mut world = acting();
    world.disk.link("a", "b");
    world.end(true);
    world.turn();
    world.pass(3 * SECOND);
    assert_eq!(world.disk.names.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!((world.runs(), world.offers.len()), (vec![run(0, "a")], 0));
    assert_eq!(world.known.len(), 1);
}

#[test]
fn a_file_that_gets_a_second_name_before_it_runs_and_loses_the_first_one_runs_once() {
    let mut world = world(entry("/in"));
    world.is_quick = false;
    world.disk.write("a", false);
    world.pass(Duration::from_millis(400));
    world.disk.link("a", "b");
    world.pass(Duration::from_millis(200));
    world.accept();
    world.disk.remove("a");
    world.pass(3 * SECOND);
    assert_eq!((world.runs(), world.offers.len()), (vec![run(0, "a")], 0));
    assert_eq!(world.known.len(), 1);
}
