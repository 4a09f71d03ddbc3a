//! Watchers: one process at a time, the right one, again after a pause; and what they may not say.

use super::*;
use fnd_core::records::{FileMark, SeenFile};
use fnd_core::triggers::file::message::{SeenChange, WatcherReady};
use fnd_manifest::schema::pick::FromValue as _;
use fnd_wire::form::Bytes;
use tokio::sync::mpsc::channel;

fn name() -> FunctionName {
    FunctionName::new("f").unwrap()
}

fn entry(path: &str, batch: u32) -> FileTrigger {
    FileTrigger {
        path: path.to_owned(),
        batch,
        ..FileTrigger::from_value(None).unwrap()
    }
}

fn wanted(version: u8) -> Option<NeededWatcher> {
    Some(NeededWatcher {
        id: FunctionId(1),
        version: Version([version; 32]),
        entries: [entry("/srv/in", 1)].into(),
    })
}

fn process(worker: u64, version: u8) -> Process {
    let wanted = wanted(version).unwrap();
    Process {
        worker: WorkerId(worker),
        tmp: (wanted.id, InvocationId(u128::from(worker))),
        version: wanted.version,
        entries: wanted.entries,
    }
}

/// The watchers, without a ledger behind them.
fn watchers() -> (Watchers, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let site = crate::ledger::Site {
        state: directory.path(),
        run: directory.path(),
        on_damage: fnd_manifest::settings::OnDamage::SetAside,
    };
    let retention = crate::ledger::Retention::default();
    let opened = crate::ledger::open(site, retention, &[], |_| {}).unwrap();
    (Watchers::new(opened.reader), directory)
}

#[track_caller]
fn started(watchers: &mut Watchers, next: &WatcherStep, (worker, version): (u64, u8)) {
    assert!(matches!(next, WatcherStep::Start), "{next:?}");
    assert_eq!(watchers.to_start(&name()).unwrap().version, Version([version; 32]));
    watchers.starting(&name(), process(worker, version));
}

#[test]
fn a_new_version_gets_its_watcher_when_the_old_one_is_gone() {
    let (mut watchers, _directory) = watchers();
    let next = watchers.needs(&name(), wanted(1));
    started(&mut watchers, &next, (7, 1));
    // Changes while it starts count when it runs.
    assert!(matches!(watchers.needs(&name(), wanted(2)), WatcherStep::Nothing));
    let next = watchers.runs(&name(), channel(1).0);
    assert!(matches!(next, WatcherStep::Kill(WorkerId(7))), "{next:?}");
    assert!(watchers.running(&name()).is_none(), "it is not listened to any more");
    assert_eq!(watchers.function_of(WorkerId(7)), Some(&name()));
    let (old, next) = watchers.ended(&name(), || unreachable!(), Duration::ZERO);
    assert_eq!(old.unwrap().worker, WorkerId(7));
    started(&mut watchers, &next, (8, 2));
    assert!(matches!(watchers.runs(&name(), channel(1).0), WatcherStep::Nothing));
    assert!(matches!(watchers.needs(&name(), wanted(2)), WatcherStep::Nothing));
    // The function goes.
    assert!(matches!(watchers.needs(&name(), None), WatcherStep::Kill(WorkerId(8))));
    let (_, next) = watchers.ended(&name(), || unreachable!(), Duration::ZERO);
    assert!(matches!(next, WatcherStep::Nothing));
    assert_eq!(watchers.function_of(WorkerId(8)), None);
    assert!(watchers.all.is_empty());
}

#[test]
fn a_watcher_that_ends_by_itself_comes_again_after_growing_pauses() {
    let (mut watchers, _directory) = watchers();
    let mut next = watchers.needs(&name(), wanted(1));
    let mut now = Duration::ZERO;
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        started(&mut watchers, &next, (7, 1));
        watchers.runs(&name(), channel(1).0);
        let (_, after) = watchers.ended(&name(), || "it broke".to_owned(), now);
        assert!(matches!(after, WatcherStep::Nothing));
        assert_eq!(watchers.problem_of(&name()), Some("it broke"));
        now += Duration::from_secs(pause);
        assert_eq!(watchers.next_due(), Some(now));
        assert!(watchers.due(now - Duration::from_millis(1)).is_empty());
        assert_eq!(watchers.due(now), [name()]);
        next = watchers.next(&name());
    }
    // A new version is tried at once.
    started(&mut watchers, &next, (7, 1));
    watchers.ended(&name(), || "it broke".to_owned(), now);
    let next = watchers.needs(&name(), wanted(2));
    started(&mut watchers, &next, (8, 2));
    assert_eq!(watchers.problem_of(&name()), None);
}

#[test]
fn an_answer_of_the_ledger_reaches_only_the_watcher_that_asked() {
    let (mut watchers, _directory) = watchers();
    let next = watchers.needs(&name(), wanted(1));
    started(&mut watchers, &next, (7, 1));
    watchers.runs(&name(), channel(1).0);
    for id in [1, 2] {
        watchers.storing(InvocationId(id), &name(), (WorkerId(7), 3));
    }
    assert_eq!(watchers.stored(InvocationId(1)), Some((name(), 3)));
    assert_eq!(watchers.stored(InvocationId(1)), None, "once");
    watchers.needs(&name(), wanted(2));
    let (_, next) = watchers.ended(&name(), || unreachable!(), Duration::ZERO);
    started(&mut watchers, &next, (8, 2));
    watchers.runs(&name(), channel(1).0);
    assert_eq!(
        watchers.stored(InvocationId(2)),
        None,
        "another watcher offers it again"
    );
}

#[test]
fn what_a_watcher_must_not_say_is_refused() {
    let entries = [entry("/srv/in/", 1), entry("/srv/in", 2), entry("/", 1)];
    assert_eq!(directories(&entries), ["/srv/in".into(), "/srv/in".into(), "/".into()]);
    let file = |directory, path: &[u8]| SeenFile {
        directory,
        path: Bytes(path.to_vec()),
        inode: 1,
        device: 1,
        size: 0,
        modified_ns: 0,
        changed_ns: 0,
        hash: None,
    };
    let change = |kind, directory, path| SeenChange {
        kind,
        file: file(directory, path),
    };
    let ready = |entry, changes: &[SeenChange]| WatcherReady {
        number: 1,
        entry,
        changes: changes.to_vec(),
    };
    let good = change(0, 0, b"a");
    let both = [good.clone(), good.clone()];
    assert!(offered(&ready(1, &both), &entries).is_ok());
    assert!(offered(&ready(0, &both), &entries).is_err(), "more than a batch");
    assert!(offered(&ready(1, &[]), &entries).is_err());
    assert!(offered(&ready(3, &both), &entries).is_err());
    for wrong in [
        change(3, 0, b"a"),
        change(0, 3, b"a"),
        change(0, 0, b""),
        change(0, 0, b"/etc/passwd"),
    ] {
        assert!(
            offered(&ready(1, std::slice::from_ref(&wrong)), &entries).is_err(),
            "{wrong:?}"
        );
    }
    assert!(seen(&[file(0, b"a\0")], &entries).is_err());
    assert!(seen(&[file(0, &[b'a'; 4097])], &entries).is_err());
    assert!(forgotten(&[(9, 1)], &entries).is_err());
    let marks = offered(&ready(0, &[change(2, 0, b"a")]), &entries).unwrap().1;
    assert!(matches!(&marks[..], [FileMark::Gone { inode: 1, .. }]));
}
