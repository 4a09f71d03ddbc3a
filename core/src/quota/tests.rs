use super::books::*;
use super::*;
use fnd_wire::ids::{FunctionName, InvocationId};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const PATHS: Paths<'_> = Paths {
    home: "/home/f",
    cache: "/cache/f",
};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn name(n: u8) -> FunctionName {
    FunctionName::new(&format!("f{n}")).unwrap()
}

fn tree(bytes: u64, gap: Option<Gap>) -> TreeSize {
    TreeSize { bytes, gap }
}

fn both(home: TreeSize, cache: TreeSize) -> Measured {
    Measured { home, cache }
}

fn plain(home: u64) -> Measured {
    both(tree(home, None), tree(0, None))
}

const ONE: Quotas = Quotas {
    home: Some(MIB),
    cache: Some(MIB),
};

fn books() -> (QuotaBooks, FunctionName) {
    let mut books = QuotaBooks::default();
    books.needs(&name(1), Some(ONE));
    (books, name(1))
}

fn end(number: u128) -> LastEnd {
    (InvocationId(number), Some(1), None)
}

/// Ends an attempt, measures it at once, and returns the time of the next measurement.
fn run(
    books: &mut QuotaBooks,
    (number, now): (u128, Duration),
    result: Result<Measured, MeasurementFailure>,
) -> Option<Duration> {
    books.ended(&name(1), end(number), false, now);
    let at = books.next_due()?.max(now);
    assert_eq!(books.due(at), Some(name(1)));
    books.measured(&name(1), result, at);
    books.next_due()
}

#[test]
fn what_is_full_says_how_much_and_what_to_do() {
    let none = Quotas::default();
    let home = |quotas: &Quotas, tree| exceeded(quotas, &both(tree, TreeSize::default()), PATHS);
    for (quotas, found, words) in [
        (&ONE, tree(MIB, None), None),
        (
            &ONE,
            tree(MIB + 1, None),
            Some("its home has 1 MiB, more than 1 MiB (`limits.home`): remove files from /home/f"),
        ),
        (
            &ONE,
            tree(5 * MIB / 2, None),
            Some("its home has 2.5 MiB, more than 1 MiB"),
        ),
        (&none, tree(u64::MAX, None), None),
        (
            &ONE,
            tree(0, Some(Gap::Closed("a/b".into()))),
            Some("may not read `a/b` itself: `chmod u+rx`"),
        ),
        (&none, tree(0, Some(Gap::Closed("a/b".into()))), None),
        (
            &ONE,
            tree(0, Some(Gap::Deep("a".into()))),
            Some("remove `a` from /home/f"),
        ),
        (&ONE, tree(0, Some(Gap::Unfinished("late".into()))), None),
        (
            &ONE,
            tree(2 * MIB, Some(Gap::Unfinished("late".into()))),
            Some("its home has 2 MiB"),
        ),
    ] {
        let said = home(quotas, found);
        match words {
            Some(words) => assert!(
                said.as_ref().is_some_and(|said| said.contains(words)),
                "{said:?} {words}"
            ),
            None => assert_eq!(said, None),
        }
    }
    let said = exceeded(&ONE, &both(tree(2 * MIB, None), tree(3 * MIB, None)), PATHS).unwrap();
    assert!(said.contains("limits.home") && said.contains("; its cache has 3 MiB") && said.contains("/cache/f"));
}

#[test]
fn sizes_for_people() {
    for (bytes, text) in [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1 << 30, "1 GiB"),
        ((1 << 30) + (1 << 29), "1.5 GiB"),
        (u64::MAX, "16777215.9 TiB"),
    ] {
        assert_eq!(about(bytes), text);
    }
}

#[test]
fn an_unfinished_count_is_at_least_what_was_known() {
    let late = |bytes| tree(bytes, Some(Gap::Unfinished("late".into())));
    let known = Some(both(tree(5, None), tree(5, None)));
    let now = both(late(3), late(9)).after(known.clone());
    assert_eq!(
        (now.home.bytes, now.cache.bytes, now.unfinished()),
        (5, 9, Some("late"))
    );
    assert_eq!(plain(3).after(known), plain(3));
}

#[test]
fn a_function_that_runs_rarely_is_measured_after_each_run() {
    let (mut books, _) = books();
    for number in 1..20 {
        let now = secs(100 * u64::try_from(number).unwrap());
        books.ended(&name(1), end(number), false, now);
        assert_eq!(books.next_due(), Some(now));
        assert_eq!(books.due(now), Some(name(1)));
        books.measured(&name(1), Ok(plain(0)), now);
        assert_eq!(books.next_due(), None);
    }
}

#[test]
fn a_function_that_runs_all_the_time_is_measured_once_a_minute() {
    let (mut books, f) = books();
    let mut count = 0;
    for second in 0..3600 {
        let now = secs(1000 + second);
        for call in 0..10 {
            books.ended(&f, end(u128::from(second) * 10 + call), false, now);
        }
        while let Some(function) = books.due(now) {
            count += 1;
            books.measured(&function, Ok(plain(0)), now);
        }
    }
    assert!((60..70).contains(&count), "{count}");
}

#[test]
fn a_slow_measurement_has_a_long_pause() {
    let (mut books, f) = books();
    books.ended(&f, end(1), false, secs(1000));
    assert_eq!(books.due(secs(1000)), Some(f.clone()));
    books.ended(&f, end(2), false, secs(1001));
    assert_eq!(books.next_due(), None, "it is measured already");
    books.measured(&f, Ok(plain(0)), secs(1010));
    assert_eq!(books.next_due(), Some(secs(1110)));
}

#[test]
fn a_full_function_is_measured_again_soon_if_somebody_wants_it_and_also_if_nobody_does() {
    let (mut books, f) = books();
    assert_eq!(run(&mut books, (1, secs(1000)), Ok(plain(2 * MIB))), Some(secs(1030)));
    assert!(books.exceeded(&f, PATHS).is_some());
    books.refused(&f, secs(1000));
    assert_eq!(books.next_due(), Some(secs(1001)));
    books.refused(&f, secs(1010));
    assert_eq!(books.next_due(), Some(secs(1001)), "the first one is sooner");
    assert_eq!(books.due(secs(1010)), Some(f.clone()));
    books.measured(&f, Ok(plain(0)), secs(1010));
    assert_eq!((books.exceeded(&f, PATHS), books.next_due()), (None, None));
}

#[test]
fn a_larger_quota_counts_at_once() {
    let (mut books, f) = books();
    run(&mut books, (1, secs(1000)), Ok(plain(2 * MIB)));
    assert!(books.exceeded(&f, PATHS).is_some());
    let home = Some(3 * MIB);
    books.needs(&f, Some(Quotas { home, cache: None }));
    assert_eq!(books.exceeded(&f, PATHS), None);
    books.needs(&f, Some(Quotas::default()));
    assert_eq!((books.found(&f), books.next_due()), (None, None));
}

#[test]
fn a_failed_measurement_changes_nothing_and_is_tried_again() {
    let (mut books, f) = books();
    run(&mut books, (1, secs(1000)), Ok(plain(2 * MIB)));
    let failed = || Err(MeasurementFailure::NotPossible("no memory".into()));
    let mut at = secs(1030);
    for pause in [5, 10, 20, 40, 80, 160, 300, 300] {
        assert_eq!(books.due(at), Some(f.clone()));
        books.measured(&f, failed(), at);
        assert!(books.exceeded(&f, PATHS).unwrap().contains("2 MiB"));
        let next = books.next_due().unwrap();
        // A full function is measured sooner.
        assert_eq!(next - at, secs(pause.min(30)));
        at = next;
    }
}

#[test]
fn a_function_that_kills_what_measures_it_counts_as_full() {
    let (mut books, f) = books();
    let mut at = secs(1000);
    books.ended(&f, end(1), false, at);
    for count in 1..=3 {
        at = at.max(books.next_due().unwrap());
        assert_eq!(books.due(at), Some(f.clone()));
        books.measured(&f, Err(MeasurementFailure::CutOff("signal KILL".into())), at);
        assert_eq!(books.exceeded(&f, PATHS).is_some(), count == 3);
    }
    at = books.next_due().unwrap();
    assert_eq!(books.due(at), Some(f.clone()));
    books.measured(&f, Ok(plain(0)), at);
    assert_eq!(books.exceeded(&f, PATHS), None);
}

#[test]
fn functions_of_an_earlier_fnd_are_measured_one_after_the_other() {
    let mut books = QuotaBooks::default();
    let now = secs(10);
    for n in 0..100 {
        books.needs(&name(n), Some(ONE));
        books.ended(&name(n), end(1), true, now);
    }
    let mut at = now;
    let mut measured = Vec::new();
    while let Some(next) = books.next_due() {
        at = at.max(next);
        let function = books.due(at).unwrap();
        books.measured(&function, Ok(plain(0)), at);
        measured.push(at);
    }
    assert_eq!(
        (measured.len(), measured.last()),
        (100, Some(&Duration::from_millis(19_900)))
    );
}

#[derive(Debug, Clone)]
enum Step {
    Want(u8, bool),
    End(u8),
    Refused(u8),
    Begin,
    Over(u8, u8),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4u8, prop::bool::weighted(0.9)).prop_map(|(f, some)| Step::Want(f, some)),
        (0..4u8).prop_map(Step::End),
        (0..4u8).prop_map(Step::Refused),
        Just(Step::Begin),
        (0..4u8, 0..4u8).prop_map(|(f, how)| Step::Over(f, how)),
        any::<u16>().prop_map(Step::Wait),
    ]
}

proptest! {
    /// In every order of events: few measurements at once, none twice within a second, and each end is followed by a measurement.
    #[test]
    fn every_end_is_followed_by_a_measurement(steps in prop::collection::vec(step(), 1..300)) {
        let mut books = QuotaBooks::default();
        let mut now = secs(1000);
        let mut number = 0;
        let mut wanted = BTreeMap::new();
        let mut running: BTreeMap<FunctionName, Duration> = BTreeMap::new();
        let mut ended_at: BTreeMap<FunctionName, Duration> = BTreeMap::new();
        // Functions with an end that no measurement has followed.
        let mut owed: BTreeMap<FunctionName, ()> = BTreeMap::new();
        let begin = |books: &mut QuotaBooks, now, running: &mut BTreeMap<_, _>, ended_at: &BTreeMap<_, Duration>, owed: &mut BTreeMap<_, _>| {
            let Some(function) = books.due(now) else { return false };
            if let Some(before) = ended_at.get(&function) {
                assert!(now >= *before + secs(1), "{function} is measured too often");
            }
            owed.remove(&function);
            assert!(running.insert(function, now).is_none(), "twice at once");
            assert!(running.len() <= AT_ONCE);
            true
        };
        for step in steps {
            match step {
                Step::Want(f, some) => {
                    books.needs(&name(f), some.then_some(ONE));
                    if some { wanted.insert(name(f), ()); } else { wanted.remove(&name(f)); owed.remove(&name(f)); ended_at.remove(&name(f)); }
                }
                Step::End(f) => {
                    number += 1;
                    books.ended(&name(f), end(number), number % 7 == 0, now);
                    if wanted.contains_key(&name(f)) { owed.insert(name(f), ()); }
                }
                Step::Refused(f) => books.refused(&name(f), now),
                Step::Begin => drop(begin(&mut books, now, &mut running, &ended_at, &mut owed)),
                Step::Over(f, how) => if running.remove(&name(f)).is_some() {
                    let result = match how {
                        0 => Ok(plain(0)),
                        1 => Ok(plain(2 * MIB)),
                        2 => Err(MeasurementFailure::NotPossible("x".into())),
                        _ => Err(MeasurementFailure::CutOff("x".into())),
                    };
                    books.measured(&name(f), result, now);
                    if wanted.contains_key(&name(f)) { ended_at.insert(name(f), now); }
                },
                Step::Wait(ms) => now += Duration::from_millis(u64::from(ms)),
            }
        }
        for (function, _) in std::mem::take(&mut running) {
            books.measured(&function, Ok(plain(0)), now);
            if wanted.contains_key(&function) { ended_at.insert(function, now); }
        }
        for _ in 0..100 {
            let Some(at) = books.next_due() else { break };
            now = now.max(at);
            begin(&mut books, now, &mut running, &ended_at, &mut owed);
            for (function, _) in std::mem::take(&mut running) {
                books.measured(&function, Ok(plain(0)), now);
                ended_at.insert(function, now);
            }
        }
        prop_assert_eq!(books.next_due(), None, "nothing is left to do");
        prop_assert!(owed.is_empty(), "never measured: {:?}", owed);
    }
}

/// Somebody has time to make room before runs are refused.
#[test]
fn four_fifths_of_a_quota_are_a_warning_and_the_whole_is_more_than_that() {
    let of = |bytes| nearly(&ONE, &plain(bytes));
    assert_eq!(of(MIB * 79 / 100), None);
    let warning = of(MIB * 81 / 100).unwrap();
    assert!(
        warning.starts_with("its home has 829.4 KiB of 1 MiB (`limits.home`)"),
        "{warning}"
    );
    assert_eq!(nearly(&Quotas::default(), &plain(u64::MAX)), None);
    let (mut books, function) = books();
    for (number, bytes, expected) in [(1, MIB / 2, false), (2, MIB - 1, true), (3, MIB + 1, false)] {
        run(
            &mut books,
            (number, secs(1000) * u32::try_from(number).unwrap()),
            Ok(plain(bytes)),
        );
        assert_eq!(
            books.nearly(&function).is_some(),
            expected,
            "{bytes}: a full one is refused"
        );
    }
}
