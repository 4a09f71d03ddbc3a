//! Data that fnd holds for its callers: large bodies that wait, and answers that are not read.

use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, wait_until};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

const MIB: u64 = 1 << 20;

/// Returns the memory that fnd itself has allocated, in bytes. The pages of its program do not
/// count: those of a debug build are 40 MiB, and how many are loaded depends on the machine.
fn resident(fnd: &Fnd) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", fnd.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Waits until fnd uses little memory: and gives back what it needed to take the bodies in.
/// Half of `[node] buffers` (64 MiB) may be bodies; the rest is for fnd.
fn stays_small(fnd: &Fnd) {
    wait_until(
        &format!("fnd to have less than 80 MiB (it has {})", resident(fnd) / MIB),
        PATIENCE,
        || (resident(fnd) < 80 * MIB).then_some(()),
    );
}

/// Returns how many bytes are held for callers in a place.
fn held(fnd: &Fnd, place: &str) -> u64 {
    let metrics = fnd.client().get("/metrics").text();
    let series = format!("fnd_buffers_bytes{{place=\"{place}\"}}");
    let line = metrics.lines().find(|line| line.starts_with(&series));
    let value = line.and_then(|line| line.split_whitespace().nth(1));
    // The value is a whole number, but the format of metrics writes it with a fraction.
    value.map_or(0, |value| value.split('.').next().unwrap().parse().unwrap())
}

/// Sends a request and does not read the answer.
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
    stays_small(&fnd);
    assert!(held(&fnd, "disk") > 1_000_000_000, "{}", held(&fnd, "disk"));
    let problems = fnd.status().problems.join("\n");
    assert!(problems.contains("[node] buffers"), "{problems}");
    // Most callers leave, and their bodies are removed with them; the other bodies arrive unchanged.
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
        (held(&fnd, "disk") == 0).then_some(())
    });
    fnd.finish();
}

/// Reads the answer to the end.
fn read_answer(mut caller: UnixStream) -> String {
    caller.set_read_timeout(Some(PATIENCE)).unwrap();
    // No further request follows, so the connection ends with the answer.
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
fn answers_that_nobody_reads_are_not_held_in_memory() {
    const CALLERS: u64 = 200;
    const ANSWER: u64 = 5_000_000;
    let fnd = Fnd::start();
    let file = fnd.shared_directory("answers").join("answer");
    std::fs::write(&file, vec![b'y'; usize::try_from(ANSWER).unwrap()]).unwrap();
    fnd.drop_file("large.toml", "on_load = false\n[queue]\nmax = 1000\n");
    fnd.drop_file(
        "large.sh",
        &format!("#!/bin/bash\ncat {} >\"$FND_RESULT\"\n", file.display()),
    );
    fnd.wait_ready("large");
    let callers: Vec<_> = (0..CALLERS).map(|_| ask(&fnd, "large", b"")).collect();
    // Data that the sockets have taken is still held: a piece of the file is freed when all of it has been read. On a
    // slow machine the first callers lose their connections, after 30 s, before the last function has run.
    let (mut most, mut resident_most) = (0, 0);
    wait_until("every caller to have an answer", PATIENCE, || {
        let function = fnd.function("large")?;
        most = most.max(held(&fnd, "disk"));
        resident_most = resident_most.max(resident(&fnd));
        (function.running + function.queued == 0 && function.runs >= CALLERS).then_some(())
    });
    assert!(most > CALLERS * ANSWER / 2, "{most} bytes on the disk");
    // A function that ends waits for the answers before it, so they are never all in memory.
    assert!(resident_most < 100 * MIB, "{} MiB", resident_most / MIB);
    // All answers have passed through fnd's memory, and none of them stays there.
    stays_small(&fnd);
    // A caller that reads gets the whole answer.
    let answer = read_answer(ask(&fnd, "large", b""));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-length: {ANSWER}")), "{head}");
    assert!(
        body.len() as u64 == ANSWER && body.bytes().all(|byte| byte == b'y'),
        "{head}"
    );
    drop(callers);
    wait_until("the disk to be given back", PATIENCE, || {
        (held(&fnd, "disk") == 0).then_some(())
    });
    fnd.finish();
}
