//! SIGKILL and a full disk, each in a process of its own: this test program again, with one ignored test of this file.

use super::*;
use std::io::{BufRead as _, BufReader};
use std::process::{Command as Process, Stdio};
use std::sync::OnceLock;

const STATE: &str = "FND_TEST_STATE";

fn child(program: &str, test: &str, state: &Path) -> Process {
    let name = format!("ledger::tests::crash::{test}");
    let mut process = Process::new(program);
    if program == "sh" {
        // 512 KiB for every file, and no signal: for a program this is like a full disk. The hard limit stays.
        process
            .args(["-c", "trap '' XFSZ; ulimit -S -f 1024; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap());
    }
    process
        .args(["--exact", &name, "--ignored", "--nocapture"])
        .env(STATE, state);
    process
}

fn state() -> PathBuf {
    std::env::var_os(STATE).expect("run by a test of this file").into()
}

#[test]
#[ignore = "run by `acknowledged_work_survives_sigkill`"]
fn writes_until_it_is_killed() {
    let ledger = Ledger::open(&state());
    for second in 1.. {
        let accepted = accepted(second, "hello");
        ledger.store(accepted.clone()).unwrap();
        println!("stored {}", accepted.id);
        end(&ledger, &accepted, Reason::Ok, Some(b"done"));
    }
}

#[test]
fn acknowledged_work_survives_sigkill() {
    for lines in [1, 50, 333] {
        let directory = directory();
        let program = std::env::current_exe().unwrap();
        let mut child = child(program.to_str().unwrap(), "writes_until_it_is_killed", directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let mut stored: Vec<InvocationId> = output.by_ref().filter_map(|line| parse(&line)).take(lines).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        stored.extend(output.filter_map(|line| parse(&line)));
        assert!(stored.len() >= lines);
        let ledger = Ledger::open(directory.path());
        for id in stored {
            assert!(ledger.get(id).is_some(), "{id} was acknowledged");
        }
    }
}

fn parse(line: &str) -> Option<InvocationId> {
    // The harness's own words may stand before the first.
    line.split_once("stored ").and_then(|(_, id)| InvocationId::parse(id))
}

#[test]
#[ignore = "run by `a_full_disk_refuses_durable_work_and_recovers`"]
fn fills_the_disk() {
    // How it is when it refuses, before it tries again: a small transaction may find room.
    let writer = Arc::new(OnceLock::<LedgerWriter>::new());
    let (refusing, (sender, acknowledged)) = (Arc::clone(&writer), channel());
    let acknowledge = move |event| {
        if let Acknowledged::Stored { result: Err(_), .. } = &event {
            let health = refusing.get().expect("it was set before anything was stored").health();
            assert!(health.failing.is_some());
        }
        if !matches!(event, Acknowledged::Recorded(_) | Acknowledged::HealthChanged) {
            drop(sender.send(event));
        }
    };
    let opened = open(site(&state()), forever(), &[], acknowledge).unwrap();
    assert!(writer.set(opened.writer.clone()).is_ok());
    let ledger = Ledger { opened, acknowledged };
    let big = |second| {
        let mut accepted = accepted(second, "hello");
        accepted.payload.data = Some(vec![1; 50_000].into());
        accepted
    };
    let mut second = 1;
    let refused = loop {
        match ledger.store(big(second)) {
            Ok(()) => second += 1,
            Err(refused) => break refused,
        }
        assert!(second < 1000, "there is a limit");
    };
    assert!(refused.contains("failed to write the ledger"), "{refused}");
    // A claim is small: some still find room.
    let claim = |n| ledger.claim(record(&big(1 + n % (second - 1)), RunState::Running));
    let refused = (0..1000).find_map(|n| claim(n).err()).expect("there is a limit");
    assert!(refused.contains("failed to write the ledger"), "{refused}");
    // The end of accepted work is kept while it cannot be written.
    end(&ledger, &big(1), Reason::Ok, Some(&vec![3; 60_000]));
    // So is what follows; it is not tried again for each that is refused.
    for second in 10_000..11_000 {
        let call = Accepted {
            durable: false,
            ..big(second)
        };
        let (_, record) = ended(&call, Reason::Failed, Some(&vec![3; 60_000]));
        ledger.submit(LedgerCommand::Update(Box::new(record)));
    }
    let refused = |_| assert!(ledger.store(big(4000)).is_err());
    (0..10).for_each(refused);
    let failed = ledger.opened.writer.health().failed;
    (0..100).for_each(refused);
    let failed = ledger.opened.writer.health().failed - failed;
    assert!(failed < 50, "{failed} tries for 100 that were refused");
    assert!(ledger.opened.writer.queue_age() > Duration::ZERO);
    assert!(ledger.get(id(1)).is_some(), "reading goes on");

    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(
        Resource::Fsize,
        Rlimit {
            current: None,
            maximum: None,
        },
    )
    .unwrap();
    // A write that failed rests for a while before it is tried again.
    let begun = crate::clock::monotonic();
    while ledger.store(big(5000)).is_err() {
        assert!(begun.elapsed() < LIMIT, "it recovers");
    }
    ledger.claim(record(&big(5000), RunState::Running)).unwrap();
    let health = ledger.opened.writer.health();
    assert_eq!((health.failing, health.lost), (None, 0));
    assert_eq!(ledger.opened.writer.queue_age(), Duration::ZERO);
    let (record, attempts) = ledger.get(id(1)).unwrap();
    assert_eq!((record.state, attempts.len()), (RunState::Succeeded, 1));
    assert!(
        ledger.get(id(second)).is_none(),
        "what was refused does not appear later"
    );
    println!("recovered after {second}");
}

#[test]
fn a_full_disk_refuses_durable_work_and_recovers() {
    let directory = directory();
    let output = child("sh", "fills_the_disk", directory.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("recovered after"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let ledger = Ledger::open(directory.path());
    assert!(ledger.get(id(5000)).is_some());
}
