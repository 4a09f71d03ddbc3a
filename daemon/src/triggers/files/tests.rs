//! Watchers: one process at a time, the right one, again after a pause; what follows from what they say, and what they may not
//! say.

use super::messages::{forgotten, offered, seen};
use super::*;
use fnd_core::records::outcome::Trigger;
use fnd_core::records::{FileMark, SeenFile};
use fnd_core::run::{Overlap, Submit};
use fnd_core::triggers::file::message::{
    AcceptedFile, FileRunEnded, FromWatcher, PROTOCOL, RunContent, SeenChange, Trouble, WatcherReady,
};
use fnd_manifest::schema::pick::FromValue as _;
use tokio::sync::mpsc::{Receiver, channel};

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

fn changed() -> WatcherEffect {
    WatcherEffect::StatusChanged(name())
}

/// What begins a watcher.
fn start() -> [WatcherEffect; 2] {
    [WatcherEffect::Start(name()), changed()]
}

/// Asks the spawner for a process; its temporary files have the number of the worker.
#[track_caller]
fn asked(watchers: &mut Watchers, worker: u64) -> Process {
    let ids = || (WorkerId(worker), InvocationId(u128::from(worker)));
    watchers.start(&name(), ids).unwrap()
}

/// What follows from the end of a process, before what is done next.
fn release(worker: u64) -> [WatcherEffect; 2] {
    let tmp = (FunctionId(1), InvocationId(u128::from(worker)));
    [
        WatcherEffect::ReleaseTmp(tmp),
        WatcherEffect::Acknowledge(WorkerId(worker)),
    ]
}

fn exited(worker: u64, status: ExitStatus) -> Exited {
    Exited {
        worker: WorkerId(worker),
        late: None,
        status,
        cpu_us: 0,
        memory_peak: None,
        peak_of_largest: false,
        oom_kills: 0,
        oom_shared: false,
        pids_refused: 0,
        throttled_us: 0,
        stragglers: false,
    }
}

/// A watcher that runs, as worker 7; its channel has room for one message.
fn running() -> (Watchers, Receiver<ToWatcher>, tempfile::TempDir) {
    let (mut watchers, directory) = watchers();
    watchers.needs(&name(), wanted(1));
    asked(&mut watchers, 7);
    let (to, messages) = channel(1);
    assert_eq!(watchers.runs(&name(), to), [changed()]);
    (watchers, messages, directory)
}

fn say(watchers: &mut Watchers, message: FromWatcher) -> Vec<WatcherEffect> {
    watchers.said(WorkerId(7), Ok(message), str::to_uppercase)
}

fn file(directory: u16, path: &[u8]) -> SeenFile {
    SeenFile {
        directory,
        path: Bytes(path.to_vec()),
        inode: 1,
        device: 1,
        size: 0,
        modified_ns: 0,
        changed_ns: 0,
        hash: None,
    }
}

fn change(kind: u8, directory: u16, path: &[u8]) -> SeenChange {
    SeenChange {
        kind,
        file: file(directory, path),
    }
}

fn ready(entry: u16, changes: &[SeenChange]) -> WatcherReady {
    WatcherReady {
        number: 3,
        entry,
        changes: changes.to_vec(),
    }
}

/// Lets the watcher offer a file, and returns the request that has this id.
#[track_caller]
fn offer(watchers: &mut Watchers, id: u128) -> Submit {
    let effects = say(watchers, FromWatcher::Ready(ready(0, &[change(0, 0, b"a")])));
    let Ok([WatcherEffect::Submit(offer)]) = <[_; 1]>::try_from(effects) else {
        panic!("it is an offer");
    };
    let request = Submit::new(InvocationId(id), name(), Trigger::File);
    watchers.submission(*offer, request)
}

#[test]
fn a_new_version_gets_its_watcher_when_the_old_one_is_gone() {
    let (mut watchers, _directory) = watchers();
    assert_eq!(watchers.needs(&name(), None), [], "most functions watch nothing");
    assert_eq!(watchers.needs(&name(), wanted(1)), start());
    let process = asked(&mut watchers, 7);
    assert_eq!(
        (process.needed.version, process.tmp.0),
        (Version([1; 32]), FunctionId(1))
    );
    assert!(watchers.start(&name(), || unreachable!()).is_none(), "it was asked for");
    // Changes while it starts count when it runs.
    assert_eq!(watchers.needs(&name(), wanted(2)), [changed()]);
    let kill = |worker| [WatcherEffect::Kill(WorkerId(worker)), changed()];
    assert_eq!(watchers.runs(&name(), channel(1).0), kill(7));
    assert_eq!(
        say(&mut watchers, FromWatcher::Waiting(1)),
        [],
        "it is not listened to any more"
    );
    let ended = watchers.exited(&exited(7, ExitStatus::Signal(9)), Duration::ZERO);
    assert_eq!(ended, release(7).into_iter().chain(start()).collect::<Vec<_>>());
    assert_eq!(watchers.problem_of(&name()), None, "fnd has ended it");
    assert_eq!(asked(&mut watchers, 8).needed.version, Version([2; 32]));
    assert_eq!(watchers.runs(&name(), channel(1).0), [changed()]);
    assert_eq!(watchers.needs(&name(), wanted(2)), [changed()]);
    // The function goes.
    assert_eq!(watchers.needs(&name(), None), kill(8));
    let end = exited(8, ExitStatus::Signal(9));
    let ended = watchers.exited(&end, Duration::ZERO);
    assert_eq!(ended, release(8).into_iter().chain([changed()]).collect::<Vec<_>>());
    assert_eq!(watchers.exited(&end, Duration::ZERO), [], "the worker is no watcher");
    assert!(watchers.all.is_empty());
}

#[test]
fn a_watcher_that_ends_by_itself_comes_again_after_growing_pauses() {
    let (mut watchers, _directory) = watchers();
    let mut next = watchers.needs(&name(), wanted(1));
    let mut now = Duration::ZERO;
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(next, start());
        asked(&mut watchers, 7);
        watchers.runs(&name(), channel(1).0);
        let ended = watchers.exited(&exited(7, ExitStatus::Code(2)), now);
        assert_eq!(ended, release(7).into_iter().chain([changed()]).collect::<Vec<_>>());
        assert_eq!(
            watchers.problem_of(&name()),
            Some("its watcher of files ended with code 2")
        );
        now += Duration::from_secs(pause);
        assert_eq!(watchers.next_due(), Some(now));
        assert_eq!(watchers.due(now - Duration::from_millis(1)), []);
        next = watchers.due(now);
    }
    // A failure before it runs counts, too.
    asked(&mut watchers, 7);
    let [tmp, _] = release(7);
    assert_eq!(watchers.not_started(&name(), "no pipe", now), [tmp, changed()]);
    // A new version is tried at once.
    assert_eq!(watchers.needs(&name(), wanted(2)), start());
    asked(&mut watchers, 8);
    assert_eq!(watchers.problem_of(&name()), None);
}

#[test]
fn the_first_reason_why_a_watcher_ends_is_shown() {
    let (mut watchers, _messages, _directory) = running();
    say(&mut watchers, FromWatcher::Hello(PROTOCOL + 1));
    watchers.exited(&exited(7, ExitStatus::Signal(9)), Duration::ZERO);
    let problem = watchers.problem_of(&name()).unwrap();
    assert!(problem.contains("another version of fnd"), "{problem}");
    let (mut watchers, _messages, _directory) = running();
    let end = Exited {
        oom_kills: 1,
        ..exited(7, ExitStatus::Signal(9))
    };
    watchers.exited(&end, Duration::ZERO);
    assert!(watchers.problem_of(&name()).unwrap().contains("`limits.memory`"));
    // The first word of the next watcher ends the problem.
    watchers.due(Duration::from_secs(1));
    asked(&mut watchers, 7);
    watchers.runs(&name(), channel(1).0);
    assert_eq!(say(&mut watchers, FromWatcher::Hello(PROTOCOL)), [changed()]);
    assert_eq!(say(&mut watchers, FromWatcher::Hello(PROTOCOL)), []);
    assert_eq!(watchers.problem_of(&name()), None);
}

#[test]
fn what_a_watcher_says_is_remembered_submitted_and_shown() {
    let (mut watchers, _messages, _directory) = running();
    let known = |acts| FileMark::Known {
        directory: "/srv/in".into(),
        file: file(0, b"a"),
        acts,
    };
    let store = |memory| [WatcherEffect::Store(memory)];
    let marks = FileMemory::Marks(name(), vec![known(false)]);
    assert_eq!(say(&mut watchers, FromWatcher::Seen(vec![file(0, b"a")])), store(marks));
    let gone = FileMark::Gone {
        directory: "/srv/in".into(),
        inode: 5,
    };
    let marks = FileMemory::Marks(name(), vec![gone]);
    assert_eq!(say(&mut watchers, FromWatcher::Gone(vec![(0, 5)])), store(marks));
    let settled = FileMemory::Settled(name(), InvocationId(4));
    assert_eq!(
        say(&mut watchers, FromWatcher::Settled(InvocationId(4))),
        store(settled)
    );
    let submit = offer(&mut watchers, 1);
    assert_eq!(
        (submit.files, submit.overlap),
        (vec![known(false)], Some(Overlap::Queue))
    );
    let data = submit.payload.data.unwrap().bytes().unwrap().into_owned();
    assert!(String::from_utf8_lossy(&data).contains("/srv/in/a"), "{data:?}");
    assert_eq!(say(&mut watchers, FromWatcher::Waiting(2)), []);
    assert_eq!(watchers.waiting().collect::<Vec<_>>(), [(&name(), 2)]);
    let trouble = |problem: Option<&str>| {
        FromWatcher::Trouble(Trouble {
            entry: 0,
            problem: problem.map(str::to_owned),
        })
    };
    let long = "ä".repeat(1000);
    for (problem, shown) in [
        (Some("gone"), Some("GONE")),
        (Some(&*long), Some(&*"Ä".repeat(512))),
        (None, None),
    ] {
        assert_eq!(say(&mut watchers, trouble(problem)), [changed()]);
        assert_eq!(watchers.problem_of(&name()), shown);
        assert_eq!(say(&mut watchers, trouble(problem)), [], "it is no news");
    }
}

#[test]
fn processes_are_retired_before_a_watcher_hears_that_the_places_are_shown() {
    let (mut watchers, _messages, _directory) = running();
    for (places, is_new) in [(9, true), (9, false), (8, true)] {
        let retire = is_new.then(|| WatcherEffect::Retire(name(), FunctionId(1)));
        let tell = WatcherEffect::Tell(name(), ToWatcher::Shown(places));
        let expected: Vec<_> = retire.into_iter().chain([tell]).collect();
        assert_eq!(say(&mut watchers, FromWatcher::Places(places)), expected);
    }
}

#[test]
fn a_watcher_that_says_what_it_must_not_is_killed() {
    let trouble = Trouble {
        entry: 1,
        problem: None,
    };
    for (said, why) in [
        (Err("torn".to_owned()), "something that cannot be read"),
        (Ok(FromWatcher::Hello(PROTOCOL + 1)), "another version of fnd"),
        (
            Ok(FromWatcher::Ready(ready(1, &[change(0, 0, b"a")]))),
            "an offer for an entry",
        ),
        (
            Ok(FromWatcher::Seen(vec![file(1, b"a")])),
            "a directory that is not watched",
        ),
        (Ok(FromWatcher::Gone(vec![(1, 1)])), "a directory that is not watched"),
        (Ok(FromWatcher::Trouble(trouble)), "a problem of an entry"),
    ] {
        let (mut watchers, _messages, _directory) = running();
        assert_eq!(
            watchers.said(WorkerId(8), said.clone(), str::to_owned),
            [],
            "another worker"
        );
        let effects = watchers.said(WorkerId(7), said, str::to_owned);
        assert_eq!(effects, [WatcherEffect::Kill(WorkerId(7)), changed()]);
        let problem = watchers.problem_of(&name()).unwrap();
        let expected = format!("its watcher of files said {why}");
        assert!(
            problem.starts_with(&expected) && problem.ends_with(", and was ended"),
            "{problem}"
        );
    }
}

#[test]
fn an_answer_of_the_ledger_reaches_only_the_watcher_that_asked() {
    let (mut watchers, mut messages, _directory) = running();
    for id in [1, 2, 3] {
        offer(&mut watchers, id);
    }
    let id = InvocationId(1);
    assert_eq!(watchers.stored(id, true), []);
    let accepted = ToWatcher::Accepted(AcceptedFile { number: 3, id });
    assert_eq!(messages.try_recv(), Ok(accepted));
    assert_eq!(watchers.stored(id, true), []);
    assert!(messages.try_recv().is_err(), "once");
    assert_eq!(watchers.stored(InvocationId(2), false), []);
    assert_eq!(messages.try_recv(), Ok(ToWatcher::Refused(3)));
    watchers.needs(&name(), wanted(2));
    watchers.exited(&exited(7, ExitStatus::Signal(9)), Duration::ZERO);
    asked(&mut watchers, 8);
    let (to, mut messages) = channel(1);
    watchers.runs(&name(), to);
    assert_eq!(watchers.stored(InvocationId(3), true), []);
    assert!(messages.try_recv().is_err(), "another watcher offers it again");
}

#[test]
fn a_watcher_that_does_not_read_is_killed_and_one_that_has_ended_misses_nothing() {
    let (mut watchers, mut messages, _directory) = running();
    let content = RunContent {
        directory: 0,
        inode: 1,
        size: 2,
        modified_ns: 3,
    };
    let contents = ["/srv/other", "/srv/in"].map(|directory| (directory.into(), content.clone()));
    let run = (InvocationId(1), true);
    assert_eq!(watchers.run_ended(&name(), run, contents.to_vec()), []);
    assert_eq!(
        watchers.run_ended(&name(), run, Vec::new()),
        [WatcherEffect::Kill(WorkerId(7)), changed()]
    );
    assert!(watchers.problem_of(&name()).unwrap().contains("does not read"));
    let ended = FileRunEnded {
        id: run.0,
        success: true,
        contents: vec![content],
    };
    assert_eq!(
        messages.try_recv(),
        Ok(ToWatcher::Ended(ended)),
        "without a directory that no entry names"
    );
    drop(messages);
    assert_eq!(
        watchers.tell(&name(), ToWatcher::Shown(1)),
        [],
        "its exit is not handled yet"
    );
    watchers.exited(&exited(7, ExitStatus::Signal(9)), Duration::ZERO);
    assert_eq!(
        watchers.run_ended(&name(), run, Vec::new()),
        [],
        "the next one reads the ledger"
    );
}

#[test]
fn what_a_watcher_must_not_say_is_refused() {
    let entries = [entry("/srv/in/", 1), entry("/srv/in", 2), entry("/", 1)];
    assert_eq!(directories(&entries), ["/srv/in".into(), "/srv/in".into(), "/".into()]);
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
