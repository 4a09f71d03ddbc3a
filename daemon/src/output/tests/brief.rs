//! Attempts that end before the output thread has seen them.

use super::*;

/// What a worker prints on standard output and standard error, and writes to its result file.
type Said<'a> = (&'a [u8], &'a [u8], &'a [u8]);

fn say(running: &Running, worker: u64, meta: Meta, (out, err, result): Said<'_>) -> Option<OwnedFd> {
    let (mut stdout, mut stderr) = running.attach(worker, meta);
    stdout.write_all(out).unwrap();
    stderr.write_all(err).unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(result).unwrap();
    Some(file.into())
}

/// Ends a worker at once. Returns its output, and that which was reported when it was on the disk.
fn end(running: &Running, worker: u64, mut result: Option<OwnedFd>) -> (Captured, Option<Captured>) {
    let (done, kept) = channel();
    let told = move |_, captured| done.send(captured).unwrap();
    let (captured, key) = running
        .output
        .finish_brief(WorkerId(worker), &mut result, told)
        .expect("it is brief");
    let counted = key.map(|_| kept.recv_timeout(LIMIT).unwrap());
    (captured, counted)
}

#[test]
fn what_is_read_at_once_is_what_the_output_thread_reads() {
    let document = |id| Meta { cgi: true, ..meta(id) };
    let small = |id| Meta {
        output_max: 20,
        result_max: 3,
        ..meta(id)
    };
    let secret = |id| Meta {
        mask: Some(mask(&["correct horse"])),
        ..meta(id)
    };
    let said: [(&dyn Fn(u128) -> Meta, Said<'_>); 7] = [
        (&meta, (b"one\n{\"two\": 2}", b"problem\n\nlast words", b"")),
        (&meta, (b"\xff\x00", b"", b"[1]\n")),
        (&meta, (b"[1] \n", b"", b"")),
        (&document, (b"Status: 201\n\nmade\n", b"noted\n", b"")),
        (&document, (b"no header", b"", b"")),
        (&small, (b"a line\nanother line\nand another one\n", b"x", b"")),
        (&secret, (b"the correct horse\n", b"correct horse", b"a correct horse")),
    ];
    for (number, (meta, said)) in said.into_iter().enumerate() {
        let (brief, slow) = (Running::new(), Running::new());
        let result = say(&brief, 1, meta(1), said);
        let (captured, counted) = end(&brief, 1, result);
        let result = say(&slow, 1, meta(1), said);
        let other = slow.finish(1, result.map(File::from));
        assert_eq!(captured, other, "{number}");
        assert_eq!(counted, Some(other), "{number}");
        assert_eq!(brief.kept(), slow.kept(), "{number}");
    }
}

#[test]
fn nothing_is_kept_of_a_worker_that_printed_nothing() {
    let running = Running::new();
    let result = say(&running, 1, meta(1), (b"", b"", b"7"));
    let (captured, counted) = end(&running, 1, result);
    assert_eq!(&*captured.result.unwrap().data, b"7");
    assert_eq!((counted, running.kept()), (None, vec![]));
}

#[test]
fn much_output_and_a_large_result_are_left_to_the_output_thread() {
    let running = Running::new();
    let is_brief = |worker: u64, result: &mut Option<OwnedFd>| {
        let brief = running.output.finish_brief(WorkerId(worker), result, |_, _| {});
        brief.is_some()
    };
    let (out, err) = running.attach(1, meta(1));
    rustix::pipe::fcntl_setpipe_size(&out, 1 << 20).unwrap();
    (&out).write_all(&vec![b'a'; 200_000]).unwrap();
    drop((out, err));
    assert!(!is_brief(1, &mut None));
    assert_eq!(running.finish(1, None).stdout_bytes, 200_000);

    let mut large = say(&running, 2, meta(2), (b"", b"", &vec![b'1'; 100_000]));
    assert!(!is_brief(2, &mut large));
    let result = running.finish(2, large.map(File::from)).result.unwrap();
    assert_eq!(result.data.len(), 100_000);
    assert!(!is_brief(3, &mut None), "it was never attached");
}

#[test]
fn a_worker_that_runs_on_is_the_output_threads() {
    let running = Running::new();
    let mut result = say(&running, 1, meta(1), (b"one\n", b"", b""));
    assert_eq!(running.kept(), [pair("stdout", "one")]);
    assert!(
        running
            .output
            .finish_brief(WorkerId(1), &mut result, |_, _| {})
            .is_none()
    );
    assert_eq!(running.finish(1, result.map(File::from)).stdout_bytes, 4);

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
