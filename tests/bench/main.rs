//! Measures the cost of supervision against the same work without it, in the same run: `make bench`.
//!
//! It asserts nothing: on a shared machine, times differ by 30 % between runs, so only the ratios are meaningful.
//! Prints one table on standard output. Arguments name parts (see [`PARTS`]); without any, all are measured. `--quick` does a
//! tenth of the work. `FND_BENCH_ROUNDS` sets how often each thing is measured, `FND_BENCH_RECORD` names the history of figures.
//! `--compare BEFORE AFTER` compares two histories.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

mod asynchronous;
mod compare;
mod cpu;
mod drops;
mod files;
mod flood;
mod handlers;
mod http;
mod invocations;
mod lambda;
mod language;
mod listener;
mod load;
mod memory;
mod nats;
mod page;
mod peers;
mod pinned;
mod poor;
mod raw;
mod record;
mod relay;
mod schedules;
mod table;
mod workers;

use anyhow::Context as _;
use fnd_tests::{Fnd, Setup};
use handlers::Bench;
use language::Language;
use record::Recorder;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use table::Table;

/// The function that is measured: as little as bash can do.
const NOOP: &str = "#!/usr/bin/env bash\n# /// fnd\n# on_load = false\n# [pool]\n# max = 8\n# ///\n:\n";

/// The same without a sandbox, to see what the sandbox costs.
const OPEN: &str = "#!/usr/bin/env bash\n# /// fnd\n# on_load = false\n# [pool]\n# max = 8\n# [sandbox]\n# profile = \"off\"\n# ///\n:\n";

/// The profile that functions have on a machine.
const AS_SHIPPED: &str = "[sandbox]\nprofile = \"strict\"\n";

/// The parts that can be measured alone.
const PARTS: [&str; 14] = [
    "scripts",
    "handlers",
    "lambda",
    "pinned",
    "poor",
    "http",
    "asynchronous",
    "workers",
    "flood",
    "files",
    "page",
    "schedules",
    "drops",
    "nats",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--relay"] => relay::relay().map_err(Into::into),
        ["--echo"] => relay::echo().map_err(Into::into),
        ["--compare", before, after] => compare_files(before, after),
        _ => return measure_parts(arguments),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn compare_files(before: &str, after: &str) -> anyhow::Result<()> {
    let [before, after] = [before, after].map(|path| record::read(Path::new(path)).with_context(|| path.to_owned()));
    let (table, worse) = compare::compare(&before?, &after?);
    println!("{table}\n{worse} rows became more than 5 % worse");
    Ok(())
}

fn measure_parts(arguments: Vec<String>) -> ExitCode {
    let (flags, parts): (Vec<String>, Vec<String>) = arguments.into_iter().partition(|word| word.starts_with('-'));
    let unknown = flags.iter().find(|flag| *flag != "--quick");
    if let Some(unknown) = unknown.or(parts.iter().find(|part| !PARTS.contains(&part.as_str()))) {
        println!(
            "bench: there is no `{unknown}`: the parts are {}, the only option is --quick",
            PARTS.join(", ")
        );
        return ExitCode::from(2);
    }
    let part_of = if flags.is_empty() { 1 } else { 10 };
    let rounds = std::env::var("FND_BENCH_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(300 / part_of);
    let mut table = Table::new(Recorder::of_environment());
    for part in PARTS {
        if !parts.is_empty() && !parts.iter().any(|named| named == part) {
            continue;
        }
        table.begin(part);
        match part {
            "scripts" => measure_scripts(rounds, &mut table),
            "handlers" => measure_handlers(rounds, &mut table),
            "lambda" => lambda::measure(rounds, &mut table),
            "pinned" => pinned::measure(rounds, &mut table),
            "poor" => poor::measure(rounds, &mut table),
            "http" => listener::measure(rounds, &mut table),
            "asynchronous" => asynchronous::measure(rounds, 100_000 / part_of, &mut table),
            "workers" => workers::measure(rounds, 1_000 / part_of, &mut table),
            "flood" => flood::measure(rounds, (1 << 30) / part_of, &mut table),
            "files" => files::measure(rounds, 10_000 / part_of, &mut table),
            "page" => page::measure(rounds, 10_000 / part_of, &mut table),
            "schedules" => schedules::measure(10_000 / part_of, &mut table),
            "drops" => drops::measure(rounds, 100_000 / part_of, &mut table),
            _ => nats::measure(rounds, 10_000 / part_of, &mut table),
        }
    }
    println!("{table}");
    ExitCode::SUCCESS
}

/// Returns the set-up with the profile that functions have on a machine: the other tests have profile `off`.
fn as_shipped() -> Setup {
    Setup::default().config(AS_SHIPPED)
}

fn measure_scripts(rounds: usize, table: &mut Table) {
    let mut fnd = Fnd::prepare(
        &as_shipped()
            .file("noop.sh", NOOP)
            .file("open.sh", OPEN)
            .file("environment.sh", invocations::PRINTS_ENVIRONMENT),
    );
    let _run = run_directory_in_memory(&fnd);
    fnd.launch();
    fnd.wait_ready("noop");
    fnd.wait_ready("open");
    memory::measure(&fnd, "idle, 2 functions", table);
    invocations::measure(&fnd, rounds, table);
    memory::measure(&fnd, "after the runs", table);
    fnd.stop();
}

fn measure_handlers(rounds: usize, table: &mut Table) {
    let (python, deno) = (Language::python(), Language::deno());
    let languages: Vec<Language> = [Some(python), deno].into_iter().flatten().collect();
    let setup = handlers::setup(&languages);
    let mut fnd = Fnd::prepare(&setup);
    let _run = run_directory_in_memory(&fnd);
    fnd.launch();
    // A spin is refused where there is one CPU.
    let has_cpus = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    let mut with_spin = has_cpus.then(|| {
        let config = format!("{AS_SHIPPED}[node]\nspin = \"50us\"\n");
        Fnd::prepare(&setup.config(&config))
    });
    let _run_of_spin = with_spin.as_ref().map(run_directory_in_memory);
    if let Some(fnd) = &mut with_spin {
        fnd.launch();
    }
    let mut bench = Bench {
        fnd: &fnd,
        with_spin: with_spin.as_ref(),
        rounds,
        table,
    };
    for language in &languages {
        bench.measure(language, &peers::of_handlers(language.id));
    }
    bench.fndctl("python-warm");
    if languages.len() < 2 {
        table.value("deno", "not installed: scripts/setup.sh".to_owned());
    }
    fnd.stop();
    if let Some(fnd) = &mut with_spin {
        fnd.stop();
    }
}

/// Puts the run directory where it is on a machine: `/run` is in memory, and a status file replaced on a disk waits for it.
/// Not below `/dev/shm`: deno opens no socket below `/dev`. Without the right to mount, it stays where it is.
fn run_directory_in_memory(fnd: &Fnd) -> Option<InMemory> {
    in_memory(fnd.path("run"))
}

/// Mounts a file system in memory over a directory.
fn in_memory(path: PathBuf) -> Option<InMemory> {
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "mode=755", "fnd-bench"])
        .arg(&path)
        .status();
    mount.is_ok_and(|status| status.success()).then_some(InMemory(path))
}

/// A file system in memory; unmounted when it is dropped.
struct InMemory(PathBuf);

impl Drop for InMemory {
    fn drop(&mut self) {
        // At once, also if fnd still has files there. If it fails, the directory cannot be removed, and is found by that.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
