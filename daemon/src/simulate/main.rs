//! The simulation of the daemon: `make simulate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    fnd_daemon::simulate::main()
}
