//! Random changes, lost events, restarts, refusals and ends, against these rules: no content is accepted twice, each
//! content that rests is accepted, and nothing is done to a file that changed.

use super::entry;
use super::world::World;
use fnd_manifest::function::file::{FileAction, FileChange};
use fnd_manifest::function::keys::FileTrigger;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
enum Step {
    Write(u8, bool),
    Replace(u8),
    Close(u8),
    Chmod(u8),
    Rename(u8, u8),
    Link(u8, u8),
    Remove(u8),
    Pass(u16),
    Overflow,
    Restart,
    Scan,
    Store,
    Accept,
    Refuse,
    End(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..6_u8;
    prop_oneof![
        6 => (name.clone(), any::<bool>()).prop_map(|(name, open)| Step::Write(name, open)),
        2 => (0..5_u8).prop_map(Step::Replace),
        2 => name.clone().prop_map(Step::Close),
        1 => name.clone().prop_map(Step::Chmod),
        3 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Link(from, to)),
        2 => name.prop_map(Step::Remove),
        6 => (0..3000_u16).prop_map(Step::Pass),
        1 => Just(Step::Overflow),
        1 => Just(Step::Restart),
        1 => Just(Step::Scan),
        2 => Just(Step::Store),
        4 => Just(Step::Accept),
        1 => Just(Step::Refuse),
        3 => any::<bool>().prop_map(Step::End),
    ]
}

fn name(number: u8) -> String {
    // The last one is matched by no entry.
    if number == 5 {
        ".hidden".to_owned()
    } else {
        format!("f{number}")
    }
}

fn triggers() -> impl Strategy<Value = FileTrigger> {
    (any::<bool>(), any::<bool>(), prop_oneof![Just(1), Just(3)]).prop_map(|(deletions, acts, batch)| {
        let mut on = vec![FileChange::Created, FileChange::Modified];
        on.extend(deletions.then_some(FileChange::Deleted));
        let then = if acts { FileAction::Delete } else { FileAction::Keep };
        FileTrigger {
            on,
            then,
            batch,
            ..entry("/in")
        }
    })
}

fn run(trigger: FileTrigger, look_takes: Duration, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new(vec![trigger]);
    world.look_takes = look_takes;
    world.is_quick = false;
    world.begin();
    let mut acted = 0;
    for step in steps {
        match *step {
            // No event says that a file was written under a name that no entry takes.
            Step::Write(5, _) if world.disk.has_links(&name(5)) => {}
            Step::Write(file, open) => world.disk.write(&name(file), open),
            Step::Replace(file) => world.disk.replace(&name(file)),
            Step::Close(file) => world.disk.close(&name(file)),
            Step::Chmod(file) => world.disk.chmod(&name(file)),
            Step::Rename(from, to) => world.disk.rename(&name(from), &name(to)),
            Step::Link(from, to) => world.disk.link(&name(from), &name(to)),
            Step::Remove(file) => world.disk.remove(&name(file)),
            Step::Pass(time) => world.pass(Duration::from_millis(time.into())),
            Step::Overflow => world.overflow(),
            Step::Restart => world.restart(),
            Step::Scan => world.scan(),
            Step::Store => world.store(),
            Step::Accept => world.accept(),
            Step::Refuse => world.refuse(),
            Step::End(success) => world.end(success),
        }
        world.turn();
        prop_assert!(world.running.len() + world.offers.len() <= 40);
        acted = check_acts(&world, acted)?;
    }
    finish(&mut world);
    // fnd remembers all of it.
    world.restart();
    finish(&mut world);
    check(&world)
}

/// Nothing was done to a content that had no invocation.
fn check_acts(world: &World, before: usize) -> Result<usize, TestCaseError> {
    for stamp in &world.gone_by_acts[before..] {
        let run = world
            .runs
            .iter()
            .any(|(kind, _, content)| *kind != 2 && content == stamp);
        prop_assert!(run, "{stamp:?} was deleted without a run");
    }
    Ok(world.gone_by_acts.len())
}

/// Everything rests, and fnd accepts everything.
fn finish(world: &mut World) {
    for file in 0..6 {
        world.disk.close(&name(file));
    }
    for _ in 0..60 {
        world.pass(Duration::from_millis(200));
        while !(world.offers.is_empty() && world.stored.is_empty()) {
            world.accept();
        }
        while !world.running.is_empty() {
            world.end(false);
        }
    }
    world.pass(Duration::from_secs(3));
}

fn check(world: &World) -> Result<(), TestCaseError> {
    let mut contents = BTreeSet::new();
    for (kind, path, stamp) in &world.runs {
        prop_assert!(
            *kind == 2 || contents.insert(*stamp),
            "{path} {stamp:?} ran twice: {:?}",
            world.runs
        );
        prop_assert!(*kind == 2 || path != ".hidden");
    }
    let mut inodes = BTreeSet::new();
    for (name, inode) in &world.disk.names {
        let facts = world.disk.inodes[inode].facts;
        let stamp = (facts.inode, facts.size, facts.modified_ns);
        if name != ".hidden" {
            prop_assert!(
                contents.contains(&stamp),
                "{name} {stamp:?} never ran: {:?}",
                world.runs
            );
        }
        inodes.insert(*inode);
    }
    // fnd knows what is there, and nothing that is gone.
    for (_, inode) in world.known.keys() {
        prop_assert!(inodes.contains(inode), "inode {inode} is gone, and known");
    }
    prop_assert!(world.machine.deadline().is_none(), "it is woken without a change");
    Ok(())
}

proptest! {
    #[test]
    fn each_content_that_rests_runs_once(
        trigger in triggers(),
        look_takes in prop_oneof![3 => Just(0), 1 => Just(20), 1 => Just(70)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        run(trigger, Duration::from_millis(look_takes), &steps)?;
    }
}
