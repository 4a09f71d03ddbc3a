//! Attempts after the first: retries with growing delays, and polls that get the previous result.

use fnd_core::records::outcome::{Exhausted, RunState};
use fnd_tests::ask::gaps_ms;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, wait_until};

/// Each of these has functions of its own.
#[test]
fn retries_and_polls() {
    let fnd = Fnd::start();
    the_gaps_grow_without_jitter(&fnd);
    fixed_backoff_and_the_cap(&fnd);
    some_exit_codes_are_not_retried(&fnd);
    a_transient_failure_is_over_when_it_is_over(&fnd);
    polls_bring_the_previous_result(&fnd);
    polling_gives_up_at_until(&fnd);
    the_deadline_ends_retries(&fnd);
    a_waiting_retry_can_be_seen_and_cancelled(&fnd);
    fnd.finish();
}

/// Without jitter the gaps are the interval, then twice that, and so on; never shorter.
fn the_gaps_grow_without_jitter(fnd: &Fnd) {
    let policy = "[retry]\nretries = 3\ninterval = \"100ms\"\nfactor = 2.0\njitter = \"none\"\n";
    fnd.install_beside("grows.sh", policy, "echo \"attempt $FND_ATTEMPT\" >&2\nexit 1\n");
    let view = fnd.wait_end(fnd.queue("grows", ""));
    assert_eq!(view.state, RunState::Failed);
    assert_eq!(view.exhausted, Some(Exhausted::Retries));
    assert_eq!(view.attempts, 4);
    assert_eq!(view.message, "attempt 4");
    let gaps = gaps_ms(&view.attempt_records);
    for (gap, least) in gaps.iter().zip([100, 200, 400]) {
        // Both time stamps are cut to milliseconds, and the clock may be adjusted between them.
        assert!(*gap >= least - 20, "{gaps:?}");
    }
}

fn fixed_backoff_and_the_cap(fnd: &Fnd) {
    let fixed = "[retry]\nretries = 2\ninterval = \"60ms\"\nbackoff = \"fixed\"\njitter = \"none\"\n";
    fnd.install_beside("fixed.sh", fixed, "exit 1\n");
    let capped =
        "[retry]\nretries = 3\ninterval = \"20ms\"\nfactor = 10.0\nmax_interval = \"50ms\"\njitter = \"none\"\n";
    fnd.install_beside("capped.sh", capped, "exit 1\n");
    for (name, attempts) in [("fixed", 3), ("capped", 4)] {
        let view = fnd.wait_end(fnd.queue(name, ""));
        assert_eq!(view.attempts, attempts, "{name}");
    }
}

fn some_exit_codes_are_not_retried(fnd: &Fnd) {
    fnd.install_beside("final.sh", "[retry]\nretries = 5\ninterval = \"1ms\"\n", "exit 65\n");
    fnd.install_beside(
        "picky.sh",
        "[retry]\nretries = 5\ninterval = \"1ms\"\nnot_on_exit = [4]\n",
        "exit 4\n",
    );
    fnd.install_beside(
        "only-transient.sh",
        "[retry]\nretries = 2\ninterval = \"1ms\"\non = [\"transient\"]\n",
        "exit 1\n",
    );
    for (name, reason) in [("final", "failed"), ("picky", "exit-4"), ("only-transient", "exit-1")] {
        let view = fnd.wait_end(fnd.queue(name, ""));
        assert_eq!(
            (view.attempts, view.reason.unwrap().to_string().as_str()),
            (1, reason),
            "{name}"
        );
        assert_eq!(view.exhausted, None, "{name}");
    }
}

fn a_transient_failure_is_over_when_it_is_over(fnd: &Fnd) {
    let script = "((FND_ATTEMPT == 3)) || exit 75\necho \"$FND_ATTEMPT\"\n";
    fnd.install_beside(
        "shaky.sh",
        "[retry]\nretries = 5\ninterval = \"5ms\"\njitter = \"none\"\n",
        script,
    );
    let (answer, view) = fnd.run("shaky", "");
    assert_eq!(answer.text().trim(), "3");
    assert_eq!(view.state, RunState::Succeeded);
    let reasons: Vec<String> = view.attempt_records.iter().map(|a| a.reason.to_string()).collect();
    assert_eq!(reasons, ["transient", "transient", "ok"]);
}

/// Exit 99 with a `[poll]` table is not a retry, and the next attempt gets the result of this one.
fn polls_bring_the_previous_result(fnd: &Fnd) {
    let script = "before=0\n[[ -z ${FND_PREVIOUS:-} ]] || before=$(cat \"$FND_PREVIOUS\")\necho $((before + 10)) >\"$FND_RESULT\"\n((FND_POLL == 3)) || exit 99\n";
    fnd.install_beside("polls.sh", "[poll]\nrepeat = \"10ms\"\nuntil = \"1m\"\n", script);
    let (answer, view) = fnd.run("polls", "");
    assert_eq!(answer.text().trim(), "40");
    assert_eq!((view.attempts, view.polls), (4, 3));
}

fn polling_gives_up_at_until(fnd: &Fnd) {
    fnd.install_beside(
        "never.sh",
        "[poll]\nrepeat = \"20ms\"\nuntil = \"200ms\"\n",
        "exit 99\n",
    );
    let view = fnd.wait_end(fnd.queue("never", ""));
    assert_eq!(view.state, RunState::Failed);
    assert_eq!(view.exhausted, Some(Exhausted::Poll));
    assert_eq!(view.reason.unwrap().to_string(), "execute-again");
}

/// The deadline covers everything: attempts and the delays between them.
fn the_deadline_ends_retries(fnd: &Fnd) {
    let manifest = "[limits]\ndeadline = \"500ms\"\n[retry]\nretries = 100\ninterval = \"50ms\"\nbackoff = \"fixed\"\n";
    fnd.install_beside("hurried.sh", manifest, "exit 1\n");
    let view = fnd.wait_end(fnd.queue("hurried", ""));
    assert_eq!(view.state, RunState::Failed);
    // The deadline was over either between two attempts or during one, which then ends for that reason.
    let under_one = view.reason.is_some_and(|reason| reason.to_string() == "deadline");
    assert!(under_one || view.exhausted == Some(Exhausted::Deadline), "{view:?}");
    assert!(view.attempts < 100);
}

/// While an invocation waits for a retry, its state is `waiting`, its record says until when, and it can be cancelled.
fn a_waiting_retry_can_be_seen_and_cancelled(fnd: &Fnd) {
    fnd.install_beside("patient.sh", "[retry]\nretries = 1\ninterval = \"1h\"\n", "exit 1\n");
    let id = fnd.queue("patient", "");
    let view = fnd.wait_invocation(id, "to wait for its retry", |view| view.state == RunState::Waiting);
    assert!(view.next_attempt_at.is_some());
    let status = wait_until("the status file to say so", PATIENCE, || {
        fnd.status_file("patient").filter(|status| status["status"] == "failed")
    });
    assert!(status["next_attempt_at"].is_string(), "{status}");
    assert!(
        fnd.client()
            .post(&format!("/v1/invocations/{id}/cancel"), "")
            .status
            .is_success()
    );
    assert_eq!(fnd.wait_end(id).state, RunState::Cancelled);
}
