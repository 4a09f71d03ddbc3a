//! How a worker begins and ends, and which frames it has to accept.

use crate::runtimes;
use crate::worker::{Answer, Call, Worker};
use fnd_core::records::protocol::{FailureKind, WorkerMessage, cancel};

/// A frame of a type no worker knows, which it may skip.
fn optional_frame() -> Vec<u8> {
    let mut frame = vec![5, 0, 0, 0, 200, 2, 0, 0];
    frame.extend_from_slice(&9_u64.to_le_bytes());
    frame.extend_from_slice(b"\0\xff{\n\0");
    frame
}

#[test]
fn a_worker_reports_its_protocol_and_its_concurrency() {
    for runtime in runtimes::all() {
        let (_worker, ready) = Worker::serve(&runtime, &runtime.function("echo").unwrap());
        assert_eq!(ready.protocol, 1, "{}", runtime.id);
        assert!(ready.concurrency >= 1, "{}", runtime.id);
    }
}

#[test]
fn at_stop_a_worker_finishes_and_exits_with_0() {
    for runtime in runtimes::all() {
        let (mut worker, _) = Worker::serve(&runtime, &runtime.function("echo").unwrap());
        let call = worker.begin(&Call::text("last"));
        worker.ask_to_stop();
        let (answered, answer) = worker.answer();
        assert_eq!((answered, answer.text().as_str()), (call, "last"), "{}", runtime.id);
        assert_eq!(worker.next_message(), None, "{}", runtime.id);
        assert_eq!(worker.exit_code(), Some(0), "{}", runtime.id);
    }
}

#[test]
fn at_the_end_of_the_socket_a_worker_exits() {
    for runtime in runtimes::all() {
        let (mut worker, _) = Worker::serve(&runtime, &runtime.function("echo").unwrap());
        worker.call(&Call::text("x"));
        worker.hang_up();
        assert_eq!(worker.exit_code(), Some(0), "{}", runtime.id);
    }
}

#[test]
fn code_that_does_not_load_is_an_error_of_no_call() {
    for runtime in runtimes::all().iter().filter(|runtime| !runtime.compiles()) {
        let mut worker = Worker::start(runtime, &runtime.function("broken").unwrap(), "");
        let Some(WorkerMessage::Error { call: 0, failure }) = worker.next_message() else {
            panic!("{} does not say why", runtime.id);
        };
        assert_eq!(failure.kind, FailureKind::Error, "{}", runtime.id);
        assert!(!failure.message.is_empty(), "{}", runtime.id);
        assert_ne!(worker.exit_code(), Some(0), "{}", runtime.id);
    }
}

#[test]
fn a_handler_that_is_not_there_is_named() {
    let all = runtimes::all();
    for runtime in all.iter().filter(|runtime| runtime.id != "exec" && !runtime.compiles()) {
        let mut worker = Worker::start(runtime, &runtime.function("echo").unwrap(), "elsewhere");
        let Some(WorkerMessage::Error { call: 0, failure }) = worker.next_message() else {
            panic!("{} does not say why", runtime.id);
        };
        // The Perl runtime is an example in a document and always names `handler`.
        let named = failure.message.contains("elsewhere") || failure.message.contains("handler");
        assert!(named, "{}: {}", runtime.id, failure.message);
        assert_ne!(worker.exit_code(), Some(0), "{}", runtime.id);
    }
}

#[test]
fn what_a_compiler_says_has_its_place() {
    for runtime in runtimes::all().iter().filter(|runtime| runtime.compiles()) {
        let place = match runtime.id.as_str() {
            "go" => "broken.go:3:15: ",
            "dotnet" => "broken.cs(7,16): error ",
            _ => "broken.",
        };
        let scratch = tempfile::tempdir().unwrap();
        let compiled = runtime.compiled(&runtime.function("broken").unwrap(), "", scratch.path());
        let why = compiled.unwrap_err();
        assert!(why.lines().last().unwrap().starts_with(place), "{why}");
    }
}

#[test]
fn a_handler_that_is_not_there_is_named_by_the_compiler_or_by_the_worker() {
    for runtime in runtimes::all().iter().filter(|runtime| runtime.compiles()) {
        let scratch = tempfile::tempdir().unwrap();
        let echo = runtime.function("echo").unwrap();
        let why = match runtime.compiled(&echo, "Elsewhere", scratch.path()) {
            Err(why) => why,
            Ok(_) => match Worker::start(runtime, &echo, "Elsewhere").next_message() {
                Some(WorkerMessage::Error { call: 0, failure }) => failure.message,
                other => panic!("{} does not say why: {other:?}", runtime.id),
            },
        };
        assert!(why.contains("Elsewhere"), "{}: {why}", runtime.id);
    }
}

#[test]
fn frames_that_may_be_skipped_are() {
    for runtime in runtimes::all() {
        let (mut worker, _) = Worker::serve(&runtime, &runtime.function("echo").unwrap());
        for word in ["one", "two"] {
            worker.send(&optional_frame());
            assert_eq!(worker.call(&Call::text(word)).text(), word, "{}", runtime.id);
        }
    }
}

#[test]
fn calls_wait_for_each_other_where_the_worker_reports_that_it_takes_several() {
    for runtime in runtimes::all() {
        let Some(entry) = runtime.supports("gate") else {
            continue;
        };
        let (mut worker, ready) = Worker::serve(&runtime, &entry);
        assert!(ready.concurrency > 1, "{}", runtime.id);
        // First all calls at once, the last of which opens the gate; then one after the other, on the same worker.
        let calls = u64::from(ready.concurrency.min(8));
        for n in 1..=calls {
            worker.begin(&Call::text(if n < calls { "wait" } else { "open" }));
        }
        let mut answers: Vec<u64> = (0..calls).map(|_| worker.answer().0).collect();
        answers.sort_unstable();
        assert_eq!(answers, (1..=calls).collect::<Vec<_>>(), "{}", runtime.id);
        for _ in 0..3 {
            assert_eq!(worker.call(&Call::text("wait")).text(), "wait", "{}", runtime.id);
        }
    }
}

/// A1: one of several calls ends, the others and the worker go on.
#[test]
fn a_worker_that_knows_cancel_ends_one_call_and_answers_it() {
    for runtime in runtimes::all() {
        let Some(entry) = runtime.supports("cancel") else {
            continue;
        };
        let (mut worker, ready) = Worker::serve(&runtime, &entry);
        assert!(ready.cancel, "{}", runtime.id);
        // The context in Go ends at the deadline, too.
        let wait = Call {
            deadline_ms: Some(4_000_000_000_000),
            ..Call::text("wait")
        };
        let waiting = [(); 2].map(|()| worker.begin(&wait));
        assert_eq!(worker.call(&Call::text("one")).text(), "one", "{}", runtime.id);
        worker.send(&cancel(waiting[0]).joined());
        assert_eq!(worker.answer().0, waiting[0], "{}", runtime.id);
        assert_eq!(worker.call(&Call::text("two")).text(), "two", "{}", runtime.id);
        // One that is over, and one that has not begun when it is cancelled.
        worker.send(&cancel(waiting[0]).joined());
        let late = worker.begin(&wait);
        worker.send(&cancel(late).joined());
        assert_eq!(worker.answer().0, late, "{}", runtime.id);
        worker.send(&cancel(waiting[1]).joined());
        assert_eq!(worker.answer().0, waiting[1], "{}", runtime.id);
        worker.ask_to_stop();
        assert_eq!(worker.exit_code(), Some(0), "{}", runtime.id);
    }
}

#[test]
fn a_worker_that_does_not_know_cancel_skips_it() {
    for runtime in runtimes::all() {
        let (mut worker, ready) = Worker::serve(&runtime, &runtime.function("echo").unwrap());
        if !ready.cancel {
            worker.send(&cancel(1).joined());
            assert_eq!(worker.call(&Call::text("on")).text(), "on", "{}", runtime.id);
        }
    }
}

#[test]
fn a_call_that_arrives_while_another_one_runs_is_taken() {
    for runtime in runtimes::all() {
        let Some(entry) = runtime.supports("gate") else {
            continue;
        };
        let (mut worker, _) = Worker::serve(&runtime, &entry);
        let waiting = worker.begin(&Call::text("wait"));
        // Whether the first call is still being answered or not, the second one is not left in the socket.
        fnd_tests::wait::pause();
        worker.begin(&Call::text("open"));
        let mut answers = [worker.answer().0, worker.answer().0];
        answers.sort_unstable();
        assert_eq!(answers, [waiting, waiting + 1], "{}", runtime.id);
    }
}

#[test]
fn a_json_payload_that_is_none_fails_the_call_only() {
    for runtime in runtimes::all()
        .iter()
        .filter(|runtime| !["exec", "bash", "lambda"].contains(&runtime.id.as_str()))
    {
        let (mut worker, _) = Worker::serve(runtime, &runtime.function("echo").unwrap());
        let (kind, _) = worker.call(&Call::json("{\"a\":")).error();
        assert_eq!(kind, FailureKind::Error, "{}", runtime.id);
        let answer = worker.call(&Call::text("fine"));
        assert!(matches!(answer, Answer::Result(..)), "{}", runtime.id);
    }
}
