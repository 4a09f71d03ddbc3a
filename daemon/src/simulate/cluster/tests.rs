//! A few worlds of several machines; `make simulate CLUSTER=1` runs thousands.

use super::ClusterPlan;
use super::oracles::MessageOracles;
use crate::simulate::facts::{Began, Fact};
use crate::simulate::jetstream::JetStream;
use crate::simulate::rows::MessageRow;
use crate::simulate::seeds;
use crate::simulate::spawner::contents::SourceContent;
use fnd_core::records::StreamPlace;
use fnd_core::triggers::nats::delivery::LocalStep;
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};

const FIRST: u64 = 100;
const SEEDS: u64 = 8;

#[track_caller]
fn keeps_its_promises(plan: &ClusterPlan) -> u32 {
    let outcome = seeds::attempt_cluster(plan, true);
    if let Some(broken) = outcome.broken {
        let end = outcome.trace.len().saturating_sub(80);
        let end = outcome.trace[end..].join("\n");
        panic!(
            "{end}\nseed {seed}: {broken}\nthe whole trace: make simulate CLUSTER=1 SEED={seed}",
            seed = plan.seed
        );
    }
    outcome.invocations
}

#[test]
fn machines_without_faults_share_the_messages() {
    for seed in 1..=3 {
        let plan = ClusterPlan::without_faults(seed);
        let invocations = keeps_its_promises(&plan);
        assert!(invocations > 10, "seed {seed} has {invocations} runs");
    }
}

#[test]
fn every_message_ends_once_in_a_few_worlds() {
    for seed in FIRST..FIRST + SEEDS {
        keeps_its_promises(&ClusterPlan::of(seed));
    }
}

#[test]
fn clusters_that_have_failed_once_fail_no_more() {
    for seed in seeds::failed(true) {
        keeps_its_promises(&ClusterPlan::of(seed));
    }
}

#[test]
fn the_same_seed_has_the_same_history_on_several_machines() {
    let [first, second] = [(); 2].map(|()| seeds::attempt_cluster(&ClusterPlan::of(5), false));
    assert_eq!((first.hash, first.steps), (second.hash, second.steps));
}

fn place() -> StreamPlace {
    StreamPlace {
        stream: "F8".into(),
        created_ns: 1,
        sequence: 1,
    }
}

fn row(invocation: u128, step: LocalStep, is_ended_here: bool) -> MessageRow {
    MessageRow {
        invocation: InvocationId(invocation),
        key: "claims.a".to_owned(),
        place: place(),
        step,
        is_ended_here,
    }
}

/// Returns the oracle that such attempts of one message break: each with the function, the machine, the invocation and its number,
/// and the event after it. All ledgers have the invocations 1 and 2.
fn broken_by(function: &str, attempts: &[(usize, u128, u32, Option<Fact>)]) -> String {
    let mut oracles = MessageOracles::new(&ClusterPlan::without_faults(1));
    let message = |id: InvocationId| (id.0 <= 2).then(|| row(id.0, LocalStep::Open, false));
    let mut all = attempts.iter();
    let judged = all.try_for_each(|(machine, invocation, attempt, after)| {
        let began = Fact::Began(Began {
            worker: WorkerId(1),
            function: FunctionName::new(function).unwrap(),
            version: SourceContent(0).version(0),
            invocation: InvocationId(*invocation),
            attempt: *attempt,
            is_call: false,
        });
        oracles.see(*machine, &began, message)?;
        after.iter().try_for_each(|fact| oracles.see(*machine, fact, message))
    });
    judged.map_or_else(
        |broken| broken.split(':').next().unwrap_or_default().to_owned(),
        |()| "fine".to_owned(),
    )
}

#[test]
fn no_attempt_of_a_message_comes_again_or_beside_another() {
    let over = |invocation, attempt| Some(Fact::Over(InvocationId(invocation), attempt));
    let gone = || Some(Fact::Gone(WorkerId(1)));
    let again = [(0, 1, 1, over(1, 1)), (0, 1, 2, gone()), (1, 2, 3, None)];
    assert_eq!(broken_by("f8", &again), "fine");
    assert_eq!(broken_by("f9", &again), "O17", "no other machine may begin it");
    assert_eq!(broken_by("f8", &[(0, 1, 1, None), (1, 2, 2, None)]), "O16");
    assert_eq!(broken_by("f8", &[(0, 1, 1, over(1, 1)), (1, 2, 1, None)]), "O17");
    assert_eq!(broken_by("f8", &[(0, 3, 1, None)]), "O17", "no ledger has its message");
    assert_eq!(broken_by("after", &[(0, 3, 1, None)]), "fine", "it has none");
}

#[test]
fn each_message_needs_one_record_that_counts() {
    let server = JetStream::new(&[("F8", false)], 1);
    let mut oracles = MessageOracles::new(&ClusterPlan::without_faults(1));
    oracles.published(0, 7, place());
    let closed = |invocation| row(invocation, LocalStep::Closed, true);
    let superseded = row(3, LocalStep::Superseded, false);
    for right in [
        vec![vec![closed(1)], vec![]],
        vec![vec![superseded.clone()], vec![closed(1)]],
    ] {
        assert_eq!(oracles.at_end(&right, &server), Ok(()), "{right:?}");
    }
    for wrong in [
        vec![vec![], vec![]],
        vec![vec![closed(1)], vec![closed(2)]],
        vec![vec![superseded], vec![row(1, LocalStep::Ending, true)]],
    ] {
        let broken = oracles.at_end(&wrong, &server).unwrap_err();
        assert!(broken.starts_with("O18: message 7 "), "{broken}");
    }
    oracles.consumer_deleted(0);
    let unanswered = [vec![row(1, LocalStep::Ending, true)]];
    assert_eq!(oracles.at_end(&unanswered, &server), Ok(()));
    assert!(oracles.at_end(&[], &server).is_err());
    oracles.deleted(0);
    assert_eq!(oracles.at_end(&[], &server), Ok(()), "nobody had taken it");
}
