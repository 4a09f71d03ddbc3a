//! Warm workers: each line belongs to the call during which it was printed.

use super::*;
use crate::output::call_output::{DROPPED, LOGS_MAX};
use fnd_core::records::protocol::{Level, LogRecord};
use proptest::prelude::*;
use std::sync::mpsc::Receiver;

struct Warm {
    running: Running,
    call_output: CallOutput,
    pipes: [File; 2],
}

fn warm(exclusive: bool) -> Warm {
    taken_over(exclusive, b"", None)
}

/// One that has printed something, maybe in a call, while no fnd was there.
fn taken_over(exclusive: bool, printed: &[u8], under_way: Option<AttemptOutput>) -> Warm {
    let running = Running::new();
    let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let ((out, out_write), (err, err_write)) = (pipe(), pipe());
    let mut out_write = File::from(out_write);
    out_write.write_all(printed).unwrap();
    let call_output = running
        .output
        .attach_pool(piped(WorkerId(1), out, err, meta(99)), exclusive, under_way);
    Warm {
        running,
        call_output,
        pipes: [out_write, err_write.into()],
    }
}

impl Warm {
    fn end(&self, id: u128) -> (CallOutputEnd, Receiver<Captured>) {
        let (done, output) = channel();
        let ended = self
            .call_output
            .end(meta(id).key(), move |captured| done.send(captured).unwrap());
        (ended, output)
    }

    /// Lines kept, by invocation.
    fn lines(&self) -> Vec<(u128, String, String)> {
        wait(self.running.output.settle());
        let lines = read(self.running.logs.path(), &[function()], &Query::default());
        lines
            .map(|line| (line.invocation.0, line.stream.as_str().to_owned(), line.text))
            .collect()
    }
}

fn record(level: Level, message: &str) -> LogRecord {
    let fields = serde_json::from_str(r#"{"free":3}"#).unwrap();
    LogRecord {
        time_ms: 1,
        level,
        message: message.to_owned(),
        fields: if level == Level::Warning {
            fields
        } else {
            Default::default()
        },
    }
}

fn kept(id: u128, stream: &str, text: &str) -> (u128, String, String) {
    (id, stream.to_owned(), text.to_owned())
}

#[test]
fn what_a_call_printed_while_no_fnd_was_there_is_its_output() {
    let mut warm = taken_over(true, b"before\n", Some(meta(1)));
    warm.pipes[0].write_all(b"after\n").unwrap();
    let (ended, output) = warm.end(1);
    assert_eq!(ended, CallOutputEnd::Printed);
    assert_eq!(output.recv_timeout(LIMIT).unwrap().stdout_bytes, 13);
    let line = |text: &str| (1, "stdout".to_owned(), text.to_owned());
    assert_eq!(warm.lines(), [line("before"), line("after")]);
}

/// Waits until the output thread has read all that was written.
fn wait_read(pipe: &impl std::os::fd::AsFd) {
    let begun = crate::clock::monotonic();
    while rustix::io::ioctl_fionread(pipe).unwrap() > 0 {
        assert!(begun.elapsed() < LIMIT, "it is not read");
        std::thread::yield_now();
    }
}

#[test]
fn what_was_read_of_a_call_is_on_disk_when_it_has_stopped() {
    let mut warm = warm(true);
    warm.call_output.begin(meta(1));
    warm.pipes[0].write_all(b"whole\nhalf").unwrap();
    wait_read(&warm.pipes[0]);
    warm.running.output.stop();
    let kept = texts(warm.running.logs.path());
    assert_eq!(kept, [pair("stdout", "whole"), pair("stdout", "half")]);
}

/// Some languages print a line in several pieces.
#[test]
fn a_line_that_is_being_printed_at_a_stop_stays_one() {
    let in_time = || {
        let mut warm = warm(true);
        warm.call_output.begin(meta(1));
        warm.pipes[0].write_all(b"one").unwrap();
        wait_read(&warm.pipes[0]);
        let begun = crate::clock::monotonic();
        let output = warm.running.output.clone();
        let stop = std::thread::spawn(move || output.stop());
        // Wherever the stop is meanwhile.
        (0..100).for_each(|_| std::thread::yield_now());
        warm.pipes[0].write_all(b" line\n").unwrap();
        let took = begun.elapsed();
        stop.join().unwrap();
        let texts = texts(warm.running.logs.path());
        let whole = texts == [pair("stdout", "one line")];
        // A machine that is held up between the two writes shows nothing.
        assert!(whole || took > crate::output::poll::pool::REST_OF_LINE / 2, "{texts:?}");
        whole
    };
    assert!((0..100).any(|_| in_time()), "never in time");
}

#[test]
fn a_call_has_what_was_printed_in_it_and_a_silent_one_is_known_at_once() {
    let mut warm = warm(true);
    warm.pipes[0].write_all(b"loading\n").unwrap();
    warm.call_output.begin(meta(1));
    assert_eq!(warm.end(1).0, CallOutputEnd::Silent);
    warm.call_output.begin(meta(2));
    warm.pipes[0].write_all(b"in two\nno line end").unwrap();
    warm.pipes[1].write_all(b"error of two\n").unwrap();
    let (ended, output) = warm.end(2);
    assert_eq!(ended, CallOutputEnd::Printed);
    warm.pipes[0].write_all(b"between\n").unwrap();
    let captured = output.recv_timeout(LIMIT).unwrap();
    assert_eq!((captured.stdout_bytes, captured.stderr_bytes), (18, 13));
    assert_eq!(
        (captured.last_error_line.as_deref(), captured.result),
        (Some("error of two"), None)
    );
    warm.call_output.begin(meta(3));
    warm.pipes[0].write_all(b"interrupted\n").unwrap();
    let captured = warm.running.finish(1, None);
    assert_eq!(captured.stdout_bytes, 12);
    let mut lines = warm.lines();
    lines.sort();
    let expected = [
        kept(0, "stdout", "between"),
        kept(0, "stdout", "loading"),
        kept(2, "stderr", "error of two"),
        kept(2, "stdout", "in two"),
        kept(2, "stdout", "no line end"),
        kept(3, "stdout", "interrupted"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn records_are_kept_with_their_call_in_order_with_what_was_printed() {
    let mut warm = warm(true);
    warm.call_output.begin(meta(1));
    warm.pipes[0].write_all(b"before\n").unwrap();
    warm.call_output
        .log(Some(meta(1).key()), &record(Level::Warning, "disk is low"));
    warm.pipes[0].write_all(b"after\n").unwrap();
    warm.call_output
        .log(Some(meta(1).key()), &record(Level::Error, "Traceback\n  line 1"));
    warm.call_output.log(None, &record(Level::Info, "of the worker"));
    let (ended, output) = warm.end(1);
    assert_eq!(ended, CallOutputEnd::Printed);
    assert_eq!(output.recv_timeout(LIMIT).unwrap().stdout_bytes, 13);
    let mut lines = warm.lines();
    lines.sort_by_key(|line| line.0);
    let expected = [
        kept(0, "log", "info of the worker"),
        kept(1, "stdout", "before"),
        kept(1, "log", "warning disk is low {\"free\":3}"),
        kept(1, "stdout", "after"),
        kept(1, "log", "error Traceback"),
        kept(1, "log", "error   line 1"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn what_a_worker_of_several_calls_prints_is_nobodys_but_its_records_are() {
    let mut warm = warm(false);
    warm.call_output.begin(meta(1));
    warm.call_output.begin(meta(2));
    warm.pipes[0].write_all(b"whose\n").unwrap();
    warm.call_output.log(Some(meta(1).key()), &record(Level::Info, "mine"));
    assert_eq!(warm.end(2).0, CallOutputEnd::Silent);
    let (ended, output) = warm.end(1);
    assert_eq!(ended, CallOutputEnd::Printed);
    assert_eq!(output.recv_timeout(LIMIT).unwrap().stdout_bytes, 0);
    let mut lines = warm.lines();
    lines.sort();
    assert_eq!(lines, [kept(0, "stdout", "whose"), kept(1, "log", "info mine")]);
}

#[test]
fn a_flood_is_bounded_and_counted() {
    let mut warm = warm(true);
    warm.call_output.begin(meta(1));
    let line = [b'x'; 1023].iter().chain(b"\n").copied().collect::<Vec<_>>();
    for _ in 0..8192 {
        warm.pipes[0].write_all(&line).unwrap();
    }
    let (_, output) = warm.end(1);
    let captured = output.recv_timeout(LIMIT).unwrap();
    assert_eq!((captured.stdout_bytes, captured.dropped_bytes), (8 << 20, 7 << 20));
}

#[test]
fn records_that_come_too_fast_are_dropped_and_fill_no_memory() {
    let warm = warm(true);
    warm.call_output.begin(meta(1));
    // A record has 30,000 lines, which take longer to keep than to send.
    let record = record(Level::Info, &"\n".repeat(30_000));
    for _ in 0..1_000 {
        warm.call_output.log(Some(meta(1).key()), &record);
        assert!(warm.call_output.ends.logged() <= LOGS_MAX + DROPPED.len() + 100);
    }
    let (ended, output) = warm.end(1);
    assert_eq!(ended, CallOutputEnd::Printed);
    output.recv_timeout(LIMIT).unwrap();
    let told = format!("warning {DROPPED}");
    assert!(warm.lines().iter().any(|(_, _, text)| *text == told));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Steps: 0 begins or ends a call, 1 prints, 2 prints an error, 3 lets the output thread read what there is.
    #[test]
    fn every_line_is_of_the_invocation_it_was_printed_in(steps in proptest::collection::vec((0..4_u8, 1..400_usize), 1..80)) {
        let mut warm = warm(true);
        let mut expected = Vec::new();
        let mut output = Vec::new();
        let (mut calls, mut call, mut bytes) = (0, 0, 0_u64);
        for (number, (step, size)) in steps.into_iter().enumerate() {
            match step {
                0 if call == 0 => {
                    calls += 1;
                    (call, bytes) = (calls, 0);
                    warm.call_output.begin(meta(call));
                }
                0 => {
                    let (ended, captured) = warm.end(call);
                    prop_assert_eq!(ended == CallOutputEnd::Silent, bytes == 0);
                    if bytes > 0 {
                        output.push((captured, bytes));
                    }
                    call = 0;
                }
                3 => wait(warm.running.output.settle()),
                _ => {
                    let text = format!("{number:04}{}", "x".repeat(size));
                    let pipe = usize::from(step == 2);
                    warm.pipes[pipe].write_all(format!("{text}\n").as_bytes()).unwrap();
                    bytes += text.len() as u64 + 1;
                    expected.push(kept(call, ["stdout", "stderr"][pipe], &text));
                }
            }
        }
        for (captured, bytes) in output {
            let captured = captured.recv_timeout(LIMIT).unwrap();
            prop_assert_eq!(captured.stdout_bytes + captured.stderr_bytes, bytes);
        }
        warm.running.finish(1, None);
        let mut lines = warm.lines();
        lines.sort();
        expected.sort();
        prop_assert_eq!(lines, expected);
    }
}

#[test]
fn output_is_on_disk_before_its_call_is_reported_as_ended() {
    let mut warm = warm(true);
    let (checked, ended) = channel();
    for id in 1..=20 {
        warm.call_output.begin(meta(id));
        warm.pipes[0].write_all(format!("said by {id}\n").as_bytes()).unwrap();
        let (checked, logs) = (checked.clone(), warm.running.logs.path().to_owned());
        let kept = move |_| {
            let text = format!("said by {id}");
            let kept = texts(&logs).contains(&("stdout".to_owned(), text));
            checked.send(kept).unwrap();
        };
        assert_eq!(warm.call_output.end(meta(id).key(), kept), CallOutputEnd::Printed);
    }
    for _ in 1..=20 {
        assert!(ended.recv_timeout(LIMIT).unwrap(), "its lines are not on disk");
    }
}
