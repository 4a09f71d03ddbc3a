//! How attempts end: verdicts, timeout, deadline, cancel.

use super::bench::*;
use crate::idempotency::IdempotencyKey;
use crate::records::outcome::{Class, Reason, Trigger};
use crate::run::{Action, Answered, Event, Exited, FunctionKind, Poll, Pool, ReplyTo, Retry, Rules, Submit, TooLarge};
use fnd_wire::frame::ExitStatus::{self, Code, Signal};
use fnd_wire::ids::WorkerId;

/// Runs one attempt to this end and checks reason and message.
fn check(rules: Rules, exited: Exited, expected: &str) {
    check_run(rules, Trigger::Manual, exited, expected);
}

fn check_run(rules: Rules, trigger: Trigger, exited: Exited, expected: &str) {
    let mut b = Bench::with(rules);
    b.event(Event::Submit(Box::new(Submit {
        trigger,
        ..submit("f", 1)
    })));
    b.spawned(1);
    b.exited(exited);
    let record = b.last.iter().find_map(|action| match action {
        Action::Record(attempt, _) => Some(format!("{} | {}", attempt.reason, attempt.message)),
        _ => None,
    });
    assert_eq!(record.as_deref(), Some(expected));
}

fn with_error_line(status: ExitStatus, line: &str) -> Exited {
    Exited {
        last_error_line: Some(line.to_owned()),
        ..exit(1, status)
    }
}

fn polling() -> Rules {
    Rules {
        poll: Some(Poll {
            repeat: secs(15),
            until: secs(60),
        }),
        ..rules()
    }
}

#[test]
fn exit_codes_are_as_documented() {
    check(rules(), exit(1, Code(0)), "ok | ");
    check(rules(), with_error_line(Code(0), "just log"), "ok | ");
    check(rules(), exit(1, Code(75)), "transient | exit code 75");
    check(rules(), exit(1, Code(65)), "failed | exit code 65");
    check(rules(), exit(1, Code(3)), "exit-3 | exit code 3");
    check(rules(), with_error_line(Code(3), "no disk"), "exit-3 | no disk");
    check(rules(), exit(1, Code(99)), "exit-99 | exit code 99");
    check(polling(), exit(1, Code(99)), "execute-again | exit code 99");
}

#[test]
fn a_permission_that_deno_refused_names_its_key() {
    let line = "NotCapable: Requires net access to \"example.com:443\", run again with the --allow-net flag";
    check(rules(), with_error_line(Code(1), line), &format!("exit-1 | {line}"));
    let deno = Rules {
        runtime: "deno".to_owned(),
        ..rules()
    };
    let expected = "exit-1 | NotCapable: Requires net access to \"example.com:443\": put `permissions = [\"net=example.com\"]` into its manifest";
    check(deno.clone(), with_error_line(Code(1), line), expected);
    let old = "error: invalid port in 'unix:/run/fnd/http/1/http.sock': '/run/fnd/http/1/http.sock'";
    let needs = "handlers and functions with `[access]` need deno 2.9 or newer; run `fndctl runtimes install deno`";
    check(deno, with_error_line(Code(1), old), &format!("exit-1 | {old}: {needs}"));
}

#[test]
fn a_signal_is_named() {
    check(rules(), exit(1, Signal(11)), "signal-SEGV | killed by SIGSEGV");
    check(rules(), exit(1, Signal(40)), "signal-40 | killed by signal 40");
    check(
        rules(),
        with_error_line(Signal(9), "no reason"),
        "signal-KILL | killed by SIGKILL",
    );
    check(
        rules(),
        with_error_line(Signal(6), "FATAL ERROR: Reached heap limit"),
        "signal-ABRT | killed by SIGABRT: FATAL ERROR: Reached heap limit",
    );
}

#[test]
fn the_counters_of_the_kernel_come_before_the_status() {
    let oom = |status, oom_kills, oom_shared| Exited {
        oom_kills,
        oom_shared,
        ..exit(1, status)
    };
    check(
        rules(),
        oom(Signal(9), 3, false),
        "oom | at the limit of 256 MiB, 3 processes killed (limits.memory)",
    );
    check(
        rules(),
        oom(Code(0), 1, false),
        "oom | at the limit of 256 MiB, 1 process killed (limits.memory)",
    );
    check(rules(), oom(Code(0), 1, true), "ok | ");
    check(
        rules(),
        oom(Code(1), 1, true),
        "oom | at the limit of 256 MiB, 1 process killed (limits.memory)",
    );
}

#[test]
fn processes_left_in_the_background_are_named() {
    let left = |status| Exited {
        stragglers: true,
        ..with_error_line(status, "why")
    };
    let words = "processes that it left in the background were killed when it ended; `wait` waits for them";
    check(rules(), left(Code(0)), &format!("ok | {words}"));
    // A failure has a message of its own.
    check(rules(), left(Code(1)), "exit-1 | why");
}

#[test]
fn a_refused_fork_is_the_reason_of_an_error_exit_only() {
    let refused = |status| Exited {
        pids_refused: 2,
        ..with_error_line(status, "fork: retry")
    };
    let words = "pids | a fork was refused at the limit of 64 processes (limits.pids)";
    check(rules(), refused(Code(1)), words);
    check(rules(), refused(Code(0)), "ok | ");
    check(rules(), refused(Code(75)), "transient | fork: retry");
}

fn large(code: u8, is_output: bool) -> Exited {
    let bytes = 7_000_000;
    Exited {
        result_too_large: Some(TooLarge { bytes, is_output }),
        ..exit(1, Code(code))
    }
}

/// The disk is slow: the end waits for the results before it.
#[test]
fn an_end_that_is_reported_later_counts_as_what_it_was() {
    let mut b = Bench::with(rules());
    b.submit(1);
    b.spawned(1);
    b.wait(secs(1));
    b.event(Event::EndsLater(WorkerId(1)));
    let meanwhile = b.wait(secs(1000));
    assert!(!meanwhile.contains("term"), "{meanwhile}");
    b.cancel(1);
    b.code(1, 0);
    let record = b.last.iter().find_map(|action| match action {
        Action::Record(attempt, _) => Some((attempt.reason, attempt.duration_us)),
        _ => None,
    });
    assert_eq!(record, Some((Reason::Ok, 1_000_000)));
}

#[test]
fn a_result_too_large_is_an_error() {
    let words = "result-too-large | the result has 7000000 bytes, the limit is 6 MiB (limits.result)";
    check(rules(), large(0, false), words);
    check(polling(), large(99, false), words);
    check(rules(), large(4, false), "exit-4 | exit code 4");
    let words = "result-too-large | standard output has 7000000 bytes, a result may have 6 MiB (limits.result)";
    check(rules(), large(0, true), words);
    check(polling(), large(99, true), words);
    check(rules(), large(4, true), "exit-4 | exit code 4");
}

#[test]
fn output_too_large_for_a_result_is_log_where_nobody_asked_for_a_result() {
    let words = "ok | standard output has 7000000 bytes, a result may have 6 MiB (limits.result): it is log only";
    let failed = "result-too-large | standard output has 7000000 bytes, a result may have 6 MiB (limits.result)";
    for (trigger, is_output, expected) in [
        (Trigger::Schedule, true, words),
        (Trigger::Event, true, words),
        (Trigger::Http, true, failed),
        (Trigger::Function, true, failed),
        (Trigger::Redrive, true, failed),
        (
            Trigger::Schedule,
            false,
            "result-too-large | the result has 7000000 bytes, the limit is 6 MiB (limits.result)",
        ),
    ] {
        check_run(rules(), trigger, large(0, is_output), expected);
    }
}

#[test]
fn a_cgi_script_that_printed_no_answer_is_a_bad_answer_unless_it_failed() {
    let bad = |code| Exited {
        bad_answer: Some("it printed nothing".to_owned()),
        ..exit(1, Code(code))
    };
    check(rules(), bad(0), "bad-answer | it printed nothing");
    check(rules(), bad(4), "exit-4 | exit code 4");
    check(polling(), bad(99), "execute-again | exit code 99");
}

#[test]
fn messages_are_cut_at_4_kib_between_characters() {
    let mut b = Bench::with(rules());
    b.submit(1);
    b.exited(with_error_line(Code(1), &format!("x{}", "é".repeat(4096))));
    let record = b.last.iter().find_map(|action| match action {
        Action::Record(attempt, _) => Some(attempt.message.len()),
        _ => None,
    });
    assert_eq!(record, Some(4095));
}

/// Rules with a timeout of three seconds.
fn limited() -> Rules {
    Rules {
        timeout: Some(secs(3)),
        ..rules()
    }
}

#[test]
fn a_timeout_terminates_answers_and_kills_after_the_grace() {
    let mut b = Bench::with(limited());
    assert_eq!(b.submit(1), "note 1; spawn w1 a1 1");
    b.spawned(1);
    assert_eq!(b.wait(secs(2)), "");
    assert_eq!(
        b.wait(secs(1)),
        "term w1; reply 1: it did not end within 3s (limits.timeout)"
    );
    assert_eq!(b.wait(secs(4)), "");
    assert_eq!(b.wait(secs(1)), "kill w1");
    assert_eq!(b.wait(secs(10)), "unkillable w1");
    assert_eq!(b.wait(secs(1000)), "");
    assert_eq!(b.exited(exit(1, Signal(9))), "record timeout: failed timeout");
}

#[test]
fn a_caller_waits_for_the_retry_after_a_timeout() {
    let mut rules = limited();
    rules.retry.retries = 1;
    rules.retry.on = vec![Class::Timeout];
    let mut b = Bench::with(rules);
    b.submit(1);
    b.spawned(1);
    assert_eq!(b.wait(secs(3)), "term w1");
    let ended = b.code(1, 143);
    assert!(!ended.contains("reply"), "{ended}");
    while !b.wait(secs(1)).contains("spawn w2") {}
    b.spawned(2);
    assert_eq!(
        b.wait(secs(3)),
        "term w2; reply 1: it did not end within 3s (limits.timeout)"
    );
}

#[test]
fn exit_0_after_the_timeout_is_still_a_timeout() {
    let mut b = Bench::with(limited());
    b.submit(1);
    b.spawned(1);
    b.wait(secs(3));
    assert_eq!(b.code(1, 0), "record timeout: failed timeout");
}

#[test]
fn an_exit_handled_late_but_before_the_tick_was_in_time() {
    let mut b = Bench::with(limited());
    b.submit(1);
    b.spawned(1);
    b.now.mono += secs(4);
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; reply 1: succeeded ok");
}

#[test]
fn a_caller_can_only_shorten_the_timeout() {
    for (asked, ends) in [(1, 1), (9, 3)] {
        let mut b = Bench::with(limited());
        b.event(Event::Submit(Box::new(Submit {
            timeout: Some(secs(asked)),
            ..submit("f", 1)
        })));
        b.spawned(1);
        b.wait(secs(ends) - std::time::Duration::from_millis(1));
        assert!(
            b.wait(std::time::Duration::from_millis(1)).starts_with("term w1"),
            "{asked}"
        );
    }
}

#[test]
fn nothing_is_sent_to_a_worker_that_is_still_starting() {
    let mut b = Bench::with(limited());
    b.submit(1);
    assert_eq!(b.wait(secs(3)), "reply 1: it did not end within 3s (limits.timeout)");
    assert_eq!(b.wait(secs(60)), "");
    assert_eq!(b.spawned(1), "term w1");
    assert_eq!(b.wait(secs(5)), "kill w1");
}

#[test]
fn the_deadline_ends_what_runs() {
    let mut b = Bench::with(Rules {
        deadline: Some(secs(90)),
        ..rules()
    });
    b.submit(1);
    b.spawned(1);
    let actions = b.wait(secs(90));
    assert_eq!(actions, "term w1; reply 1: it did not end within 90s (limits.deadline)");
    assert_eq!(b.code(1, 0), "record deadline: failed deadline Deadline");
}

#[test]
fn the_deadline_ends_what_is_queued_or_waits() {
    let mut rules = Rules {
        deadline: Some(secs(90)),
        ..rules()
    };
    rules.retry.retries = 1;
    rules.memory = 1024 * MIB;
    let mut b = Bench::with(rules.clone());
    b.event(installed(
        "g",
        1,
        Rules {
            deadline: None,
            ..rules
        },
    ));
    b.submit(1);
    b.code(1, 1);
    // The retry is due but finds no memory; the other invocation has never begun.
    b.request(submit("g", 3));
    b.submit(2);
    b.spawned(2);
    assert_eq!(
        b.wait(secs(90)),
        "update 1 failed deadline Deadline; reply 1: failed deadline Deadline; \
         update 2 failed deadline; reply 2: failed deadline"
    );
}

#[test]
fn cancel_terminates_what_runs_and_ends_what_waits_at_once() {
    let mut b = Bench::with(rules());
    b.submit(1);
    b.spawned(1);
    b.submit(2);
    assert_eq!(
        b.cancel(2),
        "update 2 cancelled cancelled; reply 2: cancelled cancelled; reply 99: done"
    );
    assert_eq!(b.cancel(1), "term w1; reply 99: done");
    assert_eq!(b.wait(secs(5)), "kill w1");
    assert_eq!(
        b.exited(exit(1, Signal(9))),
        "record cancelled: cancelled cancelled; reply 1: cancelled cancelled"
    );
    assert_eq!(b.cancel(1), "reply 99: not found");
}

#[test]
fn only_what_nobody_waits_for_and_has_not_begun_ends_with_its_caller() {
    let mut b = Bench::with(rules());
    let caller_left = |b: &mut Bench, n: u128, reply: u64| {
        let (id, reply) = (id(n), ReplyTo(reply));
        b.event(Event::CallerLeft { id, reply })
    };
    b.submit(1);
    b.spawned(1);
    b.submit(2);
    let keyed = |n, reply| Submit {
        idempotency_key: Some(IdempotencyKey::stored("k".into())),
        reply: Some(ReplyTo(reply)),
        ..submit("f", n)
    };
    b.request(keyed(3, 3));
    b.request(keyed(4, 4));
    b.enqueue(submit("f", 5));
    b.event(Event::Stored(id(5)));
    // The invocation runs, so it goes on.
    assert_eq!(caller_left(&mut b, 1, 1), "");
    // The number of another caller changes nothing.
    assert_eq!(caller_left(&mut b, 2, 77), "");
    assert_eq!(caller_left(&mut b, 2, 2), "update 2 cancelled cancelled");
    assert_eq!(caller_left(&mut b, 2, 2), "");
    // A caller with a key sends its request again and shares the invocation.
    assert_eq!(caller_left(&mut b, 4, 4), "");
    assert_eq!(caller_left(&mut b, 3, 3), "");
    // A queued invocation was accepted, so it must run.
    assert_eq!(caller_left(&mut b, 5, 5), "");
}

#[test]
fn cancel_during_the_grace_of_a_timeout_ends_the_invocation() {
    let mut b = Bench::with(Rules {
        timeout: Some(secs(3)),
        retry: crate::run::Retry {
            retries: 3,
            ..rules().retry
        },
        ..rules()
    });
    b.submit(1);
    b.spawned(1);
    b.wait(secs(3));
    assert_eq!(b.cancel(1), "reply 99: done");
    assert_eq!(
        b.code(1, 0),
        "record cancelled: cancelled cancelled; reply 1: cancelled cancelled"
    );
}

#[test]
fn late_and_doubled_answers_of_the_spawner_change_nothing() {
    let mut b = Bench::with(rules());
    b.submit(1);
    b.spawned(1);
    assert_eq!(b.spawned(1), "");
    b.code(1, 0);
    assert_eq!(b.code(1, 0), "forget w1");
    assert_eq!(b.spawned(1), "");
    assert_eq!(b.event(Event::Stored(id(1))), "");
    assert_eq!(b.event(Event::StoreFailed(id(5))), "");
}

#[test]
fn only_what_ran_as_a_process_of_its_own_has_temporary_files_to_release() {
    let releases = |b: &Bench| b.last.iter().any(|action| matches!(action, Action::Release { .. }));
    let mut script = Bench::with(rules());
    script.submit(1);
    script.spawned(1);
    script.exited(exit(1, Code(0)));
    assert!(releases(&script));

    let pool = Pool {
        min: 0,
        most: 1,
        concurrency: 1,
        idle: None,
        max_invocations: 0,
        max_age: None,
        spare: None,
        load_max: secs(60),
        alone: false,
    };
    let mut handler = Bench::with(Rules {
        kind: FunctionKind::Handler(pool),
        ..rules()
    });
    handler.submit(1);
    handler.spawned(1);
    let worker = WorkerId(1);
    handler.event(Event::WorkerReady {
        worker,
        concurrency: 1,
        cancels: false,
    });
    handler.event(Event::Answered(Box::new(Answered {
        worker,
        call: 1,
        reason: Reason::Ok,
        message: String::new(),
        result: None,
    })));
    assert_eq!(handler.actions(), "record ok: succeeded ok; reply 1: succeeded ok");
    assert!(
        !releases(&handler),
        "each call would cost a message to the spawner and its answer"
    );
}

fn counts(b: &Bench) -> (u64, u64) {
    let view = b.s.function(&name("f")).unwrap();
    (view.runs, view.failures)
}

#[test]
fn polls_and_retries_are_no_runs_of_their_own() {
    let mut b = Bench::with(Rules {
        poll: Some(Poll {
            repeat: secs(1),
            until: secs(9),
        }),
        retry: Retry {
            retries: 1,
            ..rules().retry
        },
        ..rules()
    });
    b.submit_stored(1);
    for worker in 1..=3 {
        b.code(worker, 99);
        assert_eq!(counts(&b), (0, 0), "it is not over");
        b.wait(secs(1));
    }
    b.code(4, 0);
    assert_eq!(counts(&b), (1, 0));
    b.submit_stored(2);
    b.code(5, 1);
    b.wait(secs(60));
    assert_eq!(counts(&b), (1, 0));
    b.code(6, 1);
    assert_eq!(counts(&b), (2, 1));
}

#[test]
fn a_run_that_was_being_cancelled_when_the_spawner_died_is_cancelled_without_an_exit_status() {
    let mut b = Bench::with(rules());
    b.submit(1);
    b.spawned(1);
    b.cancel(1);
    b.event(Event::SpawnerLost);
    let record = b.last.iter().find_map(|action| match action {
        Action::Record(attempt, _) => Some((attempt.reason, attempt.exit_code, attempt.signal)),
        _ => None,
    });
    assert_eq!(record, Some((Reason::Cancelled, None, None)));
}

#[test]
fn a_cancelled_run_is_no_failure_and_one_that_never_began_is_no_run() {
    let mut b = Bench::with(rules());
    b.submit_stored(1);
    b.submit_stored(2);
    b.cancel(2);
    assert_eq!(counts(&b), (0, 0), "it waited");
    b.spawned(1);
    b.cancel(1);
    b.code(1, 143);
    assert_eq!(counts(&b), (1, 0));
    b.submit_stored(3);
    b.event(Event::SpawnerLost);
    assert_eq!(counts(&b), (2, 1), "interrupted");
}
