//! What fnd holds for its callers: large bodies that wait, and answers that nobody reads.

use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

const MIB: u64 = 1 << 20;

/// Returns what fnd itself has of memory, bytes.
fn resident(fnd: &Fnd) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", fnd.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Returns how many bytes are held on the disk.
fn on_disk(fnd: &Fnd) -> f64 {
    let metrics = fnd.client().get("/metrics").text();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("fnd_buffers_bytes{place=\"disk\"}"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or_default()
}

/// Sends a request and leaves it at that.
fn ask(fnd: &Fnd, function: &str, body: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(fnd.socket()).unwrap();
    let head = format!(
        "POST /v1/functions/{function}/invoke HTTP/1.1\r\nhost: fnd\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream
}

#[test]
fn many_large_bodies_that_wait_cost_little_memory_and_arrive_whole() {
    const BODIES: usize = 240;
    let fnd = Fnd::start();
    let go = fnd.shared_directory("gate").join("go");
    let code = format!(
        "#!/bin/bash\nwhile [[ ! -e {} ]]; do sleep 0.05; done\nsha256sum | cut -c1-64 >\"$FND_RESULT\"\n",
        go.display()
    );
    let manifest = "on_load = false\n[pool]\nmax = 1\n[queue]\nmax = 1000\n[limits]\nbody = \"6M\"\n";
    fnd.drop_file("holds.toml", manifest);
    fnd.drop_file("holds.sh", &code);
    fnd.wait_ready("holds");
    let mut body = vec![b'x'; 6 * 1024 * 1024];
    let mut callers: Vec<_> = (0..BODIES)
        .map(|number| {
            let number = u8::try_from(number).unwrap();
            body[0] = number;
            ask(&fnd, "holds", &body)
        })
        .collect();
    wait_until("every caller to wait", PATIENCE, || {
        let function = fnd.function("holds")?;
        (usize::try_from(function.running + function.queued).unwrap() >= BODIES).then_some(())
    });
    let memory = resident(&fnd);
    assert!(memory < 100 * MIB, "fnd has {} MiB", memory / MIB);
    assert!(on_disk(&fnd) > 1.0e9, "{}", on_disk(&fnd));
    let problems = fnd.status().problems.join("\n");
    assert!(problems.contains("[node] buffers"), "{problems}");
    // All but a few leave, and what they brought goes with them; the rest is what was sent.
    callers.drain(2..BODIES - 2);
    wait_until("the calls of those that left to end", PATIENCE, || {
        (fnd.function("holds")?.queued <= 3).then_some(())
    });
    std::fs::write(&go, "").unwrap();
    for (caller, number) in callers.into_iter().zip([0, 1, BODIES - 2, BODIES - 1]) {
        body[0] = u8::try_from(number).unwrap();
        let expected = sha256(&body);
        let answer = read_answer(caller);
        assert!(answer.contains(&expected), "{number}: {answer}");
    }
    wait_until("the disk to be given back", PATIENCE, || {
        (on_disk(&fnd) == 0.0).then_some(())
    });
    fnd.finish();
}

/// Reads the answer to the end.
fn read_answer(mut caller: UnixStream) -> String {
    caller.set_read_timeout(Some(PATIENCE)).unwrap();
    // Nothing more is asked, so the connection ends with the answer.
    caller.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    caller.read_to_string(&mut answer).unwrap();
    answer
}

fn sha256(bytes: &[u8]) -> String {
    let mut child = std::process::Command::new("sha256sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

#[test]
fn answers_that_nobody_reads_cost_little_memory() {
    const CALLERS: usize = 40;
    let fnd = Fnd::start_with(&Setup::default().config("[node]\nbuffers = \"16M\"\n"));
    fnd.drop_file("large.toml", "on_load = false\n[queue]\nmax = 1000\n");
    fnd.drop_file(
        "large.sh",
        "#!/bin/bash\nhead -c 5000000 /dev/zero | tr '\\0' y >\"$FND_RESULT\"\n",
    );
    fnd.wait_ready("large");
    let callers: Vec<_> = (0..CALLERS).map(|_| ask(&fnd, "large", b"")).collect();
    wait_until("every answer to wait for its reader", PATIENCE * 2, || {
        let function = fnd.function("large")?;
        (function.runs >= 40 && function.running + function.queued == 0).then_some(())
    });
    wait_until("what nobody reads to be on the disk", PATIENCE, || {
        (on_disk(&fnd) >= 36.0 * 5.0e6).then_some(())
    });
    let memory = resident(&fnd);
    assert!(memory < 120 * MIB, "fnd has {} MiB", memory / MIB);
    // Whoever reads at last gets all of it.
    let mut callers = callers.into_iter();
    let answer = read_answer(callers.next_back().unwrap());
    assert_eq!(
        answer.matches('y').count(),
        5_000_000 + answer[..answer.find("\r\n\r\n").unwrap()].matches('y').count()
    );
    drop(callers);
    wait_until("the disk to be given back", PATIENCE, || {
        (on_disk(&fnd) == 0.0).then_some(())
    });
    fnd.finish();
}
