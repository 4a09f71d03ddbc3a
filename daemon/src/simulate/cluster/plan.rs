//! The plan of a simulation of several machines: what each of them has as its own, the messages, and the faults between them.

use super::faults::{ClusterFault, schedule};
use super::scenes::aimed;
use crate::simulate::faults::{self, Fault, FaultKind, FaultKinds};
use crate::simulate::people::PersonAct;
use crate::simulate::plan::WorldPlan;
use crate::simulate::random_streams::RandomStream;
use crate::simulate::spawner::contents::{MESSAGE_FUNCTIONS, SourceContent};
use fastrand::Rng;
#[cfg(feature = "simulate")]
use fnd_core::mutants::Mutant;

/// Most steps until the faults stop.
const STEPS: u32 = 60_000;
/// Fewest and most messages.
const MESSAGES: (usize, usize) = (20, 60);
/// Every second world has scenes, from this seed on: the plans of the smaller seeds that have failed once stay as they were.
const SCENES_FROM: u64 = 10_000;
/// A wall clock is set by so many milliseconds at most.
const CLOCK_MAX_MS: i64 = 60_000;

#[derive(Debug, Clone)]
pub(crate) struct ClusterPlan {
    pub(crate) seed: u64,
    /// Most steps until the faults stop.
    pub(crate) steps: u32,
    /// After so many milliseconds the faults stop.
    pub(crate) lasts_ms: u64,
    /// Each machine with the name that its node has.
    pub(crate) machines: Vec<(String, WorldPlan)>,
    /// The messages, earliest first: the time, the stream, and the id.
    pub(crate) messages: Vec<(u64, usize, u32)>,
    /// The faults between the machines, with their times.
    pub(crate) faults: Vec<(u64, ClusterFault)>,
    #[cfg(feature = "simulate")]
    pub(crate) mutant: Option<Mutant>,
}

impl ClusterPlan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = RandomStream::ClusterPlan.of(seed);
        let lasts_ms = random.u64(60_000..300_000);
        let count = random.usize(2..=3);
        // In some worlds the machines have no faults of their own.
        let kinds = if random.u8(0..3) == 0 {
            FaultKinds::NONE
        } else {
            FaultKinds::any(&mut random)
        };
        // The scenes have random numbers of their own. Attempts that outlast a lease show what goes on beside them.
        let mut scenes = RandomStream::Scenes.of(seed);
        let has_scenes = seed >= SCENES_FROM && scenes.bool();
        let kinds = if has_scenes {
            kinds.with(FaultKind::LastingWorkers)
        } else {
            kinds
        };
        // A second fnd with the name of the first one takes nothing.
        let has_twin = random.u8(0..8) == 0;
        let name = |machine: usize| {
            let number = if has_twin && machine == count - 1 {
                1
            } else {
                machine + 1
            };
            format!("vm{number}")
        };
        let machines = (0..count).map(|machine| (name(machine), own(&mut random, (seed, machine), kinds, lasts_ms)));
        let machines = machines.collect();
        let messages = messages(&mut random, lasts_ms);
        let mut faults = schedule(&mut random, count, lasts_ms);
        if has_scenes {
            faults.extend(aimed(&mut scenes, count, (&messages, lasts_ms)));
            faults.sort_by_key(|(at_ms, _)| *at_ms);
        }
        Self {
            seed,
            steps: STEPS,
            lasts_ms,
            machines,
            messages,
            faults,
            #[cfg(feature = "simulate")]
            mutant: None,
        }
    }

    /// Returns the plan without any fault.
    #[cfg(test)]
    pub(crate) fn without_faults(seed: u64) -> Self {
        let mut plan = Self::of(seed);
        plan.faults.clear();
        for (number, (name, machine)) in (1..).zip(&mut plan.machines) {
            *name = format!("vm{number}");
            (machine.kinds, machine.faults) = (FaultKinds::NONE, Vec::new());
            machine.acts.retain(|(at_ms, _)| *at_ms == 0);
        }
        plan
    }

    /// Returns whether the name of a machine is its own.
    pub(super) fn has_own_name(&self, machine: usize) -> bool {
        let name = &self.machines[machine].0;
        self.machines.iter().filter(|(other, _)| other == name).count() == 1
    }
}

/// Returns what happens on one machine.
fn own(random: &mut Rng, (seed, machine): (u64, usize), kinds: FaultKinds, lasts_ms: u64) -> WorldPlan {
    // Excluded: faults that the simulation of several machines cannot do yet, clock steps of days, which claims do not outlive, and a
    // silent spawner: it ends no attempt, also none whose lease is over.
    let is_fit = |fault: &Fault| match fault {
        Fault::Suspend(_) | Fault::SpawnerSilent(_) | Fault::Upgrade | Fault::Downgrade => false,
        Fault::ClockStep(ms) => ms.abs() <= CLOCK_MAX_MS,
        _ => true,
    };
    let mut faults = faults::schedule(random, kinds, lasts_ms);
    faults.retain(|(_, fault)| is_fit(fault));
    let numbers = || MESSAGE_FUNCTIONS.iter().map(|function| function.number);
    let mut acts: Vec<_> = numbers()
        .map(|number| (0, PersonAct::Save(number, SourceContent(random.u8(0..2)))))
        .collect();
    for _ in 0..random.u8(0..6) {
        let at_ms = random.u64(1000..lasts_ms);
        let later_ms = at_ms + random.u64(1..30_000);
        let number = random.choice(numbers().collect::<Vec<_>>()).unwrap_or_default();
        acts.extend(match random.u8(0..8) {
            0 => vec![(at_ms, PersonAct::Drain), (later_ms, PersonAct::CancelDrain)],
            1 => vec![
                (at_ms, PersonAct::SetEnabled(number, false)),
                (later_ms, PersonAct::SetEnabled(number, true)),
            ],
            2 => vec![(at_ms, PersonAct::Cancel(random.u8(..)))],
            3 => vec![(at_ms, PersonAct::Reload)],
            _ => vec![(at_ms, PersonAct::Save(number, SourceContent(random.u8(0..2))))],
        });
    }
    acts.sort_by_key(|(at_ms, _)| *at_ms);
    WorldPlan {
        seed: seed.wrapping_mul(8).wrapping_add(machine as u64),
        steps: STEPS,
        lasts_ms,
        functions: 0,
        kinds,
        acts,
        faults,
        #[cfg(feature = "simulate")]
        mutant: None,
    }
}

/// Draws the messages. A few come twice, within the time in which their stream knows their id, or after it.
fn messages(random: &mut Rng, lasts_ms: u64) -> Vec<(u64, usize, u32)> {
    let mut messages: Vec<(u64, usize, u32)> = Vec::new();
    let count = random.usize(MESSAGES.0..MESSAGES.1);
    let mut at_ms = 0;
    for id in 1.. {
        if messages.len() >= count {
            break;
        }
        if random.u8(0..4) == 0 {
            at_ms = random.u64(..lasts_ms);
        }
        let stream = random.usize(..MESSAGE_FUNCTIONS.len());
        messages.push((at_ms, stream, id));
        if random.u8(0..8) == 0 {
            let later_ms = if random.bool() {
                random.u64(..5_000)
            } else {
                random.u64(120_000..180_000)
            };
            messages.push((at_ms + later_ms, stream, id));
        }
    }
    messages.sort_by_key(|(at_ms, ..)| *at_ms);
    messages
}
