//! Schedules against a naive model: every slot after the first sight is handled once, or was nobody's because the schedule
//! was paused, whatever the clock and the process do.

use super::occurrence::{COUNT_MAX, TOLERANCE_MS};
use super::*;
use fnd_manifest::cron::zone;
use fnd_manifest::function::{Schedule, ScheduledAt};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use std::time::Duration;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// 2026-11-22T00:00:00Z.
const START: u64 = 1_795_305_600_000;

fn name(text: &str) -> FunctionName {
    text.parse().unwrap()
}

fn schedule(cron: Option<&str>, every: Option<u64>) -> Schedule {
    Schedule {
        cron: cron.map(str::to_owned),
        every: every.map(Duration::from_millis),
        at: None,
        timezone: None,
        jitter: Duration::ZERO,
        catch_up: Duration::ZERO,
        overlap: OverlapKey::Skip,
        data: None,
        dead_letters: false,
    }
}

fn plans(schedules: &[Schedule]) -> Vec<SchedulePlan> {
    let utc = |name: Option<&str>| name.and_then(zone).unwrap_or(TimeZone::UTC);
    SchedulePlan::of(schedules, (&name("f"), "host"), BOOT, utc)
}

const BOOT: PresentBoot<'static> = PresentBoot { id: "a", now_ms: START };

/// Schedules of one function that began at `START`.
fn of(schedules: &[Schedule]) -> Schedules {
    let mut table = Schedules::default();
    let marks = table.set(START, &name("f"), plans(schedules), true).unwrap();
    assert_eq!(marks.marks.len(), schedules.len());
    table
}

fn span(first_ms: u64, last_ms: u64, count: u64) -> Option<SlotSpan> {
    Some(SlotSpan {
        first_ms,
        last_ms,
        count,
    })
}

/// Plans of one schedule that runs after each boot, in the boot with this id.
fn after_boot(id: &str, now_ms: u64) -> Vec<SchedulePlan> {
    let schedule = Schedule {
        at: Some(ScheduledAt::Boot),
        ..schedule(None, None)
    };
    SchedulePlan::of(&[schedule], (&name("f"), "host"), PresentBoot { id, now_ms }, |_| {
        TimeZone::UTC
    })
}

/// The marks that an fnd after this one finds.
fn stored(table: &Schedules) -> Schedules {
    Schedules::new(vec![table.marks(&name("f"))])
}

#[test]
fn a_function_runs_once_after_each_boot_and_never_when_it_is_saved() {
    let f = name("f");
    let mut table = Schedules::default();
    // Saved, and saved anew, in the first boot.
    table.set(START, &f, after_boot("a", START), true).unwrap();
    assert!(table.due(START + HOUR).is_empty());
    assert_eq!(table.set(START + HOUR, &f, after_boot("a", START + HOUR), true), None);
    assert_eq!(table.next_due(), None);
    // fnd starts anew in the same boot, and then after a boot: long after it, as with a clock that was wrong meanwhile.
    let mut table = stored(&table);
    assert_eq!(
        table.set(START + 2 * HOUR, &f, after_boot("a", START + 2 * HOUR), true),
        None
    );
    assert!(table.due(START + 2 * HOUR).is_empty());
    let mut table = stored(&table);
    let now = START - HOUR;
    table.set(now, &f, after_boot("b", now), true).unwrap();
    // The ledger stores that it is to come, so an fnd that is killed then runs it later.
    let mut killed = stored(&table);
    assert_eq!(
        killed.set(now + 9 * HOUR, &f, after_boot("b", now + 9 * HOUR), true),
        None
    );
    assert_eq!(killed.due(now + 9 * HOUR).len(), 1);
    let due = table.due(now);
    let [occurrence] = due.as_slice() else {
        panic!("{due:?}")
    };
    assert_eq!((occurrence.run, occurrence.missed), (span(now, now, 1), None));
    // It could not be stored, and comes again, also much later.
    table.take_back(&f, &occurrence.before, now + HOUR);
    assert!(table.due(now + HOUR - 1).is_empty());
    assert_eq!(table.due(now + HOUR).len(), 1);
    assert!(table.due(now + 2 * HOUR).is_empty());
    assert_eq!(
        table.set(now + 3 * HOUR, &f, after_boot("b", now + 3 * HOUR), true),
        None
    );
    assert_eq!(table.next_due(), None);
}

/// Disabled or paused while the machine starts: nothing runs when that is over, also if fnd starts anew between the two.
#[test]
fn the_slot_of_a_boot_passes_while_the_function_is_not_active() {
    let f = name("f");
    let mut table = Schedules::default();
    table.set(START, &f, after_boot("a", START), true).unwrap();
    let mut table = stored(&table);
    table
        .set(START + HOUR, &f, after_boot("b", START + HOUR), false)
        .unwrap();
    let mut again = stored(&table);
    for table in [&mut table, &mut again] {
        table.set(START + 2 * HOUR, &f, after_boot("b", START + 2 * HOUR), true);
        assert!(table.due(START + 3 * HOUR).is_empty());
    }
    // The next boot is another one.
    let mut table = stored(&again);
    table
        .set(START + 4 * HOUR, &f, after_boot("c", START + 4 * HOUR), true)
        .unwrap();
    assert_eq!(table.due(START + 4 * HOUR).len(), 1);
}

#[test]
fn a_slot_runs_when_it_is_due_and_once() {
    let mut table = of(&[schedule(Some("*/5 * * * *"), None)]);
    assert_eq!(table.next_due(), Some(START + 5 * MINUTE));
    assert_eq!(table.next_of(&name("f")), table.next_due());
    assert!(table.due(START + 5 * MINUTE - 1).is_empty());
    let due = table.due(START + 5 * MINUTE + 3);
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].run, span(START + 5 * MINUTE, START + 5 * MINUTE, 1));
    assert_eq!((due[0].missed, due[0].late_ms), (None, 3));
    assert_eq!(due[0].mark.last_ms, START + 5 * MINUTE);
    assert!(table.due(START + 5 * MINUTE + 3).is_empty());
    assert_eq!(table.next_due(), Some(START + 10 * MINUTE));
}

#[test]
fn every_counts_from_the_last_slot() {
    let mut table = of(&[schedule(None, Some(30_000))]);
    // A restart after 20 s: the mark of the ledger counts, not the start.
    let marks = vec![table.marks(&name("f"))];
    table = Schedules::new(marks);
    assert_eq!(
        table.set(START + 20_000, &name("f"), plans(&[schedule(None, Some(30_000))]), true),
        None
    );
    assert_eq!(table.next_due(), Some(START + 30_000));
    let late = table.due(START + 30_000 + 700);
    assert_eq!(late[0].run, span(START + 30_000, START + 30_000, 1));
    assert_eq!(table.next_due(), Some(START + 60_000));
}

#[test]
fn one_run_stands_for_slots_missed_within_catch_up_and_a_record_for_the_others() {
    let hourly = Schedule {
        catch_up: Duration::from_hours(3),
        ..schedule(Some("0 * * * *"), None)
    };
    let mut table = of(&[hourly]);
    // The machine was off for ten hours and a half.
    let due = table.due(START + 10 * HOUR + HOUR / 2);
    assert_eq!((due.len(), due[0].run), (1, None));
    assert_eq!(due[0].missed, span(START + HOUR, START + 7 * HOUR, 7));
    assert_eq!(due[0].mark.last_ms, START + 7 * HOUR);
    let due = table.due(START + 10 * HOUR + HOUR / 2);
    assert_eq!((due.len(), due[0].missed), (1, None));
    assert_eq!(due[0].run, span(START + 8 * HOUR, START + 10 * HOUR, 3));
    let mut table = of(&[schedule(Some("0 * * * *"), None)]);
    let due = table.due(START + 10 * HOUR + HOUR / 2);
    assert_eq!(due[0].run, None);
    assert_eq!(due[0].missed, span(START + HOUR, START + 10 * HOUR, 10));
    // A restart of fnd at the full hour is no miss.
    let mut table = of(&[schedule(Some("0 * * * *"), None)]);
    let due = table.due(START + HOUR + TOLERANCE_MS);
    assert_eq!((due[0].run, due[0].missed), (span(START + HOUR, START + HOUR, 1), None));
}

#[test]
fn slots_that_pass_while_a_schedule_is_paused_are_not_missed() {
    let mut table = of(&[schedule(Some("0 * * * *"), None)]);
    let hourly = || plans(&[schedule(Some("0 * * * *"), None)]);
    assert_eq!(table.set(START, &name("f"), hourly(), false), None);
    assert_eq!((table.next_due(), table.next_of(&name("f"))), (None, None));
    // An edit meanwhile changes nothing of that.
    assert_eq!(table.set(START + 2 * HOUR, &name("f"), hourly(), false), None);
    let marks = table.set(START + 5 * HOUR + 1, &name("f"), hourly(), true).unwrap();
    assert_eq!(marks.marks[0].last_ms, START + 5 * HOUR + 1);
    assert_eq!(table.next_due(), Some(START + 6 * HOUR));
    assert_eq!(table.set(START, &name("f"), hourly(), true), None);
}

#[test]
fn an_edit_keeps_the_place_of_a_schedule_whose_text_stays() {
    let (hourly, daily) = (schedule(Some("0 * * * *"), None), schedule(Some("0 0 * * *"), None));
    let mut table = of(&[hourly.clone(), hourly.clone()]);
    let later = START + HOUR / 2;
    let edited = Schedule {
        overlap: OverlapKey::Queue,
        ..hourly.clone()
    };
    let marks = table
        .set(later, &name("f"), plans(&[daily.clone(), edited.clone()]), true)
        .unwrap();
    let lasts: Vec<_> = marks.marks.iter().map(|mark| (&*mark.key, mark.last_ms)).collect();
    assert_eq!(lasts, [("0 * * * * #0", START), ("0 0 * * * #0", later)]);
    assert_eq!(table.set(later, &name("f"), plans(&[daily, edited]), true), None);
    let removed = table.set(later, &name("f"), Vec::new(), true).unwrap();
    assert!(removed.marks.is_empty());
    assert_eq!(table.next_due(), None);
    assert_eq!(table.set(later, &name("f"), Vec::new(), true), None);
}

#[test]
fn a_clock_that_was_wrong_by_more_than_a_day_begins_anew_and_by_less_waits() {
    let hourly = || plans(&[schedule(Some("0 * * * *"), None)]);
    let mut table = of(&[schedule(Some("0 * * * *"), None)]);
    let ahead = START + 40 * 24 * HOUR;
    assert_eq!(table.due(ahead).len(), 1);
    let marks = table.clock_was_set(START + 2 * HOUR + 1);
    assert_eq!(marks[0].marks[0].last_ms, START + 2 * HOUR + 1);
    assert_eq!(table.next_due(), Some(START + 3 * HOUR));
    // A step back of three hours: the slots that ran do not run again.
    assert_eq!(table.due(START + 5 * HOUR).len(), 1, "those that were missed");
    assert_eq!(table.due(START + 5 * HOUR).len(), 1);
    assert!(table.clock_was_set(START + 2 * HOUR).is_empty());
    assert_eq!(table.next_due(), Some(START + 6 * HOUR));
    // The same by a restart.
    let marks = vec![Marks {
        function: name("f"),
        marks: vec![LastSlot {
            key: "0 * * * * #0".into(),
            last_ms: ahead,
            ahead_ms: None,
        }],
    }];
    let mut table = Schedules::new(marks);
    assert!(table.set(START, &name("f"), hourly(), true).is_some());
    assert_eq!(table.next_due(), Some(START + HOUR));
}

#[test]
fn an_occurrence_that_could_not_be_stored_is_due_again() {
    let mut table = of(&[schedule(Some("0 * * * *"), None), schedule(None, Some(HOUR * 5))]);
    let now = START + HOUR + 5;
    let due = table.due(now);
    table.take_back(&name("f"), &due[0].before, now + 10_000);
    assert_eq!(table.next_due(), Some(now + 10_000));
    assert!(table.due(now + 9_999).is_empty());
    let again = table.due(now + 10_000);
    assert_eq!((again[0].run, again[0].missed), (due[0].run, None));
    assert_eq!(table.next_due(), Some(START + 2 * HOUR));
    // For so long that the slot has been missed.
    table.take_back(&name("f"), &again[0].before, now + 10_000);
    let missed = table.due(now + TOLERANCE_MS);
    assert_eq!((missed[0].run, missed[0].missed), (None, due[0].run));
    // Nothing comes back of a function that is paused or gone.
    let both = plans(&[schedule(Some("0 * * * *"), None), schedule(None, Some(HOUR * 5))]);
    let _ = table.set(now, &name("f"), both, false);
    table.take_back(&name("f"), &again[0].before, now);
    table.take_back(&name("gone"), &again[0].before, now);
    assert_eq!(table.next_due(), None);
}

#[test]
fn the_next_slots_wait_until_the_ledger_has_answered_for_those_before() {
    let hourly = || plans(&[schedule(Some("0 * * * *"), None)]);
    let mut table = of(&[schedule(Some("0 * * * *"), None)]);
    let ran = table.due(START + HOUR).remove(0);
    table.hold(&name("f"), &ran.mark.key);
    assert_eq!(table.next_due(), None);
    assert_eq!(table.next_of(&name("f")), Some(START + 2 * HOUR), "people are shown it");
    // An edit meanwhile changes nothing of that.
    assert_eq!(table.set(START + HOUR, &name("f"), hourly(), true), None);
    assert!(table.due(START + 2 * HOUR).is_empty());
    table.release(&name("f"), &ran.mark.key);
    assert_eq!(table.due(START + 2 * HOUR).len(), 1);
    // Nothing runs of a function that was paused meanwhile.
    table.hold(&name("f"), &ran.mark.key);
    let _ = table.set(START + 2 * HOUR, &name("f"), hourly(), false);
    table.release(&name("f"), &ran.mark.key);
    table.release(&name("gone"), &ran.mark.key);
    assert_eq!(table.next_due(), None);
}

#[test]
fn a_mark_counts_again_if_the_clock_that_was_wrong_is_set_right() {
    let marks = vec![Marks {
        function: name("f"),
        marks: vec![LastSlot {
            key: "0 * * * * #0".into(),
            last_ms: START + 72 * HOUR,
            ahead_ms: None,
        }],
    }];
    // The machine starts with the clock of three days ago, and learns the time later.
    let mut table = Schedules::new(marks);
    let hourly = || plans(&[schedule(Some("0 * * * *"), None)]);
    assert!(table.set(START, &name("f"), hourly(), true).is_some());
    let _ = table.set(START + 1, &name("f"), hourly(), true);
    assert!(table.due(START + 72 * HOUR + 1).is_empty());
    assert_eq!(table.next_due(), Some(START + 73 * HOUR));
}

#[test]
fn slots_that_were_handled_do_not_run_again_when_a_clock_goes_back_and_forward_by_days() {
    for with_restart in [false, true] {
        let hourly = || plans(&[schedule(Some("0 * * * *"), None)]);
        let mut table = of(&[schedule(Some("0 * * * *"), None)]);
        let ran = START + 72 * HOUR;
        let _missed = table.due(ran);
        assert_eq!(table.due(ran)[0].mark.last_ms, ran);
        // Back by two days: the schedule begins anew, and its slots run.
        let mut marks = table.clock_was_set(START + 24 * HOUR);
        assert_eq!(marks[0].marks[0].ahead_ms, Some(ran));
        let anew = table.due(START + 25 * HOUR).remove(0);
        assert_eq!(anew.run, span(START + 25 * HOUR, START + 25 * HOUR, 1));
        if with_restart {
            marks[0].marks = vec![anew.mark];
            table = Schedules::new(marks);
            let _ = table.set(START + 25 * HOUR, &name("f"), hourly(), true);
        }
        // The right time: only what came after the last slot that ran was missed.
        assert!(table.clock_was_set(START + 74 * HOUR).is_empty());
        let missed = table.due(START + 74 * HOUR).remove(0);
        assert_eq!(missed.missed, span(START + 73 * HOUR, START + 73 * HOUR, 1));
        let due = table.due(START + 74 * HOUR).remove(0);
        assert_eq!(due.run, span(START + 74 * HOUR, START + 74 * HOUR, 1));
        assert_eq!(due.mark.ahead_ms, None);
    }
}

#[test]
fn a_mark_that_the_clock_has_come_to_is_stored_without_a_slot() {
    let hourly = || plans(&[schedule(Some("0 * * * *"), None)]);
    let mut table = of(&[schedule(Some("0 * * * *"), None)]);
    let ran = START + 72 * HOUR;
    let _missed = table.due(ran);
    let mark = table.due(ran).remove(0).mark;
    let _ = table.clock_was_set(START + 24 * HOUR);
    assert!(table.due(ran + 1).is_empty());
    table.hold(&name("f"), &mark.key);
    assert!(
        table.take_reached().is_empty(),
        "the ledger is storing a mark that may be refused"
    );
    table.release(&name("f"), &mark.key);
    let reached = table.take_reached();
    assert_eq!(reached[0].marks, [mark]);
    assert!(table.take_reached().is_empty(), "once");
    // The clock goes back by two hours, and fnd starts anew.
    let mut table = Schedules::new(reached);
    assert_eq!(table.set(START + 70 * HOUR, &name("f"), hourly(), true), None);
    assert_eq!(table.next_due(), Some(START + 73 * HOUR));
}

#[test]
fn a_schedule_that_has_begun_anew_goes_on_although_a_slot_from_before_is_refused() {
    let mut table = of(&[schedule(Some("0 * * * *"), None)]);
    let right = START + 72 * HOUR;
    let _missed = table.due(right);
    let refused = table.due(right).remove(0);
    table.hold(&name("f"), &refused.mark.key);
    let (back, again) = (START + 24 * HOUR, START + 24 * HOUR + 10_000);
    assert_eq!(table.clock_was_set(back).len(), 1);
    table.release(&name("f"), &refused.mark.key);
    table.take_back(&name("f"), &refused.before, again);
    assert_eq!(table.next_due(), Some(START + 25 * HOUR));
    // The right time: the slot that was refused is due again, and none of those before it.
    assert!(table.clock_was_set(right + 1).is_empty());
    let due = table.due(right + 1).remove(0);
    assert_eq!((due.run, due.missed), (refused.run, None));
}

#[test]
fn an_edit_of_another_schedule_keeps_the_place() {
    let (short, long) = (schedule(None, Some(60_000)), schedule(None, Some(90_000)));
    let keys = |schedules: &[Schedule]| {
        plans(schedules)
            .iter()
            .map(|plan| plan.key.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&[long.clone(), short.clone()]), ["90s#0", "60s#0"]);
    assert_eq!(keys(&[short.clone(), short]), ["60s#0", "60s#1"]);
}

#[test]
fn many_at_once_are_due_in_parts() {
    let every: Vec<_> = (0..DUE_MAX + 6).map(|_| schedule(None, Some(60_000))).collect();
    let mut table = of(&every);
    let now = START + MINUTE;
    assert_eq!(table.due(now).len(), DUE_MAX);
    assert_eq!(table.next_due(), Some(now));
    assert_eq!((table.due(now).len(), table.due(now).len()), (6, 0));
}

#[test]
fn functions_that_are_gone_are_forgotten() {
    let marks = |function| Marks {
        function: name(function),
        marks: vec![LastSlot {
            key: "x".into(),
            last_ms: 1,
            ahead_ms: None,
        }],
    };
    let mut table = Schedules::new(vec![marks("f"), marks("gone")]);
    let _ = table.set(START, &name("f"), plans(&[schedule(None, Some(1000))]), true);
    // A function that exists and cannot serve keeps its marks.
    assert!(table.forget_others(|_| true).is_empty());
    let gone = table.forget_others(|_| false);
    assert_eq!(
        gone,
        [Marks {
            function: name("gone"),
            marks: Vec::new()
        }]
    );
    assert!(table.forget_others(|_| false).is_empty());
}

#[test]
fn jitter_is_the_same_for_the_same_slot_and_differs_between_hosts() {
    let spread = Schedule {
        jitter: Duration::from_secs(600),
        ..schedule(Some("0 3 * * *"), None)
    };
    let utc = |_: Option<&str>| TimeZone::UTC;
    let due = |host: &str| {
        SchedulePlan::of(std::slice::from_ref(&spread), (&name("f"), host), BOOT, utc)[0].due_at(START + 3 * HOUR)
    };
    assert_eq!(due("a"), due("a"));
    let delays: BTreeSet<u64> = (0..200).map(|host| due(&host.to_string()) - START - 3 * HOUR).collect();
    assert!(
        delays.len() > 150 && delays.iter().all(|delay| *delay <= 600_000),
        "{delays:?}"
    );
    let mut table = of(&[spread]);
    let at = table.next_due().unwrap();
    assert!((START + 3 * HOUR..=START + 3 * HOUR + 600_000).contains(&at));
    let due = table.due(at);
    assert_eq!(
        (due[0].run, due[0].late_ms),
        (span(START + 3 * HOUR, START + 3 * HOUR, 1), 0)
    );
}

/// An event in the life of a schedule.
#[derive(Debug, Clone)]
enum Step {
    /// Time passes, and fnd looks.
    Pass(u64),
    /// Somebody sets the clock back.
    Back(u64),
    /// fnd ends and starts again: only the marks that were stored stay.
    Restart(u64),
    Pause(u64),
    Resume(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let time = prop_oneof![5 => 0..90_000_u64, 4 => 0..2 * HOUR, 1 => 0..10 * HOUR];
    prop_oneof![
        6 => time.clone().prop_map(Step::Pass),
        1 => (0..20 * HOUR).prop_map(Step::Back),
        2 => time.clone().prop_map(Step::Restart),
        1 => time.clone().prop_map(Step::Pause),
        1 => time.prop_map(Step::Resume),
    ]
}

fn any_schedule() -> impl Strategy<Value = Schedule> {
    // Lines with few slots, because each slot that passes takes about 50 us to find: with every minute, a step of ten hours
    // would take longer than all other steps together. `every` is cheap, and has as many slots as a line can have.
    let line = prop_oneof![
        1 => Just("*/7 * * * *"),
        3 => Just("10,50 * * * *"),
        3 => Just("0 3 * * *"),
        3 => Just("30 2 * * *"),
        3 => Just("15,45 */6 * * 1-5"),
        3 => Just("0 0 1 * *"),
        3 => Just("H H(1-5) * * *"),
    ];
    let zones = prop_oneof![
        Just("UTC"),
        Just("Europe/Berlin"),
        Just("America/New_York"),
        Just("Australia/Lord_Howe"),
        Just("Asia/Kolkata"),
    ];
    let timing = prop_oneof![
        (line, zones).prop_map(|(line, zone)| (Some(line), None, Some(zone))),
        (20_000..400_000_u64).prop_map(|every| (None, Some(every), None)),
    ];
    let catch_up = prop_oneof![Just(0), 0..30 * HOUR];
    (timing, catch_up, any::<bool>()).prop_map(|((cron, every, zone), catch_up, jitter)| Schedule {
        timezone: zone.map(str::to_owned),
        catch_up: Duration::from_millis(catch_up),
        jitter: Duration::from_millis(if jitter {
            every.map_or(50_000, |every| every / 2)
        } else {
            0
        }),
        ..schedule(cron, every)
    })
}

/// Returns the slots after a mark and up to another, about a thousand at most. Usually there are few, and each one costs as
/// much as all else in a step.
fn slots_until(plan: &SchedulePlan, mark: u64, last: u64) -> Vec<u64> {
    let mut count = 4;
    loop {
        let slots = plan.upcoming(mark, count);
        if count > 1_000 || slots.len() < count || slots.last().is_some_and(|slot| *slot > last) {
            return slots.into_iter().take_while(|slot| *slot <= last).collect();
        }
        count *= 4;
    }
}

proptest! {

    #[test]
    fn each_slot_is_handled_once(schedule in any_schedule(), steps in prop::collection::vec(step(), 1..20)) {
        let plan = || plans(std::slice::from_ref(&schedule));
        let function = name("f");
        let mut table = Schedules::default();
        let mut stored = table.set(START, &function, plan(), true).unwrap();
        let (mut now, mut active) = (START, true);
        // The mark as the model knows it: slots up to here are handled, or nobody's.
        let mut mark = START;
        // A mark that was too far ahead of the clock, until the clock comes to it.
        let mut ahead = None;
        for step in steps {
            let marks = match step {
                Step::Pass(time) => {
                    now += time;
                    None
                }
                Step::Back(time) => {
                    now = now.saturating_sub(time).max(START);
                    let anew = table.clock_was_set(now).into_iter().next();
                    prop_assert_eq!(anew.is_some(), mark > now + AHEAD_MAX_MS);
                    if anew.is_some() {
                        ahead = ahead.max(Some(mark));
                        mark = now;
                    }
                    anew
                }
                Step::Restart(time) => {
                    now += time;
                    table = Schedules::new(vec![stored.clone()]);
                    ahead = stored.marks[0].ahead_ms;
                    prop_assert_eq!(table.set(now, &function, plan(), active), None);
                    None
                }
                Step::Pause(time) => {
                    now += time;
                    active = false;
                    table.set(now, &function, plan(), false)
                }
                Step::Resume(time) => {
                    now += time;
                    let was = std::mem::replace(&mut active, true);
                    if !was {
                        mark = mark.max(now);
                    }
                    table.set(now, &function, plan(), true)
                }
            };
            stored = marks.unwrap_or(stored);
            if let Some(passed) = ahead.filter(|ahead| active && *ahead <= now) {
                mark = mark.max(passed);
                ahead = None;
            }
            let mut due = table.due(now);
            prop_assert!(due.len() <= 1);
            // The slots after missed ones are due with the next look.
            if due.iter().any(|due| due.missed.is_some()) {
                due.extend(table.due(now));
            }
            prop_assert!(active || due.is_empty());
            let was_due = !due.is_empty();
            for due in due {
                prop_assert!(due.run.is_some() != due.missed.is_some(), "{:?}", due);
                let plan = &plan()[0];
                let slots = slots_until(plan, mark, due.mark.last_ms);
                let handled: u64 = [due.run, due.missed].iter().flatten().map(|span| span.count).sum();
                if (slots.len() as u64) < COUNT_MAX {
                    prop_assert_eq!(handled, slots.len() as u64, "{:?}", due);
                }
                let first = due.missed.or(due.run).unwrap();
                prop_assert_eq!(Some(&first.first_ms), slots.first());
                prop_assert!(due.mark.last_ms <= now);
                let tolerated = plan.catch_up_ms.max(TOLERANCE_MS) + plan.jitter_ms;
                if let Some(run) = due.run {
                    prop_assert!(now - run.first_ms <= tolerated);
                    prop_assert_eq!(run.last_ms, due.mark.last_ms);
                }
                if let Some(missed) = due.missed {
                    prop_assert!(now - missed.last_ms > tolerated);
                }
                mark = due.mark.last_ms;
                stored = Marks { function: function.clone(), marks: vec![due.mark] };
            }
            stored = table.take_reached().pop().unwrap_or(stored);
            if active && !was_due {
                // Nothing was due: no slot has passed whose jitter is over.
                let plan = &plan()[0];
                let next = plan.upcoming(mark, 1);
                prop_assert!(next.first().is_none_or(|slot| plan.due_at(*slot) > now));
            }
            prop_assert!(table.due(now).is_empty());
            prop_assert!(!active || table.next_due().is_none_or(|at| at > now));
        }
    }
}
