use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

fn ms(n: u32) -> Duration {
    MS * n
}

/// A timer with the time it is.
struct World {
    timer: RescanTimer,
    now: Duration,
    /// How long a scan takes.
    takes: Duration,
}

impl World {
    fn new() -> Self {
        Self {
            timer: RescanTimer::new(),
            now: ms(1_000),
            takes: ms(3),
        }
    }

    /// Lets time pass until the next scan and returns what came of it.
    fn scan(&mut self, moved: bool, unsettled: Option<Duration>) -> Settled {
        self.now = self.now.max(self.timer.due().expect("something is waited for"));
        let began = self.now;
        self.now += self.takes;
        self.timer.finished(FinishedScan {
            began,
            ended: self.now,
            moved,
            unsettled,
            watched: true,
        })
    }

    fn ask(&mut self, number: u64) {
        self.timer.ask(number, self.now);
    }
}

fn over(number: u64) -> Settled {
    Settled {
        quiet: false,
        over: vec![number],
    }
}

#[test]
fn nothing_is_scanned_before_the_first_request() {
    let mut world = World::new();
    world.timer.mark_dirty(world.now);
    assert_eq!(world.timer.due(), None);
    world.ask(1);
    assert_eq!(world.timer.due(), Some(ms(1_000)));
    assert_eq!(world.scan(true, None), over(1));
}

#[test]
fn a_young_file_holds_the_answer_up_until_it_is_complete() {
    let mut world = World::new();
    world.ask(1);
    assert_eq!(world.scan(true, Some(ms(1_900))), Settled::default());
    assert_eq!(world.scan(true, None), over(1));
    assert_eq!(world.now, ms(1_000 + 3 + 1_900 + 3));
}

#[test]
fn a_growing_file_holds_the_answer_up_for_as_long_as_patience_lasts() {
    let mut world = World::new();
    world.ask(1);
    while world.scan(false, Some(ms(2_000))) != over(1) {
        world.timer.mark_dirty(world.now);
        assert!(world.now < ms(7_000));
    }
    assert!(world.now >= ms(6_000));
}

#[test]
fn requests_do_not_delay_each_other() {
    let mut world = World::new();
    for number in 1..=3 {
        world.ask(number);
        while world.now < ms(1_000) + ms(1_500) * u32::try_from(number).unwrap() {
            assert_eq!(world.scan(false, Some(ms(250))), Settled::default());
        }
    }
    while world.scan(false, Some(ms(250))) != over(1) {
        assert!(world.now < ms(7_000));
    }
}

#[test]
fn it_is_quiet_once_after_each_change() {
    let mut world = World::new();
    world.ask(1);
    world.scan(true, None);
    let quiet = Settled {
        quiet: true,
        over: vec![],
    };
    assert_eq!(world.scan(false, None), quiet);
    assert_eq!(world.now, ms(1_003 + 1_000 + 3));
    // Now only the rescan is left.
    assert_eq!(world.timer.due(), Some(world.now + RESCAN));
    assert_eq!(world.scan(false, None), Settled::default());
    world.timer.mark_dirty(world.now);
    assert_eq!(world.scan(true, None), Settled::default());
    assert_eq!(world.scan(false, None), quiet);
}

/// Files that are no functions may be written to all the time. So may a function; it delays others only for a while.
#[test]
fn hints_that_never_cease_delay_neither_quiet_nor_scans() {
    for (unsettled, latest) in [(None, 3_100), (Some(ms(2_000)), 7_100)] {
        let mut world = World::new();
        world.ask(1);
        world.scan(true, unsettled);
        let mut scans = 0;
        loop {
            world.timer.mark_dirty(world.now);
            world.timer.mark_dirty(world.now + ms(19));
            scans += 1;
            if world.scan(false, unsettled).quiet {
                break;
            }
            assert!(world.now < ms(latest), "{unsettled:?}: {:?}", world.now);
        }
        assert!(scans > 10, "{scans}");
    }
}

#[test]
fn scans_leave_time_for_other_things() {
    let mut world = World::new();
    world.takes = ms(700);
    world.ask(1);
    world.scan(true, None);
    let ended = world.now;
    world.timer.mark_dirty(ended + MS);
    assert_eq!(world.timer.due(), Some(ended + ms(700)));
}

#[test]
fn directories_that_cannot_be_watched_are_scanned_more_often() {
    let mut timer = RescanTimer::new();
    timer.ask(1, ms(0));
    let scan = FinishedScan {
        began: ms(0),
        ended: ms(1),
        moved: false,
        unsettled: None,
        watched: false,
    };
    timer.finished(scan);
    assert_eq!(timer.due(), Some(ms(1) + REWATCH));
}

#[derive(Debug, Clone)]
enum Happens {
    Dirty,
    Ask,
    /// A scan, if one is due within this time, that takes and finds this.
    FinishedScan {
        within: u32,
        takes: u32,
        moved: bool,
        unsettled: Option<u32>,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    let unsettled = proptest::option::of(0..=2_000_u32);
    prop_oneof![
        Just(Happens::Dirty),
        Just(Happens::Ask),
        (0..3_000_u32, 0..400_u32, any::<bool>(), unsettled).prop_map(|(within, takes, moved, unsettled)| {
            Happens::FinishedScan {
                within,
                takes,
                moved,
                unsettled,
            }
        }),
    ]
}

proptest! {
    /// After any history of hints, once they cease, every request is answered once and the directories are reported
    /// quiet once, both in bounded time.
    #[test]
    fn every_wait_ends(happens in proptest::collection::vec(happens(), 0..200)) {
        let mut world = World::new();
        let mut asked = 0;
        let mut answered = Vec::new();
        let mut owed = false;
        let mut take = |settled: Settled, moved: bool, owed: &mut bool| {
            *owed |= moved;
            if settled.quiet {
                assert!(*owed, "quiet without a change");
                *owed = false;
            }
            answered.extend(settled.over);
        };
        for one in happens {
            match one {
                Happens::Dirty => world.timer.mark_dirty(world.now),
                Happens::Ask => {
                    asked += 1;
                    world.ask(asked);
                }
                Happens::FinishedScan { within, takes, moved, unsettled } => {
                    let until = world.now + ms(within);
                    if world.timer.due().is_some_and(|due| due <= until) {
                        world.takes = ms(takes);
                        take(world.scan(moved, unsettled.map(ms)), moved, &mut owed);
                    } else {
                        world.now = until;
                    }
                }
            }
        }
        asked += 1;
        world.ask(asked);
        // Looks last at most 400 ms here, and so do the rests between them.
        let end = world.now + PATIENCE + QUIET + ms(2_000);
        while world.timer.due().is_some_and(|due| due <= end) {
            take(world.scan(false, Some(ms(2_000))), false, &mut owed);
        }
        prop_assert!(!owed, "never quiet again");
        answered.sort_unstable();
        prop_assert_eq!(answered, (1..=asked).collect::<Vec<_>>());
    }
}
