//! Random events in the simulated world. `world` checks the invariants at every action, and more at the end.

use super::world::{FUNCTIONS, Step, World};
use crate::records::outcome::Reason;
use proptest::prelude::*;

fn step() -> impl Strategy<Value = Step> {
    let function = 0..FUNCTIONS;
    let reason = prop_oneof![
        4 => Just(Reason::Ok),
        1 => Just(Reason::Error),
        1 => Just(Reason::Transient),
        1 => Just(Reason::Failed),
        1 => Just(Reason::ExecuteAgain),
        1 => Just(Reason::BadAnswer),
    ];
    let code = prop_oneof![3 => Just(0u8), 2 => Just(1), 1 => Just(75), 2 => Just(99), 1 => Just(65), 1 => Just(9)];
    prop_oneof![
        20 => (function.clone(), any::<[bool; 2]>(), any::<[u8; 3]>(), any::<[u8; 2]>()).prop_map(|(function, [wait, timeout], rare, [calls, which])| {
            let [later, expires, keyed] = rare.map(|n| n < 40);
            let caller = (calls < 90).then_some(which);
            Step::Submit { function, wait, timeout, later, expires, keyed, caller }
        }),
        8 => (0..16u8, 0..40u8, 0..3u8).prop_map(|(functions, event, order)| Step::Publish { functions, event, order }),
        14 => (any::<u8>(), 0..10u8).prop_map(|(which, n)| Step::Store { which, fine: n > 0 }),
        18 => (0..10u8).prop_map(|n| Step::Claim { fine: n > 0 }),
        3 => (any::<u8>(), any::<bool>(), 1..2000u16).prop_map(|(which, fine, ms)| Step::PutOff { which, fine, ms }),
        2 => any::<u8>().prop_map(|which| Step::LoseLease { which }),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(which, has_it)| Step::OtherNode { which, has_it }),
        18 => (any::<u8>(), 0..8u8).prop_map(|(which, n)| Step::Spawn { which, fine: n > 0 }),
        4 => any::<u8>().prop_map(|which| Step::NoRoom { which }),
        1 => (0..3u8).prop_map(|n| Step::Silence(n == 0)),
        18 => (any::<u8>(), code, 0..12u8, any::<bool>())
            .prop_map(|(which, code, n, result)| Step::Exit { which, code, oom: n == 0, result }),
        1 => any::<u8>().prop_map(|worker| Step::ExitAgain { worker }),
        14 => (any::<u8>(), 0..8u8).prop_map(|(which, n)| Step::Ready { which, fine: n > 0 }),
        18 => (any::<u8>(), reason).prop_map(|(which, reason)| Step::Answer { which, reason }),
        1 => any::<[u8; 2]>().prop_map(|[which, how]| Step::Break { which, how }),
        4 => any::<u8>().prop_map(|which| Step::Cancel { which }),
        2 => (function.clone(), any::<bool>()).prop_map(|(function, enabled)| Step::Enable { function, enabled }),
        2 => (function.clone(), any::<bool>()).prop_map(|(function, full)| Step::Full { function, full }),
        4 => (function.clone(), 0..40u8).prop_map(|(function, variant)| Step::Install { function, variant }),
        3 => (function.clone(), 0..40u8, 0..102u32)
            .prop_map(|(function, variant, percent)| Step::Canary { function, variant, percent }),
        1 => function.clone().prop_map(|function| Step::CanaryOver { function }),
        1 => function.clone().prop_map(|function| Step::View { function }),
        4 => Just(Step::Quiet),
        1 => function.clone().prop_map(|function| Step::Refuse { function }),
        1 => function.prop_map(|function| Step::Remove { function }),
        12 => (0..3000u16).prop_map(|ms| Step::Wait { ms }),
        8 => Just(Step::WaitForDeadline),
        1 => Just(Step::LoseSpawner),
        1 => (0..4_u8).prop_map(|exits| Step::DrainAndBack { exits }),
        2 => (any::<[bool; 2]>(), 0..3u8).prop_map(|([in_order, workers_survive], exits)| {
            Step::Restart { in_order, workers_survive, exits }
        }),
        1 => any::<bool>().prop_map(|small| Step::Budget { small }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 1..4000)
}

fn run(seed: u64, steps: &[Step]) -> World {
    let mut world = World::new(seed);
    for step in steps {
        world.step(step);
    }
    world
}

/// Each case has thousands of events, so that a twentieth of the usual number (set by `PROPTEST_CASES`) is enough.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases / 20,
        max_shrink_iters: 3_000,
        ..usual
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_accepted_invocation_gets_one_final_record_and_nothing_stays_stuck(seed: u64, steps in steps()) {
        run(seed, &steps).settle();
    }

    #[test]
    fn a_drain_or_stop_ends_and_answers_everybody(seed: u64, steps in steps(), at_once: bool) {
        run(seed, &steps).shut_down(at_once);
    }

    #[test]
    fn the_same_seed_and_events_give_the_same_actions(seed: u64, steps in steps()) {
        prop_assert_eq!(run(seed, &steps).log, run(seed, &steps).log);
    }
}
