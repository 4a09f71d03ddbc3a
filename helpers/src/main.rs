//! `fnd-helper`: the tasks that read untrusted bytes, and those that run as the user of a function.

use fnd_helper::task::Task;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match Task::of(&arguments) {
        Some(task) => task.run(),
        None => {
            // An error: standard error is closed. The exit code says the same.
            let _ = writeln!(
                std::io::stderr(),
                "error: fnd, fnd-spawner and fndctl start this program, not people"
            );
            ExitCode::from(2)
        }
    }
}
