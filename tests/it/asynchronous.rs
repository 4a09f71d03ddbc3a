//! Work that was accepted with 202: dead letters, replay, idempotency keys, priority, retention, backup.

use fnd_core::api::{DeadLetterList, InvocationView};
use fnd_tests::ask::word;
use fnd_tests::fnd::Setup;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, wait_until};
use fnd_wire::ids::InvocationId;
use std::os::unix::fs::PermissionsExt as _;

const FAILS: &str = "# /// fnd\n# on_load = false\n# ///\ncat >&2\n[ -e \"$STATE_DIRECTORY/mended\" ]\n";
const COUNTS: &str =
    "# /// fnd\n# on_load = false\n# ///\necho x >>\"$STATE_DIRECTORY/runs\"\nwc -l <\"$STATE_DIRECTORY/runs\"\n";

fn letters(fnd: &Fnd) -> Vec<InvocationId> {
    let list: DeadLetterList = fnd.client().get("/v1/dead-letters").json();
    list.dead_letters.iter().map(|letter| letter.invocation.id).collect()
}

/// The count of dead letters comes first.
#[test]
fn letters_replays_keys_and_priorities() {
    let mut fnd = Fnd::start();
    what_gave_up_is_listed_redriven_and_dropped(&mut fnd);
    replay_runs_again_with_the_same_payload(&fnd);
    a_key_lasts_over_the_end_a_restart_and_a_hundred_at_once(&mut fnd);
    greater_priorities_begin_first_also_after_a_restart(&mut fnd);
    fnd.finish();
}

fn what_gave_up_is_listed_redriven_and_dropped(fnd: &mut Fnd) {
    fnd.drop_file("mail.sh", FAILS);
    fnd.wait_ready("mail");
    let ids: Vec<_> = ["1", "2", "3"].map(|n| fnd.wait_end(fnd.queue("mail", n)).id).into();
    // A synchronous call is no dead letter: its caller got the failure.
    let _ = fnd.invoke("mail", "4");
    assert_eq!(letters(fnd), [ids[2], ids[1], ids[0]]);
    assert_eq!(
        (fnd.status().dead_letters, fnd.function("mail").unwrap().dead_letters),
        (3, 3)
    );
    let id = ids[0].to_string();
    let shown = fnd.ctl(&["dead-letters", "show", &id]).expect_code(0).out();
    assert!(
        shown.contains("payload       1\n") && shown.contains("reason        exit-1"),
        "{shown}"
    );
    let listed = fnd
        .ctl(&["dead-letters", "list", "mail", "-o", "wide"])
        .expect_code(0)
        .out();
    assert_eq!(listed.lines().count(), 4, "{listed}");

    std::fs::write(fnd.path("state/home/mail/mended"), "").unwrap();
    let output = fnd.ctl(&["dead-letters", "redrive", &id]).expect_code(0).out();
    let new = InvocationId::parse(output.trim().rsplit(' ').next().unwrap()).unwrap();
    let view = fnd.wait_end(new);
    assert_eq!(
        (word(&view.state), word(&view.trigger), view.replay_of),
        ("succeeded".into(), "redrive".into(), Some(ids[0]))
    );
    assert!(fnd.logs(new).iter().any(|line| line.text == "1"));
    let again = fnd.ctl(&["dead-letters", "redrive", &id]).expect_code(3);
    assert!(again.stderr.contains("is no dead letter"), "{again}");
    fnd.crash();
    fnd.launch();
    fnd.wait_ready("mail");
    assert_eq!(letters(fnd), [ids[2], ids[1]]);
    let _ = fnd.ctl(&["dead-letters", "redrive"]).expect_code(2);
    let redriven = fnd
        .ctl(&["dead", "redrive", "mail", "--reason", "exit-1", "-o", "json"])
        .expect_code(0)
        .json();
    assert_eq!(redriven.as_array().unwrap().len(), 2);
    for one in redriven.as_array().unwrap() {
        let view = fnd.wait_end(InvocationId::parse(one["redriven_as"].as_str().unwrap()).unwrap());
        assert_eq!(word(&view.state), "succeeded");
    }
    assert_eq!(fnd.status().dead_letters, 0);

    std::fs::remove_file(fnd.path("state/home/mail/mended")).unwrap();
    fnd.wait_end(fnd.queue("mail", "5"));
    assert!(fnd.ctl(&["status"]).expect_code(0).out().contains("dead letters: 1"));
    let dropped = fnd.ctl(&["dead-letters", "drop", "--all"]).expect_code(0).out();
    assert_eq!((dropped.trim(), letters(fnd).len()), ("dropped 1", 0));
}

fn replay_runs_again_with_the_same_payload(fnd: &Fnd) {
    fnd.drop_file("echo.sh", "# /// fnd\n# on_load = false\n# ///\ncat\n");
    fnd.wait_ready("echo");
    let id = fnd.wait_end(fnd.queue("echo", "{\"n\": 1}")).id;
    let new = fnd.ctl(&["replay", &id.to_string()]).expect_code(0).out();
    let view = fnd.wait_end(InvocationId::parse(new.trim()).unwrap());
    assert_eq!((word(&view.trigger), view.replay_of), ("replay".into(), Some(id)));
    assert_eq!(fnd.result(view.id).text(), "{\"n\": 1}");
    // The payload of a synchronous call that succeeded is not kept, and the error says so.
    let (_, called) = fnd.run("echo", "2");
    let refused = fnd.ctl(&["replay", &called.id.to_string()]).expect_code(3);
    assert!(refused.stderr.contains("was not kept"), "{refused}");
    let listed = fnd
        .ctl(&["history", "echo", "--trigger", "replay", "-o", "json"])
        .expect_code(0)
        .json();
    assert_eq!(listed["invocations"].as_array().unwrap().len(), 1);
}

fn a_key_lasts_over_the_end_a_restart_and_a_hundred_at_once(fnd: &mut Fnd) {
    fnd.drop_file("counts.sh", COUNTS);
    fnd.wait_ready("counts");
    let ask = |fnd: &Fnd, verb: &str, key: &str| {
        let path = format!("/v1/functions/counts/{verb}");
        fnd.client().call("POST", &path, &[("idempotency-key", key)], b"")
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..100)
            .map(|_| scope.spawn(|| ask(fnd, "invoke", "one").text()))
            .collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| answer.trim() == "1"), "{answers:?}");
    assert_eq!(ask(fnd, "invoke", "one").text().trim(), "1");
    let queued = Fnd::id_of(&ask(fnd, "invocations", "two"));
    fnd.wait_end(queued);
    fnd.crash();
    fnd.launch();
    fnd.wait_ready("counts");
    assert_eq!(Fnd::id_of(&ask(fnd, "invocations", "two")), queued);
    assert_eq!(ask(fnd, "invoke", "one").text().trim(), "1");
    assert_eq!(ask(fnd, "invoke", "other").text().trim(), "3");
    assert_eq!(fnd.history("counts").len(), 3);
}

fn greater_priorities_begin_first_also_after_a_restart(fnd: &mut Fnd) {
    fnd.drop_file(
        "line.sh",
        "# /// fnd\n# on_load = false\n# [pool]\n# max = 1\n# ///\nuntil [ -e \"$STATE_DIRECTORY/go\" ]; do sleep 0.05; done\n",
    );
    fnd.wait_ready("line");
    let queue = |priority: &str| {
        let out = fnd
            .ctl(&["invoke", "line", "--priority", priority])
            .expect_code(0)
            .out();
        InvocationId::parse(out.trim()).unwrap()
    };
    let first = queue("0");
    let _ = fnd.wait_invocation(first, "to run", |view| word(&view.state) == "running");
    let ids = [queue("-5"), queue("0"), queue("7")];
    fnd.crash();
    fnd.launch();
    fnd.wait_ready("line");
    std::fs::write(fnd.path("state/home/line/go"), "").unwrap();
    let mut views: Vec<InvocationView> = ids.iter().map(|id| fnd.wait_end(*id)).collect();
    views.sort_by(|a, b| a.started_at.cmp(&b.started_at));
    let order: Vec<_> = views.iter().map(|view| view.id).collect();
    assert_eq!(order, [ids[2], ids[1], ids[0]]);
}

#[test]
fn history_is_forgotten_by_the_manifest_and_by_fnd_toml_also_later() {
    let mut fnd = Fnd::start_with(&Setup::default().config("[history]\nkeep_bytes = \"100M\"\n"));
    fnd.drop_file(
        "few.sh",
        "# /// fnd\n# on_load = false\n# [history]\n# keep = 3\n# ///\n:\n",
    );
    fnd.drop_file("many.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    fnd.wait_ready("few");
    fnd.wait_ready("many");
    for _ in 0..8 {
        fnd.wait_end(fnd.queue("few", ""));
        fnd.wait_end(fnd.queue("many", ""));
    }
    // Retention is applied after a number of ends, after an hour, and when its settings change.
    fnd.stop();
    fnd.launch();
    fnd.wait_ready("few");
    wait_until("`few` to be three", PATIENCE, || {
        (fnd.history("few").len() == 3).then_some(())
    });
    assert_eq!(fnd.history("many").len(), 8);
    let disk = fnd.status().disk.unwrap();
    assert_eq!(disk.history_keep_bytes, 100 << 20);
    assert!(disk.history_bytes > 0 && disk.free_bytes > Some(0), "{disk:?}");

    fnd.drop_file(
        "many.sh",
        "# /// fnd\n# on_load = false\n# [history]\n# keep = 2\n# ///\n:\n",
    );
    wait_until("`many` to be two", PATIENCE, || {
        (fnd.history("many").len() == 2).then_some(())
    });
    std::fs::write(fnd.path("fnd.toml"), "[history]\nkeep_for = \"1s\"\n").unwrap();
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    wait_until("all but the last run to be gone", PATIENCE, || {
        (fnd.history("few").len() == 1).then_some(())
    });
    fnd.finish();
}

#[test]
fn a_backup_of_a_running_fnd_is_restored_on_an_empty_machine() {
    let mut fnd = Fnd::start();
    fnd.drop_file("counts.sh", COUNTS);
    fnd.drop_file("once.sh", "echo x >>\"$STATE_DIRECTORY/once\"\n");
    fnd.wait_ready("counts");
    fnd.wait_run("once");
    let id = fnd.wait_end(fnd.queue("counts", "")).id;
    let later = fnd.ctl(&["invoke", "counts", "--in", "1h"]).expect_code(0).out();
    let archive = fnd.path("fnd.tar");
    let at = |path: &std::path::Path| path.display().to_string();
    let output = fnd.ctl(&["backup", &at(&archive)]).expect_code(0).out();
    assert!(output.contains("files and directories"), "{output}");
    assert_eq!(archive.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let _ = fnd.ctl(&["backup", &at(&archive)]).expect_code(2);
    let checked = fnd.ctl(&["backup", "--verify", &at(&archive)]).expect_code(0).out();
    assert!(
        checked.contains("is whole") && checked.contains("files and directories"),
        "{checked}"
    );
    for (damage, what) in [
        (
            &(|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2)) as &dyn Fn(&mut Vec<u8>),
            "ends inside an entry",
        ),
        (&|bytes: &mut Vec<u8>| bytes[150] ^= 1, "checksum"),
        (
            &|bytes: &mut Vec<u8>| {
                let begin = b"SQLite format 3";
                let at = bytes.windows(begin.len()).position(|window| window == begin).unwrap();
                bytes[at + 3 * 4096..at + 4 * 4096].fill(0x5a);
            },
            "is damaged",
        ),
    ] {
        let mut bytes = std::fs::read(&archive).unwrap();
        damage(&mut bytes);
        let broken = fnd.path("broken.tar");
        std::fs::write(&broken, bytes).unwrap();
        let output = fnd.ctl(&["backup", "--verify", &at(&broken)]).expect_code(1).out();
        assert!(output.contains(what), "{what}: {output}");
    }

    let restore = |fnd: &Fnd| {
        let mut arguments = vec!["restore".to_owned(), at(&archive)];
        for (option, path) in [
            ("--config", "fnd.toml"),
            ("--functions", "functions"),
            ("--state", "state"),
        ] {
            arguments.extend([option.to_owned(), at(&fnd.path(path))]);
        }
        fnd.ctl(&arguments)
    };
    let running = restore(&fnd).expect_code(7);
    assert!(running.stderr.contains("fnd is running"), "{running}");
    let home = fnd.path("state/home/counts/runs");
    let mode = home.metadata().unwrap().permissions().mode();
    fnd.stop();
    let there = restore(&fnd).expect_code(2);
    assert!(there.stderr.contains("exists already"), "{there}");
    for place in ["functions", "state"] {
        std::fs::remove_dir_all(fnd.path(place)).unwrap();
    }
    std::fs::create_dir(fnd.path("functions")).unwrap();
    // The package starts fnd when it is installed, so there is an empty ledger.
    fnd.launch();
    fnd.stop();
    assert!(fnd.path("state/state/ledger.db").exists());
    let restored = restore(&fnd).expect_code(0);
    assert!(restored.out().contains("restored"), "{restored}");
    fnd.launch();
    fnd.wait_ready("counts");
    assert_eq!(word(&fnd.invocation(id).state), "succeeded");
    assert_eq!(
        word(&fnd.invocation(InvocationId::parse(later.trim()).unwrap()).state),
        "queued"
    );
    assert_eq!(
        fnd.history("once").len(),
        1,
        "what has run by being there does not run again"
    );
    assert_eq!(home.metadata().unwrap().permissions().mode(), mode);
    assert_eq!(fnd.invoke("counts", "").text().trim(), "2", "what it keeps is there");
    fnd.finish();
}
