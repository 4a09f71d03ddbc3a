//! One fnd after another reads a worker's pipes: the record and the kept output are as if one had.

use super::super::capture::{Capture, Snapshot};
use super::super::spool::{Loss, Replayed, Spool, Spools};
use super::*;
use fnd_wire::form::{Bytes, Wire as _};
use proptest::prelude::*;
use std::os::fd::AsFd as _;

const WORKER: WorkerId = WorkerId(7);

/// How an fnd ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Planned: [`Output::stop`].
    Stop,
    /// Killed: the files are those of this moment, the kept output that of a moment before.
    Kill,
}

/// A running worker, and the fnd that reads it.
pub(super) struct World {
    pub(super) state: tempfile::TempDir,
    pub(super) output: Output,
    pub(super) meta: AttemptOutput,
    /// Reading ends, as the spawner holds them.
    reads: [OwnedFd; 2],
    writes: Option<[File; 2]>,
    /// A copy of the kept output made earlier.
    older: tempfile::TempDir,
}

pub(super) fn start(state: &Path) -> Output {
    Output::start(
        state.join("logs"),
        places(state),
        Default::default(),
        Box::new(|_, _| {}),
    )
    .unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).into_iter().flatten().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

impl World {
    pub(super) fn new(meta: AttemptOutput) -> Self {
        let state = tempfile::tempdir().unwrap();
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let ((out, out_write), (err, err_write)) = (pipe(), pipe());
        let world = Self {
            output: start(state.path()),
            state,
            meta,
            reads: [out, err],
            writes: Some([out_write.into(), err_write.into()]),
            older: tempfile::tempdir().unwrap(),
        };
        let [out, err] = world.ends();
        world.output.attach(piped(WORKER, out, err, world.meta.clone()));
        world
    }

    fn ends(&self) -> [OwnedFd; 2] {
        [0, 1].map(|i| self.reads[i].as_fd().try_clone_to_owned().unwrap())
    }

    /// Prints; returns when all of it was read.
    pub(super) fn print(&mut self, stream: Stream, bytes: &[u8]) {
        self.older = tempfile::tempdir().unwrap();
        copy(&self.state.path().join("logs"), &self.older.path().join("logs"));
        let file = &mut self.writes.as_mut().unwrap()[usize::from(stream == Stream::Stderr)];
        file.write_all(bytes).unwrap();
        wait(self.output.settle());
    }

    /// Prints, once, for the last look at the pipe.
    fn print_unread(&mut self, bytes: &[u8]) {
        if let Some([out, _]) = &mut self.writes {
            out.write_all(bytes).unwrap();
        }
    }

    /// Ends this fnd; another is there, which adopts nothing yet.
    pub(super) fn end(&mut self, how: End) {
        if how == End::Kill {
            let state = tempfile::tempdir().unwrap();
            copy(&self.older.path().join("logs"), &state.path().join("logs"));
            copy(&self.state.path().join("spool"), &state.path().join("spool"));
            copy(&self.state.path().join("memory"), &state.path().join("memory"));
            let killed = std::mem::replace(&mut self.state, state);
            self.output.stop();
            drop(killed);
        } else {
            self.output.stop();
        }
        self.output = start(self.state.path());
    }

    pub(super) fn adopt(&self) {
        let [out, err] = self.ends();
        self.output.adopt(vec![piped(WORKER, out, err, self.meta.clone())]);
        self.output.salvage([self.meta.key()].into());
    }

    pub(super) fn finish(&mut self) -> Captured {
        self.writes = None;
        let (done, finished) = channel();
        self.output
            .finish(WORKER, None, move |captured| done.send(captured).unwrap());
        finished.recv_timeout(LIMIT).unwrap()
    }

    pub(super) fn kept(&self) -> Vec<(String, String)> {
        wait(self.output.settle());
        texts(&self.state.path().join("logs"))
    }

    pub(super) fn spools(&self) -> usize {
        self.files("spool").len()
    }

    /// Returns the content of each file in a directory of spools.
    pub(super) fn files(&self, place: &str) -> Vec<Vec<u8>> {
        let entries = std::fs::read_dir(self.state.path().join(place)).unwrap();
        // The output thread may remove a file meanwhile.
        entries
            .filter_map(|entry| std::fs::read(entry.unwrap().path()).ok())
            .collect()
    }
}

type Printed = (Stream, Vec<u8>);

/// Prints pieces, with an end of fnd before some of them. Returns the output that a reader finds then.
fn run(meta: &AttemptOutput, pieces: &[Printed], ends: &[(usize, End)]) -> (Captured, Vec<(String, String)>) {
    let mut world = World::new(meta.clone());
    for (i, (stream, bytes)) in pieces.iter().enumerate() {
        for (_, how) in ends.iter().filter(|(at, _)| *at == i) {
            world.end(*how);
            world.adopt();
        }
        world.print(*stream, bytes);
    }
    let captured = world.finish();
    let kept = world.kept();
    world.output.release(WORKER);
    wait(world.output.settle());
    assert_eq!((world.spools(), world.files("memory").len()), (0, 0));
    (captured, kept)
}

fn check(meta: &AttemptOutput, pieces: &[Printed], at: usize) {
    let undisturbed = run(meta, pieces, &[]);
    for how in [End::Stop, End::Kill] {
        assert!(
            run(meta, pieces, &[(at, how)]) == undisturbed,
            "{how:?} before piece {at}"
        );
    }
    let often = [(at, End::Kill), (at, End::Stop), (pieces.len() - 1, End::Kill)];
    assert!(run(meta, pieces, &often) == undisturbed, "ended three times");
}

fn out(text: &[u8]) -> Printed {
    (Stream::Stdout, text.to_vec())
}

fn err(text: &[u8]) -> Printed {
    (Stream::Stderr, text.to_vec())
}

#[test]
fn many_small_lines_and_one_split_survive() {
    let mut pieces: Vec<_> = (0..60)
        .map(|i| {
            if i % 3 == 0 {
                err(format!("e{i}\n").as_bytes())
            } else {
                out(format!("o{i}\n").as_bytes())
            }
        })
        .collect();
    pieces[29] = err(b"the first half, ");
    pieces[30] = err(b"the second\nnot ended");
    check(&meta(1), &pieces, 30);
}

#[test]
fn binary_survives() {
    let all: Vec<u8> = (0..=255).collect();
    check(&meta(1), &[out(&all), err(b"\xff\n\0"), out(&all), err(b"\xfe")], 2);
}

#[test]
fn more_than_is_kept_survives_with_snapshots() {
    let meta = AttemptOutput {
        output_max: 64 << 10,
        result_max: 1 << 20,
        ..meta(1)
    };
    let line = |i: usize| format!("{i} {}\n", "x".repeat(i * 7 % 300)).repeat(300);
    let pieces: Vec<_> = (0..100)
        .map(|i| out(line(i).as_bytes()))
        .chain([err(b"last\n")])
        .collect();
    let total: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
    let mut world = World::new(meta.clone());
    for (stream, bytes) in &pieces {
        world.print(*stream, bytes);
    }
    let file = world.state.path().join("spool").join(format!("{}.1", meta.invocation));
    let spooled = std::fs::metadata(file).unwrap().len();
    assert!(total > 4_000_000 && spooled < 3_500_000, "{spooled} of {total} bytes");
    check(&meta, &pieces, 70);
    check(&meta, &pieces, 2);
}

#[test]
fn a_cgi_document_survives() {
    let pieces = [
        out(b"Content-Type: text/html\n"),
        err(b"log\n"),
        out(b"\n<p>\0"),
        out(&[b'x'; 3000]),
    ];
    let document = AttemptOutput { cgi: true, ..meta(1) };
    check(&document, &pieces, 1);
    let mut world = World::new(document);
    for (stream, bytes) in &pieces {
        world.print(*stream, bytes);
    }
    world.end(End::Kill);
    world.adopt();
    let captured = world.finish();
    assert_eq!((captured.result.unwrap().data.len(), captured.bad_answer), (3004, None));
    assert_eq!(world.kept(), [pair("stderr", "log")]);
}

#[test]
fn an_attempt_that_printed_nothing_is_adopted_without_a_word() {
    let mut world = World::new(meta(1));
    world.end(End::Kill);
    world.adopt();
    world.print(Stream::Stdout, b"first words\n");
    assert_eq!(world.finish().stdout_bytes, 12);
    assert_eq!(world.kept(), [pair("stdout", "first words")]);
}

#[test]
fn what_was_finished_and_not_released_is_finished_again_the_same() {
    for older in [true, false] {
        let mut world = World::new(AttemptOutput {
            output_max: 20,
            ..meta(1)
        });
        world.print(Stream::Stderr, b"one\ntwo\nthree\nfour\nfive\nsix\n");
        // Not read before the end.
        world.writes.as_mut().unwrap()[0]
            .write_all(b"{\"an\": \"answer\"}")
            .unwrap();
        let captured = world.finish();
        let kept = world.kept();
        if !older {
            copy(&world.state.path().join("logs"), &world.older.path().join("logs"));
        }
        world.end(End::Kill);
        world.adopt();
        assert_eq!(world.finish(), captured);
        assert_eq!(world.kept(), kept);
        assert_eq!(kept.iter().filter(|(stream, _)| stream == "fnd").count(), 1, "{kept:?}");
        world.output.release(WORKER);
        wait(world.output.settle());
        assert_eq!(world.spools(), 0);
    }
}

#[test]
fn a_spool_that_was_only_made_does_not_hide_what_is_kept() {
    let mut world = World::new(meta(1));
    // Killed between making the file and writing to it; the next takes the output at the end, and is killed in turn.
    world.end(End::Stop);
    let spool = world.state.path().join("spool");
    std::fs::write(spool.join(format!("{}.1", world.meta.invocation)), []).unwrap();
    for _ in 0..3 {
        world.output.stop();
        world.output = start(world.state.path());
        world.adopt();
        world.print_unread(b"once\n");
        assert_eq!(world.finish().stdout_bytes, 5);
        assert_eq!(world.kept(), [pair("stdout", "once")]);
    }
    world.output.release(WORKER);
    wait(world.output.settle());
    assert_eq!(world.spools(), 0);
}

#[test]
fn a_short_script_does_not_touch_the_spool() {
    let running = Running::new();
    let ((entered, busy), (go, gone)) = (channel(), channel::<()>());
    // The thread is kept busy until everything of the script has arrived.
    running.output.finish(WorkerId(9), None, move |_| {
        entered.send(()).unwrap();
        gone.recv_timeout(LIMIT).unwrap();
    });
    busy.recv_timeout(LIMIT).unwrap();
    let (mut out, _err) = running.attach(1, meta(1));
    out.write_all(b"hi\n").unwrap();
    let (done, finished) = channel();
    let done = move |captured| done.send(captured).unwrap();
    running.output.finish(WorkerId(1), None, done);
    go.send(()).unwrap();
    assert_eq!(finished.recv_timeout(LIMIT).unwrap().stdout_bytes, 3);
    assert_eq!(running.kept(), [pair("stdout", "hi")]);
    let spools = std::fs::read_dir(running.logs.path().join("spool"));
    assert_eq!(spools.unwrap().count(), 0);
}

#[test]
fn nobody_adopts_and_the_output_is_kept_to_its_end() {
    let meta = AttemptOutput {
        output_max: 20,
        ..meta(1)
    };
    let mut world = World::new(meta.clone());
    world.print(Stream::Stdout, b"one\ntwo\nthree\nfour\nfive\nsix\nsev");
    world.end(End::Kill);
    world.output.salvage([meta.key()].into());
    wait(world.output.settle());
    assert_eq!(world.spools(), 1, "it may still be adopted");
    for _ in 0..2 {
        world.output.salvage(HashSet::new());
        let texts: Vec<_> = world.kept().into_iter().map(|(_, text)| text).collect();
        let gap = "16 bytes of output were not kept here (limits.output)";
        assert_eq!(texts, ["one", "two", gap, "six", "sev"]);
        assert_eq!(world.spools(), 0);
        world.end(End::Stop);
    }
}

#[test]
fn lost_output_is_reported_as_missing() {
    let mut world = World::new(meta(1));
    world.print(Stream::Stdout, b"before\n");
    world.end(End::Stop);
    let file = world
        .state
        .path()
        .join("spool")
        .join(format!("{}.1", world.meta.invocation));
    std::fs::write(file, [0]).unwrap();
    world.output.stop();
    world.output = start(world.state.path());
    world.adopt();
    world.print(Stream::Stdout, b"after\n");
    world.end(End::Stop);
    world.adopt();
    assert_eq!(world.finish().stdout_bytes, 6);
    let note = "output from before the restart of fnd is missing here: it could not be spooled";
    assert_eq!(
        world.kept(),
        [pair("stdout", "before"), pair("fnd", note), pair("stdout", "after")]
    );
}

#[test]
fn a_full_disk_is_gone_on_without_and_made_good_later() {
    let mut world = World::new(meta(1));
    let file = world
        .state
        .path()
        .join("spool")
        .join(format!("{}.1", world.meta.invocation));
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    world.print(Stream::Stdout, b"not spooled\n");
    // The spool is written again in a new file; its rename replaces anything of that name.
    assert!(std::fs::symlink_metadata(&file).unwrap().is_file());
    world.end(End::Stop);
    world.adopt();
    assert_eq!(world.finish().stdout_bytes, 12);
    assert_eq!(world.kept(), [pair("stdout", "not spooled")]);

    let mut world = World::new(meta(1));
    std::fs::remove_dir(world.state.path().join("spool")).unwrap();
    std::fs::write(world.state.path().join("spool"), "no directory").unwrap();
    world.print(Stream::Stdout, b"never spooled\n");
    assert_eq!(world.finish().result.unwrap().data.len(), 14);
    assert_eq!(world.kept(), [pair("stdout", "never spooled")]);
}

/// Has a spool take bytes out of a pipe.
fn append(spools: &mut Spools, spool: &mut Spool, bytes: &[u8]) {
    let (read, write) = rustix::pipe::pipe().unwrap();
    File::from(write).write_all(bytes).unwrap();
    let mut buffer = [0; 64];
    let (count, _) = spools.take(spool, Stream::Stdout, &read, &mut buffer).unwrap();
    assert_eq!(&buffer[..count], bytes);
    assert_eq!(spools.take(spool, Stream::Stdout, &read, &mut buffer).unwrap().0, 0);
}

#[test]
fn a_spool_torn_at_any_byte_gives_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut spools = Spools::new(places(directory.path()));
    let meta = meta(1);
    let path = directory.path().join("spool").join(format!("{}.1", meta.invocation));
    let (mut spool, mut capture) = (Spool::None, Capture::new(meta.clone()));
    spools.begin(&mut spool, &meta);
    // How many bytes are told from which size on; of the chunk behind it those that are there.
    let mut whole = vec![(std::fs::metadata(&path).unwrap().len(), 0)];
    for i in 0..6_u8 {
        let text = vec![b'a' + i; 5 * usize::from(i) + 1];
        append(&mut spools, &mut spool, &text);
        capture.feed(Stream::Stdout, 1, &text, &mut |_, _| {});
        if i == 3 {
            whole.truncate(1);
            spools.rewrite(&mut spool, &mut capture);
        }
        whole.push((std::fs::metadata(&path).unwrap().len(), capture.bytes(Stream::Stdout)));
    }
    let bytes = std::fs::read(&path).unwrap();
    // Of the last chunk, before its bytes.
    let [.., (before, _), (all, _)] = whole[..] else {
        panic!("{whole:?}")
    };
    let head = all - before - 26;
    for cut in 0..=bytes.len() {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let before = whole.iter().rev().find(|(size, _)| *size <= cut as u64);
        match (spools.replay(meta.key(), None).unwrap(), before) {
            (Replayed::Lost(Loss::Damaged), None) => assert_eq!(cut, 1),
            (Replayed::Nothing, None) => {}
            (Replayed::Whole { capture, mut spool }, Some((size, counted))) => {
                // Half a snapshot is nothing.
                let chunk = if *counted == 0 {
                    0
                } else {
                    (cut as u64 - size).saturating_sub(head)
                };
                let counted = counted + chunk;
                assert_eq!(capture.bytes(Stream::Stdout), counted, "cut at {cut}");
                append(&mut spools, &mut spool, b"more");
                let Replayed::Whole { capture, .. } = spools.replay(meta.key(), None).unwrap() else {
                    panic!("cut at {cut}: nothing can be added");
                };
                assert_eq!(capture.bytes(Stream::Stdout), counted + 4);
            }
            _ => panic!("cut at {cut}: {before:?}"),
        }
    }
}

fn printed() -> impl Strategy<Value = Vec<Printed>> {
    let byte = prop_oneof![4 => Just(b'x'), 1 => Just(b'\n'), 1 => any::<u8>()];
    let small = proptest::collection::vec(byte, 1..60);
    let long = (1..20_000_usize).prop_map(|length| vec![b'l'; length]);
    let bytes = prop_oneof![8 => small, 1 => long];
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    proptest::collection::vec((stream, bytes), 1..30)
}

fn small() -> impl Strategy<Value = AttemptOutput> {
    let mask = || super::mask(&["xxxxxx", "xx\nl\u{0}lllllll", &"l".repeat(300)]);
    (0..500_u64, 0..500_u64, any::<bool>(), any::<bool>()).prop_map(move |(output_max, result_max, cgi, masked)| {
        AttemptOutput {
            output_max,
            result_max,
            cgi,
            mask: masked.then(mask),
            ..meta(1)
        }
    })
}

/// Everything a capture has in the end.
fn ended(mut capture: Capture) -> (Snapshot, Option<RunResult>) {
    capture.end(100, &mut |_, _| {});
    let mut snapshot = capture.snapshot();
    snapshot.result = Bytes::default();
    (snapshot, capture.take_result())
}

#[test]
fn the_last_lines_are_there_after_a_snapshot() {
    let mut capture = Capture::new(meta(1));
    capture.feed(Stream::Stdout, 1, b"one\ntwo\nthr", &mut |_, _| {});
    capture.feed(Stream::Stderr, 2, b"error\n", &mut |_, _| {});
    let mut capture = Capture::restore(meta(1), capture.snapshot());
    capture.feed(Stream::Stdout, 3, b"ee\n", &mut |_, _| {});
    assert_eq!(capture.captured().last_lines, "one\ntwo\nerror\nthree");
}

proptest! {
    #[test]
    fn a_snapshot_changes_nothing(meta in small(), pieces in printed(), at: prop::sample::Index) {
        let at = at.index(pieces.len());
        let (mut undisturbed, mut capture) = (Capture::new(meta.clone()), Capture::new(meta.clone()));
        for (i, (stream, bytes)) in pieces.iter().enumerate() {
            if i == at {
                let snapshot = Snapshot::from_wire(&capture.snapshot().to_wire()).unwrap();
                let held = capture.held_back();
                capture = Capture::restore(meta.clone(), snapshot);
                held.into_iter().for_each(|held| capture.hold_back(held));
            }
            undisturbed.feed(*stream, i as u64, bytes, &mut |_, _| {});
            capture.feed(*stream, i as u64, bytes, &mut |_, _| {});
        }
        prop_assert_eq!(ended(capture), ended(undisturbed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_restart_changes_nothing(
        meta in small(),
        pieces in printed(),
        ends in proptest::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(End::Stop), Just(End::Kill)]), 1..4),
    ) {
        let ends: Vec<_> = ends.iter().map(|(at, how)| (at.index(pieces.len()), *how)).collect();
        prop_assert_eq!(run(&meta, &pieces, &ends), run(&meta, &pieces, &[]));
    }
}

#[test]
fn a_spool_that_begins_with_another_attempt_is_lost_and_not_read_as_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut spools = Spools::new(places(directory.path()));
    let other = meta(1000);
    let (invocation, attempt) = other.key();
    spools.begin(&mut Spool::None, &other);
    let at = |attempt: Attempt| {
        directory
            .path()
            .join("spool")
            .join(format!("{invocation}.{}", attempt.0))
    };
    std::fs::rename(at(attempt), at(attempt.next())).unwrap();
    let key = (invocation, attempt.next());
    assert!(spools.meta(key).is_none());
    assert!(matches!(
        spools.replay(key, None).unwrap(),
        Replayed::Lost(Loss::Damaged)
    ));
}
