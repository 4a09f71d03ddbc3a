//! Tests of the output thread.
//!
//! Files:
//! - `brief`: attempts that end at once
//! - `masked`: values of secrets
//! - `pool`: warm workers
//! - `restart`: one fnd after another reads a worker's pipes
use super::*;
use crate::output::log_store::{Query, Stream, read};
use rustix::event::Timespec;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn function() -> FunctionName {
    FunctionName::new("hello").unwrap()
}

fn meta(id: u128) -> AttemptOutput {
    let (invocation, attempt) = (InvocationId(id), Attempt(1));
    AttemptOutput {
        function: function(),
        invocation,
        attempt,
        output_max: 1 << 20,
        result_max: 6 << 20,
        cgi: false,
        mask: None,
    }
}

fn piped(worker: WorkerId, stdout: OwnedFd, stderr: OwnedFd, meta: AttemptOutput) -> Piped {
    Piped {
        worker,
        stdout,
        stderr,
        meta,
    }
}

fn places(parent: &Path) -> SpoolPlaces {
    SpoolPlaces {
        state: parent.join("spool"),
        memory: parent.join("memory"),
    }
}

fn mask(values: &[&str]) -> Arc<Mask> {
    let values = values.iter().map(|value| value.as_bytes());
    Arc::new(Mask::new(fnd_wire::mask::Masks::of(1 << 60, values).unwrap()))
}

struct Running {
    output: Output,
    logs: tempfile::TempDir,
}

impl Running {
    fn new() -> Self {
        let logs = tempfile::tempdir().unwrap();
        let output = Output::start(
            logs.path().into(),
            places(logs.path()),
            Default::default(),
            Box::new(|_, _| {}),
        )
        .unwrap();
        Self { output, logs }
    }

    /// Attaches a worker. Returns the writing ends of its pipes.
    fn attach(&self, worker: u64, meta: AttemptOutput) -> (File, File) {
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let ((out, out_write), (err, err_write)) = (pipe(), pipe());
        self.output.attach(piped(WorkerId(worker), out, err, meta));
        (out_write.into(), err_write.into())
    }

    fn finish(&self, worker: u64, result: Option<File>) -> Captured {
        let (done, finished) = channel();
        let done = move |captured| done.send(captured).unwrap();
        self.output.finish(WorkerId(worker), result.map(Into::into), done);
        finished.recv_timeout(LIMIT).unwrap()
    }

    fn kept(&self) -> Vec<(String, String)> {
        wait(self.output.settle());
        texts(self.logs.path())
    }
}

fn texts(logs: &Path) -> Vec<(String, String)> {
    let lines = read(logs, &[function()], &Query::default());
    lines.map(|line| (line.stream.as_str().to_owned(), line.text)).collect()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, future).await.expect("within the limit") })
}

fn pair(stream: &str, text: &str) -> (String, String) {
    (stream.to_owned(), text.to_owned())
}

#[test]
fn a_turn_does_what_waits_and_says_whether_the_thread_goes_on() {
    let logs = tempfile::tempdir().unwrap();
    let sink = Box::new(|_: &_, _: &Line<'_>| {});
    let (output, mut thread) =
        Output::prepare(logs.path().into(), places(logs.path()), Default::default(), sink).unwrap();
    let running = Running { output, logs };
    let now = || Some(Timespec::default());
    thread.find_spooled();
    assert_eq!(thread.wakes_at(), None);
    let (mut out, err) = running.attach(1, meta(1));
    assert!(thread.wakes_at().is_some(), "a worker's pipes are read after a moment");
    writeln!(out, "one").unwrap();
    drop((out, err));
    let (done, finished) = channel();
    let done = move |captured: Captured| done.send(captured.stdout_bytes).unwrap();
    running.output.finish(WorkerId(1), None, done);
    assert!(finished.try_recv().is_err());
    assert!(thread.turn(now()));
    assert_eq!(finished.try_recv(), Ok(4));
    running.output.stop();
    assert!(!thread.turn(now()));
}

#[test]
fn both_streams_are_kept_apart_and_the_answer_is_standard_output() {
    let running = Running::new();
    let (mut out, mut err) = running.attach(1, meta(1));
    err.write_all(b"starting\nlast words\n\n \n").unwrap();
    out.write_all(b" {\"a\":\n1}\n").unwrap();
    drop((out, err));
    let captured = running.finish(1, None);
    assert_eq!(
        (captured.stdout_bytes, captured.stderr_bytes, captured.dropped_bytes),
        (10, 23, 0)
    );
    assert_eq!(captured.last_error_line.as_deref(), Some("last words"));
    assert_eq!(
        captured.result,
        Some(RunResult {
            response: None,
            json: true,
            data: b"{\"a\":\n1}"[..].into(),
            kept: None,
        })
    );
    let kept = running.kept();
    let of = |stream: &str| -> Vec<_> {
        kept.iter()
            .filter(|(s, _)| s == stream)
            .map(|(_, t)| t.as_str())
            .collect()
    };
    assert_eq!(of("stdout"), [" {\"a\":", "1}"]);
    assert_eq!(of("stderr"), ["starting", "last words", "", " "]);
}

#[test]
fn text_binary_and_nothing_are_results_as_they_are() {
    for (id, (bytes, expected)) in [
        (&b"hello\n"[..], Some(&b"hello\n"[..])),
        (b"\xff\x00\xfe", Some(b"\xff\x00\xfe")),
        (b"{\"a\":1} {\"b\":2}", Some(b"{\"a\":1} {\"b\":2}")),
        (b"", None),
    ]
    .into_iter()
    .enumerate()
    {
        let running = Running::new();
        let (mut out, _err) = running.attach(1, meta(id as u128));
        out.write_all(bytes).unwrap();
        let expected = expected.map(|data| RunResult {
            response: None,
            json: false,
            data: data.into(),
            kept: None,
        });
        assert_eq!(running.finish(1, None).result, expected);
    }
}

#[test]
fn the_result_file_wins_if_it_was_written() {
    let running = Running::new();
    let written = |bytes: &[u8]| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        Some(file)
    };
    for (worker, file, expected) in [(1, written(b"[1]\n"), &b"[1]"[..]), (2, written(b""), b"out")] {
        let (mut out, _err) = running.attach(worker, meta(u128::from(worker)));
        out.write_all(b"out").unwrap();
        assert_eq!(&*running.finish(worker, file).result.unwrap().data, expected);
    }
    let _pipes = running.attach(
        3,
        AttemptOutput {
            result_max: 3,
            ..meta(3)
        },
    );
    let captured = running.finish(3, written(b"1234"));
    assert_eq!(
        (captured.result, captured.result_too_large),
        (None, too_large(4, false))
    );
}

fn too_large(bytes: u64, is_output: bool) -> Option<TooLarge> {
    Some(TooLarge { bytes, is_output })
}

/// Where the file was written, standard output is log, whatever its size.
#[test]
fn output_larger_than_a_result_is_no_result_and_nobody_misses_it_beside_a_file() {
    let running = Running::new();
    let small = |id| AttemptOutput {
        result_max: 3,
        ..meta(id)
    };
    let (mut out, _err) = running.attach(1, small(1));
    out.write_all(b"1234").unwrap();
    drop(out);
    let captured = running.finish(1, None);
    assert_eq!((captured.result, captured.result_too_large), (None, too_large(4, true)));
    assert!(running.kept()[1].1.contains("limits.result"));
    let (mut out, _err) = running.attach(2, small(2));
    out.write_all(b"5678").unwrap();
    drop(out);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"[1]").unwrap();
    let captured = running.finish(2, Some(file));
    assert_eq!(
        (&*captured.result.unwrap().data, captured.result_too_large),
        (&b"[1]"[..], None)
    );
    assert_eq!(running.kept().len(), 3, "the note is there once");
}

fn document(id: u128) -> AttemptOutput {
    AttemptOutput {
        output_max: 100,
        result_max: 300_000,
        cgi: true,
        ..meta(id)
    }
}

#[test]
fn a_cgi_document_is_the_answer_byte_for_byte_and_no_log() {
    let running = Running::new();
    let picture: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    let (mut out, mut err) = running.attach(1, document(1));
    out.write_all(b"Status: 201 Made\r\nContent-Type: image/png\r\n\r\n")
        .unwrap();
    out.write_all(&picture).unwrap();
    err.write_all(b"drawn\n").unwrap();
    drop((out, err));
    let captured = running.finish(1, None);
    let result = captured.result.unwrap();
    assert!(*result.data == *picture);
    let response = result.response.unwrap();
    assert_eq!(
        (response.status, response.content_type.as_deref()),
        (Some(201), Some("image/png"))
    );
    assert_eq!((captured.dropped_bytes, captured.bad_answer), (0, None));
    assert_eq!(running.kept(), [pair("stderr", "drawn")]);
}

#[test]
fn a_cgi_document_that_is_none_or_too_large_is_no_answer() {
    let running = Running::new();
    let ends = |worker: u64, printed: &[u8]| {
        let (mut out, _err) = running.attach(worker, document(u128::from(worker)));
        out.write_all(printed).unwrap();
        drop(out);
        let captured = running.finish(worker, None);
        assert_eq!(captured.result, None);
        (captured.bad_answer, captured.result_too_large)
    };
    let (why, size) = ends(1, b"Hello\n");
    assert!(why.unwrap().contains("line 1 of its output is not a header") && size.is_none());
    assert!(ends(2, b"").0.unwrap().contains("nothing"));
    assert_eq!(ends(3, &vec![b'x'; 300_001]), (None, too_large(300_001, false)));
    // `$FND_RESULT` is a result like any other.
    let (mut out, _err) = running.attach(4, document(4));
    out.write_all(b"no header\n").unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"[1]").unwrap();
    file.rewind().unwrap();
    let captured = running.finish(4, Some(file));
    assert_eq!(
        (captured.bad_answer, captured.result.map(|result| result.json)),
        (None, Some(true))
    );
    assert_eq!(running.kept(), []);
}

#[test]
fn a_flood_is_read_to_its_end_and_kept_within_bounds() {
    let running = Running::new();
    let (mut out, _err) = running.attach(1, meta(1));
    let line = [b"0123456789".repeat(10).as_slice(), b"\n"].concat();
    let block = line.repeat(10_000);
    let blocks = 1_000; // 1.01 GB
    for _ in 0..blocks {
        out.write_all(&block).unwrap();
    }
    out.write_all(b"the end\n").unwrap();
    drop(out);
    let captured = running.finish(1, None);
    let total = (block.len() * blocks + 8) as u64;
    assert_eq!(captured.stdout_bytes, total);
    assert_eq!(
        (captured.result, captured.result_too_large),
        (None, too_large(total, true))
    );
    let kept = running.kept();
    let bytes: usize = kept
        .iter()
        .filter(|(stream, _)| stream == "stdout")
        .map(|(_, text)| text.len() + 1)
        .sum();
    assert_eq!(bytes as u64 + captured.dropped_bytes, total);
    assert!(bytes <= 1 << 20 && bytes > (1 << 20) - 300, "{bytes}");
    let note = format!(
        "{} bytes of output were not kept here (limits.output)",
        captured.dropped_bytes
    );
    assert!(kept.contains(&pair("fnd", &note)));
    assert_eq!(kept[kept.len() - 2], pair("stdout", "the end"));
    assert!(kept.last().unwrap().1.contains("limits.result"));
}

#[test]
fn a_line_without_end_is_cut_and_counted() {
    let running = Running::new();
    let (mut out, mut err) = running.attach(1, meta(1));
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        err.write_all(&piece).unwrap();
    }
    err.write_all(b"\nafter\n").unwrap();
    out.write_all(&vec![b'y'; 20 << 10]).unwrap();
    drop((out, err));
    let captured = running.finish(1, None);
    assert_eq!(captured.stderr_bytes, (100 << 20) + 7);
    let cut = (100 << 20) - (16 << 10);
    assert_eq!(captured.dropped_bytes, cut + (4 << 10));
    assert_eq!(
        captured.result.unwrap().data.len(),
        20 << 10,
        "the answer is whole all the same"
    );
    assert_eq!(captured.last_error_line.as_deref(), Some("after"));
    let kept = running.kept();
    assert!(kept.contains(&pair(
        "fnd",
        &format!("the line above had {cut} bytes more, which were not kept")
    )));
    assert!(kept.contains(&pair("stderr", &"x".repeat(16 << 10))));
}

#[test]
fn a_flood_of_empty_lines_stays_small() {
    let mut capture = capture::Capture::new(meta(1));
    for _ in 0..1000 {
        capture.feed(Stream::Stderr, 1, &[b'\n'; 10_000], &mut |_, _| {});
    }
    let tail = capture.snapshot().tail.lines.0;
    assert!(tail.len() <= 2 << 20, "{} bytes in memory", tail.len());
    assert_eq!(capture.dropped() + (1 << 20), 10_000_000);
}

#[test]
fn a_holder_of_the_pipe_outside_is_not_waited_for() {
    let running = Running::new();
    let (mut out, err) = running.attach(1, meta(1));
    out.write_all(b"said in time").unwrap();
    let captured = running.finish(1, None);
    assert_eq!(captured.stdout_bytes, 12);
    // It is told by SIGPIPE or EPIPE once the last reading end is closed; this process ignores the signal.
    assert_eq!(out.write(b"late").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    drop(err);
}

#[test]
fn a_worker_that_was_never_attached_has_nothing() {
    assert_eq!(Running::new().finish(9, None), Captured::default());
}

#[test]
fn a_running_attempt_is_seen_and_a_slow_follower_misses_lines() {
    let running = Running::new();
    let (mut out, _err) = running.attach(1, meta(1));
    out.write_all(b"before\n").unwrap();
    let follow = Follow {
        function: Some(function()),
        invocation: None,
        reach: Permissions::own(),
    };
    let mut followed = loop {
        let followed = wait(running.output.follow(follow.clone())).unwrap();
        if followed.kept.is_some() {
            break followed;
        }
    };
    assert_eq!(texts(running.logs.path()), [pair("stdout", "before")]);
    for i in 0..5000 {
        out.write_all(format!("line {i}\n").as_bytes()).unwrap();
    }
    wait(running.output.settle());
    let mut lines = Vec::new();
    while let Ok(line) = followed.lines.try_recv() {
        lines.push(line.text);
    }
    assert_eq!(lines.len(), FOLLOW_MAX);
    assert_eq!(lines[0], "line 0");
    out.write_all(b"later\n").unwrap();
    let note = wait(followed.lines.recv()).unwrap();
    assert_eq!(
        (note.stream.as_str(), note.text.starts_with("3976 lines are not shown")),
        ("fnd", true),
        "{note:?}"
    );
    assert_eq!(wait(followed.lines.recv()).unwrap().text, "later");
    let end = Query {
        end: followed.kept,
        ..Query::default()
    };
    assert_eq!(read(running.logs.path(), &[function()], &end).count(), 1);
}

mod brief;
mod masked;
mod pool;
mod restart;
