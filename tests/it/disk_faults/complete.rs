//! Checks that the table has every file that fnd writes: a file that no row names fails the test.

use super::table::{ROWS, matches};
use super::{call, queue};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;

const WARM: &str = "def handler(event, context):\n    print('called')\n    return 1\n";

/// Returns the path in a line of `strace -y`, if the call opens for writing, creates or renames.
fn written(line: &str) -> Option<String> {
    let (call, rest) = line.split_once('(')?;
    let call = call.rsplit(' ').next()?;
    let failed = line.contains("= -1 ");
    let opens = (call == "openat" || call == "open")
        && (rest.contains("O_WRONLY") || rest.contains("O_RDWR") || rest.contains("O_CREAT"));
    if failed || !opens {
        return None;
    }
    let name = rest.split('"').nth(1)?;
    if name.starts_with('/') {
        return Some(name.to_owned());
    }
    let directory = rest.split_once('<')?.1.split_once('>')?.0;
    Some(format!("{directory}/{name}"))
}

#[test]
fn every_file_that_fnd_writes_has_a_row() {
    require!(root, cgroup, strace);
    let mut fnd = Fnd::prepare(&Setup::default().detached());
    let metrics = fnd.path("metrics");
    std::fs::create_dir(&metrics).unwrap();
    let config = format!(
        "[metrics]\ntextfile = {:?}\n",
        metrics.join("fnd.prom").display().to_string()
    );
    std::fs::write(fnd.path("fnd.toml"), config).unwrap();
    fnd.drop_file("talks.sh", super::TALKS);
    fnd.drop_file("warm.py", WARM);
    // An earlier fnd admitted signed requests, so this one writes their file anew.
    let state = fnd.path("state/state");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("replays"), "").unwrap();
    let trace = fnd.path("log/trace");
    let words = [
        "strace",
        "-D",
        "-f",
        "-y",
        "-qqq",
        "-e",
        "trace=openat,open,creat",
        "-o",
    ];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    words.push(trace.display().to_string());
    fnd.start_behind(words);
    fnd.launch();
    fnd.wait_ready("talks");
    fnd.wait_ready("warm");
    // fnd checks whether a new file is complete, which makes a mark.
    fnd.drop_file("late.sh", super::TALKS);
    fnd.wait_ready("late");
    for n in 0..3 {
        call(&fnd, &n.to_string());
        let _ = fnd.wait_end(queue(&fnd, "1").expect("it is accepted"));
        assert_eq!(fnd.invoke("warm", "1").text(), "1");
    }
    assert_eq!(fnd.client().get("/v1/backup").status, 200);
    wait_until("the file of the metrics", PATIENCE, || {
        metrics.join("fnd.prom").exists().then_some(())
    });
    fnd.leave(Signal::SIGTERM);

    let text = std::fs::read_to_string(&trace).unwrap();
    let root = fnd.path("").display().to_string();
    let mine = |path: String| path.strip_prefix(&root).map(str::to_owned);
    let paths: BTreeSet<String> = text.lines().filter_map(written).filter_map(mine).collect();
    let (mut unknown, mut seen) = (Vec::new(), BTreeSet::new());
    for path in paths {
        match ROWS.iter().find(|row| matches(row.path, &path)) {
            Some(row) => drop(seen.insert(row.path)),
            None => unknown.push(path),
        }
    }
    assert!(
        unknown.is_empty(),
        "give these a row in tests/it/disk_faults/table.rs: {unknown:?}"
    );
    let gone: Vec<_> = ROWS
        .iter()
        .filter(|row| !seen.contains(row.path))
        .map(|row| row.path)
        .collect();
    assert!(
        gone.is_empty(),
        "nothing writes these any more, or this test does not have it written: {gone:?}"
    );
    fnd.start_behind(Vec::new());
    fnd.launch();
    fnd.finish();
}
