use super::*;
use crate::ledger::{self, LedgerCommand, LedgerThread, OpenedLedger, Retention, Site};
use fnd_manifest::settings::OnDamage;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeSet;

fn open(directory: &Path, run: &Path, disk: &mut SimulatedDisk) -> (OpenedLedger, LedgerThread) {
    let site = Site {
        state: directory,
        run,
        on_damage: OnDamage::Refuse,
    };
    let (opened, writing, _) = ledger::prepare(site, Retention::default(), &[], disk.rule(), |_| {}).unwrap();
    disk.opened();
    (opened, writing)
}

/// Writes the versions of a function in a round of its own; `is_waited_for`: so that they are synced.
fn write(number: u8, is_waited_for: bool, (opened, writing): &mut (OpenedLedger, LedgerThread)) {
    let command = LedgerCommand::StoreVersions {
        function: name(number),
        installed: vec![Version([number; 32])],
    };
    let command = match is_waited_for {
        true => LedgerCommand::Change {
            number: 1,
            parts: vec![command],
        },
        false => command,
    };
    opened.writer.submit(command).unwrap();
    writing.turn(1);
}

fn name(number: u8) -> FunctionName {
    FunctionName::new(&format!("f{number:03}")).unwrap()
}

fn found(opened: &OpenedLedger) -> BTreeSet<FunctionName> {
    opened.versions.keys().cloned().collect()
}

#[test]
fn a_power_cut_takes_the_end_of_what_was_not_synced_and_a_kill_nothing() {
    let mut left = BTreeSet::new();
    for seed in 0..60 {
        let mut random = Rng::with_seed(seed);
        let (state, run) = (tempfile::tempdir_in("/dev/shm").unwrap(), tempfile::tempdir().unwrap());
        let mut disk = SimulatedDisk::new(state.path());
        let mut ledger = open(state.path(), run.path(), &mut disk);
        // Enough for a log that was copied and began anew in some seeds.
        let synced = random.u8(1..100);
        (0..synced).for_each(|number| write(number, true, &mut ledger));
        let round = disk.after_round(true);
        assert!(round.commit.is_some_and(|commit| commit.is_synced && !commit.is_denied));
        (synced..synced + 5).for_each(|number| write(number, false, &mut ledger));
        assert!(disk.after_round(true).commit.is_some_and(|commit| commit.is_done));
        drop(ledger);
        let ledger = open(state.path(), run.path(), &mut SimulatedDisk::new(state.path()));
        assert_eq!(
            found(&ledger.0).len(),
            usize::from(synced) + 5,
            "seed {seed}: after a kill"
        );
        drop(ledger);
        disk.power_cut(&mut random);
        let ledger = open(
            state.path(),
            tempfile::tempdir().unwrap().path(),
            &mut SimulatedDisk::new(state.path()),
        );
        let all = found(&ledger.0);
        let kept = u8::try_from(all.len()).unwrap();
        assert!(
            kept >= synced && all == (0..kept).map(name).collect(),
            "seed {seed}: {synced} of {all:?}"
        );
        left.insert(kept - synced);
    }
    assert!(left.contains(&0) && left.len() > 3, "{left:?}");
}

#[test]
fn each_verdict_is_what_it_says() {
    let verdicts = [
        (CommitVerdict::Done, true, false, None),
        (CommitVerdict::Refused, false, true, None),
        (CommitVerdict::Unknown, true, true, None),
        (CommitVerdict::DoneThenDead, true, false, Some(Death::Killed)),
        (CommitVerdict::Lost, false, false, Some(Death::PowerCut)),
    ];
    for (verdict, is_done, is_denied, death) in verdicts {
        let state = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut disk = SimulatedDisk::new(state.path());
        let mut ledger = open(state.path(), state.path(), &mut disk);
        disk.decide(verdict);
        write(1, true, &mut ledger);
        let round = disk.after_round(false);
        let commit = Commit {
            is_done,
            is_denied,
            is_synced: is_done,
            is_complete: false,
        };
        assert_eq!((round.commit, round.death), (Some(commit), death), "{verdict:?}");
        assert_eq!(fuse::has_burnt(), death.is_some());
        fuse::set(None);
        assert_eq!(
            ledger.0.writer.health().failing.is_none(),
            matches!(verdict, CommitVerdict::Done | CommitVerdict::DoneThenDead)
        );
        drop(ledger);
        let ledger = open(state.path(), state.path(), &mut SimulatedDisk::new(state.path()));
        assert_eq!(!found(&ledger.0).is_empty(), is_done, "{verdict:?}");
    }
}
