//! The timer of schedules: what it shows, what a ring makes due, and what the ledger could not store.

use super::*;
use fnd_manifest::function::OverlapKey;

const MINUTE: u64 = 60_000;
/// 2026-11-22T00:00:00Z.
const START: u64 = 1_795_305_600_000;
const DAY: u64 = 24 * 60 * MINUTE;

fn name() -> FunctionName {
    FunctionName::new("f").unwrap()
}

fn schedule(cron: Option<&str>, every_ms: Option<u64>) -> Schedule {
    Schedule {
        cron: cron.map(str::to_owned),
        every: every_ms.map(Duration::from_millis),
        at: None,
        timezone: Some("Europe/Berlin".to_owned()),
        jitter: Duration::ZERO,
        catch_up: Duration::ZERO,
        overlap: OverlapKey::Skip,
        data: None,
        dead_letters: false,
    }
}

/// A timer with schedules of one function, which began at `START`.
fn timer(schedules: &[Schedule]) -> ScheduleTimer {
    let mut timer = ScheduleTimer::new(
        StoredSchedules::default(),
        ("host".to_owned(), "boot".to_owned()),
        Alarm::new().unwrap(),
    );
    timer.set(START, &name(), (schedules, true)).unwrap();
    timer
}

/// Returns the submissions that are due at a time; the ledger is storing them.
fn submitted(timer: &mut ScheduleTimer, now_ms: u64) -> Vec<Submit> {
    let (changed, due) = timer.rings(AlarmCause::Due, now_ms);
    assert!(changed.is_empty());
    let mut ids = (1..).map(InvocationId);
    let mut all = Vec::new();
    for occurrence in due {
        let before = occurrence.before.clone();
        let new_submit = |function, trigger| Submit::new(ids.next().unwrap(), function, trigger);
        let submit = submission(occurrence, new_submit).unwrap();
        timer.storing(&submit, &before);
        all.push(submit);
    }
    all
}

#[tokio::test]
async fn each_schedule_is_shown_with_its_state_and_its_slots_while_they_run() {
    let schedules = [schedule(Some("0 6 * * *"), None), schedule(None, Some(90_000))];
    let mut timer = timer(&schedules);
    let views = timer.views_of(&name(), 2);
    let [cron, every] = &views[..] else { panic!("{views:?}") };
    assert_eq!(
        (cron.schedule.as_str(), cron.timezone.as_deref()),
        ("0 6 * * *", Some("Europe/Berlin"))
    );
    assert_eq!(cron.next, ["2026-11-22T05:00:00.000Z", "2026-11-23T05:00:00.000Z"]);
    assert_eq!((every.schedule.as_str(), &every.timezone), ("every 90s", &None));
    assert_eq!(every.next, ["2026-11-22T00:01:30.000Z", "2026-11-22T00:03:00.000Z"]);
    let check = |timer: &mut ScheduleTimer, enabled: bool, state| {
        timer.set(START, &name(), (&schedules, enabled));
        let views = timer.views_of(&name(), 2);
        assert!(views.iter().all(|view| view.state == state), "{views:?}");
        assert!(
            views
                .iter()
                .all(|view| view.next.is_empty() != (state == ScheduleState::Active))
        );
    };
    check(&mut timer, true, ScheduleState::Active);
    check(&mut timer, false, ScheduleState::Disabled);
    assert!(timer.pause(&name(), true));
    assert!(!timer.pause(&name(), true), "it is paused already");
    check(&mut timer, true, ScheduleState::Paused);
    check(&mut timer, false, ScheduleState::Paused);
    assert!(timer.pause(&name(), false));
    check(&mut timer, true, ScheduleState::Active);
    assert!(timer.views_of(&FunctionName::new("g").unwrap(), 2).is_empty());
}

#[tokio::test]
async fn a_slot_that_is_not_stored_is_due_again_a_little_later() {
    let mut timer = timer(&[schedule(None, Some(MINUTE))]);
    let now = START + MINUTE;
    assert!(submitted(&mut timer, now - 1).is_empty());
    for (is_stored, due_again) in [(false, now + AGAIN_MS), (true, now + MINUTE)] {
        let at = timer.table.next_due().unwrap();
        let submits = submitted(&mut timer, at);
        let [run] = &submits[..] else { panic!("{submits:?}") };
        assert_eq!((run.trigger, run.overlap.is_some()), (Trigger::Schedule, true));
        timer.stored(InvocationId(99), false, now); // of another trigger
        timer.stored(run.id, is_stored, now);
        assert_eq!(timer.table.next_due(), Some(due_again));
        timer.stored(run.id, false, now); // counts once
        assert_eq!(timer.table.next_due(), Some(due_again));
    }
}

#[tokio::test]
async fn missed_slots_are_recorded_first_and_the_run_follows_once_they_are_stored() {
    let schedule = Schedule {
        catch_up: Duration::from_millis(2 * MINUTE),
        ..schedule(None, Some(MINUTE))
    };
    let mut timer = timer(&[schedule]);
    let now = START + 10 * MINUTE;
    let last = |submit: &Submit| submit.mark.as_ref().map(|mark| mark.last_ms);
    let submits = submitted(&mut timer, now);
    let [missed] = &submits[..] else { panic!("{submits:?}") };
    let (reason, why) = missed.skipped.as_ref().unwrap();
    assert_eq!(*reason, Reason::Skipped(Skip::Missed));
    assert!(why.contains("runs from 2026-11-22T00:01:00.000Z to "), "{why}");
    assert_eq!(last(missed), Some(START + 7 * MINUTE));
    assert!(submitted(&mut timer, now).is_empty(), "the ledger has not answered");
    timer.stored(missed.id, true, now);
    let submits = submitted(&mut timer, now);
    let [run] = &submits[..] else { panic!("{submits:?}") };
    assert!(run.skipped.is_none());
    assert_eq!(last(run), Some(now));
}

#[tokio::test]
async fn each_slot_is_stored_once_whichever_submission_the_ledger_refuses() {
    let schedule = Schedule {
        catch_up: Duration::from_millis(5 * MINUTE / 2),
        ..schedule(None, Some(MINUTE))
    };
    for refused in 0..3 {
        let mut timer = timer(std::slice::from_ref(&schedule));
        let (mut submissions, mut stored) = (0, 0);
        // The next slot comes later, and none of the run is missed meanwhile.
        for at in (0..4).map(|nth| START + 10 * MINUTE + nth * AGAIN_MS) {
            for submit in submitted(&mut timer, at) {
                let is_stored = submissions != refused;
                submissions += 1;
                let Some(Cause::Schedule(slots)) = submit.payload.cause.as_deref() else {
                    panic!("{submit:?}")
                };
                stored += if is_stored { slots.slots } else { 0 };
                timer.stored(submit.id, is_stored, at);
            }
        }
        assert_eq!(stored, 10, "the submission {refused} was refused");
    }
}

#[tokio::test]
async fn schedules_begin_anew_when_the_clock_is_set_back_by_more_than_a_day() {
    let mut timer = timer(&[schedule(None, Some(MINUTE))]);
    let (changed, due) = timer.rings(AlarmCause::ClockSet, START - DAY / 2);
    assert_eq!((changed.len(), due.len()), (0, 0), "the mark stays ahead");
    let back = START - 2 * DAY;
    let (changed, due) = timer.rings(AlarmCause::ClockSet, back);
    assert_eq!(
        (changed[0].function.clone(), changed[0].marks[0].last_ms),
        (name(), back)
    );
    assert!(due.is_empty());
    assert_eq!(timer.table.next_due(), Some(back + MINUTE));
}
