//! Schedules with a real fnd, real scripts and the real clock: each slot is handled once, over kills and restarts.

use fnd_core::api::{InvocationView, ScheduleList, ScheduleState};
use fnd_core::records::cause::{Cause, CauseSlots};
use fnd_core::records::outcome::{Reason, RunState, Skip, Trigger};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};

const EVERY_SECOND: &str = "# /// fnd
# [[schedule]]
# every = \"1s\"
# data = { any = \"json\" }
# ///
echo \"$FND_TRIGGER $FND_SCHEDULED_AT $FND_MISSED $(cat)\" >>\"$STATE_DIRECTORY/slots\"
";

/// The slots that a run stands for.
fn slots(view: &InvocationView) -> CauseSlots {
    match &view.cause {
        Some(Cause::Schedule(slots)) => slots.clone(),
        other => panic!("{other:?}"),
    }
}

/// All runs of a function by schedule, oldest first, with their causes.
fn runs(fnd: &Fnd, function: &str) -> Vec<InvocationView> {
    let mut runs = fnd.history(function);
    runs.retain(|run| run.trigger == Trigger::Schedule);
    runs.reverse();
    runs.iter().map(|run| fnd.invocation(run.id)).collect()
}

fn wait_runs(fnd: &Fnd, function: &str, count: usize) -> Vec<InvocationView> {
    wait_until(&format!("{count} runs of {function}"), PATIENCE, || {
        let runs = runs(fnd, function);
        (runs.iter().filter(|run| run.state.is_final()).count() >= count).then_some(runs)
    })
}

fn list(fnd: &Fnd) -> ScheduleList {
    fnd.client().get("/v1/schedules?next=2").json()
}

/// Returns an instant of the API in seconds.
fn seconds(instant: &str) -> i64 {
    let time = instant.parse::<jiff::Timestamp>().unwrap();
    time.as_second()
}

/// The lists of all schedules come first; then each of these removes its functions.
#[test]
fn slots_and_lists_of_schedules() {
    let fnd = Fnd::start();
    what_never_comes_is_refused_with_its_place(&fnd);
    a_function_runs_at_each_slot_and_sees_which_one_it_is(&fnd);
    a_handler_gets_the_slot_in_its_event(&fnd);
    a_run_that_finds_the_last_one_is_recorded_as_skipped(&fnd);
    a_run_that_failed_is_given_up_and_a_dead_letter_only_if_asked(&fnd);
    fnd.finish();
}

fn a_function_runs_at_each_slot_and_sees_which_one_it_is(fnd: &Fnd) {
    fnd.drop_file("tick.sh", EVERY_SECOND);
    let runs = wait_runs(fnd, "tick", 3);
    let written = std::fs::read_to_string(fnd.path("state/home/tick/slots")).unwrap();
    for (run, line) in runs.iter().zip(written.lines()) {
        assert_eq!(run.state, RunState::Succeeded, "{run:?}");
        let slots = slots(run);
        assert_eq!(
            line,
            format!("schedule {} {} {{\"any\":\"json\"}}", slots.scheduled_at, slots.slots)
        );
    }
    let function = fnd.function("tick").unwrap();
    assert!(function.next_run_at.is_some(), "{function:?}");
    assert_eq!(function.trigger, Some(Trigger::Schedule));
    let schedules = list(fnd).schedules;
    assert_eq!((schedules.len(), schedules[0].schedule.as_str()), (1, "every 1s"));
    assert_eq!(
        (schedules[0].next.len(), schedules[0].state),
        (2, ScheduleState::Active)
    );
    assert_eq!(schedules[0].last.as_ref().unwrap().trigger, Trigger::Schedule);
    let shown = fnd.ctl(&["schedules"]).expect_code(0).out();
    assert!(shown.contains("every 1s") && shown.contains("ok "), "{shown}");
    let table = fnd.ctl(&["status", "tick"]).expect_code(0).out();
    assert!(table.contains("NEXT") && table.contains("in "), "{table}");
    let metrics = fnd.client().get("/metrics").text();
    assert!(metrics.contains("fnd_schedule_lateness_seconds_count"), "{metrics}");
    fnd.remove("tick.sh");
    fnd.wait_gone("tick");
}

/// The next run brings the same payload, so nobody has to see to the one that failed, unless the manifest asks for that.
fn a_run_that_failed_is_given_up_and_a_dead_letter_only_if_asked(fnd: &Fnd) {
    let failing = |key: &str| format!("# /// fnd\n# [[schedule]]\n# every = \"1s\"\n{key}# ///\nexit 3\n");
    fnd.drop_file("plain.sh", &failing(""));
    fnd.drop_file("asks.sh", &failing("# dead_letters = true\n"));
    for function in ["plain", "asks"] {
        let runs = wait_runs(fnd, function, 2);
        assert_eq!(runs[0].reason, Some(Reason::Exit(3)), "{runs:?}");
    }
    wait_until("the dead letters of `asks`", PATIENCE, || {
        (fnd.function("asks")?.dead_letters >= 2).then_some(())
    });
    assert_eq!(fnd.function("plain").unwrap().dead_letters, 0);
    let metrics = fnd.client().get("/metrics").text();
    let of = |series: &str, function: &str| -> f64 {
        let series = format!("{series}{{function=\"{function}\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
        value.expect(&metrics).parse().unwrap()
    };
    for function in ["plain", "asks"] {
        assert!(of("fnd_gave_up_total", function) >= 2.0, "{metrics}");
        assert_eq!(of("fnd_last_run_failed", function), 1.0, "{metrics}");
    }
    assert_eq!(of("fnd_dead_letters", "plain"), 0.0, "{metrics}");
    assert!(of("fnd_dead_letters", "asks") >= 2.0, "{metrics}");
    let refused = fnd.ctl(&["dead-letters", "redrive", &runs(fnd, "plain")[0].id.to_string()]);
    assert!(refused.expect_code(3).stderr.contains("is no dead letter"));
    fnd.remove("plain.sh");
    fnd.remove("asks.sh");
    fnd.wait_gone("plain");
    fnd.wait_gone("asks");
}

#[test]
fn no_slot_is_handled_twice_or_lost_over_kills_and_restarts() {
    require!(root, cgroup);
    let mut fnd = Fnd::start();
    fnd.drop_file("tick.sh", EVERY_SECOND);
    for round in 1..=3 {
        wait_runs(&fnd, "tick", round * 2);
        fnd.crash();
        fnd.launch();
    }
    let runs = wait_runs(&fnd, "tick", 9);
    let mut after: Option<i64> = None;
    for run in &runs {
        let slots = slots(run);
        let last = seconds(&slots.scheduled_at);
        let first = slots.first.as_deref().map_or(last, seconds);
        assert_eq!(last - first + 1, i64::try_from(slots.slots).unwrap(), "{slots:?}");
        assert!(
            after.is_none_or(|after| first == after + 1),
            "{after:?} {slots:?} of {runs:#?}"
        );
        after = Some(last);
    }
    fnd.finish();
}

fn a_run_that_finds_the_last_one_is_recorded_as_skipped(fnd: &Fnd) {
    let gate = fnd.shared_directory("gate");
    let waits = format!(
        "# /// fnd\n# [[schedule]]\n# every = \"1s\"\n# ///\nuntil [[ -e {}/go ]]; do sleep 0.02; done\n",
        gate.display()
    );
    fnd.drop_file("slow.sh", &waits);
    let runs = wait_until("a skipped run", PATIENCE, || {
        let runs = runs(fnd, "slow");
        (runs.len() >= 3).then_some(runs)
    });
    assert_eq!(runs[0].state, RunState::Running, "{runs:?}");
    for skipped in &runs[1..] {
        assert_eq!(skipped.reason, Some(Reason::Skipped(Skip::Overlap)), "{skipped:?}");
        assert!(
            skipped.message.contains("another invocation was running"),
            "{skipped:?}"
        );
    }
    std::fs::write(gate.join("go"), "").unwrap();
    wait_until("the end of the first run", PATIENCE, || {
        (fnd.invocation(runs[0].id).state == RunState::Succeeded).then_some(())
    });
    fnd.remove("slow.sh");
    fnd.wait_gone("slow");
}

#[test]
fn schedules_are_paused_and_resumed_and_stay_so_over_a_restart() {
    let mut fnd = Fnd::start();
    fnd.drop_file("tick.sh", EVERY_SECOND);
    fnd.drop_file("plain.sh", "# /// fnd\n# on_load = false\n# ///\n");
    wait_runs(&fnd, "tick", 1);
    fnd.wait_ready("plain");
    let paused = fnd.ctl(&["schedules", "pause", "tick"]).expect_code(0);
    assert!(
        paused.stdout.is_empty() || paused.out().contains("tick: schedules paused"),
        "{paused}"
    );
    let schedules = list(&fnd).schedules;
    assert_eq!(
        (schedules[0].state, schedules[0].next.len()),
        (ScheduleState::Paused, 0)
    );
    assert_eq!(fnd.function("tick").unwrap().next_run_at, None);
    fnd.crash();
    fnd.launch();
    fnd.wait_ready("tick");
    assert_eq!(list(&fnd).schedules[0].state, ScheduleState::Paused);
    let before = runs(&fnd, "tick").len();
    let resumed_ms = fnd_tests::wait::unix_ms();
    let _ = fnd.ctl(&["schedules", "resume", "tick"]).expect_code(0);
    let runs = wait_runs(&fnd, "tick", before + 1);
    // Slots that passed meanwhile are nobody's.
    let first = slots(&runs[before]);
    let first: jiff::Timestamp = first.first.unwrap_or(first.scheduled_at).parse().unwrap();
    assert!(
        u64::try_from(first.as_millisecond()).unwrap() >= resumed_ms,
        "{:?}",
        runs[before]
    );
    let _ = fnd.ctl(&["disable", "tick"]).expect_code(0);
    assert_eq!(list(&fnd).schedules[0].state, ScheduleState::Disabled);
    let none = fnd.ctl(&["schedules", "pause", "plain"]).expect_code(2);
    assert!(none.stderr.contains("`plain` has no schedule"), "{none}");
    let _ = fnd.ctl(&["schedules", "resume", "nobody"]).expect_code(3);
    let _ = fnd.ctl(&["schedules", "nobody"]).expect_code(3);
    fnd.finish();
}

fn a_handler_gets_the_slot_in_its_event(fnd: &Fnd) {
    fnd.drop_file(
        "hand.py",
        "# /// fnd\n# [[schedule]]\n# cron = \"* * * * * *\"\n# timezone = \"Asia/Kolkata\"\n# ///\n\
         def handler(event, context):\n    return [event['event-time'], event['extensions']['schedule'], event['data'],\n        event['event-id'], event['event-type'], event['event-namespace']]\n",
    );
    let runs = wait_runs(fnd, "hand", 1);
    let slots = slots(&runs[0]);
    let result: serde_json::Value = fnd.result(runs[0].id).json();
    assert_eq!(result[0], slots.scheduled_at.as_str(), "{result}");
    assert_eq!(result[1]["slots"], 1);
    assert_eq!(result[2], serde_json::Value::Null);
    assert_eq!(result[3], runs[0].id.to_string());
    assert_eq!(
        (&result[4], &result[5]),
        (&"application/json".into(), &"fnd/schedule".into())
    );
    assert_eq!(list(fnd).schedules[0].timezone.as_deref(), Some("Asia/Kolkata"));
    fnd.remove("hand.py");
    fnd.wait_gone("hand");
}

fn what_never_comes_is_refused_with_its_place(fnd: &Fnd) {
    fnd.drop_file(
        "never.sh",
        "# /// fnd\n# [[schedule]]\n# cron = \"0 0 30 2 *\"\n# ///\n",
    );
    let function = fnd.wait_error("never");
    let error = function.error.unwrap();
    assert!(
        error.contains("never.sh:3:") && error.contains("never comes"),
        "{error}"
    );
    assert!(list(fnd).schedules.is_empty());
}

const HOUR_MS: i64 = 3_600_000;

/// An fnd whose clock can be set.
fn with_clock() -> (Fnd, impl Fn(i64)) {
    let setup = Setup::default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("clock");
    let environment = vec![("FND_TEST_CLOCK".to_owned(), path.display().to_string())];
    let step = move |ms: i64| {
        let new = directory.path().join("new");
        std::fs::write(&new, ms.to_string()).unwrap();
        std::fs::rename(new, &path).unwrap();
    };
    step(0);
    (Fnd::start_with(&Setup { environment, ..setup }), step)
}

const HOURLY: &str = "# /// fnd\n# [[schedule]]\n# every = \"1h\"\n# catch_up = \"2h\"\n# ///\n";

#[test]
fn a_step_of_the_clock_runs_no_slot_twice_and_loses_none() {
    let (fnd, step) = with_clock();
    fnd.drop_file("hourly.sh", HOURLY);
    fnd.wait_ready("hourly");
    assert!(runs(&fnd, "hourly").is_empty());
    // Seven slots pass at once: one run for two of them, one record for the others.
    step(7 * HOUR_MS + HOUR_MS / 2);
    let seen = wait_runs(&fnd, "hourly", 2);
    let counts: Vec<_> = seen.iter().map(|run| (run.reason, slots(run).slots)).collect();
    assert_eq!(
        counts,
        [(Some(Reason::Skipped(Skip::Missed)), 5), (Some(Reason::Ok), 2)]
    );
    assert!(seen[0].message.contains("5 runs from "), "{}", seen[0].message);
    let shown = fnd
        .ctl(&["history", "--id", &seen[0].id.to_string()])
        .expect_code(0)
        .out();
    assert!(
        shown.contains("scheduled ") && shown.contains("5 slots, from "),
        "{shown}"
    );
    // Back by four hours, and forward to just before the eighth slot: nothing is due. Then one slot is.
    let next = |fnd: &Fnd| fnd.function("hourly").unwrap().next_run_at.unwrap();
    let eighth = next(&fnd);
    step(3 * HOUR_MS);
    step(7 * HOUR_MS + HOUR_MS / 2 + 1);
    assert_eq!((next(&fnd), runs(&fnd, "hourly").len()), (eighth, 2));
    step(8 * HOUR_MS + HOUR_MS / 2);
    let seen = wait_runs(&fnd, "hourly", 3);
    assert_eq!((seen.len(), slots(&seen[2]).slots), (3, 1));
    // Back by more than a day: the clock was wrong before.
    step(-40 * HOUR_MS);
    fnd.wait_log("the clock was set back by more than a day");
    step(-39 * HOUR_MS + 60_000);
    let seen = wait_runs(&fnd, "hourly", 4);
    assert_eq!((seen.len(), slots(&seen[3]).slots), (4, 1));
    fnd.finish();
}

#[test]
fn slots_that_pass_while_fnd_is_away_are_caught_up_or_recorded() {
    let (mut fnd, step) = with_clock();
    fnd.drop_file("caught.sh", HOURLY);
    fnd.drop_file("missed.sh", &HOURLY.replace("# catch_up = \"2h\"\n", ""));
    let plain = HOURLY.replace("# catch_up = \"2h\"\n", "");
    fnd.drop_file("mended.sh", &plain);
    for name in ["caught", "missed", "mended"] {
        fnd.wait_ready(name);
    }
    fnd.crash();
    step(3 * HOUR_MS + HOUR_MS / 2);
    fnd.drop_file("mended.sh", &plain.replace("[[schedule]]", "[[schedul]]"));
    fnd.launch();
    // A function that cannot serve at the start keeps its place until it can.
    let _ = fnd.wait_error("mended");
    fnd.drop_file("mended.sh", &plain);
    let mended = wait_runs(&fnd, "mended", 1);
    assert_eq!((mended[0].state, slots(&mended[0]).slots), (RunState::Skipped, 3));
    let caught = wait_runs(&fnd, "caught", 2);
    let counts: Vec<_> = caught.iter().map(|run| (run.state, slots(run).slots)).collect();
    assert_eq!(counts, [(RunState::Skipped, 1), (RunState::Succeeded, 2)]);
    let missed = wait_runs(&fnd, "missed", 1);
    let counts: Vec<_> = missed.iter().map(|run| (run.state, slots(run).slots)).collect();
    assert_eq!(counts, [(RunState::Skipped, 3)]);
    let metrics = fnd.client().get("/metrics").text();
    assert!(
        metrics.contains("fnd_schedule_missed_total{function=\"missed\"} 3"),
        "{metrics}"
    );
    // The same again: nothing is due twice.
    fnd.crash();
    fnd.launch();
    fnd.wait_ready("missed");
    assert_eq!((runs(&fnd, "caught").len(), runs(&fnd, "missed").len()), (2, 1));
    fnd.finish();
}
