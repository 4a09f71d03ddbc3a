//! Values of secrets: masked in what is kept, followed and reported, and never on the disk.

use super::restart::{End, World};
use super::*;
use fnd_core::records::RunResult;
use fnd_core::records::protocol::{Level, LogRecord};

const VALUES: [&str; 2] = ["hunter22", "s3cret-key"];

fn secret(id: u128) -> AttemptOutput {
    AttemptOutput {
        mask: Some(mask(&VALUES)),
        ..meta(id)
    }
}

fn data(result: &RunResult) -> &str {
    str::from_utf8(&result.data).unwrap()
}

/// Says whether a value is in a file below a directory.
fn is_on_disk(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_on_disk(&path);
        }
        let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        VALUES.iter().any(|value| text.contains(value))
    })
}

#[test]
fn all_but_the_result_is_masked_and_of_the_result_what_is_kept() {
    let running = Running::new();
    let (mut out, mut err) = running.attach(1, secret(1));
    let follow = Follow {
        function: Some(function()),
        invocation: None,
        reach: Permissions::own(),
    };
    let mut followed = wait(running.output.follow(follow)).unwrap();
    out.write_all(b"{\"key\": \"hunter22\"}\n").unwrap();
    wait(running.output.settle());
    err.write_all(b"no s3cr").unwrap();
    wait(running.output.settle());
    err.write_all(b"et-keyhunter22 here").unwrap();
    drop((out, err));
    let captured = running.finish(1, None);
    assert_eq!((captured.stdout_bytes, captured.stderr_bytes), (20, 26));
    assert_eq!(captured.last_error_line.as_deref(), Some("no *** here"));
    assert_eq!(captured.last_lines, "{\"key\": \"***\"}\nno *** here");
    let result = captured.result.unwrap();
    assert_eq!(data(&result), "{\"key\": \"hunter22\"}");
    assert_eq!(data(&result.to_kept()), "{\"key\": \"***\"}");
    let kept = running.kept();
    assert_eq!(
        kept,
        [pair("stdout", "{\"key\": \"***\"}"), pair("stderr", "no *** here")]
    );
    let texts: Vec<String> = std::iter::from_fn(|| followed.lines.try_recv().ok())
        .map(|line| line.text)
        .collect();
    assert_eq!(texts, ["{\"key\": \"***\"}", "no *** here"]);
}

#[test]
fn a_document_that_is_none_is_reported_without_its_values() {
    let running = Running::new();
    let (mut out, err) = running.attach(1, AttemptOutput { cgi: true, ..secret(1) });
    out.write_all(b"Status: hunter22\n\n").unwrap();
    drop((out, err));
    let captured = running.finish(1, None);
    let why = captured.bad_answer.unwrap();
    assert!(why.contains("***") && !why.contains("hunter22"), "{why}");
}

#[test]
fn calls_of_a_warm_worker_and_what_they_log_are_masked() {
    let running = Running::new();
    let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let ((out, out_write), (err, _err_write)) = (pipe(), pipe());
    let calls = running
        .output
        .attach_pool(piped(WorkerId(1), out, err, secret(0)), true, []);
    calls.begin(secret(1));
    File::from(out_write).write_all(b"says hunter22").unwrap();
    let record = LogRecord {
        time_ms: 1,
        level: Level::Info,
        message: "key s3cret-key\nhunter22".to_owned(),
        fields: serde_json::Map::from_iter([("a".to_owned(), "hunter22".into())]),
    };
    calls.log(Some(secret(1).key()), &record);
    let (done, ended) = channel();
    calls.end(secret(1).key(), move |captured| done.send(captured).unwrap());
    let captured = ended.recv_timeout(LIMIT).unwrap();
    assert_eq!(captured.stdout_bytes, 13);
    let mut kept = running.kept();
    kept.sort();
    let expected = [
        pair("log", "info *** {\"a\":\"***\"}"),
        pair("log", "info key ***"),
        pair("stdout", "says ***"),
    ];
    assert_eq!(kept, expected);
}

#[test]
fn the_spool_is_in_memory_and_survives_a_restart_of_fnd() {
    for how in [End::Stop, End::Kill] {
        let mut world = World::new(secret(1));
        world.print(Stream::Stdout, b"one hunter22\nhunt");
        assert_eq!((world.files("spool").len(), world.files("memory").len()), (1, 1));
        assert!(is_on_disk(&world.state.path().join("memory")), "it is not masked");
        for place in ["spool", "logs"] {
            assert!(!is_on_disk(&world.state.path().join(place)), "{place}");
        }
        world.end(how);
        world.adopt();
        world.print(Stream::Stdout, b"er22\n");
        let captured = world.finish();
        assert_eq!(data(&captured.result.unwrap()), "one hunter22\nhunter22\n");
        assert_eq!(world.kept(), [pair("stdout", "one ***"), pair("stdout", "***")]);
        world.output.release(WorkerId(7));
        // No other command follows, as on a node on which nothing more runs.
        let since = clock::monotonic();
        while (world.spools(), world.files("memory").len()) != (0, 0) {
            assert!(since.elapsed() < LIMIT, "the spool stays");
            std::thread::yield_now(); // polled: nothing reports it
        }
    }
}

#[test]
fn a_spool_without_fingerprints_is_removed_unread_and_the_output_says_so() {
    let mut world = World::new(secret(1));
    world.print(Stream::Stdout, b"one hunter22\nrest");
    world.end(End::Stop);
    world.output.salvage(HashSet::new());
    let kept = world.kept();
    assert_eq!((kept.len(), &kept[0]), (2, &pair("stdout", "one ***")));
    assert!(kept[1].1.contains("could not be masked"), "{kept:?}");
    assert_eq!((world.spools(), world.files("memory").len()), (0, 0));
    world.end(End::Stop);
    world.output.salvage(HashSet::new());
    assert_eq!(world.kept(), kept, "it is said once");
}

#[test]
fn the_output_of_a_worker_is_withheld_if_its_fingerprints_are_gone() {
    let mut world = World::new(secret(1));
    world.print(Stream::Stdout, b"one hunter22\nrest");
    world.end(End::Stop);
    world.meta.mask = None;
    world.adopt();
    world.print(Stream::Stdout, b"after hunter22\n");
    let captured = world.finish();
    assert_eq!((captured.stdout_bytes, captured.result), (15, None));
    let kept = world.kept();
    assert_eq!((kept.len(), &kept[0]), (2, &pair("stdout", "one ***")));
    assert!(kept[1].1.contains("could not be masked"), "{kept:?}");
    world.output.release(WorkerId(7));
    wait(world.output.settle());
    assert_eq!((world.spools(), world.files("memory").len()), (0, 0));
    assert!(!is_on_disk(world.state.path()));
}

#[test]
fn a_restart_of_the_machine_loses_the_spool_and_the_output_says_so() {
    let mut world = World::new(secret(1));
    world.print(Stream::Stdout, b"one hunter22\nrest");
    world.end(End::Kill);
    world.output.stop();
    std::fs::remove_dir_all(world.state.path().join("memory")).unwrap();
    world.output = super::restart::start(world.state.path());
    world.output.salvage(HashSet::new());
    let kept = world.kept();
    assert!(kept.last().unwrap().1.contains("only in memory"), "{kept:?}");
    assert_eq!(world.spools(), 0);
}
