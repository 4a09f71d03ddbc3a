use super::*;
use fnd_manifest::function::forms::Claims;
use notify::event::{CreateKind, Flag, ModifyKind, RemoveKind, RenameMode};
use notify::{Event, EventKind};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Far more than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// A catalog on a directory of its own, and its messages.
struct World {
    dir: tempfile::TempDir,
    catalog: Catalog,
    events: UnboundedReceiver<CatalogEvent>,
    gate: Arc<Gate>,
}

/// Holds up the watcher's events.
#[derive(Default)]
struct Gate {
    state: Mutex<Pass>,
    changed: Condvar,
}

/// The events that may pass.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Pass {
    #[default]
    All,
    /// All up to the first write to a `.sh` file.
    UntilWrite,
    Nothing,
}

impl Gate {
    fn set(&self, pass: Pass) {
        *self.state.lock().unwrap() = pass;
        self.changed.notify_all();
    }

    fn pass(&self, event: &notify::Result<Event>) {
        let write = |event: &Event| {
            let script = event
                .paths
                .iter()
                .any(|path| path.extension().is_some_and(|end| end == "sh"));
            script && matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)))
        };
        let is_write = event.as_ref().is_ok_and(write);
        let stays = |state: &mut Pass| *state == Pass::Nothing || (*state == Pass::UntilWrite && is_write);
        drop(self.changed.wait_while(self.state.lock().unwrap(), stays).unwrap());
    }
}

impl World {
    /// Starts one whose functions directory is made by `prepare`.
    fn new(prepare: impl FnOnce(&std::path::Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("f")).unwrap();
        prepare(&dir.path().join("f"));
        let claims = Claims::of(&[".sh".to_owned()]);
        let rules = WalkRules {
            claims,
            default_runtime: false,
            uploads: std::path::PathBuf::new(),
        };
        let (sender, events) = unbounded_channel();
        let gate = Arc::new(Gate::default());
        let held = Arc::clone(&gate);
        let make = |mut hints: Box<dyn FnMut(notify::Result<Event>) + Send>| {
            watcher(move |event| {
                held.pass(&event);
                hints(event);
            })
        };
        let places = CatalogPaths {
            directories: vec![dir.path().join("f")],
            held: dir.path().join("directories"),
            remembered: Vec::new(),
            marks: dir.path().join("marks"),
        };
        fs::create_dir(&places.marks).unwrap();
        let catalog =
            Catalog::with_watcher(places, rules, Box::new(move |event| drop(sender.send(event))), make).unwrap();
        Self {
            dir,
            catalog,
            events,
            gate,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("f").join(name)
    }

    /// Returns the next event `pick` wants.
    fn wait<T>(&mut self, what: &str, mut pick: impl FnMut(CatalogEvent) -> Option<T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let found = async {
                loop {
                    let event = self.events.recv().await.expect("the catalog's thread runs");
                    if let Some(found) = pick(event) {
                        return found;
                    }
                }
            };
            let found = tokio::time::timeout(DEADLINE, found).await;
            found.unwrap_or_else(|_| panic!("waited {DEADLINE:?} for {what}"))
        })
    }

    fn scanned(&mut self, number: u64) {
        self.catalog.rescan(number, Rescan::default());
        self.wait("the scan's end", |event| {
            matches!(event, CatalogEvent::Scanned(n) if n == number).then_some(())
        });
    }

    /// Returns a function when it is handed on.
    fn candidate(&mut self, name: &str) -> SourceFiles {
        self.wait(name, |event| match event {
            CatalogEvent::Changed(candidates) => candidates.into_iter().find(|one| one.function.as_str() == name),
            _ => None,
        })
    }

    /// Returns the answer to a question.
    fn confirmed(&mut self, number: u32) -> bool {
        self.wait("an answer", |event| match event {
            CatalogEvent::Confirmed(n, same) if n == number => Some(same),
            _ => None,
        })
    }

    /// Returns whether a function was handed on before an answer whether its file was reported, and the answer.
    fn reported(&mut self, number: u32) -> (bool, bool) {
        let mut handed_on = false;
        self.wait("an answer", |event| {
            handed_on |= matches!(event, CatalogEvent::Changed(_));
            match event {
                CatalogEvent::Reported(n, reported) if n == number => Some((handed_on, reported)),
                _ => None,
            }
        })
    }

    /// Waits until every one of these functions was handed on.
    fn changed(&mut self, names: &[&str]) {
        let mut missing: BTreeSet<&str> = names.iter().copied().collect();
        self.wait(&format!("{names:?}"), |event| {
            if let CatalogEvent::Changed(candidates) = event {
                for candidate in candidates {
                    missing.remove(candidate.function.as_str());
                }
            }
            missing.is_empty().then_some(())
        });
    }
}

fn write(path: &std::path::Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// How many events the kernel keeps for one reader.
fn queue_length() -> usize {
    let text = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    text.trim().parse().unwrap()
}

#[test]
fn a_changed_file_is_handed_on() {
    let mut world = World::new(|_| {});
    world.scanned(1);
    write(&world.path("a.sh"), "echo");
    world.changed(&["a"]);
    write(&world.path("group/b.sh"), "echo");
    world.changed(&["group/b"]);
    write(&world.path("group/b.sh"), "echo again");
    world.changed(&["group/b"]);
}

/// Renamed into place by one program, and then written to by another one, whose events come late.
#[test]
fn an_answer_waits_for_the_events_before_it() {
    let mut world = World::new(|_| {});
    world.scanned(1);
    world.gate.set(Pass::Nothing);
    fs::write(world.dir.path().join("whole"), "echo whole").unwrap();
    fs::rename(world.dir.path().join("whole"), world.path("a.sh")).unwrap();
    let mut writer = File::create(world.path("a.sh")).unwrap();
    writer.write_all(b"echo ha").unwrap();
    world.gate.set(Pass::UntilWrite);
    let candidate = world.candidate("a");
    world.catalog.confirm(7, candidate);
    world.gate.set(Pass::All);
    assert!(!world.confirmed(7), "the half file is not taken");
    writer.write_all(b"lf").unwrap();
    drop(writer);
    let candidate = world.candidate("a");
    world.catalog.confirm(8, candidate);
    assert!(world.confirmed(8));
}

#[test]
fn each_of_many_questions_has_an_answer() {
    let mut world = World::new(|_| {});
    write(&world.path("a.sh"), "echo");
    world.scanned(1);
    write(&world.path("a.sh"), "echo again");
    let candidate = world.candidate("a");
    for round in 0..10 {
        let numbers = round * 10..round * 10 + 10;
        for number in numbers.clone() {
            world.catalog.confirm(number, candidate.clone());
        }
        for number in numbers {
            assert!(world.confirmed(number), "{number}");
        }
    }
}

/// A start must not take its function for one that was deleted.
#[test]
fn a_file_that_is_written_without_end_counts_as_unread_when_a_scan_is_over_without_it() {
    let mut world = World::new(|_| {});
    let mut file = File::create(world.path("a.sh")).unwrap();
    let (stop, stopped) = channel::<()>();
    let writer = std::thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
            file.write_all(b"echo\n").unwrap();
        }
    });
    world.catalog.rescan(1, Rescan::default());
    let unread = world.wait("the end of the scan", |event| match event {
        CatalogEvent::Findings(found) => Some(found.unread.len()),
        CatalogEvent::Scanned(_) => Some(0),
        _ => None,
    });
    assert_eq!(unread, 1, "it is told before the scan is over");
    drop(stop);
    writer.join().unwrap();
    world.wait("the end of the problem", |event| {
        matches!(event, CatalogEvent::Findings(found) if found.unread.is_empty()).then_some(())
    });
    world.candidate("a");
}

/// The events of the file come late.
#[test]
fn a_file_is_handed_on_before_it_counts_as_reported() {
    let mut world = World::new(|_| {});
    world.scanned(1);
    let ask = |world: &World, number| world.catalog.reported(number, FunctionName::new("a").unwrap());
    ask(&world, 1);
    assert_eq!(world.reported(1), (false, true), "there is none");
    world.gate.set(Pass::Nothing);
    write(&world.path("a.sh"), "echo");
    ask(&world, 2);
    world.gate.set(Pass::All);
    assert_eq!(world.reported(2), (true, true));
    let mut writer = File::create(world.path("a.sh")).unwrap();
    writer.write_all(b"echo half").unwrap();
    ask(&world, 3);
    assert_eq!(world.reported(3), (false, false), "it is being written");
    drop(writer);
    assert_eq!(world.reported(3), (true, true));
}

/// A real overflow: the queue of the kernel is filled while nothing is read from it. The events of a new directory are
/// lost too, so the catalog finds its files by reading it, and later changes only if it watches the directory then.
#[test]
fn a_full_queue_loses_nothing() {
    let mut world = World::new(|_| {});
    world.scanned(1);
    world.gate.set(Pass::Nothing);
    // Two names by turns, since equal events in a row count once.
    let (one, other) = (world.path("one.tmp"), world.path("other.tmp"));
    fs::write(&one, "").unwrap();
    for _ in 0..=queue_length() / 2 {
        fs::rename(&one, &other).unwrap();
        fs::rename(&other, &one).unwrap();
    }
    write(&world.path("late/a.sh"), "echo");
    write(&world.path("b.sh"), "echo");
    world.gate.set(Pass::All);
    world.changed(&["late/a", "b"]);
    // By now the queue was read to its end, so this is an event if the group is watched.
    write(&world.path("late/a.sh"), "echo again");
    world.changed(&["late/a"]);
}

/// A mount is no event of a directory.
#[test]
fn what_is_mounted_over_a_directory_is_seen_at_once() {
    if !rustix::process::geteuid().is_root() {
        return; // the same is shown end to end, which says what it skips
    }
    let mut world = World::new(|dir| write(&dir.join("a.sh"), "echo"));
    world.scanned(1);
    let mount = Mount::over(&world.path(""));
    write(&world.path("b.sh"), "echo");
    world.changed(&["b"]);
    drop(mount);
    world.wait("`b` to be gone", |event| {
        matches!(event, CatalogEvent::Removed(_)).then_some(())
    });
}

struct Mount(PathBuf);

impl Mount {
    /// Mounts a small file system of its own.
    fn over(path: &std::path::Path) -> Self {
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m,mode=0755", "fnd-test"])
            .arg(path)
            .status();
        assert!(mount.unwrap().success());
        Self(path.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Removed and made again between two looks: the new directory may even have the inode of the old one.
#[test]
fn a_directory_that_is_made_again_is_watched_again() {
    let mut world = World::new(|dir| write(&dir.join("a.sh"), "echo"));
    world.scanned(1);
    for round in 0..5 {
        fs::remove_dir_all(world.path("")).unwrap();
        write(&world.path("a.sh"), "echo");
        world.changed(&["a"]);
        write(&world.path("a.sh"), &format!("echo {round}"));
        world.changed(&["a"]);
    }
}

#[test]
fn the_end_of_the_handle_is_the_end_of_the_thread() {
    let World {
        catalog, mut events, ..
    } = World::new(|_| {});
    drop(catalog);
    assert!(events.blocking_recv().is_none());
}

#[test]
fn events_say_what_to_scan() {
    let directories = [PathBuf::from("/etc/fnd/functions")];
    let check = |event: Event, expected: Option<Hint>| {
        assert_eq!(hint(Ok(event.clone()), &directories), expected, "{event:?}");
    };
    let event = |kind, path: &str| Event::new(kind).add_path(path.into());
    let close = EventKind::Access(notify::event::AccessKind::Close(notify::event::AccessMode::Write));
    let open = EventKind::Access(notify::event::AccessKind::Open(notify::event::AccessMode::Any));
    let write = EventKind::Modify(ModifyKind::Data(notify::event::DataChange::Any));
    let moved = |mode| EventKind::Modify(ModifyKind::Name(mode));
    let removed = EventKind::Remove(RemoveKind::Folder);
    let inside = "/etc/fnd/functions/a.sh";
    let paths = || vec![PathBuf::from(inside)];
    let complete = || Hint {
        complete: paths(),
        ..Hint::default()
    };
    let gone = || Hint {
        removed: paths(),
        ..Hint::default()
    };
    let rewatch = || Hint {
        rewatch: true,
        ..Hint::default()
    };
    check(event(close, inside), Some(complete()));
    check(event(moved(RenameMode::To), inside), Some(complete()));
    let both = event(moved(RenameMode::Both), "/etc/fnd/functions/.a.tmp").add_path(inside.into());
    check(both, Some(complete()));
    check(event(moved(RenameMode::From), inside), Some(gone()));
    check(event(removed, inside), Some(gone()));
    let written = Hint {
        written: paths(),
        ..Hint::default()
    };
    check(event(write, inside), Some(written));
    check(
        event(EventKind::Create(CreateKind::File), inside),
        Some(Hint::default()),
    );
    check(event(open, inside), None);
    check(event(close, "/etc/fnd/fnd.toml"), None);
    check(event(removed, "/etc/fnd/functions"), Some(rewatch()));
    check(event(moved(RenameMode::To), "/etc/fnd/functions"), Some(rewatch()));
    check(Event::new(EventKind::Other).set_flag(Flag::Rescan), Some(rewatch()));
    assert!(hint(Err(notify::Error::generic("")), &directories).unwrap().rewatch);
    let denied = notify::Error::io(std::io::ErrorKind::PermissionDenied.into());
    assert_eq!(hint(Err(denied), &directories), Some(Hint::default()));
}
