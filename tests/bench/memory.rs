//! Memory of the daemon's processes, from `/proc/PID/smaps_rollup` (proc(5)).

use crate::table::Table;
use fnd_tests::Fnd;
use std::fs;

/// Adds resident and proportional memory of fnd and everything below it that is not a function.
pub(crate) fn measure(fnd: &Fnd, when: &str, table: &mut Table) {
    let (mut resident, mut proportional) = (0, 0);
    for pid in with_descendants(fnd.pid()) {
        let Some(name) = name_of(pid) else { continue };
        let Some((rss, pss)) = memory_of(pid) else { continue };
        (resident, proportional) = (resident + rss, proportional + pss);
        table.value(&format!("{name}, {when}: RSS / PSS"), format!("{rss} / {pss} KiB"));
    }
    table.value(
        &format!("together, {when}: RSS / PSS"),
        format!("{resident} / {proportional} KiB"),
    );
}

fn with_descendants(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        for task in fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

/// Returns what a process is called in the table: `fnd`, `fnd-helper --judge`, `fnd-helper --watch`, `fnd-spawner`, and its launchers.
fn name_of(pid: u32) -> Option<String> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = command
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned());
    let name = words
        .next()?
        .rsplit('/')
        .next()
        .map(str::to_owned)
        .filter(|name| !name.is_empty())?;
    let mode = words.find(|word| ["--judge", "--watch"].contains(&word.as_str()));
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let renamed = Some(comm.trim()).filter(|comm| !name.starts_with(comm));
    Some(if let Some(mode) = mode {
        format!("{name} {mode}")
    } else {
        renamed.map_or(name.clone(), |comm| format!("{name} ({comm})"))
    })
}

/// Returns resident and proportional memory of a process in KiB.
pub(crate) fn memory_of(pid: u32) -> Option<(u64, u64)> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let value = |key: &str| {
        let line = rollup.lines().find(|line| line.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some((value("Rss:")?, value("Pss:")?))
}
