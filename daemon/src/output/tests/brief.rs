//! Workers that end before the output thread has seen them.

use super::*;

/// Makes the facts of an invocation from its number.
type Facts<'a> = &'a dyn Fn(u128) -> AttemptOutput;

fn result(bytes: &[u8]) -> Option<OwnedFd> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Some(file.into())
}

/// Ends a worker. Returns its output, and whether it was given at once.
fn end(running: &Running, worker: u64, mut result: Option<OwnedFd>) -> (Captured, bool) {
    match running.output.finish_silent(WorkerId(worker), &mut result) {
        Some(captured) => (captured, true),
        None => (running.finish(worker, result.map(File::from)), false),
    }
}

#[test]
fn a_silent_worker_is_over_at_once_with_the_same_result() {
    let document = |id| AttemptOutput { cgi: true, ..meta(id) };
    let small = |id| AttemptOutput {
        result_max: 3,
        ..meta(id)
    };
    let secret = |id| AttemptOutput {
        mask: Some(mask(&["correct horse"])),
        ..meta(id)
    };
    let workers: [(Facts<'_>, &[u8]); 6] = [
        (&meta, b""),
        (&meta, b"[1]\n"),
        (&meta, b"text\xff"),
        (&document, b""),
        (&small, b"1234"),
        (&secret, b"a correct horse"),
    ];
    for (number, (meta, written)) in workers.into_iter().enumerate() {
        let (brief, slow) = (Running::new(), Running::new());
        let _pipes = (brief.attach(1, meta(1)), slow.attach(1, meta(1)));
        let (captured, at_once) = end(&brief, 1, result(written));
        let other = slow.finish(1, result(written).map(File::from));
        assert_eq!((captured, at_once), (other, true), "{number}");
        assert_eq!(brief.kept(), [], "{number}");
    }
}

#[test]
fn output_and_a_large_result_are_left_to_the_output_thread() {
    let running = Running::new();
    for (worker, to_stdout) in [(1, true), (2, false)] {
        let (mut out, mut err) = running.attach(worker, meta(worker.into()));
        let stream = if to_stdout { &mut out } else { &mut err };
        stream.write_all(b"one\n").unwrap();
        let (captured, at_once) = end(&running, worker, None);
        assert_eq!((captured.stdout_bytes + captured.stderr_bytes, at_once), (4, false));
    }
    assert_eq!(running.kept(), [pair("stdout", "one"), pair("stderr", "one")]);

    let _pipes = running.attach(3, meta(3));
    let (captured, at_once) = end(&running, 3, result(&vec![b'1'; 100_000]));
    assert_eq!((captured.result.unwrap().data.len(), at_once), (100_000, false));
    assert_eq!(
        end(&running, 4, None),
        (Captured::default(), false),
        "it was never attached"
    );
}

#[test]
fn a_worker_that_runs_on_is_the_output_threads() {
    let running = Running::new();
    let _pipes = running.attach(1, meta(1));
    assert_eq!(running.kept(), []);
    assert_eq!(end(&running, 1, None), (Captured::default(), false));

    // It also comes to the thread without anybody asking for its output.
    let (mut out, _err) = running.attach(2, meta(2));
    out.write_all(&[b'a'; 60_000]).unwrap();
    let more = std::thread::spawn(move || out.write_all(&[b'a'; 60_000]));
    assert!(
        more.join().unwrap().is_ok(),
        "the pipe is read, else this write would not end"
    );
    assert_eq!(running.finish(2, None).stdout_bytes, 120_000);
}
