//! The plan of a simulation: the acts of people and the faults, with their times. A seed makes a plan; shortening takes parts of
//! it away.

use super::faults::{Fault, FaultKinds, schedule};
use super::people::PersonAct;
use super::random_streams::RandomStream;
use super::spawner::contents::{Manner, SourceContent};
use fastrand::Rng;
#[cfg(feature = "simulate")]
use fnd_core::mutants::Mutant;

/// Most steps until the faults stop.
const STEPS: u32 = 20_000;
/// Fewest and most acts of people.
const ACTS: (usize, usize) = (150, 400);
/// Fewest and most functions, with the one that hooks call.
const FUNCTIONS: (u8, u8) = (2, 5);
/// Most acts of a moment.
const BURST: usize = 16;

#[derive(Debug, Clone)]
pub(crate) struct WorldPlan {
    pub(crate) seed: u64,
    /// Most steps until the faults stop.
    pub(crate) steps: u32,
    /// After so many milliseconds the faults stop, and people act no more.
    pub(crate) lasts_ms: u64,
    /// The number of functions. Function 0 is the one that hooks and alerts call.
    pub(crate) functions: u8,
    pub(crate) kinds: FaultKinds,
    /// The acts of people, with the milliseconds since the begin, earliest first.
    pub(crate) acts: Vec<(u64, PersonAct)>,
    /// The faults, with their times in the same form.
    pub(crate) faults: Vec<(u64, Fault)>,
    #[cfg(feature = "simulate")]
    pub(crate) mutant: Option<Mutant>,
}

impl WorldPlan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = RandomStream::Plan.of(seed);
        let lasts_ms = random.u64(60_000..600_000);
        let functions = random.u8(FUNCTIONS.0..=FUNCTIONS.1);
        let themes = [&[Manner::Large][..], &[Manner::Hooked, Manner::Scheduled], &[], &[]];
        let theme = themes[random.usize(..themes.len())];
        let contents = (0..functions).map(|function| contents(&mut random, function, theme));
        let contents: Vec<Vec<SourceContent>> = contents.collect();
        let kinds = FaultKinds::any(&mut random);
        let is_calm = random.bool();
        let mut people = RandomStream::People.of(seed);
        Self {
            seed,
            steps: STEPS,
            lasts_ms,
            functions,
            kinds,
            acts: acts(&mut people, (lasts_ms, is_calm), &contents),
            faults: schedule(&mut RandomStream::Faults.of(seed), kinds, lasts_ms),
            #[cfg(feature = "simulate")]
            mutant: None,
        }
    }
}

/// Draws the contents that a function may have. They have much in common, so that one follows from another: a few manifests, each
/// with code of several fates. With a theme, only its manifests come.
fn contents(random: &mut Rng, function: u8, theme: &[Manner]) -> Vec<SourceContent> {
    if function == 0 {
        // A script and a handler with an empty manifest: the calls of hooks end here.
        return vec![SourceContent(0), SourceContent(1)];
    }
    let manners: Vec<Manner> = match random.choice(theme) {
        Some(manner) => vec![*manner],
        None => (0..random.u8(1..=2))
            .map(|_| SourceContent(random.u8(..)).manner())
            .collect(),
    };
    // Scripts and handlers that can serve are most frequent. The numbers are the fates of `SourceContent`.
    let fates = [0, 0, 1, 1, 1, 5, 7, 7, 2, 3, 4, 6];
    let any = |random: &mut Rng, fates: &[u8]| {
        let fate = random.choice(fates).copied().unwrap_or_default();
        let manner = random.choice(&manners).copied();
        // Contents that differ in nothing but the code come, too.
        let is_it = |content: &SourceContent| content.0 & 7 == fate && Some(content.manner()) == manner;
        let all: Vec<SourceContent> = (0..=u8::MAX).map(SourceContent).filter(is_it).collect();
        // A script has no manifest that only a handler may have.
        random.choice(all).unwrap_or(SourceContent(fate))
    };
    // The first one serves.
    let first = any(random, &fates[..8]);
    let count = random.usize(2..5);
    let more: Vec<SourceContent> = (0..count).map(|_| any(random, &fates)).collect();
    [first].into_iter().chain(more).collect()
}

/// Draws the acts of people. Where the node `is_calm`, no person deletes a function, disables it or pauses its schedules: then
/// the oracles can ask for every slot and every hook.
fn acts(people: &mut Rng, (lasts_ms, is_calm): (u64, bool), contents: &[Vec<SourceContent>]) -> Vec<(u64, PersonAct)> {
    let first = |(function, contents): (u8, &Vec<SourceContent>)| (0, PersonAct::Save(function, contents[0]));
    let mut acts: Vec<(u64, PersonAct)> = (0..).zip(contents).map(first).collect();
    let count = people.usize(ACTS.0..ACTS.1);
    while acts.len() < count {
        // Many faults of fnd show only if several things happen at the same time.
        let (mut at_ms, burst) = (people.u64(..lasts_ms), people.usize(1..=BURST));
        let spread_ms = if people.bool() { 0 } else { people.u64(1..200) };
        for _ in 0..burst {
            let function = people.usize(..contents.len());
            let number = u8::try_from(function).expect("there are few functions");
            let act = PersonAct::any(people, number, &contents[function]);
            if is_calm
                && matches!(
                    act,
                    PersonAct::Remove(_) | PersonAct::SetEnabled(..) | PersonAct::Pause(..)
                )
            {
                continue;
            }
            if act == PersonAct::Drain {
                // While fnd drains, nothing goes on.
                acts.push((at_ms + people.u64(1..20_000), PersonAct::CancelDrain));
            }
            acts.push((at_ms, act));
            at_ms += spread_ms;
        }
    }
    // Stable: acts of one moment keep their order.
    acts.sort_by_key(|(at_ms, _)| *at_ms);
    acts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_one_plan_and_other_seeds_make_others() {
        let text = |seed| format!("{:?}", WorldPlan::of(seed));
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }

    #[test]
    fn plans_begin_with_files_that_can_serve_and_ask_for_many_runs() {
        for plan in (0..100).map(WorldPlan::of) {
            for number in 0..plan.functions {
                let is_saved = |(at_ms, act): &(u64, PersonAct)| {
                    *at_ms == 0
                        && matches!(act, PersonAct::Save(function, content) if *function == number && content.is_good())
                };
                assert!(plan.acts.iter().any(is_saved), "{plan:?}");
            }
            assert!(plan.acts.is_sorted_by_key(|(at_ms, _)| *at_ms));
            let requests = plan
                .acts
                .iter()
                .filter(|(_, act)| matches!(act, PersonAct::Submit(_)))
                .count();
            assert!(requests > 60, "seed {} has {requests} requests", plan.seed);
        }
    }
}
