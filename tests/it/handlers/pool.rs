//! The pool: the number of workers, how long they live, how many calls each has.

use super::{ask, is_alive};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use serde_json::Value;
use std::collections::BTreeSet;

const PID: &str = "import os\ndef handler(event, context): return os.getpid()\n";

/// Makes calls at the same time and returns their answers.
fn together(fnd: &Fnd, name: &str, count: usize) -> Vec<Value> {
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..count).map(|_| scope.spawn(|| ask(fnd, name, ""))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

fn different(answers: &[Value]) -> usize {
    answers.iter().map(ToString::to_string).collect::<BTreeSet<_>>().len()
}

/// The count of all workers comes first.
#[test]
fn workers_of_pools() {
    let fnd = Fnd::start();
    a_worker_of_one_invocation_each_and_none_waits_for_its_start(&fnd);
    there_are_never_more_workers_than_the_pool_has(&fnd);
    workers_are_started_ahead_and_kept(&fnd);
    an_idle_worker_leaves_and_the_next_call_is_cold(&fnd);
    a_worker_is_replaced_after_so_many_calls(&fnd);
    many_calls_are_in_flight_in_one_worker(&fnd);
    a_worker_is_replaced_when_it_is_old(&fnd);
    fnd.finish();
}

fn there_are_never_more_workers_than_the_pool_has(fnd: &Fnd) {
    require!(cgroup);
    let code = "import os, time\ndef handler(event, context):\n    time.sleep(0.3)\n    return os.getpid()\n";
    fnd.install("crowd.py", "[pool]\nmax = 3\n", code);
    let answers = together(fnd, "crowd", 20);
    assert_eq!(answers.len(), 20);
    assert!((2..=3).contains(&different(&answers)), "{answers:?}");
}

fn workers_are_started_ahead_and_kept(fnd: &Fnd) {
    require!(cgroup);
    let gate = fnd.shared_directory("gate");
    let mark = format!(
        "import os\nopen('{}/%d' % os.getpid(), 'w').close()\ndef handler(event, context): return os.getpid()\n",
        gate.display()
    );
    fnd.install("ahead.py", "[pool]\nmin = 2\nidle = \"100ms\"\n", &mark);
    let loaded = || std::fs::read_dir(&gate).unwrap().count();
    wait_until("two workers to have loaded it", PATIENCE, || {
        (loaded() == 2).then_some(())
    });
    let (answer, view) = wait_until("a call that waits for no start", PATIENCE, || {
        Some(fnd.run("ahead", "")).filter(|(_, view)| !view.attempt_records[0].cold)
    });
    assert!(gate.join(answer.text()).exists());
    // A worker that is lost is replaced without a call.
    super::kill_process(answer.text().parse().unwrap());
    wait_until("another worker to have loaded it", PATIENCE, || {
        (loaded() == 3).then_some(())
    });
    assert!(view.attempt_records[0].worker.is_some());
}

fn an_idle_worker_leaves_and_the_next_call_is_cold(fnd: &Fnd) {
    require!(cgroup);
    fnd.install("rare.py", "[pool]\nidle = \"300ms\"\n", PID);
    let first = ask(fnd, "rare", "");
    wait_until("the idle worker to be gone", PATIENCE, || {
        (!is_alive(first.as_i64().unwrap())).then_some(())
    });
    let (answer, view) = fnd.run("rare", "");
    assert_ne!(answer.json::<Value>(), first);
    assert!(view.attempt_records[0].cold);
}

fn a_worker_is_replaced_after_so_many_calls(fnd: &Fnd) {
    require!(cgroup);
    fnd.install("worn.py", "[pool]\nmax = 1\nmax_invocations = 2\n", PID);
    let pids: Vec<Value> = (0..6).map(|_| ask(fnd, "worn", "")).collect();
    assert_eq!(different(&pids), 3, "{pids:?}");
    for pair in pids.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
}

/// Async handlers share one worker: each of eight calls ends when all eight have begun.
fn many_calls_are_in_flight_in_one_worker(fnd: &Fnd) {
    let manifest = "[pool]\nmax = 1\nconcurrency = 8\n";
    let python = "import asyncio, os\nall_begun = asyncio.Barrier(8)\nasync def handler(event, context):\n    print('of', context['invocation'])\n    await all_begun.wait()\n    return os.getpid()\n";
    fnd.install("py.py", manifest, python);
    shares_a_worker(fnd, "py");
    require!(deno);
    let deno = "let begun = 0;\nconst all = Promise.withResolvers();\nexport default async () => {\n  if (++begun === 8) all.resolve();\n  await all.promise;\n  return Deno.pid;\n};\n";
    fnd.install("deno.ts", manifest, deno);
    shares_a_worker(fnd, "deno");
}

#[track_caller]
fn shares_a_worker(fnd: &Fnd, name: &str) {
    let answers = together(fnd, name, 8);
    assert_eq!(different(&answers), 1, "{name}: {answers:?}");
}

fn a_worker_of_one_invocation_each_and_none_waits_for_its_start(fnd: &Fnd) {
    require!(cgroup);
    fnd.install("alone.py",
        "[pool]\nisolation = \"invocation\"\nspare = 2\n",
        "import os\ncount = 0\ndef handler(event, context):\n    global count\n    count += 1\n    return [os.getpid(), count]\n",
    );
    let mut pids = BTreeSet::new();
    let mut warm = 0;
    for _ in 0..6 {
        let (answer, view) = fnd.run("alone", "");
        let [pid, count]: [i64; 2] = answer.json();
        assert_eq!(count, 1);
        assert!(pids.insert(pid), "{pid} served twice");
        warm += usize::from(!view.attempt_records[0].cold);
        // The worker that served has ended; the spare ones are ready before the next call.
        wait_until("two spares", PATIENCE, || {
            let shims = |process: &&String| process.contains("shim.py");
            let processes = fnd.mark().processes();
            (processes.iter().filter(shims).count() == 2 && !is_alive(pid)).then_some(())
        });
    }
    assert!(warm >= 4, "only {warm} of 6 calls found a fresh worker ready");
}

/// A worker at its maximal age is replaced; if it is busy, it finishes its call first.
fn a_worker_is_replaced_when_it_is_old(fnd: &Fnd) {
    require!(cgroup);
    fnd.install("aged.py", "[pool]\nmin = 1\nmax = 1\nmax_age = \"700ms\"\n", PID);
    let first = ask(fnd, "aged", "");
    wait_until("the old worker to be gone", PATIENCE, || {
        (!is_alive(first.as_i64().unwrap())).then_some(())
    });
    let (answer, _) = fnd.run("aged", "");
    assert_ne!(answer.json::<Value>(), first);
    let code = "import time\ndef handler(event, context):\n    time.sleep(0.6)\n    return 1\n";
    fnd.install("long.py", "[pool]\nmax = 1\nmax_age = \"200ms\"\n", code);
    for _ in 0..2 {
        let (answer, view) = fnd.run("long", "");
        assert_eq!((answer.json::<Value>(), view.attempts), (Value::from(1), 1));
        assert!(view.attempt_records[0].cold, "each has a worker of its own");
    }
}
