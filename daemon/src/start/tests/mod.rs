//! Tests the life of versions from outside. Files come, change and go. The spawner answers in any order. Builds, checks and loads
//! succeed or fail. People roll back, pin releases and start canaries. fnd starts again at any moment. The tests do not look at
//! how fnd decides: they compare what serves and what people are told.
//!
//! Files:
//! - `small`: the control server of the world, for the tests of `control`
//! - `model`: which content of a function serves after what people did
//! - `spawner`: a spawner that a test plays
//! - `world`: the whole daemon in one process, with that spawner and without the catalog's thread

mod model;
pub(crate) mod small;
pub(crate) mod spawner;
pub(crate) mod world;

use crate::simulate::Fate;
use fnd_core::lifecycle::ReleaseChange;
use fnd_core::lifecycle::release::HoldKind;
use fnd_wire::ids::FunctionName;
use model::Model;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use spawner::{Content, NOT_THERE};
use std::cell::Cell;
use std::collections::BTreeMap;
use tokio::sync::oneshot::error::TryRecvError;
use world::World;

/// Number of contents that a file may have: two of each fate.
const CONTENTS: u8 = 16;
/// Number of functions.
const FUNCTIONS: u8 = 2;

/// Something that happens.
#[derive(Debug, Clone)]
enum Step {
    Write(u8, u8),
    /// Somebody saves a file, which the catalog has not seen yet.
    Save(u8, u8),
    Report(u8),
    Remove(u8),
    Hold(u8, HoldKind, Option<u8>),
    EndHold(u8),
    TryCanary(u8),
    Promote(u8),
    StopCanary(u8),
    /// fnd is killed or stopped, and starts again.
    Restart {
        is_killed: bool,
    },
    /// The spawner answers one of the installations that wait.
    Install(u8),
    /// One of the workers that load or run becomes ready or ends.
    GoOn(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let function = 0..FUNCTIONS;
    let kind = prop_oneof![Just(HoldKind::Rollback), Just(HoldKind::Pin)];
    prop_oneof![
        10 => (function.clone(), 0..CONTENTS).prop_map(|(function, content)| Step::Write(function, content)),
        3 => (function.clone(), 0..CONTENTS).prop_map(|(function, content)| Step::Save(function, content)),
        3 => function.clone().prop_map(Step::Report),
        1 => function.clone().prop_map(Step::Remove),
        4 => (function.clone(), kind, proptest::option::of(any::<u8>()))
            .prop_map(|(function, kind, which)| Step::Hold(function, kind, which)),
        2 => function.clone().prop_map(Step::EndHold),
        2 => function.clone().prop_map(Step::TryCanary),
        1 => function.clone().prop_map(Step::Promote),
        1 => function.prop_map(Step::StopCanary),
        2 => any::<bool>().prop_map(|is_killed| Step::Restart { is_killed }),
        8 => any::<u8>().prop_map(Step::Install),
        8 => any::<u8>().prop_map(Step::GoOn),
    ]
}

fn name(number: u8) -> FunctionName {
    FunctionName::new(&format!("f{number}")).unwrap()
}

/// The world, and a model of each function, with which the world is compared.
struct Case {
    world: World,
    models: BTreeMap<u8, Model>,
    /// The hold that a person has asked for, until fnd answers.
    held: Option<(u8, HoldKind, Content)>,
}

impl Case {
    fn new(mut world: World) -> Self {
        world.settle();
        Self {
            world,
            models: (0..FUNCTIONS).map(|number| (number, Model::default())).collect(),
            held: None,
        }
    }

    /// Deletes every function. Nothing of the functions may be left after that.
    fn end(mut self) -> World {
        for number in 0..FUNCTIONS {
            self.step(&Step::Remove(number));
        }
        self.world.settle();
        for number in 0..FUNCTIONS {
            assert_eq!(
                self.world.remains(&name(number)),
                [""; 0],
                "f{number} is deleted, and this is left of it"
            );
        }
        self.world
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write(number, content) => {
                self.world.write(&name(number), Some(Content(content)));
                self.model(number).write(Content(content));
            }
            Step::Save(number, content) => drop(self.world.spawner.files.insert(name(number), Content(content))),
            Step::Report(number) => {
                let content = self.world.spawner.files.get(&name(number)).copied();
                if self.world.report(&name(number)) {
                    self.model(number)
                        .write(content.expect("a deletion is reported at once"));
                }
            }
            Step::Remove(number) => {
                self.world.write(&name(number), None);
                self.model(number).remove();
            }
            Step::Hold(number, kind, which) => {
                let chosen = which.and_then(|which| self.world.release(&name(number), which));
                let chosen = chosen.map(|version| version.hex());
                let hold = ReleaseChange::Hold(kind, chosen);
                if let Ok(held) = self.world.change(&name(number), &hold) {
                    self.held = Some((number, kind, Content::of(held.expect("a release is held"))));
                }
            }
            Step::EndHold(number) => {
                if self.world.change(&name(number), &ReleaseChange::EndHold).is_ok() {
                    self.model(number).end_hold();
                }
            }
            Step::TryCanary(number) => {
                if self.world.change(&name(number), &ReleaseChange::Canary(30)).is_ok() {
                    self.model(number).try_canary();
                }
            }
            Step::Promote(number) => {
                if self.world.change(&name(number), &ReleaseChange::Promote).is_ok() {
                    self.model(number).promote();
                }
            }
            Step::StopCanary(number) => {
                if self.world.change(&name(number), &ReleaseChange::StopCanary).is_ok() {
                    self.model(number).stop_canary();
                }
            }
            Step::Restart { is_killed } => {
                // The scan at the start also finds the files that were saved and not yet reported.
                for (number, model) in &mut self.models {
                    if let Some(content) = self.world.unreported(&name(*number)) {
                        model.write(content);
                    }
                }
                self.world.restart(is_killed);
            }
            Step::Install(which) => self.world.install_one(usize::from(which)),
            Step::GoOn(which) => self.world.go_on_one(usize::from(which)),
        }
    }

    fn model(&mut self, number: u8) -> &mut Model {
        self.models.get_mut(&number).expect("each function has one")
    }

    /// Lets everything end, and compares the world with the models.
    fn check(&mut self) {
        self.world.settle();
        let is_gone = self.world.callers.iter_mut().any(|caller| {
            // The list may show a release for some time that was deleted already.
            matches!(caller.try_recv(), Ok(Err(why)) if why.contains(NOT_THERE))
        });
        if let Some((number, kind, content)) = self.held.take().filter(|_| !is_gone) {
            self.model(number).hold(kind, content);
        }
        for (number, model) in &self.models {
            let (serving, canary, hold) = self.world.shown(&name(*number));
            let hold_expected = model.hold.map(|hold| (hold.kind, hold.content));
            assert_eq!(
                (serving, canary, hold),
                (model.serving, model.canary, hold_expected),
                "f{number}: the content that serves, the canary and the hold; {model:?}"
            );
        }
        self.people_are_told();
    }

    /// Checks that people see an error of each file that cannot be installed, and that each caller has an answer.
    fn people_are_told(&mut self) {
        for number in 0..FUNCTIONS {
            let file = self.world.spawner.files.get(&name(number)).copied();
            let file = file.filter(|_| self.world.unreported(&name(number)).is_none());
            let is_refused = file.is_some_and(|file| matches!(file.fate(), Fate::Refused | Fate::NotBuilt));
            assert!(
                !is_refused || self.world.error(&name(number)).is_some(),
                "f{number} shows no error"
            );
        }

        for mut caller in self.world.callers.drain(..) {
            let is_answered = !matches!(caller.try_recv(), Err(TryRecvError::Empty));
            assert!(is_answered, "a caller waits for ever");
        }
    }

    /// Lets everything end, and compares what people see with the files. The models are not used, because they depend on the
    /// order in which things end.
    fn check_order_free(&mut self) {
        for number in 0..FUNCTIONS {
            self.world.report(&name(number));
        }
        self.world.settle();
        self.people_are_told();
        let before: Vec<_> = (0..FUNCTIONS).map(|number| self.world.shown(&name(number))).collect();
        for (number, (serving, canary, hold)) in before.iter().enumerate() {
            let file = self
                .world
                .spawner
                .files
                .get(&name(u8::try_from(number).unwrap()))
                .copied();
            let expected = match (hold, canary, file) {
                // A handler that cannot be loaded serves only while no other one does, so another release may serve beside the hold.
                (Some((_, held)), ..) if held.fate() == Fate::NotLoaded => *serving,
                (Some((_, held)), ..) => Some(*held),
                (None, Some(canary), _) => {
                    let is_old = Some(*canary) != file && file.is_some_and(Content::is_good);
                    assert!(!is_old, "f{number}: {canary:?} is a canary beside {file:?}");
                    *serving
                }
                (None, None, Some(file)) if file.is_good() => Some(file),
                (None, None, Some(_)) => *serving,
                (None, None, None) => None,
            };
            assert_eq!(
                *serving,
                expected,
                "f{number}: {hold:?}, canary {canary:?}, file {file:?}, error {:?}",
                self.world.error(&name(u8::try_from(number).unwrap()))
            );
        }
        self.world.restart(true);
        self.world.settle();
        let after: Vec<_> = (0..FUNCTIONS).map(|number| self.world.shown(&name(number))).collect();
        for (before, after) in before.iter().zip(&after) {
            // Which release serves beside a held one that cannot be loaded depends on the order of earlier answers.
            let is_loaded = before.2.is_none_or(|(_, held)| held.fate() != Fate::NotLoaded);
            assert!(!is_loaded || before == after, "a restart makes {after:?} of {before:?}");
        }
    }
}

/// Runs cases of random steps, one for each `part` of the usual number (set by `PROPTEST_CASES`). All cases use one world, until a
/// case fails: a new world takes longer than a case.
fn run(part: u32, check: impl Fn(World, &[Step]) -> World) {
    let world = Cell::new(None);
    let config = ProptestConfig {
        cases: ProptestConfig::default().cases / part,
        max_shrink_iters: 2_000,
        ..ProptestConfig::with_source_file(file!())
    };
    let steps = proptest::collection::vec(step(), 1..40);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        world.set(Some(check(world.take().unwrap_or_else(World::new), &steps)));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn what_serves_at_rest_is_what_people_asked_for() {
    run(8, |world, steps| {
        let mut case = Case::new(world);
        for step in steps {
            // Only the other test has files that are saved and not yet reported.
            case.step(&match *step {
                Step::Save(number, content) => Step::Write(number, content),
                ref other => other.clone(),
            });
            case.check();
        }
        case.end()
    });
}

#[test]
fn the_order_of_answers_decides_nothing_that_lasts() {
    run(8, |world, steps| {
        let mut case = Case::new(world);
        for step in steps {
            case.step(step);
        }
        case.check_order_free();
        case.end()
    });
}
